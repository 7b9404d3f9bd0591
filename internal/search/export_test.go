package search

import (
	"cmp"

	"coppice/internal/sweep"
)

// Next proposes the next r.Number trials of a search that has no plan, as the tests here do. Each counts as running for
// those after it. If the space has too few configurations left, the error is returned together with the suggestions
// that could be made.
func Next(r Ask) ([]Suggestion, error) {
	r.Method = cmp.Or(r.Method, sweep.MethodAuto)
	a, err := newAsker(r)
	if err != nil {
		return nil, err
	}

	out, total := make([]Suggestion, 0, r.Number), len(r.Known)+r.Number
	for range r.Number {
		var s *Suggestion
		if a.Method == sweep.MethodAuto {
			s = a.fromPortfolio(total)
		}
		if s == nil {
			s = a.byMethod()
		}
		if s == nil {
			return out, a.exhaustedError()
		}
		s.Trial = a.next
		out = append(out, *s)
		a.remember(sweep.Seen{Trial: s.Trial, Params: s.Params, Status: sweep.StatusRunning})
	}
	return out, nil
}
