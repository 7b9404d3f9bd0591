package gbt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Parameter is what a person has to know of one of LightGBM's parameters here.
type Parameter struct {
	Name     string            `json:"name"`
	Aliases  []string          `json:"aliases,omitempty"`
	Standing ParameterStanding `json:"standing"`
	Default  string            `json:"default,omitempty"`
	Range    string            `json:"range,omitempty"` // of a number
	Note     string            `json:"note,omitempty"`  // how it differs, or why it is not there
}

// ParameterStanding is whether a parameter of LightGBM's does here what it does there.
type ParameterStanding string

// How a parameter can stand.
const (
	Same      ParameterStanding = "same"
	Differs   ParameterStanding = "differs"
	Accepted  ParameterStanding = "accepted" // with some or all values, and nothing depends on it
	Refused   ParameterStanding = "refused"
	Elsewhere ParameterStanding = "elsewhere" // another file or flag says it
)

// differing says how a parameter differs from LightGBM's; internal/gbt/DIVERGENCE.md says why. Parameters that are not
// here are the same.
var differing = map[string]string{
	boosting:                   "gbdt, dart or rf; a model is continued by gbdt only",
	sampleStrategy:             "goss weighs drawn rows by their exact share; not with rf or quantiles",
	dropRate:                   noDART + "; other draws, and the constant of boost_from_average is never dropped",
	maxDrop:                    noDART + "; 0 is no limit, as LightGBM's documentation says",
	skipDrop:                   noDART,
	uniformDrop:                noDART,
	xgboostDART:                noDART,
	topRate:                    "refused without goss",
	otherRate:                  "refused without goss",
	"objective":                "a key of sweep.yaml; see objectives in docs/sweep.md",
	"max_bin":                  "255 is as fine as the table was staged; less joins neighbouring bins",
	"feature_fraction":         "other draws; at least one feature",
	"feature_fraction_bynode":  "other draws; at least one feature",
	"bagging_fraction":         "exactly that share of the rows, by other draws",
	posBagging:                 "exactly that share; refused beside bagging_fraction and without bagging_freq",
	negBagging:                 "exactly that share; refused beside bagging_fraction and without bagging_freq",
	"seed":                     "all draws follow from it",
	"early_stopping_round":     "a key of sweep.yaml, early_stopping_rounds; the sweep's metric stops",
	"early_stopping_min_delta": "of the sweep's metric",
	scalePosWeight:             "refused beside is_unbalance, and for other objectives",
	isUnbalance:                "refused beside scale_pos_weight, and for other objectives",
	"extra_trees":              "draws among all thresholds, where LightGBM's bounds are one short",
	pathSmooth:                 "needs min_data_in_leaf of 2 or more, which LightGBM raises; rows are not rounded",
	monotoneConstraints:        "also by name, name:price=1; refused for leaves that are quantiles",
	interactionConstraints:     "also by name, name:[a,b],[c]; features of no group do not take part in draws",
	IgnoreColumn:               "features of the table by number, name or pattern; they stay in the model's list",
	alpha:                      "refused for other objectives; weighted quantiles are not extrapolated",
	fairC:                      "refused for other objectives",
	poissonStep:                "refused for other objectives",
	tweediePower:               "refused for other objectives",
	regSqrt:                    "for objective regression only",
	truncationLevel:            "refused for other objectives",
	rankNorm:                   "refused for other objectives",
	labelGain:                  "a text, \"0,1,3,7\"; refused for other objectives",
	sigmoidFactor:              "for objective lambdarank only; 1 elsewhere",
	byQuery:                    "refused for objectives that do not rank, and without a bagging_fraction",
}

const noDART = "refused without boosting: dart"

// Parameters are all of LightGBM 4's parameters: those that are trained with, in the order of the model file, then the
// others by name.
func Parameters() []Parameter {
	var all []Parameter
	defaults := Defaults().Map()
	for _, s := range paramTable {
		p := Parameter{Name: s.name, Aliases: strings.Fields(s.aliases), Standing: Same,
			Default: fmt.Sprint(defaults[s.name]),
			Note:    differing[s.name]}
		if p.Note != "" {
			p.Standing = Differs
		}
		if _, number := defaults[s.name].(float64); number {
			p.Range = s.bounds()
		}
		all = append(all, p)
	}

	trained := len(all)
	for _, f := range foreignParams {
		p := Parameter{Name: f.name, Aliases: strings.Fields(f.aliases), Standing: Accepted, Note: f.why}
		switch f.fine {
		case "":
			p.Standing = Refused
		case anyValue:
		default:
			p.Range = strings.Join(strings.Fields(f.fine), ", ")
		}
		all = append(all, p)
	}
	for _, f := range elsewhere {
		all = append(all, Parameter{Name: f.name, Aliases: strings.Fields(f.aliases), Standing: Elsewhere, Note: f.why})
	}
	slices.SortFunc(all[trained:], func(a, b Parameter) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Changed returns the names of the parameters that are not at their defaults, sorted. Plans of earlier builds also state
// defaults of parameters that are gone.
func Changed(params map[string]any) []string {
	usual := Defaults().Map()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(params)), func(name string) bool {
		if f := findForeign(name); f != nil {
			return f.check(params[name]) == nil
		}
		return fmt.Sprint(params[name]) == fmt.Sprint(usual[name])
	})
}

// FindParameter finds one by its name or an alias. An error names the most similar.
func FindParameter(name string) (Parameter, error) {
	for _, p := range Parameters() {
		if p.Name == name || slices.Contains(p.Aliases, name) {
			return p, nil
		}
	}
	return Parameter{}, &ParamError{name, "there is no such training parameter" + suggestParam(name)}
}
