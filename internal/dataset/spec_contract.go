package dataset

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// ContractSpec says what a night's table must satisfy to be trained on (docs/run.md). Rules that it does not give
// are learnt from earlier nights. With the word none, nothing is checked.
type ContractSpec struct {
	Off bool `json:"off,omitempty"` // the word none
	// Declared says that the spec has the key, so that even the second night can be blocked.
	Declared bool `json:"-"`
	// column with each row's time, even if dropped; detected if unset
	Time   string    `yaml:"time" json:"time,omitempty"`
	MaxAge Duration  `yaml:"max_age" json:"max_age,omitzero"` // of the newest row, both when staged and when trained on
	Rows   RangeSpec `yaml:"rows" json:"rows,omitzero"`       // rows with a label
	// mean label: for a binary one, the share of positive rows
	Label RangeSpec `yaml:"label" json:"label,omitzero"`
	Allow []string  `yaml:"allow" json:"allow,omitempty"` // findings that do not block: CODE, or CODE:COLUMN
	// Expect allows findings on some days: holidays, sales, a change of prices.
	Expect []ExpectSpec `yaml:"expect" json:"expect,omitempty"`
}

// ExpectSpec says which findings are no fault in the nights of some days, and why.
type ExpectSpec struct {
	From     string   `yaml:"from" json:"from"`         // day of a night's newest row, in UTC: 2006-01-02
	To       string   `yaml:"to" json:"to,omitempty"`   // the last such day; empty for From
	Findings []string `yaml:"findings" json:"findings"` // CODE, or CODE:COLUMN
	Why      string   `yaml:"why" json:"why"`
}

// Holds reports whether a time's day, in UTC, is one of the days.
func (e ExpectSpec) Holds(day time.Time) bool {
	text := day.UTC().Format(time.DateOnly)
	return text >= e.From && text <= cmp.Or(e.To, e.From)
}

// RangeSpec is a range of numbers; nil leaves a side open.
type RangeSpec struct {
	Min *float64 `yaml:"min" json:"min,omitempty"`
	Max *float64 `yaml:"max" json:"max,omitempty"`
}

// Holds reports whether x is in the range, whose ends belong to it.
func (r RangeSpec) Holds(x float64) bool {
	return (r.Min == nil || x >= *r.Min) && (r.Max == nil || x <= *r.Max)
}

// UnmarshalText reads the words auto and none.
func (c *ContractSpec) UnmarshalText(word []byte) (err error) {
	c.Off, err = isNone(word, "contract", "")
	return err
}

// UnmarshalYAML reads a mapping, or one of the words auto and none. It is called only if the spec has the key.
func (c *ContractSpec) UnmarshalYAML(decode func(any) error) error {
	type plain ContractSpec
	defer func() { c.Declared = true }()
	return wordOr(decode, c, (*plain)(c))
}

// isNone reports whether the value of a key is the word none. It is false for auto and for no value; any other word is
// an error that names the key and ends in example, which may be empty.
func isNone(word []byte, key, example string) (bool, error) {
	switch string(word) {
	case EncodeNone:
		return true, nil
	case EncodingAuto, "null", "~": // a key without a value
		return false, nil
	}
	return false, fmt.Errorf("%s %q: use auto, none or a mapping%s", key, word, example)
}

// wordOr reads a single word with words.UnmarshalText, or anything else into mapping.
func wordOr(decode func(any) error, words encoding.TextUnmarshaler, mapping any) error {
	var word string
	if decode(&word) == nil {
		return words.UnmarshalText([]byte(word))
	}
	return decode(mapping)
}

// findingPattern is a finding's code, and perhaps its column behind a colon.
var findingPattern = regexp.MustCompile(`^[a-z][a-z_]*(:.+)?$`)

// checkContract checks that ranges have finite bounds in the right order, that the greatest age is not negative, that
// findings are written as such, and that each expectation has days, findings and a reason.
func (s *Spec) checkContract() error {
	c := &s.Contract
	for _, r := range []struct {
		key  string
		have RangeSpec
	}{{"rows", c.Rows}, {"label", c.Label}} {
		for _, side := range []struct {
			key  string
			have *float64
		}{{"min", r.have.Min}, {"max", r.have.Max}} {
			if x := side.have; x != nil && (math.IsNaN(*x) || math.IsInf(*x, 0)) {
				return s.Errorf("contract."+r.key+"."+side.key, "%s is %v: use a number", side.key, *x)
			}
		}
		if r.have.Min != nil && r.have.Max != nil && *r.have.Min > *r.have.Max {
			return s.Errorf("contract."+r.key, "min %v is above max %v", *r.have.Min, *r.have.Max)
		}
	}

	// The greatest age, the findings that are always allowed, and those that are allowed on some days.
	if c.MaxAge < 0 {
		return s.Errorf("contract.max_age", "max_age is %v: use a duration such as 36h", time.Duration(c.MaxAge))
	}
	if err := s.checkFindings("contract.allow", c.Allow); err != nil {
		return err
	}
	for i, e := range c.Expect {
		at := fmt.Sprintf("contract.expect[%d]", i)
		for _, text := range []string{e.From, cmp.Or(e.To, e.From)} { // without to, the range is one day
			if _, err := time.Parse(time.DateOnly, text); err != nil {
				return s.Errorf(at, "%.40q is not a day: use from: 2026-11-27", strings.ToValidUTF8(text, "?"))
			}
		}
		switch {
		case e.To != "" && e.To < e.From: // days are written so that texts compare as they do
			return s.Errorf(at, "to %s is before from %s", e.To, e.From)
		case e.Why == "" || len(e.Findings) == 0:
			return s.Errorf(at, "give the findings that are expected, such as findings: [rows, label_rate], and why")
		}
		if err := s.checkFindings(at+".findings", e.Findings); err != nil {
			return err
		}
	}
	return nil
}

// checkFindings checks that each text is written as a finding: a code, perhaps with a column. It does not know which
// codes there are.
func (s *Spec) checkFindings(path string, findings []string) error {
	for i, text := range findings {
		if !findingPattern.MatchString(text) {
			return s.Errorf(fmt.Sprintf("%s[%d]", path, i),
				"%q is not a finding: use CODE or CODE:COLUMN, such as drift:price", strings.ToValidUTF8(text, "?"))
		}
	}
	return nil
}
