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

// finally plans trials 0 and 1 and, as trial 2, a final training by so many machines, with 150 trees, so that it takes
// a while. changes edit the options of the table or the plan; each is called for both.
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

// on returns a task on a machine of its own, which others can reach.
func (w *world) on(t *testing.T, machine int) *Worker {
	t.Helper()
	k := w.worker(machine)
	k.Scratch, k.Host, k.Listen = t.TempDir(), fmt.Sprint("machine-", machine), "127.0.0.1:0"
	return k
}

// TestTheFinalTrainingOfSeveralMachines: a final training by three machines has the bytes of one by a single machine.
// That holds with as many tasks, with one, with more than machines are wanted, and if an assistant or the holder is
// told to go once the holder has saved a checkpoint. Another task then takes the holder's trial over.
func TestTheFinalTrainingOfSeveralMachines(t *testing.T) {
	alone := finally(t, 0)
	must.Do(t, alone.on(t, 0).Run(t.Context()))
	want := alone.refit(t)

	for _, tc := range []struct {
		name       string
		tasks      int
		goes       string // who, once the holder has saved
		few, claim int    // machines that train together at least, as some may come late; the claim of the result
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
			// Only the holder writes checkpoints, so the machine that calls this is the holder's.
			k := w.on(t, machine)
			k.Sweeps = after(w.sweeps, "/trials/0002/checkpoints/", func() {
				switch tc.goes {
				case "holder":
					once.Do(stops[machine])
				case "assistant":
					once.Do(stops[(machine+1)%tc.tasks])
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
			t.Errorf("%s: %d machines are described as %q; want \"one machine\" in it exactly for one", tc.name,
				r.Usage.Machines, text)
		}
		if tc.goes == "assistant" && r.Usage.Teams < 2 {
			t.Errorf("%s: %d teams, want another one after it", tc.name, r.Usage.Teams)
		}
	}
}

// TestWhoHasRoom: a task can be of use to a team of two machines if it is a member, or if there are fewer members than
// two. The cases are the objects of the folder where the team meets, the task's own id being a. N/members lists the
// team of epoch N, in which the rows are divided anew, and N/workers has those that wait for one.
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
		must.Equal(t, k.hasRoom(t.Context(), 2, 0), tc.want, "%s, with the objects %v: room", tc.name, tc.objects)
	}
}

// TestOneTaskOfAMachineTakesPart: of two tasks that share a machine only one can join a training. The other one gets
// neither a place nor an error, and can join once the first has left.
func TestOneTaskOfAMachineTakesPart(t *testing.T) {
	w := finally(t, 3)
	a, b := w.on(t, 0), w.on(t, 1)
	b.Scratch = a.Scratch // one machine
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

// TestAnAssistantThatFailsIsIdle: a panic in an assistant's training ends only its part in it, and the task counts as
// idle from then on.
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
		t.Error("a task whose part has failed is of use to the training, want it not to be")
	}
}

// TestAnAssistantThatIsCutOffIsIdle: an assistant is of use while it is in a team, and not any more when it has been
// without one for longer than the takeover time, here a nanosecond.
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

// TestTheFinalTraining: the final training trains the winner's configuration again, with the winner's number of trees
// and score, on the rows of all splits, after all other trials have ended. It has the same bytes for one task and for
// four that start at once. That holds also where every trial is paused at a rung.
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
			// Train's rows in the manifest are those of all its copies; the held-out rows are copied as often.
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
				t.Errorf("%s: the final training began at %v; expected after trial %d, which ended at %v", name,
					final.Started, best.Trial, best.Ended)
			case b.Rows[4].Trial.Number != 4:
				t.Errorf("%s: the last row of the board is trial %d; expected the final training, trial 4", name,
					b.Rows[4].Trial.Number)
			}
			texts = append(texts, w.refit(t))
		}
		if texts[0] != texts[1] {
			t.Errorf("%s: one task and four have trained different final models, want the same", name)
		}
	}
}

// TestTheFinalTrainingOfClasses: with forty classes, each round grows a tree for every class. The final training has as
// many rounds as the winner, and not as many rounds as the winner has single trees.
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

// TestTheFinalTrainingHasNothingToTrain: if no trial meets the requirements, the final training is stopped with the
// reason, and the task ends.
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

// TestARefitHasTheThreadsOfItsMachine: a refit has as many threads as all tasks of its machine together, but no more
// than there are processors, unless a single task has more. Any other trial has those of a task.
func TestARefitHasTheThreadsOfItsMachine(t *testing.T) {
	has := runtime.GOMAXPROCS(0)
	for _, tc := range []struct{ tasks, threads, want int }{{1, 1, 1}, {1000, 1, has}, {1, has + 5, has + 5}} {
		w := &Worker{plan: &sweep.Plan{Sizing: sweep.Sizing{TasksPerVM: tc.tasks, ThreadsPerTask: tc.threads}}}
		if got := w.threads(sweep.Trial{Refit: true}); got != tc.want {
			t.Errorf("%d tasks of %d threads on %d processors: a refit has %d threads, expected %d", tc.tasks,
				tc.threads, has, got, tc.want)
		}
		if got := w.threads(sweep.Trial{}); got != tc.threads {
			t.Errorf("a trial has %d threads, expected those of a task, %d", got, tc.threads)
		}
	}
}
