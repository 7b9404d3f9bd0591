package sweep

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"coppice/internal/strictyaml"
)

// What a sweep does with the model that it continues.
const (
	GrowMode  = "grow"  // every trial adds trees to it
	RefitMode = "refit" // every trial keeps its trees and renews their leaf values
)

// Champion is the version in production, as named in Continue.From.
const Champion = "champion"

// Continue says which registered version of the sweep's model its trials start from.
type Continue struct {
	From string `yaml:"from" json:"from"`           // champion, another alias, or a version's number
	Mode string `yaml:"mode" json:"mode,omitempty"` // grow, the default, or refit
}

// Input is the model that a sweep's trials start from, pinned by its contents.
type Input struct {
	Model   string `json:"model"`
	Version int    `json:"version"`
	Mode    string `json:"mode"`
	Trees   int    `json:"trees"`
	// Cuts is the number of its numerical splits, and Moved how many of them are inside a bin of the sweep's dataset
	// and are moved to its edge.
	Cuts  int `json:"cuts"`
	Moved int `json:"moved"`

	Text    Object `json:"text"`    // LightGBM text
	Dataset Object `json:"dataset"` // manifest of its training dataset
}

// MaxInput bounds the bytes of each object.
const MaxInput = 1 << 30

var numberPattern = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)

func (s *Spec) checkContinue(doc *strictyaml.Document, _ Vocabulary) error {
	c := s.Continue
	if c == nil {
		return nil
	}

	if c.From == "" {
		return doc.Errorf("continue", "from is missing: say which version of model %s to continue, %s or a number",
			s.Model, Champion)
	}
	if !numberPattern.MatchString(c.From) {
		if err := CheckName("alias", c.From); err != nil {
			return doc.Errorf("continue.from", "from %.40q: use %s, another alias, or a version's number", c.From,
				Champion)
		}
	}
	if !slices.Contains([]string{GrowMode, RefitMode}, c.Mode) {
		return doc.Errorf("continue.mode", "mode %.40q: use %s (more trees) or %s (the same trees, new values)", c.Mode,
			GrowMode, RefitMode)
	}
	return nil
}

// check checks what later code relies on.
func (in *Input) check() error {
	if in == nil {
		return nil
	}
	if err := CheckName("model", in.Model); err != nil {
		return err
	}
	if in.Version < 1 || in.Mode != GrowMode && in.Mode != RefitMode {
		return fmt.Errorf("input model version %s, mode %.40q", strconv.Itoa(in.Version), in.Mode)
	}

	for _, o := range []Object{in.Text, in.Dataset} {
		if o.Bytes < 0 || o.Bytes > MaxInput || len(o.SHA256) != 64 {
			return fmt.Errorf("input model object %.200q of %d bytes", o.Name, o.Bytes)
		}
	}

	return nil
}

// Own returns the trials without the final training.
func (p *Plan) Own() []Trial {
	if _, ok := p.Final(); ok {
		return p.Trials[:len(p.Trials)-1]
	}
	return p.Trials
}
