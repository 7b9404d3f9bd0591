package conclude

import (
	"context"
	"time"

	"coppice/internal/sweep"
)

const (
	// lastSave is how long after the conclusion a task may still save a checkpoint: one that hears of nothing
	// trains on.
	lastSave = 10 * time.Minute
	// tidyFor is how long after the conclusion checkpoints are looked for. What then remains is deleted with the sweep.
	tidyFor = 6 * time.Hour
	// tidyAgain is the pause between two looks.
	tidyAgain = 5 * time.Minute
)

// emptyCheckpoints empties the checkpoints that a sweep that has ended still has, and reports whether it is certain
// that there were none. Tasks empty theirs when they leave, but a machine may vanish. A failure is logged, and does
// not affect the sweep.
func (a *Aggregator) emptyCheckpoints(ctx context.Context, id sweep.ID) (none bool) {
	dropped, err := a.sweep(id).DropCheckpoints(ctx)
	if err != nil && ctx.Err() == nil {
		a.Log.Warn("empty the checkpoints of a sweep that has ended", "sweep", id, "error", err.Error())
	}
	if dropped > 0 {
		a.Log.Info("emptied checkpoints that no task was left to empty", "sweep", id, "checkpoints", dropped)
	}
	return err == nil && dropped == 0
}

// tidyCheckpoints looks again for checkpoints of a sweep that was concluded a while ago: every tidyAgain, until there
// are none and no task can save one any more, or tidyFor is over.
func (a *Aggregator) tidyCheckpoints(ctx context.Context, id sweep.ID) {
	k := a.remember(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	now := a.Now()
	age := now.Sub(k.ended.At)
	if age > tidyFor {
		k.tidied = true
	}
	if k.tidied || now.Before(k.tidyNext) {
		return
	}

	// None now, and none can be saved any more: there is nothing left to look for.
	none := a.emptyCheckpoints(ctx, id)
	k.tidied = none && age > lastSave
	k.tidyNext = now.Add(tidyAgain)
}
