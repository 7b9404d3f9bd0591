package mlflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
)

// Server is a tracking server.
type Server interface {
	Endpoints
	Artifacts
}

// Endpoints are its REST interface. An error that is the server's refusal has a method ErrorCode with MLflow's word for
// it. Get and Post may call an endpoint several times; PostOnce is for those where a second call would not be harmless.
type Endpoints interface {
	Get(ctx context.Context, endpoint string, query url.Values, out any) error
	Post(ctx context.Context, endpoint string, in, out any) error
	PostOnce(ctx context.Context, endpoint string, in, out any) error
}

// Artifacts are files that the server takes. Path is an error for a location that it does not take files for; Upload
// adds one there, or replaces it.
type Artifacts interface {
	Path(location string) (string, error)
	Upload(ctx context.Context, location, name string, data []byte) error
}

// Limits of MLflow's servers for one request and for texts that describe a dataset (mlflow/utils/validation.py, of its
// older releases).
const (
	maxBatch = 100
	maxText  = 65_535
)

// Words of MLflow's interface.
const (
	codeExists  = "RESOURCE_ALREADY_EXISTS"
	codeMissing = "RESOURCE_DOES_NOT_EXIST"
	deleted     = "deleted"
	complete    = "FINISHED"
)

// tagExport has the version's own id, by which a later export finds its run.
const tagExport = "coppice.export"

// isCode reports whether err is a server's refusal with that code.
func isCode(err error, code string) bool {
	var refused interface{ ErrorCode() string }
	return errors.As(err, &refused) && refused.ErrorCode() == code
}

// StateError is something on the server that the export cannot use.
type StateError struct{ What string }

func (e *StateError) Error() string { return "MLflow server: " + e.What }

// IsConflict says that another party made it so.
func (*StateError) IsConflict() bool { return true }

// Send exports the version to a server. It can be repeated: the run of a version that is there and complete is left
// alone, one that an earlier export has begun is completed. With register, the run becomes a version of the server's
// registered model of the same name.
func Send(ctx context.Context, s Server, q Request, register bool) (*Exported, error) {
	e := &sending{server: s, q: &q}
	var err error
	if e.tag, err = q.exportID(); err != nil {
		return nil, err
	}
	experiment, err := e.experiment(ctx)
	if err != nil {
		return nil, err
	}
	run, err := e.run(ctx, experiment)
	if err != nil {
		return nil, err
	}
	out := &Exported{Experiment: experiment, Run: run.ID, Model: "runs:/" + run.ID + "/" + modelDir,
		Existed: run.Status == complete}

	// The run is complete once everything is there; until then a reader can tell.
	if !out.Existed {
		for _, step := range []func(context.Context, *runInfo) error{e.facts, e.dataset, e.files, e.finish} {
			if err := step(ctx, run); err != nil {
				return nil, fmt.Errorf("run %s is not complete, export again: %w", run.ID, err)
			}
		}
	}
	if register {
		if out.Registered, err = e.register(ctx, run); err != nil {
			return nil, fmt.Errorf("run %s is not registered, export again: %w", run.ID, err)
		}
	}
	return out, nil
}

// exportID depends on everything in the version's record, so that versions of equal names in two registries are two
// runs.
func (q *Request) exportID() (string, error) {
	record, err := q.Version.Record()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(record)
	return hex.EncodeToString(sum[:]), nil
}

// sending is one export.
type sending struct {
	server Server
	q      *Request
	tag    string
}

// Parts of the server's answers.
type (
	experimentInfo struct {
		ID        string `json:"experiment_id"`
		Artifacts string `json:"artifact_location"`
		Stage     string `json:"lifecycle_stage"`
	}
	runInfo struct {
		ID        string `json:"run_id"`
		Status    string `json:"status"`
		Artifacts string `json:"artifact_uri"`
	}
	runAnswer struct {
		Info runInfo `json:"info"`
	}
	entry struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
)

// ids are what servers of MLflow use for experiments and runs. They get into queries and paths.
var ids = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

func checkID(what, id string) error {
	if !ids.MatchString(id) {
		return fmt.Errorf("MLflow server: the id of its %s is %.60q, which is none", what, id)
	}
	return nil
}

// experiment returns the id of the model's experiment, which it makes if there is none.
func (e *sending) experiment(ctx context.Context) (string, error) {
	name := e.q.Version.Model
	var found struct{ Experiment experimentInfo }
	byName := func() error {
		return e.server.Get(ctx, "experiments/get-by-name", url.Values{"experiment_name": {name}}, &found)
	}
	err := byName()
	if isCode(err, codeMissing) {
		err = e.server.Post(ctx, "experiments/create", map[string]any{"name": name}, nil)
		// made by another export meanwhile, or by an attempt whose answer was lost
		if err == nil || isCode(err, codeExists) {
			err = byName()
		}
	}
	if err != nil {
		return "", err
	}

	x := found.Experiment
	if x.Stage == deleted {
		return "", &StateError{fmt.Sprintf("its experiment %s is deleted: restore it, or remove it for good with "+
			"mlflow gc", name)}
	}
	if _, err := e.server.Path(x.Artifacts); err != nil { // before there is a run that could not be completed
		return "", err
	}
	return x.ID, checkID("experiment "+name, x.ID)
}

// run finds the version's run, the complete one if there are several, or makes one.
func (e *sending) run(ctx context.Context, experiment string) (*runInfo, error) {
	var found struct{ Runs []runAnswer }
	if err := e.server.Post(ctx, "runs/search", map[string]any{"experiment_ids": []string{experiment},
		"max_results": maxBatch,
		"filter":      fmt.Sprintf("tags.`%s` = '%s'", tagExport, e.tag)}, &found); err != nil {
		return nil, err
	}
	if len(found.Runs) > 0 {
		i := max(0, slices.IndexFunc(found.Runs, func(r runAnswer) bool { return r.Info.Status == complete }))
		return &found.Runs[i].Info, checkID("run", found.Runs[i].Info.ID)
	}

	began, _ := e.q.times()
	var made struct{ Run runAnswer }
	err := e.server.PostOnce(ctx, "runs/create", map[string]any{"experiment_id": experiment, "start_time": began,
		"run_name": e.q.runName(),
		"user_id":  e.q.Version.Info.By, "tags": []entry{{tagExport, e.tag}}}, &made)
	if err != nil {
		return nil, err
	}
	return &made.Run.Info, checkID("run", made.Run.Info.ID)
}

// facts sends parameters, metrics and tags, in as many requests as MLflow's limits take.
func (e *sending) facts(ctx context.Context, run *runInfo) error {
	type metric struct {
		Key   string  `json:"key"`
		Value float64 `json:"value"`
		At    int64   `json:"timestamp"`
		Step  int64   `json:"step"`
	}
	_, at := e.q.times()
	values := e.q.metrics()
	var metrics []metric
	for _, name := range slices.Sorted(maps.Keys(values)) {
		metrics = append(metrics, metric{Key: name, Value: values[name], At: at})
	}

	params, tags := entries(e.q.params()), entries(e.q.tags())
	for len(params)+len(tags)+len(metrics) > 0 {
		p, t, m := min(len(params), maxBatch), min(len(tags), maxBatch), min(len(metrics), maxBatch)
		if err := e.server.Post(ctx, "runs/log-batch", map[string]any{"run_id": run.ID, "params": some(params[:p]),
			"tags": some(tags[:t]), "metrics": some(metrics[:m])},
			nil); err != nil {
			return err
		}
		params, tags, metrics = params[p:], tags[t:], metrics[m:]
	}
	return nil
}

// some is a list that is not null in JSON.
func some[T any](list []T) []T { return append([]T{}, list...) }

func entries(values map[string]string) []entry {
	var out []entry
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, entry{name, values[name]})
	}
	return out
}

// dataset says what the version was trained on.
func (e *sending) dataset(ctx context.Context, run *runInfo) error {
	all := datasetMeta(e.q.Manifest, "")
	// if there are too many files
	data := mapping{"source": text(mapping{"dataset": e.q.Manifest.Name + "@" + e.q.Manifest.Version})}
	for _, key := range []string{"name", "digest", "source_type", "source", "schema", "profile"} {
		// a table of thousands of columns goes without a schema
		if value, ok := all[key].(string); ok && len(value) <= maxText {
			data[key] = value
		}
	}
	return e.server.Post(ctx, "runs/log-inputs", map[string]any{"run_id": run.ID, "datasets": []any{map[string]any{
		"dataset": data, "tags": []entry{{"mlflow.data.context", "training"}}}}}, nil)
}

// files uploads the model; MLmodel, without which nothing loads it, comes last.
func (e *sending) files(ctx context.Context, run *runInfo) error {
	files, err := e.q.model(run.ID)
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return name == fileMLmodel })
	for _, name := range append(names, fileMLmodel) {
		if err := e.server.Upload(ctx, run.Artifacts, modelDir+"/"+name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// finish marks the run as complete.
func (e *sending) finish(ctx context.Context, run *runInfo) error {
	_, at := e.q.times()
	return e.server.Post(ctx, "runs/update", map[string]any{"run_id": run.ID, "status": complete, "end_time": at}, nil)
}

// register makes the run a version of the server's registered model of the same name, unless it is one.
func (e *sending) register(ctx context.Context, run *runInfo) (string, error) {
	type modelVersion struct{ Name, Version string }
	name := e.q.Version.Model
	err := e.server.Post(ctx, "registered-models/create", map[string]any{"name": name}, nil)
	if err != nil && !isCode(err, codeExists) {
		return "", err
	}
	var found struct {
		Versions []modelVersion `json:"model_versions"`
	}
	if err := e.server.Get(ctx, "model-versions/search", url.Values{"filter": {fmt.Sprintf("run_id='%s'", run.ID)},
		"max_results": {"100"}}, &found); err != nil {
		return "", err
	}
	for _, v := range found.Versions {
		if v.Name == name {
			return v.Version, nil
		}
	}

	var made struct {
		Version modelVersion `json:"model_version"`
	}
	err = e.server.PostOnce(ctx, "model-versions/create", map[string]any{"name": name, "source": run.Artifacts + "/" +
		modelDir, "run_id": run.ID,
		"description": e.q.Version.Info.Why, "tags": []entry{{"coppice.version", fmt.Sprint(e.q.Version.Number)},
			{tagExport, e.tag}}}, &made)
	return made.Version.Version, err
}
