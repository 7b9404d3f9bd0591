package dataset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// A dataset whose levels are missing or cut off is refused when it is opened, not when a model of it is to predict.
func TestOpenMissesLevels(t *testing.T) {
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 600})
	if len(m.Tables) == 0 {
		t.Fatal("the dataset has no tables")
	}
	levels := filepath.Join(dir, dataset.LevelsFile)
	for name, damage := range map[string]func() error{
		"cut off": func() error { return os.Truncate(levels, 100) },
		"missing": func() error { return os.Remove(levels) },
	} {
		good := must.Get(os.ReadFile(levels))(t)
		must.Do(t, damage())
		d, err := dataset.Open(dir)
		if !problem.Is(err, problem.Damaged) || !strings.HasPrefix(err.Error(), dataset.LevelsFile) {
			t.Errorf("%s: got %v, want damage to %s", name, err, dataset.LevelsFile)
		}
		if err == nil {
			d.Close()
		}
		must.Do(t, os.WriteFile(levels, good, 0o600))
	}
}
