//go:build e2e

package e2e

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"coppice/internal/dataset/datasettest"
)

// mlflowRun is what bench/mlflow_check.py prints.
type mlflowRun struct {
	MLflow, Experiment, Name, Status string
	Params, Tags                     map[string]string
	Metrics                          map[string]float64
	Times                            []int64
	Datasets                         [][]string
	Found, Inputs                    []string
	Signature                        map[string]any
	Predicted, Raw                   []float64
	ExpectedRaw                      []float64 `json:"expected_raw"`
	Trees                            int

	run string
}

// mlflow exports a version to a folder or a server, and has MLflow read it.
func (l *local) mlflow(version, store, table string, flags ...string) (got mlflowRun) {
	l.t.Helper()
	var out struct{ Run string }
	command := append([]string{"launcher", "registry", "export", version, "--mlflow", store, "--json"}, flags...)
	if err := json.Unmarshal([]byte(l.must(command...)), &out); err != nil {
		l.t.Fatal(err)
	}
	r := execute(l.t, ".", nil, python(l.t), "bench/mlflow_check.py", store, out.Run, table)
	if r.code != 0 {
		l.t.Fatalf("bench/mlflow_check.py ended with %d, expected 0:\n%s", r.code, r.errOut)
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		l.t.Fatalf("bench/mlflow_check.py printed no JSON: %v\n%s", err, r.out)
	}
	got.run = out.Run
	return got
}

// mlflowServer starts MLflow's tracking server, with a database and a proxy for artifacts. The function waits for it
// and returns its address.
func (l *local) mlflowServer() (address func() string) {
	l.t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()

	cmd := exec.Command(python(l.t), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port,
		"--backend-store-uri", "sqlite:///"+filepath.Join(l.dir, "mlflow.db"),
		"--serve-artifacts", "--artifacts-destination", filepath.Join(l.dir, "artifacts"), "--workers", "1",
		"--gunicorn-opts", "--no-control-socket")
	cmd.Dir, cmd.Env = l.dir, append(os.Environ(), "MLFLOW_DISABLE_TELEMETRY=true",
		"MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has workers
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		var text strings.Builder
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(&text, lines.Text())
			if strings.Contains(lines.Text(), "Booting worker") {
				said <- ""
			}
		}
		said <- text.String()
	}()
	l.t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })

	return sync.OnceValue(func() string {
		if text := <-said; text != "" {
			l.t.Fatalf("MLflow's server ended:\n%s", text)
		}
		return "http://127.0.0.1:" + port
	})
}

// TestInteropMLflow exports two versions, the second grown on the first, and has MLflow read the runs, load the models
// and predict.
func TestInteropMLflow(t *testing.T) {
	python(t)
	l := newLocal(t)
	server := l.mlflowServer() // which takes as long as the sweeps
	train := l.file("train.csv", string(datasettest.Table(datasettest.Options{Rows: 5000})))
	today := l.file("today.csv", string(datasettest.Table(datasettest.Options{Rows: 700, Seed: 2})))
	l.must("launcher", "stage",
		l.file("dataset.yaml", "name: t\nsource: "+train+
			"\nlabel: is_click\ndrop: [revenue]\ncategorical: [campaign_id]\n"+
			"split: {by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\n"), "--json")
	sweepOf := func(name, more string) string {
		return l.file(name+".yaml", "name: "+name+"\ndataset: t\nmodel: m\n"+pythonSweep+more)
	}
	l.must("launcher", "sweep", sweepOf("first", ""), "--json")
	l.must("launcher", "sweep", sweepOf("second", "continue: {from: champion}\n"), "--json")

	store := filepath.Join(l.dir, "mlruns")
	for number, trees := range map[string]int{"1": 60, "2": 120} {
		version := "m@" + number
		got := l.mlflow(version, store, today)
		t.Logf("MLflow %s: run %s of %s, %d params, %d metrics, inputs %q", got.MLflow, got.Name, got.Experiment,
			len(got.Params), len(got.Metrics), got.Inputs)

		// What the run says.
		if got.Experiment != "m" || got.Name != version || got.Status != "FINISHED" ||
			!slices.Contains(got.Found, got.run) || got.Params["num_iterations"] != "60" ||
			got.Tags["coppice.version"] != number || len(got.Datasets) != 1 || got.Datasets[0][0] != "t" ||
			got.Trees != trees {
			t.Errorf("%s: MLflow reads %+v", version, got)
		}
		if v := got.Metrics["valid.log_loss"]; !(v > 0.1 && v < 0.7) || got.Metrics["test.log_loss"] == 0 {
			t.Errorf("%s: metrics %v", version, got.Metrics)
		}

		// What the models predict.
		scored := filepath.Join(l.dir, "scored.csv")
		l.must("launcher", "predict", "--model", version, "--in", today, "--out", scored)
		text, err := os.ReadFile(scored)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
		if err != nil || len(rows) != 701 || len(got.Predicted) != 700 || len(got.Raw) != 700 {
			t.Fatalf("%v: %d rows scored, %d and %d by MLflow", err, len(rows)-1, len(got.Predicted), len(got.Raw))
		}
		for i, row := range rows[1:] {
			want, err := strconv.ParseFloat(row[0], 64)
			if err != nil || !(math.Abs(want-got.Predicted[i]) <= 1e-12) ||
				!(math.Abs(got.Raw[i]-got.ExpectedRaw[i]) <= 1e-12) {
				t.Fatalf("%s, row %d: MLflow predicts %v and %v, expected %s and %v", version, i, got.Predicted[i],
					got.Raw[i], row[0], got.ExpectedRaw[i])
			}
		}
	}

	// A server says the same, and loads the same from its registered model.
	folder, remote := l.mlflow("m@2", store+"-2", today), l.mlflow("m@2", server(), today, "--register")
	if again := l.must("launcher", "registry", "export", "m@2", "--mlflow", server(),
		"--register"); !strings.Contains(again, "already run "+remote.run) {
		t.Errorf("exported again to the server:\n%s\nexpected run %s", again, remote.run)
	}
	if id := remote.Tags["coppice.export"]; len(id) != 64 || folder.Tags["coppice.export"] != "" {
		t.Errorf("the tag coppice.export is %q on the server and %q in the folder, expected a checksum, and none", id,
			folder.Tags["coppice.export"])
	}
	delete(remote.Tags, "coppice.export")
	remote.run, remote.Found = folder.run, folder.Found
	if diff := cmp.Diff(folder, remote, cmp.AllowUnexported(mlflowRun{})); diff != "" {
		t.Errorf("MLflow reads from the server something other than from the folder:\n%s", diff)
	}

	// A version that continues another is grown again from it.
	if out := l.must("launcher", "registry", "reproduce", "m@2"); !strings.Contains(out, "the same bytes") {
		t.Errorf("reproduce says\n%s", out)
	}
	if out := l.must("launcher", "registry", "explain", "m@2"); !strings.Contains(out, "campaign_id") {
		t.Errorf("explain says\n%s", out)
	}
}
