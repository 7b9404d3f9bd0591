package judge_test

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"coppice/aggregator/internal/judge"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// Nights of flights: each trains on the days before, without the last two, takes the level of the last one, and is
// tested on its own day.
const (
	flightsWindow = 28
	flightsFirst  = 120 // day of the year, from 0: the 1st of May 2001
)

// flights are the rows of each day.
type flights []*gbt.Data

// readFlights reads flights-3m.parquet: which flights were more than 15 minutes late, by distance, hour, weekday,
// origin and destination.
func readFlights(t *testing.T, days int) flights {
	data := cmp.Or(os.Getenv("COPPICE_DATA"), filepath.Join("..", "..", "..", "..", "shared", "data"))
	file := filepath.Join(data, "flights-3m.parquet")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("the flights were asked for and are not there; COPPICE_DATA names their folder: %v", err)
	}
	from := must.Get(table.Open([]table.File{{URI: file, Path: file}}, table.Options{Threads: 2}))(t)
	features := []gbt.Feature{{Name: "distance", Missing: -1}, {Name: "hour", Bins: 24, Missing: -1},
		{Name: "weekday", Bins: 7, Missing: -1}, {Name: "origin", Bins: 256, Categorical: true},
		{Name: "destination", Bins: 256, Categorical: true}}
	for x := 100.0; x < 2800; x *= 1.06 {
		features[0].Bounds = append(features[0].Bounds, x)
	}
	features[0].Bins = len(features[0].Bounds) + 1
	for f := 1; f < 3; f++ {
		for x := range features[f].Bins - 1 {
			features[f].Bounds = append(features[f].Bounds, float64(x))
		}
	}
	out := make(flights, days)
	for i := range out {
		out[i] = &gbt.Data{Features: features, Columns: make([][]byte, len(features))}
	}
	codes := map[string]byte{}
	code := func(airport string) byte {
		if _, known := codes[airport]; !known && len(codes) < 255 {
			codes[airport] = byte(len(codes) + 1)
		}
		return codes[airport]
	}
	names := []string{"date", "delay", "distance", "origin", "destination"}
	must.Do(t, from.Read(t.Context(), names, 1<<14, func(b *table.Batch) error {
		date, delay, distance := b.Column("date").Int, b.Column("delay").Int, b.Column("distance").Int
		begins := int64(978307200) // 2001-01-01, a Monday
		for i := range b.Rows {
			hour := (date[i]/1e6 - begins) / 3600
			if hour/24 >= int64(days) {
				continue
			}
			d := out[hour/24]
			bin, _ := slices.BinarySearch(features[0].Bounds, float64(distance[i]))
			row := []byte{byte(bin), byte(hour % 24), byte(hour / 24 % 7), code(b.Column("origin").Text[i]),
				code(b.Column("destination").Text[i])}
			label := float32(0)
			if delay[i] > 15 {
				label = 1
			}
			d.Rows++
			d.RowMajor, d.Label = append(d.RowMajor, row...), append(d.Label, label)
			for f := range row {
				d.Columns[f] = append(d.Columns[f], row[f])
			}
		}
		return nil
	}))
	return out
}

// flightModel is a night's model, and what it predicts for each day.
type flightModel struct {
	trees *gbt.Model
	shift float64 // of the log odds
	pred  map[int][]float64
}

// train is the model of a night.
func (f flights) train(t *testing.T, night int) flightModel {
	window := &gbt.Data{Features: f[0].Features, Columns: make([][]byte, len(f[0].Columns))}
	for _, d := range f[night-flightsWindow+1 : night-1] {
		window.Rows += d.Rows
		window.RowMajor, window.Label = append(window.RowMajor, d.RowMajor...), append(window.Label, d.Label...)
		for c := range d.Columns {
			window.Columns[c] = append(window.Columns[c], d.Columns[c]...)
		}
	}
	p := gbt.Defaults()
	p.Objective, p.NumIterations, p.NumLeaves, p.LearningRate = "binary", 100, 31, 0.1
	r := must.Get(gbt.Train(t.Context(), window, p, gbt.Options{Threads: 2}))(t)
	m := flightModel{r.Model, 0, map[int][]float64{}}
	for range 20 { // the level of the last day before the test, as a calibrator would have it
		gradient, hessian := 0.0, 0.0
		for i, q := range m.predict(t, f, night-1) {
			gradient, hessian = gradient+float64(f[night-1].Label[i])-q, hessian+q*(1-q)
		}
		m.shift += gradient / hessian
		clear(m.pred)
	}
	return m
}

func (m *flightModel) predict(t *testing.T, f flights, day int) []float64 {
	if m.pred[day] == nil {
		pred := must.Get(m.trees.PredictBinned(f[day], 2))(t)
		for i, z := range pred {
			pred[i] = sigmoid(z + m.shift)
		}
		m.pred[day] = pred
	}
	return m.pred[day]
}

// TestFlights replays thirty nights of real flights under the gate, the rule before it, promoting every night, and an
// oracle that knows the next day. FLIGHTS=1 asks for it.
func TestFlights(t *testing.T) {
	if os.Getenv("FLIGHTS") == "" {
		t.Skip("SKIPPED: a minute; FLIGHTS=1 asks for it")
	}
	const last = flightsFirst + 29
	nights := 0.0
	f := readFlights(t, last+2)
	m := &month[flightModel, int]{gate: gate(nil), loss: logLoss(t), unseen: 2, champion: -1}
	m.judged = func(day, night int, fresh, old, last *flightModel) judge.Judged {
		j := judge.Judged{Night: night, Label: f[day].Label, New: fresh.predict(t, f, day)}
		if old != nil {
			j.Old = old.predict(t, f, day)
		}
		if last != nil {
			j.Last = last.predict(t, f, day)
		}
		return j
	}
	old := &strict[flightModel, int]{month: *m}
	old.gate.Confidence = 0.95

	loss := func(n *flightModel, day int) float64 {
		v := must.Get(m.loss.Eval(metric.Input{Label: f[day].Label, Pred: n.predict(t, f, day)}))(t)
		return v
	}
	var gated, before, always, oracle float64
	var best *flightModel
	better, betterLive, promoted := 0, 0, 0
	for night := flightsFirst; night <= last; night++ {
		fresh := f.train(t, night)
		was := m.champion
		d := m.night(fresh, night)
		old.night(fresh, night)
		if m.champion < 0 { // its calibration is off, and nothing is better
			t.Logf("night %d: %s", night-flightsFirst, d.Reason)
			continue
		}
		nights++
		next := loss(&fresh, night+1)
		if best == nil || next < loss(best, night+1) {
			best = &fresh
		}
		live := d.Verdict == sweep.VerdictPromoted
		if live {
			promoted++
		}
		if was >= 0 && next < loss(&m.versions[was].model, night+1) {
			better++
			if live {
				betterLive++
			}
		}
		gated, always, oracle = gated+loss(&m.versions[m.champion].model, night+1), always+next,
			oracle+loss(best, night+1)
		before += loss(old.live, night+1)
		t.Logf("night %d: fresh %.4f, champion %.4f, best %.4f: %s", night-flightsFirst, next,
			loss(&m.versions[m.champion].model, night+1), loss(best, night+1), d.Reason)
	}
	over := func(x float64) float64 { return 100 * (x/oracle - 1) }
	t.Logf("log loss %.4f; above the oracle's: gate %.2f %%, before %.2f %%, always %.2f %%; %d promoted; of %d models "+
		"better on the next day %d went live", gated/nights, over(gated), over(before), over(always), promoted, better,
		betterLive)
	if gated > 1.01*min(always, before) {
		t.Error("another rule is better by a per cent; docs/LAB.md says otherwise")
	}
}
