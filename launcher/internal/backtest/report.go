package backtest

// Report is what a backtest found out.
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

// RuleSum is how a rule has done.
type RuleSum struct {
	Name       string  `json:"name"`
	Decisions  int     `json:"decisions"` // nights with a champion to replace
	Promotions int     `json:"promotions"`
	Wrong      int     `json:"wrong"`         // of the promotions, those of a model that was worse on the day after
	Surely     int     `json:"surely_wrong"`  // of those, beyond chance
	Missed     int     `json:"surely_missed"` // models that were better beyond chance on the day after, and not promoted
	Mean       float64 `json:"mean"`          // of its champions' values on the days after
}

// StaleSum is what a model costs that is so many days old.
type StaleSum struct {
	Age    int     `json:"age"`
	Nights int     `json:"nights"`
	Mean   float64 `json:"mean"`   // gain of the fresh model
	Better int     `json:"better"` // nights on which the fresh model was better
	Surely int     `json:"surely_better"`
	Worse  int     `json:"surely_worse"`
}

// sum adds the nights up.
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
