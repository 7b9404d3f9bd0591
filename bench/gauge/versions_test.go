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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/scorer"
)

const hostileDir = "../../python/tests/hostile/"

// hostileCase alters one file of hostile/base. python/tests/hostile.py reads the same.
type hostileCase struct {
	Name, File string
	From, To   string
	Whole      bool        // To is the whole file
	Times      []any       // a text that follows To, and how often
	End        string      // what follows that
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
		b := must.Get(hex.DecodeString(c.Hex))(t)
		data = bytes.Clone(data)
		copy(data[c.At:], b)
		return data
	}

	to := c.To
	if len(c.Times) == 2 {
		to += strings.Repeat(c.Times[0].(string), int(c.Times[1].(float64))) + c.End
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

// hostileCases reads a table of cases, and the files that they alter.
func hostileCases(t *testing.T, table string) (cases []hostileCase, base map[string][]byte) {
	t.Helper()
	text := must.Get(os.ReadFile(hostileDir + table))(t)
	must.Do(t, json.Unmarshal(text, &cases))
	base = map[string][]byte{}
	for _, name := range []string{"version.json", scorer.FileModel, scorer.FileFeatures, scorer.FileCalibrator,
		scorer.FileLevels} {
		base[name] = must.Get(os.ReadFile(filepath.Join(hostileDir, "base", name)))(t)
	}
	return cases, base
}

// version returns the files of the case.
func (c *hostileCase) version(t *testing.T, base map[string][]byte) map[string][]byte {
	t.Helper()
	files := maps.Clone(base)
	files[c.File] = c.apply(t, base[c.File])
	if c.Remove {
		delete(files, c.File)
	}
	return sealed(files)
}

// childKey has the test's program be gauge, whose time and memory are measured.
const childKey = "COPPICE_GAUGE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childKey) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestLargeVersions: what is as large as it may be and wrong is refused, by the file's name, within 5 s and 512 MiB.
// docs/serving.md states these for JSON; its other figures are measured by hand.
func TestLargeVersions(t *testing.T) {
	if os.Getenv("COPPICE_FULL") == "" {
		t.Skip("it reads some 64 MiB ten times: make test FULL=1")
	}
	cases, base := hostileCases(t, "large.json")
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			folder := t.TempDir()
			for name, data := range c.version(t, base) {
				must.Do(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
			}
			self := must.Get(os.Executable())(t)
			child := exec.CommandContext(t.Context(), self, "versions", hostileDir+"base/rows.csv")
			child.Env = append(os.Environ(), childKey+"=1")
			child.Stdin = strings.NewReader(folder + "\n")
			out, err := child.CombinedOutput()
			var got versionResult
			if err == nil {
				err = json.Unmarshal(out, &got)
			}
			if err != nil {
				t.Fatalf("%v: %.500s", err, out)
			}

			seconds := (child.ProcessState.UserTime() + child.ProcessState.SystemTime()).Seconds()
			t.Logf("%.1f s, %d MiB: %.100s", seconds, got.Memory>>10, got.Refused)
			if !strings.Contains(got.Refused, c.File) || seconds > 5 || got.Memory > 512<<10 {
				t.Errorf("%.1f s, %d MiB: %.100q; expected a refusal that names %s within 5 s and 512 MiB", seconds,
					got.Memory>>10, got.Refused, c.File)
			}
		})
	}
}

// TestHostileVersions alters a version in 300 ways: each is refused, naming the file, or predicts what is expected. The
// tests of python/coppice read the same table.
func TestHostileVersions(t *testing.T) {
	cases, base := hostileCases(t, "cases.json")
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			start := time.Now()
			got := must.Get(scoreVersion(t.Context(), c.version(t, base), hostileDir+"base/rows.csv"))(t)
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
