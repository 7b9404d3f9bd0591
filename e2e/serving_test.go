//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
)

// serving starts `launcher serve` of a model in the folder dir and returns its address. The server is stopped when the
// test ends, and has to end without an error then.
func serving(t *testing.T, dir string, env []string, model string) string {
	t.Helper()
	cmd := exec.Command(binaryOf(t, "launcher"), "serve", "--model", model, "--listen", "127.0.0.1:0", "--grace", "0s")
	cmd.Dir, cmd.Env = dir, env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.Do(t, err)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v, expected no error:\n%s", err, said.String())
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server printed %q (%v), expected its address", url, err)
	}
	return strings.TrimSpace(url)
}

// TestE2EServing: `launcher serve` of a model that fit has saved answers requests in CSV and JSON with the predictions
// that `launcher predict` writes. Its metrics count the 100 rows of both requests, and say what the model's held-out
// rows were like.
func TestE2EServing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env, launcher := withoutCloud(t, filepath.Join(dir, "tmp")), binaryOf(t, "launcher")
	table := datasettest.Table(datasettest.Options{Rows: 3000})
	today := datasettest.Table(datasettest.Options{Rows: 50, Seed: 2})
	for name, text := range map[string][]byte{"train.csv": table, "today.csv": today} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	execute(t, dir, env, launcher, "fit", "train.csv", "--label", "is_click", "--drop", "revenue", "--trials", "1",
		"--out", "model").ok(t)
	execute(t, dir, env, launcher, "predict", "--model", "./model", "--in", "today.csv", "--out", "scored.csv").ok(t)
	scored := must.Get(os.ReadFile(filepath.Join(dir, "scored.csv")))(t)
	var want []float64
	for _, line := range strings.Fields(string(scored))[1:] {
		x := must.Get(strconv.ParseFloat(line, 64))(t)
		want = append(want, x)
	}

	rows, err := csv.NewReader(bytes.NewReader(today)).ReadAll()
	if err != nil || len(want) != 50 || len(rows) != 51 {
		t.Fatalf("reading today.csv: error %v, %d rows of which %d are scored; want 50", err, len(rows)-1, len(want))
	}
	instances := make([]map[string]string, 50)
	for c, name := range rows[0] {
		for r, row := range rows[1:] {
			if instances[r] == nil {
				instances[r] = map[string]string{}
			}
			instances[r][name] = row[c]
		}
	}
	url := serving(t, dir, env, "./model")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for status := 0; status != http.StatusOK; <-tick.C {
		status, _ = ask(t, http.MethodGet, url+"/readyz", "", nil)
	}
	if status, got := ask(t, http.MethodPost, url+"/predict", "text/csv", today); string(got) != string(scored) {
		t.Errorf("CSV: got status %d, %.300s; expected what predict writes, %.300s", status, got, scored)
	}
	var answer struct{ Predictions []float64 }
	body, _ := json.Marshal(map[string]any{"instances": instances})
	_, got := ask(t, http.MethodPost, url+"/predict", "application/json", body)
	decode(t, string(got), &answer)
	if !slices.Equal(answer.Predictions, want) {
		t.Errorf("JSON: got %+v; expected %v", answer, want)
	}

	// The saved version knows what its held-out rows are like.
	_, metrics := ask(t, http.MethodGet, url+"/metrics", "", nil)
	for _, line := range []string{"coppice_serve_rows_total 100\n", "coppice_serve_heldout_mean_prediction 0.",
		"coppice_serve_column_rows_total{column=\"campaign_id\"} 100\n",
		"coppice_serve_column_heldout_unseen_ratio{column=\"campaign_id\"} "} {
		if !strings.Contains(string(metrics), line) {
			t.Errorf("/metrics is\n%s\nwant %q in it", metrics, line)
		}
	}
}

// ask sends a request whose body is of the media type kind, and returns the status and the body of the answer.
func ask(t *testing.T, method, url, kind string, body []byte) (status int, text []byte) {
	t.Helper()
	q := must.Get(http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body)))(t)
	q.Header.Set("Content-Type", kind)
	a, err := http.DefaultClient.Do(q)
	must.Do(t, err)
	defer a.Body.Close()
	text = must.Get(io.ReadAll(a.Body))(t)
	return a.StatusCode, text
}
