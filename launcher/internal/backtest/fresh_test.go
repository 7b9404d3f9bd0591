package backtest

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/fit"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

var (
	hourRows  = flag.Int("hour-rows", 5000, "rows of an hour of BenchmarkFresh")
	campaigns = flag.Int("campaigns", 20, "campaigns that begin in an hour")
	retrain   = flag.Int("retrain", 4, "hours after which the upper bound trains again")
	order     = flag.String("order", "{}", "encodings.order of the night's dataset.yaml")
)

const (
	window = 72 // hours that a night's model of BenchmarkFresh knows
	late   = 3  // hours by which labels are late
)

// BenchmarkFresh measures what it would be worth to renew tables of ids and the calibrator's level each hour, with the
// same trees. Clicks are generated: new campaigns come every hour and live for a day on average, and the rate of all
// clicks wanders by 1 % an hour. A model of 72 hours answers the next 24:
//
//	stale     as it is
//	tables    with tables to which the hours before the scored one were added
//	level     with its level (calibrate.Level) moved on the last six hours, as they were predicted
//	fresh     with both
//	late      with both, from labels that come three hours later
//	exact     as fresh, with the level of the last hour's probabilities instead of its labels: what no calibration
//	          on earlier hours can do better, however many rows it has
//	retrained trained again every few hours, on the 72 hours before: the upper bound
//
// Losses are expected ones, by the generator's probabilities and beyond theirs, so that chance in the labels does not
// blur them. Recovered is (stale - x) / (stale - retrained). What was asked beforehand: fresh recovers at least half,
// with mean predictions within .97 and 1.03 of the probabilities in 95 % of the hours.
//
//	go test ./launcher/internal/backtest -run XXX -bench Fresh -benchtime 1x -timeout 2h -v
func BenchmarkFresh(b *testing.B) {
	for seed := uint64(11); seed < 15; seed++ {
		b.Run(fmt.Sprint("seed=", seed), func(b *testing.B) {
			for b.Loop() {
				measureFresh(b, seed)
			}
		})
	}
}

// clickHour is an hour of generated clicks, with the probabilities that only the generator knows.
type clickHour struct {
	batch *table.Batch
	truth []float64
	label []float32
}

// clickWorld generates hours of clicks.
type clickWorld struct {
	rng                     *rand.Rand
	hour, campaigns         int
	level                   float64
	advertisers, sites, who []float64
	topics                  [][3]float64 // of sites
	running                 []campaign
}

type campaign struct {
	id, advertiser  int
	effect, traffic float64
	topic           [3]float64
	end             int
}

func newClickWorld(seed uint64) *clickWorld {
	w := &clickWorld{rng: rand.New(rand.NewPCG(seed, 34)), hour: -window}
	normal := func(n int, sd float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = sd * w.rng.NormFloat64()
		}
		return out
	}
	w.advertisers, w.sites, w.who = normal(30, .4), normal(500, .5), normal(20_000, .4)
	for range w.sites {
		w.topics = append(w.topics, [3]float64(normal(3, .5)))
	}
	for w.hour < 0 { // campaigns of several ages run when the first hour begins
		w.next(0)
	}
	return w
}

var clickColumns = []table.Column{{Name: "ts", Type: dataset.Time, Unit: dataset.Micro}, {Name: "campaign", Type: dataset.Text},
	{Name: "advertiser", Type: dataset.Text}, {Name: "site", Type: dataset.Text}, {Name: "user", Type: dataset.Text},
	{Name: "device", Type: dataset.Text}, {Name: "position", Type: dataset.Int}, {Name: "hour", Type: dataset.Int},
	{Name: "click", Type: dataset.Int}}

// next is the next hour, with rows in the order of time.
func (w *clickWorld) next(rows int) *clickHour {
	rng := w.rng
	w.level += .01 * rng.NormFloat64()
	w.running = slices.DeleteFunc(w.running, func(c campaign) bool { return c.end <= w.hour })
	for range *campaigns {
		c := campaign{id: w.campaigns, advertiser: rng.IntN(len(w.advertisers)), traffic: math.Exp(rng.NormFloat64()),
			end: w.hour + 3 + int(21*rng.ExpFloat64())}
		c.effect = w.advertisers[c.advertiser] + .5*rng.NormFloat64()
		for k := range c.topic {
			c.topic[k] = .6 * rng.NormFloat64()
		}
		w.running, w.campaigns = append(w.running, c), w.campaigns+1
	}
	total := 0.0
	for _, c := range w.running {
		total += c.traffic
	}

	h := &clickHour{batch: &table.Batch{Rows: rows}}
	for _, c := range clickColumns {
		v := dataset.Values{Type: c.Type, Unit: c.Unit, Int: make([]int64, rows)}
		if c.Type == dataset.Text {
			v.Int, v.Text = nil, make([]string, rows)
		}
		h.batch.Names, h.batch.Columns = append(h.batch.Names, c.Name), append(h.batch.Columns, v)
	}
	few := func(n int, skew float64) int { return int(float64(n) * math.Pow(rng.Float64(), skew)) }
	for i := range rows {
		at, draw := 0, total*rng.Float64()
		for ; at < len(w.running)-1 && draw >= w.running[at].traffic; at++ {
			draw -= w.running[at].traffic
		}
		c, site, user, device, position := w.running[at], few(500, 2), few(20_000, 1.3), few(4, 1.5), few(8, 1.2)
		z := -2.4 + w.level + c.effect + w.sites[site] + w.who[user] - .12*float64(position) +
			.3*math.Sin(float64(w.hour)*math.Pi/12) - .2*float64(device%2)
		for k, x := range c.topic {
			z += x * w.topics[site][k]
		}
		p := 1 / (1 + math.Exp(-z))
		click := int64(0)
		if rng.Float64() < p {
			click = 1
		}
		h.truth, h.label = append(h.truth, p), append(h.label, float32(click))
		for k, x := range []any{1e6 * int64(1_789_948_800+w.hour*3600+i*3600/rows),
			fmt.Sprint("c", c.id), fmt.Sprint("a", c.advertiser), fmt.Sprint("s", site), fmt.Sprint("u", user),
			fmt.Sprint("d", device), int64(position), int64((w.hour%24 + 24) % 24), click} {
			if text, ok := x.(string); ok {
				h.batch.Columns[k].Text[i] = text
			} else {
				h.batch.Columns[k].Int[i] = x.(int64)
			}
		}
	}
	w.hour++
	return h
}

// clickNight is a night's model, with all levels of its tables.
type clickNight struct {
	*scorer.Scorer
	encoding *dataset.Encoding
	delay    float64 // s
	levels   []map[uint64]*levelCounts
}

type levelCounts struct {
	rows      uint32
	sum, last float64
}

// trainHours stages hours as a night does, trains, and trains once more on all rows.
func trainHours(b *testing.B, hours []*clickHour) *clickNight {
	b.Helper()
	ok := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	source := filepath.Join(dir, "clicks.parquet")
	file, err := os.Create(source)
	ok(err)
	defer file.Close()
	out, err := table.NewParquetWriter(file, clickColumns, table.Snappy)
	ok(err)
	for _, h := range hours {
		ok(out.Write(h.batch))
	}
	ok(out.Close())

	spec, err := dataset.ParseSpec("dataset.yaml", fmt.Appendf(nil, "name: clicks\nsource: %s\nlabel: click\n"+
		"encodings: {keys: [[campaign, site]], budget: 0, order: %s}\n"+
		"split: {by: time, column: ts, train: 0.9, valid: 0.05, calib: 0.05}\n", source, *order))
	ok(err)
	staged, err := (&stager.Stager{Scratch: dir, Threads: 2}).Stage(b.Context(), spec,
		stager.Destination{Dir: filepath.Join(dir, "data")})
	ok(err)
	ds, err := dataset.Open(staged.Place)
	ok(err)
	defer ds.Close()

	config, err := ParseSpec("backtest.yaml", []byte(plain+"metric: log_loss\n"))
	ok(err)
	run := &Runner{Spec: config, Threads: 2}
	t, p := fit.NewTable(ds), config.params[0]
	p.NumIterations, p.NumLeaves, p.LearningRate, p.EarlyStoppingRound = 300, 31, .1, 15
	valid := sweep.Rows{Split: sweep.Valid}
	o, err := t.Train(b.Context(), fit.Request{Params: p, Metric: config.metric, Valid: &valid, Threads: 2})
	ok(err)
	judged, err := run.scorerOf(t, ds, o, nil)
	ok(err)
	p.NumIterations, p.EarlyStoppingRound = o.Model.Iterations(), 0
	o, err = t.Train(b.Context(), fit.Request{Params: p, Metric: config.metric, Threads: 2, Final: true,
		Rows: []sweep.Rows{{Split: sweep.Train}, {Split: sweep.Valid}, {Split: sweep.Calib}}})
	ok(err)
	calibrator, err := t.Level(o.Model, judged.Calibrator, 2, sweep.Rows{Split: sweep.Calib})
	ok(err)

	n := &clickNight{delay: ds.Manifest.Order.DelaySeconds}
	var name string
	n.encoding, name = ds.Manifest.FinalEncoding()
	data, err := os.ReadFile(filepath.Join(ds.Dir(), name))
	ok(err)
	levels, err := dataset.ReadLevels(data, n.encoding.Tables)
	ok(err)
	for _, t := range n.encoding.Tables {
		of := map[uint64]*levelCounts{}
		for at := t.First; at < t.First+t.Levels; at++ {
			c := &levelCounts{rows: levels.Rows[at], sum: levels.Sum[at]}
			if levels.Last != nil {
				c.last = levels.Last[at]
			}
			of[levels.Hash[at]] = c
		}
		n.levels = append(n.levels, of)
	}
	n.Scorer, err = scorer.New(o.Model, calibrator, n.encoding, levels)
	ok(err)
	return n
}

// add adds an hour's labels to the tables.
func (n *clickNight) add(b *testing.B, h *clickHour) {
	b.Helper()
	markers := cell.NewMarkers(n.encoding.Missing)
	part := make([]uint64, h.batch.Rows)
	for i, t := range n.encoding.Tables {
		keys := slices.Repeat([]uint64{encode.Level()}, h.batch.Rows)
		for _, p := range t.Of {
			if err := cell.NewPartReader(p, markers).Hashes(h.batch.Column(p.Column), part); err != nil {
				b.Fatal(err)
			}
			for r, x := range part {
				keys[r] = encode.Join(keys[r], x)
			}
		}
		for r, key := range keys {
			c := n.levels[i][max(key, 1)]
			if c == nil {
				c = &levelCounts{}
				n.levels[i][max(key, 1)] = c
			}
			c.rows++
			c.sum += float64(h.label[r])
			c.last = max(c.last, float64(h.batch.Column("ts").Int[r])/1e6)
		}
	}
}

// renewed is the same trees and calibrator with the tables as they are now.
func (n *clickNight) renewed(b *testing.B) *scorer.Scorer {
	b.Helper()
	e, levels := *n.encoding, &dataset.Levels{}
	e.Tables = slices.Clone(e.Tables)
	for i, of := range n.levels {
		t := &e.Tables[i]
		t.First = levels.Len()
		for _, key := range slices.Sorted(maps.Keys(of)) {
			c := of[key]
			if int(c.rows) < t.Floor {
				continue
			}
			levels.Hash, levels.Sum = append(levels.Hash, key), append(levels.Sum, c.sum)
			levels.Rows, levels.Last = append(levels.Rows, c.rows), append(levels.Last, c.last)
		}
		t.Levels = levels.Len() - t.First
	}
	s, err := scorer.New(n.Model, n.Calibrator, &e, levels)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// leveled predicts as a model does whose level was moved on the last hours of raw scores before this one.
type leveled struct {
	hours, late   int // late are hours of which the labels are not there yet
	raw           [][]float64
	label, weight [][]float32
}

func (l *leveled) predict(b *testing.B, from *calibrate.Calibrator, raw []float64, label, weight []float32) []float64 {
	b.Helper()
	c, end := from, max(0, len(l.raw)-l.late)
	if first := max(0, end-l.hours); end > 0 {
		var err error
		c, err = from.Level(slices.Concat(l.raw[first:end]...), slices.Concat(l.label[first:end]...),
			slices.Concat(l.weight[first:end]...))
		if err != nil {
			b.Fatal(err)
		}
	}
	l.raw, l.label, l.weight = append(l.raw, raw), append(l.label, label), append(l.weight, weight)
	return c.PredictAll(nil, raw)
}

// expected are a positive and a negative row for each one, weighted by its probability.
func (h *clickHour) expected(raw []float64) (both []float64, label, weight []float32) {
	n := len(raw)
	for _, y := range []float32{1, 0} {
		both = append(both, raw...)
		label = append(label, slices.Repeat([]float32{y}, n)...)
	}
	for _, p := range h.truth {
		weight = append(weight, float32(p))
	}
	for _, p := range h.truth {
		weight = append(weight, float32(1-p))
	}
	return both, label, weight
}

func measureFresh(b *testing.B, seed uint64) {
	w := newClickWorld(seed)
	var hours []*clickHour
	for range window + 24 {
		hours = append(hours, w.next(*hourRows))
	}
	night := trainHours(b, hours[:window])
	b.Logf("%d trees, statistics are as if %.0f s old", night.Model.Iterations(), night.delay)

	again, behind := night, *night
	behind.levels = nil
	for _, of := range night.levels {
		copied := map[uint64]*levelCounts{}
		for key, c := range of {
			same := *c
			copied[key] = &same
		}
		behind.levels = append(behind.levels, copied)
	}
	level, fresh, exact := &leveled{hours: 6}, &leveled{hours: 6}, &leveled{hours: 1}
	delayed := &leveled{hours: 6, late: late}
	loss, within := map[string]float64{}, map[string]int{}
	for i, h := range hours[window:] {
		score := func(s *scorer.Scorer) (raw, predicted []float64) {
			raw, predicted, _, err := s.Batch(h.batch, nil, 2, &cell.Inputs{})
			if err != nil {
				b.Fatal(err)
			}
			return raw, predicted
		}
		predicted := map[string][]float64{}
		var raw []float64
		raw, predicted["stale"] = score(night.Scorer)
		predicted["level"] = level.predict(b, night.Calibrator, raw, h.label, nil)
		raw, predicted["tables"] = score(night.renewed(b))
		predicted["fresh"] = fresh.predict(b, night.Calibrator, raw, h.label, nil)
		both, labels, weights := h.expected(raw)
		predicted["exact"] = exact.predict(b, night.Calibrator, both, labels, weights)[:len(raw)]
		night.add(b, h) // only now
		raw, _ = score(behind.renewed(b))
		predicted["late"] = delayed.predict(b, night.Calibrator, raw, h.label, nil)
		if i >= late {
			behind.add(b, hours[window+i-late])
		}
		if i > 0 && i%*retrain == 0 {
			again = trainHours(b, hours[i:window+i])
		}
		_, predicted["retrained"] = score(again.Scorer)

		line := fmt.Sprintf("hour %2d", i)
		for _, kind := range slices.Sorted(maps.Keys(predicted)) {
			off, sum, truth := 0.0, 0.0, 0.0
			for r, p := range h.truth {
				q := predicted[kind][r]
				off += p*math.Log(p/q) + (1-p)*math.Log((1-p)/(1-q))
				sum, truth = sum+q, truth+p
			}
			loss[kind] += off / float64(len(h.truth)) / 24
			if ratio := sum / truth; ratio >= .97 && ratio <= 1.03 {
				within[kind]++
			}
			line += fmt.Sprintf("  %s %.5f %.3f", kind, off/float64(len(h.truth)), sum/truth)
		}
		b.Log(line)
	}
	for _, kind := range slices.Sorted(maps.Keys(loss)) {
		b.Logf("%-9s loss %.5f, recovered %.2f, hours within .97 to 1.03: %d of 24", kind, loss[kind],
			(loss["stale"]-loss[kind])/(loss["stale"]-loss["retrained"]), within[kind])
	}
}
