package page_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/metric"
	"coppice/internal/page"
	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample is a sweep of n trials that has ended and promoted version 9 of ctr over version 8, with something for every
// part of the page. Its trials come from a generator with a fixed seed; the best one is the winner, the second best the
// runner-up. With 50 trials these are 14 and 44, which tests name.
func sample(n int) *page.Sweep {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	planned := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	s := &page.Sweep{ID: "night-ctr-9", Model: "ctr", Dataset: "clicks@0123456789abcdef", Objective: "binary",
		Metric: "average_precision", Version: "v1",
		Maximize: true, State: "winner", Planned: planned, AsOf: planned.Add(time.Hour),
		Rows: 1_400_000,
		Params: []page.Param{{Name: "extra_trees", Categories: []string{"false", "true"}}, {Name: "feature_fraction"},
			{Name: "ignore_column", Categories: []string{"(none)", "name:*:count"}},
			{Name: "lambda_l2", Log: true}, {Name: "learning_rate", Log: true}, {Name: "num_leaves", Log: true}}}
	for i := range n {
		s.Trials = append(s.Trials, trialOf(rng, i, planned))
	}

	s.Money = &page.Money{Known: true, Total: 1.5, Budget: 2, HoursTaken: 1, Rows: [][2]string{
		{"cost", "$1.50"}, {"training that counts", "$0.90"}, {"quoted", "$1.20 (0.70 to 2.10)"}}}
	s.Winner = &page.Winner{Params: "num_leaves=29",
		Conclusion: &sweep.Conclusion{Outcome: sweep.OutcomeWinner, Trial: 0, Model: "ctr", Version: 9, At: s.AsOf,
			Reason: "trial 0 has the highest average_precision",
			Calibration: &sweep.Calibration{Method: "platt", Reason: "lowest log loss",
				Before: map[string]float64{"ece": 0.004}, After: map[string]float64{"ece": 0.002}},
			Verified: &sweep.Verified{Scorer: "leaves", Rows: 20861},
			Valid:    map[string]float64{"auc": 0.76, "ece": 0.003, "log_loss": 0.1122},
			Test: map[string]float64{"auc": 0.77, "ece": 0.002, "log_loss": 0.113,
				"average_precision": 0.1162},
			Rejected: []sweep.Rejected{{Trial: 4, Reason: "trees <= 500 is not met"}},
			Gate: &sweep.GateDecision{Passed: true, Promoted: true, Metric: "log_loss",
				Reason: "better than version 8 on " +
					"20,000 sampled test rows: log_loss 0.113 against 0.114, gain 0.001 (0.0004 to 0.0016)",
				Champion: 8, Old: 0.114, New: 0.113, Rows: 20000,
				Checks: []sweep.GateCheck{{Name: "tonight", Reason: "better beyond chance", Passed: true, Value: 0.001,
					Low: 0.0004, High: 0.0016, Rows: 20000, New: 0.113, Old: 0.114}}}},
		Features: []page.Importance{{Feature: "country", Gain: 0.6, Splits: 100},
			{Feature: "user_id_rate", Gain: 0.4, Splits: 50}, {Feature: "idle"}},
		Tested: tested()}
	s.Winner.Effects = effects(s.Winner.Features)

	// The winner and the runner-up are the best two trials that ran to the end.
	won, next := 0, 0
	for i, t := range s.Trials {
		switch {
		case t.State != page.StateComplete:
		case t.Score > s.Trials[won].Score:
			won, next = i, won
		case won == next || t.Score > s.Trials[next].Score:
			next = i
		}
	}
	s.Winner.Tested.RunnerUp.Trial = next
	r := s.Winner.Tested.RunnerUp
	s.Winner.Lead = &sweep.Lead{Trial: next, Metric: r.Metric, Gain: r.By(r.Gain), Low: r.By(r.Low), High: r.By(r.High)}
	s.Trials[won].Highlight, s.Winner.Trial = true, won
	s.Winner.Reason = fmt.Sprintf("trial %d has the highest average_precision on valid", won)
	s.Trials[won].Values[5] = 29 // as on the model's page
	return s
}

// tested are test rows of a model that predicts a little too much before calibration.
func tested() *metric.Tested {
	t := &metric.Tested{Calibrated: true,
		RunnerUp: &metric.Rival{Trial: 7, Metric: "average_precision", Rows: 20000, New: 0.12,
			Old: 0.119, Gain: 0.001, Low: -0.0004, High: 0.0024, Calibrated: true},
		Default: &metric.Rival{Trial: 2, Metric: "average_precision", Rows: 20000, New: 0.12,
			Old: 0.117, Gain: 0.003, Low: 0.0011, High: 0.0049, Calibrated: true}}
	for i := range 40 {
		predicted := 0.002 * math.Exp(float64(i)/10)
		t.Bins = append(t.Bins,
			metric.Bin{Rows: 2000, Weight: 2000, Positive: math.Round(2000*predicted + 3*float64(i%3)),
				Before: 2000 * 1.3 * predicted, After: 2000 * predicted})
	}
	return t
}

// trialOf is the trial i of a sample. Every other trial is stopped early, every sixth fails, times out or is cancelled
// in turn and has neither score nor curve. The score depends on the learning rate most, and a little on chance.
func trialOf(rng *rand.Rand, i int, planned time.Time) page.TrialRow {
	t := page.TrialRow{Number: i, Values: []float64{float64(i % 2), 0.3 + 0.7*rng.Float64(), float64(i / 3 % 2),
		math.Exp(4*rng.Float64() - 1), math.Exp(-3.5 + 2*rng.Float64()), math.Floor(4 + 60*rng.Float64())},
		Score: math.NaN(), Seconds: math.NaN(), Cost: math.NaN(), Attempts: 1}
	if i%7 == 0 {
		t.Values[3] = 0 // what has no logarithm
	}
	t.State = page.StateComplete
	if i%2 == 1 {
		t.State = page.StateEarly
	}
	if i > 3 && i%6 == 5 {
		t.State = page.States[2+i/6%3] // failed, timed out or cancelled
	}
	t.Reason = map[string]string{page.StateFailed: "out of memory", page.StateTimedOut: "more than 10 minutes",
		page.StateCancelled: "never begun"}[t.State]
	if t.State != page.StateComplete && t.State != page.StateEarly {
		return t
	}

	t.Trees, t.Grown, t.Best = 100-i%30, 120-i%30, 100-i%30
	t.Reason = fmt.Sprintf("no better after tree %d; ended at %d of 500", t.Best, t.Grown)
	if t.State == page.StateEarly {
		t.Reason = fmt.Sprintf("rank 9 of 12 at rung %d; 4 continue", t.Grown)
	}
	t.Score = 0.12 - 0.02*math.Abs(math.Log(t.Values[4])+2.3) - 0.004*rng.Float64()
	if t.State == page.StateEarly {
		t.Score -= 0.004 // it was stopped because it was worse
	}
	t.Ended = planned.Add(time.Duration(i+1) * 40 * time.Second)
	t.Seconds, t.Cost = 20+10*rng.Float64(), 0.01*rng.Float64()
	for k := 1; k <= t.Grown; k++ {
		t.CurveX = append(t.CurveX, float64(k))
		t.CurveY = append(t.CurveY, t.Score-0.05*math.Exp(-float64(k)/20)-1e-5*math.Abs(float64(k-t.Best)))
	}
	return t
}

// charts are the ids of the charts that are compared with golden files: all of a sample, but of the slices (score over
// one parameter) only one with categories and one with a logarithmic axis.
var charts = []string{"curves",
	"slice-0", "slice-4", "reliability"}

// goals is a sample with two objectives, the metric and the size of the model. Models grow with the trial's number, so
// a trial is on the front if it scores better than all earlier ones.
func goals(n int) *page.Sweep {
	s := sample(n)
	s.Goals = []sweep.Goal{{Name: s.Metric, Maximize: true}, {Name: "model_bytes"}}
	best := math.Inf(-1)
	for i := range s.Trials {
		if t := &s.Trials[i]; !math.IsNaN(t.Score) {
			t.Goals = []float64{t.Score, 1e4 * math.Pow(1.2, float64(i))}
			t.Front = t.Score > best
			best = max(best, t.Score)
		}
	}
	return s
}

// svg writes a chart by itself.
type svg struct{ *plot.Chart }

func (s svg) Write(w io.Writer) error { return standalone.Execute(w, s.Chart) }

var standalone = template.Must(plot.Templates().New("file").Parse(`<svg xmlns="http://www.w3.org/2000/svg" ` +
	`viewBox="0 0 {{.W}} {{.H}}" width="{{.W}}" height="{{.H}}" role="img"><style></style>` +
	`<title id="{{.ID}}-t">{{.Title}}</title><desc id="{{.ID}}-d">{{.Summary}}</desc>{{template "svg" .}}</svg>
`))

// writer is a view of any kind.
type writer interface{ Write(w io.Writer) error }

// write returns the page of a view.
func write(t *testing.T, s writer) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.Write(&out); err != nil {
		t.Fatalf("writing the page: got error %v, want none", err)
	}
	return out.String()
}

// TestDrawingsAreAsTheyWere: every chart named in charts has the bytes of its golden file and is well-formed XML. After
// a change that is meant, run go test ./internal/page -update and look at testdata/*.svg in a browser.
func TestDrawingsAreAsTheyWere(t *testing.T) {
	// Only the four most important parameters are drawn. With three parameters, the one with categories is among them.
	drawn, few := map[string]*plot.Chart{}, sample(30)
	few.Params = few.Params[:3]
	for _, c := range append(few.Charts(), sample(30).Charts()...) {
		drawn[c.ID] = c
	}
	for _, id := range charts {
		c := drawn[id]
		if c == nil || c.Empty() {
			t.Errorf("%s: nothing is drawn", id)
			continue
		}
		got := []byte(write(t, svg{c}))
		isXML(t, id, got)
		isAsItWas(t, id+".svg", bytes.ReplaceAll(got, []byte("><"), []byte(">\n<")))
	}
}

// firstDifference returns the number of the first line in which two texts differ, and that line of both, got first. If
// one is only longer than the other, it is the number of the first line that only one has.
func firstDifference(a, b []byte) string {
	x, y := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(x), len(y)) {
		if !bytes.Equal(x[i], y[i]) {
			return fmt.Sprintf("%d: %q, expected %q", i+1, x[i], y[i])
		}
	}
	return fmt.Sprint(min(len(x), len(y)) + 1)
}

// isXML fails the test if a drawing is not well-formed XML, which other programs that read SVG insist on.
func isXML(t *testing.T, what string, text []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: got the XML error %v, want none", what, err)
			return
		}
	}
}

// TestSameViewSameBytes: a sweep's page has the same bytes each time, and so the same version, which is a SHA-256 in
// hexadecimal digits. The page of another sweep has another version.
func TestSameViewSameBytes(t *testing.T) {
	a, b := write(t, sample(50)), write(t, sample(50))
	if a != b {
		t.Error("the same sweep gave two pages, want the same bytes")
	}
	if v := page.VersionOf([]byte(a)); len(v) != 64 || v != page.VersionOf([]byte(b)) {
		t.Errorf("the version is %q, want 64 digits, of the same page the same", v)
	}
	if v := page.VersionOf([]byte(write(t, sample(51)))); v == page.VersionOf([]byte(a)) {
		t.Errorf("a sweep of 51 trials has the version %q, as one of 50 has; want another", v)
	}
}

// TestSize: the page of a sweep over 14 parameters, as many as a large search has, takes at most 250 kB with 50 trials
// and 1 MB with 1,000, so that it opens quickly. Its script carries neither the comments nor the indentation of
// page.js, but keeps its lines, so that errors name one.
func TestSize(t *testing.T) {
	for n, most := range map[int]int{50: 250_000, 1000: 1_000_000} {
		s := sample(n)
		for len(s.Params) < 14 {
			s.Params = append(s.Params, page.Param{Name: fmt.Sprint("parameter_", len(s.Params))})
			for i := range s.Trials {
				s.Trials[i].Values = append(s.Trials[i].Values, float64(i*7919%1000)/1000)
			}
		}
		text := write(t, s)
		t.Logf("%d trials of %d parameters: %d bytes", n, len(s.Params), len(text))
		if len(text) > most {
			t.Errorf("%d trials: %d bytes, expected at most %d", n, len(text), most)
		}
	}
	script := regexp.MustCompile(`(?s)<script>(.*)</script>`).FindStringSubmatch(write(t, sample(3)))[1]
	t.Logf("the script: %d bytes", len(script))
	if len(script) > 30_000 || regexp.MustCompile(`(?m)^ |^//`).MatchString(script) ||
		strings.Count(script, "\n") < 300 {
		t.Errorf("the script has %d bytes, expected at most 30,000, in its lines, without indentation and lines of "+
			"comment", len(script))
	}
}

// TestPageIsWhole: pages of sweeps at the edges of what may come (no trials, one, all in the same state, no parameters,
// with folds, with several objectives) pass checkPages.
func TestPageIsWhole(t *testing.T) {
	empty := &page.Sweep{ID: "empty", Metric: "auc", State: "running"}
	one := sample(1)
	one.Winner, one.Money = nil, nil
	lone := sample(1)
	lone.Params = nil
	for i := range lone.Trials {
		lone.Trials[i].Values = nil
	}
	folds, mean := sample(6), 0.1
	folds.Configurations = []page.ConfigurationRow{{Rank: 1, Values: folds.Trials[0].Values, Rated: sweep.Rated{
		State: sweep.ConfigurationDone, Trials: []int{0, 1}, Folds: 2, Of: 2, Mean: &mean}},
		{Values: folds.Trials[2].Values, Rated: sweep.Rated{Configuration: 1, State: sweep.ConfigurationOpen,
			Trials: []int{2, 3}, Of: 2}}}
	pages := map[string]writer{"folds": folds, "many": sample(60), "empty": empty, "one": one,
		"one with a winner":      sample(1),
		"one without parameters": lone, "objectives": goals(40)}
	for _, state := range page.States {
		pages["all "+state] = allAre(state)
	}
	checkPages(t, pages)
}

// allAre is a sweep without a winner: all of its eight trials are in the given state, and their scores are NaN or
// infinite.
func allAre(state string) *page.Sweep {
	s := sample(8)
	s.State, s.Winner = "no_winner",
		&page.Winner{Conclusion: &sweep.Conclusion{Outcome: sweep.OutcomeNoWinner,
			Reason: "all 8 trials have ended, 0 of them with a model; the quorum is 4"}}
	for i := range s.Trials {
		r := &s.Trials[i]
		r.State, r.Score, r.Seconds, r.Cost, r.Ended, r.Trees, r.Highlight = state,
			[]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[i%3], math.NaN(), math.NaN(), time.Time{}, 0, false
		if state == page.StateFailed {
			r.Reason = "4 tasks died while training it without making progress; it may need more memory " +
				"than the machine has"
		}
		for k := range r.CurveY {
			r.CurveY[k] = math.NaN()
		}
	}
	return s
}

// TestWithoutAScore: the page of a sweep in which no trial has a score says so in its title and in place of its charts,
// whatever state all trials are in.
func TestWithoutAScore(t *testing.T) {
	for _, state := range page.States {
		text := visible(write(t, allAre(state)))
		says(t, "all trials are "+state, text, "No winner", "Nothing to draw.", "No trial has a score",
			"8 trials have ended", map[string]string{page.StateFailed: "all 8 trials failed"}[state])
	}
}

// says fails the test unless a text, which what names, has each of the parts.
func says(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: got %.2500q, want %q in it", what, said(text), part)
		}
	}
}

// checkPages fails the test unless each page, by its name in the map: has the same bytes when written again; shows no
// NaN, infinity, nil or error of a template; has no address outside the page; has each id once; has the elements that
// others name as their labels; and has the data of every column in its tables.
func checkPages(t *testing.T, pages map[string]writer) {
	t.Helper()
	for name, s := range pages {
		text := write(t, s)
		if again := write(t, s); again != text {
			t.Errorf("%s: written twice it has other bytes", name)
		}
		for _, bad := range []string{"NaN", "Inf", "%!", "&lt;nil", "ZgotmplZ"} {
			if i := strings.Index(visible(text), bad); i >= 0 {
				t.Errorf("%s: %q in the page: ...%q", name, bad, around(visible(text), i))
			}
		}
		outside := strings.ReplaceAll(text, `xmlns="http://www.w3.org/2000/svg"`, "")
		outside = strings.ReplaceAll(outside, `'http://www.w3.org/2000/svg'`, "")
		outside = strings.ReplaceAll(outside, ">gs://", "") // a text, no link
		if i := strings.Index(outside, "://"); i >= 0 {
			t.Errorf("%s: an address of somewhere else: ...%q", name, around(outside, i))
		}
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(`\bid="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			if seen[m[1]] {
				t.Errorf("%s: the id %s twice", name, m[1])
			}
			seen[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`aria-(?:labelledby|describedby)="([^"]*)"`).FindAllStringSubmatch(text,
			-1) {
			if !seen[m[1]] {
				t.Errorf("%s: nothing has the id %s that labels something", name, m[1])
			}
		}
		d := dataOf(t, text)
		for chart, table := range d.Tables {
			for _, c := range table.C {
				if chart != "curves" && d.Columns[c].N == "" {
					t.Errorf("%s: the table of %s has no column %s", name, chart, c)
				}
			}
		}
	}
}

// visible is a page without its style and script.
func visible(text string) string {
	text = regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(text, "")
	return regexp.MustCompile(`(?s)<script>.*?</script>`).ReplaceAllString(text, "")
}

// around is what stands around the index i of a text, for messages.
func around(text string, i int) string { return text[max(0, i-60):min(len(text), i+60)] }

// pageData is what tests look at of the data that a page carries for its script.
type pageData struct {
	Columns map[string]struct {
		N string
		V []any
	}
	Tables map[string]struct{ C []string }
}

// dataOf decodes the data in a page; the test fails if there is none.
func dataOf(t *testing.T, text string) (d pageData) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(text)
	if m == nil {
		t.Fatal("no data in the page")
	}
	if err := json.Unmarshal([]byte(m[1]), &d); err != nil {
		t.Fatalf("the page's data are not the expected JSON: %v", err)
	}
	return d
}

// hostile are texts that would run, close what they stand in, or turn what is around them.
var hostile = []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</script><script>alert(1)//`,
	`</style><svg onload=alert(1)>`, `javascript:alert(1)`,
	"' onmouseover='alert(1)", "{{.}}", "${alert(1)}", "\u202egnp.exe", "\u2066\u2069\u200f", "\x00\x1b[31mred\x07",
	"a\nb\tc", "]]>", "&lt;script&gt;", strings.Repeat("x", 5000), "\xff\xfe", "=cmd|' /C calc'!A0"}

// TestHostileTexts: hostile texts in a sweep's page, also of a label with classes, do no harm.
func TestHostileTexts(t *testing.T) {
	hostilePages(t, func() writer { return sample(12) })
	hostilePages(t, func() writer { return ofClasses(14, "class ") })
}

// hostilePages puts each hostile text into all fields of a view and fails the test if the page has an element or
// attribute that it has with no plain text or lacks one that it has with a word, if it has a character that hides or
// reverses others or a link to another place, or if its charts are not well-formed XML.
func hostilePages(t *testing.T, view func() writer) {
	t.Helper()
	// Some elements appear only where a text is not empty, so the allowed ones are also those with "word" everywhere.
	word := view()
	poison(reflect.ValueOf(word), "word")
	needed := elements(write(t, word))
	plain := slices.Concat(elements(write(t, view())), needed)
	for _, h := range hostile {
		v := view()
		poison(reflect.ValueOf(v), h)
		text := write(t, v)
		got := elements(text)
		for _, e := range got {
			if !slices.Contains(plain, e) {
				t.Errorf("with %.40q in every text the page has %s", h, e)
			}
		}
		for _, e := range needed {
			if !slices.Contains(got, e) {
				t.Errorf("with %.40q in every text the page lacks %s, which it has with a word", h, e)
			}
		}
		if i := strings.IndexFunc(text, unwanted); i >= 0 {
			t.Errorf("with %.40q there is a character that must not be there: %q", h, around(text, i))
		}
		if regexp.MustCompile(`(?i)href="[^"/#]`).MatchString(strings.Replace(visible(text),
			`<link rel="icon" href="data:image/svg+xml,`, "", 1)) {
			t.Errorf("with %.40q a link leads elsewhere", h)
		}
		if s, ok := v.(*page.Sweep); ok {
			for _, c := range s.Charts() {
				isXML(t, fmt.Sprintf("%s with %.40q", c.ID, h), []byte(write(t, svg{c})))
			}
		}
		dataOf(t, text)
	}
}

// poison replaces every string in a value by text, however deep it lies, and adds an entry with text as its key to
// maps.
func poison(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem(), text)
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), text)
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String && v.Len() > 0 {
			v.SetMapIndex(reflect.ValueOf(text).Convert(v.Type().Key()), v.MapIndex(v.MapKeys()[0]))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				poison(v.Field(i), text)
			}
		}
	default:
	}
}

// unwanted reports whether a page must not contain a character: control characters other than line breaks, and those
// that set the direction of the text.
func unwanted(r rune) bool {
	return r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
		r == 0x200f
}

var tag = regexp.MustCompile(`<(/?[a-zA-Z][a-zA-Z0-9]*)(\s+[^<>]*?)?>`)
var attribute = regexp.MustCompile(`\s([a-zA-Z-]+)=`)

// elements are the tags of a page with the names of their attributes, each kind once.
func elements(text string) []string {
	seen := map[string]bool{}
	quoted := regexp.MustCompile(`="[^"]*"`)
	for _, m := range tag.FindAllStringSubmatch(quoted.ReplaceAllString(visible(text), `=`), -1) {
		name := m[1]
		for _, a := range attribute.FindAllStringSubmatch(m[2]+" ", -1) {
			name += " " + a[1]
		}
		seen[name] = true
	}
	var out []string
	for name := range seen {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// TestPolicy: the content security policy allows the page's own style and script by their hashes and no others, and the
// page has no attribute (style, onclick) that such a policy forbids.
func TestPolicy(t *testing.T) {
	text := write(t, sample(3))
	says(t, "the policy", page.Policy, "default-src 'none'", "script-src 'sha256-", "style-src 'sha256-",
		"base-uri 'none'",
		"form-action 'none'")
	if strings.Contains(page.Policy, "unsafe") || strings.Contains(page.Policy, "*") {
		t.Errorf("the policy is %q, want nothing unsafe, and no *", page.Policy)
	}
	if got := regexp.MustCompile(`\s(style|on[a-z]+)=`).FindString(visible(text)); got != "" {
		t.Errorf("the page has the attribute %q, want none that the policy forbids", got)
	}
}
