package gbt

import (
	"strings"
	"testing"

	"coppice/internal/strictyaml"
)

// FuzzConf: whatever the file holds, it is refused, or becomes YAML of as many lines that can be read.
func FuzzConf(f *testing.F) {
	f.Add([]byte("# of LightGBM\ntask = train\nmetric = log_loss,auc\nnum_trees = 100   # trees\n"))
	f.Add([]byte("a = \"x\n: - {\nb=1,,e\r\nc = -\x00\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		yaml, err := fromConf("x.conf", text)
		if err != nil {
			return
		}
		if got, want := strings.Count(string(yaml), "\n"), strings.Count(string(text), "\n"); got-want > 1 ||
			got < want {
			t.Errorf("got %d lines, want %d", got, want)
		}
		values := map[string]any{}
		_, err = strictyaml.Decode("x.conf", yaml, &values)
		if err != nil && !strings.Contains(err.Error(), "twice") && !strings.Contains(err.Error(), "duplicate") &&
			len(yaml) < 1<<16 {
			t.Errorf("%q: got %v, want values", yaml, err)
		}
	})
}
