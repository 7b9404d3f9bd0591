package backtest

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

	Rules []RuleSum  `json:"rules"`
	Ages  []StaleSum `json:"ages"`
}

// RuleSum sums up the decisions of a rule.
type RuleSum struct {
	Name       string  `json:"name"`
	Decisions  int     `json:"decisions"` // nights with a champion to replace
	Promotions int     `json:"promotions"`
	Wrong      int     `json:"wrong"`         // promotions of a model that was worse on the next day
	Surely     int     `json:"surely_wrong"`  // of those, beyond chance
	Missed     int     `json:"surely_missed"` // models not promoted that were better beyond chance on the next day
	Mean       float64 `json:"mean"`          // of its champions' values on the next days
}

// StaleSum is the cost of using a model of a certain age in days.
type StaleSum struct {
	Age    int     `json:"age"`
	Nights int     `json:"nights"`
	Mean   float64 `json:"mean"`   // mean gain of the fresh model
	Better int     `json:"better"` // nights on which the fresh model was better
	Surely int     `json:"surely_better"`
	Worse  int     `json:"surely_worse"`
}

// sum sums up the nights.
func (r *Report) sum() {
	for _, g := range r.Gates {
		s := RuleSum{Name: g.Name}
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
		s := StaleSum{Age: k}
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
