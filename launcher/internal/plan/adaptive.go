package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// openTrials decides which of the proposed trials stay in the plan, if the search has a method other than random. Those
// listed by the spec stay. After them come the trials that such a search begins with, which depend on no result:
// winners of earlier sweeps, or a portfolio. The rest is open: the sweep decides its parameters once it has results.
// p.Expected keeps the random draws in the place of open trials. It also sets p.Base and p.Earlier.
func (p *Planned) openTrials(in Inputs) (err error) {
	s := &p.Spec // not in.Spec, which lacks what follows from the dataset, such as num_class
	p.Expected = p.Trials
	if s.Search.Features != nil {
		p.Spec.Trials = len(p.Trials)
		return p.expectFeatures(in.Manifest)
	}
	if s.Search.Method == "" || s.Search.Method == sweep.MethodRandom {
		return nil
	}

	// What a learning search needs in the plan: the parameters around which it searches, the space, earlier results.
	columns := features(in.Manifest)
	if p.Base, err = fit.Complete(s.Base(), nil, columns); err != nil {
		return &search.SpecError{Part: "params", Err: err}
	}
	complete := func(own sweep.Params) (sweep.Params, error) { return fit.Complete(p.Base, own, columns) }
	p.Spec.Search.Random = canonicalChoices(p.Spec.Search.Random, complete)
	if s.Search.WarmStart != "" && in.Earlier != nil {
		if p.Earlier, err = in.Earlier(p.Plan); err != nil {
			return err
		}
	}
	if p.Breeds() {
		return p.populate()
	}
	total, listed := len(p.Trials), p.Proposal.Fixed+p.Proposal.Grid
	if total > sweep.MaxOpen && !s.Search.Listed() {
		return errorf("%d trials: a search that learns takes at most %d", total, sweep.MaxOpen)
	}

	begin, err := search.Begin(p.Plan, p.Trials[:listed], total, complete)
	if err != nil {
		return err
	}

	// The listed trials, those that the search begins with, and open ones. A method whose trials are all known in
	// advance, such as halton, has no open ones, and may have fewer trials than total.
	trials := append(slices.Clone(p.Trials[:listed]), begin...)
	p.Expected = append(slices.Clone(trials), p.Proposal.Trials[len(trials):]...)
	if !s.Search.Listed() {
		for n := len(trials); n < total; n++ {
			trials = append(trials, sweep.Trial{Number: n, Source: s.Search.Method, Open: true})
		}
	}
	p.Trials, p.Expected = trials, p.Expected[:len(trials)]
	if !p.Open() {
		p.Base = nil
	}
	p.noteAdaptive(listed, begin, in.Earlier != nil)
	return nil
}

// canonicalChoices returns a copy of the space whose choices are spelled as in trials' parameters. Otherwise an alias
// of an objective, or a list of columns given as text, would not match values that were tried. complete makes a trial's
// parameters of some; a choice for which it fails, as it cannot be trained by itself, is left unchanged.
func canonicalChoices(random map[string]sweep.Distribution,
	complete func(sweep.Params) (sweep.Params, error)) map[string]sweep.Distribution {
	out := maps.Clone(random)
	for name, d := range out {
		d.Choice = slices.Clone(d.Choice)
		for i, v := range d.Choice {
			if full, err := complete(sweep.Params{name: v}); err == nil {
				d.Choice[i] = full[name]
			}
		}
		out[name] = d
	}
	return out
}

// noteAdaptive adds notes about a search that learns: how many trials it decides later, what earlier sweeps it learns
// from, and which trials start from a winner of these. listed is the number of trials that the spec lists, and begin
// are those after them with which the search begins. earlierRead says whether earlier sweeps were read.
func (p *Planned) noteAdaptive(listed int, begin []sweep.Trial, earlierRead bool) {
	one, it, they := "trial", "it is", "they are"
	if p.Spec.Validate != nil {
		one, it, they = "configuration", "its first fold is", "their first fold is"
	}
	if open := len(p.Trials) - listed - len(begin); p.Open() {
		p.note("%s %s decided when %s claimed (search.method: %s)", english.Plural(open, one, ""),
			english.PluralWord(open, "is", "are"), english.PluralWord(open, it, they), p.Spec.Search.Method)
	}

	switch {
	case p.Spec.Search.WarmStart == "":
	case !earlierRead:
		p.note("warm_start: what earlier sweeps of model %s have found is read when the sweep is started", p.Spec.Model)
	case len(p.Earlier) == 0:
		p.note("warm_start: no earlier sweep of model %s has a result that fits the space", p.Spec.Model)
	}
	for _, e := range p.Earlier {
		p.note("warm_start: %s of %s, on %s", english.Plural(len(e.Trials), "result", ""), e.Sweep, e.Dataset)
	}
	warm := 0
	for _, t := range begin {
		if t.Source == search.SourceWarm {
			p.note("warm_start: %s %d is %s", one, t.Number, t.Reason)
			warm++
		}
	}
	if warm > 0 {
		fresh := len(p.Trials) - listed - warm
		p.note("warm_start: %d of %s %s from an earlier winner, %d %s new", warm,
			english.Plural(len(p.Trials), one, ""), english.PluralWord(warm, "starts", "start"), fresh,
			english.PluralWord(fresh, "is", "are"))
	}
}

// largestConfiguration returns the parameters of a configuration that needs as much memory as any that the search may
// propose. bytes is the memory of a configuration. Starting from the plan's base, each searched parameter in turn takes
// the end of its range that needs the most, given the others.
//
// The effect of a parameter may only show once another has moved: few rows per leaf cost nothing while leaves are few.
// So the parameters are visited until nothing grows, and at least twice. For the same reason a parameter also moves
// where that needs neither more nor less, so that two parameters with a common bound do not block each other.
func largestConfiguration(plan *sweep.Plan, bytes func(gbt.Params) int64) sweep.Params {
	// most is less than any memory before the first call of grows, so that the base itself counts.
	all, most := maps.Clone(plan.Base), int64(-1)

	// grows reports whether all needs no less than the most so far, and raises the most.
	grows := func() bool {
		params, err := gbt.ParseParams(all)
		if err != nil || bytes(params) < most {
			return false
		}
		most = bytes(params)
		return true
	}
	if !grows() { // the base itself cannot be trained
		return all
	}

	names := slices.Sorted(maps.Keys(plan.Spec.Search.Random))
	for pass, before := 0, most; pass < 2 || most > before; pass++ {
		before = most
		for _, name := range names {
			value := all[name]
			for _, v := range plan.Spec.Search.Random[name].Extremes() {
				if all[name] = v; grows() {
					value = v
				}
			}
			all[name] = value
		}
	}
	return all
}

// setRungs completes search.stop, if the spec has it, in a copy: by what trials are compared, and at which rungs.
//
// By rows, they are compared after a whole training on a sample of train. Their one rung is the number of trees that
// costs as much. By trees, they are compared by their scores at several numbers of trees, the rungs, which are the same
// for all trials, however many trees these train.
//
// It rejects a stop at which nothing could be compared. chooses is the metric that chooses the winner.
func (p *Planned) setRungs(chooses metric.Metric, data *dataset.Manifest) error {
	if p.Spec.Search.Stop == nil {
		return nil
	}

	// The most trees of any expected trial. Expected trials have parameters where the plan's are still open.
	stop := *p.Spec.Search.Stop
	most := 0
	for _, t := range p.Expected {
		n, _ := t.Params["num_iterations"].(float64)
		most = max(most, int(n))
	}

	// Fill chooses between rows and trees where the spec leaves it open: the first trees order the rows well before
	// their predictions are good, so it takes trees for a metric that depends on the order alone (RankOnly). By rows it
	// sets the sample and the rung. It returns false if the spec wants rows and the sample would be too small. The
	// sample is of one copy of train, of which random orders of the statistics make several.
	rows := p.Dataset.Rows[sweep.Train] / max(1, data.Copies())
	if !stop.Fill(most, rows, chooses.RankOnly) {
		return errorf("search.stop: by rows, one in %d of %d is too small a sample; lower eta, take by: %s, or "+
			"leave stop out", stop.Eta, rows, sweep.ByTrees)
	}

	compared := fmt.Sprintf("training on one row in %d", stop.OneIn)
	if stop.By == sweep.ByTrees {
		// During a training, trees are judged by the objective's usual metric in place of a value metric (OfRows). So
		// there is no score at a rung by the metric that chooses.
		if chooses.Kind == metric.OfRows {
			return errorf("search.stop: no tree is judged by %s, so trials cannot be compared by %s; take by: %s of a "+
				"larger table, or leave stop out", chooses.Name, sweep.ByTrees, sweep.ByRows)
		}
		if stop.Rungs = search.Rungs(stop.MinTrees, most, stop.Eta); len(stop.Rungs) == 0 {
			return errorf("search.stop: %d trees divided by eta, %d, are fewer than min_trees, %d, so no trial would "+
				"ever be stopped; lower min_trees, raise num_iterations, or leave stop out", most, stop.Eta,
				stop.MinTrees)
		}
		compared = fmt.Sprintf("%v trees", stop.Rungs)
	}
	p.Spec.Search.Stop = &stop
	p.note("search.stop: trials are compared after %s (%s, one in %d continues)", compared, stop.Rule, stop.Eta)
	if stop.Rule == sweep.StopHalving && p.Open() {
		p.note("search.stop: %s compares trials in no order, but method %s proposes them from the results "+
			"of those before; with method %s or %s the whole sweep is the same for any number of tasks",
			sweep.StopHalving, p.Spec.Search.Method, sweep.MethodHalton, sweep.MethodRandom)
	}
	return nil
}

// populate leaves all trials of population-based training open, since they are decided generation by generation. For
// the size of the machines, it sets p.Expected to the proposed trials, which are the random draws of one generation,
// again in each generation. A space with fewer configurations than a population has is an error.
func (p *Planned) populate() error {
	drawn, size := p.Trials, p.Spec.Search.Population
	if len(drawn) < size {
		return errorf("search.random has only %d different configurations for a population of %d; use a smaller "+
			"population, or wider ranges", len(drawn), size)
	}
	p.Trials, p.Expected = nil, nil
	for n := range p.Spec.Trials {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Source: sweep.MethodPBT, Open: true})
		expected := drawn[n%len(drawn)]
		expected.Number = n
		p.Expected = append(p.Expected, expected)
	}
	p.note("search.method: %s: a population of %d in %d generations, each of which continues the models of "+
		"the one before; every trial adds its num_iterations", sweep.MethodPBT, size, len(p.Trials)/size)
	return nil
}

// leafText is about how many bytes a leaf has in a model's text, with its share of the inner nodes.
const leafText = 160

// inputBytes is a trial's memory per byte of a model's text: its trees with the bins of each node.
const inputBytes = 3

// inheritedBytes is the memory of the model that a trial of the last generation continues, if all generations before it
// have grown all of their trees. It is 0 without population-based training. rows are those of train: a tree has no more
// leaves than they fill. A model's text may not be longer than sweep.MaxInput.
func inheritedBytes(plan *sweep.Plan, params gbt.Params, rows int) int64 {
	if !plan.Breeds() {
		return 0
	}
	leaves := int64(min(params.NumLeaves, rows/max(params.MinDataInLeaf, 1)+1))
	trees := int64(plan.Generation(len(plan.Trials)-1)) * int64(params.NumIterations) * int64(max(1, params.NumClass))
	text := trees * leaves * leafText
	return inputBytes * min(text, sweep.MaxInput)
}
