package plan

import (
	"maps"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// numClass is the parameter that follows from the dataset.
const numClass = "num_class"

// withClasses gives the spec the number of the label's classes.
func withClasses(s *sweep.Spec, m *dataset.Manifest) (*sweep.Spec, error) {
	if err := fit.CheckClasses(s.Objective, &m.Label); err != nil {
		return nil, err
	}
	if !gbt.Classes(s.Objective) {
		return s, nil
	}
	n := len(m.Label.Classes)
	if said, ok := s.Params[numClass]; ok && said != float64(n) && said != n {
		return nil, errorf("params.num_class is %v, and the label of dataset %s has %d classes; leave it out", said,
			m.Name, n)
	}
	out := *s
	if out.Params = maps.Clone(s.Params); out.Params == nil {
		out.Params = sweep.Params{}
	}
	out.Params[numClass] = float64(n)
	return &out, nil
}
