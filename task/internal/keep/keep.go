// Package keep saves a training's checkpoints and finds the one to go on from. The last two are kept: a new one is written,
// whole or not at all, and made sure of, before the oldest is dropped. Losing a checkpoint costs time and nothing else, so what
// goes wrong while saving is logged and the training goes on.
package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"time"

	"coppice/gbt"
	"coppice/protocol"
)

// Place is where the checkpoints of one run lie.
type Place interface {
	// List names what is there. What was dropped is not.
	List(ctx context.Context) ([]string, error)
	// Read gives the contents, or fs.ErrNotExist.
	Read(ctx context.Context, name string) ([]byte, error)
	// Write puts data under name, whole or not at all, and returns when it has made sure that they are there.
	Write(ctx context.Context, name string, data []byte) error
	// Drop removes contents that are no longer needed.
	Drop(ctx context.Context, name string) error
}

// Keeper saves the checkpoints of one run. It is used by one goroutine.
type Keeper struct {
	Place Place
	// Prefix begins the names of this keeper's own checkpoints, which nobody else writes. There are three: the last two and
	// the one that is being written.
	Prefix string
	// Every is how long a training may go on unsaved.
	Every time.Duration
	// Soon saves more often at first, from the first tree on: the training may vanish without notice.
	Soon bool
	Log  *slog.Logger

	kept  []kept    // the one to be dropped first comes first
	saved int       // rounds of the newest
	began time.Time // when the first checkpoint was offered
	at    time.Time
	took  time.Duration // the last saving
}

type kept struct {
	name   string
	rounds int // -1 when it is damaged
}

const (
	most  = 2 // checkpoints are kept
	slots = most + 1
)

// Bounds of saving.
const (
	// saveLimit is how long the training waits for a place that does not answer.
	saveLimit = 10 * time.Second
	// lastLimit is for the last checkpoint of a process that is told to go: a container is killed ten seconds later, and a
	// worker still has to say that its trial is free.
	lastLimit = 4 * time.Second
)

// Newest is the checkpoint that is furthest on; nil when there is none. One that is damaged is logged, passed over and
// dropped when there is a better one. Errors are the place's.
func (k *Keeper) Newest(ctx context.Context) (*gbt.Checkpoint, error) {
	names, err := k.Place.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for checkpoints: %w", err)
	}

	k.kept, k.saved = nil, 0
	var newest *gbt.Checkpoint

	for _, name := range names {
		data, err := k.Place.Read(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped meanwhile, by the task that has ended the trial
		}
		if err != nil {
			return nil, fmt.Errorf("read checkpoint %s: %w", name, err)
		}

		c, err := gbt.ReadCheckpoint(data)
		if err != nil {
			k.Log.Warn("a damaged checkpoint is passed over", "name", name, "error", err.Error())
			k.kept = append(k.kept, kept{name, -1})
			continue
		}

		k.kept = append(k.kept, kept{name, c.Rounds()})
		if newest == nil || c.Rounds() > newest.Rounds() {
			newest, k.saved = c, c.Rounds()
		}
	}

	// The damaged ones come first, and are the first to be dropped.
	slices.SortStableFunc(k.kept, func(a, b kept) int { return cmp.Compare(a.rounds, b.rounds) })
	return newest, nil
}

// Offer saves c if it is time to, or if ctx has ended and c is further on than what is saved: then the process has been told to go.
// It is what gbt.Options.Checkpoint calls.
func (k *Keeper) Offer(ctx context.Context, c *gbt.Checkpoint) {
	if k.at.IsZero() {
		k.at = time.Now()
		k.began = k.at
	}

	// A process that is told to go saves what it has; any other waits until saving is worth its time.
	limit := saveLimit
	if ctx.Err() != nil {
		ctx, limit = context.WithoutCancel(ctx), lastLimit
	} else if time.Since(k.at) < protocol.Unsaved(k.trained(), k.Every, k.took) {
		return
	}

	if c.Rounds() <= k.saved {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	start := time.Now()
	bytes, err := k.save(ctx, c)
	// A save that failed counts as well: the next one is as far off as after any other.
	k.at = time.Now()
	k.took = k.at.Sub(start)

	if err != nil {
		k.Log.Warn("no checkpoint could be saved; the training goes on", "trees", c.Trees(), "error", err.Error())
		return
	}

	k.Log.Info("checkpoint saved", "trees", c.Trees(), "bytes", bytes, "seconds", k.took.Seconds())
}

// trained is for how long the training had gone on at its last save, as far as that counts.
func (k *Keeper) trained() time.Duration {
	if !k.Soon {
		return math.MaxInt64 // for ever, so that only Every counts
	}
	return k.at.Sub(k.began)
}

// save writes c where nothing is kept and then drops what is one too many.
func (k *Keeper) save(ctx context.Context, c *gbt.Checkpoint) (bytes int, err error) {
	if err := k.trim(ctx); err != nil { // what an earlier attempt could not drop
		return 0, err
	}
	data, err := c.AppendBinary(nil)
	if err != nil {
		return 0, err
	}

	name := k.vacant()
	if err := k.Place.Write(ctx, name, data); err != nil {
		return 0, err
	}
	k.kept, k.saved = append(k.kept, kept{name, c.Rounds()}), c.Rounds()
	return len(data), k.trim(ctx)
}

// trim drops all but the last two, which are whole: they were read, or written and made sure of.
func (k *Keeper) trim(ctx context.Context) error {
	for len(k.kept) > most {
		if err := k.Place.Drop(ctx, k.kept[0].name); err != nil {
			return fmt.Errorf("drop checkpoint %s: %w", k.kept[0].name, err)
		}
		k.kept = k.kept[1:]
	}
	return nil
}

// vacant is a name of its own under which nothing is kept; trim has made sure that there is one.
func (k *Keeper) vacant() string {
	for slot := range slots {
		name := k.Prefix + strconv.Itoa(slot)
		if !slices.ContainsFunc(k.kept, func(x kept) bool { return x.name == name }) {
			return name
		}
	}
	panic("more checkpoints are kept than there is room for")
}

// Clear drops everything: the run has ended, or has to begin again.
func (k *Keeper) Clear(ctx context.Context) error {
	names, err := k.Place.List(ctx)
	if err != nil {
		return err
	}
	k.kept, k.saved = nil, 0
	for _, name := range names {
		if failed := k.Place.Drop(ctx, name); failed != nil {
			err = errors.Join(err, failed)
			k.kept = append(k.kept, kept{name, -1}) // to be dropped before anything else is
		}
	}
	return err
}
