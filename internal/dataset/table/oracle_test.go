package table

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// sharedData is the folder of real tables, which are not the project's to pass on: COPPICE_DATA, or ../shared/data
// beside the repository.
func sharedData(t testing.TB) string {
	t.Helper()
	if data := os.Getenv("COPPICE_DATA"); data != "" {
		return data
	}
	dir := must.Get(os.Getwd())(t)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
	data := filepath.Join(dir, "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skipf("SKIPPED: the real tables are not there: %v", err)
	}
	return data
}

// oracle is what an independent reader found in one column.
type oracle struct {
	file, name, physical  string
	rows, nulls, distinct int
	min, max, sum         string
}

var (
	oracleFile   = regexp.MustCompile(`^## (\S+) rows (\d+) by `)
	oracleColumn = regexp.MustCompile(`^   (\S+) (\S+) nulls (\d+) nan (\d+) distinct (\d+)(?: min (.*?) max ` +
		`(.*?)(?: sum (\S+))?)?\s*$`)
)

func readOracle(t *testing.T, path string) []oracle {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	var all []oracle
	var now oracle
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if m := oracleFile.FindStringSubmatch(line); m != nil {
			now = oracle{file: m[1]}
			now.rows, _ = strconv.Atoi(m[2])
			continue
		}
		m := oracleColumn.FindStringSubmatch(line)
		if m == nil {
			if strings.TrimSpace(line) != "" {
				t.Fatalf("a line of the oracle that the test does not understand: %q", line)
			}
			continue
		}
		c := now
		c.name, c.physical, c.min, c.max, c.sum = m[1], m[2], m[6], m[7], m[8]
		c.nulls, _ = strconv.Atoi(m[3])
		c.distinct, _ = strconv.Atoi(m[5])
		all = append(all, c)
	}
	return all
}

// found is what we found in one column.
type found struct {
	nulls    int
	texts    map[string]bool
	floats   map[float64]bool
	ints     map[int64]bool
	sum      float64
	intSum   big.Int
	typ      dataset.Type
	rows     int
	smallest string
	greatest string
}

func (f *found) add(v *dataset.Values) {
	f.typ = v.Type
	for i := range v.Len() {
		f.rows++
		if v.IsNull(i) {
			f.nulls++
			continue
		}
		switch v.Type {
		case dataset.Text:
			if len(f.texts) == 0 || v.Text[i] < f.smallest {
				f.smallest = v.Text[i]
			}
			if len(f.texts) == 0 || v.Text[i] > f.greatest {
				f.greatest = v.Text[i]
			}
			f.texts[v.Text[i]] = true
		case dataset.Float:
			f.floats[v.Float[i]] = true
			f.sum += v.Float[i]
		default:
			f.ints[v.Int[i]] = true
			f.intSum.Add(&f.intSum, big.NewInt(v.Int[i]))
		}
	}
}

func (f *found) check(o oracle) error {
	if f.rows != o.rows || f.nulls != o.nulls || len(f.texts)+len(f.floats)+len(f.ints) != o.distinct {
		return fmt.Errorf("rows %d, nulls %d, distinct %d", f.rows, f.nulls, len(f.texts)+len(f.floats)+len(f.ints))
	}
	if o.distinct == 0 {
		return nil
	}
	switch f.typ {
	case dataset.Text:
		for got, want := range map[string]string{f.smallest: o.min, f.greatest: o.max} {
			want = strings.TrimSuffix(strings.TrimPrefix(want, "b'"), "'")
			if !strings.HasPrefix(got, want) {
				return fmt.Errorf("%q where the oracle has %q", got, want)
			}
		}
	case dataset.Float:
		lo, hi := math.Inf(1), math.Inf(-1)
		for x := range f.floats {
			lo, hi = min(lo, x), max(hi, x)
		}
		wantLo, _ := strconv.ParseFloat(o.min, 64)
		wantHi, _ := strconv.ParseFloat(o.max, 64)
		sum, _ := strconv.ParseFloat(o.sum, 64)
		if lo != wantLo || hi != wantHi || math.Abs(f.sum-sum) > 1e-9*math.Abs(sum)+1e-9 {
			return fmt.Errorf("%v to %v, sum %v", lo, hi, f.sum)
		}
	default:
		lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
		for x := range f.ints {
			lo, hi = min(lo, x), max(hi, x)
		}
		if o.physical == "INT96" { // the oracle has nanoseconds
			lo, hi = lo*1000, hi*1000
		}
		if fmt.Sprint(lo) != o.min || fmt.Sprint(hi) != o.max || o.sum != "" && f.intSum.String() != o.sum &&
			o.physical != "INT96" {
			return fmt.Errorf("%d to %d, sum %s", lo, hi, &f.intSum)
		}
	}
	return nil
}

// The Parquet reader agrees with an independent one on every column of every real file.
func TestParquetAgreesWithTheOracle(t *testing.T) {
	folder := filepath.Join(sharedData(t), "parquet")
	columns := readOracle(t, filepath.Join(folder, "ORACLE.txt"))
	if len(columns) < 80 {
		t.Fatalf("only %d columns in the oracle", len(columns))
	}
	byFile := map[string][]oracle{}
	for _, c := range columns {
		byFile[c.file] = append(byFile[c.file], c)
	}
	files := must.Get(Expand(folder))(t)
	if len(files) != len(byFile) {
		t.Errorf("%d files, the oracle knows %d", len(files), len(byFile))
	}
	for _, f := range files {
		for _, rows := range []int{1000, 1 << 16} {
			whole := must.Get(Open([]File{f}, Options{Threads: 2}))(t)
			var names []string
			got := map[string]*found{}
			for _, c := range whole.Columns() {
				names = append(names, c.Name)
				got[c.Name] = &found{texts: map[string]bool{}, floats: map[float64]bool{}, ints: map[int64]bool{}}
			}
			must.Do(t, whole.Read(context.Background(), names, rows, func(b *Batch) error {
				for i := range b.Columns {
					got[b.Names[i]].add(&b.Columns[i])
				}
				return nil
			}))
			for _, o := range byFile[filepath.Base(f.Path)] {
				if got[o.name] == nil {
					t.Errorf("%s has no column %s", o.file, o.name)
				} else if err := got[o.name].check(o); err != nil {
					t.Errorf("%s, %s: %v; the oracle has %+v", o.file, o.name, err, o)
				}
			}
		}
	}
}
