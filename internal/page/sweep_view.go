package page

import (
	"time"

	"coppice/internal/metric"
	"coppice/internal/page/plot"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// Sweep is what a page about a sweep shows.
type Sweep struct {
	ID, Model, Dataset, Objective, Metric string
	Version                               string // of the launcher that planned it
	Maximize                              bool
	State                                 string // running, cancelled, winner, no_winner
	Planned, AsOf                         time.Time
	Features                              int
	Rows                                  map[string]int
	Params                                []Param        // those that differ between trials
	Goals                                 []GoalView     // of a sweep with several objectives, the metric first
	Worths                                *search.Worths // of a sweep over groups of columns
	Trials                                []TrialRow     // by number
	// Of a sweep with folds, best first; a trial with a score stands for one, with its mean.
	Configurations []ConfigurationRow
	Attempts       []Attempt
	Memory         []Memory
	Money          *Money
	Winner         *Winner
	Notes          []string
	Links          []Link // to pages about it elsewhere
}

// Link leads out of a page. It is followed only on request.
type Link struct{ Name, URL string }

// The states of a trial.
const (
	StateComplete  = "complete"
	StateEarly     = "stopped early"
	StateFailed    = "failed"
	StateTimedOut  = "timed out"
	StateCancelled = "cancelled"
	StateRunning   = "running"
	StateWaiting   = "waiting"
)

// States are all of them, in the order in which a page lists them.
var States = []string{StateComplete, StateEarly, StateFailed, StateTimedOut, StateCancelled, StateRunning, StateWaiting}

// GoalView is one of several objectives.
type GoalView struct {
	Name     string
	Maximize bool
	Unit     plot.Unit
}

// Param is a parameter that differs between trials.
type Param struct {
	Name       string
	Log        bool
	Categories []string // where values are no numbers
}

// TrialRow is one trial. Numbers that are not known are NaN.
type TrialRow struct {
	Number    int
	State     string
	Reason    string // why it ended, or where it stands
	Tried     string // why it was tried; empty where nothing decided
	Score     float64
	Values    []float64 // of Params: numbers, or of categories theirs
	Trees     int       // in the model
	Grown     int
	Seconds   float64 // of training
	Cost      float64 // USD
	Attempts  int
	Private   float64 // bytes
	Ended     time.Time
	Known     time.Time // of a score that was known only later: when
	Best      int       // the iteration of the score
	CurveX    []float64
	CurveY    []float64
	Highlight bool // it won

	Goals []float64 // its value of each objective; nil where one is not known
	Front bool      // no other trial is better in all objectives
}

// ConfigurationRow is what is cross-validated.
type ConfigurationRow struct {
	sweep.Rated
	Rank   int       // 0 without one
	Values []float64 // of Params
}

// Attempt is one task's work on a trial.
type Attempt struct {
	Trial, Claim, Job, Task int
	Host                    string
	From, To                time.Time
	End                     string // finished, running, released, paused, lost, silent
	Trees                   int
	Cost                    float64
	Resumed                 bool // it went on from a checkpoint
	Saved                   bool // it left a checkpoint that goes further than those before
}

// Memory is what one machine held, at its fullest.
type Memory struct {
	Host            string
	Shared, Private float64 // bytes
	Tasks           int     // at that moment
	Apart           float64 // what the tasks would need with a copy of the table each
}

// Money is what the sweep cost, in USD.
type Money struct {
	Known                       bool // there is a price
	Total                       float64
	Useful, Stopped, Lost, Lead float64
	Idle                        float64
	Budget                      float64 // 0 without
	QuoteLow, Quote, QuoteHigh  float64
	Saved                       float64 // by stopping trials early, about
	MachineHours, HoursTaken    float64
}

// Winner is how the sweep ended: its conclusion, and what the registry has of the winner.
type Winner struct {
	*sweep.Conclusion
	Params   []Pair // that differ from the defaults
	Features []Importance
	Tested   *metric.Tested // nil where it was not recorded
}

// Pair is a name and a text.
type Pair struct{ Name, Text string }

// Importance is one feature's part in a model.
type Importance struct {
	Feature string
	Gain    float64 // share of all
	Splits  int
}
