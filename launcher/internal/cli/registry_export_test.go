package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/launcher/internal/mlflow"
)

// TestExport reads back what is written for MLflow; `make interop` reads it with MLflow itself.
func TestExport(t *testing.T) {
	w := newWorld(t)
	g := w.grow(3, 4)
	dir := filepath.Join(t.TempDir(), "mlruns")
	export := func(version string) (out mlflow.Exported) {
		t.Helper()
		if err := json.Unmarshal([]byte(w.must("registry", "export", version, "--mlflow", dir, "--json")),
			&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	one, two := export("ctr@1"), export("ctr@2")
	if one.Experiment != two.Experiment || one.Run == two.Run {
		t.Errorf("two versions of a model are %+v and %+v, want two runs of one experiment", one, two)
	}

	run := filepath.Join(dir, one.Experiment, one.Run)
	read := func(parts ...string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(append([]string{run}, parts...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, c := range [][2]string{{"params/num_iterations", "3"}, {"params/learning_rate", "0.1"},
		{"params/objective", "binary"}, {"tags/coppice.version", "1"},
		{"tags/mlflow.runName", "ctr@1"}, {"tags/coppice.dataset", g.manifest.Name + "@" + g.manifest.Version}} {
		if got := read(c[0]); got != c[1] {
			t.Errorf("%s is %q, expected %q", c[0], got, c[1])
		}
	}

	// All YAML can be parsed, and has the keys that MLflow requires.
	var yamls int
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" && d.Name() != "MLmodel" {
			return err
		}
		yamls++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = strictyaml.Decode(path, text, &map[string]any{})
		return err
	})
	if err != nil || yamls < 8 {
		t.Errorf("%d files of YAML: %v", yamls, err)
	}
	for _, part := range []string{"loader_module: coppice.mlflow", "data: version/model.txt", `\"name\":\"site\"`,
		`\"name\":\"price\"`, "utc_time_created"} {
		if text := read("artifacts", "model", "MLmodel"); !strings.Contains(text, part) {
			t.Errorf("no %s in\n%s", part, text)
		}
	}
	if text := read("artifacts", "model", "requirements.txt"); strings.Contains(text, "coppice") {
		t.Errorf("requirements.txt names a package that no index has:\n%s", text)
	}
	v, err := registry.New(g.buckets["registry"]).Get(t.Context(), "ctr", "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range v.Files {
		if sum := sha256.Sum256([]byte(read("artifacts", "model", "version",
			f.Name))); hex.EncodeToString(sum[:]) != f.SHA256 {
			t.Errorf("%s differs from the registered one", f.Name)
		}
	}
	if record := read("artifacts", "model", "version", "version.json"); !strings.Contains(record, v.Files[0].SHA256) ||
		!strings.Contains(record, `"format": 1`) {
		t.Errorf("the record is\n%s", record)
	}

	w.refused(sweep.ExitConflict, "already exists", "registry", "export", "ctr@1", "--mlflow", dir)
	if left, _ := filepath.Glob(filepath.Join(dir, ".export-*")); len(left) > 0 {
		t.Errorf("drafts are left: %v", left)
	}
	for _, uri := range []string{"sqlite:///x.db", "databricks"} {
		w.refused(sweep.ExitUsage, "is not supported", "registry", "export", "ctr@1", "--mlflow", uri)
	}
	w.refused(sweep.ExitUsage, "is for a tracking server", "registry", "export", "ctr@1", "--mlflow", dir, "--register")

	// Names from outside stay within their folder, and cannot replace the export's own.
	v.Info.Labels["../../escape"] = "x"
	for name, value := range map[string]string{"version": "seven", "a b": "blank", "a_b": "line"} {
		v.Info.Labels[name] = value
	}
	files := map[string][]byte{}
	for _, f := range v.Files {
		if files[f.Name], err = registry.New(g.buckets["registry"]).ReadFile(t.Context(), v, f.Name); err != nil {
			t.Fatal(err)
		}
	}
	delete(files, scorer.FileResult)
	if _, err := registry.New(g.buckets["registry"]).Register(t.Context(), "ctr", "odd", files, v.Info); err != nil {
		t.Fatal(err)
	}
	odd := export("ctr@3")
	if _, err := os.Stat(filepath.Join(dir, odd.Experiment, odd.Run, "tags", "coppice..._.._escape")); err != nil {
		t.Error(err)
	}
	for tag, want := range map[string]string{"coppice.version": "3", "coppice.label.version": "seven",
		"coppice.a_b": "blank"} {
		if got, err := os.ReadFile(filepath.Join(dir, odd.Experiment, odd.Run, "tags", tag)); err != nil ||
			string(got) != want {
			t.Errorf("tag %s is %q, error %v; expected %q", tag, got, err, want)
		}
	}
	if both, _ := filepath.Glob(filepath.Join(dir, odd.Experiment, odd.Run, "tags", "coppice.a_b.*")); len(both) != 1 {
		t.Errorf("labels %q and %q have the tag coppice.a_b and %q; expected one more", "a b", "a_b", both)
	}

	if keep := os.Getenv("COPPICE_KEEP_EXPORT"); keep != "" {
		_ = os.CopyFS(keep, os.DirFS(dir))
	}
}

// TestExportToServer: errors of a server have the exit code of the environment, and no output shows the credentials.
// Package mlflow tests the requests, and `make interop` uses MLflow's server.
func TestExportToServer(t *testing.T) {
	w := newWorld(t)
	w.grow(3, 4)
	const token = "very-secret-token"
	w.env = map[string]string{"MLFLOW_TRACKING_TOKEN": token}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(rw, `{"error_code": "UNAUTHENTICATED", "message": "who is %s?"}`, r.Header.Get("Authorization"))
	}))
	defer s.Close()

	for address, says := range map[string]string{
		s.URL:                               "who is Bearer (secret)?",
		"http://mlflow.example.com":         "credentials are sent encrypted",
		"https://a:" + token + "@localhost": "must not contain credentials",
	} {
		code, out, errOut := w.run("registry", "export", "ctr@1", "--mlflow", address)
		if code != sweep.ExitSetup || !strings.Contains(errOut, says) || strings.Contains(out+errOut, token) {
			t.Errorf("exported to a server that refuses: code %d, want %d and %q without the token\n%s\n%s", code,
				sweep.ExitSetup, says, out, errOut)
		}
	}
}
