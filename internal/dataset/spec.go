package dataset

import (
	"fmt"
	"math"
	"slices"
	"time"

	"coppice/internal/strictyaml"
)

// Spec is a dataset.yaml: which table becomes a dataset, and how. ParseSpec checks everything that can be checked
// without knowing the table.
type Spec struct {
	Name   string     `yaml:"name" json:"name"`
	Source SourceSpec `yaml:"source" json:"-"`
	Label  LabelSpec  `yaml:"label" json:"label"`
	Weight string     `yaml:"weight" json:"weight,omitempty"` // column of row weights
	// column that says which rows belong together
	Group string `yaml:"group" json:"group,omitempty"`
	// columns of numbers that a metric needs of every row; they may be features, too
	Values []string `yaml:"values" json:"values,omitempty"`
	Drop   []string `yaml:"drop" json:"drop,omitempty"` // columns that are not features
	// features that are categories, even if they look like numbers
	Categorical []string `yaml:"categorical" json:"categorical,omitempty"`
	// features that are numbers, even if they look like categories
	Numeric []string  `yaml:"numeric" json:"numeric,omitempty"`
	Missing Tokens    `yaml:"missing" json:"missing"`         // texts that stand for a missing value
	Format  Formats   `yaml:"format" json:"format,omitempty"` // of columns of texts, where it is not to be found out
	CSV     CSVSpec   `yaml:"csv" json:"csv"`
	MaxBin  int       `yaml:"max_bin" json:"max_bin"` // bins of a feature, including that of missing values
	Split   SplitSpec `yaml:"split" json:"split"`
	// Held-out rows kept with raw values; sampling of negative rows.
	Sample  SampleSpec `yaml:"sample" json:"sample"`
	BinRows int        `yaml:"sample_rows_for_bins" json:"sample_rows_for_bins"` // rows of train to make bins from

	Encodings EncodingsSpec `yaml:"encodings" json:"encodings"`
	Derive    DeriveSpec    `yaml:"derive" json:"derive,omitempty"` // for columns of times, what becomes a feature

	// Contract says what a night's table must satisfy. The dataset's bytes do not depend on it.
	Contract ContractSpec `yaml:"contract" json:"-"`

	doc *strictyaml.Document
}

// Tokens are texts that stand for a missing value.
type Tokens []string

// UnmarshalYAML reads a list of texts. An unquoted null, which YAML does not take for a text, stands for the text
// "null".
func (t *Tokens) UnmarshalYAML(decode func(any) error) error {
	var list []*string
	if err := decode(&list); err != nil {
		return err
	}

	*t = Tokens{}
	for _, text := range list {
		if text == nil {
			*t = append(*t, "null")
		} else {
			*t = append(*t, *text)
		}
	}

	return nil
}

// LabelSpec says what to predict. With a bare column name, the rest depends on the column's contents.
type LabelSpec struct {
	Column   string    `yaml:"column" json:"column"`
	Positive *string   `yaml:"positive" json:"positive,omitempty"` // text that means 1
	Negative *string   `yaml:"negative" json:"negative,omitempty"` // text that means 0; if unset, any other
	Above    *float64  `yaml:"above" json:"above,omitempty"`       // numbers greater than it mean 1
	Kind     LabelKind `yaml:"kind" json:"kind,omitempty"`         // regression, classes, or empty

	// Rows are left out until their labels are final.
	Matures Duration `yaml:"matures" json:"matures,omitzero"` // required age of a row; 0 treats every label as final
	At      string   `yaml:"at" json:"at,omitempty"`          // column with the rows' times
	// the time relative to which ages count; by default the newest row's
	AsOf string `yaml:"as_of" json:"as_of,omitempty"`
}

// Stated returns the time that AsOf gives. ok is false if AsOf is empty or no time.
func (l *LabelSpec) Stated() (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339, l.AsOf)
	return at, err == nil
}

// YAMLBare says that the bare name is a text.
func (LabelSpec) YAMLBare() any { return "" }

// UnmarshalYAML also accepts a bare column name.
func (l *LabelSpec) UnmarshalYAML(decode func(any) error) error {
	if decode(&l.Column) == nil {
		return nil
	}
	type plain LabelSpec
	return decode((*plain)(l))
}

// CSVSpec describes the format of delimited text. It is ignored for Parquet files.
type CSVSpec struct {
	// one character; empty means that the first rows of each file tell it
	Delimiter string `yaml:"delimiter" json:"delimiter,omitempty"`
	// whether the first line names the columns; default true
	Header *bool `yaml:"header" json:"header,omitempty"`
	// QuoteNone if a quote is an ordinary character; empty means `"`
	Quote string `yaml:"quote" json:"quote,omitempty"`
}

// QuoteNone is the CSVSpec.Quote of text without quoting.
const QuoteNone = "none"

// HasHeader reports whether the first line names the columns.
func (c CSVSpec) HasHeader() bool { return c.Header == nil || *c.Header }

// SplitSpec assigns rows to train, valid, calib and test. Without By, all rows are train.
type SplitSpec struct {
	By   string `yaml:"by" json:"by,omitempty"`     // hash, random, classes, time or column
	Seed int    `yaml:"seed" json:"seed,omitempty"` // for random and classes: another seed gives other rows
	// for hash: rows with equal values in this column stay together
	Key    string  `yaml:"key" json:"key,omitempty"`
	Column string  `yaml:"column" json:"column,omitempty"` // for time and column
	Train  Portion `yaml:"train" json:"train,omitzero"`
	Valid  Portion `yaml:"valid" json:"valid,omitzero"`
	Calib  Portion `yaml:"calib" json:"calib,omitzero"`
	Test   Portion `yaml:"test" json:"test,omitzero"`
}

// Portion is one split's part: for hash, random, classes and time a share of the rows, for column the values that
// select it.
type Portion struct {
	Share  float64  `json:"share,omitempty"`
	Values []string `json:"values,omitempty"`
}

// YAMLBare says that values are texts, like the table's, until one is known to be a share.
func (Portion) YAMLBare() any { return "" }

// UnmarshalYAML reads a number, a text or a list of texts. Since the kind of split is not known yet, a number is read
// both as a Share and as a text in Values. Share is NaN if it is no number. The checks of the split keep what is right.
func (p *Portion) UnmarshalYAML(decode func(any) error) error {
	if err := decode(&p.Values); err == nil {
		p.Share = math.NaN()
		return nil
	}

	var one string
	if err := decode(&one); err != nil {
		return err
	}

	p.Values = []string{one}
	if decode(&p.Share) != nil {
		p.Share = math.NaN()
	}
	return nil
}

// portions returns the splits' parts in the order of SplitNames, for reading and writing.
func (s *SplitSpec) portions() []*Portion {
	return []*Portion{&s.Train, &s.Valid, &s.Calib, &s.Test}
}

// Values returns the values of the split column that the spec lists for the split called name, which must be one of
// SplitNames; nil if none.
func (s *SplitSpec) Values(name string) []string {
	return s.portions()[slices.Index(SplitNames(), name)].Values
}

// Shares returns the splits' shares of the rows, in the order of SplitNames. They sum to 1; for a split by column, and
// without a split, all are 0.
func (s *SplitSpec) Shares() [4]float64 {
	var shares [4]float64
	for i, p := range s.portions() {
		shares[i] = p.Share
	}
	return shares
}

// ValuesOf returns for each split the values of the split column that select its rows: those that the spec lists or, if
// it lists none at all, the split's own name. An empty list is none, as for checkSplitValues.
func (s *SplitSpec) ValuesOf() map[string][]string {
	values := map[string][]string{}
	for i, p := range s.portions() {
		if len(p.Values) > 0 {
			values[SplitNames()[i]] = p.Values
		}
	}
	if len(values) == 0 {
		for _, name := range SplitNames() {
			values[name] = []string{name}
		}
	}
	return values
}

// Ways to split a table.
const (
	SplitByHash   = "hash"
	SplitByRandom = "random" // by row number
	// by row number, of each class its share
	SplitByClasses = "classes"
	SplitByTime    = "time"
	SplitByColumn  = "column"
	SplitNone      = "none" // only in a manifest
)

// Defaults of a spec.
const (
	DefaultSample  = 50_000
	DefaultBinRows = 200_000
)

// DefaultMissing lists the texts that stand for a missing value unless the spec lists its own: what pandas,
// spreadsheets, warehouses and collections of tables write.
func DefaultMissing() []string {
	return []string{"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "n/a", "<NA>", "NaT", "-nan", "-NaN", "#NA",
		"#N/A", "#N/A N/A", "#NULL!", "#DIV/0!", "#VALUE!", `\N`, "?", "-"}
}

// LabelMissing returns the texts that stand for a missing label. If the spec does not list its own, "-" is not one of
// them: labels may be written + and -.
func (s *Spec) LabelMissing() []string {
	n := len(DefaultMissing())
	if len(s.Missing) < n || !slices.Equal(s.Missing[:n], DefaultMissing()) {
		return s.Missing
	}
	return slices.Concat(s.Missing[:n-1], s.Missing[n:])
}

// Errorf returns an error about the spec's key at path, such as "split.key". If the spec was read from a file, it names
// file, line and column.
func (s *Spec) Errorf(path, format string, args ...any) error {
	if s.doc == nil {
		return fmt.Errorf("dataset spec, %s: %w", path, fmt.Errorf(format, args...))
	}
	return s.doc.Errorf(path, format, args...)
}

// ParseSpec reads a dataset.yaml, fills in the defaults and checks it. file is its name in errors, which are of type
// *strictyaml.Error.
func ParseSpec(file string, data []byte) (*Spec, error) {
	s := &Spec{MaxBin: MaxBins, Sample: SampleSpec{Rows: DefaultSample}, BinRows: DefaultBinRows,
		Encodings: EncodingsSpec{Levels: DefaultLevels, Rows: DefaultEncodingRows, Final: true}}

	doc, err := strictyaml.Decode(file, data, s)
	if err != nil {
		return nil, err
	}
	s.doc = doc
	if !doc.Has("missing") {
		s.Missing = DefaultMissing()
	}

	// The order matters: the last but one uses the order of the statistics that checkEncodings has filled in.
	for _, check := range []func() error{s.checkColumns, s.checkSource, s.checkLabel, s.checkSplit, s.checkNumbers,
		s.checkEncodings, s.checkMaturity, s.checkContract} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}
