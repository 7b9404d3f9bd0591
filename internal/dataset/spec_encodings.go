package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"coppice/internal/strictyaml"
)

// EncodingsSpec says how ids are encoded (docs/data.md). If it is left out, or is the word auto, Coppice chooses; with
// the word none, a column of ids keeps its most frequent levels and gets no encodings.
type EncodingsSpec struct {
	Off bool `json:"off,omitempty"` // the word none
	// encodings of these columns, overriding Coppice's choice
	Columns map[string]ColumnEncodings `yaml:"columns" json:"columns,omitempty"`
	// columns to combine, in addition to Coppice's choice
	Keys []KeySpec `yaml:"keys" json:"keys,omitempty"`
	// number of further keys to find; nil: by the table's size
	Budget *int `yaml:"budget" json:"budget,omitempty"`
	// what the rate of a rare level falls back to
	BackOff BackOffSpec `yaml:"back_off" json:"back_off"`
	// the order in which rows of train see each other
	Order  OrderSpec `yaml:"order" json:"order,omitzero"`
	Levels int       `yaml:"levels" json:"levels"` // most levels over all tables
	Rows   int       `yaml:"-" json:"sample_rows"` // most rows of train used to find keys: DefaultEncodingRows
	// Final also makes the statistics that held-out rows have as later rows of train, and those over all rows, for the
	// final training of a sweep.
	Final bool `yaml:"final" json:"final,omitempty"`
}

// UnmarshalText reads the words auto and none.
func (e *EncodingsSpec) UnmarshalText(word []byte) (err error) {
	e.Off, err = isNone(word, "encodings", "")
	e.Final = e.Final && !e.Off
	return err
}

// UnmarshalYAML also accepts the words auto and none.
func (e *EncodingsSpec) UnmarshalYAML(decode func(any) error) error {
	type plain EncodingsSpec
	return wordOr(decode, e, (*plain)(e))
}

// ColumnEncodings are the features to make of a column.
type ColumnEncodings []string

// EncodingAuto is the word for leaving a choice to Coppice.
const EncodingAuto = "auto"

// The encodings that a column may have. Rate, count and recency are derivations of its levels.
const (
	EncodeCategories = "categories" // the most frequent levels, in one byte
	EncodeLevels     = "levels"     // about twice as many, in two
	EncodeNone       = "none"       // the column is no feature, though it may be part of a key
)

// columnEncodings are all words for encodings of a column.
func columnEncodings() []string {
	return []string{string(DeriveRate), string(DeriveCount), string(DeriveRecency), EncodeCategories, EncodeLevels,
		EncodeNone}
}

// UnmarshalYAML accepts a single word too.
func (c *ColumnEncodings) UnmarshalYAML(decode func(any) error) error {
	var word string
	if decode(&word) == nil {
		*c = ColumnEncodings{word}
		return nil
	}
	return decode((*[]string)(c))
}

// Has reports whether the encoding is among them.
func (c ColumnEncodings) Has(encoding string) bool { return slices.Contains(c, encoding) }

// KeySpec is columns whose levels are taken together. Of a column that derive: makes a feature of, the part may be
// written as COLUMN.hour or COLUMN.weekday; a column of numbers counts by its numbers, or by ranges of them as COLUMN~.
type KeySpec []string

// BackOffSpec says which column's rate is the prior of another's. Left out, or as the word auto, columns that are
// nested are found; as the word none, which is an empty mapping, no column falls back to another.
type BackOffSpec map[string]string

// UnmarshalText reads the words auto, which is nil, and none, which is an empty mapping.
func (b *BackOffSpec) UnmarshalText(word []byte) error {
	none, err := isNone(word, "back_off", " such as {campaign_id: advertiser_id}")
	*b = nil
	if none {
		*b = BackOffSpec{}
	}
	return err
}

// UnmarshalYAML accepts the words auto and none, or a mapping.
func (b *BackOffSpec) UnmarshalYAML(decode func(any) error) error {
	return wordOr(decode, b, (*map[string]string)(b))
}

// OrderSpec says which rows of train a row of train sees.
type OrderSpec struct {
	By     string   `yaml:"by" json:"by,omitempty"`         // time, random, group or auto: by time where the split is
	Column string   `yaml:"column" json:"column,omitempty"` // of time; the split's where it is left out
	Delay  Duration `yaml:"delay" json:"delay,omitempty"`   // of time: how much older the others must be
	Copies int      `yaml:"copies" json:"copies,omitempty"` // of random; 0: by the table's size
}

// DelayAsked reports whether the spec gives a delay. If it does not, staging chooses one.
func (s *Spec) DelayAsked() bool { return s.doc.Has("encodings.order.delay") }

// Duration is a time.Duration written as 36h or 90m.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 24h or 90m", text)
	}
	*d = Duration(parsed)
	return nil
}

// UnmarshalJSON reads nanoseconds, which is how a Duration is written as JSON. Without this method, JSON would be read
// by UnmarshalText, which takes texts such as 24h alone.
func (d *Duration) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*int64)(d)) }

// DeriveSpec is what is made of times: hour, weekday or, of a time other than the row's own, age.
type DeriveSpec map[string]ColumnEncodings

// Defaults and limits of encodings.
const (
	DefaultLevels       = 8 << 20 // of all tables: at most 160 MiB in a version
	DefaultEncodingRows = 200_000
	MaxBudget           = 512
	// of which a file with weights and times still fits the registry, though their number is estimated
	maxSpecLevels = 28_000_000
)

// checkEncodings checks all keys of encodings: those of single columns, the keys of several, the numbers, the columns
// that others fall back to, and the order of the statistics. It also checks what is derived from times.
func (s *Spec) checkEncodings() error {
	if err := s.checkEncodedColumns(); err != nil {
		return err
	}

	e := &s.Encodings
	for i, key := range e.Keys {
		path := fmt.Sprintf("encodings.keys[%d]", i)
		if len(key) < 1 || len(key) > MaxParts {
			return s.Errorf(path, "a key of %d columns; 1 to %d are possible", len(key), MaxParts)
		}
		for j, part := range key {
			if slices.Index(key, part) != j {
				return s.Errorf(path, "%q is listed twice", part)
			}
		}
	}

	if e.Budget != nil && (*e.Budget < 0 || *e.Budget > MaxBudget) {
		return s.Errorf("encodings.budget", "budget is %d: use 0 to %d", *e.Budget, MaxBudget)
	}
	if e.Levels < 1000 || e.Levels > maxSpecLevels {
		return s.Errorf("encodings.levels", "levels is %d: use 1000 to %d", e.Levels, maxSpecLevels)
	}

	// Follow each chain of columns that fall back to others. One with more steps than there are links is a circle.
	for _, child := range slices.Sorted(maps.Keys(e.BackOff)) {
		at := child
		for steps := 0; e.BackOff[at] != ""; steps++ {
			if steps > len(e.BackOff) {
				return s.Errorf("encodings.back_off."+child, "%q falls back to itself", child)
			}
			at = e.BackOff[at]
		}
	}

	if err := s.checkOrder(); err != nil {
		return err
	}
	return s.checkDerive()
}

// checkEncodedColumns checks the encodings that are asked for of single columns: known words, none twice, and no two
// that exclude each other. Dropped columns have none.
func (s *Spec) checkEncodedColumns() error {
	e := &s.Encodings
	words := columnEncodings()

	for _, column := range slices.Sorted(maps.Keys(e.Columns)) {
		path := "encodings.columns." + column
		list := e.Columns[column]

		if slices.Contains(s.Drop, column) {
			return s.Errorf(path, "column %q is dropped; leave it out of one of the two", column)
		}

		for i, word := range list {
			if !slices.Contains(words, word) {
				return s.Errorf(path, "encoding %q%s", word, strictyaml.Suggest(word, words))
			}
			if slices.Index(list, word) != i {
				return s.Errorf(path, "%s is listed twice", word)
			}
		}

		noneWithOthers := len(list) > 1 && list.Has(EncodeNone)
		if len(list) == 0 || noneWithOthers || list.Has(EncodeCategories) && list.Has(EncodeLevels) {
			return s.Errorf(path, "%s: use none alone, or some of %s; categories or levels, not both",
				strings.Join(list, ", "), strings.Join(words, ", "))
		}
	}
	return nil
}

// checkOrder checks that an order by time has a column, of its own or the split's, and no second copy, and that no
// other order has a column or a delay. If only a column is given, it sets the order to one by time.
func (s *Spec) checkOrder() error {
	o, orders := &s.Encodings.Order, []string{EncodingAuto, OrderTime, OrderRandom, OrderGroup}
	switch {
	case o.By != "" && !slices.Contains(orders, o.By):
		return s.Errorf("encodings.order.by", "by %q%s", o.By,
			strictyaml.Suggest(o.By, orders))
	case o.By == OrderGroup && s.Group == "":
		return s.Errorf("encodings.order.by", "an order of groups needs group: COLUMN")
	case (o.By == OrderRandom || o.By == OrderGroup) && (o.Column != "" || o.Delay != 0):
		return s.Errorf("encodings.order", "column and delay are for an order by time")
	case o.Delay < 0:
		return s.Errorf("encodings.order.delay", "delay is %v: use 0 or more", time.Duration(o.Delay))
	case o.Copies < 0 || o.Copies > MaxCopies || o.Copies == 0 && s.doc.Has("encodings.order.copies"):
		return s.Errorf("encodings.order.copies", "copies is %d: use 1 to %d", o.Copies, MaxCopies)
	case o.By == OrderTime && o.Column == "" && s.Split.By != SplitByTime:
		return s.Errorf("encodings.order", "an order by time needs column where the split is not by time")
	case o.Column != "" && (o.By == "" || o.By == EncodingAuto):
		o.By = OrderTime
	case o.Delay != 0 && s.OrderBy() != OrderTime:
		return s.Errorf("encodings.order.delay", "delay is for an order by time: give column, too, or split by time")
	}

	if s.OrderBy() == OrderTime && o.Copies > 1 {
		return s.Errorf("encodings.order.copies", "there is only one order by time, so copies must be 1")
	}
	return nil
}

// checkDerive checks what is derived from times: known words, each once, and none alone. An age needs the row's own
// time, in another column.
func (s *Spec) checkDerive() error {
	for _, column := range slices.Sorted(maps.Keys(s.Derive)) {
		list := s.Derive[column]
		for i, word := range list {
			if slices.Index(list, word) != i || word == EncodeNone && len(list) > 1 {
				return s.Errorf("derive."+column, "%s: list each once, and none alone", strings.Join(list, ", "))
			}

			if d := Derivation(word); d != DeriveHour && d != DeriveWeekday && d != DeriveAge && word != EncodeNone {
				return s.Errorf("derive."+column, "%q%s", word,
					strictyaml.Suggest(word, []string{string(DeriveHour), string(DeriveWeekday),
						string(DeriveAge), EncodeNone}))
			}

			if word == string(DeriveAge) && (s.TimeColumn() == "" || s.TimeColumn() == column) {
				return s.Errorf("derive."+column, "age is the time from %q to the row's own time, "+
					"which a split by time or encodings.order.column gives", column)
			}
		}
	}

	return nil
}

// OrderBy returns the order in which statistics are made: the one that the spec gives, else by time if rows are split
// by time, else at random.
func (s *Spec) OrderBy() string {
	switch by := s.Encodings.Order.By; {
	case by == OrderTime || by == OrderRandom || by == OrderGroup:
		return by
	case s.Split.By == SplitByTime:
		return OrderTime
	}
	return OrderRandom
}

// TimeColumn returns the column with the rows' times; empty if there is none.
func (s *Spec) TimeColumn() string {
	switch {
	case s.Encodings.Order.Column != "":
		return s.Encodings.Order.Column
	case s.Split.By == SplitByTime:
		return s.Split.Column
	}
	return ""
}

// SampleSpec says how many held-out rows are kept with their raw values, and which share of the negative rows of the
// table is used at all. A bare number is the number of held-out rows.
type SampleSpec struct {
	Rows      int     `yaml:"rows" json:"rows"`
	Negatives float64 `yaml:"negatives" json:"negatives,omitempty"` // 0: all of them
}

// YAMLBare says that the bare number is a whole one.
func (SampleSpec) YAMLBare() any { return 0 }

// UnmarshalYAML accepts a bare number too.
func (s *SampleSpec) UnmarshalYAML(decode func(any) error) error {
	if decode(&s.Rows) == nil {
		return nil
	}
	type plain SampleSpec
	return decode((*plain)(s))
}
