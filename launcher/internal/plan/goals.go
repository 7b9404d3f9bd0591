package plan

import (
	"fmt"
	"slices"

	"coppice/internal/metric"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// Goal is one of several objectives: a metric, or what is known of every finished trial.
func Goal(name string) (sweep.Goal, error) {
	if slices.Contains(sweep.GoalFacts(), name) {
		return sweep.Goal{Name: name}, nil
	}
	m, err := metric.Lookup(name)
	if err != nil {
		return sweep.Goal{}, fmt.Errorf("%w, and none of %v%s", err, sweep.GoalFacts(),
			strictyaml.Suggest(name, sweep.GoalFacts()))
	}
	if m.Aim != 0 {
		return sweep.Goal{},
			fmt.Errorf("%s is best at %v and neither high nor low: it cannot be one of several objectives; bound it "+
				"with require", name, m.Aim)
	}
	return sweep.Goal{Name: m.Name, Maximize: m.Maximize}, nil
}

// noteGoals says what the sweep is to be good at, and who wins.
func (p *Plan) noteGoals() {
	s := p.Spec
	if len(s.Goals) == 0 {
		return
	}
	names := ""
	for _, g := range s.Goals {
		names += map[bool]string{true: ", high ", false: ", low "}[g.Maximize] + g.Name
	}
	p.Notes = append(p.Notes,
		fmt.Sprintf("objectives: %s; the winner is the best by the others of the trials within %s of the best %s",
			names[2:], s.Pick.Within, s.Pick.Best))
}
