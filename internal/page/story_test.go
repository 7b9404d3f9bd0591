package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// values returns a column of a page's data as JSON, in the order of the trials' ranks.
func values(t *testing.T, text, column string) string {
	t.Helper()
	c, ok := dataOf(t, text).Columns[column]
	if !ok {
		t.Fatalf("the page has no column %s", column)
	}
	values, err := json.Marshal(c.V)
	if err != nil {
		t.Fatalf("the column cannot be written as JSON: %v", err)
	}
	return string(values)
}

// TestTimesAreExact: times in a page's data are whole seconds since 1970. They have ten digits, so they must not be
// rounded to seven as other numbers are.
func TestTimesAreExact(t *testing.T) {
	s := sample(12)
	ended := dataOf(t, write(t, s)).Columns["ended"].V
	for _, r := range s.Trials {
		if !r.Ended.IsZero() && !slices.Contains(ended, any(float64(r.Ended.Unix()))) {
			t.Errorf("trial %d ended at %d, want that among the table's times %v", r.Number, r.Ended.Unix(), ended)
		}
	}
}

// TestWhyATrialWasTried: there is a column with the reasons why trials were tried only if some trial has one.
func TestWhyATrialWasTried(t *testing.T) {
	s := sample(4)
	const head = ">why it was tried<"
	if strings.Contains(write(t, s), head) {
		t.Error("no trial has a reason to be tried: got a column of reasons, want none")
	}
	s.Trials[1].Tried = "gp: expected improvement 0.2"
	if text := write(t, s); !strings.Contains(text, head) ||
		!strings.Contains(text, `<td class="r">gp: expected improvement 0.2</tr>`) ||
		!strings.Contains(text, `"tried"`) {
		t.Errorf("trial 1 was tried for its expected improvement: got %.900q, want that on the board and in its table",
			said(text))
	}
}

// TestTooFewToTell: with 12 trials, the card on importance says that 24 are needed, not which parameters matter.
func TestTooFewToTell(t *testing.T) {
	says(t, "importance of twelve trials", card(t, sample(12), "importance"), "24 are needed")
}

// TestThePageSaysWhatPredicts: the page says that the model of the final training predicts, or, if that was not used,
// why not.
func TestThePageSaysWhatPredicts(t *testing.T) {
	s := sample(1)
	s.Winner.Final = &sweep.FinalModel{Trial: 50, Registered: true, Reason: "trained on all 900 rows with 20 trees"}
	want := "The model that predicts is that of the final training, trial 50, trained on all 900 rows with 20 trees."
	says(t, "registered", write(t, s), want)
	s.Winner.Final = &sweep.FinalModel{Trial: 50, Reason: "the final training had not ended; the winner is registered"}
	want = "The final training, trial 50, was not used: the final training had not ended"
	says(t, "not registered", write(t, s), want)
}

// TestFront: the leaderboard of a sweep with several objectives has a column for each, and marks the trials on the
// Pareto front.
func TestFront(t *testing.T) {
	if text := write(t, goals(30)); !strings.Contains(text, ">model_bytes</button>") ||
		!strings.Contains(text, "<td>front<") {
		t.Error("the leaderboard has no column of the bytes, or does not say which trials are on the front")
	}
}

// TestWhenASweepEnds: the page of a running sweep says when it ends, with the range if one is known. If its budget ends
// it before, the page says when that is, and warns what the sweep would cost. The home page warns, too.
func TestWhenASweepEnds(t *testing.T) {
	// As of 03:10, $0.50 of a budget of $2 is spent, and each hour costs $3 more: the budget lasts until 03:40. With a
	// day left the sweep would cost 24 x $3 more, $72.50 in all.
	s := sample(10)
	s.State, s.Winner, s.AsOf = "running", nil, s.Planned.Add(10*time.Minute)
	s.Money.Total, s.Money.Hourly = 0.5, 3
	for _, tc := range []struct {
		left sweep.Range
		want string
	}{
		{sweep.Range{Expected: 600}, "It ends about 03:20 UTC ."},
		{sweep.Range{Low: 300, Expected: 600, High: 900}, "It ends about 03:20 UTC ( 03:15 UTC to 03:25 UTC )."},
		{sweep.Range{Expected: 86400}, "Its budget ends it about 03:40 UTC ."},
		{sweep.Range{}, ""},
	} {
		s.Left = tc.left
		text := said(write(t, s))
		ends := regexp.MustCompile(`It ends about|Its budget ends`).MatchString(text)
		if !strings.Contains(text, tc.want) || ends == (tc.want == "") {
			t.Errorf("with %v left: got %.900q, want %q in it", tc.left, text, tc.want)
		}
		const warning = "it would cost about $72.50 and reaches its budget of $2.00 in about 30 min."
		if got, want := strings.Contains(text, warning), tc.left.Expected == 86400; got != want {
			t.Errorf("with %v left, it warns: %t, want %t: %.900q", tc.left, got, want, text)
		}
	}

	home := tonight() // at $3.20 an hour: $0.53 in the ten minutes so far, $1.81 in the 2,040 s that are left
	const warning = "will reach budget night-ctr-11 : At this pace it would cost about $2.35 and reaches its budget " +
		"of $2.00"
	says(t, "home", said(write(t, home)), warning)
}

// TestChosenAndJudged: the page of a sweep begins with the gate's reason, and names both the metric by which the trial
// was chosen and the one by which the gate judged it. It says "why it won" only of a winner that was promoted. Trials
// that failed have no rank.
func TestChosenAndJudged(t *testing.T) {
	s := sample(50)
	const judged = "by log_loss on test. Of the trials that may win, trial 14 has the highest average_precision " +
		"on valid."
	const base = "the base rate alone, log_loss"
	for promoted, want := range map[bool][]string{
		true: {"ctr version 9 is live 2026-11-20 04:00 " +
			"Better than version 8: log_loss 0.88 % better " +
			"(&#43;0.35 to &#43;1.4 %). Trial 14 was chosen on valid; on test trial 44 is as good: the winner&#39;s " +
			"average_precision is 0.84 % better (-0.34 to &#43;2 %).",
			"0.1162 4.3 times the base rate",
			"20,000 sampled test rows: log_loss 0.113 against 0.114",
			"chosen by average_precision on valid and promoted " + judged, base, "Why it won"},
		false: {"ctr version 9 is not live: not promoted 2026-11-20 04:00 Better than version 8 on 20,000 sampled ",
			"To do: decide whether version 9 goes live: launcher registry promote ctr@9",
			"chosen by average_precision on valid and judged " + judged, base,
			"Why this trial was chosen"}} {
		s.Winner.Gate.Promoted = promoted
		text := said(write(t, s))
		says(t, fmt.Sprintf("promoted %t", promoted), text, want...)
		must.Equal(t, strings.Contains(text, "Why it won"), promoted, "promoted %t: the page says why it won", promoted)
	}

	text := write(t, allAre(page.StateFailed))
	if !strings.Contains(text, `<td>-</td><th scope="row">`) && !strings.Contains(text, `<td>-<th scope="row">`) ||
		strings.Contains(text, `<td>1<th scope="row">`) {
		t.Error("a failed trial has a rank, want none")
	}
}

// TestMovedSince: the page of a sweep that promoted version 9 says that another version is live if that is so now. 0
// stands for a live version that is not known.
func TestMovedSince(t *testing.T) {
	for live, want := range map[int]string{0: "ctr version 9 is live", 9: "ctr version 9 is live",
		10: "ctr version 9 was promoted; version 10 is live"} {
		s := sample(5)
		s.Winner.LiveNow = live
		says(t, fmt.Sprintf("version %d is live now", live), said(write(t, s)), want+" 2026")
	}
}

// TestWhoseTestRows: a metric on test says which version it is of. If a final training was registered, it says that the
// number is of the winning trial, which was judged in its place.
func TestWhoseTestRows(t *testing.T) {
	s := sample(20)
	twin := fmt.Sprintf("average_precision on test of trial %d, judged for ctr version 9 0.1162", s.Winner.Trial)
	for want, final := range map[string]*sweep.FinalModel{"average_precision on test of ctr version 9 0.1162": nil,
		twin: {Registered: true}} {
		s.Winner.Final = final
		says(t, fmt.Sprintf("final model %+v", final), said(write(t, s)), want)
	}
}

// TestTheirOwnDates: a night that was made later than it was due is listed under its own day, not under the day on
// which it ran.
func TestTheirOwnDates(t *testing.T) {
	d, m, home := manyNights(2), versions(2), tonight()
	d.Nights[1].Day, m.Nights[0].Night, home.Sweeps[1].Night = "2026-01-02", "2026-01-02", "2026-01-02"
	for name, view := range map[string]writer{"dataset": d, "model": m, "home": home} {
		says(t, name, write(t, view), ">2026-01-02<")
	}
}

// manyNights is a dataset of n nights as they may look: one blocked, one accepted, one without a sweep, one column that
// drifts.
func manyNights(n int) *page.DatasetPage {
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	s := &page.DatasetPage{Name: "clicks", Metric: "log_loss", More: 12}
	columns := []string{"price", "campaign_id", "site", "hour", "placement", "age"}
	first := time.Date(2026, 10, 23, 2, 10, 0, 0, time.UTC)
	for i := range n {
		k := page.Night{Version: fmt.Sprintf("%016x", 7919*(i+1)), At: first.AddDate(0, 0, i), State: "good",
			Rows:      2e6 + 3e5*math.Sin(float64(i)*2*math.Pi/7) + 5e4*rng.Float64(),
			LabelRate: 0.026 + 0.001*math.Sin(float64(i)/4) + 0.0005*rng.Float64(), Drift: map[string]float64{},
			Sweep: page.IndexSweep{ID: fmt.Sprintf("night-ctr-%08x", i), Verdict: sweep.VerdictPromoted,
				Why: "better on tonight's rows beyond chance", Model: "ctr", Version: i + 1},
			Value: 0.113 + 0.002*rng.Float64(), Ratio: 1 + 0.1*(rng.Float64()-0.5)}
		for j, c := range columns {
			if i > 0 {
				k.Drift[c] = 0.01 + 0.01*rng.Float64() + 0.002*float64(j)
			}
		}
		if k.SE = 0.0012; i == n-1 { // the table's
			k.Rows = 2e6
		}
		switch {
		case i == n/2:
			k.State, k.Sweep = "blocked", page.IndexSweep{}
			k.Value, k.Ratio = math.NaN(), math.NaN()
			k.Drift["price"] = 0.62
			k.Findings = []nights.Finding{{Code: nights.CodeScaled, Level: nights.Blocking, Column: "price",
				Text: "the numbers are 100 times what they were: median 299, before 2.99"},
				{Code: nights.CodeDrift, Level: nights.Warning, Column: "age",
					Text: "the values are distributed otherwise: 0.12 from the night before"}}
		case i%5 == 3 && i != n-2:
			k.Sweep.Verdict, k.Sweep.Why = sweep.VerdictNotPromoted, "no better beyond chance"
		case i == n-2:
			k.State, k.Accepted = "accepted", "ana: prices are in USD from today on"
			k.Findings = []nights.Finding{{Code: nights.CodeLabelRate, Level: nights.Blocking,
				Text: "the label's mean is 0.031, between 0.025 and 0.028 before"}}
		}
		s.Nights = append(s.Nights, k)
	}

	gain := 0.012
	s.Table = &dataset.Manifest{Version: s.Nights[n-1].Version, LeftOut: 1200,
		Files: []dataset.FileInfo{{Bytes: 9e7}}, Label: dataset.LabelInfo{Column: "click", Kind: dataset.Binary},
		Weight: "w", Split: dataset.SplitRule{By: "time", Column: "ts"},
		Order: &dataset.Ordering{By: dataset.OrderTime, Column: "ts", Copies: 1},
		Splits: []dataset.Rows{{Name: "train", Rows: 1_400_000, LabelMean: 0.026},
			{Name: "valid", Rows: 300_000, LabelMean: 0.025}, {Name: "test", Rows: 300_000, LabelMean: 0.027}},
		About: dataset.About{Sources: []dataset.Source{{URI: "gs://clicks/2026-11-21.parquet", Bytes: 212 << 20}},
			Warnings: []dataset.Warning{{Column: "referer", Text: "it has 812,000 values"}},
			Encodings: []dataset.EncodingInfo{{Name: "campaign_id × site", Levels: 81_000, Kept: 255, Lumped: 0.2,
				Gain: &gain, Made: []string{"campaign_id×site rate", "campaign_id×site count"}, Why: "found"},
				{Name: "site", Levels: 12}}}}
	for _, c := range columns {
		s.Table.Features = append(s.Table.Features, dataset.Feature{Name: c, Kind: dataset.Numeric, Why: "numbers",
			Bins: 255, Missing: 20_000, Range: &dataset.Range{Min: 0, Median: 3, Max: 90}})
	}
	s.Stats = spread(columns)
	return s
}

// spread makes the statistics of columns with these names: in turn of numbers with a long tail, of evenly distributed
// numbers, and of 20 named levels.
func spread(names []string) []nights.Column {
	var out []nights.Column
	for j, name := range names {
		c := nights.Column{Name: name, Kind: nights.Number, Distinct: 5000, Missing: 0.02 * float64(j), AUC: 0.5 +
			0.03*float64(j)}
		if j%3 == 2 {
			c.Kind, c.Distinct, c.Rest, c.RestRate = nights.Text, 40, 0.1, 0.02
			for i := range 20 {
				c.Levels = append(c.Levels, nights.ColumnLevel{Text: fmt.Sprint("level ", i),
					Share: 0.9 / 21 * 2 * float64(20-i) / 20, Rate: 0.01 * math.Exp(float64(i)/7)})
			}
			out = append(out, c)
			continue
		}
		for i := range 21 {
			x := float64(i) * 5
			if j%3 == 0 {
				x = 0.1 * math.Exp(float64(i*i)/50)
			}
			c.Quantiles = append(c.Quantiles, x)
		}
		for i := range 20 {
			c.Shares, c.Rates = append(c.Shares, 0.05), append(c.Rates, 0.026*math.Exp(float64(i-10)/8))
		}
		out = append(out, c)
	}
	return out
}

// TestDatasetPage: pages of datasets with many nights, with one, without a table, and without nights pass checkPages;
// 30 nights take at most 300 kB; and hostile texts do no harm.
func TestDatasetPage(t *testing.T) {
	one := manyNights(3)
	one.Nights, one.Stats = one.Nights[:1], nil
	bare := manyNights(2)
	bare.Table = nil
	checkPages(t, map[string]writer{"many": manyNights(30), "one": one, "bare": bare,
		"empty": &page.DatasetPage{Name: "empty"}})
	if text := write(t, manyNights(30)); len(text) > 300_000 {
		t.Errorf("30 nights of 6 columns take %d bytes, expected at most 300,000", len(text))
	}
	hostilePages(t, func() writer { return manyNights(6) })
}

var none = math.NaN()

var figure = regexp.MustCompile(`(?s)<figure id="([^"]+)".*?</figure>`)

// TestFiguresAreAsTheyWere: every table with a title on the pages of a sweep and of a model has the bytes of its golden
// file. The sweep has five such tables when it shows gains, which it does without SHAP values.
func TestFiguresAreAsTheyWere(t *testing.T) {
	byGain := sample(30)
	byGain.Winner.Effects = nil
	for name, view := range map[string]writer{"sweep": byGain, "model": versions(6)} {
		found := 0
		for _, f := range figure.FindAllStringSubmatch(write(t, view), -1) {
			if id, card := strings.CutSuffix(f[1], "-card"); card {
				isAsItWas(t, name+"-"+id+".html", []byte(strings.ReplaceAll(f[0], "><", ">\n<")+"\n"))
				found++
			}
		}
		if want := map[string]int{"sweep": 5, "model": 1}[name]; found != want {
			t.Errorf("the page of a %s has %d tables with titles, want %d", name, found, want)
		}
	}
}

// isAsItWas fails the test if got is not the content of the file in testdata. With -update, it writes the file first.
func isAsItWas(t *testing.T, name string, got []byte) {
	t.Helper()
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatalf("cannot write the golden file: %v", err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("cannot read the golden file: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is drawn differently in line %s; after looking at it, go test ./internal/page -update", golden,
			firstDifference(got, want))
	}
}

// TestEveryDrawingIsKept: every chart of a sweep's page is in charts, so that it is compared with a golden file. Of the
// slices, of which there is one for each parameter, two are enough.
func TestEveryDrawingIsKept(t *testing.T) {
	for _, c := range sample(30).Charts() {
		if !slices.Contains(charts, c.ID) && !strings.HasPrefix(c.ID, "slice-") {
			t.Errorf("the drawing %s is compared with no file: add it to charts, and go test ./internal/page -update",
				c.ID)
		}
	}
}

// TestWhatCannotBeDrawn: lines and points whose coordinates are NaN leave neither NaN nor infinity in the drawing, and
// the drawing is well-formed.
func TestWhatCannotBeDrawn(t *testing.T) {
	nan := func(n int) []float64 { return slices.Repeat([]float64{none}, n) }
	for name, c := range map[string]*plot.Chart{
		"lines": (&plot.Plot{Chart: plot.Chart{ID: "c", W: 300, H: 200},
			Lines: []plot.Line{{X: nan(3), Y: nan(3), Low: nan(3), High: nan(3), Peak: 1, End: "end"}}}).Draw(),
		"scatter": (&plot.Plot{Chart: plot.Chart{ID: "c", W: 300, H: 200},
			Points: []plot.Point{{X: none, Y: 1}, {X: 1, Y: none}}}).Draw(),
	} {
		drawn := write(t, svg{c})
		isXML(t, name, []byte(drawn))
		if i := regexp.MustCompile(`NaN|Inf`).FindStringIndex(drawn); i != nil {
			t.Errorf("%s: of what is no number came %q, expected nothing", name, around(drawn, i[0]))
		}
	}
}

// TestWhatMovesPredictions: the page of a sweep shows its winner's SHAP values, as the model's page does; without any
// it shows gains, and says so.
func TestWhatMovesPredictions(t *testing.T) {
	s := sample(20)
	if text := said(write(t, s)); !strings.Contains(text, "SHAP values of 120 test rows") ||
		strings.Contains(text, "share of gain") {
		t.Errorf("with SHAP values: got %.3000q, want them and no gains", text)
	}
	s.Winner.Effects = nil
	const want = "By the share of the gain of all splits: there are no SHAP values."
	says(t, "without SHAP values", said(write(t, s)), want)
}

// TestTheFinalIsCountedBesideTheTrials: a final training is not among the trials that the page counts, neither in
// "trials ended" nor in the filter by state, and the script is told which trial it is.
func TestTheFinalIsCountedBesideTheTrials(t *testing.T) {
	s := sample(4)
	s.Trials[3].Final, s.Trials[3].Score, s.Trials[3].State = true, math.NaN(), page.StateComplete
	done := 0
	for _, r := range s.Trials[:3] {
		if r.State == page.StateComplete {
			done++
		}
	}
	got := said(write(t, s))
	says(t, "a final training", got, "trials ended 3 of 3 and the final ", fmt.Sprintf("done %d ", done))
	if done == 0 || !strings.Contains(write(t, s), `"final":3`) {
		t.Errorf("%d trials are done and the script is not told that trial 3 is the final; want some, and that", done)
	}
}

// TestAllFailedBesideAFinal: a final training, which has not begun where no trial has a model, does not keep the page
// from saying that all trials have failed, and for which reason.
func TestAllFailedBesideAFinal(t *testing.T) {
	s := allAre(page.StateFailed)
	last := &s.Trials[7]
	last.Final, last.State, last.Reason = true, page.StateCancelled, "had not started when the sweep was concluded"
	got := said(write(t, s))
	says(t, "all failed beside a final training", got, "No winner: all 7 trials failed",
		"For one reason: 4 tasks died while training it")
}

// TestAnUnusualTableIsAmber: a table with a warning, or one that a person accepted, is amber on its own page and on the
// home page; a blocked one is red; and one with only a note is green. The classes are a-held and b-held for amber,
// a-none and b-none for red, a-live and b-live for green.
func TestAnUnusualTableIsAmber(t *testing.T) {
	rows := nights.Finding{Code: nights.CodeRows, Level: nights.Warning, Text: "120 rows; earlier nights had 200"}
	d := manyNights(3)
	last := &d.Nights[2]
	for _, tc := range []struct {
		state       string
		found       []nights.Finding
		page, badge string
	}{
		{"good", []nights.Finding{{Level: nights.Note}}, "a-live| The newest table is as usual ", "b-live|good"},
		{"good", []nights.Finding{rows}, "a-held| The newest table is unusual: 1 warning ", "b-held|1 warning"},
		{"accepted", nil, "a-held| The newest table is accepted ", "b-held|accepted"},
		{"blocked", nil, "a-none| The newest table is blocked ", "b-none|blocked"},
	} {
		last.State, last.Findings = tc.state, tc.found
		class, text, _ := strings.Cut(tc.page, "|")
		got := write(t, d)
		if !strings.Contains(got, `class="answer `+class) || !strings.Contains(said(got), text) {
			t.Errorf("%+v: the page begins with %.300q, want the class and text of the case", tc, said(got))
		}
		found := tc.state == "good" && tc.badge != "b-live|good"
		if n := strings.Contains(said(got), "Found: 120 rows; earlier nights had 200 (rows)."); n != found {
			t.Errorf("%+v: the page says what was found: %t, want it of a good night alone", tc, n)
		}
		class, text, _ = strings.Cut(tc.badge, "|")
		badge := `<span class="badge ` + class + `">` + text + `</span>`
		home := &page.Index{Datasets: []page.IndexDataset{{Name: "clicks", Night: last}}}
		if !strings.Contains(said(got), " "+text+" ") || !strings.Contains(write(t, home), badge) {
			t.Errorf("%+v: %s is not both on its page and at home", tc, badge)
		}
	}
}
