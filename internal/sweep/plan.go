// Package sweep is the contract between Coppice's stages: the contents of a sweep.yaml, the names and contents of a
// running sweep's objects and messages, and the programs' exit codes. A sweep goes this way:
//
//	sweep.yaml -> ParseSpec -> Spec -> Plan with its Trials        launcher: what is decided before the first machine
//	Trial -> Claim, Heartbeat -> Decision, Rung, Promotion         tasks: who trains it, what, and whether it goes on
//	      -> Result, Curve -> ScoreMessage
//	Results -> Board -> Ending, Conclusion -> Verdict              aggregator: what counts, and who has won
//
// parse.go tells how a spec is read; a plan is checked when it is decoded. Seen is what one trial knows of another.
// WIRE.md has the same in prose, with the writer of each object and why repeating a write is harmless.
//
// The package depends on no storage, clock or engine. Objects of other programs must be read through its decoders,
// because a bucket's contents may have been written by anyone.
package sweep

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"coppice/internal/problem"
)

// FormatVersion is written into every JSON object of this package. A reader refuses any other.
const FormatVersion = 1

// Splits of a dataset.
const (
	Train = "train"
	Valid = "valid"
	Calib = "calib"
	Test  = "test"
)

// Written is part of every create-only object. Its writer generates an id; if the answer to the write is lost, reading
// the object tells whether it is the writer's own.
type Written struct {
	WriteID string `json:"write_id,omitempty"`
}

// ForgetWrite removes the id from an object that was read: two objects with the same contents are then equal.
func (w *Written) ForgetWrite() { *w = Written{} }

// MarkWrite sets the id of an object that is to be written.
func (w *Written) MarkWrite(id string) { w.WriteID = id }

// Plan is everything that is decided before the first machine starts. It is written once, create-only.
type Plan struct {
	Format  int        `json:"format"`
	Sweep   ID         `json:"sweep"`
	Created time.Time  `json:"created"`
	Coppice string     `json:"coppice"` // the launcher's version
	Job     string     `json:"job"`     // Batch job name, projects/P/locations/L/jobs/ID
	Spec    Spec       `json:"spec"`
	Dataset DatasetRef `json:"dataset"`

	// Maximize says whether a higher value of Spec.Metric is better.
	Maximize bool     `json:"maximize"`
	Metrics  []string `json:"metrics"` // measured on valid for every trial, beside Spec.Metric
	Holdout  Holdout  `json:"holdout"`
	Sizing   Sizing   `json:"sizing"`
	Fallback []Sizing `json:"fallback,omitempty"` // on the machines of Spec.Machine.Fallback, one for each

	// A claim's holder rewrites its heartbeat every Heartbeat; a task that sees no change for Takeover may take the
	// trial.
	Heartbeat Duration `json:"heartbeat"`
	Takeover  Duration `json:"takeover"`

	// Quote is the expected cost and time of the sweep when it was planned; nil if nothing was expected.
	Quote *Quote `json:"quote,omitempty"`

	// Base are the complete parameters beneath open trials' own; empty in a plan without open trials.
	Base Params `json:"base,omitempty"`

	// Earlier are the results of the bucket's earlier sweeps of the model, newest first; empty without
	// search.warm_start.
	Earlier []Earlier `json:"earlier,omitempty"`

	// Folds, if not nil, says how the trials cross-validate.
	Folds *Folds `json:"folds,omitempty"`

	Trials  []Trial `json:"trials"`
	Skipped int     `json:"skipped,omitempty"` // configurations left out because they repeated another

	unknown error // what the plan says beyond what this build knows; nil for nothing

	Written
}

// DatasetRef pins one dataset version. Version is a hash of the contents.
type DatasetRef struct {
	Name     string         `json:"name"`
	Version  string         `json:"version"`
	Rows     map[string]int `json:"rows"`             // by split, of train with all copies
	Copies   int            `json:"copies,omitempty"` // of train, one for each order; 0 is one
	Features int            `json:"features"`
	Bytes    int64          `json:"bytes"` // on disk, all files
}

// TableRows is how many rows of the table a split contains: for train, those of one copy.
func (d *DatasetRef) TableRows(split string) int {
	if split == Train {
		return d.Rows[split] / max(d.Copies, 1)
	}
	return d.Rows[split]
}

// Holdout says which held-out rows serve which purpose. If a dataset has no calib or test split, they are carved out of
// another by fold number, so that rows of one group stay together.
type Holdout struct {
	Valid Rows `json:"valid"`
	Calib Rows `json:"calib"`
	Test  Rows `json:"test"`
}

// Rows is a set of rows: those of Split whose fold number is among Folds, or all if Folds is nil.
type Rows struct {
	Split string  `json:"split"`
	Folds []uint8 `json:"folds,omitempty"`
	Once  bool    `json:"once,omitempty"` // of train, in the first of its orders
}

// Sizing is how the task array was sized, with the sums behind it. Bytes are bytes.
type Sizing struct {
	MachineType  string `json:"machine_type"`
	VCPUs        int    `json:"vcpus"`
	MemoryBytes  int64  `json:"memory_bytes"`
	DatasetBytes int64  `json:"dataset_bytes"` // once per machine
	ReserveBytes int64  `json:"reserve_bytes"` // left to the system
	TrialBytes   int64  `json:"trial_bytes"`   // private to each trial, at most
	// private to the refit, which runs alone: it has a copy of the rows
	RefitBytes     int64  `json:"refit_bytes,omitempty"`
	VMs            int    `json:"vms"`
	TasksPerVM     int    `json:"tasks_per_vm"`
	ThreadsPerTask int    `json:"threads_per_task"`
	Tasks          int    `json:"tasks"`      // VMs x TasksPerVM, or fewer if there are fewer trials
	LimitedBy      string `json:"limited_by"` // why not more tasks on a VM
}

// RefitThreads is how many threads a refit or final training may use: those of all tasks of its machine, which have
// nothing else to do.
func (z *Sizing) RefitThreads() int { return z.TasksPerVM * z.ThreadsPerTask }

// Machines returns how many machines the tasks need, at most VMs. without is how many tasks are left out of the count,
// since they have nothing to do; if these are all, it is 0. Tasks, TasksPerVM and VMs that are 0, as in a plan without
// a sizing, count as 1.
func (z *Sizing) Machines(without int) int {
	perVM := max(z.TasksPerVM, 1)
	tasks := max(max(z.Tasks, 1)-without, 0)
	return min(max(z.VMs, 1), (tasks+perVM-1)/perVM) // rounded up
}

// Trial is one configuration to train.
type Trial struct {
	Number int    `json:"number"` // 0, 1, 2 ...
	Source string `json:"source"` // fixed, grid or random; in a search that learns also warm, portfolio or its method
	Params Params `json:"params"` // complete: the spec's, the trial's and the trainer's defaults

	Reason string `json:"reason,omitempty"` // why it is in the plan, if because of results from elsewhere

	// In a plan with folds: which configuration the trial is a fold of, from 0, and which fold, from 1. The refit has
	// neither; what it trains follows from the results of the others.
	Configuration int  `json:"configuration,omitempty"`
	Fold          int  `json:"fold,omitempty"`
	Refit         bool `json:"refit,omitempty"`

	Open bool `json:"open,omitempty"` // what it trains is decided when it is claimed, and recorded in its Decision
}

// Fingerprint returns a hash of what makes two plans the same sweep. It leaves out on what the trials do not depend:
// when and by which build the plan was written, the quote, the budget and the labels. With search.warm_start it also
// leaves out what changes from day to day, since an existing plan keeps its own: the results of earlier sweeps, the
// trials that follow from them, and the rungs, which follow from the trees that the earlier winners had.
func (p *Plan) Fingerprint() string {
	// Clear in a copy what is left out.
	same := *p
	same.Created, same.Coppice, same.Quote, same.Spec.Budget = time.Time{}, "", nil, 0
	same.Written, same.Spec.Labels = Written{}, nil
	if same.Earlier != nil || same.Spec.Search.WarmStart != "" {
		same.Earlier, same.Trials = nil, nil
	}
	same.Spec.ForgetHistory()
	data, err := json.Marshal(same)
	if err != nil {
		// only for a NaN among parameters, which ParseSpec rejects
		panic(fmt.Sprintf("a plan that cannot be written as JSON: %v", err))
	}

	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Trainable returns an error if the plan has keys that this build does not know: it would train something else than the
// plan says. Such a plan can still be read, so that what other builds have trained by it can be concluded.
func (p *Plan) Trainable() error {
	if p.unknown == nil {
		return nil
	}
	return NotA("plan", fmt.Errorf("%w; %w", p.unknown, WroteIt(p.Coppice)))
}

// DecodePlan decodes a plan and checks what later code relies on. A plan with keys that this build does not know is no
// error: see Trainable.
func DecodePlan(data []byte) (*Plan, error) {
	return decode("plan", data, func(p *Plan) error {
		for _, check := range []func() error{p.checkIdentity, p.checkTrials, p.checkStop, p.checkEarlier,
			p.checkObjectives, p.checkFolds, p.checkFeatureSets, p.checkPopulation, p.checkMoney} {
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkIdentity checks what becomes part of the names of objects and jobs, and lists in which later code looks up by
// number: fallbacks and trials.
func (p *Plan) checkIdentity() error {
	if err := CheckID(string(p.Sweep)); err != nil {
		return err
	}
	if err := CheckName("dataset", p.Dataset.Name); err != nil {
		return err
	}
	if err := CheckName("model", p.Spec.Model); err != nil {
		return err
	}

	switch {
	// Cancelling a sweep cancels the job that the plan names. Without a name there is nothing to cancel.
	case p.Job != "" && p.Job != p.JobName(0):
		return fmt.Errorf("job %.200q is not that of sweep %s", p.Job, p.Sweep)
	case !versionPattern.MatchString(p.Dataset.Version):
		return fmt.Errorf("dataset version %.40q", p.Dataset.Version)
	// If a takeover came before the next heartbeat, live tasks would lose their trials.
	case p.Heartbeat <= 0 || p.Takeover <= p.Heartbeat:
		return fmt.Errorf("heartbeat %s, takeover %s", p.Heartbeat, p.Takeover)
	case len(p.Fallback) != len(p.Spec.Machine.Fallback):
		return fmt.Errorf("%d sizings of %d fallbacks", len(p.Fallback), len(p.Spec.Machine.Fallback))
	case len(p.Trials) == 0 || len(p.Trials) > MaxTrials:
		return fmt.Errorf("%d trials", len(p.Trials))
	}
	for _, part := range []Rows{p.Holdout.Valid, p.Holdout.Calib, p.Holdout.Test} {
		if !slices.Contains([]string{Train, Valid, Calib, Test}, part.Split) {
			return fmt.Errorf("held-out split %.40q", part.Split)
		}
	}
	return nil
}

// DecodeError is an object or message that is not what its name says. An aggregator drops it, as it drops no other
// damage: the next reconciliation looks at the object again.
type DecodeError struct {
	kind string
	err  error
}

// NotA is the error about an object or message that is not what its name says, for the reason in err.
func NotA(kind string, err error) error { return &DecodeError{kind, err} }

func (e *DecodeError) Error() string { return fmt.Sprintf("not a %s of Coppice: %v", e.kind, e.err) }

// Unwrap returns the reason.
func (e *DecodeError) Unwrap() error { return e.err }

// WroteIt says what to do about a plan that another build wrote.
func WroteIt(version string) error {
	return fmt.Errorf("coppice %s wrote it: use programs and images of one version", version)
}

// Kind is problem.Damaged.
func (*DecodeError) Kind() problem.Kind { return problem.Damaged }

// decode decodes an object of a kind from JSON. It refuses another format than this build's and an invalid sweep id,
// and then calls check for what later code relies on. Every error is a *DecodeError. It says which version wrote the
// object, if that could be read, unless check finds the fault.
func decode[T any](kind string, data []byte, check func(*T) error) (*T, error) {
	var head struct {
		Format  int     `json:"format"`
		Sweep   *string `json:"sweep"`
		Coppice string  `json:"coppice"`
	}

	// Format and id come first: what another format means by the other keys is not known.
	v := new(T)
	err := json.Unmarshal(data, &head)
	switch {
	case err != nil:
	case head.Format != FormatVersion:
		err = fmt.Errorf("format %d; this build reads %d", head.Format, FormatVersion)
	case head.Sweep != nil:
		err = CheckID(*head.Sweep)
	}
	if err == nil {
		if p, ok := any(v).(*Plan); ok {
			err = p.unmarshal(data)
		} else {
			err = json.Unmarshal(data, v)
		}
	}
	if err != nil && head.Coppice != "" {
		err = fmt.Errorf("%w; %w", err, WroteIt(head.Coppice))
	}

	if err == nil {
		err = check(v)
	}
	if err != nil {
		return nil, NotA(kind, err)
	}
	return v, nil
}

// unmarshal decodes a plan. If the plan has keys that this build does not know, it decodes the others and keeps the
// error for Trainable.
func (p *Plan) unmarshal(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(p)
	if err == nil {
		return nil
	}
	*p = Plan{unknown: err} // without what was decoded up to the error
	return json.Unmarshal(data, p)
}

// isTrial reports whether a number from outside may be a trial's.
func isTrial(number int) bool { return number >= 0 && number < MaxTrials }

// Select returns the numbers of the rows that belong to r, ascending. If r.Folds is nil it returns nil, which stands
// for all rows of the split. fold has the fold number of each row of the split.
func (r Rows) Select(fold []uint8) []uint32 {
	if r.Folds == nil {
		return nil
	}

	var in [256]bool
	for _, f := range r.Folds {
		in[f] = true
	}

	// Count first, to allocate once and no more than needed.
	count := 0
	for _, f := range fold {
		if in[f] {
			count++
		}
	}

	rows := make([]uint32, 0, count)
	for i, f := range fold {
		if in[f] {
			rows = append(rows, uint32(i))
		}
	}

	return rows
}
