package judge_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"coppice/aggregator/internal/judge"
	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	stored "coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
	"coppice/internal/sweep"
)

// clickModel is a model of clicks: trees on columns that are binned by its own table, calibrated by a shift.
type clickModel struct {
	trees    *gbt.Model
	features []gbt.Feature
	bin      []func(string) byte // by feature, the bin of a text
	shift    float64             // added to the trees' log odds
	seen     map[string]bool     // campaigns of its table
	pred     map[int][]float64   // predictions, by night, kept by predict
}

// fitClicks trains on the first 70 % of a table's rows, and chooses the shift by the rows from 80 to 90 %:
// predictions add up to the labels there. Numbers are binned by 60 quantiles; texts and ids by their 200 most
// frequent levels.
func fitClicks(t *testing.T, table nightstest.Table) *clickModel {
	m := &clickModel{seen: map[string]bool{}, pred: map[int][]float64{}}
	n := len(table.Rows)
	train := table.Rows[:n*7/10]
	for _, r := range table.Rows {
		m.seen[r[1]] = true // its campaign
	}
	for f, name := range table.Names {
		if name == "ts" || name == "is_click" {
			continue
		}
		counts, numbers := map[string]int{}, []float64(nil)
		for _, r := range train {
			counts[r[f]]++
			if x, err := strconv.ParseFloat(r[f], 64); err == nil {
				numbers = append(numbers, x)
			}
		}
		one := gbt.Feature{Name: name, Missing: -1}
		if name != "campaign_id" && name != "advertiser_id" && len(numbers) > len(train)*9/10 {
			slices.Sort(numbers)
			for b := 1; b < 60; b++ {
				if x := numbers[b*len(numbers)/60]; len(one.Bounds) == 0 || x > one.Bounds[len(one.Bounds)-1] {
					one.Bounds = append(one.Bounds, x)
				}
			}
			one.Bins = len(one.Bounds) + 2
			one.Missing = one.Bins - 1
			bounds, missing := one.Bounds, byte(one.Missing)
			m.bin = append(m.bin, func(text string) byte {
				x, err := strconv.ParseFloat(text, 64)
				if err != nil {
					return missing
				}
				b, _ := slices.BinarySearch(bounds, x)
				return byte(b)
			})
		} else {
			levels := make([]string, 0, len(counts))
			for text := range counts {
				levels = append(levels, text)
			}
			slices.SortFunc(levels, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
			code := map[string]byte{}
			for i, text := range levels[:min(len(levels), 200)] {
				code[text] = byte(i + 1)
			}
			one.Categorical, one.Bins = true, len(code)+1
			m.bin = append(m.bin, func(text string) byte { return code[text] })
		}
		m.features = append(m.features, one)
	}

	p := gbt.Defaults()
	p.NumIterations, p.NumLeaves, p.LearningRate, p.MinDataInLeaf = 60, 8, 0.08, 100
	r := must.Get(gbt.Train(t.Context(), m.encode(nightstest.Table{Names: table.Names, Rows: train}), p,
		gbt.Options{Threads: 2}))(t)
	m.trees = r.Model
	calib := m.encode(nightstest.Table{Names: table.Names, Rows: table.Rows[n*8/10 : n*9/10]})
	z := must.Get(m.trees.PredictBinned(calib, 2))(t)
	for range 20 {
		gradient, hessian := 0.0, 1e-9
		for i := range z {
			q := sigmoid(z[i] + m.shift)
			gradient, hessian = gradient+float64(calib.Label[i])-q, hessian+q*(1-q)
		}
		m.shift += max(-1, min(1, gradient/hessian))
	}
	return m
}

// encode returns a table as the model's input. A column that the table does not have is missing in all rows.
func (m *clickModel) encode(table nightstest.Table) *gbt.Data {
	d := &gbt.Data{Features: m.features, Rows: len(table.Rows), Columns: make([][]byte, len(m.features)),
		RowMajor: make([]byte, len(table.Rows)*len(m.features))}
	for f, feature := range m.features {
		at := slices.Index(table.Names, feature.Name)
		d.Columns[f] = make([]byte, d.Rows)
		for i, r := range table.Rows {
			d.Columns[f][i] = byte(max(feature.Missing, 0))
			if at >= 0 {
				d.Columns[f][i] = m.bin[f](r[at])
			}
			d.RowMajor[i*len(m.features)+f] = d.Columns[f][i]
		}
	}
	for _, r := range table.Rows {
		d.Label = append(d.Label, clicked(r))
	}
	return d
}

// clicked returns the label of a row, its last value.
func clicked(row []string) float32 {
	if row[len(row)-1] == "1" {
		return 1
	}
	return 0
}

// predict returns the probabilities of a click for rows. They are kept under night, a number for these rows.
func (m *clickModel) predict(t *testing.T, night int, rows nightstest.Table) []float64 {
	if m.pred[night] == nil {
		z := must.Get(m.trees.PredictBinned(m.encode(rows), 2))(t)
		for i := range z {
			z[i] = sigmoid(z[i] + m.shift)
		}
		m.pred[night] = z
	}
	return m.pred[night]
}

// clicks are nights of a stream, each the table of a window of days.
type clicks struct {
	*testing.T
	stream nightstest.Stream
	truth  nightstest.Stream // the same with many rows
	window int
	days   map[int]nightstest.Table
	tests  map[int]nightstest.Table
	ahead  map[int]nightstest.Table // rows that a model meets
}

// day returns the stream's table of one day, which it makes once.
func (c *clicks) day(day int) nightstest.Table {
	if _, ok := c.days[day]; !ok {
		c.days[day] = c.stream.Night(day)
	}
	return c.days[day]
}

// table returns the table of a night: the window of days that ends with it. last replaces the last day's rows, if it
// has any.
func (c *clicks) table(night int, last nightstest.Table) nightstest.Table {
	out := nightstest.Table{Names: c.day(night).Names}
	for d := night - c.window + 1; d < night; d++ {
		out.Rows = append(out.Rows, c.day(d).Rows...)
	}
	if last.Rows == nil {
		last = c.day(night)
	}
	return nightstest.Table{Names: last.Names, Rows: append(out.Rows, last.Rows...)}
}

// fit trains a model on a night's table. The newest tenth of the rows are kept in c.tests, as the night's test rows.
func (c *clicks) fit(night int, table nightstest.Table) *clickModel {
	table.Rows = slices.Clone(table.Rows)
	slices.SortStableFunc(table.Rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	c.tests[night] = nightstest.Table{Names: table.Names, Rows: slices.Clone(table.Rows[len(table.Rows)*9/10:])}
	return fitClicks(c.T, table)
}

// judged is month.judged for the test rows kept under day. Of an earlier night it leaves out rows of campaigns that
// the new model has not seen.
func (c *clicks) judged(day, night int, fresh, old, last **clickModel) judge.Judged {
	j := judge.Judged{Night: night}
	for i, r := range c.tests[day].Rows {
		if night > 0 && !(*fresh).seen[r[1]] {
			continue
		}
		j.Label = append(j.Label, clicked(r))
		for pred, m := range map[*[]float64]**clickModel{&j.New: fresh, &j.Old: old, &j.Last: last} {
			if m != nil {
				*pred = append(*pred, (*m).predict(c.T, day, c.tests[day])[i])
			}
		}
	}
	return j
}

// gain returns by how much a model is better than another one on the two days after a night, as a share of the
// other's log loss, and whether the difference, in either direction, is beyond chance.
func (c *clicks) gain(m, than *clickModel, night int) (gain float64, shown bool) {
	in, old := metric.Input{}, []float64(nil)
	for day := night + 1; day <= night+2; day++ {
		if _, ok := c.ahead[day]; !ok {
			c.ahead[day] = c.truth.Night(day)
		}
		for _, r := range c.ahead[day].Rows {
			in.Label = append(in.Label, clicked(r))
		}
		in.Pred = append(in.Pred, m.predict(c.T, 10_000+day, c.ahead[day])...)
		old = append(old, than.predict(c.T, 10_000+day, c.ahead[day])...)
	}
	d, err := logLoss(c.T).Compare(in, old, metric.Confidence{Level: 0.95})
	if err != nil {
		c.Fatal(err)
	}
	return d.Gain / d.Old, d.Low > 0 || d.High < 0
}

// stage reports whether staging refuses or blocks a table after earlier ones, and returns its profile.
func (c *clicks) stage(table nightstest.Table, before []*nights.Profile) (p *nights.Profile, blocked bool) {
	file := filepath.Join(c.TempDir(), "night.csv")
	if err := os.WriteFile(file, table.CSV(), 0o600); err != nil {
		c.Fatal(err)
	}
	spec, err := dataset.ParseSpec("dataset.yaml", append(nightstest.Spec(file), "encodings: none\n"...))
	if err != nil {
		c.Fatal(err)
	}
	o := ingest.Options{}
	if w := nights.NewWitness(before, false); w != nil {
		o.Witness = w
	}
	r, err := ingest.Stage(c.Context(), spec, []stored.File{{URI: file, Path: file}}, file+".d", o)
	if err != nil {
		return nil, true
	}
	if p, err = nights.Measure(c.Context(), r.Night, r.Manifest, 2, nil); err != nil {
		c.Fatal(err)
	}
	found, err := nights.Compare(c.Context(), nights.Request{Night: r.Night, Tonight: p, Before: before, Spec: spec,
		Declared: true, At: nightstest.First})
	if err != nil {
		c.Fatal(err)
	}
	return p, nights.Blocked(found)
}

// staged is how many nights before a bad one are staged.
const staged = 11

// championAges are how many nights the champions of TestNightly are old.
var championAges = []int{1, 7, 14}

// aged is the month with the champion of so many nights ago.
func aged[M, T any](m *month[M, T], champions []int, age int) *month[M, T] {
	branch := *m
	branch.versions, branch.champion = slices.Clone(m.versions), champions[len(champions)-age]
	return &branch
}

// nightly is what TestNightly counts, by the champion's age where there are several numbers.
type nightly struct {
	calm, held, wrong    [3]int // good nights; of these, held back; of these, not shown to be worse on the next days
	costly, live, stayed [3]int // bad nights that cost 1 % or more; of these, live; of these, for longer than a night
	atStaging, blocked   int    // bad nights that staging blocked, and good ones
}

// TestNightly: good nights of generated clicks, and then one of every kind of bad ones, go through staging and the
// gate, with champions that are 1, 7 and 14 nights old. At most one good night in fifty may be held back wrongly, and
// at most one costly bad night in twenty may stay live for longer than a night. It runs only with the environment
// variable NIGHTLY, six numbers: the window in days, the rows of a day, how many seeds, the first seed, how many
// nights, and with how many seeds bad nights are tried. Without the last number none is.
func TestNightly(t *testing.T) {
	var window, rows, seeds, first, count, bad int
	if n, _ := fmt.Sscan(os.Getenv("NIGHTLY"), &window, &rows, &seeds, &first, &count, &bad); n < 5 {
		t.Skip("SKIPPED: minutes; `make nights` runs it")
	}
	n := &nightly{}
	for _, shape := range []nightstest.Shape{nightstest.Drifting, nightstest.Steady, nightstest.Growing} {
		for seed := range seeds {
			s := nightstest.Stream{Seed: uint64(first + seed), Rows: rows, Shape: shape, Slow: window / 60}
			truth := s
			truth.Rows = 10_000
			if window > 1 && shape == nightstest.Growing { // its days grow to five times that
				s.Rows, truth.Rows = rows/3, truth.Rows/3
			}
			c := &clicks{T: t, stream: s, truth: truth, window: window, days: map[int]nightstest.Table{},
				tests: map[int]nightstest.Table{}, ahead: map[int]nightstest.Table{}}
			// A window's last tenth is test. A day later, more than nine tenths of that are test again only if the
			// window has more than 100 days: then every second night is left out. Tonight's model is trained on all but
			// the last three tenths, and so has not seen the test rows of nights in the last two tenths.
			m := &month[*clickModel, int]{gate: gate(nil), loss: logLoss(t), unseen: 31, apart: (window + 99) / 100,
				champion: -1, judged: c.judged}
			if window > 1 {
				m.unseen = window * 2 / 10
			}
			var champions []int
			for night := window; night < window+count; night++ {
				n.tryCalm(c, m, champions, night)
				champions = append(champions, m.champion)
			}
			if seed < bad {
				n.tryBad(c, m, champions, window+count)
			}
		}
	}
	t.Logf("champions of %v nights: %v of %v calm nights held back, %v of them with a model that is not shown to be "+
		"worse on the next two days; %d blocked when staged", championAges, n.held, n.calm, n.wrong, n.blocked)
	t.Logf("of %v bad nights that cost 1 %% or more %d were blocked when staged; %v went live, %v for longer than a "+
		"night", n.costly, n.atStaging, n.live, n.stayed)
	// One in fifty, and one in twenty, each rounded up.
	for a := range championAges {
		if 50*n.wrong[a] > n.calm[a]+49 || 20*n.stayed[a] > n.costly[a]+19 {
			t.Errorf("champions of %d nights: %d of %d calm nights wrongly held back, %d of %d costly ones live for "+
				"longer than a night; want at most 1 in 50, and 1 in 20", championAges[a], n.wrong[a], n.calm[a],
				n.stayed[a], n.costly[a])
		}
	}
}

// tryCalm judges a good night against champions of all ages and counts what came of it. Then the night becomes part
// of the month, m. champions are the champions after each night so far.
func (n *nightly) tryCalm(c *clicks, m *month[*clickModel, int], champions []int, night int) {
	fresh := c.fit(night, c.table(night, nightstest.Table{}))
	for a, age := range championAges {
		if len(champions) < age || champions[len(champions)-age] < 0 {
			continue
		}
		branch := aged(m, champions, age)
		old := branch.versions[branch.champion].model
		n.calm[a]++
		if d := branch.night(fresh, night); d.Verdict != sweep.VerdictPromoted {
			gain, shown := c.gain(fresh, old, night)
			n.held[a]++
			if gain > 0 || !shown {
				n.wrong[a]++
			}
			c.Logf("held back: %s %d, night %d, champion of %d nights, %.2f %% better on the next days, shown %t: %s",
				c.stream.Shape, c.stream.Seed, night, age, 100*gain, shown, d.Reason)
		}
	}
	m.night(fresh, night)
}

// tryBad stages and judges every kind of bad night, against champions of all ages, and counts what came of it: with all
// days of the window broken, and with the last one alone. The month stays as it is. If a bad night goes live, the next,
// good night shows whether it stays.
func (n *nightly) tryBad(c *clicks, m *month[*clickModel, int], champions []int, night int) {
	var before []*nights.Profile
	for past := night - staged; past < night; past++ {
		p, blocked := c.stage(c.table(past, nightstest.Table{}), before)
		before = append(before, p)
		if blocked {
			n.blocked++
		}
	}
	today, yesterday := c.table(night, nightstest.Table{}), c.table(night-1, nightstest.Table{})
	honest, tomorrow := c.fit(night, today), c.fit(night+1, c.table(night+1, nightstest.Table{}))
	for i, k := range nightstest.Kinds() {
		tables := []nightstest.Table{k.Break(rand.New(rand.NewPCG(c.stream.Seed, uint64(i))), today, yesterday)}
		if c.window > 1 && c.stream.Rows > 1000 {
			last := k.Break(rand.New(rand.NewPCG(c.stream.Seed, uint64(i))), c.day(night), c.day(night-1))
			if slices.Equal(last.Names, today.Names) {
				tables = append(tables, c.table(night, last))
			}
		}
		for how, table := range tables {
			if len(table.Rows) < 1000 {
				continue // no model: staging refuses or blocks it
			}
			at := 1000 + 2*i + how
			fresh := c.fit(at, table)
			gain, _ := c.gain(fresh, honest, night)
			if gain > -0.01 {
				continue
			}
			_, blocked := c.stage(table, before)
			if blocked {
				n.atStaging++
			}
			for a, age := range championAges {
				n.costly[a]++
				branch := aged(m, champions, age)
				if blocked || branch.night(fresh, at).Verdict != sweep.VerdictPromoted {
					continue
				}
				n.live[a]++
				broken := branch.champion
				if branch.night(tomorrow, night+1); branch.champion == broken {
					n.stayed[a]++
				}
				c.Logf("live: %s %d, %s (%s), champion of %d nights, costs %.1f %%, longer than a night: %t",
					c.stream.Shape, c.stream.Seed, k.Name, []string{"all days", "the last day"}[how], age, -100*gain,
					branch.champion == broken)
			}
		}
	}
}
