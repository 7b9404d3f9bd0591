package table

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/must"
)

// Formats that are not read are refused by their names, at once.
func TestOtherFormats(t *testing.T) {
	for name, want := range map[string]string{"t.feather": "Arrow IPC", "old.feather": "Arrow IPC",
		"rank.train": "svmlight", "queries.txt": "svmlight", "a.csv": "a.csv.query lies beside it",
		"b.csv": "b.csv.weight lies", "plain.csv": "", "times.csv": "", "days.csv": "", "noon.csv": "",
		"one.txt": "svmlight", "end.txt": "svmlight"} {
		text := map[string]string{"t.feather": "ARROW1\x00\x00....", "old.feather": "FEA1........",
			"rank.train": "0 1:0.5 7:1\n1 2:3\n", "queries.txt": "2 qid:1 1:0.5\n",
			"times.csv": "y 10:03,x\n1,2\n", "days.csv": "10 2:30,foo\n11 2:31,bar\n",
			"noon.csv": "10 2:30 PM,foo\n", "one.txt": "-1 7:1e-3 # x\n", "end.txt": "+1 7:1.5 9:2"}[name]
		if text == "" {
			text = "y,x\n1,2\n"
		}
		path := filepath.Join(t.TempDir(), name)
		beside := map[string]string{"a.csv": ".query", "b.csv": ".weight"}[name]
		for suffix, content := range map[string]string{"": text, beside: text} {
			must.Do(t, os.WriteFile(path+suffix, []byte(content), 0o644))
		}
		_, err := Open([]File{{URI: path, Path: path, Bytes: int64(len(text))}}, Options{})
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, expected %q", name, err, want)
			}
		} else if want != "" {
			t.Errorf("%s is read, expected %q", name, want)
		}
	}
}
