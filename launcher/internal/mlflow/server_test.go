package mlflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"coppice/internal/cloud"
	"coppice/internal/cloud/tracking"
	"coppice/internal/dataset"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/mlflow"
)

// fake is a tracking server that has what is needed here, with MLflow's limits.
type fake struct {
	t        *testing.T
	state    state
	requests []string // those that change something
	failAt   int      // the request, counted from 1, that is refused
	served   int
	location string // of a new experiment's artifacts
	stage    string // of experiments
	run      string // id of a new run
}

// state is what a reader of the server would find.
type state struct {
	Experiments []string
	Runs        []string
	Status      map[string]string
	Values      map[string]string // params, metrics and tags by run and key
	Datasets    map[string]string // by run
	Files       map[string]string
	Registered  []string
}

func newFake(t *testing.T) *fake {
	return &fake{t: t, location: "mlflow-artifacts:/1", stage: "active", run: "0123456789abcdef0123456789abcdef",
		state: state{Status: map[string]string{}, Values: map[string]string{}, Datasets: map[string]string{},
			Files: map[string]string{}}}
}

func (f *fake) open() mlflow.Server {
	s := httptest.NewServer(f)
	f.t.Cleanup(s.Close)
	c, err := tracking.New(s.URL, sweep.TrackingEnv{})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// call is the union of all requests.
type call struct {
	Name, Filter string
	RunID        string `json:"run_id"`
	Params, Tags []struct{ Key, Value string }
	Metrics      []struct {
		Key       string
		Value     float64
		Timestamp int64
	}
	Datasets []struct{ Dataset map[string]string }
	Status   string
	Source   string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.served++
	body, _ := io.ReadAll(r.Body)
	if f.served == f.failAt {
		f.refuse(w, 400, "INTERNAL_ERROR")
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/api/2.0/mlflow-artifacts/artifacts/"); ok &&
		r.Method == http.MethodPut {
		f.requests = append(f.requests, "upload "+name)
		f.state.Files[name] = string(body)
		return
	}
	endpoint := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/")
	var q call
	if r.Method == http.MethodPost {
		if err := json.Unmarshal(body, &q); err != nil || len(body) > 1e6 {
			f.t.Errorf("%s has %d bytes, %v; expected JSON of at most a megabyte", endpoint, len(body), err)
		}
	}
	if r.Method == http.MethodPost && endpoint != "runs/search" {
		f.requests = append(f.requests, endpoint)
	}
	f.answer(w, r, endpoint, q)
}

func (f *fake) refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error_code": %q, "message": "no"}`, code)
}

func (f *fake) answer(w http.ResponseWriter, r *http.Request, endpoint string, q call) {
	s := &f.state
	switch endpoint {
	case "experiments/get-by-name":
		if !slices.Contains(s.Experiments, r.FormValue("experiment_name")) {
			f.refuse(w, 404, "RESOURCE_DOES_NOT_EXIST")
			return
		}
		fmt.Fprintf(w, `{"experiment": {"experiment_id": "1", "artifact_location": %q, "lifecycle_stage": %q}}`,
			f.location, f.stage)
	case "experiments/create":
		s.Experiments = append(s.Experiments, q.Name)
		fmt.Fprint(w, `{"experiment_id": "1"}`)
	case "runs/create":
		s.Runs = append(s.Runs, f.run)
		s.Status[f.run] = "RUNNING"
		for _, t := range q.Tags {
			s.Values[f.run+" tag "+t.Key] = t.Value
		}
		fmt.Fprintf(w, `{"run": {"info": %s}}`, f.info(f.run))
	case "runs/search":
		var found []string
		for _, run := range s.Runs {
			if q.Filter == "tags.`coppice.export` = '"+s.Values[run+" tag coppice.export"]+"'" {
				found = append(found, `{"info": `+f.info(run)+`}`)
			}
		}
		fmt.Fprintf(w, `{"runs": [%s]}`, strings.Join(found, ","))
	case "registered-models/create":
		f.refuse(w, 400, "RESOURCE_ALREADY_EXISTS")
	case "model-versions/search":
		var found []string
		for _, source := range s.Registered {
			found = append(found,
				fmt.Sprintf(`{"name": "other", "version": "9"}, {"name": "ctr", "version": "1", "source": %q}`, source))
		}
		fmt.Fprintf(w, `{"model_versions": [%s]}`, strings.Join(found, ","))
	case "model-versions/create":
		s.Registered = append(s.Registered, q.Source)
		fmt.Fprint(w, `{"model_version": {"name": "ctr", "version": "1"}}`)
	default:
		f.log(w, endpoint, q)
	}
}

func (f *fake) info(run string) string {
	return fmt.Sprintf(`{"run_id": %q, "status": %q, "artifact_uri": %q}`, run, f.state.Status[run], f.location+"/"+run+
		"/artifacts")
}

// log keeps what is said of a run.
func (f *fake) log(w http.ResponseWriter, endpoint string, q call) {
	switch endpoint {
	case "runs/log-batch":
		if len(q.Params) > 100 || len(q.Tags) > 100 || len(q.Params)+len(q.Tags)+len(q.Metrics) > 1000 {
			f.t.Errorf("a batch has %d params, %d tags and %d metrics, expected at most 100, 100, and 1000 in all",
				len(q.Params), len(q.Tags), len(q.Metrics))
		}
		for _, p := range q.Params {
			f.state.Values[q.RunID+" param "+p.Key] = p.Value
		}
		for _, tag := range q.Tags {
			f.state.Values[q.RunID+" tag "+tag.Key] = tag.Value
		}
		for _, m := range q.Metrics {
			f.state.Values[q.RunID+" metric "+m.Key] = fmt.Sprint(m.Value, m.Timestamp)
		}
	case "runs/log-inputs":
		f.state.Datasets[q.RunID] = fmt.Sprint(q.Datasets[0].Dataset)
	case "runs/update":
		f.state.Status[q.RunID] = q.Status
	default:
		f.refuse(w, 404, "ENDPOINT_NOT_FOUND")
		return
	}
	fmt.Fprint(w, "{}")
}

// version has more parameters and labels than one batch takes.
func version() mlflow.Request {
	params, labels := map[string]any{"learning_rate": 0.1}, map[string]string{"dataset": "clicks@1"}
	for i := range 250 {
		params[fmt.Sprintf("p%d", i)] = float64(i)
		labels[fmt.Sprintf("l%d", i)] = fmt.Sprint(i)
	}
	return mlflow.Request{Version: registry.Version{Model: "ctr", Number: 7, Key: "night",
		Info: registry.Info{At: time.Unix(1e9, 0), By: "ana", Labels: labels,
			Metrics: map[string]float64{"log_loss": 0.125}}}, Files: map[string][]byte{"model.txt": []byte("tree\n")},
		Inputs: []string{"site"}, Program: "v1",
		Result:   &sweep.Result{Params: params, Metrics: map[string]float64{"log_loss": 0.25}},
		Manifest: &dataset.Manifest{Name: "clicks", Version: "0123456789abcdef"}}
}

func TestSend(t *testing.T) {
	f := newFake(t)
	s := f.open()
	q := version()
	out, err := mlflow.Send(t.Context(), s, q, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := (mlflow.Exported{Experiment: "1", Run: f.run, Model: "runs:/" + f.run + "/model",
		Registered: "1"}); *out != want {
		t.Errorf("exported %+v, expected %+v", *out, want)
	}
	for key, want := range map[string]string{"param learning_rate": "0.1", "param p249": "249",
		"tag coppice.version": "7", "tag coppice.l249": "249",
		"tag coppice.dataset": "clicks@1", "metric valid.log_loss": "0.25 1000000000000",
		"metric test.log_loss": "0.125 1000000000000"} {
		if got := f.state.Values[f.run+" "+key]; got != want {
			t.Errorf("%s is %q, expected %q", key, got, want)
		}
	}
	model := "1/" + f.run + "/artifacts/model/"
	if f.state.Status[f.run] != "FINISHED" || f.state.Files[model+"version/model.txt"] != "tree\n" ||
		!strings.Contains(f.state.Files[model+"MLmodel"], "run_id: "+f.run) ||
		!strings.Contains(f.state.Datasets[f.run], "digest:0123456789abcdef") ||
		f.state.Registered[0] != "mlflow-artifacts:/"+strings.TrimSuffix(model, "/") {
		t.Errorf("the server has %+v; expected a finished run with the model, its dataset and a registered version",
			f.state)
	}

	// Again: nothing is written. Another version of the same name, from another registry, is another run.
	before := len(f.requests)
	again, err := mlflow.Send(t.Context(), s, q, true)
	// It tries to make the registered model.
	if err != nil || !again.Existed || again.Run != out.Run || again.Registered != "1" || len(f.requests) != before+1 {
		t.Errorf("exported again: %+v, %v, requests %q; expected the same run, and nothing written", again, err,
			f.requests[before:])
	}
	q.Version.Info.Why = "grown elsewhere"
	f.run = "fedcba9876543210"
	if other, err := mlflow.Send(t.Context(), s, q, false); err != nil || other.Existed || other.Run != f.run ||
		len(f.state.Runs) != 2 {
		t.Errorf("another version 7: %+v, %v; expected another run", other, err)
	}
}

// TestSendInterrupted fails each request in turn; the next export completes what is there.
func TestSendInterrupted(t *testing.T) {
	whole := newFake(t)
	if _, err := mlflow.Send(t.Context(), whole.open(), version(), true); err != nil {
		t.Fatal(err)
	}
	if whole.served < 12 {
		t.Fatalf("an export made %d requests, expected at least 12", whole.served)
	}
	for n := 1; n <= whole.served; n++ {
		f := newFake(t)
		f.failAt = n
		s := f.open()
		if out, err := mlflow.Send(t.Context(), s, version(), true); err == nil {
			t.Errorf("request %d of %d was refused: exported %+v, expected an error", n, whole.served, out)
		}
		for run, status := range f.state.Status {
			if _, ok := f.state.Files["1/"+run+"/artifacts/model/MLmodel"]; status == "FINISHED" && !ok {
				t.Errorf("request %d was refused: run %s is finished without a model", n, run)
			}
		}
		if _, err := mlflow.Send(t.Context(), s, version(), true); err != nil {
			t.Errorf("request %d was refused, then exported again: %v, expected no error", n, err)
		}
		if diff := cmp.Diff(whole.state, f.state); diff != "" {
			t.Errorf("request %d was refused, then exported again: the server differs from one without a failure:\n%s",
				n, diff)
		}
	}
}

func TestServersThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		set  func(*fake)
		says string
	}{
		"artifacts elsewhere": {func(f *fake) { f.location = "gs://bucket/mlflow" }, "--serve-artifacts"},
		"a deleted name":      {func(f *fake) { f.stage = "deleted" }, "is deleted"},
		"a hostile run":       {func(f *fake) { f.run = "x' or '1'='1" }, "which is none"},
		"a run that climbs":   {func(f *fake) { f.run = "../../secret" }, "which is none"},
	} {
		f := newFake(t)
		tc.set(f)
		if out, err := mlflow.Send(t.Context(), f.open(), version(), true); err == nil ||
			!strings.Contains(err.Error(), tc.says) || len(f.state.Files) > 0 {
			t.Errorf("%s: exported %+v, %v, files %d; expected an error that says %q, and no files", name, out, err,
				len(f.state.Files), tc.says)
		}
		if tc.says != "which is none" && len(f.state.Runs) > 0 {
			t.Errorf("%s: runs %q, expected none", name, f.state.Runs)
		}
	}

	f := newFake(t)
	f.stage = "deleted"
	_, err := mlflow.Send(t.Context(), f.open(), version(), false)
	var state *mlflow.StateError
	if !errors.As(err, &state) || !state.IsConflict() {
		t.Errorf("a deleted experiment: %v, expected a *StateError", err)
	}
	f = newFake(t)
	f.location = "s3://bucket"
	_, err = mlflow.Send(t.Context(), f.open(), version(), false)
	var setup *cloud.SetupError
	if !errors.As(err, &setup) {
		t.Errorf("artifacts elsewhere: %v, expected a *cloud.SetupError", err)
	}
}
