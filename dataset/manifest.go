package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
)

// FormatVersion is the version of the file format that this build writes, and the only one that it reads.
const FormatVersion = 1

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
	Files    []FileInfo `json:"files"` // all but the manifest
	About    About      `json:"about"`
}

// About is what the version does not depend on.
type About struct {
	Sources  []Source  `json:"sources"`
	Warnings []Warning `json:"warnings,omitempty"`
	// LeftOut is how many rows have each of the texts that stand for a missing label: the first few, and without those in
	// which the table itself says that there is none.
	LeftOut map[string]int64 `json:"left_out,omitempty"`
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
	By     string             `json:"by"` // hash, time, column or none
	Column string             `json:"column,omitempty"`
	Shares map[string]float64 `json:"shares,omitempty"` // of hash and time
	// Until is the greatest value of the time column in each split but the last: of times, seconds since 1970.
	Until  map[string]float64  `json:"until,omitempty"`
	Values map[string][]string `json:"values,omitempty"` // of column, where they are not the names of the splits
}

// Rows describes one split.
type Rows struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
	// LabelMean is the share of positive rows, or of a regression the label's mean.
	LabelMean float64 `json:"label_mean"`
}

// SampleInfo says what sample.arrow holds.
type SampleInfo struct {
	Split string `json:"split"`
	Rows  int    `json:"rows"`
}

// Encoding is what turns raw values into model values: it goes with every model into the registry as features.json.
type Encoding struct {
	Format   int       `json:"format"`
	Features []Feature `json:"features"`
	Missing  []string  `json:"missing"`
}

// Encoding is the part of the manifest that a model needs.
func (m *Manifest) Encoding() *Encoding {
	return &Encoding{Format: FormatVersion, Features: m.Features, Missing: m.Missing}
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
	bare.Version, bare.About = "", About{}
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
	if err := checkFormat(e.Format); err != nil {
		return nil, err
	}
	if err := checkFeatures(e.Features); err != nil {
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
