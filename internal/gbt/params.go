package gbt

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// Params are the training parameters. Names, meanings and defaults are LightGBM's
// (https://lightgbm.readthedocs.io/en/latest/Parameters.html).
type Params struct {
	Objective             string // one of Objectives
	NumClass              int    // of objectives of several classes; 1 for all others
	NumIterations         int
	LearningRate          float64
	NumLeaves             int
	MaxDepth              int // 0 or less: no limit
	MinDataInLeaf         int
	MinSumHessian         float64
	LambdaL1              float64
	LambdaL2              float64
	MinGainToSplit        float64
	MaxDeltaStep          float64 // bound on a leaf's value before shrinkage; 0 or less: none
	FeatureFraction       float64 // per tree
	FeatureFractionByNode float64 // per node, of the tree's features
	BaggingFraction       float64
	BaggingFreq           int // a new bag every that many trees; 0 disables bagging
	MaxBin                int // may be coarser than the data's bins
	Seed                  uint64
	EarlyStoppingRound    int
	EarlyStoppingDelta    float64
	BoostFromAverage      bool
	ScalePosWeight        float64
	IsUnbalance           bool

	// Parameters that only some objectives use (objectiveSpec.uses).
	Alpha                float64 // huber: the residual from which the loss is absolute; quantile: the quantile
	PoissonMaxDeltaStep  float64
	TweedieVariancePower float64
	RegSqrt              bool // regression: learn the signed square roots of labels
	TruncationLevel      int  // lambdarank: one row of each pair is among this many first places
	LambdarankNorm       bool // lambdarank: queries count alike, whatever their number of pairs
	LabelGain            string
	Sigmoid              float64 // lambdarank

	MaxCatThreshold int     // most categories on the left of a split
	CatSmooth       float64 // categories with fewer rows than this take no part in sorted splits
	CatL2           float64
	MaxCatToOnehot  int // features with up to this many categories split one category from the rest
	MinDataPerGroup int

	ExtraTrees bool // try one random threshold per feature and node

	IgnoreColumn ColumnList // features that never split
}

// Defaults are LightGBM's, except that max_bin's means "as fine as the data".
func Defaults() Params {
	return Params{
		Objective: "binary", NumClass: 1,
		NumIterations: 100, LearningRate: 0.1, NumLeaves: 31, MaxDepth: -1,
		MinDataInLeaf: 20, MinSumHessian: 1e-3,
		FeatureFraction: 1, FeatureFractionByNode: 1, BaggingFraction: 1,
		MaxBin: 255, BoostFromAverage: true, ScalePosWeight: 1,
		MaxCatThreshold: 32, CatSmooth: 10, CatL2: 10, MaxCatToOnehot: 4, MinDataPerGroup: 100,
		Alpha: 0.9, PoissonMaxDeltaStep: 0.7, TweedieVariancePower: 1.5,
		TruncationLevel: 30, LambdarankNorm: true, Sigmoid: 1,
	}
}

// ParamError reports an unknown parameter or an invalid value.
type ParamError struct {
	Name string
	Msg  string
}

func (e *ParamError) Error() string { return e.Name + ": " + e.Msg }

// Kind says that the input is at fault.
func (*ParamError) Kind() problem.Kind { return problem.Input }

var inf = math.Inf(1)

// ParamNames returns the canonical names of all parameters that are trained with, in the order of the model file.
func ParamNames() []string {
	names := make([]string, len(trainedWith))
	for i, s := range trainedWith {
		names[i] = s.name
	}
	return names
}

// is reports whether the parameter, which must be trained with, has any of the traits.
func (s *paramSpec) is(t trait) bool { return s.traits&t != 0 }

// paramWords returns all names and aliases of parameters that are trained with.
func paramWords() []string {
	var words []string
	for _, s := range trainedWith {
		words = append(append(words, s.name), strings.Fields(s.aliases)...)
	}
	return words
}

// findParam returns the parameter with this name or alias if it is trained with, else nil.
func findParam(name string) *paramSpec { return findAmong(0, len(trainedWith), name) }

// findOther returns the parameter with this name or alias if it is one of LightGBM's that is not trained with, else
// nil.
func findOther(name string) *paramSpec { return findAmong(len(trainedWith), len(paramTable), name) }

// findAmong returns the parameter with this name or alias if its row i of paramTable is from <= i < to, else nil.
func findAmong(from, to int, name string) *paramSpec {
	if i, ok := paramIndex()[name]; ok && i >= from && i < to {
		return &paramTable[i]
	}
	return nil
}

// paramIndex returns the row of paramTable for each name and alias.
var paramIndex = sync.OnceValue(func() map[string]int {
	index := map[string]int{}
	for i, s := range slices.Backward(paramTable) { // backward, so that of two rows with a name the first one has it
		for _, name := range append(strings.Fields(s.aliases), s.name) {
			index[name] = i
		}
	}
	return index
})

// suggestParam returns the end of an error message about an unknown key: the canonical name of the most similar
// parameter or, if none is similar, what strictyaml.Suggest says.
func suggestParam(key string) string {
	if s := findParam(strictyaml.Nearest(key, paramWords())); s != nil {
		return fmt.Sprintf(" (did you mean %q?)", s.name)
	}
	return strictyaml.Suggest(key, paramWords())
}

// CanonicalName returns the name that an alias stands for; an unknown name is returned unchanged.
func CanonicalName(name string) string {
	if s := findAmong(0, len(paramTable), name); s != nil {
		return s.name
	}
	return name
}

// ParseParams returns the defaults with the values in m, by parameter name or alias. A value is a bool, a string, or a
// float64, int, int64 or uint64. A parameter of LightGBM that is not trained with is skipped if its value asks for what
// is done anyway (checkFixed). It is an error if a parameter is unknown or named twice, a value is invalid, or two of
// them contradict each other. Errors are *ParamError.
func ParseParams(m map[string]any) (Params, error) {
	p, err := overlay(m)
	if err != nil {
		return p, err
	}
	return p, p.check()
}

// overlay is ParseParams without the check of values against each other.
func overlay(m map[string]any) (Params, error) {
	p := Defaults()
	seen := map[string]string{} // by canonical name, the key of m that it came from

	for _, key := range slices.Sorted(maps.Keys(m)) {
		s := findParam(key)
		if other := findOther(key); other != nil {
			if err := other.checkFixed(m[key]); err != nil {
				return p, &ParamError{key, err.Error()}
			}
			continue // it changes nothing, so a second name of it does no harm
		}
		if s == nil {
			return p, &ParamError{key, "there is no such training parameter" + suggestParam(key)}
		}
		if other := seen[s.name]; other != "" {
			return p, &ParamError{key, fmt.Sprintf("says the same as %s; keep one", other)}
		}
		seen[s.name] = key

		if err := s.setValue(&p, m[key]); err != nil {
			return p, &ParamError{key, err.Error()}
		}
	}
	return p, nil
}

// IsParam reports whether this build knows a training parameter of that name.
func IsParam(name string) bool { return findParam(name) != nil || findOther(name) != nil }

// CheckParam returns a *ParamError if there is no parameter of this name or the value is not valid for it.
func CheckParam(name string, value any) error {
	_, err := overlay(map[string]any{name: value})
	return err
}

// setValue sets the parameter's field of p. An error says what was expected; the field is then undefined.
func (s *paramSpec) setValue(p *Params, value any) error {
	var err error
	var x float64
	switch field := s.field(p).(type) {
	case *string:
		v, ok := value.(string)
		if !ok {
			return fmt.Errorf("expected text, found %s", quoted(value))
		}
		// Two parameters are texts: objective and label_gain.
		if s.name == labelGain {
			*field, err = canonicalGains(v)
		} else {
			*field, err = CanonicalObjective(v)
		}
	case *ColumnList:
		*field, err = s.columns(value)
	case *bool:
		v, ok := value.(bool)
		if !ok {
			return fmt.Errorf("expected true or false, found %s", quoted(value))
		}
		*field = v
	case *float64:
		*field, err = s.number(value)
	case *int:
		x, err = s.whole(value)
		*field = int(max(x, math.MinInt32)) // max_depth has no least value, and int(-1e300) is not defined
	case *uint64: // the seed, which is not negative
		x, err = s.whole(value)
		*field = uint64(x)
	}
	return err
}

// columns returns the value of a parameter that names columns, from a text or the number of a single column.
func (s *paramSpec) columns(value any) (ColumnList, error) {
	text, ok := value.(string)
	if !ok {
		x, err := s.whole(value)
		if err != nil {
			return "", fmt.Errorf("expected columns such as \"0,3\" or \"%sage,price\": %w", byName, err)
		}
		text = strconv.Itoa(int(x))
	}
	return parseColumns(text)
}

// whole is number for a parameter that takes only whole numbers.
func (s *paramSpec) whole(value any) (float64, error) {
	x, err := s.number(value)
	if err == nil && x != math.Trunc(x) {
		err = fmt.Errorf("expected a whole number, found %v", x)
	}
	return x, err
}

// number returns a value of the number types that ParseParams takes as a float64. It is an error if the value has
// another type or is outside the parameter's bounds.
func (s *paramSpec) number(value any) (float64, error) {
	var x float64
	switch v := value.(type) {
	case float64:
		x = v
	case int:
		x = float64(v)
	case int64:
		x = float64(v)
	case uint64:
		x = float64(v)
	default:
		return 0, fmt.Errorf("expected a number, found %s", quoted(value))
	}

	if !(x >= s.low && x <= s.high) || s.is(openLow) && x == s.low {
		return 0, fmt.Errorf("%v is outside %s", x, s.bounds())
	}
	return x, nil
}

// quoted formats a value for messages, so that text that looks like a number can be told from a number.
func quoted(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return strconv.Quote(v)
	}
	return fmt.Sprint(value)
}

// bounds returns the bounds for a message: [low, high], or (low, high] if low itself is not valid.
func (s *paramSpec) bounds() string {
	low := "["
	if s.is(openLow) {
		low = "("
	}
	return fmt.Sprintf("%s%g, %g]", low, s.low, s.high)
}

// Map returns all parameters by canonical name, the defaults included, with numbers as float64. Two configurations are
// the same exactly if their maps are equal. For that, parameters that name columns need ForColumns first.
func (p Params) Map() map[string]any {
	m := make(map[string]any, len(trainedWith))

	for _, s := range trainedWith {
		switch field := s.field(&p).(type) {
		case *string:
			m[s.name] = *field
		case *ColumnList:
			m[s.name] = string(*field)
		case *bool:
			m[s.name] = *field
		case *float64:
			m[s.name] = *field
		case *int:
			m[s.name] = float64(*field)
		case *uint64:
			m[s.name] = float64(*field)
		}
	}

	return m
}

// check returns a *ParamError if two values contradict each other.
func (p *Params) check() error {
	if err := p.checkObjective(); err != nil {
		return err
	}
	if p.IsUnbalance && p.ScalePosWeight != 1 {
		return &ParamError{"is_unbalance", "cannot be combined with scale_pos_weight; keep one"}
	}
	return nil
}

// ShiftsLevel reports whether predicted probabilities are, on average, not those of the labels, because one of two
// classes is weighted up.
func (p *Params) ShiftsLevel() bool {
	return p.IsUnbalance || p.ScalePosWeight != 1
}

// bags reports whether a tree learns from a part of the rows only.
func (p *Params) bags() bool { return p.BaggingFreq > 0 && p.BaggingFraction < 1 }

// draws reports whether trees learn from different rows, features or thresholds, drawn at random.
func (p *Params) draws() bool {
	return p.FeatureFraction < 1 || p.FeatureFractionByNode < 1 ||
		p.ExtraTrees || p.bags()
}

// ForTable checks p and returns ForColumns for the names of these features. Errors are *ParamError.
func (p Params) ForTable(features []Feature) (Params, error) {
	if err := p.check(); err != nil {
		return p, err
	}
	return p.ForColumns(columnNames(features))
}

// forCopies returns p for a table that holds each row this many times (Data.Copies). The least sizes of a leaf and of a
// group of categories are multiplied, so that they apply to original rows. Penalties do not change.
func (p Params) forCopies(copies int) Params {
	n := max(copies, 1)
	for _, s := range trainedWith {
		if !s.is(leastRows) {
			continue
		}
		switch field := s.field(&p).(type) {
		case *int:
			*field *= n
		case *float64:
			*field *= float64(n)
		}
	}
	return p
}

// ForSample returns the parameters for training on a sample of one in `of` rows such that the model is regularised as
// one of all rows would be with p: least sizes and penalties, which are compared with sums over rows, are divided by
// `of`. A least number of rows is rounded down and at least 1, also if it was 0.
func (p Params) ForSample(of int) Params {
	for _, s := range trainedWith {
		if !s.is(leastRows | penalty) {
			continue
		}
		switch field := s.field(&p).(type) {
		case *int:
			*field = max(1, *field/of)
		case *float64:
			*field /= float64(of)
		}
	}
	return p
}
