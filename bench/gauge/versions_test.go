package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/scorer"
)

const hostileDir = "../../python/tests/hostile/"

// hostileCase alters one file of hostile/base. python/tests/hostile.py reads the same.
type hostileCase struct {
	Name, File string
	From, To   string
	Whole      bool        // To is the whole file
	Times      []any       // a text that follows To, and how often
	Then       [][2]string // further replacements
	At         int         // where Hex is written
	Hex        string      //
	Remove     bool        //
	Read       []float64   // what is predicted; nil: the version is refused
}

// apply returns the altered file.
func (c *hostileCase) apply(t *testing.T, data []byte) []byte {
	t.Helper()
	text := func(s string) []byte { return bytes.ReplaceAll([]byte(s), []byte("@ff@"), []byte{0xff}) }
	if c.Hex != "" {
		b, err := hex.DecodeString(c.Hex)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.Clone(data)
		copy(data[c.At:], b)
		return data
	}

	to := c.To
	if len(c.Times) == 2 {
		to += strings.Repeat(c.Times[0].(string), int(c.Times[1].(float64)))
	}
	if c.Whole {
		return text(to)
	}
	for _, r := range append([][2]string{{c.From, to}}, c.Then...) {
		if !bytes.Contains(data, text(r[0])) {
			t.Fatalf("%s has no %q", c.File, r[0])
		}
		data = bytes.Replace(data, text(r[0]), text(r[1]), 1)
	}
	return data
}

// sealed returns the files, version.json with the lengths and checksums of the others.
func sealed(files map[string][]byte) map[string][]byte {
	for _, name := range []string{scorer.FileModel, scorer.FileFeatures, scorer.FileCalibrator, scorer.FileLevels} {
		sum := sha256.Sum256(files[name])
		for key, value := range map[string]string{"bytes": fmt.Sprint(len(files[name])),
			"sha256": hex.EncodeToString(sum[:])} {
			if record, ok := files["version.json"]; ok {
				files["version.json"] = bytes.ReplaceAll(record, []byte("@"+name+"."+key+"@"), []byte(value))
			}
		}
	}
	return files
}

// TestHostileVersions alters a version in 300 ways: each is refused, naming the file, or predicts what is expected. The
// tests of python/coppice read the same table.
func TestHostileVersions(t *testing.T) {
	text, err := os.ReadFile(hostileDir + "cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []hostileCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	base := map[string][]byte{}
	for _, name := range []string{"version.json", scorer.FileModel, scorer.FileFeatures, scorer.FileCalibrator,
		scorer.FileLevels} {
		if base[name], err = os.ReadFile(filepath.Join(hostileDir, "base", name)); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			files := map[string][]byte{}
			for name, data := range base {
				files[name] = data
			}
			files[c.File] = c.apply(t, base[c.File])
			if c.Remove {
				delete(files, c.File)
			}

			start := time.Now()
			got, err := scoreVersion(t.Context(), sealed(files), hostileDir+"base/rows.csv")
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			if c.Read == nil {
				named := func(file string) bool { return strings.Contains(got.Refused, file) }
				if got.Refused == "" || !c.Remove && !slices.ContainsFunc(slices.Collect(maps.Keys(base)), named) {
					t.Errorf("got %+v; expected a refusal that names a file, such as %s", got, c.File)
				}
				return
			}
			if got.Refused != "" || len(got.Scores) != len(c.Read) {
				t.Fatalf("got %+v; expected %v", got, c.Read)
			}
			for i, want := range c.Read {
				if math.Abs(got.Scores[i]-want) > 1e-12 {
					t.Errorf("row %d: got %v, expected %v", i, got.Scores[i], want)
				}
			}
		})
	}
}
