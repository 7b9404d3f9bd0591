package sweep

import (
	"cmp"
	"math"
	"slices"
)

// States of a configuration on the board.
const (
	ConfigurationDone    = "done"    // every fold has a score
	ConfigurationOpen    = "open"    // some folds have not ended
	ConfigurationDropped = "dropped" // it was behind after its first folds
	ConfigurationFailed  = "failed"  // a fold has no score, so the mean of the others is not comparable
)

// Rated sums up the folds of a configuration.
type Rated struct {
	Configuration int        `json:"configuration"`
	State         string     `json:"state"`
	Reason        string     `json:"reason,omitempty"` // why it was dropped or has failed
	Source        string     `json:"source"`
	Params        Params     `json:"params"`
	Absent        []string   `json:"absent,omitempty"` // parameters of the search that it lacks
	Trials        []int      `json:"trials"`           // of its folds, in order
	Scores        []*float64 `json:"scores"`           // of its folds; null for one without
	Folds         int        `json:"folds"`            // number with a score
	Of            int        `json:"of"`

	Mean    *float64           `json:"mean,omitempty"` // over the folds with a score
	SE      *float64           `json:"se,omitempty"`   // standard error of the mean, with two folds or more
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// mean of the folds' best iterations, scaled by rows trained on, rounded up
	Trees int `json:"trees,omitempty"`
}

// rated sums up the results of a plan's configurations, best first: done ones by their mean, then others by number of
// folds and by number.
func rated(p *Plan, by map[int]*Result) []Rated {
	if p.Folds == nil {
		return nil
	}
	of := make([]Rated, p.Configurations())
	results, decided := make([][]*Result, len(of)), make([]Params, len(of))
	for i := range of {
		of[i] = Rated{Configuration: i, Of: len(p.Folds.Rounds), Metrics: map[string]float64{}}
	}

	for _, t := range p.Trials {
		if t.Refit {
			continue
		}
		c := &of[t.Configuration]
		c.Source, c.Params, c.Absent = t.Source, t.Params, t.Absent
		if r := by[t.Number]; t.Open && decided[t.Configuration] == nil && r != nil {
			decided[t.Configuration] = r.Params
		}
		c.Trials = append(c.Trials, t.Number)
		results[t.Configuration] = append(results[t.Configuration], by[t.Number])
	}
	for i := range of {
		// A task reads no decisions for this: every fold of an open configuration says what it has trained.
		if of[i].Params == nil {
			of[i].Params = decided[i]
		}
		of[i].fold(results[i])
	}

	slices.SortStableFunc(of, func(a, b Rated) int {
		if c := cmp.Compare(place(a.State), place(b.State)); c != 0 {
			return c
		}
		if a.State != ConfigurationDone {
			return cmp.Or(cmp.Compare(b.Folds, a.Folds), cmp.Compare(a.Configuration, b.Configuration))
		}
		c := cmp.Compare(*a.Mean, *b.Mean)
		if p.Maximize {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.Trees, b.Trees), cmp.Compare(a.Configuration, b.Configuration))
	})
	return of
}

func place(state string) int {
	return slices.Index([]string{ConfigurationDone, ConfigurationOpen, ConfigurationDropped, ConfigurationFailed},
		state)
}

// fold takes the configuration's results, in the order of the folds.
func (c *Rated) fold(results []*Result) {
	c.State = ConfigurationDone
	trees, rows := 0.0, 0.0
	metrics := map[string]int{}
	for _, r := range results {
		switch {
		case r == nil:
			c.Scores = append(c.Scores, nil)
			if c.State == ConfigurationDone {
				c.State = ConfigurationOpen
			}
			continue
		case r.Status != StatusDone:
			c.Scores = append(c.Scores, nil)
			if place(c.State) < place(ConfigurationDropped) { // keep the first reason
				c.State, c.Reason = ConfigurationFailed, r.Reason
				if r.Status == StatusStopped {
					c.State = ConfigurationDropped
				}
			}
			continue
		}

		c.Scores = append(c.Scores, &r.Score)
		c.Folds++
		trees += float64(r.TrainRows) * float64(r.BestIteration)
		rows += float64(r.TrainRows)
		for name, v := range r.Metrics {
			c.Metrics[name] += v
			metrics[name]++
		}
	}
	if c.Folds == 0 {
		c.Metrics = nil
		return
	}

	// A metric that is undefined in some fold has no comparable mean.
	for name, n := range metrics {
		if c.Metrics[name] /= float64(n); n < c.Folds {
			delete(c.Metrics, name)
		}
	}
	c.Trees = max(1, int(math.Ceil(trees/rows)))
	c.summarize()
}

// summarize computes mean and standard error of the scores.
func (c *Rated) summarize() {
	n, sum, squares := float64(c.Folds), 0.0, 0.0
	for _, s := range c.Scores {
		if s != nil {
			sum += *s
		}
	}
	mean := sum / n
	c.Mean = &mean
	if c.Folds < 2 {
		return
	}

	for _, s := range c.Scores {
		if s != nil {
			squares += (*s - mean) * (*s - mean)
		}
	}
	se := math.Sqrt(squares / (n - 1) / n)
	c.SE = &se
}
