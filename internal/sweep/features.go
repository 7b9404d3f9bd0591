package sweep

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"coppice/internal/strictyaml"
)

// Ways to choose the sets of groups of columns that a sweep compares.
const (
	TryDropOne = "drop_one" // all groups, and all but each
	TryAddOne  = "add_one"  // none, and each by itself
	TrySubsets = "subsets"  // random subsets
	TryForward = "forward"  // step by step the group that helps most
)

// Tries returns the names of all of them.
func Tries() []string { return []string{TryDropOne, TryAddOne, TrySubsets, TryForward} }

// Features makes the trials of a sweep differ in the columns that they train on, instead of in other parameters. Every
// trial leaves out whole groups, by the trainer's ignore_column.
type Features struct {
	Try string `yaml:"try" json:"try"` // one of Tries

	// Groups are lists of columns by the group's name. In a spec they may contain patterns, and no groups means one for
	// each column. In a plan they are the names of the dataset's columns, and no column is in two groups.
	Groups map[string][]string `yaml:"groups" json:"groups,omitempty"`

	// Only in a plan: the columns that no trial has, because of the spec's own ignore_column, and how many columns are
	// in no group, which every trial has.
	Ignored []string `yaml:"-" json:"ignored,omitempty"`
	Rest    int      `yaml:"-" json:"rest,omitempty"`
}

// IgnoreColumn is the trainer's parameter for the columns that a model does without.
const IgnoreColumn = "ignore_column"

// byName begins a value of IgnoreColumn that gives names.
const byName = "name:"

// Names returns the groups' names, ascending. A set of groups is a []bool in this order.
func (f *Features) Names() []string { return slices.Sorted(maps.Keys(f.Groups)) }

// Params returns the parameters of a trial that has these groups, kept being by group: the columns of the others, and
// those that no trial has, are ignored. Equal sets give equal parameters, since the columns are sorted.
func (f *Features) Params(kept []bool) Params {
	ignored := slices.Clone(f.Ignored)
	for i, name := range f.Names() {
		if !kept[i] {
			ignored = append(ignored, f.Groups[name]...)
		}
	}
	if len(ignored) == 0 {
		return Params{IgnoreColumn: ""}
	}
	slices.Sort(ignored)
	return Params{IgnoreColumn: byName + strings.Join(ignored, ",")}
}

// Kept returns, by group, whether a trial has it, from the trial's complete parameters. ok is false if these ignore
// some columns of a group but not all, or are nil.
func (f *Features) Kept(complete Params) (kept []bool, ok bool) {
	text, _ := complete[IgnoreColumn].(string)
	ignored := map[string]bool{}
	for name := range strings.SplitSeq(strings.TrimPrefix(text, byName), ",") {
		ignored[name] = true
	}

	ok = complete != nil
	for _, name := range f.Names() {
		columns, out := f.Groups[name], 0
		for _, c := range columns {
			if ignored[c] {
				out++
			}
		}
		kept = append(kept, out == 0)
		ok = ok && (out == 0 || out == len(columns))
	}
	return kept, ok
}

// maxDescribed is how many groups Describe names.
const maxDescribed = 20

// Describe says which groups a set has: "all groups", "no group", or whichever is shorter of "only a, c" and "all but
// b".
func (f *Features) Describe(kept []bool) string {
	var with, without []string
	for i, name := range f.Names() {
		if kept[i] {
			with = append(with, name)
		} else {
			without = append(without, name)
		}
	}
	switch {
	case len(without) == 0:
		return "all groups"
	case len(with) == 0:
		return "no group"
	case len(without) < len(with):
		return "all but " + joinFirst(without)
	}
	return "only " + joinFirst(with)
}

// joinFirst joins names with commas. Of more than maxDescribed it says how many more there are.
func joinFirst(names []string) string {
	if more := len(names) - maxDescribed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxDescribed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Step returns which step of a forward selection a configuration belongs to, from 0, and which of the step's candidates
// it is, from 0. The candidates are the groups that are not selected yet, ascending; each step has one less. ok is
// false for the configurations before the first step. A number beyond the last configuration gives the step after the
// last one, which does not exist: len(f.Groups)-1.
func (f *Features) Step(configuration int) (step, candidate int, ok bool) {
	candidate = configuration - f.Listed()
	if candidate < 0 {
		return 0, 0, false
	}
	for wide := len(f.Groups); candidate >= wide && wide > 1; wide-- {
		candidate -= wide
		step++
	}
	return step, candidate, true
}

// StepBegins returns the number of the first configuration of a step of a forward selection.
func (f *Features) StepBegins(step int) int {
	first := f.Listed()
	for k := range step {
		first += len(f.Groups) - k
	}
	return first
}

// Listed is how many configurations come before the first step of a forward selection: that with all groups and, if
// some columns are in no group, that with none.
func (f *Features) Listed() int { return 1 + min(f.Rest, 1) }

// selectsForward reports whether the plan selects groups step by step.
func (s *Search) selectsForward() bool { return s.Features != nil && s.Features.Try == TryForward }

// checkFeatures checks search.features, if the spec has it: the way to try, the groups, the number of trials where it
// matters, and what cannot be combined with it.
func (s *Spec) checkFeatures(doc *strictyaml.Document, _ Vocabulary) error {
	f := s.Search.Features
	if f == nil {
		return nil
	}
	if !slices.Contains(Tries(), f.Try) {
		return doc.Errorf("search.features", "try is %.40q%s: use one of %v", f.Try, strictyaml.Suggest(f.Try, Tries()),
			Tries())
	}
	if f.Try == TrySubsets && !doc.Has("trials") {
		return doc.Errorf("search.features", "try: %s needs trials: the number of sets to compare", TrySubsets)
	}
	if f.Try == TryForward && s.Trials > MaxOpen {
		return doc.Errorf("trials", "trials is %d: try: %s takes at most %d; use fewer, or leave it out", s.Trials,
			TryForward, MaxOpen)
	}
	for _, name := range f.Names() {
		if name == "" {
			return doc.Errorf("search.features.groups", "a group has no name")
		}
		if len(f.Groups[name]) == 0 {
			return doc.Errorf("search.features.groups", "the group %.60q has no columns", name)
		}
	}
	if doc.Has("search.features.groups") && len(f.Groups) == 0 {
		return doc.Errorf("search.features.groups",
			"there are no groups: name some, or leave groups out to make each column one")
	}

	// A step compares scores of whole trainings.
	if s.Search.Stop != nil && f.Try == TryForward {
		return doc.Errorf("search.stop", "search.stop cannot be combined with try: %s, each step of which compares "+
			"sets by their scores at the end; take it out, or try: %s", TryForward, TryDropOne)
	}

	// Trials differ in their columns only, and all are listed.
	for _, with := range []string{"search.fixed", "search.grid", "search.random", "search.method", "search.warm_start",
		"search.constraints"} {
		if doc.Has(with) {
			return doc.Errorf(with,
				"%s cannot be combined with search.features: its trials differ in their columns only; take one of "+
					"them out", with)
		}
	}
	return nil
}

// checkFeatureSets checks what later code relies on in a plan that compares sets of columns. All folds of a
// configuration have to be trained, since sets are compared by their means. In a forward selection exactly the trials
// of its steps are open, and there are not more than its steps can have.
func (p *Plan) checkFeatureSets() error {
	f := p.Spec.Search.Features
	if f == nil {
		return nil
	}
	drops := p.Folds != nil && p.Folds.First != len(p.Folds.Rounds)
	if !slices.Contains(Tries(), f.Try) || len(f.Groups) == 0 || f.Rest < 0 || drops {
		return fmt.Errorf("%.40q of %d groups of columns", f.Try, len(f.Groups))
	}
	if !p.Open() {
		return nil
	}
	first, end := f.Listed(), f.StepBegins(len(f.Groups)-1)
	for n, t := range p.Trials {
		c := p.Ordinal(n) // its configuration
		if inStep := c >= first; !t.Refit && (t.Open != inStep || c >= end) {
			return fmt.Errorf("trial %d of a forward selection among %d groups", n, len(f.Groups))
		}
	}
	return nil
}
