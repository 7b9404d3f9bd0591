package arch_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"coppice/internal/must"
)

var (
	docOf  = regexp.MustCompile(`bench/(\w+)\.py[^#]*?--doc ([\w/.]+)`)
	markOf = regexp.MustCompile(`report\.marked\(args\.doc, "([\w-]+)"\)|\nMARK = "([\w-]+)"`)
)

// TestMeasurementsHaveAPlace: a benchmark that runs for hours and then writes into a document finds its two marks
// there.
func TestMeasurementsHaveAPlace(t *testing.T) {
	makefile := strings.ReplaceAll(read(t, "bench/bench.mk"), "\\\n", " ")
	found := 0
	for _, line := range strings.Split(makefile, "\n") {
		m := docOf.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		found++
		script, doc := "bench/"+m[1]+".py", m[2]
		mark := markOf.FindStringSubmatch(read(t, script))
		if mark == nil {
			t.Errorf("%s writes into %s without asking for its marks first", script, doc)
			continue
		}
		text, name := read(t, doc), mark[1]+mark[2]
		begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
		if strings.Count(text, begin) != 1 || strings.Count(text, end) != 1 ||
			strings.Index(text, begin) > strings.Index(text, end) {
			t.Errorf("%s writes into %s, which must hold %s and after it %s, once each", script, doc, begin, end)
		}
	}
	if found < 4 {
		t.Errorf("bench/bench.mk has %d benchmarks that write into documents, want at least 4", found)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}
