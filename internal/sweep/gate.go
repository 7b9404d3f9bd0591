package sweep

import (
	"cmp"
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

// Gate says when a new version becomes the champion. ParseSpec fills in Metric and Against. In the other fields a zero
// value stands for the default, which Gated fills in, so that a plan records of these only what was written.
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

	// Reference is the number of earlier nights on whose rows the models are compared, too; 0 for none. Their labels
	// are those at the time when the version that keeps them was registered, so nothing that happens tonight can
	// change them.
	Reference   *int             `yaml:"reference" json:"nights,omitempty"`
	Calibration *GateCalibration `yaml:"calibration" json:"calibration,omitempty"`

	// MaxShare is the largest share of the first trees' gain that the features of one column may have; 1 allows any.
	MaxShare float64 `yaml:"max_share" json:"max_share,omitempty"`
}

// GateCalibration bounds how far predictions may be from the labels.
type GateCalibration struct {
	// sum of predictions / sum of labels, on tonight's test rows; violated if the whole interval is beyond it
	Ratio []float64 `yaml:"ratio" json:"ratio,omitempty"`
}

// Defaults of a gate; docs/run.md explains them.
const (
	DefaultConfidence      = 0.995
	DefaultMargin          = 0.01 // of the old model's value
	DefaultReferenceNights = 7
	DefaultMaxShare        = 0.9
	MaxReferenceNights     = 30
)

// Gated returns the spec's gate with every default filled in; without a gate in the spec, all are defaults. The spec is
// not changed.
func (s *Spec) Gated() Gate {
	g := Gate{}
	if s.Gate != nil {
		g = *s.Gate
	}
	g.Metric, g.Against = cmp.Or(g.Metric, s.Metric), cmp.Or(g.Against, AgainstChampion)
	g.Promote, g.OnRegret = cmp.Or(g.Promote, PromoteAuto), cmp.Or(g.OnRegret, RegretRollback)
	g.Confidence, g.MaxShare = cmp.Or(g.Confidence, DefaultConfidence), cmp.Or(g.MaxShare, DefaultMaxShare)

	if g.Reference == nil {
		g.Reference = new(DefaultReferenceNights)
	}
	if g.Calibration == nil || g.Calibration.Ratio == nil {
		g.Calibration = &GateCalibration{Ratio: []float64{0.8, 1.25}}
	}
	return g
}

// checkGate checks the key gate, if the spec has it: it refuses unknown words, a margin together with a min_gain, and
// numbers out of range. min_gain may be any number. The metric and against have their defaults by now (fillDefaults);
// what else the file leaves out has a zero value, which is no mistake, and Gated fills it in later.
func (s *Spec) checkGate(doc *strictyaml.Document, v Vocabulary) error {
	g := s.Gate
	if g == nil {
		return nil
	}
	// Words.
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

	// Numbers, as far as the file has them. A written 0 is refused, since it would be taken for the default later.
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
	// A reference of 0 is no default but none: it is a pointer, which is nil where the file leaves it out.
	if g.Reference != nil && (*g.Reference < 0 || *g.Reference > MaxReferenceNights) {
		return doc.Errorf("gate.reference", "reference is %d: use the number of earlier nights, 0 (none) to %d",
			*g.Reference, MaxReferenceNights)
	}
	if c := g.Calibration; c != nil && doc.Has("gate.calibration.ratio") &&
		(len(c.Ratio) != 2 || !(c.Ratio[0] > 0 && c.Ratio[0] < 1 && c.Ratio[1] > 1)) {
		return doc.Errorf("gate.calibration.ratio", "give [low, high] with 0 < low < 1 < high, not %v", c.Ratio)
	}
	return nil
}
