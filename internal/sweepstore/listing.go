package sweepstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

// Listing is the state of a sweep's trials according to the names and generations of its objects. Listing takes time:
// each object was in the state shown at some moment between Began and Ended, not all at the same one.
type Listing struct {
	Began, Ended time.Time
	Latest       time.Time // write time of the newest object, by the store's clock; zero if there is none
	Trials       []Trial   // one for each of the plan's, in order
}

// Trial is one trial in a listing.
type Trial struct {
	Number int
	Claims []Claim // ascending; the last one holds the trial
	Ended  bool    // it has a result, readable or not

	Result blob.Generation // of its result; 0 while there is none, and for trials of a sweep that the plan extends

	Rungs map[int]blob.Generation // rungs at which it was compared with others, by number of trees

	// where it was paused, and where it is decided what becomes of it, by number of trees
	Pauses, Promotions map[int]blob.Generation

	Decided blob.Generation // of the decision about what it trains; 0 if there is none
}

// Claim is one claim in a listing. It may or may not be readable.
type Claim struct {
	Number   int
	Made     blob.Generation // of the claim object
	Beat     blob.Generation // of its heartbeat; 0 before the first
	Released bool            // given back by its holder
	Paused   bool            // because its trial had to wait at a rung
	// its holder got further than the previous claim: it wrote a checkpoint, which may have been emptied since
	Saved bool
	Kept  bool // one of its checkpoints is not empty
	Curve bool // it has a learning curve
}

// Last returns the trial's last claim, or the zero Claim.
func (t Trial) Last() Claim {
	if len(t.Claims) == 0 {
		return Claim{}
	}
	return t.Claims[len(t.Claims)-1]
}

// Next is the number of the trial's next claim.
func (t Trial) Next() int {
	if len(t.Claims) == 0 {
		return 0
	}
	return t.Last().Number + 1
}

// Free reports whether no task holds the trial: it was never claimed, or its last claim was released.
func (t Trial) Free() bool { return len(t.Claims) == 0 || t.Last().Released }

// Paused returns the rung at which the trial was paused last, and whether it is still undecided what becomes of it; 0
// if it never was.
func (t Trial) Paused() (step int, undecided bool) {
	for at := range t.Pauses {
		step = max(step, at)
	}
	_, decided := t.Promotions[step]
	return step, step > 0 && !decided && !t.Ended
}

// ListTrial lists one trial. That of a sweep that the plan extends has no objects.
func (t *Trials) ListTrial(ctx context.Context, trial int) (Trial, error) {
	l, err := t.list(ctx, t.names.Trial(trial))
	if err != nil {
		return Trial{}, err
	}
	return l.Trials[trial], nil
}

// List lists all trials. Objects with invalid names, of trials that are not in the plan, or of claims that do not exist
// are left out. Trials of the sweep that the plan extends have ended, and have no objects here.
func (t *Trials) List(ctx context.Context) (Listing, error) { return t.list(ctx, t.names.Trials()) }

func (t *Trials) list(ctx context.Context, prefix string) (Listing, error) {
	l := Listing{Began: time.Now(), Trials: make([]Trial, len(t.plan.Trials))}
	claims := make([]map[int]*Claim, len(l.Trials))

	for attrs, err := range t.bucket.List(ctx, prefix) {
		if err != nil {
			return Listing{}, fmt.Errorf("list the trials of sweep %s: %w", t.plan.Sweep, err)
		}
		if attrs.Updated.After(l.Latest) {
			l.Latest = attrs.Updated
		}
		trial, part, number, ok := t.names.ParseTrialObject(attrs.Name)
		if !ok || trial >= len(l.Trials) || trial < t.plan.Inherits() || part == sweep.PartOther {
			continue
		}
		if part == sweep.PartResult {
			l.Trials[trial].Ended, l.Trials[trial].Result = true, attrs.Generation
			continue
		}
		if part == sweep.PartDecision {
			l.Trials[trial].Decided = attrs.Generation
			continue
		}

		if l.Trials[trial].climbs(part, number, attrs.Generation) {
			continue
		}

		if claims[trial] == nil {
			claims[trial] = map[int]*Claim{}
		}
		c := claims[trial][number]
		if c == nil {
			c = &Claim{Number: number}
			claims[trial][number] = c
		}
		c.note(part, attrs.Generation)
		if part == sweep.PartCheckpoint && attrs.Size > 0 {
			c.Kept = true
		}
	}
	l.Ended = time.Now()

	for i := range l.Trials {
		l.Trials[i].Number = i
		l.Trials[i].Ended = l.Trials[i].Ended || i < t.plan.Inherits()
		for _, c := range claims[i] {
			if c.Made != blob.Absent {
				l.Trials[i].Claims = append(l.Trials[i].Claims, *c)
			}
		}
		slices.SortFunc(l.Trials[i].Claims, func(a, b Claim) int { return cmp.Compare(a.Number, b.Number) })
		l.Trials[i].notePauses()
	}
	return l, nil
}

// climbs records an object of a rung; it reports whether it is one.
func (t *Trial) climbs(part sweep.Part, step int, at blob.Generation) bool {
	of := map[sweep.Part]*map[int]blob.Generation{sweep.PartRung: &t.Rungs, sweep.PartPause: &t.Pauses,
		sweep.PartPromotion: &t.Promotions}[part]
	if of == nil {
		return false
	}
	if *of == nil {
		*of = map[int]blob.Generation{}
	}
	(*of)[step] = at
	return true
}

// notePauses finds the claims whose holders paused the trial: the last ones made before its pauses.
func (t *Trial) notePauses() {
	for _, at := range t.Pauses {
		for i := range slices.Backward(t.Claims) {
			if c := &t.Claims[i]; c.Made < at {
				c.Paused = c.Released
				break
			}
		}
	}
}

// note records that the claim has an object.
func (c *Claim) note(part sweep.Part, at blob.Generation) {
	switch part {
	case sweep.PartClaim:
		c.Made = at
	case sweep.PartHeartbeat:
		c.Beat = at
	case sweep.PartRelease:
		c.Released = true
	case sweep.PartCheckpoint:
		c.Saved = true
	case sweep.PartCurve:
		c.Curve = true
	}
}
