package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// The versions of the file format that this build writes and reads: FormatDerived is that of datasets, and of models'
// encodings, with derived features, copies of rows or a share of the negative rows. All others are as they were before there
// were such things.
const (
	FormatVersion = 1
	FormatDerived = 2
)

// Limits of a dataset.
const (
	MaxFeatures = 1 << 15
	MaxRows     = 1<<32 - 1 // of one split
	MaxSample   = 1_000_000 // rows of sample.arrow
)

// ManifestFile is the name of the manifest in a dataset's folder. It is written last: a folder with it is complete.
const ManifestFile = "manifest.json"

// MaxManifest bounds a manifest's bytes, for whoever writes and whoever reads one; 1,000 features of 254 categories with 100
// bytes each stay below.
const MaxManifest = 64 << 20

// MaxCategory is how many bytes the text of a category may have. Longer ones share the bin of others.
const MaxCategory = 1024

// Folds is the number of folds that rows are dealt to.
const Folds = 10

// Manifest says everything about one version of a dataset but the values.
type Manifest struct {
	Format   int        `json:"format"`
	Name     string     `json:"name"`
	Version  string     `json:"version"` // hash of all else but About
	Features []Feature  `json:"features"`
	Missing  []string   `json:"missing"` // texts that stand for a missing value
	MaxBin   int        `json:"max_bin"`
	BinRows  int        `json:"bin_rows"` // rows of train that the bins were made from
	Label    LabelInfo  `json:"label"`
	Weight   string     `json:"weight,omitempty"` // column; empty without
	Group    string     `json:"group,omitempty"`  // column; empty without
	Split    SplitRule  `json:"split"`
	Splits   []Rows     `json:"splits"`   // those that have rows, in the order train, valid, calib, test
	LeftOut  int64      `json:"left_out"` // rows of the source without a label
	Sample   SampleInfo `json:"sample"`

	Tables    []LevelTable `json:"tables,omitempty"`    // of the statistics that features were derived from
	Order     *Ordering    `json:"order,omitempty"`     // in which the statistics of train were made; nil without any
	Negatives float64      `json:"negatives,omitempty"` // the share of the negative rows that was kept, in every split; 0 means all
	Thinned   int64        `json:"thinned,omitempty"`   // negative rows that were not
	// Like is the dataset, NAME@VERSION, that this one was made like: it has the same columns, bounds and statistics of the same columns, which are
	// of its own rows. Empty is none.
	Like string `json:"like,omitempty"`

	Files []FileInfo `json:"files"` // all but the manifest
	About About      `json:"about"`
}

// About is what the version does not depend on.
type About struct {
	Sources  []Source  `json:"sources"`
	Warnings []Warning `json:"warnings,omitempty"`
	// LeftOut is how many rows have each of the texts that stand for a missing label: the first few, and without those in
	// which the table itself says that there is none.
	LeftOut map[string]int64 `json:"left_out,omitempty"`
	// Unripe is what was left out because its labels were not final; nil where the spec takes all for final.
	Unripe *Unripe `json:"unripe,omitempty"`
	// Encodings is what was made of each column of categories, and which columns are taken together.
	Encodings []EncodingInfo `json:"encodings,omitempty"`
	// Delay says why Order has one that nobody asked for; nil where it has none of its own.
	Delay *DelayInfo `json:"delay,omitempty"`
}

// DelayInfo is what was measured of a delay that staging has found.
type DelayInfo struct {
	Gain float64 `json:"gain"` // by how much lower the loss is on the latest sampled rows of train, as a share
}

// Unripe is rows of the source that were left out because their labels were not final.
type Unripe struct {
	Rows    int64     `json:"rows"`
	Column  string    `json:"column"`  // of the rows' times
	Matures string    `json:"matures"` // how old a row has to be
	Until   time.Time `json:"until"`   // the rows up to here are there
	Newest  time.Time `json:"newest"`  // row of the source
}

// EncodingInfo is what was made of a column of categories, or of several columns together, and why.
type EncodingInfo struct {
	Name   string   `json:"name"`
	Levels int      `json:"levels"`         // of the table, about; of a column without that of missing values
	Kept   int      `json:"kept,omitempty"` // of them, that a categorical feature tells apart
	Lumped float64  `json:"lumped"`         // share of the sampled rows whose level no categorical feature tells from others
	Made   []string `json:"made,omitempty"` // features
	// Gain is by how much the statistics lower the loss on sampled rows that they were not made of, as a share: those of a column or
	// of a key that was asked for by themselves, those of a key that was found in a model with all that comes before them. nil where
	// it was not measured.
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

// Warning is something that a person should look at.
type Warning struct {
	Code   string `json:"code"`
	Column string `json:"column,omitempty"`
	Text   string `json:"text"`
}

// LabelKind is what a model is to predict.
type LabelKind string

// The kinds of labels.
const (
	Binary     LabelKind = "binary"
	Regression LabelKind = "regression"
)

// LabelInfo says how the label was made from its column. Of a binary label at most one of Positive and Above is set; with
// neither, the column holds 0 and 1.
type LabelInfo struct {
	Column   string    `json:"column"`
	Kind     LabelKind `json:"kind"`
	Positive *string   `json:"positive,omitempty"` // text that means 1
	Negative *string   `json:"negative,omitempty"` // text that means 0; without it, every other
	Above    *float64  `json:"above,omitempty"`    // numbers greater than it mean 1
}

// SplitRule says how rows came to their splits.
type SplitRule struct {
	By     string             `json:"by"` // hash, random, time, column or none
	Seed   int                `json:"seed,omitempty"`
	Column string             `json:"column,omitempty"`
	Shares map[string]float64 `json:"shares,omitempty"` // of hash, random and time
	// Until is the greatest value of the time column in each split but the last: of times, seconds since 1970.
	Until  map[string]float64  `json:"until,omitempty"`
	Values map[string][]string `json:"values,omitempty"` // of column, where they are not the names of the splits
}

// Rows describes one split.
type Rows struct {
	Name string `json:"name"`
	Rows int    `json:"rows"` // of train, all copies
	// LabelMean is the share of positive rows, or of a regression the label's mean.
	LabelMean float64 `json:"label_mean"`
}

// SampleInfo says what sample.arrow holds.
type SampleInfo struct {
	Split string `json:"split"`
	Rows  int    `json:"rows"`
}

// Encoding is what turns raw values into model values: it goes with every model into the registry as features.json, beside
// the levels file if it has tables.
type Encoding struct {
	Format   int          `json:"format"`
	Features []Feature    `json:"features"`
	Missing  []string     `json:"missing"`
	Tables   []LevelTable `json:"tables,omitempty"`
}

// Encoding is the part of the manifest that a model needs.
func (m *Manifest) Encoding() *Encoding {
	return &Encoding{Format: formatOf(m.Features), Features: m.Features, Missing: m.Missing, Tables: m.Tables}
}

// formatOf is the lowest format that can hold the features.
func formatOf(features []Feature) int {
	for i := range features {
		if features[i].IsDerived() {
			return FormatDerived
		}
	}
	return FormatVersion
}

// format is the lowest format that can hold the manifest.
func (m *Manifest) format() int {
	if m.Order != nil || m.Negatives != 0 {
		return FormatDerived
	}
	return formatOf(m.Features)
}

// HasWeights reports whether rows have weights in the files: where a column gives them, or where a share of the negative rows stands for
// all of them. In the latter case rows of train have none but the column's: models learn from the rows as they are, and their scores
// are put right by ScoreShift.
func (m *Manifest) HasWeights() bool { return m.Weight != "" || m.Negatives > 0 }

// ScoreShift is what is to be added to the log odds that a model learns from train, where only a share of the negative rows is there.
func (m *Manifest) ScoreShift() float64 {
	if m.Negatives == 0 {
		return 0
	}
	return math.Log(m.Negatives)
}

// Copies is how often the train split holds each of its rows: more than once where statistics were made in several orders.
func (m *Manifest) Copies() int {
	if m.Order == nil {
		return 1
	}
	return m.Order.Copies
}

// TableRows is how many rows of the table a split holds: of train, those of one copy.
func (m *Manifest) TableRows(split string) int {
	s, _ := m.FindSplit(split)
	if split == TrainSplit {
		return s.Rows / m.Copies()
	}
	return s.Rows
}

// FindSplit gives the split called name; ok is false when it has no rows.
func (m *Manifest) FindSplit(name string) (Rows, bool) {
	for _, s := range m.Splits {
		if s.Name == name {
			return s, true
		}
	}
	return Rows{}, false
}

// Bytes is the size of all files but the manifest.
func (m *Manifest) Bytes() int64 {
	n := int64(0)
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// ContentVersion is the version that belongs to the manifest's contents: the first 16 hexadecimal digits of the SHA-256
// of its JSON, as Encode writes it, without Version and About.
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

// Encode is the manifest as JSON: the fields in their order here.
func (m *Manifest) Encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, &ManifestError{Err: err} // a NaN or an infinity among the numbers
	}
	return append(data, '\n'), nil
}

// DecodeManifest reads a manifest and checks everything that can be checked without the files, its version included.
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
		return nil, &ManifestError{"version", fmt.Errorf("%.40q, but the contents' version is %s: it was altered", m.Version, version)}
	}
	return &m, nil
}

// DecodeEncoding reads an Encoding, such as a model's features.json.
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
	if err := checkDerived(e.Features, e.Tables); err != nil {
		return nil, err
	}
	return &e, checkTokens(e.Missing)
}

func decodeJSON(data []byte, v any) error {
	if len(data) > MaxManifest {
		return &ManifestError{Err: fmt.Errorf("%d bytes, more than the %d that one may have", len(data), MaxManifest)}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &ManifestError{Err: err}
	}
	if _, err := d.Token(); err != io.EOF {
		return &ManifestError{Err: fmt.Errorf("more follows behind the JSON")}
	}
	return nil
}
