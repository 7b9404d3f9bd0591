package sweepstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
)

// Listing is the state of a sweep's trials according to the names and generations of its objects. Listing takes time:
// each object was in the state shown at some moment between Began and Ended, not all at the same one.
type Listing struct {
	Began, Ended time.Time
	Latest       time.Time // write time of the newest object, by the store's clock; zero if there is none
	Trials       []Listed  // one for each of the plan's, in order
	Trouble      string    // name of the newest object with what holds a task up, or has ended it; "" if there is none
}

// View is what the rules of a task see of the listing.
func (l Listing) View() protocol.View {
	v := protocol.View{Began: l.Began, Ended: l.Ended, Trials: make([]protocol.Trial, len(l.Trials))}
	for i, t := range l.Trials {
		v.Trials[i] = t.Trial
	}
	return v
}

// Open counts the trials that have not ended.
func (l Listing) Open() (n int) {
	for _, t := range l.Trials {
		if !t.Ended {
			n++
		}
	}
	return n
}

// Listed is one trial in a listing: what the rules see of it, and its objects.
type Listed struct {
	protocol.Trial
	Number int
	Claims []ListedClaim // ascending; the last one holds the trial

	Result blob.Generation // of its result; 0 while there is none

	Rungs map[int]blob.Generation // rungs at which it was compared with others, by number of trees

	// where it was paused, and where it is decided what becomes of it, by number of trees
	Pauses, Promotions map[int]blob.Generation

	Decided blob.Generation // of the decision about what it trains; 0 if there is none
}

// ListedClaim is one claim in a listing. It may or may not be readable.
type ListedClaim struct {
	protocol.Claim
	Made   blob.Generation // of the claim object
	Paused bool            // given back because its trial had to wait at a rung
	Kept   bool            // one of its checkpoints is not empty
	Curve  bool            // it has a learning curve
}

// PausedAt returns the rung at which the trial was paused last; 0 if it never was.
func (t Listed) PausedAt() (step int) {
	for at := range t.Pauses {
		step = max(step, at)
	}
	return step
}

// ListTrial lists one trial.
func (t *Trials) ListTrial(ctx context.Context, trial int) (Listed, error) {
	l, err := t.list(ctx, t.names.Trial(trial))
	if err != nil {
		return Listed{}, err
	}
	return l.Trials[trial], nil
}

// List lists all trials. Objects with invalid names, of trials that are not in the plan, or of claims that do not exist
// are left out.
func (t *Trials) List(ctx context.Context) (Listing, error) { return t.list(ctx, t.names.Trials()) }

// list lists the objects whose names begin with prefix, and sorts them by trial and claim. It reads no contents: names,
// sizes and generations say all that a listing has.
func (t *Trials) list(ctx context.Context, prefix string) (Listing, error) {
	l := Listing{Began: time.Now(), Trials: make([]Listed, len(t.plan.Trials))}
	claims := make([]map[int]*ListedClaim, len(l.Trials))
	var told time.Time // when l.Trouble was written

	// Note every object under its trial and claim.
	for attrs, err := range t.bucket.List(ctx, prefix) {
		if err != nil {
			return Listing{}, fmt.Errorf("list the trials of sweep %s: %w", t.plan.Sweep, err)
		}
		if attrs.Updated.After(l.Latest) {
			l.Latest = attrs.Updated
		}
		if strings.HasPrefix(attrs.Name, t.names.Troubles()) && attrs.Size > 0 && !attrs.Updated.Before(told) {
			l.Trouble, told = attrs.Name, attrs.Updated
		}
		trial, part, number, ok := t.names.ParseTrialObject(attrs.Name)
		if !ok || trial >= len(l.Trials) || part == sweep.PartOther {
			continue
		}
		// number is a rung's number of trees, or a claim's.
		listed := &l.Trials[trial]
		switch part {
		case sweep.PartResult:
			listed.Ended, listed.Result = true, attrs.Generation
		case sweep.PartDecision:
			listed.Decided = attrs.Generation
		case sweep.PartRung:
			note(&listed.Rungs, number, attrs.Generation)
		case sweep.PartPause:
			note(&listed.Pauses, number, attrs.Generation)
		case sweep.PartPromotion:
			note(&listed.Promotions, number, attrs.Generation)
		default:
			if claims[trial] == nil {
				claims[trial] = map[int]*ListedClaim{}
			}
			c := claims[trial][number]
			if c == nil {
				c = &ListedClaim{Claim: protocol.Claim{Number: number}}
				claims[trial][number] = c
			}
			c.noteObject(part, attrs)
		}
	}
	l.Ended = time.Now()

	// Put the claims in order. Objects of a claim that does not exist are no claim.
	for i := range l.Trials {
		listed := &l.Trials[i]
		listed.Number = i
		for _, number := range slices.Sorted(maps.Keys(claims[i])) {
			if c := claims[i][number]; c.Made != blob.Absent {
				listed.Claims = append(listed.Claims, *c)
				listed.Note(c.Claim)
			}
		}
		listed.notePauses()
	}
	return l, nil
}

// note adds the generation of an object that a trial has at a rung, under the rung's number of trees. It makes the map
// if there is none.
func note(noted *map[int]blob.Generation, step int, generation blob.Generation) {
	if *noted == nil {
		*noted = map[int]blob.Generation{}
	}
	(*noted)[step] = generation
}

// notePauses records whether the trial is paused, and which claims were given back for a pause. Call it when all
// objects of the trial are noted. Generations grow with time, so the holder that wrote a pause is that of the last
// claim made before it.
func (t *Listed) notePauses() {
	for _, at := range t.Pauses {
		for i := range slices.Backward(t.Claims) {
			if c := &t.Claims[i]; c.Made < at {
				c.Paused = c.Released // the claim is given back after the pause is marked, so perhaps not yet
				break
			}
		}
	}
	step := t.PausedAt()
	_, decided := t.Promotions[step]
	t.Paused = step > 0 && !decided && !t.Ended
	t.Resumed = step > 0 && !t.Paused
}

// noteObject records that the claim has an object of this kind. Of a checkpoint that was emptied it only records that
// there was one.
func (c *ListedClaim) noteObject(part sweep.Part, object blob.Attrs) {
	switch part {
	case sweep.PartClaim:
		c.Made = object.Generation
	case sweep.PartHeartbeat:
		c.Beat = int64(object.Generation)
	case sweep.PartRelease:
		c.Released = true
	case sweep.PartCheckpoint:
		c.Saved, c.Kept = true, c.Kept || object.Size > 0
	case sweep.PartCurve:
		c.Curve = true
	}
}
