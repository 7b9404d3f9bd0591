package mlflow_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/mlflow"
)

// TestAnExportThatFailsLeavesNothing: neither in a new store nor in one that has other runs, wherever it fails.
func TestAnExportThatFailsLeavesNothing(t *testing.T) {
	request := func(dir string, number int) mlflow.Request {
		return mlflow.Request{Dir: dir, Version: registry.Version{Model: "ctr", Number: number, Key: "night",
			Info: registry.Info{At: time.Unix(1e9, 0), By: "ana"}},
			Files: map[string][]byte{"model.txt": []byte("tree\n")}, Result: &sweep.Result{},
			Manifest: &dataset.Manifest{Name: "clicks", Version: "0123456789abcdef"}}
	}
	all := func(dir string) (files []string) {
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil {
				files = append(files, path)
			}
			return nil
		})
		return files
	}

	dir := filepath.Join(t.TempDir(), "mlruns")
	bad := request(dir, 2)
	bad.Files["model.txt/part"] = nil // of a file and a folder of one name, one cannot be written
	if out, err := mlflow.Write(bad); err == nil || len(all(dir)) > 0 {
		t.Errorf("into no store: %+v, error %v, and there is %q; expected an error and nothing", out, err, all(dir))
	}

	if _, err := mlflow.Write(request(dir, 1)); err != nil {
		t.Fatal(err)
	}
	before := len(all(dir))
	if out, err := mlflow.Write(bad); err == nil || len(all(dir)) != before {
		t.Errorf("into a store of %d files: %+v, error %v, and then there are %d; expected an error and as many",
			before, out, err, len(all(dir)))
	}

	// The same dataset, another run: what they share is there once.
	out, err := mlflow.Write(request(dir, 3))
	if err != nil {
		t.Fatal(err)
	}
	runs, _ := filepath.Glob(filepath.Join(dir, out.Experiment, "*", "artifacts", "model", "MLmodel"))
	if left, _ := filepath.Glob(filepath.Join(dir, ".export-*")); len(runs) != 2 || len(left) > 0 {
		t.Errorf("after two exports the runs are %q, and drafts %q; expected two and none", runs, left)
	}
}
