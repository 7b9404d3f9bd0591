package backtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/problem"
)

// row is one line of the table; poison changes those of a day.
type row struct {
	day, second int
	site        string
	x           string
	click       int
}

// clicks is a stream of clicks from 2026-11-01 on, so many days with 400 rows each, whose signal drifts from day to
// day.
func clicks(days int, poison func(r *row)) string {
	var b strings.Builder
	b.WriteString("ts,site,x,click\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for day := range days {
		for i := range 400 {
			x, site := rng.NormFloat64(), rng.IntN(50)
			z := -1 + x*(1+float64(day)/10) + math.Sin(float64(site))
			r := row{day, i * 200, fmt.Sprint("s", site), fmt.Sprintf("%.4f", x), 0}
			if rng.Float64() < 1/(1+math.Exp(-z)) {
				r.click = 1
			}
			if poison != nil {
				poison(&r)
			}
			fmt.Fprintf(&b, "2026-11-%02d %02d:%02d:%02d,%s,%s,%d\n", 1+r.day, r.second/3600, r.second/60%60,
				r.second%60, r.site, r.x, r.click)
		}
	}
	return b.String()
}

const plain = `dataset: dataset.yaml
from: 2026-11-07
to: 2026-11-10
window: 6
params: {num_iterations: 8, num_leaves: 7}
stale: [2]
`

// play runs a backtest of a table.
func play(t *testing.T, spec, text string) *Results {
	t.Helper()
	r, err := tryPlay(t, spec, "{budget: 0}", text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryPlay(t *testing.T, spec, encodings, text string) (*Results, error) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "clicks.csv")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ParseSpec("backtest.yaml", []byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	d, err := dataset.ParseSpec("dataset.yaml",
		fmt.Appendf(nil, "name: clicks\nsource: %s\nlabel: click\nencodings: %s\n"+
			"split: {by: time, column: ts, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n", source, encodings))
	if err != nil {
		t.Fatal(err)
	}
	r, err := (&Runner{Spec: s, Table: d, Scratch: dir, Threads: 2}).Run(t.Context())
	if left, err := filepath.Glob(filepath.Join(dir, "coppice-*")); err != nil || len(left) > 0 {
		t.Errorf("it left %q behind (%v)", left, err)
	}
	return r, err
}

// TestWarmStart: a night goes on from the one before, with trees of its own behind those, and every third begins from
// nothing. It still knows nothing of the future.
func TestWarmStart(t *testing.T) {
	warm := plain + "warm_start: 3\n"
	cold, err := tryPlay(t, plain, "none", clicks(14, nil))
	if err != nil {
		t.Fatal(err)
	}
	r, err := tryPlay(t, warm, "none", clicks(14, nil))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{8, 16, 24, 8} {
		if n := r.Nights[i]; n.Trees != want || (n.Model == cold.Nights[i].Model) != (want == 8) {
			t.Errorf("night %s has %d trees, want %d, and those of one that begins from nothing only with 8", n.Night,
				n.Trees, want)
		}
	}

	const third = 9 - 1 // day of the table, from 0, on which the third night is
	short := strings.Replace(warm, "to: 2026-11-10", "to: 2026-11-09", 1)
	inverted, err := tryPlay(t, short, "none", clicks(14, func(r *row) {
		if r.day > third {
			r.click = 1 - r.click
		}
	}))
	if err != nil || inverted.Nights[2].Model != r.Nights[2].Model || inverted.Nights[2].Value == r.Nights[2].Value {
		t.Errorf("with other labels behind the third night: %v, %+v; want the model of %+v", err, inverted, r.Nights[2])
	}

	for _, bad := range []string{"0", "1", "-3", "9999"} {
		if _, err := ParseSpec("backtest.yaml", []byte(plain+"warm_start: "+bad+"\n")); err == nil ||
			!strings.Contains(err.Error(), "warm_start is "+bad) {
			t.Errorf("warm_start: %s: %v", bad, err)
		}
	}
	for _, bad := range []string{"0", "-1", "0.5", "1"} { // 0 would mean the same as no confidence at all
		if _, err := ParseSpec("backtest.yaml", []byte(plain+"gates: [{name: chance, confidence: "+bad+
			"}]\n")); err == nil || !strings.Contains(err.Error(), "confidence is "+bad) {
			t.Errorf("confidence: %s: %v", bad, err)
		}
	}
}

// TestWarmStartWithIDs: nights that go on have the statistics of ids of the night that they go on from, of their own
// rows, and are better on the day after than the model that they go on from.
func TestWarmStartWithIDs(t *testing.T) {
	warm := strings.Replace(plain, "2026-11-10", "2026-11-12", 1) + "warm_start: 6\n"
	r := play(t, warm, clicks(14, nil))
	gains := 0.0
	for i, n := range r.Nights {
		if n.Trees != 8*(i+1) {
			t.Errorf("night %s has %d trees, want %d", n.Night, n.Trees, 8*(i+1))
		}
		if i > 0 {
			gains += n.Stale[1].Gain / float64(len(r.Nights)-1)
		}
	}
	if gains <= 0 {
		t.Errorf("nights that go on are worse by %g on average than those that they go on from", -gains)
	}
}

func TestBacktest(t *testing.T) {
	r := play(t, plain, clicks(14, nil))
	if len(r.Nights) != 4 || r.Nights[0].Night != "2026-11-07" || r.Nights[3].Test != "2026-11-11" {
		t.Fatalf("nights %+v, want four from 7 November on", r.Nights)
	}
	for i, n := range r.Nights {
		if n.TrainRows != 3*400 || n.TestRows != 400 {
			t.Errorf("night %s trains on %d rows and is measured on %d, want 1200 of three days and 400 of the day "+
				"after", n.Night, n.TrainRows, n.TestRows)
		}
		if (n.Stale[1] != nil) != (i >= 1) || (n.Stale[2] != nil) != (i >= 2) {
			t.Errorf("night %d is compared with older models %v, want those that were grown by then", i, n.Stale)
		}
		if g := n.Stale[1]; g != nil && (g.New != n.Value || g.Old == n.Value || g.Low >= g.Gain || g.High <= g.Gain ||
			math.Abs(g.Old-g.New-g.Gain) > 1e-12) {
			t.Errorf("night %s: %+v over yesterday's, want the gain of %v within its interval", n.Night, g, n.Value)
		}

		for _, rule := range r.Gates {
			d := n.Rules[rule.Name]
			promote := i == 0 || rule.Always || rule.Confidence == 0 && d.Seen.Gain >= 0 || rule.Confidence > 0 &&
				d.Seen.Low > 0
			if d.Promoted != promote || promote && (d.Grown != n.Night || d.Value != n.Value) ||
				(d.True != nil) != (i > 0) {
				t.Errorf("night %s, rule %q: %+v, want promoted %v", n.Night, rule.Name, d, promote)
			}
		}
	}

	every, sure := r.Rules[0], r.Rules[2]
	if every.Decisions != 3 || every.Promotions != 3 || every.Wrong < every.Surely || sure.Promotions > 3 ||
		every.Mean <= 0 {
		t.Errorf("rules %+v, want three decisions each, and three promotions where every night is promoted", r.Rules)
	}
}

// TestNoRowOfTheFutureIsRead: whatever becomes of the rows behind a day, nights that end there come out the same; and a
// night's model does not depend on the day that it is measured on.
func TestNoRowOfTheFutureIsRead(t *testing.T) {
	const night, after = 8 - 1, 9 - 1 // days of the table, from 0: that of the second night, and the one after it
	poisoned := func(first, last int) func(*row) {
		return func(r *row) {
			if r.day >= first && r.day <= last {
				r.site, r.x, r.click = "poison", "not a number", 1-r.click
			}
		}
	}
	calm := play(t, plain, clicks(14, nil))

	// Days behind the second night's measuring day: its night and the one before are the same in everything, the third
	// has the same model.
	late := plain[:strings.Index(plain, "to:")] + "to: 2026-11-08\n" + plain[strings.Index(plain, "window:"):]
	r := play(t, late, clicks(14, poisoned(after+1, 99)))
	if !reflect.DeepEqual(r.Nights, calm.Nights[:2]) {
		t.Errorf("with the future poisoned, got\n%+v\nwant\n%+v", r.Nights, calm.Nights[:2])
	}

	// Labels of the measuring day itself: the same models and decisions, another measure.
	inverted := play(t, late, clicks(14, func(r *row) {
		if r.day >= after {
			r.click = 1 - r.click
		}
	}))
	a, b := inverted.Nights[1], calm.Nights[1]
	if a.Model != b.Model || !reflect.DeepEqual(a.Rules["any gain"].Seen, b.Rules["any gain"].Seen) {
		t.Errorf("labels of the day after changed the model or the decision: %+v, want those of %+v", a, b)
	}
	if a.Value == b.Value {
		t.Error("labels of the day after do not change the measure: they are not looked at")
	}

	// With a delay, the night's own day is the future, too.
	delayed := late + "delay: 1\n"
	a = play(t, delayed, clicks(14, nil)).Nights[1]
	b = play(t, delayed, clicks(14, func(r *row) {
		if r.day >= night {
			r.click = 1 - r.click
		}
	})).Nights[1]
	if a.Model != b.Model || a.Value == b.Value {
		t.Errorf("with a delay of a day, the night's own labels changed its model: %+v, want that of %+v", b, a)
	}
}

// TestMarginRule: a night's model replaces the champion unless it is shown to be worse, and may be so by more than the
// margin.
func TestMarginRule(t *testing.T) {
	r := play(t, plain+"gates: [{name: wide, margin: 100, confidence: 0.95}, {name: tight, margin: 1e-9, "+
		"confidence: 0.6}]\n", clicks(13, func(r *row) {
		if r.day == 8 || r.day == 9 { // what later nights train on
			r.click = 1 - r.click
		}
	}))
	held := 0
	for i, n := range r.Nights {
		tight := n.Rules["tight"]
		want := i == 0 || tight.Seen.High >= 0 || tight.Seen.Low >= -1e-9
		if !n.Rules["wide"].Promoted || tight.Promoted != want {
			t.Errorf("night %s: got %+v and %+v; want the first promoted, and the second %t", n.Night, n.Rules["wide"],
				tight, want)
		}
		if !want {
			held++
		}
	}
	if held == 0 {
		t.Error("no night was held back; want one, or the rule is not tried")
	}
}

func TestCandidatesAndPage(t *testing.T) {
	r := play(t, plain+"candidates: [{num_leaves: 2, num_iterations: 1}, {num_leaves: 15}]\ngates: [{name: \"a <b> "+
		"& c\", min_gain: 0.5}]\n", clicks(13, nil))
	for _, n := range r.Nights {
		if n.Candidate != 1 || n.Trees != 8 {
			t.Errorf("night %s took candidate %d with %d trees, want the one that learns", n.Night, n.Candidate,
				n.Trees)
		}
	}
	if s := r.Rules[0]; s.Promotions != 0 || r.Nights[3].Rules["a <b> & c"].Grown != "2026-11-07" {
		t.Errorf("a rule that nothing meets promoted: %+v", s)
	}

	var page, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&page, &again} {
		if err := r.WritePage(w); err != nil {
			t.Fatal(err)
		}
	}
	text := page.String()
	if strings.Contains(text, "<b>") || !strings.Contains(text, "a &lt;b&gt; &amp; c") ||
		strings.Contains(text, "NaN") || strings.Contains(text, "ZgotmplZ") {
		t.Error("the page has a foreign text in it as it is, or a number that is none")
	}
	if n := strings.Count(text, `<path class="rel n`) + strings.Count(text, `<path class="rel join0 n`); n != 2*(3+1)+
		2 || !bytes.Equal(page.Bytes(), again.Bytes()) {
		t.Errorf("%d curves and their keys, want 10, and the same bytes twice", n)
	}

	kept, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Decode(kept)
	if err != nil {
		t.Fatal(err)
	}
	again.Reset()
	if err := read.WritePage(&again); err != nil || !bytes.Equal(page.Bytes(), again.Bytes()) {
		t.Errorf("read back from its JSON it has another page (%v)", err)
	}
	for _, text := range []string{"{", "{}", `{"metric": "auc", "nights": [{"night": "today"}]}`,
		`{"metric": "auc", "nights": [{"night": "2026-11-01", "test": "2026-11-02"}], "rules": [{"name": "a"}]}`} {
		if _, err := Decode([]byte(text)); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s is read as a report: %v", text, err)
		}
	}
}

func TestSpecSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"window: 28\n": "dataset is missing",
		"dataset: d\n": "from",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-10-01\n":                                       "backtest.yaml:3:5: 2026-11-01 to 2026-10-01 is",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-11-02\nwindow: 3\n":                            "nothing is left to train on",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-11-02\nparams: {num_leafs: 3}\n":               "num_leaves",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-11-02\nmetric: acu\n":                          "auc",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-11-02\nstale: [0]\n":                           "stale is 0",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-11-02\ngates: [{name: a}, {name: a}]\n":        "two rules",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-11-02\ngates: [{name: a, confidence: 95}]\n":   "0.95",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-11-02\nwindow: 28\nvalids: 1\n":                "valid",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-11-02\ncandidates: [{learning_rate: fast}]\n":  "learning_rate",
		"dataset: d\nfrom: 2026-11-01\nto: 2026-11-02\nmetric: rmse\nparams: {max_depth: 3}\n": "rmse",
	} {
		if _, err := ParseSpec("backtest.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

// TestLabelsThatComeLate: a night waits for as many days as labels take, unless the spec has it wait longer; it must
// not wait less.
func TestLabelsThatComeLate(t *testing.T) {
	late := &dataset.LabelSpec{Column: "y", Matures: dataset.Duration(30 * time.Hour), At: "ts"}
	for rest, want := range map[string]int{"": 2, "delay: 3\n": 3} {
		s, err := ParseSpec("backtest.yaml", []byte(plain+rest))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.checkDelay(late); err != nil || s.Delay != want {
			t.Errorf("%q: a delay of %d days and %v, want %d", rest, s.Delay, err, want)
		}
	}
	s, err := ParseSpec("backtest.yaml", []byte(plain+"delay: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.checkDelay(late); err == nil || !strings.Contains(err.Error(), "labels are final only after 2 days") {
		t.Errorf("a shorter delay: %v", err)
	}
}

// TestBacktestOfClasses: nights learn which of three kinds a row is, and are compared; a night that has not seen the
// classes of another is not, and says which they are.
func TestBacktestOfClasses(t *testing.T) {
	spec := strings.Replace(plain, "{num_iterations: 8", "{objective: multiclass, num_iterations: 8", 1) +
		"metric: multi_logloss\n"
	table := func(text string) string { // the label is a text of its own
		return strings.NewReplacer(",0\n", ",none\n", ",1\n", ",click\n", ",2\n", ",sale\n").Replace(text)
	}
	some := func(r *row) {
		if r.second%3 == 0 && r.click == 1 {
			r.click = 2
		}
	}
	r := play(t, spec, table(clicks(12, some)))
	if n := r.Nights[3]; len(r.Nights) != 4 || !(n.Value > 0.2 && n.Value < 1) || n.Stale[2] == nil ||
		n.Stale[1].Old == n.Stale[1].New {
		t.Errorf("got %+v, want four nights that are better than chance, and compared with older ones", r.Nights)
	}

	for day, want := range map[int]string{3: "(click, none, sale; click, none, rare, sale)",
		8: `"rare", none of the classes`} {
		_, err := tryPlay(t, spec, "{budget: 0}", strings.ReplaceAll(table(clicks(12, func(r *row) {
			if some(r); r.second < 10_000 && (r.day < day) == (day == 3) {
				r.click = 3
			}
		})), ",3\n", ",rare\n"))
		if err == nil || !problem.Is(err, problem.Input) || !strings.Contains(err.Error(), want) {
			t.Errorf("with a class until or from day %d: got error %v, want one with %q", day, err, want)
		}
	}
}
