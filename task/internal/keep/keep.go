// Package keep saves a training's checkpoints and finds the one to resume from. The last two are kept: a new one is
// written atomically and verified before the oldest is dropped. Losing a checkpoint costs only time, so errors while
// saving are logged and training goes on.
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

	"coppice/internal/gbt"
	"coppice/internal/protocol"
)

// Place stores the checkpoints of one run.
type Place interface {
	// List names the checkpoints that exist. Dropped ones are not listed.
	List(ctx context.Context) ([]string, error)
	// Read returns the contents, or fs.ErrNotExist.
	Read(ctx context.Context, name string) ([]byte, error)
	// Write stores data under name atomically, and returns once it has verified what was stored.
	Write(ctx context.Context, name string, data []byte) error
	// Drop frees a checkpoint's contents. In a bucket the empty object stays: it shows that its claim got further than
	// the one before.
	Drop(ctx context.Context, name string) error
}

// Keeper saves the checkpoints of one run. It is not safe for concurrent use.
type Keeper struct {
	Place Place
	// Prefix begins the names of this keeper's own checkpoints, which no other keeper writes. There are three such
	// names: for the last two checkpoints and for the one being written.
	Prefix string
	// Every is the longest time that a training may go unsaved, unless saving itself takes long: protocol.Unsaved.
	Every time.Duration
	// Soon saves more often at first, from the first tree on, for a training that may vanish without notice.
	Soon bool
	// Last is for the last save of a process that was told to stop: it outlives the training's context for as long as
	// there is time. nil gives the last save lastLimit.
	Last context.Context
	// Sound, which may be nil, is asked before every save; its error refuses it. The time it takes counts as the
	// save's, which paces the next one, but not towards saveLimit.
	Sound func(context.Context) error
	Log   *slog.Logger

	kept  []kept        // the next to be dropped first
	saved int           // rounds in the newest checkpoint
	began time.Time     // when the first checkpoint was offered
	at    time.Time     // when the latest save ended, or the first checkpoint was offered
	took  time.Duration // duration of the latest save
}

// kept is a checkpoint that exists in the place.
type kept struct {
	name   string
	rounds int // -1 when damaged
}

const (
	maxKept = 2 // checkpoints that are kept: if the newest is damaged, the one before serves
	slots   = maxKept + 1
)

// Limits on saving.
const (
	// saveLimit is how long training waits for a place that does not answer.
	saveLimit = 10 * time.Second
	// lastLimit is for the last checkpoint of a process that was told to stop: a container is killed ten seconds after
	// SIGTERM.
	lastLimit = 4 * time.Second
)

// Newest returns the checkpoint with the most rounds, or nil if there is none. It also finds out which checkpoints
// exist, for the saves that follow. A checkpoint that is damaged, or cannot be read, is logged and skipped, and will be
// the first to be dropped. Losing it costs only time, whereas an error would make the task give back a trial whose next
// holder would meet it again.
func (k *Keeper) Newest(ctx context.Context) (*gbt.Checkpoint, error) {
	names, err := k.Place.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for checkpoints: %w", err)
	}

	k.kept, k.saved = nil, 0
	var newest *gbt.Checkpoint

	for _, name := range names {
		data, err := k.Place.Read(ctx, name)
		var c *gbt.Checkpoint
		if err == nil {
			c, err = gbt.ReadCheckpoint(data)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // dropped meanwhile by the task that ended the trial
		case ctx.Err() != nil:
			return nil, fmt.Errorf("read checkpoint %s: %w", name, cmp.Or(err, ctx.Err()))
		case err != nil:
			k.Log.Warn("skipped a damaged checkpoint", "name", name, "error", err.Error())
			k.kept = append(k.kept, kept{name, -1}) // less than any checkpoint's rounds
			continue
		}

		k.kept = append(k.kept, kept{name, c.Rounds()})
		if newest == nil || c.Rounds() > newest.Rounds() {
			newest, k.saved = c, c.Rounds()
		}
	}

	// Damaged ones sort first and so are dropped first.
	slices.SortStableFunc(k.kept, func(a, b kept) int { return cmp.Compare(a.rounds, b.rounds) })
	return newest, nil
}

// Offer saves c if a save is due, or if ctx has ended, which says that the process was told to stop. It saves nothing
// if c has no more rounds than the last save. A training calls it after every round (gbt.Options.Checkpoint).
func (k *Keeper) Offer(ctx context.Context, c *gbt.Checkpoint) {
	if k.at.IsZero() {
		k.at = time.Now()
		k.began = k.at
	}

	// A process told to stop saves what it has; otherwise a save waits until it is worth its cost.
	limit := saveLimit
	if ctx.Err() != nil {
		limit, ctx = lastLimit, context.WithoutCancel(ctx)
		if k.Last != nil {
			ctx = k.Last
		}
	} else if time.Since(k.at) < protocol.Unsaved(k.trainedUntilSave(), k.Every, k.took) {
		return
	}

	k.saveNow(ctx, c, limit)
}

// Save saves c, due or not: the training is interrupted here, and another process will continue it.
func (k *Keeper) Save(ctx context.Context, c *gbt.Checkpoint) { k.saveNow(ctx, c, saveLimit) }

// saveNow saves c within the limit, unless a state with as many rounds is saved. A failure is only logged: training
// goes on.
func (k *Keeper) saveNow(ctx context.Context, c *gbt.Checkpoint, limit time.Duration) {
	if c.Rounds() <= k.saved { // nothing new, as for a state without any round
		return
	}

	start := time.Now()
	bytes, err := k.saveWithin(ctx, c, limit)
	// A failed save counts too: the next is as far off as after a successful one.
	k.at = time.Now()
	k.took = k.at.Sub(start)

	if err != nil {
		k.Log.Warn("could not save a checkpoint; training continues", "trees", c.Trees(), "error", err.Error())
		return
	}

	k.Log.Info("checkpoint saved", "trees", c.Trees(), "bytes", bytes, "seconds", k.took.Seconds())
}

// trainedUntilSave returns how long the training had run at its last save, from which protocol.Unsaved computes when
// the next one is due.
func (k *Keeper) trainedUntilSave() time.Duration {
	if !k.Soon {
		return math.MaxInt64 // unlimited, so that only Every applies
	}
	return k.at.Sub(k.began)
}

// saveWithin writes c under a free name, drops the oldest checkpoint beyond two, and returns the number of bytes. If
// that cannot be dropped it is only logged: c is saved, and the next save begins with dropping it. Sound is asked
// first, for whose time there is no limit but ctx.
func (k *Keeper) saveWithin(ctx context.Context, c *gbt.Checkpoint, limit time.Duration) (bytes int, err error) {
	if k.Sound != nil {
		if err := k.Sound(ctx); err != nil {
			return 0, err
		}
	}

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := k.trim(ctx); err != nil { // leftovers that an earlier attempt or save could not drop
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
	if err := k.trim(ctx); err != nil {
		k.Log.Warn("saved a checkpoint but could not drop an older one; the next save tries again", "trees", c.Trees(),
			"error", err.Error())
	}
	return len(data), nil
}

// trim drops checkpoints from the front of k.kept until two are left: damaged ones first, then the oldest.
func (k *Keeper) trim(ctx context.Context) error {
	for len(k.kept) > maxKept {
		if err := k.Place.Drop(ctx, k.kept[0].name); err != nil {
			return fmt.Errorf("drop checkpoint %s: %w", k.kept[0].name, err)
		}
		k.kept = k.kept[1:]
	}
	return nil
}

// vacant returns one of the keeper's three names that is not in use. There is one, since trim has left two checkpoints.
func (k *Keeper) vacant() string {
	for slot := range slots {
		name := k.Prefix + strconv.Itoa(slot)
		if !slices.ContainsFunc(k.kept, func(x kept) bool { return x.name == name }) {
			return name
		}
	}
	panic("more checkpoints are kept than there is room for")
}

// Clear drops all checkpoints of the run, which has ended or has to start over. What could not be dropped is in the
// error, and will be the first to be dropped by later saves.
func (k *Keeper) Clear(ctx context.Context) error {
	names, err := k.Place.List(ctx)
	if err != nil {
		return err
	}
	k.kept, k.saved = nil, 0
	for _, name := range names {
		if failed := k.Place.Drop(ctx, name); failed != nil {
			err = errors.Join(err, failed)
			k.kept = append(k.kept, kept{name, -1}) // what stands first is dropped first
		}
	}
	return err
}
