package nights

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/problem"
)

// MaxRecord bounds a record's bytes, for writers and readers: 32,768 columns need about 50 MB.
const MaxRecord = 64 << 20

// Record is what is stored about a night: its profile, the findings, and whether a person has accepted it nevertheless.
type Record struct {
	Format  int       `json:"format"`
	Dataset string    `json:"dataset"`
	Version string    `json:"version"`
	Night   string    `json:"night,omitempty"` // the day of its slot; empty for a table of no schedule
	At      time.Time `json:"at"`              // when it was staged
	// Spec is a hash of the dataset's spec without its source and label.as_of; Meaning covers the parts that must agree
	// for profiles to be comparable.
	Spec     string           `json:"spec"`
	Meaning  string           `json:"meaning"`
	MaxAge   dataset.Duration `json:"max_age,omitzero"`  // of the newest row, at the time of training
	Against  []string         `json:"against,omitempty"` // the versions that the night was compared with, oldest first
	Profile  *Profile         `json:"profile"`
	Findings []Finding        `json:"findings,omitempty"`
	Accepted *Acceptance      `json:"accepted,omitempty"`
}

// Acceptance records who has accepted a night, and why.
type Acceptance struct {
	By  string    `json:"by"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
	// Lasting says that the night is not an exception: what it shows is usual from now on.
	Lasting bool `json:"lasting,omitempty"`
}

// Blocked reports whether the night must not be trained on.
func (r *Record) Blocked() bool { return Blocked(r.Findings) && r.Accepted == nil }

// The states of a night, the words for what came of its staging.
const (
	Good     = "good"
	Accepted = "accepted"
	Held     = "blocked"
)

// State is the word for what came of the night's staging.
func (r *Record) State() string {
	switch {
	case r.Blocked():
		return Held
	case r.Accepted != nil:
		return Accepted
	}
	return Good
}

// Word returns a night's state for people. For a good night with warnings it is their number instead.
func Word(state string, findings []Finding) string {
	if _, n := worst(findings, Warning); state == Good && n > 0 {
		return english.Plural(n, "warning", "")
	}
	return state
}

// Doubted reports whether a person has accepted the night, as an exception, although its label rate was unusual.
func (r *Record) Doubted() bool {
	return r.Accepted != nil && !r.Accepted.Lasting && slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Code == CodeLabelRate && f.Level == Blocking
	})
}

// Old says why the night is too old to be trained on now, by the spec's contract.max_age. It is empty if it is not,
// or if a person has accepted the night. Without a time column, the age is that of the staging.
func (r *Record) Old(now time.Time) string {
	if r.MaxAge == 0 || r.Accepted != nil {
		return ""
	}
	what, at := "its newest row", r.Profile.Newest
	if at.IsZero() {
		what, at = "it", r.At
	}
	if age := now.Sub(at); age > time.Duration(r.MaxAge) {
		return fmt.Sprintf("%s is from %s, %v ago, but contract.max_age is %v", what, stamp(at), age.Round(time.Minute),
			time.Duration(r.MaxAge))
	}
	return ""
}

// SpecHashes returns the hashes that a record keeps. spec is that of the whole spec. meaning covers only the parts that
// decide what labels and values mean, such as the label's condition: nights with different ones are not compared.
func SpecHashes(s *dataset.Spec) (spec, meaning string, err error) {
	// hash returns 8 bytes of SHA-256 of the JSON of v, in hex. The first error is kept in err.
	hash := func(v any) string {
		var text []byte
		if err == nil {
			text, err = json.Marshal(v)
		}
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:8])
	}

	// The time for which labels are final (as_of) changes every night, so that no night would have the same hash.
	same := *s
	same.Label.AsOf = ""
	spec = hash(&same)
	meaning = hash([]any{same.Label, s.Weight, s.Missing, s.CSV, s.Sample.Negatives, s.Contract.Time})
	return spec, meaning, err
}

// Encode returns the record as JSON, indented for people unless the table is so wide that nobody reads it. A record of
// more than MaxRecord bytes is an error.
func (r *Record) Encode() ([]byte, error) {
	indent := " "
	if r.Profile != nil && len(r.Profile.Columns) > wideColumns {
		indent = ""
	}
	text, err := json.MarshalIndent(r, "", indent)
	if err == nil && len(text) > MaxRecord {
		err = fmt.Errorf("it has %d bytes, more than %d", len(text), MaxRecord)
	}
	if err != nil {
		return nil, fmt.Errorf("write the night's record: %w", err)
	}
	return append(text, '\n'), nil
}

// Damaged returns an error of the kind problem.Damaged for the record of a dataset's version. err says what is wrong
// with the record.
func Damaged(dataset, version string, err error) error {
	return problem.Wrap(problem.Damaged, fmt.Errorf("%w; stage it again", err),
		"the record of the night %s@%s is damaged", dataset, version)
}

// DecodeRecord decodes the record of the dataset called name in that version, and checks that it belongs to these and
// is safe to compare with. Errors are of the kind problem.Damaged.
func DecodeRecord(text []byte, name, version string) (*Record, error) {
	r := &Record{}
	err := json.Unmarshal(text, r)
	switch {
	case err != nil:
	case r.Format != 1:
		err = fmt.Errorf("format %d; this build reads 1", r.Format)
	case r.Dataset != name || r.Version != version:
		err = fmt.Errorf("it belongs to %.60q@%.20q", r.Dataset, r.Version)
	case r.Profile == nil:
		err = fmt.Errorf("it has no profile")
	default:
		err = r.Profile.check()
	}

	if err != nil {
		return nil, Damaged(name, version, err)
	}
	return r, nil
}

// check returns an error for a profile that no table can have. Comparing with one that passes cannot index out of
// range.
func (p *Profile) check() error {
	if p.Rows < 0 || len(p.Prints)%8 != 0 || len(p.Bare)%8 != 0 || len(p.Buckets.Rows) > maxBuckets ||
		len(p.Buckets.Rows) != len(p.Buckets.Label) {
		return fmt.Errorf("its counts contradict each other")
	}
	for _, n := range p.Buckets.Rows {
		if n < 0 {
			return fmt.Errorf("a bucket of %d rows", n)
		}
	}

	for i := range p.Columns {
		if err := p.Columns[i].check(); err != nil {
			return err
		}
	}

	for i, row := range p.Ties {
		if len(row) != i || i >= len(p.Columns) {
			return fmt.Errorf("its ties contradict its columns")
		}
	}
	return p.checkShares()
}

// check returns an error for statistics of a column that contradict each other, which Measure does not make.
func (c *Column) check() error {
	// Numbers have all statistics of ranges, other columns none.
	ranges := len(c.Quantiles) == 0 && len(c.Rates) == 0 && len(c.Shares) == 0 || len(c.Quantiles) == steps+1 &&
		len(c.Rates) == steps && len(c.Shares) == steps
	if !ranges || c.Kind == Number && len(c.Quantiles) == 0 || len(c.Levels) > keptLevels || len(c.Prints)%8 != 0 {
		return fmt.Errorf("the statistics of column %.60q contradict each other", c.Name)
	}
	// Odds without those of peaks are of a record that was made before peaks had any.
	older := c.Kind == Number && !c.byLevels() && len(c.Odds) == steps+1
	if c.Odds != nil && len(c.Odds) != newColumnEncoder(c).size && !older {
		return fmt.Errorf("the odds of column %.60q contradict its levels", c.Name)
	}
	for j, x := range c.Quantiles {
		if j > 0 && !(x >= c.Quantiles[j-1]) {
			return fmt.Errorf("the quantiles of column %.60q do not ascend", c.Name)
		}
	}
	return nil
}

// checkShares returns an error for segments or labels with numbers that no table can have: negative ones, or NaN.
func (p *Profile) checkShares() error {
	for _, s := range p.Segments {
		if !(s.Rows >= 0 && s.Positive >= 0 && s.Expected >= 0 && s.Info >= 0) {
			return fmt.Errorf("the counts of its segment %.60q contradict each other", s.Level)
		}
	}
	if p.Ratio < 0 || math.IsNaN(p.Label.Mean) {
		return fmt.Errorf("the statistics of its label contradict each other")
	}
	return nil
}
