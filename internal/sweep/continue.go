package sweep

import (
	"fmt"
	"regexp"

	"coppice/internal/strictyaml"
)

// Champion is the version in production, as named in Continue.From.
const Champion = "champion"

// Continue says to which registered version of the sweep's model its trials add trees.
type Continue struct {
	From string `yaml:"from" json:"from"` // champion, another alias, or a version's number
}

// Input is the model that a sweep's trials start from, pinned by its contents.
type Input struct {
	Model   string `json:"model"`
	Version int    `json:"version"`
	// Mode is of plans of earlier builds: grow, or refit, whose trials renewed the model's leaves and are not trained.
	Mode  string `json:"mode,omitempty"`
	Trees int    `json:"trees"`
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
	if in.Version < 1 {
		return fmt.Errorf("input model version %d", in.Version)
	}

	for _, o := range []Object{in.Text, in.Dataset} {
		if o.Bytes < 0 || o.Bytes > MaxInput || len(o.SHA256) != 64 {
			return fmt.Errorf("input model object %.200q of %d bytes", o.Name, o.Bytes)
		}
	}

	return nil
}
