package stagejob

import (
	"context"
	"sync"
	"time"

	"coppice/blob"
	"coppice/dataset"
	"coppice/launcher/internal/stager"
	"coppice/sweep"
)

// Task is what runs in the job.
type Task struct {
	Env    sweep.StageEnv
	Stager *stager.Stager
	Dst    stager.Destination
	Now    func() time.Time
	Every  time.Duration   // between two reports of progress
	Code   func(error) int // the exit code of an error
}

// Run stages the dataset and leaves the outcome. When the machine is taken away it leaves none: the next attempt will.
func (t *Task) Run(ctx context.Context) error {
	spec, err := dataset.ParseSpec(t.Env.File, []byte(t.Env.Spec))
	if err != nil {
		return err // without a name there is no place for an outcome, and whoever submitted the job has parsed it, too
	}

	folder := sweep.DatasetStaging(spec.Name, t.Env.Job)
	p := &reporter{store: t.Dst.Store, name: folder + progressFile, attempt: t.Env.Attempt}
	t.Stager.Progress = p.note
	stop := p.start(ctx, t.Every)

	staged, err := t.Stager.Stage(ctx, spec, t.Dst)
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}

	o := Outcome{Format: 1, Attempt: t.Env.Attempt, At: t.Now().UTC()}
	if err != nil {
		o.Error = err.Error()
		o.Code = t.Code(err)
		o.Error = o.Error[:min(len(o.Error), maxError)]
	} else {
		o.Version = staged.Manifest.Version
		o.Existed = staged.Existed
	}

	if reportErr := put(ctx, t.Dst.Store, folder+outcomeFile, o); reportErr != nil && err == nil {
		return reportErr
	}
	return err
}

// reporter writes the newest progress now and then, so that writing never holds up the work.
type reporter struct {
	store   blob.Store
	name    string
	attempt int

	mu     sync.Mutex
	latest *Progress // not yet written
}

func (r *reporter) note(step stager.Step, done, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = &Progress{Format: 1, Attempt: r.attempt, Step: step, Done: done, Total: total}
}

func (r *reporter) take() *Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.latest
	r.latest = nil
	return p
}

// start writes until the returned function is called, which waits for the last write. A progress that cannot be written is no
// reason to stop.
func (r *reporter) start(ctx context.Context, every time.Duration) (stop func()) {
	quit := make(chan struct{})
	var ended sync.WaitGroup

	ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()

		for {
			select {
			case <-quit:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}

			if p := r.take(); p != nil {
				_ = put(ctx, r.store, r.name, p)
			}
		}
	})

	return func() { close(quit); ended.Wait() }
}
