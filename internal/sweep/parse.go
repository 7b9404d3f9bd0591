package sweep

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"coppice/internal/strictyaml"
)

// Vocabulary is what the contract does not know and the caller of ParseSpec has to provide: the engines' names. Errors
// say what is wrong and what would be right.
type Vocabulary struct {
	Metric func(name string) error         // is there such a metric?
	Goal   func(name string) (Goal, error) // one of several objectives: a metric, or one of GoalFacts
	// the canonical name of a training parameter; an unknown name unchanged
	ParamName func(name string) string
	// is there such a training parameter, and may it have this value?
	Param func(name string, value any) error
	// this condition on parameters by their canonical names, if it can be evaluated
	Constraint func(expression string) (string, error)
	Require    func(expression string) error // can this condition on results be evaluated?
	// can these be combined? The objective's canonical name
	Objective func(objective string, metric string) (string, error)
	Value     func(metric string, value float64) error  // can the metric have this value?
	Machine   func(machineType string) error            // is there such a machine type?
	LocalSSD  func(machineType string, disks int) error // may it have that many local SSDs?
}

// ParseSpec parses a sweep.yaml. Every error is a *strictyaml.Error that names line and column. Numbers among
// parameters become float64, so that a spec is the same after a round trip through JSON, and names of parameters are
// the canonical ones.
func ParseSpec(file string, data []byte, v Vocabulary) (*Spec, error) {
	var s Spec
	doc, err := strictyaml.Decode(file, data, &s)
	if err != nil {
		return nil, err
	}

	// A written 0 looks like a value left out, so it is refused before defaults are filled in.
	if err := s.refuseZeros(doc); err != nil {
		return nil, err
	}

	// What is checked is what the sweep will run with, defaults included.
	s.searchByDefault(doc, v)
	s.fillDefaults(v)
	s.normalizeNumbers()

	// In the order in which a person should hear of mistakes: each check may rely on those before it.
	for _, check := range []func(*strictyaml.Document, Vocabulary) error{
		// What is sought, and among which configurations.
		s.checkNames, s.checkGoals, s.checkSearch, s.checkFeatures, s.checkMethod, s.checkPopulation, s.checkStop,
		s.checkGiven, s.checkParams,
		// Where, and when it is good enough.
		s.checkMachine, s.checkFallback, s.checkConditions, s.checkGate,
		// What excludes what: these look at all of the above.
		s.checkValidate, s.checkFinal, s.checkEnsemble,
	} {
		if err := check(doc, v); err != nil {
			return nil, err
		}
	}

	// Errors use the names in the file, so the canonical ones come last.
	s.resolveNames(v)
	s.doc = doc
	return &s, nil
}

// refuseZeros refuses a 0 that the file has in place of a number or a duration, where it would silently become the
// default. The error says what to write instead. Numbers whose 0 means something, such as early_stopping_rounds, and
// those whose own check refuses a written 0, such as budget, are not among them.
func (s *Spec) refuseZeros(doc *strictyaml.Document) error {
	for _, path := range []string{"machine.vms", "machine.threads_per_task", "limits.quorum", "search.stop.eta",
		"search.stop.min_trees"} {
		if x, given := doc.Number(path); given && x == 0 {
			return doc.Errorf(path, "%s is 0: use a number above 0, or leave it out for the default", path)
		}
	}

	for _, path := range []string{"machine.tasks_per_vm", "machine.local_ssd"} {
		if x, given := doc.Number(path); given && x == 0 {
			return doc.Errorf(path, "%s is 0: use a number above 0, or auto", path)
		}
	}

	for _, d := range []struct {
		path  string
		value Duration
	}{{"limits.trial", s.Limits.Trial}, {"limits.sweep", s.Limits.Sweep}, {"machine.wait", s.Machine.Wait}} {
		if doc.Has(d.path) && d.value == 0 {
			return doc.Errorf(d.path, "%s is 0s: use a duration such as 90s or 2h, or leave it out for the default",
				d.path)
		}
	}
	return nil
}

// searchByDefault sets the method and the ranges of a spec that asks for several trials but has no search, or one with
// method: auto that names nothing to search. It searches the parameters that matter on most tables, with the method
// that is best on most of them. Parameters that the spec's params set are left out.
func (s *Spec) searchByDefault(doc *strictyaml.Document, v Vocabulary) {
	q := &s.Search
	auto := q.Method == MethodAuto && q.Features == nil && len(q.Fixed)+len(q.Grid)+len(q.Random) == 0
	if doc.Has("search") && !auto || s.Trials < 2 {
		return
	}
	s.Search.Method = MethodAuto
	s.Search.Random = map[string]Distribution{
		"learning_rate":    {LogUniform: []float64{0.03, 0.3}},
		"num_leaves":       {LogInt: []int64{8, 255}},
		"min_data_in_leaf": {LogInt: []int64{5, 500}},
		"feature_fraction": {Uniform: []float64{0.4, 1}},
		"lambda_l2":        {LogUniform: []float64{0.001, 20}},
	}
	for name := range s.Params {
		delete(s.Search.Random, v.ParamName(name))
	}
}

// fillDefaults fills in what the file leaves out. A missing objective is binary, or else the first of the others that
// goes with the metric, such as regression with rmse. Names that turn out not to fit are left for checkNames to refuse.
func (s *Spec) fillDefaults(v Vocabulary) {
	// Of several metrics the first one is the sweep's.
	if len(s.Metrics) > 0 {
		s.Metric = s.Metrics[0]
	}
	if s.Objective == "" {
		s.Objective = "binary"
		_, err := v.Objective(s.Objective, s.Metric)
		for _, name := range []string{"regression", "multiclass"} {
			if _, other := v.Objective(name, s.Metric); err != nil && other == nil {
				s.Objective = name
				break
			}
		}
	}
	if name, err := v.Objective(s.Objective, s.Metric); err == nil {
		s.Objective = name
	}
	s.Model = cmp.Or(s.Model, s.Name)
	s.Search.Stop.fillDefaults()

	// A machine that is described by its size has a custom type, and no Spot price.
	if m := &s.Machine; m.Type == "" && (m.VCPUs != 0 || m.Memory != 0) {
		m.Type, m.Spot = fmt.Sprintf("custom-%d-%d", m.VCPUs, m.Memory<<10), new(false) // in MiB
	}
	s.Machine.Type = cmp.Or(s.Machine.Type, "n2-highmem-8") // which the 12 vCPUs of a new account have room for
	if s.Machine.Spot == nil {
		s.Machine.Spot = new(true)
	}
	if len(s.Machine.Fallback) > 0 && s.Machine.Wait == 0 {
		s.Machine.Wait = Duration(10 * time.Minute)
	}

	s.Machine.VMs, s.Machine.ThreadsPerTask = cmp.Or(s.Machine.VMs, 1), cmp.Or(s.Machine.ThreadsPerTask, 4)

	s.Limits.Trial = cmp.Or(s.Limits.Trial, Duration(2*time.Hour))
	s.Limits.Sweep = cmp.Or(s.Limits.Sweep, Duration(6*time.Hour))
	s.Limits.Quorum = cmp.Or(s.Limits.Quorum, 0.5)

	if g := s.Gate; g != nil {
		g.Against, g.Metric = cmp.Or(g.Against, AgainstChampion), cmp.Or(g.Metric, s.Metric)
	}
}

// normalizeNumbers makes the numbers among parameters float64.
func (s *Spec) normalizeNumbers() {
	all := append([]Params{s.Params}, s.Search.Fixed...)
	for _, params := range all {
		for k, v := range params {
			params[k] = ToFloat(v)
		}
	}

	for _, values := range s.Search.Grid {
		for i, v := range values {
			values[i] = ToFloat(v)
		}
	}

	for _, d := range s.Search.Random {
		for i, v := range d.Choice {
			d.Choice[i] = ToFloat(v)
		}
	}
}

// ToFloat converts every kind of number to float64, as after a round trip through JSON.
func ToFloat(value any) any {
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float() + 0 // turns -0 into 0
	}
	return value
}

// checkNames checks what a spec names: sweep, model, dataset, metric and objective, and that metric and objective go
// together. An error is reported at the key that is in the file.
func (s *Spec) checkNames(doc *strictyaml.Document, v Vocabulary) error {
	if err := CheckName("sweep", s.Name); err != nil {
		return doc.Errorf("name", "%v", err)
	}
	if err := CheckName("model", s.Model); err != nil {
		return doc.Errorf("model", "%v", err)
	}
	if _, _, err := SplitDatasetRef(s.Dataset); err != nil {
		return doc.Errorf("dataset", "%v", err)
	}

	if s.Metric == "" {
		return doc.Errorf("metric", "metric is missing: say what selects the winner on the valid split")
	}
	unknown := v.Metric(s.Metric)
	_, err := v.Objective(s.Objective, s.Metric)
	// Report at the objective, if the file has it, that it is unknown or does not go with the metric. An objective that
	// is not in the file is the default, so it is the metric that does not fit. With an unknown metric alone, both
	// errors are the same, and it is reported at the metric.
	if err != nil && doc.Has("objective") && (unknown == nil || err.Error() != unknown.Error()) {
		return doc.Errorf("objective", "%v", err)
	}
	if err = cmp.Or(unknown, err); err != nil {
		return doc.Errorf("metric", "%v", err)
	}
	return nil
}

// checkSearch checks the number of trials, early_stopping_rounds, and each range of the search by itself. Several
// trials need something that differs between them. A search over sets of features may leave out trials; Trials is then
// set to 0, since the plan counts the sets.
func (s *Spec) checkSearch(doc *strictyaml.Document, _ Vocabulary) error {
	if s.Search.Features != nil && !doc.Has("trials") {
		s.Trials = 0
	} else if !doc.Has("trials") {
		return doc.Errorf("trials", "trials is missing: say how many configurations to train, such as trials: 50")
	} else if s.Trials < 1 || s.Trials > MaxTrials {
		return doc.Errorf("trials", "trials is %d: use 1 to %d", s.Trials, MaxTrials)
	} else if s.Trials > 1 && s.Search.Features == nil && len(s.Search.Fixed)+len(s.Search.Grid)+
		len(s.Search.Random) == 0 {
		return doc.Errorf("trials", "trials is %d, but search says nothing that differs between them, so there is "+
			"one configuration; write trials: 1 or ranges, such as\nsearch: {random: {num_leaves: {log_int: "+
			"[8, 256]}, learning_rate: {log_uniform: [0.02, 0.3]}}}", s.Trials)
	}
	if s.EarlyStoppingRounds < 0 {
		return doc.Errorf("early_stopping_rounds", "early_stopping_rounds is %d: use 0 (never) or more",
			s.EarlyStoppingRounds)
	}

	// Sorted, so that the same one of several wrong names is always reported.
	for _, name := range slices.Sorted(maps.Keys(s.Search.Grid)) {
		if len(s.Search.Grid[name]) == 0 {
			return doc.Errorf("search.grid."+name, "the grid has no value for %s", name)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(s.Search.Random)) {
		if err := s.Search.Random[name].Check(); err != nil {
			return doc.Errorf("search.random."+name, "%s: %v", name, err)
		}
	}

	return nil
}

// checkConditions checks constraints, which it replaces by their canonical form, and requirements.
func (s *Spec) checkConditions(doc *strictyaml.Document, v Vocabulary) error {
	for i, c := range s.Search.Constraints {
		canonical, err := v.Constraint(c)
		if err != nil {
			return doc.Errorf(fmt.Sprintf("search.constraints[%d]", i), "%v", err)
		}
		s.Search.Constraints[i] = canonical
	}

	for i, c := range s.Require {
		if err := v.Require(c); err != nil {
			return doc.Errorf(fmt.Sprintf("require[%d]", i), "%v", err)
		}
	}

	return nil
}

// Params are training parameters by canonical name; numbers are float64, as after a round trip through JSON. ParseSpec
// resolves the aliases that a person may write, so that later code needs only one name.
type Params map[string]any

// reserved parameters have their own key in the spec, so that a sweep cannot contradict itself.
var reserved = map[string]string{
	"objective":             "the spec's key objective",
	"metric":                "the spec's key metric",
	"early_stopping_round":  "the spec's key early_stopping_rounds",
	"early_stopping_rounds": "the spec's key early_stopping_rounds",
	"num_threads":           "the spec's key machine.threads_per_task",
}

// Given is a value that a parameter may get in some trial, and where the spec says so.
type Given struct {
	Section string // params, search.fixed[0], search.grid or search.random
	Path    string // of the value, or of the parameter if it is drawn
	Name    string
	Value   any
}

// Given yields the values that parameters may get in some trial: those under params, then those of the search's fixed
// configurations, grid and ranges. Within a section it goes by name, so that the same one of several mistakes is always
// reported. Of a range it yields the extremes, which stand for all that can be drawn.
func (s *Spec) Given() iter.Seq[Given] {
	return func(yield func(Given) bool) {
		// each yields the values of one parameter, and returns false if no more are wanted. If they are numbered, the
		// path has the value's place in its list.
		each := func(section, name string, values []any, numbered bool) bool {
			for i, value := range values {
				g := Given{Section: section, Path: section + "." + name, Name: name, Value: value}
				if numbered {
					g.Path += fmt.Sprintf("[%d]", i)
				}
				if !yield(g) {
					return false
				}
			}
			return true
		}

		// The first list is params, the others are the fixed configurations.
		lists := append([]Params{s.Params}, s.Search.Fixed...)
		for i, params := range lists {
			section := "params"
			if i > 0 {
				section = fmt.Sprintf("search.fixed[%d]", i-1)
			}
			for _, name := range slices.Sorted(maps.Keys(params)) {
				if !each(section, name, []any{params[name]}, false) {
					return
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Search.Grid)) {
			if !each("search.grid", name, s.Search.Grid[name], true) {
				return
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Search.Random)) {
			if !each("search.random", name, s.Search.Random[name].Extremes(), false) {
				return
			}
		}
	}
}

// checkGiven refuses parameters that a key of the spec sets, and one parameter under two names in the same section.
// Both are recognized under any of a parameter's names.
func (s *Spec) checkGiven(doc *strictyaml.Document, v Vocabulary) error {
	section, written := "", map[string]string{} // by canonical name
	for g := range s.Given() {
		if g.Section != section {
			section, written = g.Section, map[string]string{}
		}
		canonical := v.ParamName(g.Name)
		at := g.Section + "." + g.Name
		switch {
		case reserved[g.Name] != "":
			return doc.Errorf(at, "%s is set by %s; say it there, and take it out here", g.Name, reserved[g.Name])
		case reserved[canonical] != "":
			return doc.Errorf(at, "%s is another name of %s, which is set by %s; say it there, and take it out here",
				g.Name, canonical, reserved[canonical])
		case written[canonical] != "" && written[canonical] != g.Name:
			return givenTwice(doc, section, canonical, written[canonical], g.Name)
		}
		written[canonical] = g.Name
	}
	return nil
}

// checkParams checks every value that a trial could get against the trainer's rules.
func (s *Spec) checkParams(doc *strictyaml.Document, v Vocabulary) error {
	for g := range s.Given() {
		if err := v.Param(g.Name, g.Value); err != nil {
			return doc.Errorf(g.Path, "%v", err)
		}
	}
	return nil
}

// givenTwice returns the error that a section, path, has one parameter under two names. It is reported at the name that
// comes later in the file.
func givenTwice(doc *strictyaml.Document, path, canonical, first, second string) error {
	// Errors without a text, for where the names are.
	a, b := doc.Errorf(path+"."+first, ""), doc.Errorf(path+"."+second, "")
	if b.Line < a.Line || b.Line == a.Line && b.Column < a.Column {
		a, first, second = b, second, first
	}
	return doc.Errorf(path+"."+second, "%s is given twice: here as %s, and as %s in line %d; keep one of them",
		canonical, second, first, a.Line)
}

// resolveNames replaces the names of all parameters by canonical ones. A range that was named by an alias remembers it,
// since its draws depend on the name that the file has.
func (s *Spec) resolveNames(v Vocabulary) {
	s.Params = canonicalKeys(s.Params, v)
	for i, fixed := range s.Search.Fixed {
		s.Search.Fixed[i] = canonicalKeys(fixed, v)
	}
	s.Search.Grid = canonicalKeys(s.Search.Grid, v)

	for name, d := range s.Search.Random {
		if v.ParamName(name) != name {
			d.DrawnAs = name
			s.Search.Random[name] = d
		}
	}
	s.Search.Random = canonicalKeys(s.Search.Random, v)
}

// canonicalKeys returns a copy of a map by parameter with canonical names; nil stays nil.
func canonicalKeys[M ~map[string]V, V any](given M, v Vocabulary) M {
	if given == nil {
		return nil
	}
	out := make(M, len(given))
	for name, value := range given {
		out[v.ParamName(name)] = value
	}
	return out
}
