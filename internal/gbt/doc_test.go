package gbt

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coppice/internal/must"
)

// TestEveryFileHasItsPlace: doc.go describes every file exactly once, and names none that does not exist.
func TestEveryFileHasItsPlace(t *testing.T) {
	text := must.Get(os.ReadFile("doc.go"))(t)
	said := map[string]int{}
	for _, name := range regexp.MustCompile(`\b[a-z]\w*\.(go|s)\b`).FindAllString(string(text), -1) {
		said[name]++
	}

	files := must.Get(filepath.Glob("*.*"))(t)
	for _, name := range files {
		if name == "doc.go" || strings.HasSuffix(name, "_test.go") || filepath.Ext(name) != ".go" &&
			filepath.Ext(name) != ".s" {
			continue
		}
		must.Equal(t, said[name], 1, "how often doc.go names %s, in the one of three groups where it is", name)
		delete(said, name)
	}
	for name := range said {
		t.Errorf("doc.go names %s, which is not there", name)
	}
}
