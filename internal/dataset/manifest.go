package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"coppice/internal/strictjson"
)

// The versions of the file format that this build writes and reads. FormatDerived is for datasets, and models'
// encodings, with derived features, copies of rows or sampled negatives, FormatValues for datasets with values; all
// others keep the format that they had before.
const (
	FormatVersion = 1
	FormatDerived = 2
	FormatValues  = 3
)

// Limits on a dataset.
const (
	MaxFeatures = 1 << 15
	MaxRows     = 1<<32 - 1 // per split
	MaxSample   = 1_000_000 // rows of sample.arrow
)

// ManifestFile is the name of the manifest in a dataset's folder. It is written last: a folder that has it is complete.
const ManifestFile = "manifest.json"

// MaxManifest bounds a manifest's bytes, for writers and readers; 1,000 features with 254 categories of 100 bytes each
// stay below.
const MaxManifest = 64 << 20

// MaxCategory is the longest text of a category, in bytes. Longer ones share the bin of others.
const MaxCategory = 1024

// Folds is the number of folds that rows are assigned to.
const Folds = 10

// Manifest describes one version of a dataset completely, except for the values.
type Manifest struct {
	Format   int        `json:"format"`
	Name     string     `json:"name"`
	Version  string     `json:"version"` // hash of everything else except About
	Features []Feature  `json:"features" max:"32768"`
	Missing  []string   `json:"missing" max:"1000"` // texts that stand for a missing value
	Formats  Formats    `json:"formats,omitempty"`
	MaxBin   int        `json:"max_bin"`
	BinRows  int        `json:"bin_rows"` // rows of train that bins were made from
	Label    LabelInfo  `json:"label"`
	Weight   string     `json:"weight,omitempty"`           // column; empty for none
	Group    string     `json:"group,omitempty"`            // column; empty for none
	Values   []string   `json:"values,omitempty" max:"100"` // columns of numbers that a metric may need
	Split    SplitRule  `json:"split"`
	Splits   []Rows     `json:"splits"`   // those with rows, in the order train, valid, calib, test
	LeftOut  int64      `json:"left_out"` // rows of the source without a label
	Sample   SampleInfo `json:"sample"`

	Tables []LevelTable `json:"tables,omitempty" max:"4096"` // of the statistics that derived features use
	// FinalTables are the same over the rows of all splits, for the final training; nil unless the spec wants them
	FinalTables []LevelTable `json:"final_tables,omitempty" max:"4096"`
	Order       *Ordering    `json:"order,omitempty"` // in which train's statistics were made; nil if there are none
	// share of the negative rows that was kept, in every split; 0 means all
	Negatives float64 `json:"negatives,omitempty"`
	Thinned   int64   `json:"thinned,omitempty"` // negative rows that were not kept

	Files []FileInfo `json:"files"` // all except the manifest
	About About      `json:"about"`
}

// About is what the version does not depend on.
type About struct {
	Sources  []Source  `json:"sources"`
	Warnings []Warning `json:"warnings,omitempty"`
	Divided  *Divided  `json:"divided,omitempty"` // nil if no group is, or there are none; for rankings only
	// LeftOut counts the rows left out by the text that stands for their missing label: for the first few texts,
	// excluding nulls.
	LeftOut map[string]int64 `json:"left_out,omitempty"`
	// Unripe describes rows left out because their labels were not final; nil if the spec treats all as final.
	Unripe *Unripe `json:"unripe,omitempty"`
	// Encodings says what was made of each categorical column, and which columns are combined.
	Encodings []EncodingInfo `json:"encodings,omitempty"`
	// Delay explains a delay in Order that the spec does not set; nil if there is none.
	Delay *DelayInfo `json:"delay,omitempty"`
}

// DelayInfo is the measured effect of a delay that staging has chosen.
type DelayInfo struct {
	Gain float64 `json:"gain"` // relative reduction of the loss on the latest sampled rows of train
}

// Unripe describes rows of the source left out because their labels were not final.
type Unripe struct {
	Rows    int64     `json:"rows"`
	Column  string    `json:"column"`  // with the rows' times
	Matures string    `json:"matures"` // required age of a row
	Until   time.Time `json:"until"`   // rows up to this time are included
	Newest  time.Time `json:"newest"`  // newest row of the source
}

// EncodingInfo says what staging made of a categorical column, or of several columns together, and why.
type EncodingInfo struct {
	Name string `json:"name"`
	// estimated number in the table; for a single column without that of missing values
	Levels int `json:"levels"`
	Kept   int `json:"kept,omitempty"` // how many of them a categorical feature distinguishes
	// share of the sampled rows whose level no categorical feature distinguishes
	Lumped float64  `json:"lumped"`
	Made   []string `json:"made,omitempty"` // features
	// Gain is the relative reduction of the loss by the statistics, on sampled rows that they were not made from: for a
	// column, or a key in the spec, by themselves; for a key that was found, in a model with everything before it. nil
	// if not measured.
	Gain *float64 `json:"gain,omitempty"`
	Why  string   `json:"why,omitempty"`
}

// Source is a file that the dataset was made from.
type Source struct {
	URI        string `json:"uri"`
	Bytes      int64  `json:"bytes"`
	Generation int64  `json:"generation,omitempty"` // of an object in a bucket
	Checksum   string `json:"checksum,omitempty"`
}

// Warning is something that a person should check.
type Warning struct {
	Code   string `json:"code"`
	Column string `json:"column,omitempty"`
	Text   string `json:"text"`
}

// LabelKind is the kind of quantity to predict.
type LabelKind string

// The kinds of labels.
const (
	Binary     LabelKind = "binary"
	Regression LabelKind = "regression"
	Classes    LabelKind = "classes" // several: a label is its place in LabelInfo.Classes
)

// MaxClasses is the most classes of a label.
const MaxClasses = 100

// LabelInfo says how the label is derived from its column. For a binary label at most one of Positive and Above is set;
// with neither, the column holds 0 and 1.
type LabelInfo struct {
	Column   string    `json:"column"`
	Kind     LabelKind `json:"kind"`
	Positive *string   `json:"positive,omitempty"` // text that means 1
	Negative *string   `json:"negative,omitempty"` // text that means 0; if unset, any other
	Above    *float64  `json:"above,omitempty"`    // numbers greater than it mean 1
	// names of several classes, in the order of their numbers: texts sorted, or numbers ascending
	Classes []string `json:"classes,omitempty" max:"100"`
}

// SplitRule says how rows were assigned to splits.
type SplitRule struct {
	By     string             `json:"by"` // hash, random, classes, time, column or none
	Seed   int                `json:"seed,omitempty"`
	Column string             `json:"column,omitempty"`
	Shares map[string]float64 `json:"shares,omitempty"` // for hash, random, classes and time
	// Until is the largest value of the time column in each split but the last: for times, in seconds since 1970.
	Until  map[string]float64  `json:"until,omitempty"`
	Values map[string][]string `json:"values,omitempty"` // for column, unless they are the names of the splits
}

// Rows describes one split.
type Rows struct {
	Name string `json:"name"`
	Rows int    `json:"rows"` // for train, over all copies
	// LabelMean is the share of positive rows or, for a regression, the mean label; the mean number of several classes.
	LabelMean float64 `json:"label_mean"`
}

// SampleInfo describes sample.arrow.
type SampleInfo struct {
	Split string `json:"split"`
	Rows  int    `json:"rows"`
}

// Encoding says how raw values become a model's inputs. It is registered with every model as features.json, together
// with the levels file if there are tables.
type Encoding struct {
	Format   int          `json:"format"`
	Features []Feature    `json:"features" max:"32768"`
	Missing  []string     `json:"missing" max:"1000"`
	Formats  Formats      `json:"formats,omitempty"`
	Tables   []LevelTable `json:"tables,omitempty" max:"4096"`
	Classes  []string     `json:"classes,omitempty" max:"100"` // what is predicted, if there are several
}

// Encoding returns the part of the manifest that a model needs.
func (m *Manifest) Encoding() *Encoding {
	return &Encoding{Format: formatOf(m.Features), Features: m.Features, Missing: m.Missing,
		Formats: m.Formats, Tables: m.Tables, Classes: m.Label.Classes}
}

// FinalEncoding returns the encoding for a model that is trained on the rows of all splits, with statistics of all
// these rows, and the name of its levels file in the dataset's folder.
func (m *Manifest) FinalEncoding() (e *Encoding, levels string) {
	e = m.Encoding()
	if m.FinalTables == nil { // no statistics; or those of train alone, for which planning refuses a final training
		return e, LevelsFile
	}
	e.Tables = m.FinalTables
	return e, FinalLevelsFile
}

// Statistics returns the features that are statistics of levels, as ascending indices of Features.
func (m *Manifest) Statistics() []int {
	var out []int
	for i := range m.Features {
		if f := m.Features[i].From; f != nil && f.Table >= 0 {
			out = append(out, i)
		}
	}
	return out
}

// HeldOutRows returns the number of rows of all splits but train.
func (m *Manifest) HeldOutRows() int {
	n := 0
	for _, s := range m.Splits {
		if s.Name != TrainSplit {
			n += s.Rows
		}
	}
	return n
}

// formatOf returns the lowest format that supports the features.
func formatOf(features []Feature) int {
	for i := range features {
		if features[i].IsDerived() {
			return FormatDerived
		}
	}
	return FormatVersion
}

// format returns the lowest format that supports the manifest.
func (m *Manifest) format() int {
	switch {
	case len(m.Values) > 0:
		return FormatValues
	case m.Order != nil || m.Negatives != 0:
		return FormatDerived
	}
	return formatOf(m.Features)
}

// HasWeights reports whether the files have weights of rows, from a column or because negative rows were sampled. In
// the latter case the weights of held-out rows make up for the sampling, so that metrics are right. Those of train do
// not: models learn from the rows as they are, and package fit corrects their scores.
func (m *Manifest) HasWeights() bool { return m.Weight != "" || m.Negatives > 0 }

// ByTime reports whether rows are split by time, so that later splits have newer rows.
func (m *Manifest) ByTime() bool { return m.Split.By == SplitByTime }

// Copies returns how often the train split has each of its rows. It is more than once if statistics were made in
// several random orders: each copy has those of one order.
func (m *Manifest) Copies() int {
	if m.Order == nil {
		return 1
	}
	return m.Order.Copies
}

// TableRows returns how many rows of the table a split has: for train, the rows of one copy. It is 0 if there is no
// split of that name.
func (m *Manifest) TableRows(split string) int {
	s, _ := m.FindSplit(split)
	if split == TrainSplit {
		return s.Rows / m.Copies()
	}
	return s.Rows
}

// FindSplit returns the split called name. ok is false if the dataset does not have it.
func (m *Manifest) FindSplit(name string) (Rows, bool) {
	for _, s := range m.Splits {
		if s.Name == name {
			return s, true
		}
	}
	return Rows{}, false
}

// Bytes returns the total size of all files except the manifest.
func (m *Manifest) Bytes() int64 {
	n := int64(0)
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// ContentVersion computes the version that belongs to the manifest's contents: the first 16 hexadecimal digits of the
// SHA-256 of its JSON, as Encode writes it, with an empty Version and About. Checksums of the files are part of that.
func (m *Manifest) ContentVersion() (string, error) {
	bare := *m
	bare.Version = ""
	bare.About = About{}
	data, err := bare.Encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// Encode returns the manifest as JSON, with the fields in the order of declaration. It fails if a number is NaN or
// infinite.
func (m *Manifest) Encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, badManifest("", err) // a NaN or an infinity
	}
	return append(data, '\n'), nil
}

// DecodeManifest reads a manifest and checks all that can be checked without the files, including its version. What is
// wrong with it is an error of kind Damaged.
func DecodeManifest(data []byte) (*Manifest, error) {
	var m Manifest
	if err := decodeJSON(data, &m); err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}

	version, err := m.ContentVersion()
	if err != nil {
		return nil, err
	}
	if version != m.Version {
		return nil, badManifest("version", fmt.Errorf("%.40q, but the contents' version is %s: it was altered",
			m.Version, version))
	}
	return &m, nil
}

// DecodeEncoding reads an Encoding, such as a model's features.json, and checks it. What is wrong is an error of kind
// Damaged.
func DecodeEncoding(data []byte) (*Encoding, error) {
	var e Encoding
	if err := decodeJSON(data, &e); err != nil {
		return nil, err
	}
	if err := checkFormat(e.Format, formatOf(e.Features)); err != nil {
		return nil, err
	}
	if err := checkFeatures(e.Features); err != nil {
		return nil, err
	}
	if err := checkDerived(e.Features, e.Tables, len(e.Classes)); err != nil {
		return nil, err
	}
	if err := checkClassNames(e.Classes); err != nil {
		return nil, badManifest("classes", err)
	}
	if err := checkTexts(e.Missing, e.Formats); err != nil {
		return nil, err
	}
	return &e, nil
}

// decodeJSON decodes a manifest or an encoding into v. Unknown and repeated keys are errors, too, of kind Damaged.
func decodeJSON(data []byte, v any) error {
	if len(data) > MaxManifest {
		return badManifest("", fmt.Errorf("%d bytes, more than the %d that one may have", len(data), MaxManifest))
	}
	if err := strictjson.Decode(data, v); err != nil {
		return badManifest("", err)
	}
	return nil
}
