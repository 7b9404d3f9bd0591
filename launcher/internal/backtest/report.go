package backtest

import "coppice/internal/page"

// Report is the result of a backtest.
type Report struct {
	Metric   string  `json:"metric"`
	Maximize bool    `json:"maximize"`
	From     string  `json:"from"`
	To       string  `json:"to"`
	Window   int     `json:"window"`
	Delay    int     `json:"delay"`
	Stale    []int   `json:"stale"`
	Gates    []Gate  `json:"gates"`
	Nights   []Night `json:"nights"`

	Rules []page.BacktestRule `json:"rules"`
	Ages  []page.BacktestAge  `json:"ages"`
}

// sum sums up the nights.
func (r *Report) sum() {
	for _, g := range r.Gates {
		s := page.BacktestRule{Name: g.Name}
		for i := range r.Nights {
			d := r.Nights[i].Rules[g.Name]
			s.Mean += d.Value / float64(len(r.Nights))
			if d.True == nil {
				continue
			}
			s.Decisions++
			switch {
			case d.Promoted:
				s.Promotions++
				if d.True.Gain < 0 {
					s.Wrong++
				}
				if d.True.High < 0 {
					s.Surely++
				}
			case d.True.Low > 0:
				s.Missed++
			}
		}
		r.Rules = append(r.Rules, s)
	}

	for _, k := range r.Stale {
		s := page.BacktestAge{Age: k}
		for i := range r.Nights {
			g := r.Nights[i].Stale[k]
			if g == nil {
				continue
			}
			s.Nights++
			s.Mean += g.Gain
			if g.Gain > 0 {
				s.Better++
			}
			if g.Low > 0 {
				s.Surely++
			}
			if g.High < 0 {
				s.Worse++
			}
		}
		if s.Nights > 0 {
			s.Mean /= float64(s.Nights)
		}
		r.Ages = append(r.Ages, s)
	}
}
