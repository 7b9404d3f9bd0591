package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"coppice/internal/strictyaml"
)

// What a gate compares with.
const (
	AgainstChampion = "champion"
	AgainstNone     = "none"
)

// Who promotes a version that passes the gate.
const (
	PromoteAuto   = "auto"
	PromoteByHand = "by-hand" // a person, who is told that it has passed
	PromoteNever  = "never"   // nobody: versions are registered and compared only
)

// What happens to a champion that turns out to be worse than the one that it replaced.
const (
	RegretRollback = "rollback"
	RegretTell     = "tell"
)

// Gate says when a new version becomes the champion. Zero values stand for the defaults that Gated fills in, so that a
// plan records only what was written.
type Gate struct {
	Metric  string `yaml:"metric" json:"metric"`
	Against string `yaml:"against" json:"against"` // champion or none: then every version passes

	// Promote says who promotes a version that passes: auto, by-hand or never; default auto.
	Promote string `yaml:"promote" json:"promote,omitempty"`
	// OnRegret says what happens to a champion that the next night shows to be worse than the one that it replaced:
	// rollback or tell; default rollback.
	OnRegret string `yaml:"on_regret" json:"on_regret,omitempty"`

	// A new model passes unless it is shown to be worse than Margin allows, in the metric's units; 0 stands for
	// DefaultMargin times the old model's value. With a MinGain it has to be shown to be better by more than that.
	MinGain    *float64 `yaml:"min_gain" json:"min_gain,omitempty"`
	Margin     float64  `yaml:"margin" json:"margin,omitempty"`
	Confidence float64  `yaml:"confidence" json:"confidence,omitempty"`

	Reference   *GateReference   `yaml:"reference" json:"reference,omitempty"`
	Calibration *GateCalibration `yaml:"calibration" json:"calibration,omitempty"`

	// MaxShare is the largest share of the first trees' gain that the features of one column may have; 1 allows any.
	MaxShare float64 `yaml:"max_share" json:"max_share,omitempty"`
}

// GateReference says on which rows of earlier nights the models are compared, and how. Their labels are those at the
// time when the version that keeps them was registered, so nothing that happens tonight can change them.
type GateReference struct {
	Nights *int `yaml:"nights" json:"nights,omitempty"` // how many earlier champions' rows to use; 0 for none
	Rows   int  `yaml:"rows" json:"rows,omitempty"`     // most rows over all of them
	// the new model must not be worse by more than this; if unset, it must not be shown to be worse
	Margin *float64 `yaml:"margin" json:"margin,omitempty"`
}

// GateCalibration bounds how far predictions may be from the labels. A bound is violated if the whole interval is
// beyond it.
type GateCalibration struct {
	// sum of predictions / sum of labels, on tonight's test rows
	Ratio     []float64 `yaml:"ratio" json:"ratio,omitempty"`
	Reference []float64 `yaml:"reference" json:"reference,omitempty"` // the same, on rows of earlier nights
	Segment   []float64 `yaml:"segment" json:"segment,omitempty"`     // the same, in each segment of By
	// columns whose values define segments
	By []string `yaml:"by" json:"by,omitempty"`
	// beyond what chance explains, as a share of the base rate
	ECE               float64 `yaml:"ece" json:"ece,omitempty"`
	NormalizedEntropy float64 `yaml:"normalized_entropy" json:"normalized_entropy,omitempty"`
}

// Defaults of a gate; docs/nights.md explains them.
const (
	DefaultConfidence      = 0.98
	DefaultMargin          = 0.01 // of the old model's value
	DefaultReferenceNights = 7
	DefaultReferenceRows   = 50_000
	DefaultMaxShare        = 0.9
	DefaultECE             = 0.25
	DefaultEntropy         = 1.0
	MaxSegmentColumns      = 4
	MaxReferenceNights     = 30
	MaxReferenceRows       = 1_000_000
)

func defaultRatio() []float64          { return []float64{0.8, 1.25} }
func defaultReferenceRatio() []float64 { return []float64{0.75, 1.3334} }
func defaultSegmentRatio() []float64   { return []float64{0.5, 2} }

// Gated returns the spec's gate with every default filled in, or the default gate.
func (s *Spec) Gated() Gate {
	g := Gate{}
	if s.Gate != nil {
		g = *s.Gate
	}
	g.Metric, g.Against = cmp.Or(g.Metric, s.Metric), cmp.Or(g.Against, AgainstChampion)
	g.Promote, g.OnRegret = cmp.Or(g.Promote, PromoteAuto), cmp.Or(g.OnRegret, RegretRollback)
	g.Confidence, g.MaxShare = cmp.Or(g.Confidence, DefaultConfidence), cmp.Or(g.MaxShare, DefaultMaxShare)

	r := GateReference{}
	if g.Reference != nil {
		r = *g.Reference
	}
	if r.Nights == nil {
		nights := DefaultReferenceNights
		r.Nights = &nights
	}
	r.Rows = cmp.Or(r.Rows, DefaultReferenceRows)
	g.Reference = &r

	c := GateCalibration{}
	if g.Calibration != nil {
		c = *g.Calibration
	}
	for bounds, usual := range map[*[]float64][]float64{&c.Ratio: defaultRatio(), &c.Reference: defaultReferenceRatio(),
		&c.Segment: defaultSegmentRatio()} {
		if *bounds == nil {
			*bounds = usual
		}
	}
	c.ECE, c.NormalizedEntropy = cmp.Or(c.ECE, DefaultECE), cmp.Or(c.NormalizedEntropy, DefaultEntropy)
	g.Calibration = &c
	return g
}

// checkGate checks the settings of promotion.
func (s *Spec) checkGate(doc *strictyaml.Document, v Vocabulary) error {
	g := s.Gate
	if g == nil {
		return nil
	}
	if err := v.Metric(g.Metric); err != nil {
		return doc.Errorf("gate.metric", "%v", err)
	}
	if g.Against != AgainstChampion && g.Against != AgainstNone {
		return doc.Errorf("gate.against", "against %q: use %s or %s", g.Against, AgainstChampion, AgainstNone)
	}
	for _, c := range []struct {
		key, value string
		known      []string
	}{
		{"promote", g.Promote, []string{PromoteAuto, PromoteByHand, PromoteNever}},
		{"on_regret", g.OnRegret, []string{RegretRollback, RegretTell}},
	} {
		if c.value != "" && !slices.Contains(c.known, c.value) {
			return doc.Errorf("gate."+c.key, "%s is %.40q: use %s%s", c.key, c.value, strings.Join(c.known, ", "),
				strictyaml.Suggest(c.value, c.known))
		}
	}
	if g.Margin != 0 && g.MinGain != nil {
		return doc.Errorf("gate.margin",
			"give min_gain (better by more than that) or margin (no worse than that), not both")
	}

	for _, c := range []struct {
		path  string
		value float64
		holds bool
		want  string
	}{
		{"margin", g.Margin, g.Margin > 0, "a number above 0, in the metric's units"},
		{"confidence", g.Confidence, g.Confidence >= 0.6 && g.Confidence <= 0.9999, "0.6 to 0.9999"},
		{"max_share", g.MaxShare, g.MaxShare > 0 && g.MaxShare <= 1, "a share above 0, up to 1, which allows any"},
	} {
		if doc.Has("gate."+c.path) && !c.holds {
			return doc.Errorf("gate."+c.path, "%s is %v: use %s", c.path, c.value, c.want)
		}
	}
	if err := g.Reference.check(doc); err != nil {
		return err
	}
	return g.Calibration.check(doc)
}

func (r *GateReference) check(doc *strictyaml.Document) error {
	switch {
	case r == nil:
	case r.Nights != nil && (*r.Nights < 0 || *r.Nights > MaxReferenceNights):
		return doc.Errorf("gate.reference.nights", "nights is %d: use 0 (none) to %d", *r.Nights, MaxReferenceNights)
	case doc.Has("gate.reference.rows") && (r.Rows < 100 || r.Rows > MaxReferenceRows):
		return doc.Errorf("gate.reference.rows", "rows is %d: use 100 to %d", r.Rows, MaxReferenceRows)
	case r.Margin != nil && !(*r.Margin >= 0):
		return doc.Errorf("gate.reference.margin",
			"margin is %v: use 0 (shown to be better) or more, in the metric's units", *r.Margin)
	}
	return nil
}

func (c *GateCalibration) check(doc *strictyaml.Document) error {
	if c == nil {
		return nil
	}

	for _, b := range []struct {
		path   string
		bounds []float64
	}{{"ratio", c.Ratio}, {"reference", c.Reference}, {"segment", c.Segment}} {
		path := "gate.calibration." + b.path
		if doc.Has(path) && (len(b.bounds) != 2 || !(b.bounds[0] > 0 && b.bounds[0] < 1 && b.bounds[1] > 1)) {
			return doc.Errorf(path, "give [low, high] with 0 < low < 1 < high, not %v", b.bounds)
		}
	}

	for path, value := range map[string]float64{"ece": c.ECE, "normalized_entropy": c.NormalizedEntropy} {
		if path = "gate.calibration." + path; doc.Has(path) && !(value > 0) {
			return doc.Errorf(path, "%v: use a number above 0", value)
		}
	}

	return checkColumns(doc, "gate.calibration.by", c.By)
}

func checkColumns(doc *strictyaml.Document, path string, columns []string) error {
	if len(columns) > MaxSegmentColumns {
		return doc.Errorf(path, "%d columns: use at most %d", len(columns), MaxSegmentColumns)
	}
	for i, name := range columns {
		if name == "" || slices.Contains(columns[:i], name) {
			return doc.Errorf(fmt.Sprintf("%s[%d]", path, i), "column %.60q is empty or named twice", name)
		}
	}
	return nil
}
