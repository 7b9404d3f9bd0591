package team

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/blob/folder"
	"coppice/internal/gbt"
	"coppice/internal/must"
)

// table returns a table of random rows with 20 bins per feature, every third of them categorical, and labels that
// depend on all features and on noise.
func table(rows, features int, seed uint64) *gbt.Data {
	rng := rand.New(rand.NewPCG(seed, 1))
	d := &gbt.Data{Rows: rows, RowMajor: make([]byte, rows*features), Label: make([]float32, rows)}
	for f := range features {
		feature := gbt.Feature{Name: fmt.Sprint("f", f), Bins: 20, Missing: -1, Categorical: f%3 == 2}
		for b := 1; b < 20 && !feature.Categorical; b++ {
			feature.Bounds = append(feature.Bounds, float64(b))
		}
		d.Features = append(d.Features, feature)
		d.Columns = append(d.Columns, make([]byte, rows))
	}
	for r := range rows {
		signal := 0.0
		for f := range features {
			bin := byte(rng.IntN(20))
			d.Columns[f][r], d.RowMajor[r*features+f] = bin, bin
			signal += math.Sin(float64(int(bin) * (f + 1)))
		}
		if signal+rng.NormFloat64() > 0.5 {
			d.Label[r] = 1
		}
	}
	return d
}

// params are for small trees on samples of rows and features, so that all draws are the same on all workers.
func params(trees int) gbt.Params {
	p := gbt.Defaults()
	p.NumIterations, p.NumLeaves, p.MinDataInLeaf = trees, 8, 5
	p.BaggingFraction, p.BaggingFreq, p.FeatureFraction = 0.7, 1, 0.8
	return p
}

// text returns the model's file.
func text(t testing.TB, r *gbt.Result) string {
	t.Helper()
	var b bytes.Buffer
	must.Get(r.Model.WriteTo(&b))(t)
	return b.String()
}

// newWorker returns a worker on this machine with short waits; the one with id 0 leads. It is closed when the test
// ends.
func newWorker(t testing.TB, board Board, id, workers int, change ...func(*Options)) *Member {
	t.Helper()
	o := Options{Board: board, Training: "a", ID: fmt.Sprintf("%03d", id), Leads: id == 0, Listen: "127.0.0.1:0",
		Workers: workers, Patience: 100 * time.Millisecond, Silence: 3 * time.Second, Look: time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	w := must.Get(New(o))(t)
	t.Cleanup(func() { _ = w.Close() }) // again, if the test has closed it
	return w
}

// silence sets how long a worker waits for another's next byte.
func silence(d time.Duration) func(*Options) { return func(o *Options) { o.Silence = d } }

// boards returns, for each kind of storage, a function that makes a board of its own for each part of a test.
func boards(t *testing.T) map[string]func(part string) Board {
	bucket, dir := blob.Memory(), t.TempDir()
	return map[string]func(part string) Board{
		"bucket": func(part string) Board { return Bucket(bucket, part+"/") },
		"folder": func(part string) Board { return folderBoard(filepath.Join(dir, part)) }}
}

// TestWorkersTrainTheSameModelAsOne: each of several workers has the model of one that trains alone, byte for byte.
func TestWorkersTrainTheSameModelAsOne(t *testing.T) {
	d := table(3000, 7, 1)
	alone := must.Get(gbt.Train(t.Context(), d, params(10), gbt.Options{Threads: 1}))(t)
	want := text(t, alone)
	for name, board := range boards(t) {
		for i, n := range []int{1, 2, 4} {
			sub := board(fmt.Sprint(i))
			var wg sync.WaitGroup
			for id := range n {
				w := newWorker(t, sub, id, n)
				wg.Go(func() {
					res, err := w.Train(t.Context(), d, params(10), gbt.Options{Threads: 1 + id%2})
					if err != nil {
						t.Errorf("%s, %d workers: worker %d: error %v, want a model", name, n, id, err)
						return
					}
					if got := text(t, res); got != want {
						t.Errorf("%s, %d workers: worker %d has another model than one worker, want the same", name, n,
							id)
					}
					must.Equal(t, w.Epochs(), 1, "%s, %d workers: teams that worker %d was in", name, n, id)
				})
			}
			wg.Wait()
		}
	}
}

// TestTrafficIsBounded: for each split, a worker sends and receives together at most two histograms, and takes part in
// at most two exchanges. A histogram has 60 features of 20 bins of 8 bytes. A worker sends each part of its histogram
// to one worker, and receives its own part of all others' histograms. (Splits that are prepared together take three
// exchanges together.)
func TestTrafficIsBounded(t *testing.T) {
	const features, trees = 60, 10
	d := table(4000, features, 1)
	p := params(trees)
	p.FeatureFraction, p.BaggingFreq, p.NumLeaves = 1, 0, 31
	for _, n := range []int{2, 3, 5} {
		board := Bucket(blob.Memory(), "a/")
		var wg sync.WaitGroup
		for id := range n {
			w := newWorker(t, board, id, n)
			wg.Go(func() {
				res, err := w.Train(t.Context(), d, p, gbt.Options{Threads: 1})
				if err != nil {
					t.Error(err)
					return
				}
				splits := 0
				for _, tree := range res.Model.Trees {
					splits += tree.Leaves() // with the root, as many as histograms that are added up
				}
				got, most := w.Traffic.Sent.Load()+w.Traffic.Received.Load(), int64(2*splits*features*20*8)
				if got > most || got == 0 {
					t.Errorf("%d workers: worker %d sent and received %d bytes, want 1 to %d", n, id, got, most)
				}
				if got := int(w.Traffic.Exchanges.Load()); got > 2*splits {
					t.Errorf("%d workers: %d exchanges for %d splits, want at most two for each", n, got, splits)
				}
			})
		}
		wg.Wait()
	}
}

var comings = flag.Int("comings", 12, "trainings in which workers come and go")

// TestWorkersComeAndGo: workers are lost at random moments, in the middle of an exchange or between two trees, and
// others come. Only the leader stays. All workers that finish have the model that one worker trains alone.
func TestWorkersComeAndGo(t *testing.T) {
	for seed := range uint64(*comings) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { comeAndGo(t, seed) })
	}
}

// comeAndGo runs one such training: 2 to 4 workers begin, and most of them except the leader die after a random number
// of rounds. Half of these start a replacement first.
func comeAndGo(t *testing.T, seed uint64) {
	// The model of one worker alone.
	rng := rand.New(rand.NewPCG(seed, 3))
	d := table(500+rng.IntN(1500), 4+rng.IntN(6), seed)
	p := params(30)
	alone := must.Get(gbt.Train(t.Context(), d, p, gbt.Options{Threads: 1, Identity: "here"}))(t)
	want := text(t, alone)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	board := Bucket(blob.Memory(), "a/")
	var wg sync.WaitGroup
	var lost, finished atomic.Int32
	var start func(id int, dies bool)
	begin := 2 + rng.IntN(3)
	leads := int(seed) % begin
	over, end := context.WithCancel(ctx) // ended once the leader has the model
	defer end()

	// start starts a worker. If dies, it is lost after some rounds: between two trees, or a moment later.
	start = func(id int, dies bool) {
		mine := rand.New(rand.NewPCG(seed, uint64(id)))
		w := newWorker(t, board, id, begin, func(o *Options) { o.Leads = id == leads })
		own, die := context.WithCancel(over)
		after := 1 + mine.IntN(25)
		between := mine.IntN(2) == 0
		wg.Go(func() {
			defer die()
			defer w.Close()
			if id == leads {
				defer end()
			}
			res, err := w.Train(own, d, p, gbt.Options{Threads: 1, Identity: "here",
				Checkpoint: func(c *gbt.Checkpoint) error {
					if !dies || c.Rounds() != after {
						return nil
					}
					lost.Add(1)
					if id < 100 && mine.IntN(2) == 0 {
						start(id+100, false) // a replacement, which is not lost
					}
					if between {
						die()
					} else {
						time.AfterFunc(time.Duration(mine.IntN(1000))*time.Microsecond, die)
					}
					return nil
				}})
			switch {
			case err == nil && text(t, res) != want:
				t.Errorf("worker %d has another model than one worker alone, want the same", id)
			case err == nil:
				finished.Add(1)
			// A worker may end with an error if it was lost, or if the leader was done first: own has ended then.
			case own.Err() == nil || ctx.Err() != nil:
				t.Errorf("worker %d, which was not lost, ended with %v; want a model", id, err)
			}
		})
	}
	for id := range begin {
		start(id, id != leads && rng.IntN(3) > 0)
	}
	wg.Wait()
	if finished.Load() == 0 {
		t.Errorf("%d of %d workers were lost and none has finished, want the leader at least", lost.Load(), begin)
	}
}

// TestNoMoreThanThereIsRoomFor: a third worker, where Most is 2, waits until one of the team is gone. Until then the
// team trains on undisturbed, in a single epoch.
func TestNoMoreThanThereIsRoomFor(t *testing.T) {
	for _, lost := range []bool{false, true} {
		board := Bucket(blob.Memory(), "a/")
		d := table(300, 4, 3)
		ctx, over := context.WithCancel(t.Context())
		defer over()
		var wg sync.WaitGroup
		var workers [3]*Member
		for id := range workers {
			workers[id] = newWorker(t, board, id, 2, func(o *Options) { o.Most = 2 })
		}
		for id, w := range workers[:2] {
			own, die := context.WithCancel(ctx)
			defer die()
			wg.Go(func() {
				if id == 0 {
					defer over()
				}
				_, err := w.Train(own, d, params(8), gbt.Options{Threads: 1,
					Checkpoint: func(c *gbt.Checkpoint) error {
						if id == 1 && c.Rounds() == 2 { // the others are in the middle
							wg.Go(func() { _, _ = workers[2].Train(ctx, d, params(8), gbt.Options{Threads: 1}) })
							if lost {
								die()
							}
						}
						return nil
					}})
				if err != nil && id == 0 {
					t.Errorf("lost: %t: %v, want a model", lost, err)
				}
			})
		}
		wg.Wait()
		got, spare := workers[0].Epochs(), workers[2].Epochs()
		undisturbed := got == 1 && spare == 0
		if !lost && !undisturbed || lost && (got < 2 || spare < 1) {
			t.Errorf("a worker lost: %t: the leader was in %d epochs, the third worker in %d; want 1 and 0 if none is "+
				"lost, else 2 or more and 1 or more", lost, got, spare)
		}
	}
}

// TestAClosedNetwork: the leader trains alone in the end if other workers have announced themselves but connections
// fail: those to the leader, or those between two others. The model is the same.
func TestAClosedNetwork(t *testing.T) {
	d := table(1000, 5, 1)
	alone := must.Get(gbt.Train(t.Context(), d, params(5), gbt.Options{Threads: 1}))(t)
	for _, tc := range []struct {
		name          string
		helpers, wall int // wall is who announces an address that nobody reaches
	}{{"to the one that leads", 1, 0}, {"between two others", 2, 1}} {
		ctx, stop := context.WithCancel(t.Context())
		bucket := blob.Memory()
		var others sync.WaitGroup
		leading := (*Member)(nil)
		for id := range tc.helpers + 1 {
			at := Bucket(bucket, "a/")
			if id == tc.wall {
				at = announcedAt(bucket, "127.0.0.1:1") // where nobody listens
			}
			w := newWorker(t, at, id, tc.helpers+1, silence(200*time.Millisecond))
			if id == 0 {
				leading = w
				continue
			}
			others.Go(func() { _, _ = w.Train(ctx, d, params(5), gbt.Options{Threads: 1}) })
		}
		res, err := leading.Train(ctx, d, params(5), gbt.Options{Threads: 1})
		if err != nil || text(t, res) != text(t, alone) {
			t.Errorf("closed %s: %v, the same model: %t; want that of one worker", tc.name, err,
				err == nil && text(t, res) == text(t, alone))
		}
		stop()
		others.Wait()
	}
}

// TestNobodyLooksAtALostBoard: a team goes on training if the storage with the board fails after the first tree. The
// leader looks at it at every tree (Look is a nanosecond), and OnTree ends the training once it has looked in vain.
func TestNobodyLooksAtALostBoard(t *testing.T) {
	d := table(1000, 5, 1)
	var lost, looks atomic.Bool
	bucket := blobtest.Before(blob.Memory(), blobtest.List, func(context.Context, string) error {
		if lost.Load() {
			looks.Store(true)
			return errors.New("the bucket is away")
		}
		return nil
	})
	w := newWorker(t, Bucket(bucket, "a/"), 0, 1, func(o *Options) { o.Look = time.Nanosecond })
	done := errors.New("it has gone on")
	opt := gbt.Options{Threads: 1, OnTree: func(gbt.Progress) error {
		lost.Store(true)
		if looks.Load() {
			return done
		}
		return nil
	}}
	if _, err := w.Train(t.Context(), d, params(100_000), opt); !errors.Is(err, done) {
		t.Errorf("the board is lost (looked at: %t): %v; want that the training goes on", looks.Load(), err)
	}
}

// TestASilentWorkerIsGone: a worker that sends nothing and keeps its connections open, as a stopped process does,
// counts as gone after Silence. The leader then trains alone in a second epoch, and has the same model.
func TestASilentWorkerIsGone(t *testing.T) {
	d := table(800, 5, 2)
	alone := must.Get(gbt.Train(t.Context(), d, params(5), gbt.Options{Threads: 1}))(t)
	board := Bucket(blob.Memory(), "a/")
	w := newWorker(t, board, 0, 2, silence(200*time.Millisecond))
	silent := newWorker(t, board, 1, 2, silence(20*time.Second)) // so its first heartbeat comes after 2.5 s, too late

	met := make(chan *Mesh, 1)
	go func() {
		m, _, err := silent.meetTeam(t.Context())
		if err != nil {
			t.Error(err)
		}
		met <- m
	}()
	res := must.Get(w.Train(t.Context(), d, params(5), gbt.Options{Threads: 1}))(t)
	if text(t, res) != text(t, alone) || w.Epochs() != 2 {
		t.Errorf("got another model, or %d teams; want the same model and 2 teams", w.Epochs())
	}
	(<-met).Close()
}

// TestAnotherTrainingIsRefused: workers with other parameters do not form a team, and both say so.
func TestAnotherTrainingIsRefused(t *testing.T) {
	board := Bucket(blob.Memory(), "a/")
	d := table(300, 4, 3)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for id := range 2 {
		w := newWorker(t, board, id, 2)
		p := params(3 + id)
		wg.Go(func() { _, errs[id] = w.Train(t.Context(), d, p, gbt.Options{Threads: 1}) })
	}
	wg.Wait()
	for id, err := range errs {
		must.Say(t, fmt.Sprintf("two workers with different parameters: worker %d", id), err, "trains something else")
	}
}

// TestStrangersAreLeftOut: connections of a process that has not announced its certificate, for this epoch (1), an
// earlier or a later one, and connections that do not speak TLS do not disturb a team: two workers train the same model
// in a single epoch. And a worker does not take another one's certificate for that of the one that it calls.
func TestStrangersAreLeftOut(t *testing.T) {
	board := Bucket(blob.Memory(), "a/")
	d := table(300, 4, 3)
	alone := must.Get(gbt.Train(t.Context(), d, params(5), gbt.Options{Threads: 1}))(t)
	w := newWorker(t, board, 0, 2)
	stranger := newWorker(t, Bucket(blob.Memory(), "a/"), 1, 2)
	for _, epoch := range []uint32{0, 1, 1, 2} {
		c := must.Get(stranger.connectTo(t.Context(), w.listener.Addr().String(), w.identity.Certificate[0],
			header{kind: helloMessage, epoch: epoch, training: w.training}))(t)
		defer c.Close()
	}
	if _, err := stranger.connectTo(t.Context(), w.listener.Addr().String(), stranger.identity.Certificate[0],
		header{kind: helloMessage}); err == nil {
		t.Error("a worker took another's certificate for that of the one it called, want an error")
	}
	raw := must.Get(net.Dial("tcp", w.listener.Addr().String()))(t)
	defer raw.Close()
	must.Get(raw.Write([]byte("GET / HTTP/1.1\r\n\r\n")))(t)

	other := newWorker(t, board, 1, 2)
	var wg sync.WaitGroup
	for _, w := range []*Member{w, other} {
		wg.Go(func() {
			res, err := w.Train(t.Context(), d, params(5), gbt.Options{Threads: 1})
			if err != nil || text(t, res) != text(t, alone) || w.Epochs() != 1 {
				t.Errorf("with strangers at the door: error %v, %d teams; want the same model from one team", err,
					w.Epochs())
			}
		})
	}
	wg.Wait()
}

// Environment of a test program that is a worker of another one's training, and of the other one: how to start this
// program on another processor (qemu-aarch64 FILE).
const (
	joinVariable  = "COPPICE_TEST_JOIN" // the folder
	idVariable    = "COPPICE_TEST_ID"   // the worker's
	otherVariable = "COPPICE_TEST_OTHER"
)

// TestMain runs the tests, or joinTraining if this process was started to be the other one of a training.
func TestMain(m *testing.M) {
	if dir := os.Getenv(joinVariable); dir != "" {
		if err := joinTraining(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// folderBoard returns a board in a folder of this machine, which it creates.
func folderBoard(dir string) Board {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	return Bucket(folder.Bucket(dir), "")
}

// joinTraining is the main function of the other process in TestProcessesOfTwoProcessors.
func joinTraining(dir string) error {
	w, err := New(Options{Board: folderBoard(dir), Training: "a", ID: os.Getenv(idVariable), Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = w.Train(context.Background(), table(5000, 9, 7), params(20), gbt.Options{Threads: 1})
	return err
}

// TestProcessesOfTwoProcessors: another process, on another kind of processor if the environment says how to start one,
// trains its part, and the model is that of one worker.
func TestProcessesOfTwoProcessors(t *testing.T) {
	command := []string{os.Args[0]}
	if other := os.Getenv(otherVariable); other != "" {
		command = strings.Fields(other)
	}
	d := table(5000, 9, 7)
	alone := must.Get(gbt.Train(t.Context(), d, params(20), gbt.Options{Threads: 1}))(t)

	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), joinVariable+"="+dir, idVariable+"=001")
	cmd.Stderr = os.Stderr
	must.Do(t, cmd.Start())
	w := must.Get(New(Options{Board: folderBoard(dir), Training: "a", ID: "000", Leads: true, Listen: "127.0.0.1:0",
		Workers: 2, Silence: time.Minute}))(t)
	defer w.Close()
	res := must.Get(w.Train(t.Context(), d, params(20), gbt.Options{Threads: 2}))(t)
	if got, want := text(t, res), text(t, alone); got != want || w.Epochs() != 1 {
		t.Errorf("with a process of %v: another model than alone (%t), %d teams; want the same and one", command,
			got != want, w.Epochs())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
}
