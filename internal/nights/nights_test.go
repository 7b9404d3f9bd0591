package nights_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
)

// night is what staging keeps of a table for a comparison: sampled rows, and their profile.
type night struct {
	rows    *ingest.Night
	profile *nights.Profile
}

// staged writes a CSV to a file and stages it into a temporary folder. spec returns the dataset.yaml for the file's
// name.
func staged(t testing.TB, csv []byte, spec func(file string) []byte, o ingest.Options) (*ingest.Report, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "night.csv")
	must.Do(t, os.WriteFile(file, csv, 0o600))
	s := must.Get(dataset.ParseSpec("dataset.yaml", spec(file)))(t)
	files := must.Get(table.Expand(file))(t)
	return ingest.Stage(t.Context(), s, files, filepath.Join(dir, "d"), o)
}

// stageCSV stages a CSV that has no fault. rest is its spec but for name and source.
func stageCSV(t *testing.T, text, rest string) *ingest.Report {
	t.Helper()
	r := must.Get(staged(t, []byte(text), func(file string) []byte {
		return []byte("name: t\nsource: " + file + "\n" + rest)
	}, ingest.Options{}))(t)
	return r
}

// measured returns the profile of a night; m is the manifest of its dataset.
func measured(t testing.TB, n *ingest.Night, m *dataset.Manifest) *nights.Profile {
	t.Helper()
	return must.Get(nights.Measure(t.Context(), n, m, 2, nil))(t)
}

// stage stages a night of a stream, with the nights before as its witness, and measures it. The error says why the
// table cannot be staged.
func stage(t *testing.T, rows nightstest.Table, before []*nights.Profile) (night, error) {
	t.Helper()
	r, err := staged(t, rows.CSV(), func(file string) []byte {
		return append(nightstest.Spec(file), "encodings: none\n"...)
	}, witnessed(before))
	if err != nil {
		return night{}, err
	}
	return nightOf(t, r), nil
}

// witnessed are options of staging with the nights before as the witness, if there are any.
func witnessed(before []*nights.Profile) (o ingest.Options) {
	if w := nights.NewWitness(before, false); w != nil {
		o.Witness = w
	}
	return o
}

// nightOf measures what was staged.
func nightOf(t *testing.T, r *ingest.Report) night {
	t.Helper()
	return night{r.Night, measured(t, r.Night, r.Manifest)}
}

// plainNight stages and measures a CSV with the label y, of which half of the rows are train.
func plainNight(t *testing.T, text string) night {
	t.Helper()
	return nightOf(t, stageCSV(t, text, "label: y\nencodings: none\nsplit: {by: random, train: 0.5, valid: 0.5}\n"))
}

// stageGood is stage of a table that can be staged.
func stageGood(t *testing.T, rows nightstest.Table, before []*nights.Profile) night {
	t.Helper()
	return must.Get(stage(t, rows, before))(t)
}

// compare returns the findings about a night after those before, oldest first, which may block from the first on.
func compare(t *testing.T, n night, before []*nights.Profile) []nights.Finding {
	t.Helper()
	return find(t, nights.Request{Night: n.rows, Tonight: n.profile, Before: before, Declared: true})
}

// find returns the findings of nights.Compare. Without a spec it uses an empty one, and without At, the stream's first
// day.
func find(t *testing.T, q nights.Request) []nights.Finding {
	t.Helper()
	if q.Spec == nil {
		q.Spec = &dataset.Spec{}
	}
	if q.At.IsZero() {
		q.At = nightstest.First
	}
	return must.Get(nights.Compare(t.Context(), q))(t)
}

// The good nights before a bad one: first those that define what is usual, a week and a day, then some that are
// compared with a full history.
const (
	pastNights = 8
	laterGood  = 3
	nightRows  = 20_000 // of a weekday
)

// TestKindsOfNights: every kind of bad night is blocked, unless it is harmless, and in nine of ten kinds the first
// finding is the right one. Good nights pass, also with sales or holidays. Of kinds that expect the same findings it
// tries one, and all of them with COPPICE_FULL. `make nights` does the same on more seeds, with the built programs.
func TestKindsOfNights(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it stages dozens of nights")
	}
	s := nightstest.Stream{Seed: 11, Rows: 14_000} // of a weekday; fewer than nightRows, to be quick
	if os.Getenv("COPPICE_FULL") != "" {
		s.Rows = nightRows
	}

	// Eleven good nights, none of which may be blocked, are the history.
	var before []*nights.Profile
	for day := range pastNights + laterGood {
		n, err := stage(t, s.Night(day), before)
		if err != nil {
			t.Fatalf("day %d, a good one: got error %v from staging, want none", day, err)
		}
		if found := compare(t, n, before); nights.Blocked(found) {
			t.Errorf("day %d, a good one, is held back, want it to pass: %v", day, found)
		}
		before = append(before, n.profile)
	}

	// The twelfth night is bad, of each kind in turn.
	day := pastNights + laterGood
	today, yesterday := s.Night(day), s.Night(day-1)
	kinds := nightstest.Kinds()
	if os.Getenv("COPPICE_FULL") == "" {
		seen := map[string]bool{}
		kinds = slices.DeleteFunc(kinds, func(k nightstest.Kind) bool {
			same := fmt.Sprint(k.Want, k.Harmless)
			again := seen[same]
			seen[same] = true
			return again
		})
	}
	var mu sync.Mutex
	right := 0
	t.Run("kinds", func(t *testing.T) {
		for i, k := range kinds {
			t.Run(k.Name, func(t *testing.T) {
				t.Parallel()
				n, err := stage(t, k.Break(rand.New(rand.NewPCG(1, uint64(i))), today, yesterday), before)
				ok := err != nil && len(k.Want) == 0
				if err == nil {
					found := compare(t, n, before)
					if !nights.Blocked(found) && !k.Harmless {
						t.Fatalf("%s: nothing blocks it, want a finding that does; found: %v", k.Name, found)
					}
					ok = k.Harmless || slices.Contains(k.Want, found[0].Code)
					if !ok {
						t.Logf("%s: %v comes first, and %v is to blame", k.Name, found[0], k.Want)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if ok {
					right++
				}
			})
		}
	})

	// Or it is good, but unusual.
	t.Run("ordinary", func(t *testing.T) {
		for _, o := range nightstest.OrdinaryNights() {
			t.Run(o.Name, func(t *testing.T) {
				t.Parallel()
				n := stageGood(t, o.Make(s, day), before)
				if found := compare(t, n, before); nights.Blocked(found) {
					t.Errorf("%s, a good night: it is held back, want it to pass: %v", o.Name, found)
				}
			})
		}
	})
	if share := float64(right) / float64(len(kinds)); share < 0.9 {
		t.Errorf("the right finding comes first in %d of %d kinds, want at least nine in ten", right, len(kinds))
	}
}

// TestDoubtedNight: a night that a person has accepted despite its label rate does not make that rate usual by itself.
// The next night with that rate is blocked again, and one with the earlier rate passes. Once a second night has been
// accepted, the rate is usual.
func TestDoubtedNight(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it stages dozens of nights")
	}
	stream := nightstest.Stream{Seed: 3, Rows: nightRows}
	lost := slices.IndexFunc(nightstest.Kinds(),
		func(k nightstest.Kind) bool { return k.Name == "a random third of the clicks lost" })
	// broken stages the stream's night of a day without a third of its clicks.
	var before []*nights.Profile
	broken := func(day int, before []*nights.Profile) night {
		t.Helper()
		return stageGood(t, nightstest.Kinds()[lost].Break(rand.New(rand.NewPCG(1, uint64(day))), stream.Night(day),
			stream.Night(day-1)), before)
	}

	// Five good nights, and a sixth with fewer clicks. Comparing them also completes their profiles.
	for day := range 5 {
		n := stageGood(t, stream.Night(day), before)
		compare(t, n, before)
		before = append(before, n.profile)
	}
	first := broken(5, before)
	compare(t, first, before)
	before = append(before, first.profile)

	// The seventh night. A doubted night is no witness, so that it is staged after the five good ones only. Whether the
	// sixth is doubted is the caller's word (Request.Doubted), which it no longer is once two in a row were let pass.
	good := stageGood(t, stream.Night(6), before[:5])
	for name, c := range map[string]struct {
		n       night
		doubted bool // the sixth night is the only one that was accepted
		want    bool // the label rate blocks
	}{
		"as low again, after one that was let pass":  {broken(6, before[:5]), true, true},
		"as low again, after two that were let pass": {broken(6, before), false, false},
		"as ever, after one that was let pass":       {good, true, false},
	} {
		found := find(t, nights.Request{Night: c.n.rows, Tonight: c.n.profile, Before: before,
			Doubted: c.doubted, Declared: true})
		blocks := slices.ContainsFunc(found, func(f nights.Finding) bool {
			return f.Code == nights.CodeLabelRate && f.Level == nights.Blocking
		})
		if blocks != c.want {
			t.Errorf("%s: found %v; want its label rate to block: %t", name, found, c.want)
		}
	}
}

// TestFirstNight: a first night has no findings but those of the spec's own rules. Each rule blocks, unless the spec
// allows the finding, expects it on the day of the night's rows, or turns the contract off.
func TestFirstNight(t *testing.T) {
	n := stageGood(t, nightstest.Stream{Seed: 3, Rows: 3000}.Night(0), nil)
	if found := compare(t, n, nil); len(found) > 0 {
		t.Errorf("the first night has findings, want none: %v", found)
	}

	// Rules that this night breaks: it has 3,000 rows, more than .1 % clicks, and is a day old.
	number := func(x float64) *float64 { return &x }
	for _, c := range []struct {
		rules dataset.ContractSpec
		want  nights.Code
	}{
		{dataset.ContractSpec{Rows: dataset.RangeSpec{Min: number(1e6)}}, nights.CodeRows},
		{dataset.ContractSpec{Label: dataset.RangeSpec{Max: number(0.001)}}, nights.CodeLabelRate},
		{dataset.ContractSpec{MaxAge: dataset.Duration(time.Hour)}, nights.CodeStale},
	} {
		expect := func(from string) []dataset.ExpectSpec {
			return []dataset.ExpectSpec{{From: from, To: "2026-10-09", Findings: []string{string(c.want)},
				Why: "a holiday"}}
		}
		type rules = dataset.ContractSpec
		for name, v := range map[string]struct {
			change  func(*rules)
			level   nights.Level // of the one finding; empty for none
			holiday bool         // its text names the reason why it is expected
		}{
			"as it is":       {func(*rules) {}, nights.Blocking, false},
			"allowed":        {func(r *rules) { r.Allow = []string{string(c.want)} }, nights.Warning, false},
			"expected":       {func(r *rules) { r.Expect = expect("2026-10-05") }, nights.Warning, true},
			"expected later": {func(r *rules) { r.Expect = expect("2026-10-06") }, nights.Blocking, false},
			"off":            {func(r *rules) { *r = rules{Off: true} }, "", false},
		} { // the rows are those of October 5
			spec := &dataset.Spec{Contract: c.rules}
			v.change(&spec.Contract)
			found := find(t, nights.Request{Night: n.rows, Tonight: n.profile, Spec: spec,
				At: nightstest.First.Add(48 * time.Hour)})
			if v.level == "" && len(found) == 0 {
				continue
			}
			if len(found) != 1 || found[0].Code != c.want || found[0].Level != v.level ||
				strings.Contains(found[0].Text, "expected: a holiday") != v.holiday {
				t.Errorf("contract %+v, %s: found %v, want one %s of level %q", c.rules, name, found, c.want, v.level)
			}
		}
	}
}

// TestRecordIsReadBack: a record that was written is read back with its findings and a profile to compare with. One
// that belongs elsewhere, or whose profile contradicts itself, is an error.
func TestRecordIsReadBack(t *testing.T) {
	n := stageGood(t, nightstest.Stream{Seed: 3, Rows: 3000}.Night(0), nil)
	r := &nights.Record{Format: 1, Dataset: "clicks", Version: "0123456789abcdef",
		Profile:  n.profile,
		Findings: []nights.Finding{{Code: nights.CodeScaled, Level: nights.Blocking, Column: "price", Text: "twice"}}}
	text := must.Get(r.Encode())(t)
	back, err := nights.DecodeRecord(text, "clicks", "0123456789abcdef")
	if err != nil || !back.Blocked() || nights.Reason(back.Findings) != "price: twice (scaled)" {
		t.Fatalf("read back: %v, blocked %v, reason %q; want no error, and it blocked because of the price", err,
			back.Blocked(), nights.Reason(back.Findings))
	}

	// The same night again has the same rows as the profile that was read back, and nothing else is wrong with it.
	found := compare(t, n, []*nights.Profile{back.Profile})
	if len(found) != 1 || found[0].Code != nights.CodeSameRows {
		t.Errorf("the night after itself: found %v, want same_rows alone", found)
	}

	for name, change := range map[string]func(*nights.Record){
		"another dataset": func(r *nights.Record) { r.Dataset = "other" },
		"another version": func(r *nights.Record) { r.Version = "fedcba9876543210" },
		"another format":  func(r *nights.Record) { r.Format = 2 },
		"no profile":      func(r *nights.Record) { r.Profile = nil },
		"odd prints":      func(r *nights.Record) { r.Profile.Prints = r.Profile.Prints[:9] }, // a hash has 8 bytes
		"odd contents":    func(r *nights.Record) { r.Profile.Bare = r.Profile.Bare[:9] },
		"few quantiles": func(r *nights.Record) {
			of := slices.IndexFunc(r.Profile.Columns, func(c nights.Column) bool { return c.Kind == nights.Number })
			c := &r.Profile.Columns[of]
			c.Quantiles = c.Quantiles[:3]
		},
		"odd ties":    func(r *nights.Record) { r.Profile.Ties[2] = nil }, // with the two columns before it
		"odd buckets": func(r *nights.Record) { r.Profile.Buckets.Label = nil },
	} {
		bad := must.Get(nights.DecodeRecord(text, "clicks", "0123456789abcdef"))(t)
		change(bad)
		damaged := must.Get(bad.Encode())(t)
		if _, err := nights.DecodeRecord(damaged, "clicks", "0123456789abcdef"); err == nil {
			t.Errorf("%s: the record is read without an error, want one", name)
		}
	}
}

// FuzzRecord: any bytes are refused as a record, or comparing with its profile does not panic.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"format":1,"dataset":"clicks","version":"0123456789abcdef",` +
		`"profile":{"rows":1,"buckets":{"rows":[1],"label":[0]},` +
		`"columns":[{"name":"a","kind":"text","levels":[{"text":"x"}]}],"ties":[[]]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := nights.DecodeRecord(text, "clicks", "0123456789abcdef")
		if err != nil {
			return
		}
		empty := &ingest.Night{Sample: &dataset.Sample{}}
		find(t, nights.Request{Night: empty, Tonight: r.Profile, Before: []*nights.Profile{r.Profile, r.Profile}})
	})
}

// kindsNight stages a night of about 3,000 rows of the classes red (half of them), green (a third) and blue, which
// the feature x predicts. change replaces each row's class; a row without one is left out. It also checks that a
// class whose rows have nearly no weight keeps a share above 0, since a share of 0 means that the class has no rows.
func kindsNight(t *testing.T, seed uint64, change func(class string) string) night {
	t.Helper()
	var b strings.Builder
	b.WriteString("x,site,y\n")
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		u := rng.Float64()
		class := "blue"
		switch {
		case u < 0.5:
			class = "red"
		case u < 0.83:
			class = "green"
		}
		class = change(class)
		if class != "" {
			fmt.Fprintf(&b, "%.7f,s%d,%s\n", u+0.2*rng.NormFloat64(), rng.IntN(9), class)
		}
	}
	r := stageCSV(t, b.String(), "label: {column: y, kind: classes}\nsplit: {by: random, train: 0.8, test: 0.2}\n")
	p := measured(t, r.Night, r.Manifest)

	// Classes are numbered in order, so that the weight of blue, number 0, is a millionth.
	r.Night.Weight = make([]float32, len(r.Night.Label))
	for i, class := range r.Night.Label {
		r.Night.Weight[i] = 1e-6 + class
	}
	light := measured(t, r.Night, r.Manifest)
	if (light.Label.Classes["blue"] > 0) != (p.Label.Classes["blue"] > 0) {
		t.Errorf("with next to no weight: got %+v, want a share of blue that is 0 only if it has no row", light.Label)
	}
	r.Night.Weight = nil
	return night{r.Night, p}
}

// TestNightsOfClasses: ten nights of three classes, which differ by chance only, have no findings. A class that is
// gone, or two that are swapped, block a night; a new one is a warning. Each finding names the class.
func TestNightsOfClasses(t *testing.T) {
	same := func(class string) string { return class }
	var before []*nights.Profile
	for seed := range uint64(10) {
		n := kindsNight(t, seed, same)
		if found := compare(t, n, before); len(found) > 0 {
			t.Errorf("quiet night %d: got %v, want nothing", seed, found)
		}
		before = append(before, n.profile)
	}
	if l := before[9].Label; l.Positive != "red" || math.Abs(l.Classes["red"]-l.Mean) > 1e-5 ||
		!(l.Mean > 0.45 && l.Mean < 0.55) {
		t.Errorf("got %+v, want a half of the rows of class red", l)
	}

	// Before, a third of the rows were green and 17 % blue; the texts end before the digits that vary.
	turn := 0 // rows so far: every twentieth is of the new class
	for name, tc := range map[string]struct {
		bad  func(string) string
		code nights.Code
		says string
	}{
		"lost": {func(c string) string { return strings.TrimPrefix(c, "green") }, nights.CodeLabelsLost,
			`no row is of class "green", but 3`},
		"two for one": {func(c string) string { return strings.ReplaceAll(c, "green", "blue") }, nights.CodeLabelsLost,
			`no row is of class "green", but 3`},
		"swapped": {func(c string) string {
			return map[string]string{"red": "blue", "blue": "red", "green": "green"}[c]
		}, nights.CodeLabelRate, `of the rows are of class "blue", but 1`},
		"new": {func(c string) string {
			turn++
			if turn%20 == 0 {
				return "rose"
			}
			return c
		}, nights.CodeLabelRate, `class "rose" is new`},
	} {
		found := compare(t, kindsNight(t, 11, tc.bad), before)
		if len(found) == 0 || found[0].Code != tc.code || !strings.Contains(fmt.Sprint(found), tc.says) ||
			nights.Blocked(found) != (name != "new") {
			t.Errorf("%s: got %v, want %s first, with %q, which blocks unless new", name, found, tc.code, tc.says)
		}
	}
}

// TestAsOfIsNotWhatNightsAreToldApartBy: specs that differ only in label.as_of, which is another time every night, have
// the same hashes, so that their nights are compared. Another label.matures gives other hashes.
func TestAsOfIsNotWhatNightsAreToldApartBy(t *testing.T) {
	// hashes returns those of a spec with these keys of label, and checks that hashing leaves the spec as it was.
	hashes := func(label string) [2]string {
		t.Helper()
		s := must.Get(dataset.ParseSpec("d.yaml",
			[]byte("name: t\nsource: t.csv\nlabel: {column: y, at: ts, "+label+"}\n")))(t)
		before := s.Label
		spec, meaning := must.Get2(nights.SpecHashes(s))(t)
		must.Equal(t, s.Label, before, "the label after %s was hashed", label)
		return [2]string{spec, meaning}
	}

	first := hashes("matures: 48h, as_of: 2026-11-19T03:00:00Z")
	for _, label := range []string{"matures: 48h, as_of: 2026-11-20T03:00:00Z", "matures: 48h"} {
		must.Equal(t, hashes(label), first, "hashes of %s with another as_of", label)
	}
	if got := hashes("matures: 72h, as_of: 2026-11-19T03:00:00Z"); got[0] == first[0] || got[1] == first[1] {
		t.Errorf("labels that are final a day later hash to %q, as before; expected others", got)
	}
}

// TestALabelThatStandsForNone: in a regression, a number that 20 or more labels have blocks a night if it is below or
// above all earlier labels, and chance does not explain that earlier nights lacked it. 50 of 3,000 labels are 1.7 %;
// 301.01 and 4297.76 are the least and the greatest of the night before.
func TestALabelThatStandsForNone(t *testing.T) {
	// table stages a night of labels between 300 and 4300, of which odd rows have number instead.
	table := func(rows, odd int, number float64, seed uint64) night {
		var b strings.Builder
		b.WriteString("price,x\n")
		r := rand.New(rand.NewPCG(seed, 3))
		for i := range rows {
			price := 300 + 4000*r.Float64()
			if i%(rows/max(odd, 1)) == 0 && odd > 0 {
				price = number
			}
			fmt.Fprintf(&b, "%.2f,%.4f\n", price, r.Float64())
		}
		return nightOf(t, stageCSV(t, b.String(), "label: {column: price, kind: regression}\nencodings: none\n"+
			"split: {by: random, train: 0.5, valid: 0.5}\n"))
	}
	for name, c := range map[string]struct {
		before, rows, odd int // rows with the number on the night before, of 3,000; tonight's rows, and those with it
		number            float64
		want              string // how the text of the blocking finding begins; empty for none
	}{
		"as before":          {0, 3000, 0, 0, ""},
		"unknown is -1":      {0, 3000, 50, -1, "1.7 % of the labels are -1; before, none was below 301.01: "},
		"unknown is 99999":   {0, 3000, 50, 99999, "1.7 % of the labels are 99999; before, none was above 4297.76: "},
		"it always was":      {50, 3000, 50, -1, ""},
		"five rows":          {0, 3000, 5, -1, ""},
		"within what it was": {0, 3000, 50, 1000, ""},
		"a small table":      {0, 400, 8, -1, ""},
	} {
		before := table(3000, c.before, c.number, 1).profile
		var got string
		for _, f := range compare(t, table(c.rows, c.odd, c.number, 2), []*nights.Profile{before}) {
			if f.Code == nights.CodeLevel && f.Level == nights.Blocking {
				got = f.Text
			}
		}
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: got the finding %q, want %q", name, got, c.want)
		}
	}
}

// TestOneValueByChance: a column in which all of tonight's 3,000 rows have one value blocks the night if, by its shares
// on the nights before, that is improbable. It does not if one row in 7,000 had another value, or if all rows had that
// value on the night before last.
//
// If 1, 10 or 40 of 7,000 rows had another value, all of 3,000 rows have the usual one with a probability of .65, .014
// or 3e-8. Below .05 it is a warning, and below .001 it blocks. Of two nights the mean counts: a day without other
// values makes it .5 at least.
func TestOneValueByChance(t *testing.T) {
	// table stages a night in whose columns flag and twin the first rare rows have the value other, and the rest often.
	table := func(rows, rare int, often, other string) night {
		var b strings.Builder
		b.WriteString("y,x,flag,twin\n")
		random := rand.New(rand.NewPCG(uint64(rows), uint64(rare)))
		for i := range rows {
			flag := often
			if i < rare {
				flag = other
			}
			fmt.Fprintf(&b, "%d,%.4f,%s,%s\n", random.IntN(2), random.Float64(), flag, flag)
		}
		return plainNight(t, b.String())
	}
	for name, c := range map[string]struct {
		rare         int // rows with the other value, of 7,000, on the night before
		earlier      int // and on the night before that
		often, other string
		tonight      string       // the value of all rows
		want         nights.Level // of the finding; empty for none
	}{
		"a day without":    {40, 0, "no", "yes", "no", ""},
		"one row":          {1, 1, "0", "1", "0", ""},
		"one fraction":     {1, 1, "0", "0.5", "0", ""},
		"one text":         {1, 1, "no", "yes", "no", ""},
		"ten rows":         {10, 10, "0", "1", "0", nights.Warning},
		"many rows":        {40, 40, "0", "1", "0", nights.Blocking},
		"many texts":       {40, 40, "no", "yes", "no", nights.Blocking},
		"the other number": {1, 1, "0", "1", "1", nights.Blocking},
		"the other text":   {1, 1, "no", "yes", "yes", nights.Blocking},
	} {
		before := table(7000, c.rare, c.often, c.other).profile
		earlier := table(7000, c.earlier, c.often, c.other).profile
		var got nights.Level
		found := compare(t, table(3000, 0, c.tonight, ""), []*nights.Profile{earlier, before})
		for _, f := range found {
			if f.Code == nights.CodeConstant {
				got = f.Level
			}
		}
		if got != c.want || nights.Blocked(found) != (c.want == nights.Blocking) {
			t.Errorf("%s: a constant column is %q, expected %q; the findings are %v", name, got, c.want, found)
		}
	}
}
