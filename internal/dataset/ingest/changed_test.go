package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// A table that changes between the two passes is an error about its file and column.
func TestNewValuesInTheSecondPassNameTheColumn(t *testing.T) {
	rows := func() string {
		var b strings.Builder
		b.WriteString("y,site,zip\n")
		for i := range 8000 {
			h := encode.Mix(uint64(i))
			fmt.Fprintf(&b, "%d,s%02d,z%02d\n", h>>63, h%50, h>>8%40)
		}
		return b.String()
	}
	file := writeFile(t, "t.csv", rows())
	spec := parseSpec(t, "label: y\nencodings: {keys: [[site, zip]]}\n")

	// Between the passes the learner is asked, and half of the rows get values that the others do not have.
	learner := func(_ context.Context, l *encode.Lesson) ([]float64, error) {
		text := strings.Replace(rows(), ",s", ",S", 4000)
		return make([]float64, len(l.Label)), os.WriteFile(file.Path, []byte(text), 0o644)
	}
	_, err := Stage(t.Context(), spec, []table.File{file}, filepath.Join(t.TempDir(), "d"),
		Options{Threads: 2, Learner: learner})
	var at *table.InputError
	if !errors.As(err, &at) || at.File != file.URI || at.Column != "site" ||
		!strings.Contains(at.Msg, "the column had 50 values before and has more now; stage it again") {
		t.Errorf("got %v, want an error about column site of %s", err, file.URI)
	}
}
