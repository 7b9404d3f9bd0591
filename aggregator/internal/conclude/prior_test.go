package conclude

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/notify"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// TestUnseenBy: unseenBy is true only if datasets, days, hashes of rows or splits show that a model was not trained on
// another night's test rows.
func TestUnseenBy(t *testing.T) {
	// at is the profile of a table from one day to another, rows that of one with these hashes of rows.
	at := func(from, to int) *nights.Profile {
		day := func(d int) time.Time { return created.AddDate(0, 0, d) }
		return &nights.Profile{Oldest: day(from), Newest: day(to)}
	}
	rows := func(hashes ...byte) *nights.Profile {
		p := &nights.Profile{}
		for _, h := range hashes {
			p.Prints = append(p.Prints, 0, 0, 0, 0, 0, 0, 0, h)
		}
		return p
	}
	byTime := func(train, calib float64) dataset.SplitRule {
		return dataset.SplitRule{By: dataset.SplitByTime, Column: "ts", Until: map[string]float64{
			dataset.TrainSplit: train, dataset.CalibSplit: calib}}
	}
	byUser := func(train float64) dataset.SplitRule {
		return dataset.SplitRule{By: dataset.SplitByHash, Column: "user", Shares: map[string]float64{"train": train}}
	}
	random := dataset.SplitRule{By: dataset.SplitByRandom}
	// of is the origin of a model trained on the dataset of that name.
	of := func(name string, split dataset.SplitRule, p *nights.Profile) *origin {
		return &origin{dataset: name, manifest: &dataset.Manifest{Split: split}, profile: p}
	}
	grown, refit := of("b", random, at(5, 6)), of("b", byTime(8, 10), nil)
	grown.grown, refit.refit = true, true
	refit.manifest.Split.Until[dataset.ValidSplit] = 9.5
	for name, tc := range map[string]struct {
		test, model *origin
		want        bool
	}{
		"unknown":                       {nil, of("b", random, nil), false},
		"its own dataset":               {of("a", random, nil), of("a", random, nil), true},
		"split at random, no record":    {of("a", random, nil), of("b", random, nil), false},
		"days before":                   {of("a", random, at(0, 1)), of("b", random, at(2, 3)), true},
		"days before what it grew from": {of("a", random, at(0, 1)), grown, false},
		"days after":                    {of("a", random, at(7, 8)), grown, true},
		"overlapping days":              {of("a", random, at(0, 5)), of("b", random, at(3, 8)), false},
		"other rows":                    {of("a", random, rows(1, 2)), of("b", random, rows(3, 4)), true},
		"a common row":                  {of("a", random, rows(1, 2)), of("b", random, rows(2, 4)), false},
		"by user":                       {of("a", byUser(.6), nil), of("b", byUser(.6), nil), true},
		"by user, with other shares":    {of("a", byUser(.6), nil), of("b", byUser(.7), nil), false},
		"windows by time, test later":   {of("a", byTime(7, 9), nil), of("b", byTime(8, 10), nil), true},
		"trained on valid, too":         {of("a", byTime(7, 9), nil), refit, false},
		"windows by time, test within":  {of("a", byTime(1, 3), nil), of("b", byTime(8, 10), nil), false},
	} {
		must.Equal(t, tc.test.unseenBy(tc.model), tc.want, "%s: the test rows are unseen", name)
	}
}

// TestRowsCountOnce: sharesTestRows finds nights of which more than .9 of the test rows are the same, by their datasets
// or windows, so that these count once. A window of 180 days has 18 days of test rows, of which the window a day later
// has 17 (.94), and the one two days later 16 (.89); a day after one of 90 days, it is 8 of 9. In a whole comparison,
// two nights with the same table give one night's rows, the newer version's.
func TestRowsCountOnce(t *testing.T) {
	// window is the origin of a table of so many days, up to day end, whose last tenth is test. With ripe, as many
	// newer days follow whose labels are not final.
	window := func(name string, days, end int, column string, ripe int) *origin {
		at := created.AddDate(0, 0, end)
		o := &origin{dataset: name, manifest: &dataset.Manifest{Split: dataset.SplitRule{By: dataset.SplitByTime,
			Column: column, Until: map[string]float64{dataset.TrainSplit: 1,
				dataset.CalibSplit: float64(at.Unix()) - 86400*float64(days)/10}}},
			profile: &nights.Profile{Newest: at}}
		if ripe > 0 {
			o.profile.Newest = at.AddDate(0, 0, ripe)
			o.manifest.About.Unripe = &dataset.Unripe{Until: at}
		}
		return o
	}
	newer, random := window("b", 180, 100, "ts", 0), window("a", 180, 99, "ts", 0)
	random.manifest.Split.By = dataset.SplitByRandom
	for name, tc := range map[string]struct {
		old, newer *origin
		want       bool
	}{
		"its own dataset":           {newer, newer, true},
		"a window of the day after": {window("a", 180, 99, "ts", 0), newer, true},
		"of two days after":         {window("a", 180, 98, "ts", 0), newer, false},
		"90 days, a day after":      {window("a", 90, 99, "ts", 0), window("b", 90, 100, "ts", 0), false},
		"28 days, a day after":      {window("a", 28, 99, "ts", 0), window("b", 28, 100, "ts", 0), false},
		"days":                      {window("a", 1, 99, "ts", 0), window("b", 1, 100, "ts", 0), false},
		"days with unripe rows":     {window("a", 1, 99, "ts", 3), window("b", 1, 100, "ts", 3), false},
		"another column":            {window("a", 180, 99, "day", 0), newer, false},
		"split at random":           {random, newer, false},
	} {
		must.Equal(t, tc.old.sharesTestRows(tc.newer), tc.want, "%s: the same test rows", name)
	}

	table := clicks(2000, 5)
	first := champion(t, table)
	newWorld(t, options{into: first, sweep: "night-2", leaves: []int{7}, trees: 20, table: table}).mustConclude(t)
	third := newWorld(t, options{into: first, sweep: "night-3", trees: 40, table: clicks(2000, 6)})
	c := third.mustConclude(t)
	// The table has 321 test rows, about 15 % of 2,000; if both nights counted, there would be twice as many.
	contains(t, fmt.Sprint(c.Gate.Checks), "worse than version 2 on 321 rows of earlier nights: ")
}

// TestRowsThatTheModelHasSeen: if the second night's table has all rows of the first, and both are split at random, the
// models are not compared on the first night's test rows, since the new one may have been trained on them.
func TestRowsThatTheModelHasSeen(t *testing.T) {
	table := clicks(4000, 5)
	table.Split = "{by: random, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}"
	first := champion(t, table)
	again := clicks(4000, 5)
	again.Split = table.Split
	other := datasettest.Table(clicks(2000, 6))
	again.Edit = func(rows []byte) []byte { return append(rows, other[strings.Index(string(other), "\n")+1:]...) }
	c := newWorld(t, options{into: first, sweep: "night-2", trees: 40, table: again}).mustConclude(t)
	contains(t, c.Gate.Reason, "not compared on rows of earlier nights: the new model may have been trained on the "+
		"rows of version 1")
}

// withoutDay returns a table without the column day. more, rows as CSV without a header, are appended to its own.
func withoutDay(o datasettest.Options, more []byte) datasettest.Options {
	o.Edit = func(rows []byte) []byte {
		var out bytes.Buffer
		for line := range strings.Lines(string(rows) + string(more)) {
			cells := strings.Split(line, ",")
			out.WriteString(strings.Join(append(cells[:6:6], cells[7:]...), ","))
		}
		return out.Bytes()
	}
	return o
}

// TestRowsCountOnceWhateverTheColumns: the second night's table is the first one's without a column, so that the test
// rows of both are the same. The third night's model is compared on those of the newer night, or, if it needs that
// column, on those of the older.
func TestRowsCountOnceWhateverTheColumns(t *testing.T) {
	table := clicks(4000, 5)
	first := champion(t, table)
	second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{7}, trees: 20,
		table: withoutDay(table, nil)})
	g := second.mustConclude(t).Gate
	// Version 1 cannot score tonight's rows, which lack a column. About 15 % of the first night's 4,000 rows are test.
	contains(t, g.Reason, "no worse than version 1 on 617 rows of earlier nights: ")
	if !g.Sound {
		t.Fatalf("the second night: got %+v; want it sound", g)
	}
	for want, table := range map[string]datasettest.Options{
		"on 617 rows of earlier nights (version 1): ":             clicks(4000, 6),
		"worse than version 2 on 617 rows of earlier nights: log": withoutDay(clicks(4000, 6), nil)} {
		third := newWorld(t, options{into: second.fork(t), sweep: "night-3", trees: 40, table: table})
		contains(t, fmt.Sprint(third.mustConclude(t).Gate.Checks), want)
	}
}

// TestSeenRowsWhateverTheColumns: the second night's table has a column less, so that staging's hashes of whole rows
// have nothing in common with the first night's. The hashes of columns still show whether it has rows of the first
// night: with them the models are not compared on that night's test rows, without them they are. A hash of a row has
// eight bytes, so the records of the two nights have one each, row-of-1 and row-of-2.
func TestSeenRowsWhateverTheColumns(t *testing.T) {
	table, next := clicks(4000, 5), clicks(4000, 6)
	table.Split = "{by: random, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}"
	next.Split = table.Split
	first := champion(t, table)
	record := func(hash string, columns ...string) nights.Record {
		p := &nights.Profile{Rows: 4000, Prints: []byte(hash)}
		for _, name := range columns {
			p.Columns = append(p.Columns, nights.Column{Name: name, Kind: nights.None})
		}
		return nights.Record{Profile: p}
	}
	first.staged(t, record("row-of-1", "site", "day"))
	_, old, _ := bytes.Cut(datasettest.Table(table), []byte("\n"))
	for want, more := range map[string][]byte{
		"no worse than version 1 on 611 rows of earlier nights: ":                                 nil,
		"on rows of earlier nights, the new model may have been trained on the rows of version 1": old,
	} {
		second := newWorld(t, options{into: first.fork(t), sweep: "night-2", trees: 40, table: withoutDay(next, more)})
		second.staged(t, record("row-of-2", "site"))
		g := second.mustConclude(t).Gate
		contains(t, g.Reason+fmt.Sprint(g.Checks), want)
	}
}

// changed returns a click table in which the rows of every second site are clicked with another probability: (15 + the
// site's number) %, which is how many of the numbers 0 to 99 are 85 - site or more.
func changed(rows int, seed uint64) datasettest.Options {
	return edited(rows, seed, func(r *rand.Rand, header bool, row []string) []string {
		if site, err := strconv.Atoi(strings.TrimPrefix(row[2], "site")); !header && err == nil && site%2 == 0 {
			row[columnClick] = strconv.Itoa(min(r.IntN(100)/(85-site), 1))
		}
		return row
	})
}

// TestAChangeThatLasts: a night that is unlike those before is held back. If the next night is like it, the change
// lasts: the version that was held back is vindicated. If the next night is like those before, it was a bad night,
// and nothing is. In both cases the next night's model is promoted.
func TestAChangeThatLasts(t *testing.T) {
	first := champion(t, clicks(12_000, 5))
	second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{15}, trees: 60,
		table: changed(12_000, 6)})
	held := second.mustConclude(t)
	if held.Gate.Promoted || held.Gate.Sound {
		t.Fatalf("the night of the change: got %+v; want it held back", held.Gate)
	}

	for name, tc := range map[string]struct {
		table      datasettest.Options
		vindicated int
	}{"it lasts": {changed(12_000, 7), 2}, "it was a bad night": {clicks(12_000, 7), 0}} {
		t.Run(name, func(t *testing.T) {
			night := newWorld(t, options{into: second.fork(t), sweep: "night-3", leaves: []int{15}, trees: 60,
				table: tc.table})
			c := night.mustConclude(t)
			if !c.Gate.Promoted || c.Gate.Vindicated != tc.vindicated {
				t.Errorf("promoted %t, vindicated %d: %s; want it promoted, and %d", c.Gate.Promoted,
					c.Gate.Vindicated, c.Gate.Reason, tc.vindicated)
			}
			t.Log(c.Gate.Reason)
		})
	}
}

// TestALastingChangeIsAcceptedOnce: from one night on there are many more clicks. If a person accepts that night as an
// exception, it makes no champion, since it is worse on rows of earlier nights. If they accept it as lasting, it does,
// and so does the next night, which nobody has to accept.
func TestALastingChangeIsAcceptedOnce(t *testing.T) {
	first := champion(t, clicks(12_000, 5))
	for lasting, promoted := range map[bool]bool{false: false, true: true} {
		second := newWorld(t, options{into: first.fork(t), sweep: "night-2", leaves: []int{15}, trees: 60,
			table: relabeled(12_000, 6, more(0.25))})
		second.staged(t, nights.Record{Findings: []nights.Finding{{Code: nights.CodeLabelRate, Level: nights.Blocking,
			Text: "twice as many"}},
			Accepted: &nights.Acceptance{By: "ann", Why: "a new button", At: created, Lasting: lasting}})
		c := second.mustConclude(t)
		if c.Gate.Promoted != promoted {
			t.Errorf("accepted as lasting %t: got promoted %t, want %t: %s", lasting, c.Gate.Promoted, promoted,
				c.Gate.Reason)
		}
		if !promoted {
			continue
		}
		contains(t, c.Gate.Reason, "ann has accepted a lasting change: a new button")
		third := newWorld(t, options{into: second, sweep: "night-3", leaves: []int{15}, trees: 60,
			table: relabeled(12_000, 7, more(0.25))})
		c = third.mustConclude(t)
		if !c.Gate.Promoted {
			t.Errorf("the night after: got %s; want it promoted", c.Gate.Reason)
		}
	}
}

// TestStanding: the conclusion of a night without a new champion says which version is the champion, and how many such
// nights there were in a row. After sweep.ManyNights its notification is urgent. Night 4 has no winner, and so no
// version, and counts like the others.
func TestStanding(t *testing.T) {
	w := champion(t, clicks(4000, 5))
	for night := 2; night <= 4; night++ {
		w = newWorld(t, options{into: w, sweep: sweep.ID(fmt.Sprint("night-", night)), leaves: []int{2},
			table: clicks(4000, uint64(10+night)), change: func(p *sweep.Plan) {
				p.Spec.Gate.Promote = sweep.PromoteNever
				if night == 4 {
					p.Spec.Require = []string{"auc > 0.999"}
				}
			}})
		w.now = created.Add(time.Hour).AddDate(0, 0, night-1)
		c := w.mustConclude(t)
		if s := c.Standing; s == nil || s.Champion != 1 || s.Nights != night-1 || s.Model != "ctr" ||
			(c.Outcome == sweep.OutcomeNoWinner) != (night == 4) {
			t.Fatalf("night %d: got %s and %+v; want a winner until night 4, champion 1, and night %d in a row", night,
				c.Outcome, s, night-1)
		}
		m := notify.ConcludedMessage(c, "", "", time.Time{})
		if urgent := strings.HasPrefix(m.Title(), "URGENT"); urgent != (night-1 >= sweep.ManyNights) {
			t.Errorf("night %d: the title is %q; want it urgent after %d bad nights, and not before", night, m.Title(),
				sweep.ManyNights)
		}
		if night == 4 {
			contains(t, strings.Join(m.Lines(), "; "),
				"3 nights in a row without a new champion; ctr version 1 is 3 days old")
		}
	}
}

// regrettable returns the sweep of night 3, not concluded yet. Version 1 is a good model; version 2, a small one, was
// promoted after it because of a wide margin. So night 3 should show that version 2 is worse. changes are for its plan.
func regrettable(t *testing.T, onRegret string, changes ...func(*sweep.Plan)) *world {
	t.Helper()
	first := newWorld(t, options{leaves: []int{7}, trees: 60, table: clicks(12_000, 5)})
	first.mustConclude(t)
	second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{2}, trees: 12,
		table: clicks(12_000, 6), change: func(p *sweep.Plan) { p.Spec.Gate.Margin = 1 }})
	if c := second.mustConclude(t); !c.Gate.Promoted {
		t.Fatalf("the worse model: got %+v; want it promoted", c.Gate)
	}
	return newWorld(t, options{into: second, sweep: "night-3", leaves: []int{2}, trees: 18,
		table: clicks(12_000, 7),
		change: func(p *sweep.Plan) {
			p.Spec.Gate.OnRegret = onRegret
			for _, change := range changes {
				change(p)
			}
		}})
}

// TestTheNextNightTakesBack: if tonight's rows show that last night's champion is worse than the one before it, the
// decision says so, and the champion is rolled back; not with gate.on_regret: tell, nor with gate.promote: never.
func TestTheNextNightTakesBack(t *testing.T) {
	never := func(p *sweep.Plan) { p.Spec.Gate.Promote = sweep.PromoteNever }
	for name, tc := range map[string]struct {
		w        *world
		champion int // 1 after a rollback, 3 after a promotion
	}{
		"rollback": {regrettable(t, sweep.RegretRollback), 1},
		"tell":     {regrettable(t, sweep.RegretTell), 3},
		"never":    {regrettable(t, "", never), 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.w.mustConclude(t)
			if r := c.Gate.Regret; r == nil || r.Version != 2 || r.TakenBack != (tc.champion == 1) {
				t.Fatalf("got the regret %+v; want version 2, taken back only if the champion becomes version 1", r)
			}
			contains(t, c.Gate.Reason, "version 2 is worse than version 1 on")
			last := tc.w.championIs(t, tc.champion).Last
			if tc.champion == 1 && (last.Kind != registry.RolledBack || last.By != registry.ByGate) {
				t.Errorf("the last move is %+v, want a rollback by the gate", last)
			}
		})
	}
}

// staged writes r as the record of staging for the world's dataset; names and, if it has none, the profile are filled
// in.
func (w *world) staged(t *testing.T, r nights.Record) {
	t.Helper()
	ref := w.plan.Dataset
	r.Format, r.Dataset, r.Version, r.Profile = 1, ref.Name, ref.Version, cmp.Or(r.Profile, &nights.Profile{})
	text := must.Get(r.Encode())(t)
	overwrite(t, w.datasets, sweep.DatasetNight(ref.Name, ref.Version), string(text))
}

// TestADoubtedNightTakesNothingBack: if staging warns of tonight's rows, a champion that is worse on them stays. If the
// next night, with the same warning, shows the same, it is taken back.
func TestADoubtedNightTakesNothingBack(t *testing.T) {
	warning := nights.Record{Against: []string{"an earlier one"}, Findings: []nights.Finding{{
		Code: nights.CodeRepeatedRows, Level: nights.Warning, Text: "7 % of the rows occur more than once"}}}
	// No model gains so much that it is promoted, so only taking back moves the champion: it is version 2 after
	// night 3, and 1 after night 4.
	keep := func(p *sweep.Plan) { p.Spec.Gate.Promote = sweep.PromoteAuto; p.Spec.Gate.MinGain = new(10.) }
	w := regrettable(t, "", keep)
	w.staged(t, warning)
	for night := 3; ; night++ {
		c := w.mustConclude(t)
		if want := "7 % of the rows occur more than once"; c.Warned != want {
			t.Errorf("night %d: the conclusion says %q of the table, want %q", night, c.Warned, want)
		}
		g := c.Gate
		w.championIs(t, 5-night)
		if r := g.Regret; r == nil || r.Version != 2 || r.TakenBack != (night == 4) {
			t.Fatalf("night %d: got the regret %+v; want version 2, taken back by the second such night", night,
				g.Regret)
		}
		if night == 4 {
			break
		}
		contains(t, g.Reason, "it stays unless the next night says the same, since tonight's rows are doubted "+
			"(warning: 7 %")
		w = newWorld(t, options{into: w, sweep: "night-4", leaves: []int{2}, trees: 12,
			table: clicks(12_000, 11), change: keep})
		w.staged(t, warning)
	}
}

// TestARejectedNightTakesNothingBack: night 4 has too many clicks by mistake. They favour version 2, of a night that
// had more clicks, over the champion, version 3. But the gate rejects the model trained on night 4, so its rows are
// doubted: the regret is told, and the champion stays.
func TestARejectedNightTakesNothingBack(t *testing.T) {
	var w *world
	for night, share := range []float64{0, 0.06, 0, 0.12} {
		w = newWorld(t, options{into: w, sweep: sweep.ID(fmt.Sprint("night-", night+1)), leaves: []int{7}, trees: 40,
			table: relabeled(12_000, uint64(5+night), more(share)), change: func(p *sweep.Plan) {
				if night < 3 {
					p.Spec.Gate.Margin = 1
				}
			}})
		c := w.mustConclude(t)
		t.Log(c.Gate.Reason)
		if night < 3 && !c.Gate.Promoted {
			t.Fatalf("night %d: got %s; want it promoted", night+1, c.Gate.Reason)
		}
		if night == 3 && (c.Gate.Regret == nil || c.Gate.Regret.TakenBack) {
			t.Errorf("got the regret %+v; want it told, and nothing taken back", c.Gate.Regret)
		}
	}
	w.championIs(t, 3)
}

// TestWrongLabelsTakeNothingBack: on inverted labels the better champion looks worse than the one before it. The
// night is blocked for its labels, and such a night neither takes a champion back nor vindicates a version.
func TestWrongLabelsTakeNothingBack(t *testing.T) {
	first := newWorld(t, options{leaves: []int{2}, trees: 12, table: clicks(12_000, 5)})
	first.mustConclude(t)
	second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{7}, trees: 60, table: clicks(12_000, 6)})
	if c := second.mustConclude(t); !c.Gate.Promoted {
		t.Fatalf("the better model: got %+v; want it promoted", c.Gate)
	}
	w := newWorld(t, options{into: second, sweep: "night-3", leaves: []int{7}, trees: 40, table: relabeled(12_000, 7,
		inverted)})
	c := w.mustConclude(t)
	if c.Gate.Verdict != sweep.VerdictBlocked || c.Gate.Regret != nil || c.Gate.Vindicated != 0 {
		t.Errorf("got %+v; want the night blocked, and nothing regretted or vindicated", c.Gate)
	}
	w.championIs(t, 2)
}

// TestMinGainCountsEarlierNights: the gain that gate.min_gain asks for is measured on tonight's rows and those of
// earlier nights, also if the latest sound version is not the champion, as after a night that gained too little.
func TestMinGainCountsEarlierNights(t *testing.T) {
	demand := func(least float64) func(*sweep.Plan) {
		return func(p *sweep.Plan) { p.Spec.Gate.MinGain = &least }
	}
	first := champion(t, clicks(8000, 5))
	second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{5}, trees: 14,
		table: clicks(8000, 6), change: demand(10)})
	if c := second.mustConclude(t); c.Gate.Promoted || !c.Gate.Sound {
		t.Fatalf("got %+v; want a sound version that gained too little", c.Gate)
	}
	w := newWorld(t, options{into: second, sweep: "night-3", leaves: []int{7}, trees: 40,
		table: clicks(8000, 7), change: demand(0.0001)})
	g := w.mustConclude(t).Gate
	for _, check := range g.Checks {
		if check.Name == "gain" {
			if check.Rows <= g.Rows {
				t.Errorf("got %d rows, %s; want more than the %d of tonight", check.Rows, check.Reason, g.Rows)
			}
			return
		}
	}
	t.Errorf("got the checks %+v; want one of the gain", g.Checks)
}

// TestTakenBackOnce: an aggregator that takes a champion back dies at its k-th write to the registry, before or after
// that has reached the store. The next one comes to the same regret, and the history has one rollback.
func TestTakenBackOnce(t *testing.T) {
	w := regrettable(t, "")
	sweeps, models := w.sweeps, w.models
	for k := int64(1); ; k++ {
		for _, landed := range []bool{false, true} {
			w.sweeps, w.models = without(t, sweeps), without(t, models)
			puts := &atomic.Int64{}
			a := w.aggregator()
			a.Registry = registry.New(dying(w.models, puts, k, landed))
			if _, err := a.Consider(t.Context(), w.plan.Sweep); err == nil {
				if k < 5 {
					t.Fatalf("it died nowhere after %d writes, want at least 5", k)
				}
				return
			}
			c := w.mustConclude(t)
			if c.Gate.Promoted || c.Gate.Regret == nil || !c.Gate.Regret.TakenBack {
				t.Errorf("died at write %d (landed %t): got %+v; want version 2 taken back", k, landed, c.Gate)
			}
			rollbacks := 0
			for e, err := range registry.New(w.models).Moves(t.Context(), "ctr", registry.Champion) {
				must.Do(t, err)
				if e.Kind == registry.RolledBack {
					rollbacks++
				}
			}
			if rollbacks != 1 {
				t.Errorf("died at write %d (landed %t): %d rollbacks, want 1", k, landed, rollbacks)
			}
		}
	}
}

// TestPromotedByHandOnly: with gate.promote: by-hand, a version that passes is not promoted, and the decision says why.
// The next night's model is compared with it, not only with the older champion.
func TestPromotedByHandOnly(t *testing.T) {
	first := champion(t, clicks(8000, 5))
	byHand := func(p *sweep.Plan) { p.Spec.Gate.Promote = sweep.PromoteByHand }
	second := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{7}, trees: 60,
		table: clicks(8000, 6), change: byHand})
	c := second.mustConclude(t)
	if c.Gate.Promoted || !c.Gate.Passed || !c.Gate.Sound || c.Verdict() != sweep.VerdictNotPromoted {
		t.Errorf("got %+v; want it to pass, and not to be promoted", c.Gate)
	}
	contains(t, c.Gate.Reason, "it passes, but is not promoted because gate.promote is by-hand")
	if c.Gate.Promotes != sweep.PromoteByHand {
		t.Errorf("kept from going live by gate.promote %q, want %q", c.Gate.Promotes, sweep.PromoteByHand)
	}
	third := newWorld(t, options{into: second, sweep: "night-3", leaves: []int{2}, trees: 12, table: clicks(8000, 7)})
	c = third.mustConclude(t)
	if c.Gate.Promoted {
		t.Errorf("got %+v; want a model that is worse than last night's held back, though the champion is older",
			c.Gate)
	}
	contains(t, c.Gate.Reason, "worse than version 2")
}

// TestLevelsThatAreGone: of an earlier night's rows, stillSeen leaves out those of a campaign that is gone tonight,
// unless it was rare. It keeps all rows if every campaign is gone. The column night, which is new each night, changes
// nothing.
func TestLevelsThatAreGone(t *testing.T) {
	sample := func(campaigns ...int64) *dataset.Sample {
		s := &dataset.Sample{Names: []string{"campaign", "night"}}
		s.Columns = []dataset.Values{{Type: dataset.Int, Int: campaigns}, {Type: dataset.Int}}
		for i := range campaigns {
			s.Row = append(s.Row, uint32(i))
			s.Columns[1].Int = append(s.Columns[1].Int, int64(len(campaigns)))
		}
		return s
	}
	repeat := func(of int64, n int) []int64 {
		out := make([]int64, n)
		for i := range out {
			out[i] = of
		}
		return out
	}
	then := sample(append(append(repeat(1, 300), repeat(2, 30)...), repeat(3, 5)...)...)
	if got := len(stillSeen(then, sample(repeat(1, 100)...))); got != 305 {
		t.Errorf("%d rows are left, want 305: those of campaign 2 are gone, and 3 was rare", got)
	}
	if got := len(stillSeen(then, sample(repeat(9, 100)...))); got != 335 {
		t.Errorf("%d rows are left, want all 335 when every campaign is gone: that is no end of a campaign", got)
	}
}
