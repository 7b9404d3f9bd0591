package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coppice/internal/strictyaml"
)

// MaxFolds is the most folds: as many as a dataset's fold numbers.
const MaxFolds = 10

// ByGroup keeps the rows of a group in one fold.
const ByGroup = "group"

// Validate says that configurations are evaluated by cross-validation instead of on the valid split.
type Validate struct {
	KFold int    `yaml:"kfold" json:"kfold,omitempty"` // evaluate every fold with a model of the others
	By    string `yaml:"by" json:"by,omitempty"`       // ByGroup, or empty
	// evaluate every fold but the first with a model of the earlier ones, in time
	Forward int `yaml:"forward" json:"forward,omitempty"`
}

// Number returns how many folds the rows are divided into.
func (v *Validate) Number() int { return max(v.KFold, v.Forward) }

// checkValidate checks the key validate: it has either kfold or forward, with a number of folds that is possible, and
// nothing that cannot be combined with it.
func (s *Spec) checkValidate(doc *strictyaml.Document, _ Vocabulary) error {
	v := s.Validate
	switch {
	case v == nil:
		return nil
	case doc.Has("validate.kfold") == doc.Has("validate.forward"):
		return doc.Errorf("validate",
			"validate takes one of kfold and forward: validate: {kfold: 5}, or {forward: 5} where folds follow each "+
				"other in time")
	case doc.Has("validate.kfold") && (v.KFold < 2 || v.KFold > MaxFolds):
		return doc.Errorf("validate.kfold", "kfold is %d: use 2 to %d", v.KFold, MaxFolds)
	case doc.Has("validate.forward") && (v.Forward < 3 || v.Forward > MaxFolds):
		return doc.Errorf("validate.forward",
			"forward is %d: use 3 to %d; the first fold is not rated, and a mean takes two", v.Forward, MaxFolds)
	case v.By != "" && (v.By != ByGroup || v.Forward > 0):
		return doc.Errorf("validate.by", "by is %.40q: with kfold, use group, or leave it out", v.By)

	// What it cannot be combined with.
	case s.Search.Stop != nil:
		return doc.Errorf("validate",
			"validate cannot be combined with search.stop: curves of different folds do not compare; take "+
				"search.stop out. Weak configurations are dropped after their first folds")
	case s.Trials*v.Number() >= MaxTrials: // the refit is one more trial
		return doc.Errorf("trials",
			"%d configurations in %d folds are over %d trials, the most that a sweep can have; use fewer", s.Trials,
			v.Number(), MaxTrials-1)
	}
	return nil
}

// Folds says how the trials of a plan cross-validate. A trial trains one configuration in one round: on some folds of
// train, to be evaluated on others. The last trial is the refit: it trains the best configuration on all rows of train
// and valid.
type Folds struct {
	Scheme string  `json:"scheme"` // kfold, group or forward
	Rounds []Round `json:"rounds"` // in the order of Trial.Fold, from 1

	// First is how many rounds of every configuration are trained before any later round; weak configurations are
	// dropped after them. If it equals the number of rounds, none is dropped.
	First int `json:"first"`
}

// Round says on which rows a fold's model trains, and on which it is evaluated: parts of train, by fold number.
type Round struct {
	Train Rows `json:"train"`
	Rated Rows `json:"rated"`
}

// firstRounds is the number of rounds after which weak configurations are dropped. Fewer differences to the best
// configuration hardly tell a weak one from chance.
const firstRounds = 3

// NewFolds returns folds with these rounds. With drop, weak configurations are dropped after the first rounds, if there
// are others.
func NewFolds(scheme string, rounds []Round, drop bool) *Folds {
	f := &Folds{Scheme: scheme, Rounds: rounds, First: len(rounds)}
	if drop && len(rounds) > firstRounds {
		f.First = firstRounds
	}
	return f
}

// SourceRefit is the source of the trial that trains the best configuration on all rows.
const SourceRefit = "refit"

// SourceFinal is the source of the trial that trains the winner's configuration on the rows of all splits.
const SourceFinal = "final"

// Expand returns the trials for these configurations, numbered in their order: the first rounds of every configuration,
// then the later rounds of every configuration, then the refit.
func (f *Folds) Expand(configurations []Trial) []Trial {
	var out []Trial
	add := func(t Trial) {
		t.Number = len(out)
		out = append(out, t)
	}

	// rounds are the first and the last fold, from 1.
	for _, rounds := range [][2]int{{1, f.First}, {f.First + 1, len(f.Rounds)}} {
		for i, c := range configurations {
			for c.Configuration, c.Fold = i, rounds[0]; c.Fold <= rounds[1]; c.Fold++ {
				add(c)
			}
		}
	}

	add(Trial{Source: SourceRefit, Refit: true})
	return out
}

// WithRefit returns a copy of the plan in which the last trial has these parameters, which the refit has trained; it is
// for display.
func (p *Plan) WithRefit(params Params) *Plan {
	out := *p
	out.Trials = slices.Clone(p.Trials)
	out.Trials[len(out.Trials)-1].Params = params
	return &out
}

// Configurations returns how many configurations the sweep tries. Without folds it is the number of its trials, the
// final training not counted.
func (p *Plan) Configurations() int {
	if p.Folds == nil {
		return len(p.Own())
	}
	return (len(p.Trials) - 1) / len(p.Folds.Rounds)
}

// Decider returns the trial under whose number it is recorded what a trial trains. With folds it is the first fold of
// the trial's configuration, since all folds of a configuration train the same parameters. Otherwise it is the trial
// itself.
func (p *Plan) Decider(trial int) int {
	if t := p.Trials[trial]; p.Folds != nil && !t.Refit {
		return t.Configuration * p.Folds.First
	}
	return trial
}

// Ordinal returns the place of a trial's configuration among those that the sweep tries, from 0.
func (p *Plan) Ordinal(trial int) int {
	if p.Folds != nil {
		return p.Trials[trial].Configuration
	}
	return trial
}

// FirstFolds returns the trials of a configuration's first folds. A search that learns knows a configuration by these
// alone: so all configurations are compared on the same rows, although later folds of some have ended.
func (p *Plan) FirstFolds(configuration int) []Trial {
	return p.Trials[configuration*p.Folds.First : (configuration+1)*p.Folds.First]
}

// SeenConfiguration returns what a search knows about a configuration once its first folds have ended: the mean of
// their scores, under the number of the first trial. results are those of the sweep, by trial. ok is false while one of
// the first folds has no result.
//
// If a fold has ended without a score, the mean of the others cannot be compared, and the configuration counts as
// failed. If the folds without a score were all cancelled by people, it counts as cancelled: nothing is known about it.
func (p *Plan) SeenConfiguration(configuration int, results map[int]Result) (s Seen, ok bool) {
	folds := p.FirstFolds(configuration)
	s = Seen{Trial: folds[0].Number, Status: StatusDone}
	mean := 0.0
	for _, t := range folds {
		r, ended := results[t.Number]
		switch {
		case !ended:
			return Seen{}, false
		case r.Status == StatusDone:
			mean += r.Score / float64(len(folds))
		case s.Status != StatusFailed:
			s.Status = StatusFailed
			if r.Status == StatusCancelled {
				s.Status = StatusCancelled
			}
		}
	}

	if s.Status == StatusDone {
		s.Score = &mean
	}
	return s, true
}

// Stages returns the stage of each trial. A trial may be claimed once all trials of earlier stages have ended. The
// stages are the generations of a population, the steps of a forward selection, or first folds and later folds; a refit
// or final training is in a stage of its own after all others. Only the order of the numbers counts, and some may be
// skipped. It returns nil for a plan that has one stage.
func (p *Plan) Stages() []int {
	// The generations of a population.
	if p.Breeds() {
		stages := make([]int, len(p.Trials))
		for i := range stages {
			stages[i] = p.Generation(i)
		}
		return stages
	}

	// One stage is enough without folds, steps and a final training.
	forward := p.Selects()
	if _, final := p.Final(); p.Folds == nil && !forward && !final {
		return nil
	}

	stages := make([]int, len(p.Trials))
	for i, t := range p.Trials {
		switch {
		case t.Refit && forward: // it is the last trial, so all other stages are set
			stages[i] = slices.Max(stages) + 1
		case t.Refit:
			stages[i] = 2
		case forward: // a step is decided when the one before has ended; listed sets are in stage 0
			stages[i], _, _ = p.Spec.Search.Features.Step(p.Ordinal(i))
		case p.Folds != nil && t.Fold > p.Folds.First:
			stages[i] = 1
		}
	}
	return stages
}

// Selects reports whether the plan's trials are decided in steps, each of which waits for the one before: a selection
// of groups of columns, or a population.
func (p *Plan) Selects() bool { return p.Breeds() || p.Spec.Search.selectsForward() && p.Open() }

// Breeds reports whether the plan trains a population.
func (p *Plan) Breeds() bool { return p.Spec.Search.breeds() }

// AtOnce returns how many of the sweep's trials can be trained at the same time, the final training not counted. In a
// plan whose trials are decided in steps it is the largest number of trials in a stage. With folds it counts them all,
// although the later folds wait for the first ones, and the refit for all others.
func (p *Plan) AtOnce() int {
	if !p.Selects() {
		return len(p.Own())
	}
	count, largest := map[int]int{}, 0 // trials by stage
	for _, stage := range p.Stages() {
		count[stage]++
		largest = max(largest, count[stage])
	}
	return largest
}

// RowsOf returns the rows that a trial trains on, and those that it is evaluated on. rated is nil for the refit, which
// trains on train and valid, and for the final training, which trains on the rows of all splits.
func (p *Plan) RowsOf(trial int) (train []Rows, rated *Rows) {
	switch t := p.Trials[trial]; {
	case t.Refit && p.Folds == nil: // the final training; held-out parts may be of one split
		for _, split := range []string{Train, p.Holdout.Valid.Split, p.Holdout.Calib.Split, p.Holdout.Test.Split} {
			if !slices.ContainsFunc(train, func(r Rows) bool { return r.Split == split }) {
				train = append(train, Rows{Split: split})
			}
		}
		return train, nil
	case p.Folds == nil:
		return []Rows{{Split: Train, Once: p.OneOrder()}}, &p.Holdout.Valid
	case t.Refit:
		return []Rows{{Split: Train}, p.Holdout.Valid}, nil
	default:
		r := &p.Folds.Rounds[t.Fold-1]
		return []Rows{r.Train}, &r.Rated
	}
}

// checkFolds checks the folds of a plan read from outside, as far as later code relies on them. In particular, no model
// may be evaluated on rows that it was trained on. A plan without folds must have no trial of a fold, and a final
// training exactly if its spec says so.
func (p *Plan) checkFolds() error {
	f := p.Folds
	if f == nil {
		final, ok := p.Final()
		if i := slices.IndexFunc(p.Trials, func(t Trial) bool {
			return t.Refit && t.Number != final || t.Fold != 0 || t.Configuration != 0
		}); i >= 0 {
			return fmt.Errorf("trial %d is of a fold, but the plan has none", i)
		}
		// A final training needs another trial that can win, gets its parameters from that, and starts anew.
		impossible := ok && (final == 0 || p.Trials[final].Params != nil || p.Breeds())
		if ok != p.Spec.FinalRows() || impossible {
			return fmt.Errorf("trial %d is a final training that the spec does not have", final)
		}
		return nil
	}

	// The folds themselves, and what excludes them.
	rounds := len(f.Rounds)
	if p.Spec.Validate == nil || rounds < 2 || rounds > MaxFolds || f.First < 1 || f.First > rounds {
		return fmt.Errorf("%d folds, %d of them first", rounds, f.First)
	}
	if p.Spec.Search.Stop != nil {
		return fmt.Errorf("folds in a sweep that stops trials")
	}
	for i, r := range f.Rounds {
		if err := r.check(f.Scheme, p.Spec.Validate); err != nil {
			return fmt.Errorf("fold %d: %w", i+1, err)
		}
	}

	return p.checkFoldTrials()
}

// checkFoldTrials checks that the trials are those that Expand makes of the configurations, in its order, and that a
// configuration has the same parameters in all of its folds. The configurations are taken from the trials of first
// folds.
func (p *Plan) checkFoldTrials() error {
	f, rounds := p.Folds, len(p.Folds.Rounds)
	n := p.Configurations()
	if n < 1 || n*rounds+1 != len(p.Trials) {
		return fmt.Errorf("%d trials of %d folds", len(p.Trials), rounds)
	}

	configurations := make([]Trial, n)
	for i := range configurations {
		configurations[i] = p.Trials[i*f.First]
	}

	for i, want := range f.Expand(configurations) {
		t := p.Trials[i]
		undecided := t.Refit || t.Open // only these have no parameters in the plan
		if t.Configuration != want.Configuration || t.Fold != want.Fold || t.Refit != want.Refit ||
			t.Open != want.Open || undecided != (t.Params == nil) ||
			ConfigurationKey(t.Params) != ConfigurationKey(want.Params) {
			return fmt.Errorf("trial %d is fold %d of configuration %d, where fold %d of configuration %d is expected",
				i, t.Fold, t.Configuration, want.Fold, want.Configuration)
		}
	}
	return nil
}

// check checks that a round trains on some folds of train and is evaluated on others. With forward, whose folds ascend
// with time, all that it trains on must be earlier than all that it is evaluated on.
func (r Round) check(scheme string, v *Validate) error {
	if r.Train.Split != Train || r.Rated.Split != Train || len(r.Train.Folds) == 0 || len(r.Rated.Folds) == 0 {
		return fmt.Errorf("it trains on %s %v and is rated on %s %v", r.Train.Split, r.Train.Folds, r.Rated.Split,
			r.Rated.Folds)
	}
	if i := slices.IndexFunc(r.Train.Folds, func(f uint8) bool { return slices.Contains(r.Rated.Folds, f) }); i >= 0 {
		return fmt.Errorf("rows of fold number %d are trained on and rated", r.Train.Folds[i])
	}
	if v.Forward > 0 && slices.Max(r.Train.Folds) > slices.Min(r.Rated.Folds) {
		return fmt.Errorf("%s: fold number %d is trained on, and fold number %d, which is earlier, is evaluated",
			scheme, slices.Max(r.Train.Folds), slices.Min(r.Rated.Folds))
	}
	return nil
}

// States of a configuration on the board.
const (
	ConfigurationDone    = "done"    // every fold has a score
	ConfigurationOpen    = "open"    // some folds have not ended
	ConfigurationDropped = "dropped" // it was behind after its first folds
	ConfigurationFailed  = "failed"  // a fold has no score, so the mean of the others is not comparable
)

// Rated is a configuration with a summary of its folds' results.
type Rated struct {
	Configuration int        `json:"configuration"`
	State         string     `json:"state"`
	Reason        string     `json:"reason,omitempty"` // why it was dropped or has failed
	Source        string     `json:"source"`
	Params        Params     `json:"params"`
	Trials        []int      `json:"trials"` // of its folds, in order
	Scores        []*float64 `json:"scores"` // of its folds; null for one without
	Folds         int        `json:"folds"`  // number with a score
	Of            int        `json:"of"`

	Mean    *float64           `json:"mean,omitempty"` // over the folds with a score
	SE      *float64           `json:"se,omitempty"`   // standard error of the mean, with two folds or more
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// mean of the folds' best iterations, weighted by the rows trained on, rounded up
	Trees int `json:"trees,omitempty"`
}

// ScoreText returns the mean with its standard error, as people read it, or "-" if there is no mean.
func (c *Rated) ScoreText() string {
	if c.Mean == nil {
		return "-"
	}
	return Score(*c.Mean, orZero(c.SE))
}

// rateConfigurations returns the plan's configurations with a summary of their results, which are given by trial; nil
// for a plan without folds. Configurations whose folds are all done come first, the best mean first and, if means are
// equal, the smaller model. The others follow by state, those with more folds first.
func rateConfigurations(p *Plan, byTrial map[int]*Result) []Rated {
	if p.Folds == nil {
		return nil
	}
	all := make([]Rated, p.Configurations())
	results := make([][]*Result, len(all)) // [configurations x folds]; nil for a fold that has not ended
	for i := range all {
		all[i] = Rated{Configuration: i, Of: len(p.Folds.Rounds), Metrics: map[string]float64{}}
	}

	for _, t := range p.Trials {
		if t.Refit {
			continue
		}
		c, r := &all[t.Configuration], byTrial[t.Number]
		c.Source = t.Source
		if t.Params != nil {
			c.Params = t.Params
		}
		// What an open configuration trains is in every result of it, so that no decision needs to be read.
		if t.Open && c.Params == nil && r != nil {
			c.Params = r.Params
		}
		c.Trials = append(c.Trials, t.Number)
		results[t.Configuration] = append(results[t.Configuration], r)
	}
	for i := range all {
		all[i].addResults(results[i])
	}

	slices.SortStableFunc(all, func(a, b Rated) int {
		if c := cmp.Compare(orderOfState(a.State), orderOfState(b.State)); c != 0 {
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
	return all
}

// orderOfState returns the place of a configuration's state on the board, and the worse the state, the higher it is.
func orderOfState(state string) int {
	return slices.Index([]string{ConfigurationDone, ConfigurationOpen, ConfigurationDropped, ConfigurationFailed},
		state)
}

// addResults sets the state, the scores and their summary from the configuration's results, in the order of the folds;
// nil is a fold that has not ended. c.Metrics must be an empty map, to which it adds the means of the metrics. Trees
// becomes the mean of the folds' best iterations, weighted by the rows that each was trained on.
func (c *Rated) addResults(results []*Result) {
	c.State = ConfigurationDone
	weightedTrees, rows := 0.0, 0.0
	measured := map[string]int{} // in how many folds, by metric
	for _, r := range results {
		if r == nil || r.Status != StatusDone {
			c.Scores = append(c.Scores, nil)
			c.addMissing(r)
			continue
		}
		c.Scores = append(c.Scores, &r.Score)
		c.Folds++
		weightedTrees += float64(r.TrainRows) * float64(r.BestIteration)
		rows += float64(r.TrainRows)
		for name, v := range r.Metrics {
			c.Metrics[name] += v
			measured[name]++
		}
	}
	if c.Folds == 0 {
		c.Metrics = nil
		return
	}

	// A metric that is undefined in some fold, such as auc where one class is missing, has no comparable mean.
	for name, n := range measured {
		c.Metrics[name] /= float64(n)
		if n < c.Folds {
			delete(c.Metrics, name)
		}
	}
	c.Trees = max(1, int(math.Ceil(weightedTrees/rows)))
	c.summarize()
}

// addMissing takes account of a fold without a score, whose result is nil if it has not ended. Of several such folds
// the first that has stopped or failed decides the state and the reason.
func (c *Rated) addMissing(r *Result) {
	switch {
	case r == nil:
		if c.State == ConfigurationDone {
			c.State = ConfigurationOpen
		}
	case orderOfState(c.State) >= orderOfState(ConfigurationDropped):
	case r.Status == StatusStopped:
		c.State, c.Reason = ConfigurationDropped, r.Reason
	default:
		c.State, c.Reason = ConfigurationFailed, r.Reason
	}
}

// summarize sets the mean of the scores, and its standard error if there are two or more. Folds without a score are
// left out; c.Folds is the number of the others.
func (c *Rated) summarize() {
	n, sum := float64(c.Folds), 0.0
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

	squares := 0.0
	for _, s := range c.Scores {
		if s != nil {
			squares += (*s - mean) * (*s - mean)
		}
	}
	c.SE = new(math.Sqrt(squares / (n - 1) / n))
}
