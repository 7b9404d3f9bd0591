// Package mlflow writes a registered version as a run of MLflow, into a folder that is its file store (Write) or to a
// tracking server (Send): parameters, metrics, tags, the dataset and the model, for MLflow's own programs to read.
//
// The layout is MLflow's (mlflow/store/tracking/file_store.py, mlflow/models/model.py). In a file store ids are derived
// from the version, so that the same version is the same run; a server makes its own, and finds the version's run by a
// tag.
package mlflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// Request is a version to export.
type Request struct {
	Dir      string // of the file store, which may contain other runs; nothing for a server
	Version  registry.Version
	Files    map[string][]byte // of the version, by name
	Result   *sweep.Result     // of the trial that became the version
	Manifest *dataset.Manifest // of its dataset
	Inputs   []string          // columns that a row must have
	Program  string            // version of this build
}

// Exported says where the exported objects are.
type Exported struct {
	Experiment string `json:"experiment"` // id; its name is the model's
	Run        string `json:"run"`
	Model      string `json:"model"`                // folder or URI that mlflow loads
	Existed    bool   `json:"existed,omitempty"`    // the server had it already, complete
	Registered string `json:"registered,omitempty"` // version of the server's registered model, if one was asked for
}

// ExistsError reports a version that the store already has.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s already exists: an exported version does not change; remove the folder to export it again",
		e.Path)
}

// IsConflict says that the target exists already.
func (*ExistsError) IsConflict() bool { return true }

// Folders and files of MLflow.
const (
	metaFile    = "meta.yaml"
	datasetsDir = "datasets"
	modelDir    = "model"
	fileMLmodel = "MLmodel"
	filesDir    = "version" // of the registered version, within modelDir
	active      = "active"
	finished    = 3 // of run states
	sourceJob   = 4 // of source types: local
)

// Write exports the version atomically.
func Write(q Request) (*Exported, error) {
	root, err := filepath.Abs(q.Dir)
	if err != nil {
		return nil, err
	}

	v := q.Version
	at := v.Info.At.UnixMilli()
	out := &Exported{Experiment: experimentID(v.Model), Run: id("run", v.Model, strconv.Itoa(v.Number), v.Key)}
	experiment := filepath.Join(root, out.Experiment)
	run := filepath.Join(experiment, out.Run)
	out.Model = filepath.Join(run, "artifacts", modelDir)
	if _, err := os.Lstat(run); !errors.Is(err, fs.ErrNotExist) {
		return nil, cmp.Or(err, error(&ExistsError{run}))
	}

	if _, err := os.Lstat(root); errors.Is(err, fs.ErrNotExist) {
		defer os.Remove(root) // fails once the export has succeeded
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	draft, err := os.MkdirTemp(root, ".export-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(draft)

	// Everything is first written beside the store, including the experiment, which may be new.
	data := id("dataset", q.Manifest.Name, q.Manifest.Version)
	if err := writeYAML(filepath.Join(draft, metaFile), mapping{
		"artifact_location": fileURI(experiment), "creation_time": at, "experiment_id": out.Experiment,
		"last_update_time": at, "lifecycle_stage": active, "name": v.Model,
	}); err != nil {
		return nil, err
	}
	if err := writeYAML(filepath.Join(draft, datasetsDir, data, metaFile), datasetMeta(q.Manifest, data)); err != nil {
		return nil, err
	}
	if err := q.fill(filepath.Join(draft, out.Run), run, out, data); err != nil {
		return nil, err
	}

	// The first run of a model appears together with its experiment. Otherwise the run is moved last, so that
	// everything it refers to exists by then.
	if _, err := os.Lstat(experiment); errors.Is(err, fs.ErrNotExist) && os.Chmod(draft, 0o755) == nil &&
		os.Rename(draft, experiment) == nil {
		return out, nil
	}
	for _, part := range []string{metaFile, filepath.Join(datasetsDir, data), out.Run} {
		if err := appear(filepath.Join(draft, part), filepath.Join(experiment, part), part == out.Run); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type mapping = map[string]any

// appear moves a part of a draft to its place. Parts shared with other exports may exist already.
func appear(from, to string, own bool) error {
	if _, err := os.Lstat(to); err == nil && !own {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	err := os.Rename(from, to)
	if _, there := os.Lstat(to); err != nil && there == nil { // another export was faster
		if own {
			return &ExistsError{to}
		}
		return nil
	}
	return err
}

func writeYAML(file string, v any) error {
	text, err := strictyaml.Encode(v)
	if err != nil {
		return err
	}
	return write(file, text)
}

func write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// id is an MLflow id: 32 hexadecimal digits.
func id(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// experimentID has 18 decimal digits, as in MLflow.
func experimentID(model string) string {
	sum := sha256.Sum256([]byte("experiment\x00" + model))
	n := new(big.Int).SetBytes(sum[:])
	digits := n.Mod(n, big.NewInt(9e17)).Int64() + 1e17
	return strconv.FormatInt(digits, 10)
}

func fileURI(path string) string { return "file://" + filepath.ToSlash(path) }

// fill writes all files of a run into a folder that will be called run.
func (q *Request) fill(draft, run string, out *Exported, data string) error {
	v := q.Version
	began, at := q.times()
	if err := writeYAML(filepath.Join(draft, metaFile), mapping{
		"artifact_uri": fileURI(filepath.Join(run, "artifacts")), "end_time": at, "entry_point_name": "",
		"experiment_id": out.Experiment, "lifecycle_stage": active,
		"run_id": out.Run, "run_name": q.runName(), "run_uuid": out.Run, "source_name": "", "source_type": sourceJob,
		"source_version": "", "start_time": began,
		"status": finished, "tags": []string{}, "user_id": v.Info.By,
	}); err != nil {
		return err
	}
	if err := q.facts(draft, at); err != nil {
		return err
	}
	if err := writeYAML(filepath.Join(draft, "inputs", id("input", out.Run, data), metaFile), mapping{
		"source_type": "DATASET", "source_id": data, "destination_type": "RUN", "destination_id": out.Run,
		"tags": mapping{"mlflow.data.context": "training"},
	}); err != nil {
		return err
	}

	files, err := q.model(out.Run)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := write(filepath.Join(draft, "artifacts", modelDir, filepath.FromSlash(name)), data); err != nil {
			return err
		}
	}
	return nil
}

// times are when the training began and when the version was registered, in milliseconds.
func (q *Request) times() (began, at int64) {
	at = q.Version.Info.At.UnixMilli()
	return at - max(0, int64(q.Result.Usage.TrainSeconds*1000)), at
}

func (q *Request) runName() string { return fmt.Sprintf("%s@%d", q.Version.Model, q.Version.Number) }

// facts writes parameters, metrics and tags, one file each.
func (q *Request) facts(draft string, at int64) error {
	for _, folder := range []string{"params", "metrics", "tags"} { // MLflow requires them all, even if empty
		if err := os.Mkdir(filepath.Join(draft, folder), 0o755); err != nil {
			return err
		}
	}
	metrics := map[string]string{}
	for name, value := range q.metrics() {
		metrics[name] = fmt.Sprintf("%d %s 0\n", at, strconv.FormatFloat(value, 'g', -1, 64))
	}

	for folder, values := range map[string]map[string]string{"params": q.params(), "metrics": metrics,
		"tags": q.tags()} {
		for name, value := range values {
			if err := write(filepath.Join(draft, folder, name), []byte(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// params are the trial's, by their keys in MLflow.
func (q *Request) params() map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(q.Result.Params)) {
		out[plain(name)] = shown(q.Result.Params[name])
	}
	return out
}

// metrics are those on valid and test, by their keys in MLflow.
func (q *Request) metrics() map[string]float64 {
	out := map[string]float64{}
	for prefix, values := range map[string]map[string]float64{"valid.": q.Result.Metrics,
		"test.": q.Version.Info.Metrics} {
		for name, value := range values {
			out[plain(prefix+name)] = value
		}
	}
	return out
}

// tags are what else is known of the version, its labels among it, by their keys in MLflow.
func (q *Request) tags() map[string]string {
	v := q.Version
	out := map[string]string{"mlflow.runName": q.runName(), "mlflow.user": v.Info.By, "mlflow.source.type": "LOCAL",
		"mlflow.note.content": v.Info.Why,
		"coppice.model":       v.Model, "coppice.version": strconv.Itoa(v.Number), "coppice.key": v.Key,
		"coppice.program": q.Program}
	maps.Copy(out, labelTags(v.Info.Labels, out))
	return out
}

// labelTags maps a version's labels to tag names, which are file names: coppice.NAME, or coppice.label.NAME if that is
// taken. Labels whose names would coincide are distinguished by a checksum.
func labelTags(labels, taken map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		tag := "coppice." + plain(name)
		if _, other := taken[tag]; other {
			tag = "coppice.label." + plain(name)
		}
		if _, other := out[tag]; other {
			tag += "." + id(name)[:8]
		}
		out[tag] = labels[name]
	}
	return out
}

// plain turns a name into a valid MLflow key that stays within its folder.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r) {
			return r
		}
		return '_'
	}, name)
}

func shown(value any) string {
	if x, ok := value.(float64); ok {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return fmt.Sprint(value)
}

// datasetMeta describes a dataset; MLflow stores schema, profile and source as text.
func datasetMeta(m *dataset.Manifest, name string) mapping {
	var uris []string
	for _, s := range m.About.Sources {
		uris = append(uris, s.URI)
	}
	rows := map[string]int{}
	for _, s := range m.Splits {
		rows[s.Name] = m.TableRows(s.Name)
	}
	return mapping{"dataset_id": name, "name": m.Name, "digest": m.Version, "source_type": "coppice",
		"source":  text(mapping{"uris": uris, "dataset": m.Name + "@" + m.Version}),
		"schema":  text(mapping{"mlflow_colspec": columns(m.Encoding().Inputs())}),
		"profile": text(mapping{"rows": rows, "features": len(m.Features)})}
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("names and counts as JSON: %v", err))
	}
	return string(data)
}

// column is a column of a signature.
type column struct {
	Type     string `json:"type"`
	Name     string `json:"name,omitempty"`
	Required bool   `json:"required"`
}

// columns describes the raw columns that a row must have. MLflow rejects whole numbers declared as doubles, and numbers
// declared as strings; the model reads an id in any spelling, so the type is any.
func columns(names []string) []column {
	out := []column{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		out = append(out, column{Type: "any", Name: name, Required: true})
	}
	return out
}

// model returns the files of the model's folder: the registered version unchanged, and how MLflow loads it.
func (q *Request) model(run string) (map[string][]byte, error) {
	record, err := q.Version.Record()
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{filesDir + "/version.json": record}
	for name, data := range q.Files {
		out[filesDir+"/"+name] = data
	}

	// The loader's package is not listed: no index has it, and the one of that name on PyPI is a different project.
	out["requirements.txt"] = []byte("mlflow\nlightgbm>=4.0\nnumpy>=1.24\npyarrow>=14\n")
	if out["python_env.yaml"],
		err = strictyaml.Encode(mapping{"python": python,
		"dependencies": []string{"-r requirements.txt"}}); err != nil {
		return nil, err
	}
	out[fileMLmodel], err = strictyaml.Encode(mapping{
		"artifact_path": modelDir, "run_id": run, "model_uuid": id("model", run),
		"utc_time_created": q.Version.Info.At.UTC().Format("2006-01-02 15:04:05.000000"),
		"signature": mapping{"inputs": text(columns(q.Inputs)),
			"outputs": text([]column{{Type: "double", Required: true}}), "params": nil},
		"metadata": mapping{"model": q.Version.Model, "version": q.Version.Number, "dataset": q.Manifest.Name + "@" +
			q.Manifest.Version},
		"flavors": mapping{
			"lightgbm": mapping{"code": nil, "data": filesDir + "/" + scorer.FileModel, "lgb_version": lightGBM,
				"model_class": "lightgbm.basic.Booster"},
			"python_function": mapping{"loader_module": "coppice.mlflow", "data": filesDir, "python_version": python,
				"env": mapping{"virtualenv": "python_env.yaml"}},
		},
	})
	return out, err
}

// Versions that the export targets; the text format is older than both.
const (
	python   = "3.11.0"
	lightGBM = "4.6.0"
)
