package conclude

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/aggregator/internal/judge"
	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// edited returns a click table each of whose rows is replaced by what edit makes of it; header is true for the row of
// names. r is a generator by the seed.
func edited(rows int, seed uint64, edit func(r *rand.Rand, header bool, row []string) []string) datasettest.Options {
	o := clicks(rows, seed)
	o.Edit = func(table []byte) []byte {
		all, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
		if err != nil {
			panic(err)
		}
		r := rand.New(rand.NewPCG(seed, 99))
		var out bytes.Buffer
		w := csv.NewWriter(&out)
		for i, row := range all {
			if err := w.Write(edit(r, i == 0, row)); err != nil {
				panic(err)
			}
		}
		w.Flush()
		return out.Bytes()
	}
	return o
}

// relabeled returns a click table with other labels, of what they were.
func relabeled(rows int, seed uint64, click func(r *rand.Rand, was string) string) datasettest.Options {
	return edited(rows, seed, func(r *rand.Rand, header bool, row []string) []string {
		if !header {
			row[columnClick] = click(r, row[columnClick])
		}
		return row
	})
}

// more returns a function for relabeled that makes so large a share of the rows positive, whatever they were.
func more(share float64) func(*rand.Rand, string) string {
	return func(r *rand.Rand, was string) string {
		if r.Float64() < share {
			return "1"
		}
		return was
	}
}

// inverted is a function for relabeled that makes positive rows negative, and the other way round.
func inverted(_ *rand.Rand, was string) string { return map[string]string{"0": "1", "1": "0"}[was] }

// Columns of the click table.
const (
	columnHour  = 3
	columnAge   = 4
	columnClick = 7
)

// champion concludes a first night on a table, and checks that its version is promoted.
func champion(t *testing.T, o datasettest.Options) *world {
	t.Helper()
	w := newWorld(t, options{leaves: []int{5}, trees: 12, table: o})
	if c := w.mustConclude(t); !c.Gate.Promoted || c.Gate.Verdict != sweep.VerdictPromoted {
		t.Fatalf("the first night: %+v; want it promoted", c.Gate)
	}
	return w
}

// TestBrokenLabelsDoNotGoLive: if tonight's labels are broken, in train and test alike, the night's version is
// registered but not promoted: rows of an earlier night show it.
func TestBrokenLabelsDoNotGoLive(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long: run it without -short")
	}
	first := champion(t, clicks(20_000, 5))
	nights := 1
	for name, click := range map[string]func(r *rand.Rand, was string) string{
		"a third lost": func(r *rand.Rand, was string) string {
			if r.IntN(3) == 0 {
				return "0"
			}
			return was
		},
		"inverted": inverted,
		"all over": func(r *rand.Rand, _ string) string { return strconv.Itoa(r.IntN(2)) },
		"shuffled": func(r *rand.Rand, _ string) string { // 1 in one row of five, whichever it is
			return strconv.Itoa(min(r.IntN(100)/80, 1))
		},
		"too many": more(0.25),
	} {
		t.Run(name, func(t *testing.T) {
			nights++
			c := newWorld(t, options{into: first, sweep: sweep.ID(fmt.Sprintf("night-%d", nights)),
				leaves: []int{7}, trees: 40, table: relabeled(20_000, 6, click)}).mustConclude(t)
			// either part may find out first
			held := c.Gate.Verdict == sweep.VerdictNotPromoted || c.Gate.Verdict == sweep.VerdictBlocked
			if c.Version == 0 || c.Gate.Promoted || !held {
				t.Errorf("version %d, %s: %s; want it registered, and not promoted or blocked", c.Version,
					c.Gate.Verdict, c.Gate.Reason)
			}
			contains(t, c.Gate.Reason, "earlier nights")
			t.Log(c.Gate.Reason)
		})
	}
}

// TestALeakIsRefused: a model with a column that all but gives away the label is not promoted, on the first night or
// later, because the column has 90 % of the gain or more. It is 4.2 times the label plus noise of deviation 1, so its
// AUC is the normal distribution function at 4.2 / sqrt(2), .9985.
func TestALeakIsRefused(t *testing.T) {
	leak := func(r *rand.Rand, header bool, row []string) []string {
		if header {
			return append(row, "leaked")
		}
		click, _ := strconv.ParseFloat(row[columnClick], 64)
		return append(row, fmt.Sprintf("%.4f", 4.2*click+r.NormFloat64()))
	}
	first := newWorld(t, options{leaves: []int{15}, trees: 40, table: edited(8000, 5, leak)})
	c := first.mustConclude(t)
	if c.Gate.Promoted || c.Test["auc"] < 0.99 {
		t.Errorf("on the first night: %+v, test %v; want it held back, with an AUC above .99", c.Gate, c.Test)
	}
	contains(t, c.Gate.Reason, `column "leaked" has 9`)

	honest := champion(t, clicks(8000, 6))
	later := newWorld(t, options{into: honest, sweep: "night-2", leaves: []int{15}, trees: 40, table: edited(8000, 5,
		leak)})
	c = later.mustConclude(t)
	if c.Gate.Promoted {
		t.Errorf("later: %+v; want it held back", c.Gate)
	}
	contains(t, c.Gate.Reason, `column "leaked" has 9`)
}

// TestOtherSchemas: without a column that the champion needs, earlier nights' rows decide. With a column that earlier
// nights did not have, tonight's rows decide. With both, nothing can be compared, and a person has to promote. So it is
// without a column where a person has accepted a lasting change, after which earlier rows say nothing.
func TestOtherSchemas(t *testing.T) {
	dropping := func(_ *rand.Rand, _ bool, row []string) []string {
		return slices.Delete(row, columnHour, columnHour+1)
	}
	with := func(r *rand.Rand, header bool, row []string) []string {
		if header {
			return append(row, "news")
		}
		click, _ := strconv.ParseFloat(row[columnClick], 64)
		return append(row, fmt.Sprintf("%.4f", click+2*r.NormFloat64()))
	}
	both := func(r *rand.Rand, header bool, row []string) []string {
		return dropping(r, header, with(r, header, row))
	}

	// About 15 % of the rows are test: of 60,000 the first night's version keeps 9,162, and tonight 6,116 of 40,000
	// are.
	first := champion(t, clicks(60_000, 5))
	for i, tc := range []struct {
		name    string
		edit    func(*rand.Rand, bool, []string) []string
		verdict sweep.Verdict
		says    []string
	}{
		{"without", dropping, sweep.VerdictPromoted, []string{`version 1 cannot score them: it needs the column "hour"`,
			"no worse than version 1 on 9,162 rows of earlier nights: "}},
		{"with", with, sweep.VerdictPromoted, []string{"better than version 1 on 6,116 sampled test rows",
			`the new model cannot score those of version 1: it needs the column "news"`}},
		{"both", both, sweep.VerdictNotComparable, []string{"version 1 cannot be compared",
			`it needs the column "hour"`, `it needs the column "news"`, "by hand"}},
		{"lasting, without", dropping, sweep.VerdictNotComparable, []string{"version 1 cannot be compared",
			`it needs the column "hour"`, "ann has accepted a lasting change", "by hand"}},
	} {
		night := newWorld(t, options{into: first.fork(t), sweep: sweep.ID(fmt.Sprintf("night-%d", i+2)),
			leaves: []int{15}, trees: 100, table: edited(40_000, 8, tc.edit)})
		if strings.HasPrefix(tc.name, "lasting") {
			night.staged(t, nights.Record{Accepted: &nights.Acceptance{By: "ann", Why: "no hours", At: created,
				Lasting: true}})
		}
		c := night.mustConclude(t)
		if c.Gate.Verdict != tc.verdict {
			t.Errorf("%s a column: %s, want %s", tc.name, c.Gate.Verdict, tc.verdict)
		}
		contains(t, c.Gate.Reason, tc.says...)
	}
}

// TestLackedColumns: the sentence about missing columns has singular or plural, and names five of them at most.
func TestLackedColumns(t *testing.T) {
	contains(t, lacksColumns([]string{`"a"`}).Error(), `needs the column "a", which is missing from`)
	contains(t, lacksColumns([]string{`"a"`, `"b"`}).Error(), `needs the columns "a", "b", which are missing from`)
	contains(t, lacksColumns(strings.Fields("a b c d e f g")).Error(),
		"needs the columns a, b, c, d, e and 2 more, which are missing from")
}

// TestReferenceRows: a version keeps its sampled test rows with their labels, weights and groups, and returns them
// unchanged. A smaller number of them is evenly spread. Bytes that are not whole are an error.
func TestReferenceRows(t *testing.T) {
	w := champion(t, clicks(6000, 5))
	reg := registry.New(w.models)
	v := must.Get(reg.Get(t.Context(), "ctr", "1"))(t)
	data := must.Get(reg.ReadFile(t.Context(), v, scorer.FileReference))(t)
	got := must.Get(decodeReference(data))(t)
	h := must.Get(w.aggregator().readHoldout(t.Context(), w.plan))(t)
	if len(got.sample.Row) != len(h.testRows) || len(got.sample.Row) == 0 {
		t.Fatalf("%d rows kept of %d, want all of them", len(got.sample.Row), len(h.testRows))
	}
	for i, p := range h.testRows {
		if got.targets.Label[i] != h.test.Label[p.part] || got.sample.Row[i] != h.sample.Row[p.sample] ||
			got.sample.Column("price").TextOf(i) != h.sample.Column("price").TextOf(p.sample) {
			t.Fatalf("row %d: got label %v, number %d; want %v and %d, as in the dataset", i, got.targets.Label[i],
				got.sample.Row[i], h.test.Label[p.part], h.sample.Row[p.sample])
		}
	}

	// Weights and groups are kept as well, and a subset is evenly spread: ten of 100 rows are rows 0, 10 ... 90, and
	// row i has the weight i/4.
	full := referenceOf(h, 100)
	full.targets.Weight, full.targets.Group = make([]float32, 100), make([]uint64, 100)
	for i := range full.targets.Weight {
		full.targets.Weight[i], full.targets.Group[i] = float32(i)/4, 1<<63+uint64(i)
	}
	data = must.Get(full.encode())(t)
	got = must.Get(decodeReference(data))(t)
	thin := got.thinRows(10)
	if !slices.Equal(got.targets.Weight, full.targets.Weight) || !slices.Equal(got.targets.Group, full.targets.Group) ||
		len(thin.sample.Row) != 10 || thin.targets.Weight[9] != 90./4 {
		t.Errorf("got weights %v ..., groups %v ..., and the tenth of ten has weight %v; want those kept, and 22.5",
			got.targets.Weight[:3], got.targets.Group[:3], thin.targets.Weight[9])
	}
	for name, bad := range map[string][]byte{"cut": data[:len(data)/2], "empty": nil} {
		if _, err := decodeReference(bad); err == nil {
			t.Errorf("%s rows are decoded without an error, want one", name)
		}
	}
	if plain, err := got.sample.Encode(); err != nil {
		t.Error(err)
	} else if _, err := decodeReference(plain[:8]); err == nil {
		t.Error("a head without a body is decoded without an error, want one")
	}
}

// TestChampionsOf: championsOf tells the versions that were the champion from those that were rolled back and have not
// come back since. A promotion to an older version counts as a rollback.
func TestChampionsOf(t *testing.T) {
	act := registry.Act{By: "test", Why: "a test", At: created}
	for _, tc := range []struct {
		moves        []int // promotions to a version, or, below 0, rollbacks to one
		live, undone []int // versions that were the champion, and that were rolled back
	}{
		{nil, nil, nil},
		{[]int{1, 2, 4}, []int{1, 2, 4}, nil},
		{[]int{1, 2, -1}, []int{1}, []int{2}},
		{[]int{1, 2, -1, 3, 2}, []int{1, 2}, []int{3}},
	} {
		reg := registry.New(blob.Memory())
		for k := range 4 {
			must.Get(reg.Register(t.Context(), "ctr", fmt.Sprint("night-", k), map[string][]byte{"a": {byte(k)}},
				registry.Info{At: created, By: "test"}))(t)
		}
		for _, to := range tc.moves {
			var err error
			if to < 0 {
				_, err = reg.Rollback(t.Context(), "ctr", registry.Champion, -to, registry.Expect{Any: true}, act)
			} else {
				_, err = reg.Promote(t.Context(), "ctr", to, registry.Expect{Any: true}, act)
			}
			must.Do(t, err)
		}
		want := map[int]reign{}
		for _, n := range tc.live {
			want[n] = wasChampion
		}
		for _, n := range tc.undone {
			want[n] = rolledBack
		}
		if got, err := (&Aggregator{Registry: reg}).championsOf(t.Context(), "ctr"); err != nil ||
			!maps.Equal(got, want) {
			t.Errorf("after the moves %v: %v, %v; want %v", tc.moves, got, err, want)
		}
	}
}

// refusing is a Contract that blocks every dataset for these reasons.
type refusing []string

func (c refusing) Blocked(context.Context, *sweep.Plan) ([]string, error) { return c, nil }

// TestBlockedData: a blocked dataset makes no champion, not even the first.
func TestBlockedData(t *testing.T) {
	w := newWorld(t, options{})
	a := w.aggregator()
	a.Contract = refusing{"a third of the labels is missing", "the newest row is three days old"}
	c := must.Get(a.Consider(t.Context(), w.plan.Sweep))(t)
	if c.Verdict() != sweep.VerdictBlocked || c.Gate.Promoted || c.Version != 1 {
		t.Errorf("version %d, verdict %s: %+v; want version 1, blocked", c.Version, c.Verdict(), c.Gate)
	}
	contains(t, c.Why(), "blocked: a third of the labels is missing; the newest row")
}

// TestShares: the shares of the gain are of columns, in descending order, and add up to 1, also for features that are
// made of several columns.
func TestShares(t *testing.T) {
	w := newWorld(t, options{})
	h := must.Get(w.aggregator().readHoldout(t.Context(), w.plan))(t)
	w.mustConclude(t)
	reg := registry.New(w.models)
	v := must.Get(reg.Get(t.Context(), "ctr", "1"))(t)
	got := must.Get(scorer.Open(t.Context(), reg, v))(t)
	defer got.Close()
	total := 0.0
	all := gainShares(got.Model, h.manifest.Encoding())
	for i, s := range all {
		total += s.Share
		if i > 0 && s.Share > all[i-1].Share {
			t.Errorf("got the shares %v, want them in descending order", all)
		}
	}
	if total < 1-1e-9 || total > 1+1e-9 || slices.ContainsFunc(all,
		func(s judge.Share) bool { return s.Column == "" }) {
		t.Errorf("shares %v add up to %v; want 1, each of a column", all, total)
	}
}

// TestGateAgainstTheChampion: a worse model does not replace the champion, and a better one does. Without a gate, any
// does. Concluding a sweep again, after others have changed the champion, keeps its version.
func TestGateAgainstTheChampion(t *testing.T) {
	first := newWorld(t, options{leaves: []int{7}, trees: 40, table: clicks(8000, 5)})
	if c := first.mustConclude(t); !c.Gate.Promoted {
		t.Fatalf("the first version: gate %+v; want it promoted", c.Gate)
	}
	// A worse model: a single tree of two leaves, from another table.
	worse := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{2}, trees: 1, table: clicks(20_000, 9)})
	c := worse.mustConclude(t)
	if c.Version != 2 || c.Gate.Passed || c.Gate.Promoted || c.Gate.Champion != 1 || c.Gate.Rows == 0 {
		t.Fatalf("a worse model: version %d, gate %+v; want version 2, not promoted over 1", c.Version, c.Gate)
	}
	contains(t, c.Gate.Reason, "worse than version 1 on 2,992 sampled test rows") // about 15 % of 20,000
	better := newWorld(t, options{into: first, sweep: "night-3", leaves: []int{7}, trees: 120,
		table: clicks(40_000, 9)})
	c = better.mustConclude(t)
	if c.Version != 3 || !c.Gate.Promoted || c.Gate.Champion != 1 || !(c.Gate.New < c.Gate.Old) {
		t.Fatalf("a better model: version %d, gate %+v; want version 3, promoted over 1", c.Version, c.Gate)
	}
	none := newWorld(t, options{into: first, sweep: "night-4", leaves: []int{2}, trees: 1, change: withoutGate})
	if c := none.mustConclude(t); !c.Gate.Promoted {
		t.Errorf("without a gate: %+v, want it promoted", c.Gate)
	}
	// The same sweep judged again, after others have changed the champion, keeps its version and does not change the
	// champion back.
	again := *better
	again.sweeps = without(t, better.sweeps, sweep.Names(better.plan.Sweep).Conclusion())
	if c := again.mustConclude(t); c.Version != 3 {
		t.Errorf("it is version %d, want 3", c.Version)
	}
}

// TestAMetricOfANewerBuild: a gate by a metric that this build does not know ends with a decision, and is not retried
// for ever: the version is registered, and a person is told to upgrade. Without a comparison the metric is not needed.
func TestAMetricOfANewerBuild(t *testing.T) {
	for against, want := range map[string]sweep.Verdict{sweep.AgainstChampion: sweep.VerdictNotComparable,
		sweep.AgainstNone: sweep.VerdictPromoted} {
		w := newWorld(t, options{leaves: []int{2}, trees: 1, change: func(p *sweep.Plan) {
			p.Spec.Gate = &sweep.Gate{Metric: "auc_of_2030", Against: against}
		}})
		c := w.mustConclude(t)
		if c.Version != 1 || c.Verdict() != want || c.Gate.Promoted != (want == sweep.VerdictPromoted) {
			t.Errorf("against %s: version %d, %+v; want version 1, %s", against, c.Version, c.Gate, want)
		}
		if want == sweep.VerdictNotComparable {
			contains(t, c.Gate.Reason, `unknown metric "auc_of_2030"`)
			contains(t, c.Gate.Reason, "version 1 is registered but was not promoted: upgrade the aggregator")
		}
	}
}

// TestSharesOfClasses: of several classes, the first trees of each class count for the shares of the gain. Here the
// first class uses column a alone and the two others b. If only the first trees of all counted, a might look like a
// leak.
func TestSharesOfClasses(t *testing.T) {
	m := &gbt.Model{Objective: "multiclass num_class:3", FeatureNames: []string{"a", "b"}}
	for range firstTrees {
		for k := range 3 {
			m.Trees = append(m.Trees, &gbt.Tree{Feature: []int{min(k, 1)}, Gain: []float64{1}})
		}
	}
	e := &dataset.Encoding{Features: []dataset.Feature{{Name: "a"}, {Name: "b"}}}
	got := gainShares(m, e)
	if len(got) != 2 || got[0].Column != "b" || math.Abs(got[0].Share-2./3) > 1e-12 {
		t.Errorf("got %+v, want two thirds of the gain of b, and the rest of a", got)
	}
}

// TestWhatAVersionPredicts: of a label without classes, nil, it is a number, and otherwise its classes are listed.
func TestWhatAVersionPredicts(t *testing.T) {
	got := describePrediction(nil) + ", " + describePrediction([]string{"bad", "good"})
	if got != "a number, the classes bad, good" {
		t.Errorf("described as %q; want a number without classes, and the classes otherwise", got)
	}
}

// TestEachModelScoresThroughItsOwnEncoding: if tonight's dataset lacks a column of the champion's, the gate compares
// what each version, opened from the registry with its own features and calibrator, predicts for the raw rows of the
// earlier night.
func TestEachModelScoresThroughItsOwnEncoding(t *testing.T) {
	first := champion(t, clicks(20_000, 5))
	dropping := func(_ *rand.Rand, _ bool, row []string) []string {
		return slices.Delete(row, columnHour, columnHour+1)
	}
	c := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{15}, trees: 60, table: edited(20_000, 8,
		dropping)}).mustConclude(t)
	g := c.Gate
	if len(g.Checks) == 0 || g.Checks[0].Name != "reference" || g.Champion != 1 {
		t.Fatalf("compared as %+v; want rows of earlier nights, against version 1", g)
	}

	reg := registry.New(first.models)
	v := must.Get(reg.Get(t.Context(), "ctr", "1"))(t)
	data := must.Get(reg.ReadFile(t.Context(), v, scorer.FileReference))(t)
	rows := must.Get(decodeReference(data))(t)
	loss := must.Get(metric.Lookup("log_loss"))(t)

	for number, want := range map[string]float64{"1": g.Old, "2": g.New} {
		v := must.Get(reg.Get(t.Context(), "ctr", number))(t)
		s := must.Get(scorer.Open(t.Context(), reg, v))(t)
		defer s.Close()
		pred := must.Get(s.Sample(rows.sample, 1))(t)
		got, err := loss.Eval(metric.Input{Label: rows.targets.Label, Weight: rows.targets.Weight, Pred: pred})
		if err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("version %s has log loss %.15g (%v) on the raw rows of version 1, the gate says %.15g", number,
				got, err, want)
		}
	}
	if needs, err := reg.ReadFile(t.Context(), v, scorer.FileFeatures); err != nil || !strings.Contains(string(needs),
		`"hour"`) {
		t.Errorf("version 1 does not need the hour (%v), so it shows nothing", err)
	}
}

// TestColumnOfAnotherKind: if a column held numbers and has words tonight, the champion cannot score tonight's rows.
// The new version is not promoted, and the reason names the column.
func TestColumnOfAnotherKind(t *testing.T) {
	first := champion(t, clicks(20_000, 5))
	worded := func(_ *rand.Rand, header bool, row []string) []string {
		switch young := strings.HasPrefix(row[columnAge], "1"); {
		case header:
		case young:
			row[columnAge] = "young"
		default:
			row[columnAge] = "old"
		}
		return row
	}
	c := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{15}, trees: 60, table: edited(20_000, 8,
		worded)}).mustConclude(t)
	if c.Gate.Promoted || c.Gate.Verdict == sweep.VerdictPromoted {
		t.Errorf("promoted: %+v; want it held back", c.Gate)
	}
	contains(t, c.Gate.Reason, "version 1 cannot score them", `column "age"`)
}
