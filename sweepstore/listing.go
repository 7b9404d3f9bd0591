package sweepstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"coppice/blob"
	"coppice/sweep"
)

// Listing is what the names and generations of a sweep's objects say of its trials. A store lists over some time: an object
// was as it is shown at some moment between Began and Ended, and not at the same moment as the others.
type Listing struct {
	Began, Ended time.Time
	Latest       time.Time // when the newest object was written, by the store's clock; zero where there is none
	Trials       []Trial   // one for each of the plan's, in their order
}

// Trial is one trial in a listing.
type Trial struct {
	Number int
	Claims []Claim // ascending by number; the last one holds the trial
	Ended  bool    // it has a result, readable or not

	Rungs map[int]blob.Generation // where it was compared with others, by number of trees

	Decided blob.Generation // of the decision what it trains; 0 where there is none
}

// Claim is one claim in a listing. Whether it can be read is not known.
type Claim struct {
	Number   int
	Made     blob.Generation // of the claim itself
	Beat     blob.Generation // of its heartbeat; 0 before the first
	Released bool            // its holder has given it back
	Saved    bool            // its holder got further than the claim before: there was a checkpoint, which may be empty by now
	Kept     bool            // a checkpoint of it holds something
	Curve    bool            // its holder has left a learning curve
}

// Last is the trial's last claim, the zero Claim where it has none.
func (t Trial) Last() Claim {
	if len(t.Claims) == 0 {
		return Claim{}
	}
	return t.Claims[len(t.Claims)-1]
}

// Next is the number of the claim that would take the trial.
func (t Trial) Next() int {
	if len(t.Claims) == 0 {
		return 0
	}
	return t.Last().Number + 1
}

// Free says that nobody holds the trial: it was never claimed, or given back.
func (t Trial) Free() bool { return len(t.Claims) == 0 || t.Last().Released }

// List looks at all trials. Objects with names that no Coppice wrote, of trials that the plan does not have, or of claims that
// were not made are left out. Trials of the sweep that the plan extends have ended, and have no objects here.
func (t *Trials) List(ctx context.Context) (Listing, error) {
	l := Listing{Began: time.Now(), Trials: make([]Trial, len(t.plan.Trials))}
	claims := make([]map[int]*Claim, len(l.Trials))

	for attrs, err := range t.bucket.List(ctx, t.names.Trials()) {
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
			l.Trials[trial].Ended = true
			continue
		}
		if part == sweep.PartDecision {
			l.Trials[trial].Decided = attrs.Generation
			continue
		}

		if part == sweep.PartRung {
			if l.Trials[trial].Rungs == nil {
				l.Trials[trial].Rungs = map[int]blob.Generation{}
			}
			l.Trials[trial].Rungs[number] = attrs.Generation
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
	}
	return l, nil
}

// note takes down that the claim has an object.
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
