package sweep

import (
	"fmt"
	"slices"

	"coppice/internal/strictyaml"
)

// Defaults and limits of a population.
const (
	usualPopulation = 10
	maxPopulation   = 200
	maxGenerations  = 50 // a result lists the parameters of all that its model goes back to
)

// Origin is the trial whose model a trial of a population continues.
type Origin struct {
	Trial int    `json:"trial"`
	Model Object `json:"model"`

	// Lineage are the space's parameters of all trials that the model goes back to, oldest first, that trial last:
	// training them one after the other makes the model again.
	Lineage []Params `json:"lineage"`
}

// Generation returns which generation of a population a trial belongs to, from 0.
func (p *Plan) Generation(trial int) int { return trial / max(1, p.Spec.Search.Population) }

// breeds reports whether the trials of the search are generations of a population, each of which continues models of
// the one before.
func (s *Search) breeds() bool { return s.Method == MethodPBT }

// checkPopulation checks the settings of population-based training, and fills in defaults.
func (s *Spec) checkPopulation(doc *strictyaml.Document, _ Vocabulary) error {
	q := &s.Search
	if !q.breeds() {
		if doc.Has("search.population") {
			return doc.Errorf("search.population", "search.population is for method: %s", MethodPBT)
		}
		return nil
	}
	if !doc.Has("search.population") {
		q.Population = usualPopulation
	}

	switch {
	case q.Population < 2 || q.Population > maxPopulation:
		return doc.Errorf("search.population", "population is %d: use 2 to %d", q.Population, maxPopulation)
	case s.Trials%q.Population != 0 || s.Trials < 2*q.Population:
		return doc.Errorf("trials",
			"trials is %d: a population of %d takes a multiple of that, and two generations or more", s.Trials,
			q.Population)
	case len(s.Goals) > 0:
		return doc.Errorf("metric", "several objectives cannot go with search.method: %s, which follows one; name one",
			MethodPBT)
	case s.Trials > maxGenerations*q.Population:
		return doc.Errorf("trials", "trials is %d: a population of %d trains at most %d generations", s.Trials,
			q.Population, maxGenerations)
	}
	for _, with := range []string{"search.fixed", "search.grid", "search.stop", "validate", "continue"} {
		if doc.Has(with) {
			return doc.Errorf(with,
				"%s cannot go with search.method: %s, whose trials continue each other's models; take one of them out",
				with, MethodPBT)
		}
	}
	for _, name := range []string{"num_iterations", "max_bin", "boost_from_average", IgnoreColumn} {
		if _, drawn := q.Random[name]; drawn {
			return doc.Errorf("search.random",
				"%s cannot change during a training, so it cannot be searched with method: %s; set it under params",
				name, MethodPBT)
		}
	}
	return nil
}

// checkPopulation checks what later code relies on in a plan that trains a population.
func (p *Plan) checkPopulation() error {
	q := &p.Spec.Search
	if !q.breeds() {
		return nil
	}
	if q.Population < 2 || len(p.Trials)%q.Population != 0 ||
		len(p.Trials) > maxGenerations*q.Population || p.Folds != nil || p.Input != nil || q.Stop != nil ||
		p.Extends != nil {
		return fmt.Errorf("a population of %d in %d trials", q.Population, len(p.Trials))
	}
	if i := slices.IndexFunc(p.Trials, func(t Trial) bool { return !t.Open }); i >= 0 {
		return fmt.Errorf("trial %d of a population stands in the plan", i)
	}
	return nil
}

// check checks an origin read from outside.
func (o *Origin) check(trial int) error {
	if o == nil {
		return nil
	}
	if o.Trial < 0 || o.Trial >= trial || len(o.Lineage) < 1 || len(o.Lineage) > maxGenerations || o.Model.Bytes < 0 ||
		o.Model.Bytes > MaxInput || len(o.Model.SHA256) != 64 {
		return fmt.Errorf("trial %d continues the model of trial %d, the last of %d, of %d bytes", trial, o.Trial,
			len(o.Lineage), o.Model.Bytes)
	}
	return nil
}
