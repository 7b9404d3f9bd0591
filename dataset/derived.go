package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Derived says how a feature is computed that is no column of the table: a statistic of the levels of one or more columns
// (docs/ids.md), or what a clock and a calendar say about a time.
type Derived struct {
	What  Derivation `json:"what"`
	Table int        `json:"table"`        // of rate, count and recency: which of the level tables; -1 otherwise
	Of    []Part     `json:"of,omitempty"` // of hour, weekday and age: the time; of recency and age, the row's time before it
}

// Derivation is what a derived feature says.
type Derivation string

// The derivations. Rate, count and recency look a row's level up in a table; the others need nothing but the row.
const (
	DeriveRate    Derivation = "rate"    // mean label of the level's rows, shrunk to the prior; a float32's value
	DeriveCount   Derivation = "count"   // rows of the level
	DeriveRecency Derivation = "recency" // seconds since the level's last row of train; NaN where there is none
	DeriveHour    Derivation = "hour"    // of the day in UTC, 0 up to 24, with minutes and seconds as a fraction
	DeriveWeekday Derivation = "weekday" // in UTC: 0 is Monday, 6 Sunday
	DeriveAge     Derivation = "age"     // days from the second time to the first, with a fraction
	DeriveLevels  Derivation = "levels"  // the next most frequent categories of a column, where one byte does not hold all
)

// Part is what one column contributes to a level: its text, its number, or the range that its number lies in.
type Part struct {
	Column string     `json:"column"`
	Kind   Kind       `json:"kind"`             // how the column is read
	Take   Derivation `json:"take,omitempty"`   // of a time: hour or weekday instead of the moment itself
	Bounds []float64  `json:"bounds,omitempty"` // of ranges: the greatest number of each but the last, ascending
}

// String is the part as it stands in a derived feature's name: ranges are marked, exact numbers are not.
func (p Part) String() string {
	s := p.Column
	if p.Take != "" {
		s += "." + string(p.Take)
	}
	if len(p.Bounds) > 0 {
		s += "~"
	}
	return s
}

// Same reports whether two parts say the same of every row. Their names do not tell: a column may be called age~, too.
func (p Part) Same(q Part) bool {
	return p.Column == q.Column && p.Kind == q.Kind && p.Take == q.Take && slices.Equal(p.Bounds, q.Bounds)
}

// LevelTable is the statistics of the levels that the train split has of some columns: rows First to First+Levels-1 of the
// levels file, by ascending hash.
type LevelTable struct {
	Of     []Part `json:"of"`
	First  int    `json:"first"`
	Levels int    `json:"levels"`
	Floor  int    `json:"floor"` // levels with fewer rows of train are not in the table: they are as levels that train has not

	// The rate of a level with sum s of its rows' labels and n rows is (s + Strength*p) / (n + Strength), p being the rate that
	// the table BackOff gives to the same row, or Prior where BackOff is -1. A level that is not in the table has rate p.
	Prior    float64 `json:"prior"`
	Strength float64 `json:"strength"`
	BackOff  int     `json:"back_off"`

	Recency bool `json:"recency,omitempty"` // the levels file has the time of each level's last row
}

// Name is the columns of a table's levels, as they begin the names of its features.
func (t *LevelTable) Name() string {
	name := ""
	for i, p := range t.Of {
		if i > 0 {
			name += "+"
		}
		name += p.String()
	}
	return name
}

// SameLevels reports whether two tables divide rows into the same levels: by the same parts in the same order.
func (t *LevelTable) SameLevels(o *LevelTable) bool { return slices.EqualFunc(t.Of, o.Of, Part.Same) }

// Rate is the rate of a level whose rows have the given sum of labels and the given weight in all; without rows, both are 0.
// prior is what the table falls back to for the same row. Its bits are the same on every processor and in every language.
func (t *LevelTable) Rate(sum, n, prior float64) float64 {
	return float64(float32((sum + float64(t.Strength*prior)) / (n + t.Strength))) // the conversion keeps product and sum from being fused
}

// Ordering says in which order the rows of train were gone through to make their statistics: each sees only rows before it.
type Ordering struct {
	By     string `json:"by"`               // time or random
	Column string `json:"column,omitempty"` // of time
	// DelaySeconds is how much older than a row others must be, because labels arrive late.
	DelaySeconds float64 `json:"delay_seconds,omitempty"`
	// Copies is how often train holds each row: once in every order, one copy behind the other. 1 by time.
	Copies int `json:"copies"`
}

// The orders of Ordering.By.
const (
	OrderTime   = "time"
	OrderRandom = "random"
)

// Limits of derived features.
const (
	MaxTables = 1 << 12
	MaxParts  = 4       // of a level
	MaxLevels = 1 << 26 // of all tables
	MaxCopies = 16
)

// IsDerived reports whether the feature is computed from other columns than one of its own name.
func (f *Feature) IsDerived() bool { return f.From != nil }

// Inputs are the raw columns that the features are made from, each once, in the order in which features first need them.
func (e *Encoding) Inputs() []string {
	var names []string
	seen := map[string]bool{}

	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}

	for i := range e.Features {
		f := &e.Features[i]
		if f.From == nil {
			add(f.Name)
			continue
		}
		for _, p := range e.PartsOf(f) {
			add(p.Column)
		}
	}

	return names
}

// PartsOf are all parts that a derived feature reads, those of the tables that its rate falls back to among them.
func (e *Encoding) PartsOf(f *Feature) []Part {
	parts := slices.Clone(f.From.Of)
	for t := f.From.Table; t >= 0; t = e.Tables[t].BackOff {
		parts = append(parts, e.Tables[t].Of...)
		if f.From.What != DeriveRate {
			break
		}
	}
	return parts
}

// checkDerived holds tables and derived features against each other. Nothing behind it can index out of range or loop.
func checkDerived(features []Feature, tables []LevelTable) error {
	if len(tables) > MaxTables {
		return &ManifestError{"tables", fmt.Errorf("%d of them; at most %d", len(tables), MaxTables)}
	}

	// Tables take up the levels one behind the other.
	next := 0
	for i := range tables {
		t := &tables[i]
		if err := t.check(i); err != nil {
			return &ManifestError{fmt.Sprintf("tables[%d]", i), err}
		}
		if t.First != next {
			return &ManifestError{fmt.Sprintf("tables[%d]", i), fmt.Errorf("begins at level %d where %d belongs", t.First, next)}
		}
		if next = t.First + t.Levels; next > MaxLevels {
			return &ManifestError{"tables", fmt.Errorf("more than %d levels", MaxLevels)}
		}
	}

	for i := range features {
		if d := features[i].From; d != nil {
			if err := d.check(features[i].Kind, tables); err != nil {
				return &ManifestError{fmt.Sprintf("features[%d].from", i), err}
			}
		}
	}

	return nil
}

func (t *LevelTable) check(number int) error {
	switch {
	case t.First < 0 || t.Levels < 0 || t.Levels > MaxLevels || t.First > MaxLevels || t.Floor < 1:
		return fmt.Errorf("levels %d from %d, floor %d", t.Levels, t.First, t.Floor)
	case !finite(t.Prior) || !finite(t.Strength) || t.Strength <= 0:
		return fmt.Errorf("prior %v, strength %v", t.Prior, t.Strength)
	case t.BackOff < -1 || t.BackOff >= number: // only to tables before it, so that following them ends
		return fmt.Errorf("falls back to table %d", t.BackOff)
	case len(t.Of) < 1 || len(t.Of) > MaxParts:
		return fmt.Errorf("levels of %d columns; 1 to %d are possible", len(t.Of), MaxParts)
	}

	for _, p := range t.Of {
		if err := p.check(); err != nil {
			return err
		}
	}

	return nil
}

func (p *Part) check() error {
	if err := CheckColumnName(p.Column); err != nil {
		return err
	}
	switch {
	case p.Kind != Numeric && p.Kind != Temporal && p.Kind != Categorical:
		return fmt.Errorf("kind %.40q", p.Kind)
	case p.Take != "" && (p.Kind != Temporal || p.Take != DeriveHour && p.Take != DeriveWeekday):
		return fmt.Errorf("take %.40q of a %s column", p.Take, p.Kind)
	case len(p.Bounds) > 0 && p.Kind == Categorical:
		return errors.New("ranges of a categorical column")
	}
	return checkBounds(p.Bounds)
}

func (d *Derived) check(kind Kind, tables []LevelTable) error {
	if d.What == DeriveLevels {
		if kind != Categorical || d.Table != -1 || len(d.Of) != 1 || d.Of[0].Kind != Categorical {
			return fmt.Errorf("levels of %d columns in a feature of kind %.40q", len(d.Of), kind)
		}
		return d.Of[0].check()
	}

	if kind != Numeric {
		return fmt.Errorf("%.40s in a feature of kind %.40q; it is numeric", d.What, kind)
	}

	times := map[Derivation]int{DeriveRate: 0, DeriveCount: 0, DeriveRecency: 1, DeriveHour: 1, DeriveWeekday: 1, DeriveAge: 2}
	want, known := times[d.What]
	ofTable := d.What == DeriveRate || d.What == DeriveCount || d.What == DeriveRecency

	switch {
	case !known:
		return fmt.Errorf("what %.40q", d.What)
	case ofTable && (d.Table < 0 || d.Table >= len(tables)) || !ofTable && d.Table != -1:
		return fmt.Errorf("table %d", d.Table)
	case d.What == DeriveRecency && !tables[d.Table].Recency:
		return errors.New("recency of a table that does not have it")
	case len(d.Of) != want:
		return fmt.Errorf("%s of %d columns where it takes %d", d.What, len(d.Of), want)
	}

	for i := range d.Of {
		if err := d.Of[i].check(); err != nil {
			return err
		}
		numbers := d.What == DeriveRecency && d.Of[i].Kind == Numeric // an order by numbers
		if d.Of[i].Kind != Temporal && !numbers || d.Of[i].Take != "" || len(d.Of[i].Bounds) > 0 {
			return fmt.Errorf("%s of column %.60q, which is not read as a time", d.What, d.Of[i].Column)
		}
	}

	return nil
}

func (o *Ordering) check() error {
	switch {
	case o.By != OrderTime && o.By != OrderRandom:
		return fmt.Errorf("by %.40q", o.By)
	case o.Copies < 1 || o.Copies > MaxCopies || o.By == OrderTime && o.Copies != 1:
		return fmt.Errorf("%d copies by %s", o.Copies, o.By)
	case !finite(o.DelaySeconds) || o.DelaySeconds < 0 || o.By == OrderRandom && (o.DelaySeconds > 0 || o.Column != ""):
		return fmt.Errorf("a delay of %v s by %s", o.DelaySeconds, o.By)
	case o.By == OrderTime:
		return CheckColumnName(o.Column)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// checkBounds refuses bounds that do not ascend or are not finite.
func checkBounds(bounds []float64) error {
	for i, b := range bounds {
		if !finite(b) || i > 0 && b <= bounds[i-1] {
			return fmt.Errorf("bounds[%d] is %v", i, b)
		}
	}
	return nil
}
