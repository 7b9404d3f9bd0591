package conclude

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/table"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// driftingDays is the click table of some days, of 400 rows each, with its labels. What the number x says of a click
// grows from day to day.
func driftingDays(first, last int) (text []byte, label []float32) {
	var b bytes.Buffer
	b.WriteString("day,campaign_id,x,is_click,revenue\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for day := range last + 1 {
		for range 400 {
			x, campaign, click := rng.NormFloat64(), rng.IntN(50), 0
			z := -1 + x*(1+float64(day)/10) + math.Sin(float64(campaign))
			if rng.Float64() < 1/(1+math.Exp(-z)) {
				click = 1
			}
			if day >= first {
				fmt.Fprintf(&b, "d%d,c%d,%.4f,%d,0\n", day, campaign, x, click)
				label = append(label, float32(click))
			}
		}
	}
	return b.Bytes(), label
}

// pastNight is how a sweep on six days ended, and the log loss of its version on the day after.
type pastNight struct {
	*sweep.Conclusion
	judged         []byte
	live, ofJudged float64 // of what predicts, and of the judged model
}

// pastNights concludes four nights in a row, each on three days to train on, and one each for valid, calib and test.
func pastNights(t *testing.T, final bool) []pastNight {
	t.Helper()
	var nights []pastNight
	var before *world
	for n := range 4 {
		rows, _ := driftingDays(n, n+5)
		w := newWorld(t, options{into: before, sweep: sweep.ID(fmt.Sprint("night-", n)), leaves: []int{7},
			skip: func(i int) bool { return i > 0 }, change: func(p *sweep.Plan) {
				p.Trials[0].Params["num_iterations"] = 8
				if final {
					p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll}
					p.Trials = append(p.Trials, sweep.Trial{Number: 1, Source: sweep.SourceFinal, Refit: true})
				}
			}, table: datasettest.Options{Encodings: "{budget: 0, final: true}",
				Split: fmt.Sprintf("{by: column, column: day, train: [d%d, d%d, d%d], valid: d%d, calib: d%d, test: d%d}",
					n, n+1, n+2, n+3, n+4, n+5), Edit: func([]byte) []byte { return rows }}})
		if final {
			w.trainOnAll(t)
		}
		before = w
		nights = append(nights, w.pastNight(t, n+6))
	}
	return nights
}

// trainOnAll does the work of the final training of trial 0 as a task does.
func (w *world) trainOnAll(t *testing.T) {
	t.Helper()
	p := must.Get(gbt.ParseParams(w.plan.Trials[0].Params))(t)
	loss := must.Get(metric.Lookup("log_loss"))(t)
	all := fit.NewTable(w.ds)
	o, err := all.Train(t.Context(), fit.Request{Params: p, Metric: loss, Threads: 1, Final: true, Rows: []sweep.Rows{
		{Split: sweep.Train}, {Split: sweep.Valid}, {Split: sweep.Calib}, {Split: sweep.Test}}})
	if err != nil {
		t.Fatal(err)
	}
	w.plan.Trials[1].Params = w.plan.Trials[0].Params
	var text bytes.Buffer
	must.Get(o.Model.WriteTo(&text))(t)
	w.train(t, 1, func(r *sweep.Result, files map[string][]byte) {
		r.Refits, r.TrainRows, files["model.txt"] = new(int), o.TrainRows, text.Bytes()
		for name, part := range map[string]sweep.Rows{"calib.scores": w.plan.Holdout.Calib,
			"test.scores": w.plan.Holdout.Test} {
			rows := must.Get(all.Select(part))(t)
			raw := must.Get(o.Model.PredictBinned(&rows.Data, 1))(t)
			files[name] = sweep.EncodeScores(raw)
		}
	})
}

// pastNight concludes the sweep and looks at the day after.
func (w *world) pastNight(t *testing.T, after int) pastNight {
	t.Helper()
	n := pastNight{Conclusion: w.mustConclude(t)}
	reg := registry.New(w.models)
	v := must.Get(reg.Get(t.Context(), "ctr", fmt.Sprint(n.Version)))(t)
	n.judged = must.Get(reg.ReadFile(t.Context(), v, scorer.JudgedModel(v)))(t)
	live := must.Get(scorer.Open(t.Context(), reg, v))(t)
	judged := must.Get(scorer.OpenJudged(t.Context(), reg, v))(t)
	n.live, n.ofJudged = lossOn(t, live, after), lossOn(t, judged, after)
	return n
}

// lossOn is the log loss of a model on the raw rows of a day.
func lossOn(t *testing.T, s *scorer.Scorer, day int) float64 {
	t.Helper()
	text, label := driftingDays(day, day)
	path := filepath.Join(t.TempDir(), "day.csv")
	must.Do(t, os.WriteFile(path, text, 0o600))
	rows := must.Get(table.Open([]table.File{{URI: path, Path: path}}, table.Options{}))(t)
	var pred []float64
	must.Do(t, rows.Read(t.Context(), s.Columns(), len(label), func(b *table.Batch) error {
		_, p, _, err := s.Batch(b, nil, 1, &cell.Inputs{})
		pred = append(pred, p...)
		return err
	}))
	loss := must.Get(metric.Lookup("log_loss"))(t)
	value := must.Get(loss.Eval(metric.Input{Label: label, Pred: pred}))(t)
	return value
}

// TestFinalOnTheDayAfter: a final model has seen the days that its judged model was checked on, and where days drift it
// is better on the day after, if its calibrator keeps its shape. What is judged, and compared with the champion, is as
// it is without a final training.
func TestFinalOnTheDayAfter(t *testing.T) {
	without, with := pastNights(t, false), pastNights(t, true)
	gain := 0.0
	for i, n := range with {
		old := without[i]
		if n.Final == nil || !n.Final.Registered || n.Final.Rows != 2400 || n.Final.Trees != 8 {
			t.Fatalf("night %d: the final training %+v, expected one of 8 trees on 2400 rows to be registered", i, n.Final)
		}
		if !bytes.Equal(n.judged, old.judged) || n.ofJudged != old.live || !reflect.DeepEqual(n.Test, old.Test) {
			t.Errorf("night %d: the judged model is worth %v tomorrow and %v on test, expected that of a night without a "+
				"final training, %v and %v", i, n.ofJudged, n.Test, old.live, old.Test)
		}
		if !reflect.DeepEqual(n.Gate, old.Gate) {
			t.Errorf("night %d: the gate has seen %+v, and %+v without a final training", i, n.Gate, old.Gate)
		}
		if n.live == old.live {
			t.Errorf("night %d: the final model predicts tomorrow as the judged one does", i)
		}
		gain += old.live - n.live
	}
	if gain <= 0 {
		t.Errorf("the final models are worse by %v in all", -gain)
	}
	for i, n := range pastNights(t, true) {
		if !reflect.DeepEqual(n, with[i]) {
			t.Errorf("night %d again has other results", i)
		}
	}
}
