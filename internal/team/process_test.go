package team

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/gbt"
	"coppice/internal/must"
)

// Environment of a test program that is a worker of another one's training, and of the other one: how to start this
// program on another processor (qemu-aarch64 FILE).
const (
	joinVariable  = "COPPICE_TEST_JOIN" // the folder
	idVariable    = "COPPICE_TEST_ID"   // the worker's
	rowsVariable  = "COPPICE_TEST_ROWS" // of wide's table; empty for the small one
	treesVariable = "COPPICE_TEST_TREES"
	learnVariable = "COPPICE_TEST_OBJECTIVE"
	otherVariable = "COPPICE_TEST_OTHER"
)

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

func joinTraining(dir string) error {
	w, err := New(Options{Board: Folder(dir), Training: "a", ID: os.Getenv(idVariable), Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer w.Close()
	d, p := table(5000, 9, 7), params(20)
	if rows, err := strconv.Atoi(os.Getenv(rowsVariable)); err == nil {
		trees, err := strconv.Atoi(os.Getenv(treesVariable))
		if err != nil {
			return err
		}
		d, p = wide(rows, os.Getenv(learnVariable)), wideParams(trees, os.Getenv(learnVariable))
		runtime.GOMAXPROCS(1)
	}
	_, err = w.Train(context.Background(), d, p, gbt.Options{Threads: 1})
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
	w, err := New(Options{Board: Folder(dir), Training: "a", ID: "000", Leads: true, Listen: "127.0.0.1:0", Workers: 2,
		Silence: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
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

var (
	wideRows  = flag.Int("rows", 20_000, "rows of the table of BenchmarkProcesses")
	wideTrees = flag.Int("trees", 10, "trees that BenchmarkProcesses trains")
	wideLearn = flag.String("objective", "binary", "what BenchmarkProcesses learns")
)

// wide returns a table of 40 features of 255 bins, whose label depends on four of them.
func wide(rows int, objective string) *gbt.Data {
	const features, bins = 40, 255
	rng := rand.New(rand.NewPCG(7, 1))
	d := &gbt.Data{Rows: rows, RowMajor: make([]byte, rows*features), Label: make([]float32, rows)}
	for f := range features {
		feature := gbt.Feature{Name: fmt.Sprint("f", f), Bins: bins, Missing: -1}
		for b := 1; b < bins; b++ {
			feature.Bounds = append(feature.Bounds, float64(b))
		}
		d.Features = append(d.Features, feature)
		d.Columns = append(d.Columns, make([]byte, rows))
	}
	for r := range rows {
		row := d.RowMajor[r*features : (r+1)*features]
		for f := range row {
			row[f] = byte(rng.Uint32N(bins))
			d.Columns[f][r] = row[f]
		}
		if int(row[0])+int(row[1])+int(row[2]&row[3])+rng.IntN(200) > 500 {
			d.Label[r] = 1
		}
		if gbt.Ranks(objective) {
			d.Group = append(d.Group, uint64(r/20))
		} else if objective != "binary" {
			d.Label[r] += float32(rng.NormFloat64())
		}
	}
	return d
}

func wideParams(trees int, objective string) gbt.Params {
	p := gbt.Defaults()
	p.NumIterations, p.NumLeaves, p.Objective = trees, 31, objective
	return p
}

// BenchmarkProcesses trains wide's table with one process of one and of more threads, and with several processes of one
// thread each. What counts is s/training: making the table and meeting take no part in it.
func BenchmarkProcesses(b *testing.B) {
	d := wide(*wideRows, *wideLearn)
	want := ""
	for _, of := range []struct{ workers, threads int }{{1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}} {
		b.Run(fmt.Sprintf("workers=%d/threads=%d", of.workers, of.threads), func(b *testing.B) {
			seconds, sent, exchanges := 0.0, int64(0), int64(0)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(of.threads))
			for range b.N {
				res, traffic := manyProcesses(b, d, of.workers, of.threads)
				seconds, sent = seconds+res.Took.Seconds(), sent+traffic.Sent.Load()
				exchanges += traffic.Exchanges.Load()
				if got := text(b, res); want == "" {
					want = got
				} else if got != want {
					b.Errorf("%d workers of %d threads: another model; want the same", of.workers, of.threads)
				}
			}
			b.ReportMetric(seconds/float64(b.N), "s/training")
			trees := float64(b.N * *wideTrees)
			b.ReportMetric(float64(sent)/trees/1e6, "MB-sent/tree")
			b.ReportMetric(float64(exchanges)/trees, "exchanges/tree")
		})
	}
}

// manyProcesses trains with this process and others, and returns what it has sent.
func manyProcesses(b *testing.B, d *gbt.Data, workers, threads int) (*gbt.Result, *Traffic) {
	dir := b.TempDir()
	for id := 1; id < workers; id++ {
		cmd := exec.CommandContext(b.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), joinVariable+"="+dir, fmt.Sprintf("%s=%03d", idVariable, id),
			fmt.Sprintf("%s=%d", rowsVariable, d.Rows), fmt.Sprintf("%s=%d", treesVariable, *wideTrees),
			learnVariable+"="+*wideLearn)
		cmd.Stderr = os.Stderr
		must.Do(b, cmd.Start())
		defer cmd.Wait() //nolint:errcheck // the model says whether it did its part
	}
	w := must.Get(New(Options{Board: Folder(dir), Training: "a", ID: "000", Leads: true, Listen: "127.0.0.1:0",
		Workers: workers}))(b)
	defer w.Close()
	res, err := w.Train(b.Context(), d, wideParams(*wideTrees, *wideLearn), gbt.Options{Threads: threads})
	if err != nil || w.Epochs() != 1 {
		b.Fatalf("%d workers: error %v, %d teams; want one", workers, err, w.Epochs())
	}
	return res, &w.Traffic
}
