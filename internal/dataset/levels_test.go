package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// someLevels are two tables, the second with recency where last is set, and levels for them.
func someLevels(weight, last bool, counts ...int) (*Levels, []LevelTable) {
	rng := rand.New(rand.NewPCG(5, 5))
	l, tables := &Levels{}, []LevelTable{}
	for i, n := range counts {
		tables = append(tables, LevelTable{First: l.Len(), Levels: n, Floor: 1, Strength: 1, BackOff: -1,
			Recency: last && i == len(counts)-1})
		hashes := make([]uint64, n)
		for j := range hashes {
			hashes[j] = rng.Uint64()
		}
		slices.Sort(hashes)
		for _, h := range hashes {
			l.Hash, l.Sum, l.Rows = append(l.Hash, h), append(l.Sum, rng.NormFloat64()), append(l.Rows, rng.Uint32())
			if weight {
				l.Weight = append(l.Weight, rng.Float64())
			}
			if last {
				l.Last = append(l.Last, rng.NormFloat64()*1e9)
			}
		}
	}
	return l, tables
}

// openBytes maps a levels file with the contents data until the test ends.
func openBytes(t *testing.T, data []byte, tables []LevelTable) (*Levels, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), LevelsFile)
	must.Do(t, os.WriteFile(path, data, 0o600))
	l, err := OpenLevels(path, tables)
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return l, err
}

func TestLevelsSurviveTheirFile(t *testing.T) {
	for _, weight := range []bool{false, true} {
		for _, last := range []bool{false, true} {
			for _, counts := range [][]int{{1}, {0, 1, 0}, {7, 8, 9}, {1000, 0, 333}} {
				want, tables := someLevels(weight, last, counts...)
				data := want.Encode()
				read, err := ReadLevels(data, tables)
				if err != nil {
					t.Fatalf("read %v levels, weight %v, last %v: %v", counts, weight, last, err)
				}
				mapped, err := openBytes(t, data, tables)
				if err != nil {
					t.Fatalf("map %v levels, weight %v, last %v: %v", counts, weight, last, err)
				}
				bare := *mapped
				bare.mapping = nil
				if !reflect.DeepEqual(read, want) || !reflect.DeepEqual(&bare, want) {
					t.Errorf("%v levels, weight %v, last %v: read\n%v\nmapped\n%v\nwritten\n%v", counts, weight, last,
						read, &bare, want)
				}
				if again := mapped.Encode(); !slices.Equal(again, data) {
					t.Errorf("%v levels, weight %v, last %v: mapped levels are written otherwise", counts, weight, last)
				}
			}
		}
	}
}

// Close is harmless on levels that were read, mapped, or never there, and a second time.
func TestLevelsCloseIsHarmless(t *testing.T) {
	want, tables := someLevels(false, false, 3)
	mapped := must.Get(openBytes(t, want.Encode(), tables))(t)
	for _, l := range []*Levels{nil, want, mapped, mapped} {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// hashesOf are hashes as Find expects them, and as it does not: it guesses that they are spread evenly, and must find
// them where they are not.
func hashesOf(rng *rand.Rand) map[string]func(i, n int) uint64 {
	return map[string]func(i, n int) uint64{
		"spread":         func(int, int) uint64 { return rng.Uint64() },
		"at 0":           func(i, _ int) uint64 { return uint64(i) },
		"at the end":     func(i, _ int) uint64 { return math.MaxUint64 - uint64(i) },
		"high bits same": func(int, int) uint64 { return 0xABCDEF<<40 | rng.Uint64N(1<<40) },
		"low bits same":  func(i, n int) uint64 { return uint64(i) * (math.MaxUint64 / uint64(n)) },
		"both ends":      func(i, _ int) uint64 { return uint64(i) * -uint64(i%2) },
		"one far away":   func(i, _ int) uint64 { return uint64(min(i, 1))<<63 + uint64(i) },
	}
}

func TestFindAgreesWithAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, next := range hashesOf(rng) {
		for _, n := range []int{0, 1, 2, 3, 15, 16, 17, 100, 5000} {
			// The table in the middle: those beside it hold its hashes, too, and must not be found.
			hashes := map[uint64]bool{}
			for i := range n {
				hashes[next(i, n)] = true
			}
			sorted := make([]uint64, 0, n)
			for h := range hashes {
				sorted = append(sorted, h)
			}
			slices.Sort(sorted)
			l := &Levels{Hash: slices.Repeat(sorted, 3)}
			table := &LevelTable{First: len(sorted), Levels: len(sorted)}

			asked := []uint64{0, 1, 1 << 63, math.MaxUint64}
			for _, h := range sorted {
				asked = append(asked, h, h-1, h+1)
			}
			for range 100 {
				asked = append(asked, next(rng.IntN(n+1), n+1), rng.Uint64())
			}
			for _, h := range asked {
				at, ok := l.Find(table, h)
				if ok != hashes[h] {
					t.Fatalf("%s, %d levels: hash %x is found: %v; it is there: %v", name, len(sorted), h, ok,
						hashes[h])
				}
				if ok && (at < table.First || at >= table.First+table.Levels || l.Hash[at] != h) {
					t.Fatalf("%s, %d levels: hash %x at %d, which is %x", name, len(sorted), h, at, l.Hash[at])
				}
			}
		}
	}
}

// A model may have tables of which all levels were pruned: there is then no levels file.
func TestFindWithoutLevels(t *testing.T) {
	if at, ok := (*Levels)(nil).Find(&LevelTable{}, 1); ok {
		t.Errorf("found a level at %d of none", at)
	}
}

// damagedLevels are files that are laid out well and do not hold what two tables of 70 and 30 levels, the latter with
// recency, must.
func damagedLevels(l *Levels) map[string]struct{ file, want any } {
	fields := levelFields(true, true)
	as := func(change func(fields []arrowField) []arrowField) []byte {
		layout := newLayout(change(slices.Clone(fields)), nil, int64(l.Len()), nil)
		return append(append(slices.Clone(layout.head), make([]byte, layout.tailAt-int64(len(layout.head)))...),
			layout.foot...)
	}
	with := func(change func(l *Levels)) []byte {
		bad := &Levels{Hash: slices.Clone(l.Hash), Sum: slices.Clone(l.Sum), Rows: slices.Clone(l.Rows),
			Weight: slices.Clone(l.Weight),
			Last:   slices.Clone(l.Last)}
		change(bad)
		return bad.Encode()
	}
	const columns = "its columns are not hash, sum and rows"
	return map[string]struct{ file, want any }{
		"nothing":        {[]byte{}, ""},
		"no Arrow":       {[]byte(strings.Repeat("levels", 100)), "an Arrow file begins with ARROW1"},
		"one level more": {with(func(bad *Levels) { bad.Append(l, 99) }), "101 levels where the tables have 100"},
		"no levels": {with(func(bad *Levels) { *bad = Levels{Weight: []float64{}, Last: []float64{}} }),
			"0 rows"},
		"no last":          {with(func(bad *Levels) { bad.Last = nil }), columns},
		"no sum":           {as(func(f []arrowField) []arrowField { return slices.Delete(f, 1, 2) }), columns},
		"another order":    {as(func(f []arrowField) []arrowField { f[0], f[1] = f[1], f[0]; return f }), columns},
		"a column twice":   {as(func(f []arrowField) []arrowField { return append(f, f[4]) }), columns},
		"signed hashes":    {as(func(f []arrowField) []arrowField { f[0].typ = arrowInt64; return f }), columns},
		"short sums":       {as(func(f []arrowField) []arrowField { f[1].typ = arrowFloat32; return f }), columns},
		"long rows":        {as(func(f []arrowField) []arrowField { f[2].typ = arrowUint64; return f }), columns},
		"text for weights": {as(func(f []arrowField) []arrowField { f[3].typ = arrowUtf8; return f }), columns},
		"hashes descend": {with(func(bad *Levels) { bad.Hash[40], bad.Hash[41] = bad.Hash[41], bad.Hash[40] }),
			"levels of table 0 do not ascend at level 41"},
		"a hash twice": {with(func(bad *Levels) { bad.Hash[99] = bad.Hash[98] }),
			"levels of table 1 do not ascend at level 99"},
		"sum NaN":             {with(func(bad *Levels) { bad.Sum[3] = math.NaN() }), "sum NaN at level 3"},
		"sum infinite":        {with(func(bad *Levels) { bad.Sum[99] = math.Inf(-1) }), "sum -Inf at level 99"},
		"weight NaN":          {with(func(bad *Levels) { bad.Weight[0] = math.NaN() }), "weight NaN at level 0"},
		"weight infinite":     {with(func(bad *Levels) { bad.Weight[0] = math.Inf(1) }), "weight +Inf at level 0"},
		"weight below 0":      {with(func(bad *Levels) { bad.Weight[50] = -1 }), "weight -1 at level 50"},
		"last seen never":     {with(func(bad *Levels) { bad.Last[70] = math.NaN() }), "last NaN at level 70"},
		"last seen endlessly": {with(func(bad *Levels) { bad.Last[71] = math.Inf(1) }), "last +Inf at level 71"},
	}
}

func TestDamagedLevelsAreRefused(t *testing.T) {
	l, tables := someLevels(true, true, 70, 30)
	good := l.Encode()
	if _, err := ReadLevels(good, tables); err != nil {
		t.Fatalf("unharmed: %v", err)
	}
	check := func(name string, data []byte, tables []LevelTable, want string) {
		t.Helper()
		if _, err := ReadLevels(data, tables); !problem.Is(err, problem.Damaged) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s, read: got %v, want ... %s ...", name, err, want)
		}
		if _, err := openBytes(t, data, tables); !problem.Is(err, problem.Damaged) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s, mapped: got %v, want ... %s ...", name, err, want)
		}
	}
	for name, tc := range damagedLevels(l) {
		check(name, tc.file.([]byte), tables, tc.want.(string))
	}
	for n := 0; n < len(good); n += 64 {
		check(fmt.Sprintf("cut off at byte %d", n), good[:n], tables, "")
	}
	check("recency that no table has", good, []LevelTable{{Levels: 100}}, "its columns are not")
	check("no tables", good, nil, "its columns are not")
}

// Neighbouring tables may begin where the one before them ends, whatever their hashes are.
func TestTablesDoNotShareAnOrder(t *testing.T) {
	l := &Levels{Hash: []uint64{5, 9, 1, 9}, Sum: make([]float64, 4), Rows: make([]uint32, 4)}
	if _, err := ReadLevels(l.Encode(), []LevelTable{{Levels: 2}, {First: 2, Levels: 2}}); err != nil {
		t.Errorf("two tables of ascending hashes: %v", err)
	}
}

func FuzzReadLevels(f *testing.F) {
	for _, optional := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		l, _ := someLevels(optional[0], optional[1], 3, 4)
		f.Add(l.Encode(), 3, optional[1])
	}
	f.Fuzz(func(t *testing.T, data []byte, first int, recency bool) {
		a, err := parseArrow(LevelsFile, data)
		if err != nil {
			return
		}
		first = max(0, min(first, int(a.rows)))
		tables := []LevelTable{{Levels: first}, {First: first, Levels: int(a.rows) - first, Recency: recency}}
		l, err := ReadLevels(data, tables)
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("untyped error %T: %v", err, err)
		}
		if err != nil {
			return
		}

		for i := range tables {
			for at := tables[i].First; at < tables[i].First+tables[i].Levels; at++ {
				if found, ok := l.Find(&tables[i], l.Hash[at]); !ok || found != at {
					t.Fatalf("level %d of table %d is found at %d (%v)", at, i, found, ok)
				}
				if rate := tables[i].Rate(l.Sum[at], l.Seen(at), 0.5); recency && l.Last[at] != l.Last[at] {
					t.Fatalf("rate %v, last %v", rate, l.Last[at])
				}
			}
		}
		again, err := ReadLevels(l.Encode(), tables)
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%v\nbecame\n%v (%v)", l, again, err)
		}
	})
}
