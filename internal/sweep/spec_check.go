package sweep

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

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
	if err := v.Metric(s.Metric); err != nil {
		return doc.Errorf("metric", "%v", err)
	}

	if _, err := v.Objective(s.Objective, s.Metric); err != nil {
		// A default is nowhere in the file: then it is the metric that does not fit.
		if doc.Has("objective") {
			return doc.Errorf("objective", "%v", err)
		}
		return doc.Errorf("metric", "%v", err)
	}

	return nil
}

// SplitDatasetRef splits NAME or NAME@VERSION; the version is empty for the latest.
func SplitDatasetRef(ref string) (name, version string, err error) {
	name, version, pinned := strings.Cut(ref, "@")
	if err := CheckName("dataset", name); err != nil {
		return "", "", err
	}
	if pinned && !versionPattern.MatchString(version) {
		return "", "", problem.New(problem.Input, "dataset version %.60q: use the %d hexadecimal digits that "+
			"`launcher stage` prints",
			version, versionDigits)
	}
	return name, version, nil
}

// SplitModelRef splits MODEL, MODEL@VERSION or MODEL@ALIAS; ref is empty for the first.
func SplitModelRef(arg string) (model, ref string, err error) {
	model, ref, pinned := strings.Cut(arg, "@")
	if err := CheckName("model", model); err != nil {
		return "", "", err
	}
	if pinned && ref == "" {
		return "", "", problem.New(problem.Usage, "%q: expected MODEL, MODEL@VERSION or MODEL@ALIAS", arg)
	}
	return model, ref, nil
}

func (s *Spec) checkSearch(doc *strictyaml.Document, _ Vocabulary) error {
	if s.Search.Features != nil && !doc.Has("trials") {
		s.Trials = 0 // the plan counts them
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

// Check checks that exactly one form is given, with valid bounds.
func (d Distribution) Check() error {
	forms := 0
	for _, given := range []bool{d.Uniform != nil, d.LogUniform != nil, d.Int != nil, d.LogInt != nil, d.Step != nil,
		d.Choice != nil} {
		if given {
			forms++
		}
	}
	if forms != 1 {
		return fmt.Errorf("give one of uniform, log_uniform, int, log_int, step and choice, not %d", forms)
	}

	switch {
	case d.Uniform != nil:
		return checkBounds(d.Uniform, false)
	case d.LogUniform != nil:
		return checkBounds(d.LogUniform, true)
	case d.Int != nil:
		return checkBounds(d.Int, false)
	case d.LogInt != nil:
		return checkBounds(d.LogInt, true)
	case d.Step != nil:
		if len(d.Step) != 3 || !(d.Step[0] <= d.Step[1]) || !(d.Step[2] > 0) {
			return fmt.Errorf("step takes [low, high, step] with low <= high and step > 0, not %v", d.Step)
		}
		if (d.Step[1]-d.Step[0])/d.Step[2] > 1e6 {
			return fmt.Errorf("step %v gives over a million values", d.Step)
		}
	case len(d.Choice) == 0:
		return fmt.Errorf("choice is empty")
	}

	return nil
}

func checkBounds[T int64 | float64](b []T, positive bool) error {
	if len(b) != 2 || !(b[0] < b[1]) {
		return fmt.Errorf("give [low, high] with low < high, not %v", b)
	}
	if positive && !(b[0] > 0) {
		return fmt.Errorf("a logarithmic range has to start above 0, not at %v", b[0])
	}
	return nil
}

// checkParams checks every value that a trial could get against the trainer's rules.
func (s *Spec) checkParams(doc *strictyaml.Document, v Vocabulary) error {
	check := func(path, name string, value any) error {
		if err := v.Param(name, value); err != nil {
			return doc.Errorf(path, "%v", err)
		}
		return nil
	}

	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		if err := check("params."+name, name, s.Params[name]); err != nil {
			return err
		}
	}

	for i, fixed := range s.Search.Fixed {
		for _, name := range slices.Sorted(maps.Keys(fixed)) {
			if err := check(fmt.Sprintf("search.fixed[%d].%s", i, name), name, fixed[name]); err != nil {
				return err
			}
		}
	}

	for _, name := range slices.Sorted(maps.Keys(s.Search.Grid)) {
		for i, value := range s.Search.Grid[name] {
			if err := check(fmt.Sprintf("search.grid.%s[%d]", name, i), name, value); err != nil {
				return err
			}
		}
	}

	// The extreme values represent everything that can be drawn.
	for _, name := range slices.Sorted(maps.Keys(s.Search.Random)) {
		for _, value := range s.Search.Random[name].Extremes() {
			if err := check("search.random."+name, name, value); err != nil {
				return err
			}
		}
	}

	return nil
}

// Extremes returns the values that bound what d can draw: every choice, or both ends of a range and, if d draws
// fractions, a fraction in between: a parameter may accept only whole numbers.
func (d Distribution) Extremes() []any {
	switch {
	case d.Choice != nil:
		return d.Choice
	case d.Step != nil:
		return []any{d.Step[0], d.Step[1]}
	case d.Int != nil:
		return []any{float64(d.Int[0]), float64(d.Int[1])}
	case d.LogInt != nil:
		return []any{float64(d.LogInt[0]), float64(d.LogInt[1])}
	case d.LogUniform != nil:
		return between(d.LogUniform)
	case d.Uniform != nil:
		return between(d.Uniform)
	}

	return nil
}

// between returns the ends of a range and a number in between that is not whole for any bounds written by hand.
func between(bounds []float64) []any {
	low, high := bounds[0], bounds[1]
	return []any{low, high, low + (high-low)/math.Pi}
}

// MaxBudget bounds a budget, in USD: more is a typing error.
const MaxBudget = 1e6

// CheckBudget rejects an invalid amount for a budget.
func CheckBudget(usd float64) error {
	if !(usd > 0) || usd > MaxBudget {
		return fmt.Errorf("budget is %v: use an amount of USD above 0, at most %.0f", usd, MaxBudget)
	}
	return nil
}

// Labels as Google Cloud takes them on a job, its machines and disks.
var (
	labelKey   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelValue = regexp.MustCompile(`^[a-z0-9_-]{1,63}$`)
)

const maxOwnLabels = 32 // of 64, with those of Coppice and of the deployment

func (s *Spec) checkLabels(doc *strictyaml.Document) error {
	if len(s.Labels) > maxOwnLabels {
		return doc.Errorf("labels", "%d labels: use at most %d", len(s.Labels), maxOwnLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		switch {
		case strings.HasPrefix(key, "coppice") || strings.HasPrefix(key, "goog"):
			return doc.Errorf("labels", "label %q: those that begin with coppice or goog are set by the programs", key)
		case !labelKey.MatchString(key):
			return doc.Errorf("labels", "label %.80q: use up to 63 of a-z, 0-9, '_' and '-', beginning with a letter",
				key)
		case !labelValue.MatchString(s.Labels[key]):
			return doc.Errorf("labels."+key, "value %.80q: use 1 to 63 of a-z, 0-9, '_' and '-'", s.Labels[key])
		}
	}
	return nil
}

func (s *Spec) checkMachine(doc *strictyaml.Document, v Vocabulary) error {
	m, l := s.Machine, s.Limits
	if err := v.Machine(m.Type); err != nil {
		return doc.Errorf("machine.type", "%v", err)
	}

	if err := s.checkLabels(doc); err != nil {
		return err
	}
	if doc.Has("budget") {
		if err := CheckBudget(s.Budget); err != nil {
			return doc.Errorf("budget", "%v", err)
		}
	}

	for _, c := range []struct {
		path      string
		value     int
		low, high int
	}{
		{"machine.vms", m.VMs, 1, 2000},
		{"machine.threads_per_task", m.ThreadsPerTask, 1, 512},
		{"machine.tasks_per_vm", int(m.TasksPerVM), 0, MaxTasksPerVM},
		{"machine.local_ssd", int(m.LocalSSD), 0, 48},
	} {
		if c.value < c.low || c.value > c.high {
			return doc.Errorf(c.path, "%s is %d: use %d to %d", c.path, c.value, c.low, c.high)
		}
	}

	if m.LocalSSD != 0 {
		if err := v.LocalSSD(m.Type, int(m.LocalSSD)); err != nil {
			return doc.Errorf("machine.local_ssd", "%v", err)
		}
	}

	for path, d := range map[string]Duration{"limits.trial": l.Trial, "limits.sweep": l.Sweep} {
		if time.Duration(d) < time.Second || time.Duration(d) > 14*24*time.Hour {
			return doc.Errorf(path, "%s is %s: use 1s to 336h, the longest that a Batch job may run", path, d)
		}
	}
	if l.Trial > l.Sweep && doc.Has("limits.trial") && doc.Has("limits.sweep") {
		return doc.Errorf("limits.trial", "limits.trial is %s, longer than limits.sweep with %s", l.Trial, l.Sweep)
	}

	if !(l.Quorum > 0 && l.Quorum <= 1) {
		return doc.Errorf("limits.quorum", "quorum is %v: use a share above 0, up to 1", l.Quorum)
	}

	return nil
}

var zonePattern = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+-[a-z]$`)

func checkZones(doc *strictyaml.Document, at string, zones []string) error {
	for i, z := range zones {
		if !zonePattern.MatchString(z) {
			return doc.Errorf(fmt.Sprintf("%s.zones[%d]", at, i), "zone %.60q: use one such as us-central1-a", z)
		}
	}
	return nil
}

// checkFallback checks the machines to be tried one after the other.
func (s *Spec) checkFallback(doc *strictyaml.Document, v Vocabulary) error {
	m := s.Machine
	if err := checkZones(doc, "machine", m.Zones); err != nil {
		return err
	}

	if len(m.Fallback) == 0 {
		if m.Wait != 0 {
			return doc.Errorf("machine.wait",
				"machine.wait is how long to wait before the next of machine.fallback is tried, and there is none")
		}
		return nil
	}

	if len(m.Fallback) > MaxFallbacks {
		return doc.Errorf("machine.fallback", "%d fallbacks: use at most %d", len(m.Fallback), MaxFallbacks)
	}

	// A sweep's time limit starts with its plan. Enough time must remain after all waiting.
	if most := time.Duration(s.Limits.Sweep) / time.Duration(2*len(m.Fallback)); time.Duration(m.Wait) < time.Second ||
		time.Duration(m.Wait) > most {
		return doc.Errorf("machine.wait",
			"machine.wait is %s: use 1s to %s, so that waiting for %d machines takes no more than half of "+
				"limits.sweep (%s)", m.Wait, most, len(m.Fallback), s.Limits.Sweep)
	}

	for i, f := range m.Fallback {
		at := fmt.Sprintf("machine.fallback[%d]", i)
		if f.Type != "" {
			if err := v.Machine(f.Type); err != nil {
				return doc.Errorf(at+".type", "%v", err)
			}
		}

		if f.LocalSSD < 0 || f.LocalSSD > 48 {
			return doc.Errorf(at+".local_ssd", "local_ssd is %d: use auto, or up to 48", f.LocalSSD)
		}
		if f.LocalSSD != 0 {
			if err := v.LocalSSD(m.Choice(i+1).Type, int(f.LocalSSD)); err != nil {
				return doc.Errorf(at+".local_ssd", "%v", err)
			}
		}

		if err := checkZones(doc, at, f.Zones); err != nil {
			return err
		}

		this, before := m.Choice(i+1), m.Choice(i)
		if this.Type == before.Type && *this.Spot == *before.Spot && slices.Equal(this.Zones, before.Zones) {
			return doc.Errorf(at, "this fallback is the same as what comes before it: change type, zones or spot")
		}
	}

	return nil
}

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

// checkGiven rejects, in every part of the spec with parameters, reserved ones and duplicates, under any of their
// names.
func (s *Spec) checkGiven(doc *strictyaml.Document, v Vocabulary) error {
	if err := checkGivenIn(doc, "params", s.Params, v); err != nil {
		return err
	}
	for i, fixed := range s.Search.Fixed {
		if err := checkGivenIn(doc, fmt.Sprintf("search.fixed[%d]", i), fixed, v); err != nil {
			return err
		}
	}
	if err := checkGivenIn(doc, "search.grid", s.Search.Grid, v); err != nil {
		return err
	}
	return checkGivenIn(doc, "search.random", s.Search.Random, v)
}

func checkGivenIn[V any](doc *strictyaml.Document, path string, given map[string]V, v Vocabulary) error {
	written := map[string]string{} // by canonical name
	for _, name := range slices.Sorted(maps.Keys(given)) {
		canonical := v.ParamName(name)
		switch {
		case reserved[name] != "":
			return doc.Errorf(path+"."+name, "%s is set by %s; say it there, and take it out here", name,
				reserved[name])
		case reserved[canonical] != "":
			return doc.Errorf(path+"."+name,
				"%s is another name of %s, which is set by %s; say it there, and take it out here", name, canonical,
				reserved[canonical])
		case written[canonical] != "":
			return givenTwice(doc, path, canonical, written[canonical], name)
		}
		written[canonical] = name
	}
	return nil
}

// givenTwice is the error at the later of two names in the file.
func givenTwice(doc *strictyaml.Document, path, canonical, first, second string) error {
	a, b := doc.Errorf(path+"."+first, ""), doc.Errorf(path+"."+second, "")
	if b.Line < a.Line || b.Line == a.Line && b.Column < a.Column {
		a, first, second = b, second, first
	}
	return doc.Errorf(path+"."+second, "%s is given twice: here as %s, and as %s in line %d; keep one of them",
		canonical, second, first, a.Line)
}

// resolve replaces all parameters' names by canonical ones. It runs after all checks, whose errors use the names in the
// file.
func (s *Spec) resolve(v Vocabulary) {
	s.Params = renamed(s.Params, v)
	for i, fixed := range s.Search.Fixed {
		s.Search.Fixed[i] = renamed(fixed, v)
	}
	s.Search.Grid = renamed(s.Search.Grid, v)

	for name, d := range s.Search.Random {
		if v.ParamName(name) != name {
			d.DrawnAs = name
			s.Search.Random[name] = d
		}
	}
	s.Search.Random = renamed(s.Search.Random, v)
}

func renamed[M ~map[string]V, V any](given M, v Vocabulary) M {
	if given == nil {
		return nil
	}
	out := make(M, len(given))
	for name, value := range given {
		out[v.ParamName(name)] = value
	}
	return out
}
