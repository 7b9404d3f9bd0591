package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Derived says how a feature is computed that is not a column of the table: a statistic of the levels of one or more
// columns (docs/data.md), or a calendar value of a time.
type Derived struct {
	What  Derivation `json:"what"`
	Table int        `json:"table"` // of rate, count and recency: index of the level table; -1 otherwise
	// of hour and weekday: the time; of recency: the row's time; of age: the row's time, then the other
	Of []Part `json:"of,omitempty" max:"4"`
}

// Derivation is the kind of value that a derived feature has.
type Derivation string

// The derivations. Rate, count and recency look up a row's level in a table; the others depend only on the row.
const (
	DeriveRate    Derivation = "rate"    // mean label of the level's rows, shrunk to the prior; rounded to float32
	DeriveCount   Derivation = "count"   // rows of the level
	DeriveRecency Derivation = "recency" // seconds since the level's last row of train; NaN if there is none
	DeriveHour    Derivation = "hour"    // of the day in UTC, 0 up to 24, with minutes and seconds as a fraction
	DeriveWeekday Derivation = "weekday" // in UTC: 0 is Monday, 6 Sunday
	DeriveAge     Derivation = "age"     // days from the second time to the first, with a fraction
	DeriveLevels  Derivation = "levels"  // further categories of a column that do not fit in one byte
)

// Part is what one column contributes to a level: its text, its number, the hour or weekday of its time, or the range
// that contains its number.
type Part struct {
	Column string     `json:"column"`
	Kind   Kind       `json:"kind"`           // how the column is read
	Take   Derivation `json:"take,omitempty"` // of a time: hour or weekday instead of the time itself
	// of ranges: the largest number of each but the last, ascending
	Bounds []float64 `json:"bounds,omitempty" max:"65536"`
}

// String returns the part as it is written in a derived feature's name: COLUMN, COLUMN.hour, or COLUMN~ for ranges.
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

// Same reports whether two parts have the same value in every row. Names alone do not tell: a column may itself be
// called age~.
func (p Part) Same(q Part) bool {
	return p.Column == q.Column && p.Kind == q.Kind && p.Take == q.Take && slices.Equal(p.Bounds, q.Bounds)
}

// LevelTable describes the statistics of the train split's levels for some columns: rows First to First+Levels-1 of the
// levels file, by ascending hash.
type LevelTable struct {
	Of     []Part `json:"of" max:"4"`
	First  int    `json:"first"`
	Levels int    `json:"levels"`
	Floor  int    `json:"floor"` // levels with fewer rows of train are not in the table, and are treated as unseen

	// The rate of a level with sum s of its rows' labels and n rows is (s + Strength*p) / (n + Strength), where p is
	// the rate that the table BackOff gives for the same row, or Prior if BackOff is -1. A level that is not in the
	// table has rate p.
	Prior    float64 `json:"prior"`
	Strength float64 `json:"strength"`
	BackOff  int     `json:"back_off"`

	// Class is, of a label of several classes, 1 + the number of the one whose share is the rate: s is then the
	// (weighted) number of the level's rows of that class. 0 elsewhere.
	Class int `json:"class,omitempty"`

	Recency bool `json:"recency,omitempty"` // the levels file has the time of each level's last row
}

// Name returns the parts of a table's levels joined with +, such as site+ad. Names of its features begin with it.
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

// Feature returns the name of a statistic of the table as a feature: site:rate or site+ad:count. If the label has
// several classes, the name of a rate ends in its class, as in site:rate:CLASS, or in the class's number if some class
// has a name that can't be part of a feature's.
func (t *LevelTable) Feature(what Derivation, classes []string) string {
	name := t.Name() + ":" + string(what)
	if t.Class == 0 || what != DeriveRate {
		return name
	}

	// If one class can't be in a name, being too long or of characters that no name has, all classes are numbered.
	for _, c := range classes {
		if CheckColumnName(name+":"+c) != nil {
			return fmt.Sprintf("%s:%d", name, t.Class-1)
		}
	}
	return name + ":" + classes[t.Class-1]
}

// SameStatistics reports whether two tables have statistics of the same kind: levels of the same parts in the same
// order, and rates of the same class. The levels themselves and all numbers may differ.
func (t *LevelTable) SameStatistics(o *LevelTable) bool {
	return t.Class == o.Class && slices.EqualFunc(t.Of, o.Of, Part.Same)
}

// Rate returns the rate of a level. sum and n are the weighted sum of its rows' labels and their weight; both are 0 for
// an unseen level. prior is the rate that the table falls back to for the same row. The result has the same bits on
// every processor and in every language.
func (t *LevelTable) Rate(sum, n, prior float64) float64 {
	// The conversion to float64 prevents a fused multiply-add.
	return float64(float32((sum + float64(t.Strength*prior)) / (n + t.Strength)))
}

// Ordering is the order in which the rows of train were processed for their statistics: each sees only earlier rows.
type Ordering struct {
	By     string `json:"by"`               // time, random or group
	Column string `json:"column,omitempty"` // for time
	// DelaySeconds is how much older than a row others must be for it to see them, because labels arrive late.
	DelaySeconds float64 `json:"delay_seconds,omitempty"`
	// Copies is how often train contains each row: one copy per order, one after the other. 1 for time.
	Copies int `json:"copies"`
}

// Values of Ordering.By.
const (
	OrderTime   = "time"
	OrderRandom = "random"
	OrderGroup  = "group" // random, and all rows of a group have one place: they see none of each other
)

// Limits on derived features.
const (
	MaxTables = 1 << 12
	MaxParts  = 4 // per level
	// maxPartBounds bounds the ranges of a part.
	maxPartBounds = 1 << 16
	MaxLevels     = 1 << 26 // over all tables
	MaxCopies     = 16
)

// IsDerived reports whether the feature is computed, rather than being the column of its name.
func (f *Feature) IsDerived() bool { return f.From != nil }

// Inputs returns the raw columns that the features are made from, without duplicates, in the order in which features
// first need them.
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

// PartsOf returns all parts that a derived feature reads: its own, those of its table if it is a statistic, and those
// of the tables that its rate falls back to. A count and a recency fall back to none.
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

// ColumnsOf returns the columns that a feature is made of, without those of the tables that its rate falls back to.
func (e *Encoding) ColumnsOf(i int) []string {
	f := &e.Features[i]
	if f.From == nil {
		return []string{f.Name}
	}
	var out []string
	parts := f.From.Of
	if f.From.Table >= 0 {
		parts = e.Tables[f.From.Table].Of
	}
	for _, p := range parts {
		if !slices.Contains(out, p.Column) {
			out = append(out, p.Column)
		}
	}
	return out
}

// checkDerived checks that tables and derived features are possible and agree with each other. classes is the number of
// the label's classes, 0 for other labels. After it, no index is out of range and no chain of tables loops.
func checkDerived(features []Feature, tables []LevelTable, classes int) error {
	if len(tables) > MaxTables {
		return badManifest("tables", fmt.Errorf("%d of them; at most %d", len(tables), MaxTables))
	}

	// The tables' levels are contiguous, in order.
	next := 0
	for i := range tables {
		t := &tables[i]
		if err := t.check(i, classes); err != nil {
			return badManifest(fmt.Sprintf("tables[%d]", i), err)
		}
		if t.First != next {
			return badManifest(fmt.Sprintf("tables[%d]", i), fmt.Errorf("begins at level %d where %d belongs",
				t.First, next))
		}
		next = t.First + t.Levels
		if next > MaxLevels {
			return badManifest("tables", fmt.Errorf("more than %d levels", MaxLevels))
		}
	}

	for i := range features {
		if d := features[i].From; d != nil {
			if err := d.check(features[i].Kind, tables); err != nil {
				return badManifest(fmt.Sprintf("features[%d].from", i), err)
			}
		}
	}

	return nil
}

// check checks the numbers and the columns of a table. number is the table's index: it may only fall back to an earlier
// table. classes is as for checkDerived.
func (t *LevelTable) check(number, classes int) error {
	switch {
	case t.First < 0 || t.Levels < 0 || t.Levels > MaxLevels || t.First > MaxLevels || t.Floor < 1:
		return fmt.Errorf("levels %d from %d, floor %d", t.Levels, t.First, t.Floor)
	case !Finite(t.Prior) || !Finite(t.Strength) || t.Strength <= 0:
		return fmt.Errorf("prior %v, strength %v", t.Prior, t.Strength)
	case t.BackOff < -1 || t.BackOff >= number: // only to earlier tables, so that every chain ends
		return fmt.Errorf("falls back to table %d", t.BackOff)
	case t.Class < 0 || t.Class > classes:
		return fmt.Errorf("class %d of %d", t.Class, classes)
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

// check checks the column's name, and that a part takes of its column what the column's kind has: hours and weekdays
// are of times, and there are no ranges of categories. Bounds must ascend, and there may be at most maxPartBounds of
// them.
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
	case len(p.Bounds) > maxPartBounds:
		return fmt.Errorf("%d bounds", len(p.Bounds))
	}
	return checkBounds(p.Bounds)
}

// check checks how a feature of this kind is derived: the feature's kind, the table if it is a statistic of one (-1
// otherwise), and the number and kinds of the columns in Of. Further categories of a column are a categorical feature
// of that one column; all others are numeric.
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

	// How many columns of times each derivation reads. Statistics also read those of their table, which are not
	// counted.
	times := map[Derivation]int{DeriveRate: 0, DeriveCount: 0, DeriveRecency: 1, DeriveHour: 1, DeriveWeekday: 1,
		DeriveAge: 2}
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
		// Statistics may be ordered by numbers in place of times, and a recency is then a difference of these.
		of := &d.Of[i]
		ordered := of.Kind == Temporal || of.Kind == Numeric && d.What == DeriveRecency
		if !ordered || of.Take != "" || len(of.Bounds) > 0 {
			return fmt.Errorf("%s of column %.60q, which is not read as a time", d.What, d.Of[i].Column)
		}
	}

	return nil
}

// check checks that the order is known. Only an order by time has a column, which it needs, or a delay. Only others
// have several copies, at most MaxCopies.
func (o *Ordering) check() error {
	switch {
	case o.By != OrderTime && o.By != OrderRandom && o.By != OrderGroup:
		return fmt.Errorf("by %.40q", o.By)
	case o.Copies < 1 || o.Copies > MaxCopies || o.By == OrderTime && o.Copies != 1:
		return fmt.Errorf("%d copies by %s", o.Copies, o.By)
	case !Finite(o.DelaySeconds) || o.DelaySeconds < 0 || o.By != OrderTime && (o.DelaySeconds > 0 || o.Column != ""):
		return fmt.Errorf("a delay of %v s by %s", o.DelaySeconds, o.By)
	case o.By == OrderTime:
		return CheckColumnName(o.Column)
	}
	return nil
}

// Finite reports whether x is neither NaN nor infinite.
func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// checkBounds checks that bounds are finite and ascending.
func checkBounds(bounds []float64) error {
	for i, b := range bounds {
		if !Finite(b) || i > 0 && b <= bounds[i-1] {
			return fmt.Errorf("bounds[%d] is %v", i, b)
		}
	}
	return nil
}
