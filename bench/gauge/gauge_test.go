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

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/scorer"
)

// run executes gauge with the arguments args and decodes the JSON object that it prints into the variable into points
// to. An error of the command, or of the decoding, is returned.
func run(t *testing.T, into any, args ...string) error {
	t.Helper()
	var out bytes.Buffer
	c := command(&out)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.ExecuteContext(t.Context()); err != nil {
		return err
	}
	return json.Unmarshal(out.Bytes(), into)
}

// read returns the values of a table by column, NaN where one is missing, and the number of its rows. pattern names the
// table's files or their folder.
func read(t *testing.T, pattern string) (columns map[string][]float64, rows int) {
	t.Helper()
	files := must.Get(table.Expand(pattern))(t)
	tbl := must.Get(table.Open(files, table.Options{Threads: 2}))(t)
	var names []string
	for _, c := range tbl.Columns() {
		names = append(names, c.Name)
	}
	columns = map[string][]float64{}
	must.Do(t, tbl.Read(t.Context(), names, 1000, func(b *table.Batch) error {
		for i, n := range names {
			for r := range b.Rows {
				v := math.NaN()
				if c := &b.Columns[i]; !c.IsNull(r) && c.Type == dataset.Float {
					v = c.Float[r]
				} else if !c.IsNull(r) {
					v = float64(c.Int[r])
				}
				columns[n] = append(columns[n], v)
			}
		}
		rows += b.Rows
		return nil
	}))
	return columns, rows
}

// TestTable: the table has the rows and columns that were asked for. 45,000 rows in files of 20,000 make three files,
// the third with the rest. Every fourth feature, f03 and f07 of nine, has missing values and no other column does.
// Values are rounded, so that a feature has at most some 1,000 different ones, but not fewer than 100.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	var got struct {
		Files []string
		Rows  int
	}
	must.Do(t, run(t, &got, "table", "--dir", dir, "--rows", "45000", "--columns", "9", "--part-rows", "20000",
		"--threads", "2"))
	if len(got.Files) != 3 || filepath.Base(got.Files[2]) != "part-00002-5000.parquet" {
		t.Fatalf("made %v, expected three files, the last of 5000 rows", got)
	}
	columns, rows := read(t, dir)
	if rows != 45000 || len(columns) != 10 {
		t.Fatalf("made %d rows of %d columns, want 45,000 of 9 and the label", rows, len(columns))
	}
	positive := 0.0
	for _, y := range columns[labelColumn] {
		positive += y
	}
	if rate := positive / 45000; rate < 0.2 || rate > 0.8 { // enough of both for a benchmark
		t.Errorf("%.3f of the labels are 1, want .2 to .8", rate)
	}
	for name, values := range columns {
		distinct, missing := map[float64]bool{}, 0
		for _, v := range values {
			if math.IsNaN(v) {
				missing++
			} else {
				distinct[v] = true
			}
		}
		gaps := name == "f03" || name == "f07"
		if len(distinct) > 1100 || name != labelColumn && len(distinct) < 100 || gaps != (missing > 0) {
			t.Errorf("%s: %d different values, %d missing; want 100 to 1100 values (the label may have fewer), and "+
				"some missing: %t", name, len(distinct), missing, gaps)
		}
	}
}

// TestTableGrows: a larger table begins with the files of a smaller one, byte by byte, whatever the number of threads.
// In the folder of the smaller table those files are kept and only the others are written.
func TestTableGrows(t *testing.T) {
	small, large := t.TempDir(), t.TempDir()
	var got struct {
		Files   []string
		Written int
	}
	flags := []string{"--columns", "5", "--part-rows", "1000"}
	for dir, args := range map[string][]string{small: {"--rows", "2000", "--threads", "1"},
		large: {"--rows", "5000", "--threads", "3"}} {
		must.Do(t, run(t, &got, append(append([]string{"table", "--dir", dir}, args...), flags...)...))
	}
	var before []os.FileInfo
	for i := range 2 {
		name := fmt.Sprintf("part-%05d-1000.parquet", i)
		a, errA := os.ReadFile(filepath.Join(small, name))
		b, errB := os.ReadFile(filepath.Join(large, name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Fatalf("%s differs between a table of 2,000 rows and one of 5,000 (errors %v and %v), want the same "+
				"bytes", name, errA, errB)
		}
		info := must.Get(os.Stat(filepath.Join(small, name)))(t)
		before = append(before, info)
	}
	// 5,000 rows are five files of 1,000, of which the table of 2,000 rows has made two.
	if err := run(t, &got, append([]string{"table", "--dir", small, "--rows", "5000"}, flags...)...); err != nil ||
		len(got.Files) != 5 || got.Written != 3 {
		t.Fatalf("a larger table: %v, %v; expected five files, three of them new", err, got)
	}
	for i, was := range before {
		if is, err := os.Stat(got.Files[i]); err != nil || !os.SameFile(was, is) {
			t.Errorf("%s was written again (error %v), want it kept", got.Files[i], err)
		}
	}
}

// TestOpen: `gauge open` prints the time of opening, the rows and the bytes of a dataset. These are at least one for
// each value. A folder without a dataset is an error.
func TestOpen(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 2000, Encodings: dataset.EncodeNone})
	var got opened
	if err := run(t, &got, "open", dir); err != nil || got.Rows != 2000 || got.Milliseconds <= 0 ||
		got.Bytes < 2000*int64(got.Features) {
		t.Errorf("opening the dataset: %v, %+v; expected 2000 rows, a time and the bytes of all values", err, got)
	}
	if err := run(t, &got, "open", filepath.Join(dir, "nowhere")); err == nil {
		t.Error("opening a folder that is not there: got no error, want one")
	}
}

// stump is a model of one tree with one split: rows whose b is at most 2.5 get -0.25 and the others 0.75.
const stump = `tree
version=v3
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=binary sigmoid:1
feature_names=a b
feature_infos=[0:9] [0:9]
tree_sizes=249

Tree=0
num_leaves=2
num_cat=0
split_feature=1
split_gain=1
threshold=2.5
decision_type=2
left_child=-1
right_child=-2
leaf_value=-0.25 0.75
leaf_weight=1 1
leaf_count=1 1
internal_value=0
internal_weight=2
internal_count=2
is_linear=0
shrinkage=1


end of trees
`

// TestPredict: both scorers write the scores of three rows of two features that follow from stump's one split. The
// third row lies on the threshold.
func TestPredict(t *testing.T) {
	dir := t.TempDir()
	model, values, scores := filepath.Join(dir, "model.txt"), filepath.Join(dir, "x.f64"), filepath.Join(dir, "s.f64")
	must.Do(t, os.WriteFile(model, []byte(stump), 0o644))
	must.Do(t, writeFloats(values, []float64{9, 2, 0, 3, 5, 2.5}))
	for _, scorer := range []string{"coppice", "leaves"} {
		var got predicted
		if err := run(t, &got, "predict", "--model", model, "--values", values, "--scorer", scorer, "--scores",
			scores); err != nil {
			t.Fatalf("scoring with %s: %v", scorer, err)
		}
		s, err := readFloats(scores)
		if err != nil || len(s) != 3 || s[0] != -0.25 || s[1] != 0.75 || s[2] != -0.25 {
			t.Errorf("%s: got scores %v and error %v; expected -0.25, 0.75 and -0.25", scorer, s, err)
		}
		if got.Rows != 3 || got.Trees != 1 || got.Scorer != scorer {
			t.Errorf("scored %+v, expected three rows with one tree by %s", got, scorer)
		}
	}
}

// TestRefusals: each wrong flag or file is refused with a text that names it.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	model, odd, even, half := filepath.Join(dir, "model.txt"), filepath.Join(dir, "odd"), filepath.Join(dir, "even"),
		filepath.Join(dir, "half")
	must.Do(t, os.WriteFile(model, []byte(stump), 0o644))
	for path, x := range map[string][]float64{odd: {1, 2, 3}, even: {1, 2}} {
		must.Do(t, writeFloats(path, x))
	}
	must.Do(t, os.WriteFile(half, []byte("1234"), 0o644))
	for says, args := range map[string][]string{
		"--rows is 0":       {"table", "--dir", dir, "--rows", "0"},
		"--columns is":      {"table", "--dir", dir, "--columns", "100000"},
		"--part-rows is -1": {"table", "--dir", dir, "--part-rows", "-1"},
		"--threads is 0":    {"table", "--dir", dir, "--threads", "0"},

		"holds 3 values":       {"predict", "--model", model, "--values", odd}, // the model has two features
		"has 4 bytes":          {"predict", "--model", model, "--values", half},
		`--scorer "xgboost"`:   {"predict", "--model", model, "--values", even, "--scorer", "xgboost"},
		"no such file":         {"predict", "--model", filepath.Join(dir, "nowhere"), "--values", odd},
		"half: model file, li": {"predict", "--model", half, "--values", odd},
	} {
		var got any
		err := run(t, &got, args...)
		must.Say(t, fmt.Sprintf("%v", args), err, says)
	}
}

// hostileDir holds the versions of a model that are damaged or made to do harm, which the tests of the Python package
// read, too.
const hostileDir = "../../python/tests/hostile/"

// hostileCase alters one file of hostile/base. python/tests/hostile.py reads the same.
type hostileCase struct {
	Name, File string
	From, To   string      // the first From in the file becomes To
	Whole      bool        // To is the whole file
	Times      []any       // a text that follows To, and how often
	End        string      // what follows that
	Then       [][2]string // further replacements
	At         int         // the byte from which Hex replaces what is there
	Hex        string      // bytes in hexadecimal digits; "" if text is replaced
	Remove     bool        // the file is not there
	Read       []float64   // what is predicted; nil: the version is refused
}

// apply returns the text of the file, whose text in the base is data, as the case alters it. @ff@ in a text of the case
// stands for the byte 0xff, which JSON cannot hold.
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
			t.Fatalf("%s: %s has no %q, which the case replaces", c.Name, c.File, r[0])
		}
		data = bytes.Replace(data, text(r[0]), text(r[1]), 1)
	}
	return data
}

// sealed writes the lengths and checksums of the other files into version.json, where that has @FILE.bytes@ and
// @FILE.sha256@, and returns files. So a file is refused for what is in it and not for a wrong checksum.
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

// hostileCases reads the cases of a table in hostileDir, and the files that they alter by their names.
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

// version returns the files of a version that is the base with the case's one change.
func (c *hostileCase) version(t *testing.T, base map[string][]byte) map[string][]byte {
	t.Helper()
	files := maps.Clone(base)
	files[c.File] = c.apply(t, base[c.File])
	if c.Remove {
		delete(files, c.File)
	}
	return sealed(files)
}

// childKey is a variable of the environment that has the test's program be gauge, so that a test can measure the time
// and memory of gauge in a process of its own.
const childKey = "COPPICE_GAUGE_CHILD"

// TestMain runs the tests, or gauge if childKey is set. main ends the process.
func TestMain(m *testing.M) {
	if os.Getenv(childKey) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestLargeVersions: a version with a wrong file that is as large as is allowed is refused, with the file's name,
// within 5 s of processor time and 512 MiB of memory. docs/serving.md promises these for JSON; its other figures are
// measured by hand.
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
				t.Fatalf("gauge versions: got error %v and output %.500s, want a result", err, out)
			}

			seconds := (child.ProcessState.UserTime() + child.ProcessState.SystemTime()).Seconds()
			t.Logf("%.1f s, %d MiB: %.100s", seconds, got.Memory>>10, got.Refused)
			// got.Memory is in KiB.
			if !strings.Contains(got.Refused, c.File) || seconds > 5 || got.Memory > 512<<10 {
				t.Errorf("%.1f s, %d MiB: %.100q; expected a refusal that names %s within 5 s and 512 MiB", seconds,
					got.Memory>>10, got.Refused, c.File)
			}
		})
	}
}

// TestHostileVersions: of a version that is altered in some 300 ways, each is either refused with the name of a file,
// or predicts what the case says. None takes more than 20 s. The tests of python/coppice read the same table, so that
// both readers agree.
func TestHostileVersions(t *testing.T) {
	cases, base := hostileCases(t, "cases.json")
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			start := time.Now()
			got := must.Get(scoreVersion(t.Context(), c.version(t, base), hostileDir+"base/rows.csv"))(t)
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %v, want at most 20 s", took)
			}
			if c.Read == nil {
				named := func(file string) bool { return strings.Contains(got.Refused, file) }
				if got.Refused == "" || !c.Remove && !slices.ContainsFunc(slices.Collect(maps.Keys(base)), named) {
					t.Errorf("got %+v; expected a refusal that names a file, such as %s", got, c.File)
				}
				return
			}
			if got.Refused != "" || len(got.Scores) != len(c.Read) {
				t.Fatalf("got %+v; expected the scores %v", got, c.Read)
			}
			for i, want := range c.Read {
				if math.Abs(got.Scores[i]-want) > 1e-12 {
					t.Errorf("row %d: got %v, expected %v", i, got.Scores[i], want)
				}
			}
		})
	}
}
