package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Board is the state of a sweep according to its results. It depends only on the plan and the set of results, not on
// their order or repetitions.
type Board struct {
	// done trials best first, then the others by number; with folds the refit, then by configuration
	Rows    []Row `json:"rows"`
	Done    int   `json:"done"`
	Failed  int   `json:"failed"` // failed, over time or cancelled
	Waiting int   `json:"waiting"`
	Stopped int   `json:"stopped,omitempty"` // because others were better, or for the final training

	Configurations []Rated `json:"configurations,omitempty"` // of a plan with folds, best first
}

// Row is one trial on the board.
type Row struct {
	Trial  Trial   `json:"trial"`
	Result *Result `json:"result,omitempty"` // nil until the trial has ended
	Front  bool    `json:"front,omitempty"`  // with several objectives: no other trial is better in all
}

// MakeBoard counts and ranks the results of a plan. Results of another sweep or of trials that the plan does not have
// are left out. If one trial has several results, which create-only objects exclude, the one with the lowest claim
// counts.
func MakeBoard(p *Plan, results []Result) Board {
	byTrial := make(map[int]*Result, len(results))
	for i := range results {
		r := &results[i]
		if r.Sweep != p.Sweep || r.Trial < 0 || r.Trial >= len(p.Trials) {
			continue
		}
		if old := byTrial[r.Trial]; old == nil || r.Claim < old.Claim {
			byTrial[r.Trial] = r
		}
	}

	// Count the trials by outcome, and make a row of each.
	var b Board
	for _, t := range p.Trials {
		r := byTrial[t.Number]
		switch {
		case r == nil:
			b.Waiting++
		case r.Status == StatusDone:
			b.Done++
		case r.Status == StatusStopped:
			b.Stopped++
		default:
			b.Failed++
		}
		b.Rows = append(b.Rows, Row{Trial: t, Result: r})
	}

	// Put the rows in order.
	b.Configurations = rateConfigurations(p, byTrial)
	if b.Configurations != nil {
		b.sortByConfiguration()
		return b
	}
	slices.SortStableFunc(b.Rows, func(x, y Row) int { return compareRows(x, y, p.Maximize) })
	if len(p.Spec.Goals) > 0 {
		b.markFront(&p.Spec)
	}
	return b
}

// sortByConfiguration sorts the rows of a plan with folds: the refit first, then the folds of the best configuration,
// then those of the next, and so on. Single trials are not ranked, since scores of different folds cannot be compared.
func (b *Board) sortByConfiguration() {
	places := make([]int, len(b.Configurations)) // by configuration, from 1
	for i, c := range b.Configurations {
		places[c.Configuration] = i + 1
	}
	placeOf := func(t Trial) int {
		if t.Refit {
			return 0
		}
		return places[t.Configuration]
	}
	slices.SortStableFunc(b.Rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(placeOf(x.Trial), placeOf(y.Trial)), cmp.Compare(x.Trial.Fold, y.Trial.Fold))
	})
}

// compareRows compares two rows of a plan without folds for sorting, and is negative if x comes first. Trials that are
// done come before others, those with the better score first and, on a tie, the smaller model, then the lower number.
// Others are in the order of their numbers. The final training is last, since its score is only that of the trial that
// it trains again.
func compareRows(x, y Row, maximize bool) int {
	if x.Trial.Refit != y.Trial.Refit {
		return x.Trial.Number - y.Trial.Number // the final training has the highest number
	}
	if x.isDone() != y.isDone() {
		if x.isDone() {
			return -1
		}
		return 1
	}

	if x.isDone() {
		c := cmp.Compare(x.Result.Score, y.Result.Score)
		if maximize {
			c = -c
		}
		if c = cmp.Or(c, cmp.Compare(x.Result.Trees, y.Result.Trees)); c != 0 {
			return c
		}
	}

	return cmp.Compare(x.Trial.Number, y.Trial.Number)
}

func (r Row) isDone() bool { return r.Result != nil && r.Result.Status == StatusDone }

// Best returns the trial at the top, or nil if none is done. In a sweep with folds it is the refit, the only one that
// may win.
func (b Board) Best() *Result {
	if b.Done == 0 || !b.Rows[0].isDone() {
		return nil
	}
	return b.Rows[0].Result
}

// Tally counts trials by outcome.
type Tally struct {
	Done      int `json:"done"`
	AtLimit   int `json:"at_limit,omitempty"` // of those done: limits.trial ended them, with the trees until then
	Failed    int `json:"failed"`
	Waiting   int `json:"waiting"`               // running ones among them
	Untrained int `json:"not_trained,omitempty"` // so that the final training has its time
	Stopped   int `json:"stopped,omitempty"`     // because others were better
}

// Ended returns how many have ended.
func (t Tally) Ended() int { return t.Done + t.Failed + t.Stopped + t.Untrained }

// Tally counts the trials by what has become of them. Trials without a result, running ones among them, are waiting.
// The final training is not counted.
func (b Board) Tally(p *Plan) (t Tally) {
	final, ok := p.Final()
	for _, row := range b.Rows {
		switch r := row.Result; {
		case row.Trial.Number == final && ok:
		case r == nil:
			t.Waiting++
		case r.Status == StatusDone:
			t.Done++
			if r.AtLimit {
				t.AtLimit++
			}
		case r.Untrained():
			t.Untrained++
		case r.Status == StatusStopped:
			t.Stopped++
		default:
			t.Failed++
		}
	}
	return t
}

// Outcome is how a sweep ended.
type Outcome string

// The ways in which a sweep ends.
const (
	OutcomeWinner    Outcome = "winner"
	OutcomeNoWinner  Outcome = "no_winner" // every trial failed, none met the requirements, or too few ended in time
	OutcomeCancelled Outcome = "cancelled"
)

// String is the outcome in words, for people.
func (o Outcome) String() string { return strings.ReplaceAll(string(o), "_", " ") }

// Cancellation asks all tasks to stop. The sweep is cancelled whatever the object's contents.
type Cancellation struct {
	Format int       `json:"format"`
	Sweep  ID        `json:"sweep"`
	At     time.Time `json:"at"`

	Written
}

// Ending says that a sweep is over, why, and which trials' results count. The aggregator writes it once, create-only,
// before anything else: later results and cancellations, even between two attempts to conclude, change nothing.
type Ending struct {
	Format    int    `json:"format"`
	Sweep     ID     `json:"sweep"`
	Cancelled bool   `json:"cancelled,omitempty"`
	Early     string `json:"early,omitempty"` // why not every trial has ended or was trained; empty otherwise
	Trials    []int  `json:"trials"`          // trials with results that count, ascending
	// trials without a result that were paused and that others beat, ascending: for the quorum they count as stopped
	Behind []int     `json:"behind,omitempty"`
	At     time.Time `json:"at"`

	Written
}

// DecodeEnding decodes the Ending of a sweep of n trials. It is an error if numbers of trials are out of range or do
// not ascend, or if a trial is both among those that count and among those behind.
func DecodeEnding(data []byte, n int) (*Ending, error) {
	return decode("ending", data, func(e *Ending) error {
		for _, trials := range [][]int{e.Trials, e.Behind} {
			for i, t := range trials {
				if t < 0 || t >= n || i > 0 && t <= trials[i-1] {
					return fmt.Errorf("trial %d", t)
				}
			}
		}
		for _, t := range e.Behind {
			if _, counts := slices.BinarySearch(e.Trials, t); counts {
				return fmt.Errorf("trial %d has a result and is behind", t)
			}
		}

		return nil
	})
}

// Conclusion is the result of a sweep. The aggregator writes it once, create-only, after registering the winner.
type Conclusion struct {
	Format  int     `json:"format"`
	Sweep   ID      `json:"sweep"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"` // for people

	Trial    int        `json:"trial"` // the winner; meaningless if there is none
	Model    string     `json:"model,omitempty"`
	Version  int        `json:"version,omitempty"`
	Rejected []Rejected `json:"rejected,omitempty"` // trials that ranked higher but may not win, best first

	Valid       map[string]float64 `json:"valid,omitempty"` // of the winner
	Test        map[string]float64 `json:"test,omitempty"`  // of the winner, calibrated, on test
	Within      *Within            `json:"within,omitempty"`
	Without     *float64           `json:"without_features,omitempty"` // the metric on test, of a model without
	AsGood      *int               `json:"as_good,omitempty"`          // of earlier builds: a trial as good
	Lead        *Lead              `json:"lead,omitempty"`             // over the runner-up, or the default
	Calibration *Calibration       `json:"calibration,omitempty"`
	Verified    *Verified          `json:"verified,omitempty"`
	Gate        *GateDecision      `json:"gate,omitempty"`
	Final       *FinalModel        `json:"final,omitempty"`  // of a sweep with a final training
	Warned      string             `json:"warned,omitempty"` // what about its table differs from earlier nights'

	Done   int       `json:"done"` // number of trials by outcome
	Failed int       `json:"failed"`
	At     time.Time `json:"at"`
	Cost   *Cost     `json:"cost,omitempty"` // nil if unknown
	// Standing is that of the model, if the sweep has not made a champion; nil if there is none, or it is unknown.
	Standing *Standing `json:"standing,omitempty"`

	Written
}

// Standing says how old a model's champion is: the version that is live.
type Standing struct {
	Model    string    `json:"model"`
	Champion int       `json:"champion"`
	Since    time.Time `json:"since"`  // when the champion was registered
	Nights   int       `json:"nights"` // that have not replaced it, in a row, this one included
}

// ManyNights in a row that did not replace the champion are urgent.
const ManyNights = 3

// Text says it in words, as of now: "3 nights in a row without a new champion; ctr version 11 is 4 days old".
func (s *Standing) Text(now time.Time) string {
	nights, age := "1 night", strings.TrimSpace(humanize.RelTime(s.Since, now, "", ""))
	if days := int(now.Sub(s.Since).Hours() / 24); days > 0 {
		age = english.Plural(days, "day", "")
	}
	if s.Nights > 1 {
		nights = fmt.Sprintf("%d nights in a row", s.Nights)
	}
	return fmt.Sprintf("%s without a new champion; %s version %d is %s old", nights, s.Model, s.Champion, age)
}

// Lead is how much better the winner is than another trial on the same test rows, as shares of the other's value, with
// a 95 % interval.
type Lead struct {
	Trial  int     `json:"trial"`
	Metric string  `json:"metric"`
	Gain   float64 `json:"gain"` // below 0 if the winner is worse
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Within is a 95 % interval of the sweep's metric on test, for metrics whose error follows from the rows.
type Within struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Metric string  `json:"metric,omitempty"` // its name
}

// ErrorOf returns the standard error of a metric on test, or 0 if none is known. The 95 % interval extends 1.96 of them
// to either side, as that of a normal distribution does.
func (w *Within) ErrorOf(metric string) float64 {
	if w == nil || w.Metric != metric {
		return 0
	}
	return (w.High - w.Low) / (2 * 1.959963984540054)
}

// Cost is a sweep's cost when it was concluded, calculated by package ledger.
type Cost struct {
	USD          float64 `json:"usd"`
	MachineHours float64 `json:"machine_hours"`
	// numbers of Batch jobs without a known price, which are not included in USD
	Unpriced []int `json:"unpriced,omitempty"`
}

// FinalModel is what became of the final training.
type FinalModel struct {
	Trial      int    `json:"trial"`
	Registered bool   `json:"registered"` // its model is the version's; otherwise the winner's is
	Reason     string `json:"reason"`
	Trees      int    `json:"trees,omitempty"`
	Rows       int    `json:"rows,omitempty"` // trained on

	// Agreement with the winner on test rows: the ratio of the sums of predictions, and the correlation of raw scores.
	Ratio       float64 `json:"ratio,omitempty"`
	Correlation float64 `json:"correlation,omitempty"`
}

// Live says what became of the final training, in a sentence without its full stop: whether its model predicts or, as
// it was not used, the winner's own. It is empty for a sweep without a final training.
func (c *Conclusion) Live() string {
	switch f := c.Final; {
	case f == nil:
		return ""
	case f.Registered:
		return fmt.Sprintf("the model that predicts is that of the final training, trial %d, %s", f.Trial, f.Reason)
	default:
		return fmt.Sprintf("the final training, trial %d, was not used: %s", f.Trial, f.Reason)
	}
}

// Rejected is a trial that the aggregator passed over.
type Rejected struct {
	Trial  int    `json:"trial"`
	Reason string `json:"reason"`
}

// Calibration describes the effect of calibration, measured on test rows that neither model nor calibrator has seen.
type Calibration struct {
	Method string             `json:"method"` // platt or none
	Reason string             `json:"reason"`
	Before map[string]float64 `json:"before"` // ece, brier, log_loss
	After  map[string]float64 `json:"after"`
}

// Verified describes how far an independent implementation agreed with the trainer's own predictions on rows with raw
// values.
type Verified struct {
	Scorer  string  `json:"scorer"`
	Rows    int     `json:"rows"`
	MaxDiff float64 `json:"max_diff"` // largest difference of raw scores
}

// Text says in words how closely the independent implementation agreed, without a full stop.
func (v *Verified) Text() string {
	how := "exactly"
	if v.MaxDiff > 0 {
		how = fmt.Sprintf("to within %.2g", v.MaxDiff)
	}
	return fmt.Sprintf("the %s library reproduces all %s predictions %s", v.Scorer, humanize.Comma(int64(v.Rows)), how)
}

// GateDecision says whether the new version became the champion, and why.
type GateDecision struct {
	Passed   bool    `json:"passed"`
	Metric   string  `json:"metric,omitempty"`
	Champion int     `json:"champion,omitempty"` // version compared with; 0 for none
	Old      float64 `json:"old,omitempty"`      // the champion's value on the sample of test rows
	New      float64 `json:"new,omitempty"`
	Rows     int     `json:"rows,omitempty"`
	Reason   string  `json:"reason"`
	Promoted bool    `json:"promoted"` // the alias points at the new version
	// Sound says that nothing was found to be wrong with the version, whether it was promoted or not: later nights may
	// be compared with it, and on its rows.
	Sound bool `json:"sound,omitempty"`
	// Promotes is the spec's gate.promote, where that alone kept the version from going live; empty otherwise.
	Promotes string `json:"promotes,omitempty"`
	// Vindicated is an earlier version that was held back for what tonight's rows show to be right; 0 for none.
	Vindicated int     `json:"vindicated,omitempty"`
	Regret     *Regret `json:"regret,omitempty"`

	Verdict Verdict     `json:"verdict,omitempty"`
	Checks  []GateCheck `json:"checks,omitempty"` // all checks, in order
}

// Regret is a champion that tonight's rows show to be worse than the one that it replaced.
type Regret struct {
	Version   int    `json:"version"`
	TakenBack bool   `json:"taken_back"` // the alias points at the earlier champion again, or at a newer version
	Reason    string `json:"reason"`
}

// GateCheck is one check of the gate. Its reason is complete by itself, whether it passed or not.
type GateCheck struct {
	Name   string  `json:"name"` // labels, tonight, reference, gain, calibration, segments, ece, entropy, share
	Passed bool    `json:"passed"`
	Reason string  `json:"reason"`
	Value  float64 `json:"value"` // a gain, a ratio, an error or a share
	Low    float64 `json:"low,omitempty"`
	High   float64 `json:"high,omitempty"` // of its interval, if there is one
	Rows   int     `json:"rows,omitempty"`

	// For checks against a version: its number, and the metric of both models on these rows.
	Version int     `json:"version,omitempty"`
	New     float64 `json:"new,omitempty"`
	Old     float64 `json:"old,omitempty"`
}

// DecodeConclusion decodes a conclusion.
func DecodeConclusion(data []byte) (*Conclusion, error) {
	return decode("conclusion", data, func(c *Conclusion) error {
		if !slices.Contains([]Outcome{OutcomeWinner, OutcomeNoWinner, OutcomeCancelled}, c.Outcome) {
			return fmt.Errorf("outcome %.40q", c.Outcome)
		}
		return nil
	})
}
