package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"coppice/internal/strictyaml"
)

// Rules for stopping trials early.
const (
	StopASHA      = "asha"      // asynchronous successive halving
	StopHalving   = "halving"   // the same, decided once all trials have come to a rung
	StopHyperband = "hyperband" // asha in brackets; later brackets pause later
)

// What a trial that is compared has been trained with.
const (
	ByTrees = "trees" // the first of its trees
	ByRows  = "rows"  // all of its trees, on a sample of the rows of train
)

// Defaults of Stop.Eta. A sample ranks well enough to keep fewer.
const (
	etaByTrees = 3
	etaByRows  = 5
)

// fewestRows is the least number of rows in a sample by which trials are compared. Of a table of flights, 720 rows
// ranked configurations hardly better than chance, and 3,600 did well.
const fewestRows = 2_000

// StopRules lists the rules available to a sweep.
func StopRules() []string { return []string{StopASHA, StopHalving, StopHyperband} }

// Stop says when a trial is stopped because others are better.
type Stop struct {
	Rule string `yaml:"rule" json:"rule"`
	// ByTrees or ByRows; the default follows from rule, metric and table: Fill
	By string `yaml:"by" json:"by,omitempty"`
	// one in eta continues at a rung, default 3 by trees and 5 by rows
	Eta      int `yaml:"eta" json:"eta"`
	MinTrees int `yaml:"min_trees" json:"min_trees"` // first rung by trees, default 10
	// numbers of trees after which trials are compared, or that which costs as much as the sample; set by the plan
	Rungs []int `yaml:"-" json:"rungs,omitempty"`
	// by rows: the sample has one row in so many; set by the plan
	OneIn int `yaml:"-" json:"one_row_in,omitempty"`
}

// Fill sets by what trials are compared, as far as the spec leaves it open: by their first trees, or by a training on a
// sample of the rows. trees and rows are those of a whole trial, and rankOnly says that the metric depends on the order
// of predictions only. For a comparison by rows it also sets the sample and the rung; by trees, the caller sets the
// rungs. It returns false if the spec wants a comparison by rows, and the table is too small for that.
//
// The first trees of a model with a small learning rate order the rows well, but their predictions have not come far
// from the mean. So first trees compare trials by a metric of ranks, and samples by any other metric (docs/LAB.md).
func (s *Stop) Fill(trees, rows int, rankOnly bool) bool {
	// Try the sample on a copy, so that a table that is too small leaves nothing behind.
	byRows := Stop{Eta: s.Eta, By: ByRows}
	if (s.By == ByRows || s.By == "" && !rankOnly) && byRows.sample(trees, rows) {
		s.By, s.Eta, s.OneIn, s.Rungs = ByRows, byRows.Eta, byRows.OneIn, byRows.Rungs
		return true
	}
	if s.By == ByRows {
		s.Eta = byRows.Eta // for the caller's error
		return false
	}

	s.By = ByTrees
	if s.Eta == 0 {
		s.Eta = etaByTrees
	}
	return true
}

// sample sets the sample of a comparison by rows, and reports whether it has enough rows. It takes one row in eta
// squared or, of a small table, one in eta. So a sweep spends less on the samples of all trials than on the one in eta
// that continue, or at most as much. The rung is the number of trees on all rows that cost as much as all trees on the
// sample.
func (s *Stop) sample(trees, rows int) bool {
	if s.Eta == 0 {
		s.Eta = etaByRows
	}
	s.OneIn = s.Eta * s.Eta
	if rows/s.OneIn < fewestRows {
		s.OneIn = s.Eta
	}
	s.Rungs = []int{max(1, trees/s.OneIn)}
	return rows/s.OneIn >= fewestRows
}

// Reached says in words what a trial has been trained with at a rung of that many trees.
func (s *Stop) Reached(step int) string {
	if s.By == ByRows {
		return fmt.Sprintf("on one row in %d", s.OneIn)
	}
	return fmt.Sprintf("at %d trees", step)
}

// checkStop checks search.stop. A spec that has min_trees compares by trees, so it sets that. An eta of 0 has been left
// out (refuseZeros); its default depends on what trials are compared by, and Fill sets it when the sweep is planned.
func (s *Spec) checkStop(doc *strictyaml.Document, _ Vocabulary) error {
	q := s.Search.Stop
	switch {
	case q == nil:
		return nil
	case !slices.Contains(StopRules(), q.Rule):
		return doc.Errorf("search.stop.rule", "unknown rule %.60q%s; use one of %v", q.Rule,
			strictyaml.Suggest(q.Rule, StopRules()), StopRules())
	case q.By != "" && q.By != ByTrees && q.By != ByRows:
		return doc.Errorf("search.stop.by", "unknown %.60q%s; use %s or %s", q.By,
			strictyaml.Suggest(q.By, []string{ByTrees, ByRows}), ByTrees, ByRows)
	case q.By == ByRows && doc.Has("search.stop.min_trees"):
		return doc.Errorf("search.stop.min_trees", "min_trees is the first rung by: %s; take one of the two out",
			ByTrees)
	case q.Eta != 0 && (q.Eta < 2 || q.Eta > 100):
		return doc.Errorf("search.stop.eta", "eta is %d: one in eta trials continues at a rung; use 2 to 100", q.Eta)
	case q.MinTrees < 1 || q.MinTrees > math.MaxInt32:
		return doc.Errorf("search.stop.min_trees", "min_trees is %d: use 1 or more", q.MinTrees)
	case s.Trials > MaxOpen: // every rung's record names all that it has seen
		return doc.Errorf("trials",
			"trials is %d: with search.stop a sweep has at most %d; use fewer, or take search.stop out", s.Trials,
			MaxOpen)
	}

	if doc.Has("search.stop.min_trees") { // it means trees
		q.By = ByTrees
	}
	return nil
}

// ForgetHistory removes from s what depends on earlier sweeps rather than on the file: with warm_start the rungs follow
// from the winners' numbers of trees. The sample goes with them, which follows from the dataset and eta anyway. It
// replaces s.Search.Stop by a copy, since other specs may share it.
func (s *Spec) ForgetHistory() {
	if s.Search.WarmStart == "" || s.Search.Stop == nil {
		return
	}
	stop := *s.Search.Stop
	stop.Rungs, stop.OneIn = nil, 0
	s.Search.Stop = &stop
}

func (s *Stop) fillDefaults() {
	if s != nil {
		s.MinTrees = cmp.Or(s.MinTrees, 10)
	}
}

// Rung is the decision about a trial at a number of trees: it continues, or waits for a Promotion. It is created once,
// before it is acted on, and binds a later holder of the trial that reaches the same rung.
type Rung struct {
	Format int     `json:"format"`
	Sweep  ID      `json:"sweep"`
	Trial  int     `json:"trial"`
	Claim  int     `json:"claim"`
	Step   int     `json:"step"` // trees
	Score  float64 `json:"score"`
	Pause  bool    `json:"pause,omitempty"` // the trial waits here for a Promotion
	Reason string  `json:"reason"`
	// of other trials at the rung, ascending by trial; with plan and Score, all that the decision is based on
	Seen []Reached `json:"seen"`
	At   time.Time `json:"at"`

	Written
}

// RungScore is a score at a rung.
type RungScore struct {
	Step  int     `json:"step"`
	Score float64 `json:"score"`
}

// maxRungs is how many rungs there can be: each is at least twice the one before, in trees.
const maxRungs = 31

// checkRungs checks scores at rungs read from outside: there are not too many, and none is at a lower rung than the one
// before.
func checkRungs(rungs []RungScore) error {
	ascending := slices.IsSortedFunc(rungs, func(a, b RungScore) int { return cmp.Compare(a.Step, b.Step) })
	if len(rungs) > maxRungs || !ascending {
		return fmt.Errorf("%d rungs, or not in their order", len(rungs))
	}
	return nil
}

// Pauses reports whether trials that are behind at a rung are paused, and may be promoted later.
func (p *Plan) Pauses() bool { return p.Spec.Search.Stop != nil }

// Pause marks a trial as paused at a rung; its contents do not matter. It is created after the Rung that says so, and
// after the trial's checkpoint.
type Pause struct {
	Format int `json:"format"`
	Claim  int `json:"claim"`

	Written
}

// Promotion says what becomes of a paused trial: it goes on, or ends with the score that it has at the rung. Any task
// may create it, once. The trial is then claimed, and every holder follows it.
type Promotion struct {
	Format   int     `json:"format"`
	Sweep    ID      `json:"sweep"`
	Trial    int     `json:"trial"`
	Step     int     `json:"step"` // trees
	Score    float64 `json:"score"`
	Promoted bool    `json:"promoted"`
	Reason   string  `json:"reason"`
	// promoted, because its score at the rung could not be read: Score is none
	Unread bool `json:"unread,omitempty"`

	// Seen are other trials' scores at the rung, and Last says that no trial was left that could come to it by itself.
	// With the plan and Score, they are all that the decision is based on.
	Seen []Reached `json:"seen"`
	Last bool      `json:"last,omitempty"`

	Task    int       `json:"task"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`

	Written
}

// DecodePromotion decodes what becomes of a paused trial. All trials that it has seen have to be others, at the same
// rung.
func DecodePromotion(data []byte) (*Promotion, error) {
	return decode("promotion", data, func(r *Promotion) error {
		if !isTrial(r.Trial) || r.Step < 1 {
			return fmt.Errorf("trial %d, %d trees", r.Trial, r.Step)
		}
		for _, s := range r.Seen {
			if !isTrial(s.Trial) || s.Trial == r.Trial || s.Step != r.Step {
				return fmt.Errorf("of trial %d: has seen trial %d at %d trees", r.Trial, s.Trial, s.Step)
			}
		}
		return nil
	})
}

// Reached is a trial's score at a rung.
type Reached struct {
	Step  int     `json:"step"`
	Trial int     `json:"trial"`
	Score float64 `json:"score"`
}

// DecodeRung decodes the decision about a trial at a rung. Its numbers have to be possible ones. Scores of the trial
// itself, or at other rungs, do no harm among those that it has seen: search.AfterPause passes over them.
func DecodeRung(data []byte) (*Rung, error) {
	return decode("rung", data, func(r *Rung) error {
		if !isTrial(r.Trial) || r.Step < 1 || r.Claim < 0 {
			return fmt.Errorf("trial %d, %d trees, claim %d", r.Trial, r.Step, r.Claim)
		}

		for _, s := range r.Seen {
			if !isTrial(s.Trial) || s.Step < 1 {
				return fmt.Errorf("has seen trial %d at %d trees", s.Trial, s.Step)
			}
		}

		return nil
	})
}

// checkStop checks the rule by which trials of a plan are stopped, and the rungs that the plan has for it: not more
// than there can be, ascending, and by rows exactly one. By trees there may be none.
func (p *Plan) checkStop() error {
	stop := p.Spec.Search.Stop
	if stop == nil {
		return nil
	}

	switch {
	case stop.Eta < 2 || !slices.Contains(StopRules(), stop.Rule) || len(stop.Rungs) > maxRungs ||
		!slices.IsSorted(stop.Rungs) || len(stop.Rungs) > 0 && stop.Rungs[0] < 1:
		return fmt.Errorf("rule %.40q with eta %d and %d rungs", stop.Rule, stop.Eta, len(stop.Rungs))
	case stop.By == ByRows && (len(stop.Rungs) != 1 || stop.OneIn < 2):
		return fmt.Errorf("compares by rows at %d rungs, one row in %d", len(stop.Rungs), stop.OneIn)
	case stop.By != ByTrees && stop.By != ByRows:
		return fmt.Errorf("compares by %.40q", stop.By)
	}

	return nil
}

// Untrained reports whether a trial was ended without training, so that the final training has its time. A trial of a
// fold that is stopped without training is none: its configuration was dropped.
func (r *Result) Untrained() bool {
	return r.Status == StatusStopped && r.TreesGrown == 0 && r.Fold == 0
}

// State is the result's status in words.
func (r *Result) State() string {
	if r.Untrained() {
		return "not trained"
	}
	return strings.ReplaceAll(string(r.Status), "_", " ")
}
