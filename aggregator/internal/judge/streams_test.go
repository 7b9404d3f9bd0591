package judge_test

import (
	"cmp"
	"fmt"
	"math"
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
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
	"coppice/internal/sweep"
)

// clickModel is a model of clicks: trees on columns binned by its own table, and the level of its calib rows.
type clickModel struct {
	trees    *gbt.Model
	features []gbt.Feature
	bin      []func(string) byte
	shift    float64
	seen     map[string]bool // campaigns of its table
	pred     map[int][]float64
}

// fitClicks trains on the first 70 % of a table's rows and takes the level of those from 80 to 90 %.
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
	r, err := gbt.Train(t.Context(), m.encode(nightstest.Table{Names: table.Names, Rows: train}), p, gbt.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	m.trees = r.Model
	calib := m.encode(nightstest.Table{Names: table.Names, Rows: table.Rows[n*8/10 : n*9/10]})
	z, err := m.trees.PredictBinned(calib, 2)
	if err != nil {
		t.Fatal(err)
	}
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

// encode leaves a column that the table lacks missing.
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

func clicked(row []string) float32 {
	if row[len(row)-1] == "1" {
		return 1
	}
	return 0
}

func (m *clickModel) predict(t *testing.T, night int, rows nightstest.Table) []float64 {
	if m.pred[night] == nil {
		z, err := m.trees.PredictBinned(m.encode(rows), 2)
		if err != nil {
			t.Fatal(err)
		}
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
	window int
	days   map[int]nightstest.Table
	tests  map[int]nightstest.Table
}

func (c *clicks) day(day int) nightstest.Table {
	if _, ok := c.days[day]; !ok {
		c.days[day] = c.stream.Night(day)
	}
	return c.days[day]
}

func (c *clicks) table(night int) (out nightstest.Table) {
	for d := night - c.window + 1; d <= night; d++ {
		day := c.day(d)
		out.Names, out.Rows = day.Names, append(out.Rows, day.Rows...)
	}
	return out
}

// fit is the model of a night's table, whose last tenth is what it is tested on.
func (c *clicks) fit(night int, table nightstest.Table) *clickModel {
	c.tests[night] = nightstest.Table{Names: table.Names, Rows: table.Rows[len(table.Rows)*9/10:]}
	return fitClicks(c.T, table)
}

// judged leaves out rows of earlier nights whose campaign is gone.
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

// next is a model's log loss on the two days after a night.
func (c *clicks) next(m *clickModel, night int) float64 {
	sum, n := 0.0, 0
	for day := night + 1; day <= night+2; day++ {
		for i, p := range m.predict(c.T, 10_000+day, c.day(day)) {
			if clicked(c.day(day).Rows[i]) == 1 {
				sum -= math.Log(p)
			} else {
				sum -= math.Log(1 - p)
			}
			n++
		}
	}
	return sum / float64(n)
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
		Declared: true, At: nightstest.First, Threads: 2})
	if err != nil {
		c.Fatal(err)
	}
	return p, nights.Blocked(found)
}

// staged is how many nights before a bad one are staged.
const staged = 11

// TestNightly: calm nights of made-up clicks, and then one of every kind of bad ones, through staging and the gate, with
// champions of 1, 7 and 14 nights. NIGHTLY has the window in days, the rows of a day, how many seeds, the first, how
// many nights, and whether bad ones are tried.
func TestNightly(t *testing.T) {
	var window, rows, seeds, first, count, bad int
	if n, _ := fmt.Sscan(os.Getenv("NIGHTLY"), &window, &rows, &seeds, &first, &count, &bad); n < 5 {
		t.Skip("SKIPPED: minutes; `make nights` runs it")
	}
	calm, held, better, blockedCalm := 0, 0, 0, 0
	ages := []int{1, 7, 14}
	costly, atStaging, live, stayed := 0, 0, make([]int, 3), make([]int, 3)
	for _, shape := range []nightstest.Shape{nightstest.Drifting, nightstest.Steady, nightstest.Growing} {
		for seed := range seeds {
			c := &clicks{t, nightstest.Stream{Seed: uint64(first + seed), Rows: rows, Shape: shape}, window,
				map[int]nightstest.Table{}, map[int]nightstest.Table{}}
			var months []*month[*clickModel, int]
			for range ages {
				months = append(months, &month[*clickModel, int]{gate: gate(nil), loss: logLoss(t), unseen: 31,
					champion: -1, judged: c.judged})
				if window > 1 {
					months[len(months)-1].unseen = window * 2 / 10
				}
			}
			var before []*nights.Profile
			end := window + count
			for night := window; night < end; night++ {
				table := c.table(night)
				fresh := c.fit(night, table)
				for a, m := range months {
					m.gate.Promote = sweep.PromoteAuto
					if night > end-ages[a] {
						m.gate.Promote = sweep.PromoteByHand
					}
					was := m.champion
					d := m.night(fresh, night)
					if a > 0 || was < 0 {
						continue
					}
					if calm++; d.Verdict != sweep.VerdictPromoted {
						held++
						gain := c.next(m.versions[was].model, night)/c.next(fresh, night) - 1
						if gain > 0 {
							better++
						}
						t.Logf("held back: %s %d, night %d, %.2f %% better on the next days: %s", shape, first+seed,
							night, 100*gain, d.Reason)
					}
				}
				if bad > 0 && night >= end-staged {
					p, blocked := c.stage(table, before)
					before = append(before, p)
					if blocked {
						blockedCalm++
					}
				}
			}
			if bad == 0 {
				continue
			}
			today, tomorrow := c.table(end), c.fit(end+1, c.table(end+1))
			honest := c.next(c.fit(end, today), end)
			for i, k := range nightstest.Kinds() {
				table := k.Break(rand.New(rand.NewPCG(uint64(seed), uint64(i))), today, c.table(end-1))
				if len(table.Rows) < 1000 {
					continue // no model: staging refuses or blocks it
				}
				night := 1000 + i
				fresh := c.fit(night, table)
				cost := c.next(fresh, end)/honest - 1
				if cost < 0.01 {
					continue
				}
				costly++
				if _, blocked := c.stage(table, before); blocked {
					atStaging++
					continue
				}
				for a, m := range months {
					branch := *m
					branch.versions, branch.gate.Promote = slices.Clone(m.versions), sweep.PromoteAuto
					if branch.night(fresh, night).Verdict != sweep.VerdictPromoted {
						continue
					}
					live[a]++
					at := branch.champion
					if branch.night(tomorrow, end+1); branch.champion == at {
						stayed[a]++
					}
					t.Logf("%s %d, %s: live, champions of %d nights, costs %.1f %%", shape, first+seed, k.Name, ages[a],
						100*cost)
				}
			}
		}
	}
	t.Logf("%d of %d calm nights held back by the gate, %d of them better on the next two days; %d blocked when staged",
		held, calm, better, blockedCalm)
	t.Logf("of %d bad nights that cost 1 %% or more %d were blocked when staged; with champions of %v nights %v went "+
		"live, %v for longer than a night", costly, atStaging, ages, live, stayed)
}
