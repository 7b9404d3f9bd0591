package page

import "coppice/internal/page/plot"

// Charts are the page's drawings.
func (s *Sweep) Charts() []*plot.Chart { return s.lay().charts() }
