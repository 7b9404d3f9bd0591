// Package quote estimates, before anything is rented, what a sweep will take: tasks and waves, memory, hours and money,
// on Spot and on demand, for one machine type or for several side by side. It is a pure function of a plan, the
// catalogue, prices and stated assumptions; TestByHand does the same calculation by hand.
//
//	plan, manifest    work: seconds of each trial, from rows, features, trees and measured speeds
//	machine type      offer: tasks, waves, hours; on Spot those lost to preemptions, too; prices
//	offers            Price writes the plan's own into it; Compare ranks several and recommends one
package quote

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/machines"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// Assumptions are quantities that cannot be measured in advance, or have not been.
type Assumptions struct {
	// Startup is the time from a machine's first charged second to its first task: booting, Batch's agent, pulling the
	// image.
	Startup time.Duration `json:"-"`
	// Download is the rate at which the dataset is copied from Cloud Storage to local SSD, in bytes a second.
	Download float64 `json:"download_bytes_per_second"`
	// Preemptions is the rate at which a Spot machine is taken away, per hour of its life. Google publishes the rate of
	// each type and zone (the advice.capacityHistory API); this is a default.
	Preemptions float64 `json:"preemptions_per_vm_hour"`
	// NsPerValue, if above 0, replaces the calibration: nanoseconds per row, feature and tree of a trial with the
	// sweep's threads, including metrics, as shown by `launcher bill` for a completed sweep.
	NsPerValue float64 `json:"ns_per_value,omitempty"`
}

// Assumed returns the default assumptions.
func Assumed() Assumptions {
	return Assumptions{Startup: 3 * time.Minute, Download: 400e6, Preemptions: 0.05}
}

// AddFlags adds flags for the assumptions to a command, except for Download, which has none. The defaults of --startup
// and --preemptions are the assumptions as they are; without --ns-per-value there is no speed, and the calibration
// counts.
func (a *Assumptions) AddFlags(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&a.NsPerValue, "ns-per-value", 0, "nanoseconds per row, feature and tree of a trial with "+
		"the sweep's threads, as the sweep's bill shows them; 0 uses the calibration")
	cmd.Flags().DurationVar(&a.Startup, "startup", a.Startup,
		"assumed: from a machine's first charged second to its first task")
	cmd.Flags().Float64Var(&a.Preemptions, "preemptions", a.Preemptions,
		"assumed: preemptions per hour of a Spot machine")
}

// Check returns an error of kind Usage for an assumption outside its bounds, which lie far beyond any real machine's
// value. The negated comparisons also reject NaN.
func (a *Assumptions) Check() error {
	switch {
	case a.Startup < 0 || a.Startup > 24*time.Hour:
		return program.Usagef("--startup is %s: use 0s to 24h", a.Startup)
	case !(a.Preemptions >= 0) || a.Preemptions > 60:
		return program.Usagef("--preemptions is %v: use 0 to 60 an hour", a.Preemptions)
	case !(a.NsPerValue >= 0) || a.NsPerValue > 1e6:
		return program.Usagef("--ns-per-value is %v: use 0 to 1e6", a.NsPerValue)
	}
	return nil
}

// checkpointEvery is the longest time that a trial goes unsaved (internal/sweep/WIRE.md, Checkpoints).
const checkpointEvery = time.Minute

// Reserves: the time until the aggregator checks again (every five minutes in the cloud) and every task has noticed the
// end. Quick sweeps, whose tasks send a heartbeat every second, are checked more often.
const (
	reserve      = 6 * time.Minute
	quickReserve = 15 * time.Second
	quickBeat    = time.Second
)

// measuredSpread is the uncertainty of a speed that was measured on the same machines.
const measuredSpread = 0.15

// Estimator estimates what a plan takes, in a region at these prices.
type Estimator struct {
	Plan     *plan.Planned
	Manifest *dataset.Manifest
	Prices   machines.Prices
	Region   string
	Assumptions

	// Late, of Price, is a limit of the spec that the sweep is sure to exceed.
	Late error
}

// Offer is what the sweep takes on one machine type.
type Offer struct {
	Machine        string      `json:"machine"`
	VCPUs          int         `json:"vcpus"`
	VMs            int         `json:"vms"`
	TasksPerVM     int         `json:"tasks_per_vm"`
	ThreadsPerTask int         `json:"threads_per_task"`
	Tasks          int         `json:"tasks"`
	LimitedBy      string      `json:"limited_by"`
	Waves          int         `json:"waves"`
	MemoryBytes    int64       `json:"memory_bytes"`
	UsedBytes      int64       `json:"used_bytes"` // the dataset once, the system's reserve, all tasks' private bytes
	LocalSSD       int         `json:"local_ssd"`
	Lead           sweep.Range `json:"lead_seconds"`
	Trial          sweep.Range `json:"trial_seconds"` // of the mean trial
	// of the refit or final training, with the threads of all tasks of its machines
	Refit         *sweep.Range `json:"refit_seconds,omitempty"`
	RefitMachines int          `json:"refit_machines,omitempty"`
	NsPerValue    float64      `json:"ns_per_value"` // of the mean trial
	OnDemand      Side         `json:"on_demand"`
	Spot          Side         `json:"spot"`

	// SpotPays is the rate of preemptions per hour up to which Spot is expected to cost less than on demand; 0 if it
	// never does, or a price is unknown.
	SpotPays float64                `json:"spot_pays_up_to_preemptions_per_vm_hour,omitempty"`
	with     func(final int) *Offer // the same with another number of machines for the final training
	// How many times as long as a trial of its configuration the refit takes.
	refitPace float64
	least     float64 // seconds of training and refit at the fast end, without the start of machines and preemptions

	// BuiltIn says that the local SSDs are built into the machine.
	BuiltIn bool `json:"built_in_local_ssd,omitempty"`
}

// Side is an offer under one price model.
type Side struct {
	Hours       sweep.Range  `json:"hours"`
	Preemptions float64      `json:"preemptions"`      // expected
	Hourly      float64      `json:"hourly,omitempty"` // of one machine with its local SSDs, USD
	Cost        *sweep.Range `json:"cost,omitempty"`   // USD; nil if no price is known
	PriceDate   string       `json:"price_date,omitempty"`
	PriceFrom   string       `json:"price_from,omitempty"`
}

// Side returns the offer under a price model.
func (o *Offer) Side(spot bool) *Side {
	if spot {
		return &o.Spot
	}
	return &o.OnDemand
}

// work is what the sweep has to calculate, independent of the machine type.
type work struct {
	memory  plan.Memory
	seconds []float64 // by trial, in the plan's order, without a refit or final training
	// Seconds by phase, then by trial of the phase. A phase begins when the one before has ended; within it, a trial
	// waits only for a free task. Usually all trials are one phase, in a feature selection each step is one. With
	// search.stop, expected has two: what every trial trains, and what is trained after the first comparison. toTheEnd
	// has every trial train to its end.
	expected, toTheEnd [][]float64
	refit              func(threads, machines int) float64 // the seconds of a refit or final training; nil without one
	final              *gbt.Params                         // what that is expected to train
	finalAsTrial       float64                             // the seconds of a trial with these parameters
	mean               float64                             // seconds of a trial
	ns                 float64                             // per value, mean
	low, high          float64                             // factors on seconds: the fast and the slow end of a range
}

// estimateWork estimates the seconds of each trial separately: from q.NsPerValue, if an earlier sweep has shown it,
// else from the calibration. Errors are those of the plan's parameters.
func (q *Estimator) estimateWork() (*work, error) {
	p, threads := q.Plan, q.Plan.Spec.Machine.ThreadsPerTask
	memory, err := plan.Need(q.Manifest, p.Plan, p.Expected, threads)
	if err != nil {
		return nil, err
	}

	// How far the truth may be from the estimate.
	measured := Measured()
	w := &work{memory: memory, low: measured.Low, high: measured.High}
	if q.NsPerValue > 0 {
		w.low, w.high = 1-measuredSpread, 1+measuredSpread
	}

	// The dataset's size: rows of train, of valid, and of all splits but train.
	all := table{features: len(q.Manifest.Features), threads: threads}
	for i := range q.Manifest.Features {
		all.bins += q.Manifest.Features[i].Bins
	}
	for _, s := range q.Manifest.Splits {
		if s.Name == sweep.Train {
			all.rows = s.Rows
			continue
		}
		if s.Name == sweep.Valid {
			all.valid = s.Rows
		}
		all.heldOut += s.Rows
	}

	// Each trial's seconds. A refit or final training, the last of them, is kept apart.
	values := 0.0
	var onSample []float64 // seconds by trial, where search.stop has it begin on a sample of the rows
	for _, trial := range p.Expected {
		params, err := gbt.ParseParams(trial.Params)
		if err != nil {
			return nil, err
		}
		t := all.forTrial(p.Plan, trial)
		seconds := q.trialSeconds(t, params)
		if trial.Refit {
			w.final, w.refit = &params, q.refitSeconds(t, params, seconds)
			trial.Refit, trial.Fold = false, 1 // the first fold stands for any, if the plan has folds
			w.finalAsTrial = q.trialSeconds(all.forTrial(p.Plan, trial), params)
			continue
		}
		w.seconds = append(w.seconds, seconds)
		w.mean += seconds
		values += t.values(params)
		// Without a comparison by rows these are the seconds on all rows, and nothing reads them.
		if stop := p.Spec.Search.Stop; stop != nil && stop.By == sweep.ByRows {
			t.rows = max(1, t.rows/stop.OneIn)
		}
		onSample = append(onSample, q.trialSeconds(t, params))
	}
	w.ns = w.mean * 1e9 / max(values, 1) // w.mean is the sum until here
	w.mean /= float64(len(w.seconds))    // of one trial at least, as every plan has

	// By phase. Where search.stop ends trials early, the first phase becomes two.
	w.toTheEnd = splitBySteps(p.Plan, w.seconds)
	w.expected = w.toTheEnd
	if p.Spec.Search.Stop != nil {
		n := len(w.toTheEnd[0])
		w.expected = append(splitByRungs(p.Plan, p.Expected[:n], w.seconds[:n], onSample), w.toTheEnd[1:]...)
	}
	return w, nil
}

// trialSeconds is how many seconds a trial takes with these parameters on t.
func (q *Estimator) trialSeconds(t table, params gbt.Params) float64 {
	if q.NsPerValue > 0 {
		return t.values(params) * q.NsPerValue * 1e-9
	}
	return Measured().trialSeconds(t, params)
}

// refitSeconds returns a function that estimates the seconds of the refit or final training from the threads on one
// machine and the number of machines. seconds is what it takes one task, with t's threads. The models of a bag are
// trained side by side, with equal shares of the threads; if there are more models than threads, one round after
// another.
func (q *Estimator) refitSeconds(t table, params gbt.Params, seconds float64) func(threads, machines int) float64 {
	return func(threads, machines int) float64 {
		member, bag := t, q.Plan.Spec.Bag()
		atOnce := min(bag, threads)
		rounds := (bag + atOnce - 1) / atOnce
		member.threads = threads / atOnce
		if bag > 1 { // each model lacks one fold
			member.rows -= member.rows / bag
		}

		// seconds may be from a speed that was seen: the calibration gives only the ratio.
		single := seconds * float64(rounds) * Measured().trialSeconds(member, params) /
			Measured().trialSeconds(t, params)
		return teamSeconds(q.Manifest, params, single, machines)
	}
}

// splitBySteps divides the trials' seconds into phases (see work): the steps of a feature selection or the generations
// of a population, whose trials stand one step after the other, else one phase with all of them.
func splitBySteps(planned *sweep.Plan, seconds []float64) (out [][]float64) {
	if !planned.Selects() {
		return [][]float64{seconds}
	}
	stages := planned.Stages()
	for i, s := range seconds {
		if i == 0 || stages[i] != stages[i-1] {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s)
	}
	return out
}

// forTrial returns the table t as a trial sees it. Without folds a trial trains on train, or on one copy of its rows if
// the plan says so (OneOrder), and a refit on the held-out rows, too. With folds a trial trains on some folds of train
// and evaluates on others, all by number of rows, and a refit trains on train and valid.
func (t table) forTrial(planned *sweep.Plan, trial sweep.Trial) table {
	switch {
	case planned.Folds == nil && trial.Refit:
		t.rows += t.heldOut
		t.heldOut, t.valid = 0, 0
	case planned.Folds == nil:
		if planned.OneOrder() { // only a part of the staged rows is trained on
			t.rows = planned.Dataset.TableRows(sweep.Train)
		}
	case trial.Refit:
		t.rows += t.valid
		t.heldOut -= t.valid
		t.valid = 0
	default:
		r := planned.Folds.Rounds[trial.Fold-1]
		rows := t.rows
		t.rows = max(1, rows*len(r.Train.Folds)/dataset.Folds)
		t.valid = rows * len(r.Rated.Folds) / dataset.Folds
		t.heldOut = t.valid
	}
	return t
}

// Price sets the plan's Quote: time and expected cost on its own machines and on each of its fallbacks. It appends to
// the plan's Notes what a person should know about limits and prices, and sets q.Late if a limit is sure to be
// exceeded. If a default bag would take too long, Price takes it out of the plan. Errors are of kind Input: unknown
// machine types, and the plan's parameters.
func (q *Estimator) Price() error {
	w, err := q.estimateWork()
	if err != nil {
		return err
	}
	o, err := q.offerOwn(w)
	if err != nil {
		return err
	}

	// A bag that is only the default may take at most a quarter of the sweep's time, and no more than a trial may. The
	// refit is quoted for the slowest configuration, which seldom wins; here that of the mean one counts: refitPace
	// times as long as its trial.
	limit := min(time.Duration(q.Plan.Spec.Limits.Sweep)/4, time.Duration(q.Plan.Spec.Limits.Trial))
	if o.Refit != nil && o.refitPace*o.Trial.Expected > limit.Seconds() && q.Plan.WithoutBag() {
		return q.Price() // without the bag, so that this happens once
	}

	// The plan's own machines.
	var notes []string
	if *q.Plan.Spec.Machine.Spot {
		notes = q.noteUnpaid(*o)
	}
	out := q.toQuote(o)
	q.Plan.Quote = out
	late, err := q.checkLimits(w, o)
	q.Late, notes = err, append(notes, late...) // whether to refuse the sweep is the caller's to decide
	notes = append(notes, q.finalNotes(w, o)...)

	// Its fallbacks.
	for i, z := range q.Plan.Fallback {
		m := q.Plan.Spec.Machine.Choice(i + 1)
		t, err := machines.Find(m.Type)
		if err != nil {
			return err
		}
		o := q.makeOffer(w, t, z, int(m.LocalSSD), q.Plan.Spec.FinalMachines())
		s := o.Side(*m.Spot)
		f := sweep.FallbackPrice{Machine: t.Name, Spot: *m.Spot, Hourly: s.Hourly, VMs: o.VMs, PriceDate: s.PriceDate}
		if s.Cost != nil {
			f.Cost = *s.Cost
		}
		out.Fallback = append(out.Fallback, f)
	}

	q.Plan.Notes = append(q.Plan.Notes, append(notes, ageOf(out, q.Plan.Created)...)...)
	return nil
}

// offerOwn is the offer for the plan's own machines, with its Sizing.
func (q *Estimator) offerOwn(w *work) (*Offer, error) {
	m := q.Plan.Spec.Machine
	t, err := machines.Find(m.Type)
	if err != nil {
		return nil, err
	}
	return q.makeOffer(w, t, q.Plan.Sizing, int(m.LocalSSD), q.Plan.Spec.FinalMachines()), nil
}

// makeOffer calculates the offer for a machine type and sizing. disks is the number of local SSDs of each machine, and
// final how many machines the final training takes, or all if there are fewer.
func (q *Estimator) makeOffer(w *work, machine machines.Type, sizing sweep.Sizing, disks, final int) *Offer {
	vms := (sizing.Tasks + sizing.TasksPerVM - 1) / sizing.TasksPerVM
	o := &Offer{Machine: machine.Name, VCPUs: machine.VCPUs, VMs: vms, TasksPerVM: sizing.TasksPerVM,
		ThreadsPerTask: sizing.ThreadsPerTask, Tasks: sizing.Tasks,
		LimitedBy: sizing.LimitedBy, MemoryBytes: machine.MemoryBytes, LocalSSD: disks,
		UsedBytes:  sizing.DatasetBytes + sizing.ReserveBytes + int64(sizing.TasksPerVM)*sizing.TrialBytes,
		NsPerValue: w.ns,
		BuiltIn:    machine.BuiltIn}

	// finalNotes asks what other numbers of machines for the final training would take.
	o.with = func(final int) *Offer { return q.makeOffer(w, machine, sizing, disks, final) }

	// Seconds: until the first trial starts (assumed to within a factor of two), a trial's, and the final training's.
	lead := q.Startup.Seconds() + float64(sizing.DatasetBytes)/q.Download
	o.Lead = sweep.Range{Low: lead / 2, Expected: lead, High: 2 * lead}
	o.Trial = sweep.Range{Low: w.mean * w.low, Expected: w.mean, High: w.mean * w.high}

	refit := 0.0
	if w.refit != nil {
		final = min(final, vms)
		refit = w.refit(sizing.RefitThreads(), final)
		o.RefitMachines = final
		o.Refit = &sweep.Range{Low: refit * w.low, Expected: refit, High: refit * w.high}
		o.refitPace = refit / max(w.finalAsTrial, 1e-9)
	}

	// The seconds of all trials, phase after phase: as expected, and if none is stopped early.
	training, toTheEnd := 0.0, 0.0
	for _, seconds := range w.expected {
		training += makespan(seconds, sizing.Tasks)
		o.Waves += (len(seconds) + sizing.Tasks - 1) / sizing.Tasks
	}
	for _, seconds := range w.toTheEnd {
		toTheEnd += makespan(seconds, sizing.Tasks)
	}
	o.least = (training + refit) * w.low

	// Hours and cost, on demand and on Spot; without a price there is no cost.
	for _, spot := range []bool{false, true} {
		s := o.Side(spot)
		s.Hours = sweep.Range{
			Low:      q.machineHours(o.Lead.Low, (training+refit)*w.low, o.Trial.Low, spot),
			Expected: q.machineHours(o.Lead.Expected, training+refit, o.Trial.Expected, spot),
			High:     q.machineHours(o.Lead.High, (toTheEnd+refit)*w.high, o.Trial.High, spot),
		}
		if spot {
			s.Preemptions = q.Preemptions * float64(vms) * s.Hours.Expected
		}
		usd, from, ok := q.Prices.Hourly(machine, q.Region, spot, disks)
		if !ok {
			continue
		}

		// All machines are paid until the end, except that during the refit only those that train it are. per is USD an
		// hour; alone is the USD of the others for the time of the refit.
		per := usd * float64(vms)
		// Without a refit that time is 0, and so is alone.
		alone := usd * float64(vms-max(final, 1)) * refit / 3600
		s.Hourly = usd
		s.PriceDate = from.Date
		s.PriceFrom = from.Source
		s.Cost = &sweep.Range{Low: per*s.Hours.Low - alone*w.low, Expected: per*s.Hours.Expected - alone,
			High: per*s.Hours.High - alone*w.high}
	}
	o.SpotPays = q.spotPays(o)
	return o
}

// machineHours is how many hours each machine runs. The times given are in seconds: lead until the first trial starts,
// training from then on, and trial for one trial. A Spot machine loses a share of its time to preemptions: their rate
// times what each costs. Repeating lost work can be interrupted as well, so that only the rest of the time, 1 - share,
// is used for the work.
func (q *Estimator) machineHours(lead, training, trial float64, spot bool) float64 {
	undisturbed := (lead + training) / 3600
	if !spot {
		return undisturbed
	}
	lost := q.Preemptions * q.loss(lead, trial) / 3600
	return undisturbed / (1 - min(lost, maxLost))
}

// maxLost bounds the share of time lost to preemptions; beyond it, a quote just states ten times the time.
const maxLost = 0.9

// loss is the cost of a preemption, in seconds of a machine: a new start with the copying of the dataset (lead), the
// work since the last checkpoint, which is half an interval on average, and resuming a trial that is halfway on
// average.
func (q *Estimator) loss(lead, trial float64) float64 {
	return lead + checkpointEvery.Seconds()/2 + Measured().Resume*trial/2
}

// makespan is the time until the last trial ends, in seconds, if every task takes the next trial as soon as it is free.
// seconds has each trial's time, in the order in which they are taken. tasks is at least 1. Without trials it is 0.
func makespan(seconds []float64, tasks int) float64 {
	free := make([]float64, min(tasks, len(seconds))) // by task: when it is free next; ascending
	last := 0.0
	for _, s := range seconds {
		// The task that is free first takes the trial, and moves back in the order to its new time.
		end := free[0] + s
		at, _ := slices.BinarySearch(free[1:], end)
		copy(free, free[1:at+1])
		free[at] = end
		last = max(last, end)
	}
	return last
}

// toQuote returns what a plan keeps of the offer, on Spot or on demand as its spec says. Fallbacks are left empty.
func (q *Estimator) toQuote(offer *Offer) *sweep.Quote {
	spot := *q.Plan.Spec.Machine.Spot
	side := offer.Side(spot)
	out := &sweep.Quote{
		Region: q.Region, Spot: spot,
		Hourly: side.Hourly, OnDemand: offer.OnDemand.Hourly, PriceDate: side.PriceDate, PriceFrom: side.PriceFrom,
		LocalSSD: offer.LocalSSD, VMs: offer.VMs, Waves: offer.Waves,
		Hours: side.Hours, LeadTime: offer.Lead, Trial: offer.Trial, NsPerValue: offer.NsPerValue,
		Preemptions: side.Preemptions, Reserve: keptBack(q.Plan.Plan).Seconds(),
	}
	if side.Cost != nil {
		out.Cost = *side.Cost
	}
	if offer.Refit != nil {
		out.Refit, out.RefitPace = *offer.Refit, offer.refitPace
	}
	return out
}

// keptBack is how long a sweep's machines may still run, and have to be paid, after its budget is used up: until the
// aggregator notices and the tasks have stopped.
func keptBack(planned *sweep.Plan) time.Duration {
	if time.Duration(planned.Heartbeat) <= quickBeat {
		return quickReserve
	}
	return reserve
}

// sane reports whether an amount in USD is a number below a billion: prices and times that a person has given may make
// others, which are not recommended.
func sane(v float64) bool { return !math.IsNaN(v) && v < 1e9 }

// oldPrice is the age from which a price is reported. Spot prices may change once a day
// (https://cloud.google.com/spot-vms/pricing), on-demand prices rarely; after a month a Spot price is out of date.
const oldPrice = 30 * 24 * time.Hour

// ageOf returns notes about prices in the quote that are too old at the time now; empty if there are none.
func ageOf(quoted *sweep.Quote, now time.Time) []string {
	dates := []string{quoted.PriceDate}
	for _, f := range quoted.Fallback {
		dates = append(dates, f.PriceDate)
	}
	return noteAge(dates, now)
}

// noteAge returns a note about the oldest of the dates (YYYY-MM-DD), if that is more than oldPrice before now, else
// nil. An empty date means no price; it is passed over, and so is any other text that is no date.
func noteAge(dates []string, now time.Time) []string {
	var oldest time.Time
	for _, date := range dates {
		if d, err := time.Parse(time.DateOnly, date); err == nil && (oldest.IsZero() || d.Before(oldest)) {
			oldest = d
		}
	}
	if oldest.IsZero() || now.Sub(oldest) <= oldPrice {
		return nil
	}
	return []string{fmt.Sprintf("the oldest price is from %s, %d days ago, and may have changed; COPPICE_PRICES=FILE "+
		"takes newer ones", oldest.Format(time.DateOnly), int(now.Sub(oldest).Hours()/24))}
}
