package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/strictyaml"
)

// MetricNames is the value of a spec's metric: one name, or a list. In place of a name may be {value: EXPRESSION}.
type MetricNames []string

// UnmarshalYAML accepts a name or a list of names. The error about a mapping says why it is not a valid name, which is
// {value: EXPRESSION}, and not that it is no list.
func (m *MetricNames) UnmarshalYAML(decode func(any) error) error {
	var one metricName
	err := decode(&one)
	if err == nil {
		*m = MetricNames{string(one)}
		return nil
	}
	if decode(&map[string]any{}) == nil { // it is a mapping, and err says what is wrong with it
		return err
	}
	var all []metricName
	err = decode(&all)
	for _, name := range all {
		*m = append(*m, string(name))
	}
	return err
}

type metricName string

// UnmarshalYAML takes a metric's name, or a mapping for a value of the table: {value: EXPRESSION} is value(EXPRESSION).
func (m *metricName) UnmarshalYAML(decode func(any) error) error {
	var own struct {
		Value string `yaml:"value"`
	}
	if decode((*string)(m)) == nil {
		return nil
	}
	err := decode(&own)
	*m = metricName("value(" + own.Value + ")")
	return err
}

// YAMLBare makes a single name a text.
func (MetricNames) YAMLBare() any { return "" }

// Goal is one of several objectives of a sweep.
type Goal struct {
	Name     string `json:"name"` // of a metric, or one of GoalFacts
	Maximize bool   `json:"maximize,omitempty"`
}

// GoalFacts are the goals that are not metrics; lower is better.
func GoalFacts() []string { return []string{"model_bytes", "trees", "leaves", "train_seconds"} }

// Loss converts a value of the goal so that lower is better.
func (g Goal) Loss(value float64) float64 {
	if g.Maximize {
		return -value
	}
	return value
}

// MaxGoals bounds them: with many goals, nearly every trial is better than all others in one.
const MaxGoals = 4

// Pick says which trial of the Pareto front wins.
type Pick struct {
	Best string `yaml:"best" json:"best"` // the most important goal; the spec's metric by default
	// how far from its best value a trial may be: 0.1% of it, 0.002, or 1se; default 1se
	Within string `yaml:"within" json:"within"`
}

// DefaultWithin is one standard error of the best value on valid: a smaller difference may be due to chance.
const DefaultWithin = "1se"

// Tolerance is a Pick's Within as numbers, one of which is set.
type Tolerance struct {
	Share, Absolute, Errors float64
}

// Tolerance parses Within: 0.1% is a share, 1se a number of standard errors, and a number alone a difference. The other
// two fields of the result are 0.
func (p *Pick) Tolerance() (t Tolerance, err error) {
	text, field, scale := p.Within, &t.Absolute, 1.0
	if number, is := strings.CutSuffix(text, "%"); is {
		text, field, scale = number, &t.Share, 0.01
	} else if number, is := strings.CutSuffix(text, "se"); is {
		text, field = number, &t.Errors
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return t, fmt.Errorf("within is %.40q: use a share such as 0.1%%, a difference such as 0.002, or standard "+
			"errors such as 1se", p.Within)
	}
	*field = v * scale
	return t, nil
}

// PicksByError reports whether the winner is picked by a standard error, which every trial then has to measure.
func (s *Spec) PicksByError() bool {
	if s.Pick == nil {
		return false
	}
	t, err := s.Pick.Tolerance()
	return err == nil && t.Errors > 0
}

// checkGoals checks the goals of a sweep with several metrics and sets s.Goals. It also checks how the winner is
// picked, and fills in what the spec leaves out of that. A sweep with one metric must not have pick.
func (s *Spec) checkGoals(doc *strictyaml.Document, v Vocabulary) error {
	if len(s.Metrics) <= 1 {
		if s.Pick != nil {
			return doc.Errorf("pick",
				"pick is for a sweep with several objectives: make metric a list, such as [%s, model_bytes], or "+
					"take pick out", cmp.Or(s.Metric, "auc"))
		}
		return nil
	}

	switch {
	case len(s.Metrics) > MaxGoals:
		return doc.Errorf("metric", "%d objectives: use at most %d", len(s.Metrics), MaxGoals)
	case s.Validate != nil:
		return doc.Errorf("validate", "validate cannot be combined with several objectives: the models of folds are "+
			"not kept; take it out, or use one metric with require")
	}
	for i, name := range s.Metrics {
		path := fmt.Sprintf("metric[%d]", i)
		goal, err := v.Goal(name)
		if err != nil {
			return doc.Errorf(path, "%v", err)
		}
		if slices.ContainsFunc(s.Goals, func(g Goal) bool { return g.Name == goal.Name }) {
			return doc.Errorf(path, "%s is there twice; keep it once", goal.Name)
		}
		s.Goals = append(s.Goals, goal)
	}

	// The most important goal is the first one by default. Only that one has a default tolerance, a standard error,
	// which no other goal has.
	if s.Pick == nil {
		s.Pick = &Pick{}
	}
	s.Pick.Best = cmp.Or(s.Pick.Best, s.Metrics[0])
	if s.Pick.Within == "" && s.Pick.Best != s.Metrics[0] {
		return doc.Errorf("pick",
			"pick.within is missing: say how far from the best %s a winner may be, such as within: 10%%", s.Pick.Best)
	}
	s.Pick.Within = cmp.Or(s.Pick.Within, DefaultWithin)
	i := slices.Index(s.Metrics, s.Pick.Best)
	if i < 0 {
		return doc.Errorf("pick.best", "%.60q is none of metric: %s%s", s.Pick.Best, strings.Join(s.Metrics, ", "),
			strictyaml.Suggest(s.Pick.Best, s.Metrics))
	}
	s.Pick.Best = s.Goals[i].Name

	t, err := s.Pick.Tolerance()
	if err != nil {
		return doc.Errorf("pick.within", "%v", err)
	}
	if t.Errors > 0 && i > 0 {
		return doc.Errorf("pick.within",
			"only the first metric, %s, has a standard error: use a share such as 1%%, or a difference", s.Metrics[0])
	}
	return nil
}

// checkObjectives checks what later code relies on in a plan with several objectives.
func (p *Plan) checkObjectives() error {
	s := &p.Spec
	if len(s.Goals) == 0 {
		return nil
	}
	if len(s.Goals) < 2 || len(s.Goals) > MaxGoals || p.Folds != nil {
		return fmt.Errorf("%d objectives", len(s.Goals))
	}
	if s.Pick == nil || !slices.ContainsFunc(s.Goals, func(g Goal) bool { return g.Name == s.Pick.Best }) {
		return fmt.Errorf("several objectives, and nothing says which of them counts most")
	}
	_, err := s.Pick.Tolerance()
	return err
}

// Facts returns what requirements may refer to: the metrics of a finished trial, by name, and other facts about it,
// such as its trees. The map is the caller's.
func (r *Result) Facts() map[string]float64 {
	facts := maps.Clone(r.Metrics)
	if facts == nil {
		facts = map[string]float64{}
	}

	facts["score"] = r.Score
	facts["trees"] = float64(r.Trees)
	facts["trees_grown"] = float64(r.TreesGrown)
	facts["best_iteration"] = float64(r.BestIteration)
	facts["train_seconds"] = r.Usage.TrainSeconds
	facts["private_bytes"] = float64(r.Usage.PrivateBytes)
	facts["leaves"] = float64(r.Leaves)
	if r.Model != nil {
		facts["model_bytes"] = float64(r.Model.Bytes)
	}
	return facts
}

// Values returns a trial's value in each goal, in the order of s.Goals. It is nil if the trial is not done or one of
// the values is unknown, and for a sweep with one objective.
func (s *Spec) Values(r *Result) []float64 {
	if len(s.Goals) == 0 || r == nil || r.Status != StatusDone {
		return nil
	}
	facts := r.Facts()
	facts[s.Goals[0].Name] = r.Score // which is not the metric's value itself if the metric has a target value
	out := make([]float64, len(s.Goals))
	for i, g := range s.Goals {
		v, known := facts[g.Name]
		if !known || !Finite(v) {
			return nil
		}
		out[i] = v
	}
	return out
}

// Dominates reports whether a trial with the values a, by goal, is at least as good in every goal as one with the
// values b, and better in one.
func (s *Spec) Dominates(a, b []float64) bool {
	better := false
	for i, g := range s.Goals {
		switch x, y := g.Loss(a[i]), g.Loss(b[i]); {
		case x > y:
			return false
		case x < y:
			better = true
		}
	}
	return better
}

// markFront marks the rows of the Pareto front: the trials with values that no other trial dominates. The final
// training is not one of them.
func (b *Board) markFront(s *Spec) {
	values := make([][]float64, len(b.Rows))
	for i, row := range b.Rows {
		if !row.Trial.Refit {
			values[i] = s.Values(row.Result)
		}
	}
	for i := range b.Rows {
		b.Rows[i].Front = values[i] != nil && !slices.ContainsFunc(values, func(other []float64) bool {
			return other != nil && s.Dominates(other, values[i])
		})
	}
}
