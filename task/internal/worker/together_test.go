package worker

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/team"
)

// finally plans two trials and a final training by that many machines.
func finally(t *testing.T, machines int, change ...func(*datasettest.Options, *sweep.Plan)) *world {
	t.Helper()
	o := datasettest.Options{Rows: 1500, Encodings: "{final: true}"}
	for _, c := range change {
		c(&o, new(sweep.Plan))
	}
	return newWorldOn(t, o, 2, func(p *sweep.Plan) {
		p.Heartbeat, p.Takeover = sweep.Duration(300*time.Millisecond), sweep.Duration(4*time.Second)
		p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll, Machines: machines}
		for i := range p.Trials { // so that the final training takes a while
			p.Trials[i].Params["num_iterations"], p.Trials[i].Params["early_stopping_round"] = 150.0, 0.0
		}
		p.Trials = append(p.Trials, sweep.Trial{Number: len(p.Trials), Source: sweep.SourceFinal, Refit: true})
		for _, c := range change {
			c(new(datasettest.Options), p)
		}
	})
}

// on is a task on a machine of its own.
func (w *world) on(t *testing.T, machine int) *Worker {
	t.Helper()
	k := w.worker(machine)
	k.Scratch, k.Host, k.Listen = t.TempDir(), fmt.Sprint("machine-", machine), "127.0.0.1:0"
	return k
}

// TestTheFinalTrainingOfSeveralMachines: the model is that of one machine: with all machines, with one of those that
// the spec wants, with more tasks than that, and when in the middle an assistant or the holder is told to go.
func TestTheFinalTrainingOfSeveralMachines(t *testing.T) {
	alone := finally(t, 0)
	must.Do(t, alone.on(t, 0).Run(t.Context()))
	want := alone.refit(t)

	for _, tc := range []struct {
		name       string
		tasks      int
		goes       string // who, once the holder has saved
		few, claim int    // machines at least, and the claim of the result
	}{
		{"three machines", 3, "", 2, 0},
		{"one of three", 1, "", 1, 0},
		{"five for three", 5, "", 2, 0},
		{"an assistant goes", 3, "assistant", 2, 0},
		{"the holder goes", 3, "holder", 2, 1},
	} {
		if testing.Short() && tc.goes == "" && tc.tasks != 3 {
			continue // three machines, of which one may go, meet in every way that these do
		}
		w := finally(t, 3)
		var wg sync.WaitGroup
		var once sync.Once
		stops := make([]context.CancelFunc, tc.tasks)
		ctxs := make([]context.Context, tc.tasks)
		for i := range tc.tasks {
			ctxs[i], stops[i] = context.WithCancel(t.Context())
		}
		for machine := range tc.tasks {
			k := w.on(t, machine)
			k.Sweeps = after(w.sweeps, "/trials/0002/checkpoints/", func() {
				if tc.goes != "" {
					once.Do(stops[(machine+map[string]int{"holder": 0, "assistant": 1}[tc.goes])%tc.tasks])
				}
			})
			wg.Go(func() {
				defer stops[machine]()
				if err := k.Run(ctxs[machine]); err != nil && ctxs[machine].Err() == nil {
					t.Errorf("%s: task %d: %v", tc.name, machine, err)
				}
			})
		}
		wg.Wait()
		r := w.result(t, 2)
		if got := w.refit(t); got != want || r.Usage.Machines < tc.few || r.Usage.Machines > 3 || r.Claim != tc.claim {
			t.Errorf("%s: the same model: %t, claim %d, %+v; want it under claim %d, from %d to 3 machines", tc.name,
				got == want, r.Claim, r.Usage, tc.claim, tc.few)
		}
		if text := r.Usage.Together(); strings.Contains(text, "one machine") != (r.Usage.Machines == 1) {
			t.Errorf("%s: %d machines are told as %q", tc.name, r.Usage.Machines, text)
		}
		if tc.goes == "assistant" && r.Usage.Teams < 2 {
			t.Errorf("%s: %d teams, want another one after it", tc.name, r.Usage.Teams)
		}
	}
}

// TestWhoHasRoom: a task has room in its own team, even a full one that meets anew.
func TestWhoHasRoom(t *testing.T) {
	const own = "a"
	for _, tc := range []struct {
		name    string
		objects map[string]string
		want    bool
	}{
		{"nobody is there", nil, true},
		{"own team is full", map[string]string{"1/members": `{"ids":["holder","a"]}`}, true},
		{"another team is full", map[string]string{"1/members": `{"ids":["holder","b"]}`}, false},
		{"another team has lost one", map[string]string{"1/members": `{"ids":["holder","b"]}`,
			"2/members": `{"ids":["holder"]}`}, true},
		{"as many wait as there is room for", map[string]string{"1/workers/holder": "{}",
			"1/workers/b": "{}"}, false},
	} {
		w := finally(t, 2)
		k := w.on(t, 0)
		k.Nonce = own
		must.Do(t, k.open(t.Context()))
		store, folder := k.trials.Meeting(2, 0)
		for name, data := range tc.objects {
			must.Get(blob.Create(t.Context(), store, folder+"epochs/0000000"+name, []byte(data)))(t)
		}
		if got := k.hasRoom(t.Context(), 2, 0); got != tc.want {
			t.Errorf("%s: room: %t, want %t", tc.name, got, tc.want)
		}
	}
}

// TestOneTaskOfAMachineTakesPart: tasks that share a machine do not train its rows twice.
func TestOneTaskOfAMachineTakesPart(t *testing.T) {
	w := finally(t, 3)
	a, b := w.on(t, 0), w.on(t, 1)
	b.Scratch = a.Scratch
	for _, k := range []*Worker{a, b} {
		must.Do(t, k.open(t.Context()))
	}
	claim := &sweep.Claim{Trial: 2, Nonce: a.Nonce}
	first, release, err := a.join(t.Context(), claim, time.Second)
	if err != nil || first == nil {
		t.Fatalf("the first task of a machine: %v, %v; want that it takes part", first, err)
	}
	if second, _, err := b.join(t.Context(), claim, time.Millisecond); second != nil || err != nil {
		t.Errorf("the second task of a machine: %v, %v; want nothing", second, err)
	}
	release()
	if third, release, err := b.join(t.Context(), claim, time.Second); third == nil || err != nil {
		t.Errorf("after the first has gone: %v, %v; want that the second takes part", third, err)
	} else {
		release()
	}
}

// TestAnAssistantThatFailsIsIdle: a panic ends no more than this task's part, and it does not stay for that.
func TestAnAssistantThatFailsIsIdle(t *testing.T) {
	w := finally(t, 3)
	must.Do(t, w.on(t, 0).Run(t.Context()))
	k := w.on(t, 1)
	must.Do(t, k.open(t.Context()))
	var err error
	if k.known.listing, err = k.trials.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &claiming{Worker: k}
	k.table = nil // of which training makes a panic
	l.help(t.Context(), 2, 0)
	defer l.leaveTeam()
	if l.assistant == nil {
		t.Fatal("the task takes no part, want that it tries")
	}
	<-l.assistant.done
	if l.help(t.Context(), 2, 0) {
		t.Error("a task whose part has failed counts as busy")
	}
}

// TestAnAssistantThatIsCutOffIsIdle: one that was in a team, and finds no way back into one, does not stay for ever.
func TestAnAssistantThatIsCutOffIsIdle(t *testing.T) {
	w := finally(t, 2)
	w.plan.Takeover = 1
	one := must.Get(team.New(team.Options{Board: team.Bucket(blob.Memory(), "a/"), ID: "a", Leads: true,
		Listen: "127.0.0.1:0", Workers: 1}))(t)
	defer one.Close()
	k := w.worker(0)
	k.plan = w.plan
	l := &claiming{Worker: k, assistant: &assistant{team: one, stop: func() {}, done: make(chan struct{})}}
	within := false
	bins := []byte{0, 1, 0, 1}
	d := &gbt.Data{Rows: 4, RowMajor: bins, Columns: [][]byte{bins}, Label: []float32{0, 1, 0, 1},
		Features: []gbt.Feature{{Name: "f", Bins: 2, Missing: -1, Bounds: []float64{1}}}}
	p := gbt.Defaults()
	p.NumIterations, p.MinDataInLeaf, p.MinSumHessian = 1, 1, 0
	must.Get(one.Train(t.Context(), d, p, gbt.Options{Threads: 1, OnTree: func(gbt.Progress) error {
		within = l.help(t.Context(), 2, 0)
		return nil
	}}))(t)
	if after := l.help(t.Context(), 2, 0); !within || after {
		t.Errorf("of use in a team: %t, longer than the takeover time after it: %t; want true and false", within, after)
	}
}

// TestTheFinalTraining: the winner's configuration is trained again on the rows of all splits once all other trials
// have ended, with the same bytes for one task and for four that start at once, and where every trial is paused at a
// rung.
func TestTheFinalTraining(t *testing.T) {
	for name, change := range map[string]func(*sweep.Plan){
		"all trials end": func(*sweep.Plan) {},
		"halving":        stopping(sweep.StopHalving),
	} {
		var texts []string
		for _, tasks := range []int{1, 4} {
			w := newWorldOn(t, datasettest.Options{Rows: 1500, Encodings: "{final: true}"}, 4, func(p *sweep.Plan) {
				change(p)
				withFinal(p)
			})
			w.tasks(t, tasks)

			b := w.board(t)
			final, best := w.result(t, 4), b.Best()
			rows := w.manifest.HeldOutRows() * w.manifest.Copies()
			if s, ok := w.manifest.FindSplit(sweep.Train); ok {
				rows += s.Rows
			}
			switch {
			case final.Status != sweep.StatusDone || final.Refits == nil || *final.Refits != best.Trial:
				t.Fatalf("%s: the final training: %+v; expected it done, of trial %d", name, final, best.Trial)
			case final.TrainRows != rows || final.Trees != best.Trees || final.Score != best.Score:
				t.Errorf("%s: it has %d trees of %d rows, score %v; expected %d of %d, %v", name, final.Trees,
					final.TrainRows, final.Score, best.Trees, rows, best.Score)
			case final.Started.Before(best.Ended):
				t.Errorf("%s: it began at %v, before trial %d ended at %v", name, final.Started, best.Trial, best.Ended)
			case b.Rows[4].Trial.Number != 4:
				t.Errorf("%s: the final training is not the last row of the board", name)
			}
			texts = append(texts, w.refit(t))
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: one task and four have trained different final models", name)
		}
	}
}

// TestTheFinalTrainingOfClasses: trees are counted by round, of which each has one for every class, so that the final
// training has as many rounds as the winner and not as many as the winner has trees.
func TestTheFinalTrainingOfClasses(t *testing.T) {
	o := datasettest.Options{Rows: 1500, Label: "{column: site, kind: classes}", Encodings: "{final: true}"}
	w := newWorldOn(t, o, 2, func(p *sweep.Plan) {
		p.Spec.Objective, p.Spec.Metric, p.Metrics, p.Maximize = "multiclass", "multi_logloss",
			[]string{"multi_logloss"}, false
		for _, of := range p.Trials {
			of.Params["objective"], of.Params["num_class"] = "multiclass", 40.0
		}
		withFinal(p)
	})
	if n := len(w.manifest.Label.Classes); n != 40 {
		t.Fatalf("the label has %d classes, want 40", n)
	}
	w.run(t, 0)
	final, best := w.result(t, 2), w.board(t).Best()
	if final.Status != sweep.StatusDone || best.Trees != best.BestIteration || best.Trees > 8 ||
		final.Trees != best.Trees {
		t.Errorf("the winner has %d trees (the best %d), the final model %d: %s; want the same number, at most 8",
			best.Trees, best.BestIteration, final.Trees, final.Reason)
	}
}

// TestTheFinalTrainingHasNothingToTrain: without a trial that may win it ends untrained, and the task ends.
func TestTheFinalTrainingHasNothingToTrain(t *testing.T) {
	w := newWorld(t, 2, func(p *sweep.Plan) {
		p.Spec.Require = []string{"trees < 0"}
		withFinal(p)
	})
	w.run(t, 0)
	if r := w.result(t, 2); r.Status != sweep.StatusStopped || r.Reason == "" {
		t.Errorf("the final training: %+v; expected it to be stopped, with the reason", r)
	}
}

// TestARefitHasTheThreadsOfItsMachine: as many as all tasks of it together, but no more than it has.
func TestARefitHasTheThreadsOfItsMachine(t *testing.T) {
	has := runtime.GOMAXPROCS(0)
	for _, tc := range []struct{ tasks, threads, want int }{{1, 1, 1}, {1000, 1, has}, {1, has + 5, has + 5}} {
		w := &Worker{plan: &sweep.Plan{Sizing: sweep.Sizing{TasksPerVM: tc.tasks, ThreadsPerTask: tc.threads}}}
		if got := w.threads(sweep.Trial{Refit: true}); got != tc.want {
			t.Errorf("%d tasks of %d threads on %d processors: a refit has %d threads, expected %d", tc.tasks,
				tc.threads, has, got, tc.want)
		}
		if got := w.threads(sweep.Trial{}); got != tc.threads {
			t.Errorf("a trial of %d threads has %d", tc.threads, got)
		}
	}
}
