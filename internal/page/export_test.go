package page

import "coppice/internal/page/plot"

// Charts are the page's drawings.
func (s *Sweep) Charts() []*plot.Chart { return s.layOut().charts() }

// Matter are the parameters that matter beyond chance.
func (s *Sweep) Matter() (names []string) {
	for _, w := range s.order().Weights {
		if w.Share > w.Chance {
			names = append(names, w.Name)
		}
	}
	return names
}
