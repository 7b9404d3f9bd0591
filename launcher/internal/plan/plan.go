// Package plan decides everything about a sweep that is decided before the first machine starts: which configurations
// are tried, which held-out rows serve which purpose, how many tasks share a machine. It is pure: a spec and a
// dataset's manifest come in, a plan comes out.
//
//	normalise   the spec in the words of the engines and the dataset: metrics, classes, columns
//	validate    what the dataset cannot give; which rows select, calibrate and test (checks.go)
//	propose     configurations: fixed, of a grid, drawn at random
//	complete    which of them a method decides later, where trials are compared (adaptive.go), one trial
//	            per fold, a refit, a final training (folds.go)
//	size        tasks per machine by memory, for the machine and its fallbacks (size.go)
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/machines"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// Inputs is what a plan is made of.
type Inputs struct {
	Spec     *sweep.Spec
	Manifest *dataset.Manifest
	ID       sweep.ID // empty makes one of the spec and the dataset
	Job      func(sweep.ID) string
	Now      time.Time
	Version  string // the launcher's
	// Earlier returns the earlier sweeps that fit the plan, for a warm start; with nil there is none.
	Earlier func(*sweep.Plan) ([]sweep.Earlier, error)
	// Unfit lets a plan be made although its machine cannot run it, for comparing with machines that can; Sizing is
	// then incomplete.
	Unfit bool
}

// Heartbeat and takeover of a sweep: a task that is silent for so long has missed nine beats.
const (
	heartbeat = 10 * time.Second
	takeover  = 90 * time.Second
	// quick sweeps, whose trials may take no longer than quickTrial, beat faster.
	quickTrial     = 10 * time.Minute
	quickHeartbeat = time.Second
	quickTakeover  = 15 * time.Second
)

// Planned is the plan, and what a person should know about how it came about.
type Planned struct {
	*sweep.Plan
	Proposal search.Proposal
	Notes    []string

	// Expected are the trials that the sweep can be expected to train: an open one with the parameters of a random draw
	// or, with search.features, of the first trial.
	Expected []sweep.Trial

	bagged bool // the final training is of several models although nobody asked for that
}

// note adds a line for people.
func (p *Planned) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// Build makes the plan. It changes nothing of its inputs. Errors are of kind Input, except for those of in.Earlier.
func Build(in Inputs) (*Planned, error) {
	// Names come first: all that follows compares metrics, parameters and columns by them.
	s, chooses, err := normalise(in.Spec, in.Manifest)
	if err != nil {
		return nil, err
	}

	// What the dataset cannot give is said now, and not hours later, when all trials have been trained.
	p := &Planned{}
	holdout, metrics, err := p.validate(s, in.Manifest)
	if err != nil {
		return nil, err
	}

	if err := p.propose(in, s); err != nil {
		return nil, err
	}
	id, err := in.chooseID()
	if err != nil {
		return nil, err
	}
	p.Plan = &sweep.Plan{
		Format: sweep.FormatVersion, Sweep: id, Created: in.Now.UTC(), Coppice: in.Version, Job: in.Job(id), Spec: *s,
		Dataset: datasetRef(in.Manifest), Maximize: chooses.Maximize, Metrics: metrics, Holdout: holdout,
		Trials: p.Proposal.Trials, Skipped: p.Proposal.Duplicates,
		Heartbeat: sweep.Duration(heartbeat), Takeover: sweep.Duration(takeover),
	}
	if err := p.complete(in, chooses); err != nil {
		return nil, err
	}

	// Memory depends on all trials, open ones, folds and the final training, so tasks are sized last. A caller who
	// compares machines wants the plan, too, when this one is too small.
	err = p.sizeTasks(in)
	if err != nil && !(in.Unfit && problem.Is(err, problem.Input)) {
		return nil, err
	}
	return p, nil
}

// normalise returns a copy of the spec with canonical names of metrics, as results and pages have them, and with what
// the spec leaves to the dataset: the number of classes, and the columns of search.features. It rejects a spec whose
// objective or columns do not fit the dataset. chooses is the metric that chooses the winner. The sweep's id is made of
// the spec as it was written, not of this copy.
func normalise(spec *sweep.Spec, data *dataset.Manifest) (_ *sweep.Spec, chooses metric.Metric, err error) {
	s := *spec
	if chooses, err = metric.Lookup(s.Metric); err != nil {
		return nil, chooses, err
	}
	s.Metric = chooses.Name
	if s.Gate != nil {
		gate := *s.Gate
		if gate.Metric, err = metric.Canonical(gate.Metric); err != nil {
			return nil, chooses, err
		}
		s.Gate = &gate
	}

	// The objective has to fit the label before its classes can be counted, and columns to exist before they are
	// grouped.
	if err := checkLabel(&s, data); err != nil {
		return nil, chooses, err
	}
	if s.Params, err = withClasses(&s, data); err != nil {
		return nil, chooses, err
	}
	if err := checkColumns(&s, data); err != nil {
		return nil, chooses, err
	}
	s.Search.Features, err = resolveFeatures(&s, data)
	return &s, chooses, err
}

// propose sets p.Proposal: the sweep's trials with the parameters of a fixed list, a grid, random draws or sets of
// columns. Where the search has a method that learns, openTrials leaves some of them open later. It also adds notes,
// and rejects a search over parameters without effect.
func (p *Planned) propose(in Inputs, spec *sweep.Spec) (err error) {
	if spec.Search.Features != nil {
		p.Proposal, err = proposeFeatures(spec, in.Manifest, spec.Trials)
	} else {
		p.Proposal, err = search.Propose(newRequest(spec, in.Manifest))
	}
	if err != nil {
		return errorAtLine(in.Spec, err)
	}
	p.Notes = append(p.Notes, p.Proposal.Notes...)
	for _, params := range append([]sweep.Params{spec.Params}, spec.Search.Fixed...) {
		p.Notes = append(p.Notes, gbt.NoEffect(params)...)
	}
	return checkSearched(spec)
}

// newRequest returns the request for the spec's trials. Their parameters are completed by the defaults and by what the
// spec sets by keys of its own, such as seed.
func newRequest(spec *sweep.Spec, data *dataset.Manifest) search.Request {
	columns, trials := features(data), spec.Trials
	if spec.Search.Method == sweep.MethodPBT { // only its first generation is drawn
		trials = spec.Search.Population
	}
	return search.Request{Search: spec.Search, Base: spec.Base(), Trials: trials, Seed: spec.Seed,
		Canonical: func(params map[string]any) (map[string]any, error) { return fit.Complete(params, nil, columns) }}
}

// errorAtLine returns err with the line of the spec that it is about: that of the part that it names (Path), else, if
// it is of kind Input, that of search. Other errors are returned as they are.
func errorAtLine(spec *sweep.Spec, err error) error {
	var part interface{ Path() string }
	switch {
	case errors.As(err, &part):
		return spec.Errorf(part.Path(), "%v", err)
	case problem.Is(err, problem.Input):
		return spec.Errorf("search", "%v", err)
	}
	return err
}

// complete adds to the plan what follows from its trials: how quickly a lost one is noticed, which are left open, where
// they are compared, folds, the final training and its bag. The order matters: folds multiply the trials that are
// there, and the final training comes after all of them. chooses is the metric that chooses the winner.
func (p *Planned) complete(in Inputs, chooses metric.Metric) error {
	s := &p.Spec

	// Where trials are short, a lost one has to be noticed soon.
	if time.Duration(s.Limits.Trial) <= quickTrial {
		p.Heartbeat, p.Takeover = sweep.Duration(quickHeartbeat), sweep.Duration(quickTakeover)
	}
	if err := p.openTrials(in); err != nil {
		return err
	}
	if err := p.setRungs(chooses, in.Manifest); err != nil {
		return err
	}
	if err := p.crossValidate(s.Validate, in.Manifest); err != nil {
		return err
	}
	if err := p.addFinal(in.Manifest); err != nil {
		return err
	}
	if err := p.makeBag(in.Manifest); err != nil {
		return err
	}

	p.noteGoals()
	// A value metric chooses, but trials stop early by the usual metric of the objective.
	if stop, err := chooses.Stop(s.Objective); err != nil || stop.Name != chooses.Name {
		p.note("metric: trials stop by %s, and %s chooses among them", stop.Name, chooses.Name)
	}
	return nil
}

// sizeTasks sets the plan's Sizing and Fallback. If the final training does not fit the machine, what the spec did not
// ask for is taken out of the plan: first the bag, whose models are in memory at once, then the whole final training,
// without which the winner is registered as it is. A bag that the spec asks for needs the final training, so that stays
// then, and the error is returned.
func (p *Planned) sizeTasks(in Inputs) error {
	err := p.sizeFor(in.Spec.Machine, in.Manifest)
	if errors.Is(err, errRefit) && p.WithoutBag() {
		err = p.sizeFor(in.Spec.Machine, in.Manifest)
	}
	if bag := in.Spec.Ensemble; errors.Is(err, errRefit) && bag != nil && bag.Bag > 1 {
		return errorf("ensemble.bag is %d: %v; or ask for fewer models", bag.Bag, err)
	}
	if errors.Is(err, errRefit) && in.Spec.Final == nil && p.Spec.FinalRows() {
		p.withoutFinal(err)
		err = p.sizeFor(in.Spec.Machine, in.Manifest)
	}
	return err
}

// sizeFor sizes the tasks for the machine, as the user has written it, and for its fallbacks. It sets p.Sizing and
// p.Fallback, and in p.Spec how many local SSDs each machine gets.
func (p *Planned) sizeFor(machine sweep.Machine, data *dataset.Manifest) (err error) {
	if p.Sizing, p.Spec.Machine.LocalSSD, err = p.sizeOn(machine, data); err != nil {
		return err
	}
	p.Fallback, p.Spec.Machine.Fallback = nil, slices.Clone(machine.Fallback)
	for i := range machine.Fallback {
		z, disks, err := p.sizeOn(machine.Choice(i+1), data)
		if err != nil {
			return errorf("machine.fallback[%d]: %v", i, err)
		}
		p.Fallback = append(p.Fallback, z)
		p.Spec.Machine.Fallback[i].LocalSSD = disks
	}
	return nil
}

// sizeOn sizes the plan for a machine: tasks, memory and the number of local SSDs. An error says why no trial fits it.
func (p *Planned) sizeOn(machine sweep.Machine, data *dataset.Manifest) (sweep.Sizing, sweep.Auto, error) {
	t, err := machines.Find(machine.Type)
	if err != nil {
		return sweep.Sizing{}, 0, errorf("%v", err)
	}
	memory, err := Need(data, p.Plan, p.Expected, machine.ThreadsPerTask)
	if err != nil {
		return sweep.Sizing{}, 0, err
	}
	z, disks, err := Size(SizeRequest{machine, t, data.Bytes(), p.AtOnce(), memory})
	return z, sweep.Auto(disks), err
}

// errorf returns an error of kind Input: the spec does not fit its dataset or its machine.
func errorf(format string, args ...any) error { return problem.New(problem.Input, format, args...) }

// chooseID returns the sweep's id: in.ID if that is given, else the spec's name with a hash of the spec and the
// dataset's version. So the same command on the same data finds the sweep that it has started before. Budget and labels
// are not in the hash, since they do not change what is trained.
func (in *Inputs) chooseID() (sweep.ID, error) {
	if in.ID != "" {
		return in.ID, nil
	}
	trained := *in.Spec
	trained.Budget, trained.Labels = 0, nil
	named := struct {
		Spec    *sweep.Spec
		Version string
	}{Spec: &trained, Version: in.Manifest.Version}
	data, err := json.Marshal(named)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return sweep.ID(in.Spec.Name + "-" + hex.EncodeToString(sum[:4])), nil
}

// datasetRef returns what a plan says of its dataset. Copies is left at 0 if train has each row once, so that the bytes
// of such a plan stay those from before there were copies.
func datasetRef(data *dataset.Manifest) sweep.DatasetRef {
	ref := sweep.DatasetRef{Name: data.Name, Version: data.Version, Rows: map[string]int{},
		Features: len(data.Features), Bytes: data.Bytes()}
	for _, s := range data.Splits {
		ref.Rows[s.Name] = s.Rows
	}
	if n := data.Copies(); n > 1 {
		ref.Copies = n
	}
	return ref
}

// noteGoals adds a note about a sweep with several objectives: which they are, and how the winner is chosen.
func (p *Planned) noteGoals() {
	s := p.Spec
	if len(s.Goals) == 0 {
		return
	}
	var names []string // such as "high auc"
	for _, g := range s.Goals {
		aim := "low "
		if g.Maximize {
			aim = "high "
		}
		names = append(names, aim+g.Name)
	}
	p.note("objectives: %s; of the trials within %s of the best %s, the one that is best by the others wins",
		strings.Join(names, ", "), s.Pick.Within, s.Pick.Best)
}
