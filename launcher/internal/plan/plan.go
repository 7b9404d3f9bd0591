// Package plan decides everything about a sweep that is decided before the first machine starts: which configurations
// are tried, which held-out rows serve which purpose, how many tasks share a machine. It is pure: a spec and a
// dataset's manifest come in, a plan comes out.
//
//	holdout, check...    which rows select, calibrate and test; what the dataset cannot give
//	propose              configurations: fixed, of a grid, drawn at random, sets of columns
//	adapt                those that a method decides later become open; what it begins with is known
//	climb, validate      rungs at which trials are compared; one trial per fold, and a refit
//	fit                  tasks per machine by memory, for the machine and its fallbacks
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/machines"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// Inputs is what a plan is made of.
type Inputs struct {
	Spec     *sweep.Spec
	Manifest *dataset.Manifest
	ID       sweep.ID // empty makes one of the spec and the dataset
	Job      func(sweep.ID) string
	Now      time.Time
	Version  string // the launcher's
	// Input is the model that the spec continues; nil where there is none.
	Input *Continued
	// Earlier reads what earlier sweeps have found that fits the plan; nil does not look.
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

	// Expected are the trials as far as they are known, and random draws in the place of open ones: what the sweep can
	// be expected to train.
	Expected []sweep.Trial

	bagged bool // the final training is of several models although nobody asked for that
}

// note adds a line for people.
func (p *Planned) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// Build makes the plan. Errors are of kind Input.
func Build(q Inputs) (*Planned, error) {
	s := q.Spec
	m, err := metric.Lookup(s.Metric)
	if err != nil {
		return nil, err
	}
	if s, err = canonical(s, m); err != nil {
		return nil, err
	}
	if s, err = forLabel(s, q.Manifest); err != nil {
		return nil, err
	}

	p := &Planned{}
	holdout, notes, err := holdout(q.Manifest, gbt.Ranks(s.Objective))
	if err != nil {
		return nil, err
	}
	p.Notes = notes
	if err := checkClasses(s, q.Manifest, holdout); err != nil {
		return nil, err
	}
	if err := checkColumns(s, q.Manifest); err != nil {
		return nil, err
	}

	if s, err = resolveFeatures(s, q.Manifest); err != nil {
		return nil, err
	}
	if p.Proposal, err = propose(s, q.Manifest); err != nil {
		return nil, placed(q.Spec, err)
	}
	p.Notes = append(p.Notes, p.Proposal.Notes...)
	for _, params := range append([]sweep.Params{s.Params}, s.Search.Fixed...) {
		p.Notes = append(p.Notes, gbt.NoEffect(params)...)
	}
	if err := checkSearched(s); err != nil {
		return nil, err
	}

	id, err := q.id()
	if err != nil {
		return nil, err
	}
	metrics, err := reported(s, q.Manifest)
	if err != nil {
		return nil, err
	}

	p.Plan = &sweep.Plan{
		Format: sweep.FormatVersion, Sweep: id, Created: q.Now.UTC(), Coppice: q.Version, Job: q.Job(id), Spec: *s,
		Dataset:  reference(q.Manifest),
		Maximize: m.Maximize, Metrics: metrics, Holdout: holdout, Trials: p.Proposal.Trials,
		Skipped:   p.Proposal.Duplicates,
		Heartbeat: sweep.Duration(heartbeat), Takeover: sweep.Duration(takeover),
	}

	if err := p.complete(q, m); err != nil {
		return nil, err
	}

	err = p.fit(q.Spec.Machine, q.Manifest)
	if errors.Is(err, errRefit) && p.WithoutBag() {
		p.Fallback = nil
		err = p.fit(q.Spec.Machine, q.Manifest)
	}
	if s.Final == nil && p.Spec.FinalRows() && errors.Is(err, errRefit) {
		p.withoutFinal(err)
		err = p.fit(q.Spec.Machine, q.Manifest)
	}
	// A caller who compares machines wants the plan, too, when this one is too small.
	if q.Unfit && problem.Is(err, problem.Input) {
		return p, nil
	}
	return p, err
}

// canonical returns the spec with the names of metrics that results and pages have; the sweep's id is of the spec as it
// is written.
func canonical(s *sweep.Spec, m metric.Metric) (*sweep.Spec, error) {
	named := *s
	named.Metric = m.Name
	if s.Gate == nil {
		return &named, nil
	}
	gate := *s.Gate
	name, err := metric.Canonical(gate.Metric)
	gate.Metric, named.Gate = name, &gate
	return &named, err
}

// forLabel returns the spec with what it leaves to the dataset's label, if its objective can learn that.
func forLabel(s *sweep.Spec, m *dataset.Manifest) (*sweep.Spec, error) {
	if s.Objective == "binary" && m.Label.Kind != dataset.Binary {
		return nil, errorf("objective binary needs a label of 0 and 1, but the label of dataset %s is a quantity; "+
			"stage it with positive: or above:, or use objective: regression", m.Name)
	}
	if m.Negatives > 0 && !gbt.LogOdds(s.Objective) {
		return nil, errorf("dataset %s has a sample of its negative rows, which is corrected in log odds, and "+
			"objective %s has none; stage it without sample.negatives", m.Name, s.Objective)
	}
	if err := fit.CheckRanking(s.Objective, m, s.Validate == nil); err != nil {
		return nil, err
	}
	return withClasses(s, m)
}

// complete adds what follows from the spec's trials: the model that they continue, how quickly a lost one is noticed,
// which are decided later, where they are compared, folds, and the final training.
func (p *Planned) complete(q Inputs, m metric.Metric) error {
	s := &p.Spec
	p.begin(q.Input, s, q.Manifest)

	// Where trials are short, a lost one has to be noticed soon.
	if time.Duration(s.Limits.Trial) <= quickTrial {
		p.Heartbeat = sweep.Duration(quickHeartbeat)
		p.Takeover = sweep.Duration(quickTakeover)
	}

	if err := p.adapt(q); err != nil {
		return err
	}
	if err := p.climb(m, q.Manifest); err != nil {
		return err
	}
	if err := p.validate(s.Validate, q.Manifest); err != nil {
		return err
	}
	if err := p.final(q.Manifest); err != nil {
		return err
	}
	if err := p.bag(q.Manifest); err != nil {
		return err
	}

	p.noteGoals()
	if stop, err := m.Stop(s.Objective); err != nil || stop.Name != m.Name {
		p.note("metric: trials stop by %s, and %s chooses among them", stop.Name, m.Name)
	}
	return nil
}

// fit sizes the tasks for the machine as the user has written it and its fallbacks, and writes down how many local SSDs
// they get.
func (p *Planned) fit(m sweep.Machine, d *dataset.Manifest) error {
	on := func(m sweep.Machine) (sweep.Sizing, sweep.Auto, error) {
		t, err := machines.Find(m.Type)
		if err != nil {
			return sweep.Sizing{}, 0, errorf("%v", err)
		}
		need, err := Need(d, p.Plan, p.Expected, m.ThreadsPerTask)
		if err != nil {
			return sweep.Sizing{}, 0, err
		}
		if p.Input != nil {
			need.Trial += inputBytes * p.Input.Text.Bytes
		}
		z, disks, err := Size(m, t, d, p.AtOnce(), need)
		return z, sweep.Auto(disks), err
	}

	var err error
	if p.Sizing, p.Spec.Machine.LocalSSD, err = on(m); err != nil {
		return err
	}

	p.Spec.Machine.Fallback = slices.Clone(m.Fallback)
	for i := range m.Fallback {
		z, disks, err := on(m.Choice(i + 1))
		if err != nil {
			return errorf("machine.fallback[%d]: %v", i, err)
		}
		p.Fallback = append(p.Fallback, z)
		p.Spec.Machine.Fallback[i].LocalSSD = disks
	}
	return nil
}

// errorf is a spec that does not fit its dataset or its machine.
func errorf(format string, args ...any) error { return problem.New(problem.Input, format, args...) }

// propose lists the sweep's trials, before a method that learns opens some of them.
func propose(s *sweep.Spec, m *dataset.Manifest) (search.Proposal, error) {
	if s.Search.Features != nil {
		return proposeFeatures(s, m, s.Trials)
	}
	return search.Propose(request(s, m))
}

// placed is an error about what is searched, at the line of the spec that it is about.
func placed(s *sweep.Spec, err error) error {
	var part interface{ Path() string }
	switch {
	case errors.As(err, &part):
		return s.Errorf(part.Path(), "%v", err)
	case problem.Is(err, problem.Input):
		return s.Errorf("search", "%v", err)
	}
	return err
}

// request asks for trials whose parameters are complete: what the spec sets by keys of its own is among them.
func request(s *sweep.Spec, m *dataset.Manifest) search.Request {
	all := features(m)
	trials := s.Trials
	if s.Search.Method == sweep.MethodPBT { // only its first generation is drawn
		trials = s.Search.Population
	}
	return search.Request{Search: s.Search, Base: s.Base(), Trials: trials, Seed: s.Seed,
		Canonical: func(params map[string]any) (map[string]any, error) { return fit.Complete(params, nil, all) }}
}

// id is the sweep's: the one that was asked for, or else the default.
func (q *Inputs) id() (sweep.ID, error) {
	if q.ID != "" {
		return q.ID, nil
	}
	return defaultID(q.Spec, q.Manifest.Version, q.Input)
}

// defaultID names a sweep after what it does: the same spec on the same data is the same sweep, so that running the
// command again attaches. Going on from another model is another sweep.
func defaultID(s *sweep.Spec, version string, in *Continued) (sweep.ID, error) {
	trained := *s
	trained.Budget, trained.Labels = 0, nil
	input := ""
	if in != nil {
		input = sweepstore.InputObject("", in.Text).SHA256
	}

	data, err := json.Marshal(struct {
		Spec    *sweep.Spec
		Version string
		Input   string `json:",omitempty"`
	}{&trained, version, input})

	if err != nil {
		return "", err
	}

	sum := sha256.Sum256(data)
	return sweep.ID(s.Name + "-" + hex.EncodeToString(sum[:4])), nil
}

// reported are the metrics that every trial is measured by: the usual ones, and those that the spec judges by.
func reported(s *sweep.Spec, d *dataset.Manifest) ([]string, error) {
	var names []string
	add := func(m metric.Metric) {
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	for _, m := range metric.Standard(s.Objective) {
		add(m)
	}

	// What the spec judges by: its metric, the gate's and those in requirements.
	wanted := []string{s.Metric}
	for _, g := range s.Goals {
		if !slices.Contains(sweep.GoalFacts(), g.Name) {
			wanted = append(wanted, g.Name)
		}
	}
	if s.Gate != nil {
		wanted = append(wanted, s.Gate.Metric)
	}
	require, err := search.CompileRequires(s.Require, metric.Canonical)
	if err != nil {
		return nil, err
	}
	for _, c := range require {
		for _, name := range c.Names() {
			if !slices.Contains(search.FactNames(), name) {
				wanted = append(wanted, name)
			}
		}
	}

	for _, name := range wanted {
		m, err := metric.Lookup(name)
		if err != nil {
			return nil, err
		}
		if (m.Kind == metric.Classes) != gbt.Classes(s.Objective) { // others may apply, such as rmse to probabilities
			return nil, errorf("%v", m.CheckObjective(s.Objective))
		}
		if err := fit.CheckValue(m, d); err != nil {
			return nil, err
		}
		add(m)
	}
	return names, nil
}

func reference(m *dataset.Manifest) sweep.DatasetRef {
	ref := sweep.DatasetRef{Name: m.Name, Version: m.Version, Rows: map[string]int{}, Features: len(m.Features),
		Bytes: m.Bytes()}
	for _, s := range m.Splits {
		ref.Rows[s.Name] = s.Rows
	}
	if n := m.Copies(); n > 1 {
		ref.Copies = n
	}
	return ref
}

// holdout assigns the held-out splits. Where calib or test is missing, it is carved out of another by fold number,
// except that an order needs no calib: nothing is calibrated.
func holdout(m *dataset.Manifest, ranks bool) (sweep.Holdout, []string, error) {
	has := func(name string) bool {
		_, ok := m.FindSplit(name)
		return ok
	}

	var h sweep.Holdout
	if !has(sweep.Train) || !has(sweep.Valid) {
		return h, nil, errorf("dataset %s@%s has no %s split: a sweep trains on train and selects on valid; add it "+
			"under split: in its dataset.yaml and stage it again",
			m.Name, m.Version, map[bool]string{true: sweep.Valid, false: sweep.Train}[has(sweep.Train)])
	}
	if m.Sample.Rows == 0 {
		return h, nil, errorf("dataset %s@%s has no sample of raw rows, so no model can be verified; stage it again "+
			"without sample: 0", m.Name, m.Version)
	}

	h = sweep.Holdout{Valid: sweep.Rows{Split: sweep.Valid}, Calib: sweep.Rows{Split: sweep.Calib},
		Test: sweep.Rows{Split: sweep.Test}}
	carved := func(split string, folds ...uint8) sweep.Rows { return sweep.Rows{Split: split, Folds: folds} }
	note := func(what, share, of, purpose string) []string {
		return []string{fmt.Sprintf("dataset %s has no %s split: %s of %s, by fold number, is used for it and no "+
			"longer %s", m.Name, what, share, of, purpose)}
	}

	switch {
	case has(sweep.Calib) && has(sweep.Test):
		return h, nil, nil
	case has(sweep.Test) && ranks:
		h.Calib = h.Valid
		return h, nil, nil
	case has(sweep.Test):
		h.Valid = carved(sweep.Valid, 0, 1, 2, 3, 4, 5, 6)
		h.Calib = carved(sweep.Valid, 7, 8, 9)
		return h, note(sweep.Calib, "30 %", sweep.Valid, "selects"), nil
	case has(sweep.Calib): // the sample of raw rows lies in the last split, and test has to be where the sample is
		h.Calib = carved(sweep.Calib, 0, 1, 2, 3, 4, 5)
		h.Test = carved(sweep.Calib, 6, 7, 8, 9)
		return h, note(sweep.Test, "40 %", sweep.Calib, "calibrates"), nil
	}

	h.Valid = carved(sweep.Valid, 0, 1, 2, 3, 4)
	h.Calib = carved(sweep.Valid, 5, 6, 7)
	h.Test = carved(sweep.Valid, 8, 9)
	return h, note("calib or test", "30 % and 20 %", sweep.Valid, "selects"), nil
}

// Goal is one of several objectives: a metric, or what is known of every finished trial.
func Goal(name string) (sweep.Goal, error) {
	if slices.Contains(sweep.GoalFacts(), name) {
		return sweep.Goal{Name: name}, nil
	}
	m, err := metric.Lookup(name)
	if err != nil {
		return sweep.Goal{}, fmt.Errorf("%w, and none of %v%s", err, sweep.GoalFacts(),
			strictyaml.Suggest(name, sweep.GoalFacts()))
	}
	if m.Aim != 0 {
		return sweep.Goal{},
			fmt.Errorf("%s is best at %v, so it cannot be one of several objectives; bound it with require", name,
				m.Aim)
	}
	return sweep.Goal{Name: m.Name, Maximize: m.Maximize}, nil
}

// noteGoals says what the sweep is to be good at, and who wins.
func (p *Planned) noteGoals() {
	s := p.Spec
	if len(s.Goals) == 0 {
		return
	}
	names := ""
	for _, g := range s.Goals {
		names += map[bool]string{true: ", high ", false: ", low "}[g.Maximize] + g.Name
	}
	p.note("objectives: %s; of the trials within %s of the best %s, the one that is best by the others wins",
		names[2:], s.Pick.Within, s.Pick.Best)
}
