package worker

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"coppice/internal/gbt"
	"coppice/internal/protocol"
	"coppice/internal/sweep"
	"coppice/task/internal/usage"
)

// Why training stops early.
var (
	errSuperseded = errors.New("another task has taken the trial over")
	// An earlier holder of the trial was taken for dead, came back and ended it.
	errEndedElsewhere = errors.New("another task has ended the trial")
)

// causes has the errors for the reasons why a holder has lost its trial. If the sweep is over, whyOver has the error.
var causes = map[protocol.Why]error{protocol.Superseded: errSuperseded, protocol.EndedElsewhere: errEndedElsewhere}

// pulse keeps a claim alive while its trial trains, and stops the training when the sweep no longer wants it.
type pulse struct {
	stop context.CancelFunc
	done sync.WaitGroup

	trial    int
	measures *measures

	mu      sync.Mutex // protects what follows
	curve   sweep.Curve
	trees   int       // number of the latest tree
	score   float64   // after it; NaN if unknown
	grown   int       // trees grown by this task, after its first
	began   time.Time // when this task's first tree was ready
	last    time.Time // when its latest tree was ready
	highest int64     // highest proportional set size sampled, in bytes
	sampled time.Time // when it was last sampled
}

// sampleEvery is how often the process's memory is sampled. It is rare because the kernel walks every mapped page for
// it.
const sampleEvery = 30 * time.Second

// peak samples the proportional set size and returns the highest so far.
func (p *pulse) peak() int64 {
	pss := usage.Self().PSS
	p.mu.Lock()
	defer p.mu.Unlock()
	p.highest, p.sampled = max(p.highest, pss), time.Now()
	return p.highest
}

// grew returns the number of the last tree that this task has grown, or 0 if it grew none.
func (p *pulse) grew() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trees
}

// rate returns this task's trees per second after its first tree, before which most of the time is setup; 0 if it grew
// no more than one.
func (p *pulse) rate() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if took := p.last.Sub(p.began).Seconds(); p.grown > 0 && took > 0 {
		return float64(p.grown) / took
	}
	return 0
}

// startPulse starts to write heartbeats of a claim in the background, the first one at once, until ctx ends or end is
// called. A heartbeat that cannot be written is only logged. It calls abort, with the cause, when a heartbeat finds
// that the sweep is over or that another task has the trial.
func (w *Worker) startPulse(ctx context.Context, claim *sweep.Claim, abort context.CancelCauseFunc) *pulse {
	p := &pulse{score: math.NaN(), trial: claim.Trial, measures: w.measures, sampled: time.Now(),
		curve: sweep.Curve{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: claim.Trial, Claim: claim.Claim,
			Metric: w.treesBy()}}
	ctx, p.stop = context.WithCancel(ctx)
	p.done.Go(func() {
		for {
			if err := w.beat(ctx, claim, p, abort); err != nil && ctx.Err() == nil {
				w.Log.Warn("heartbeat", "trial", claim.Trial, "error", err.Error())
			}
			if pause(ctx, w.heartbeat()) != nil {
				return
			}
		}
	})
	return p
}

// beat writes one heartbeat and checks whether this task is to continue training the trial; if not, it calls abort.
// Once in sampleEvery it also samples the process's memory.
func (w *Worker) beat(ctx context.Context, claim *sweep.Claim, p *pulse, abort context.CancelCauseFunc) error {
	h := sweep.Heartbeat{Format: sweep.FormatVersion, Nonce: w.Nonce, At: time.Now().UTC()}
	p.mu.Lock()
	due := time.Since(p.sampled) >= sampleEvery
	h.Trees = p.trees
	if score := p.score; !math.IsNaN(score) {
		h.Score = &score
	}
	p.mu.Unlock()
	if due {
		p.peak()
	}

	// A step that failed says nothing about the next one: a holder whose heartbeats do not arrive has the most need to
	// look for a successor.
	var over error
	s, first := protocol.Pulse{Trial: claim.Trial, Claim: claim.Claim}.Begin()
	do, failed := protocol.Run(s, first, func(a protocol.Action) (protocol.Answer, error) {
		return w.beatStep(ctx, a, h, &over)
	})

	if do.Do == protocol.Abort {
		abort(cmp.Or(over, causes[do.Why]))
	}
	return failed
}

// beatStep carries out one action of the protocol's Pulse and returns the answer. If the sweep is over it sets *over to
// why. The store's client retries for longer than a takeover takes, so each step has a time limit of its own.
func (w *Worker) beatStep(ctx context.Context, action protocol.Action, h sweep.Heartbeat,
	over *error) (answer protocol.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.beatLimit())
	defer cancel()

	switch action.Do {
	case protocol.Beat:
		err = w.trials.Beat(ctx, action.Trial, action.Claim, h)
	case protocol.LookForEnd:
		*over, err = w.whyOver(ctx)
		answer.Yes = *over != nil
	case protocol.LookForClaim:
		answer.Yes, err = w.trials.HasClaim(ctx, action.Trial, action.Claim)
	case protocol.LookForResult:
		answer.Yes, err = w.trials.HasResult(ctx, action.Trial)
	}
	return answer, err
}

// beatLimit returns how long one step of a heartbeat may take: a ninth of the takeover time or, if that is longer, a
// heartbeat's interval or a second. A plan's takeover time is at least nine heartbeats, so the ninth is no shorter, and
// even if all four steps hang, the next heartbeat is on its way well before the takeover time.
func (w *Worker) beatLimit() time.Duration {
	const least, share = time.Second, 9
	return max(least, w.heartbeat(), time.Duration(w.plan.Takeover)/share)
}

// tree notes a tree that the training has grown, for the next heartbeat, the learning curve and the measurements.
func (p *pulse) tree(tree gbt.Progress) {
	p.measures.tree(p.trial, tree.Rows, tree.Metric)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trees, p.score = tree.Tree, tree.Metric
	p.curve.Add(tree.Tree, tree.Metric)
	p.last = time.Now()
	if p.began.IsZero() {
		p.began = p.last
	} else {
		p.grown++
	}
}

// end stops the heartbeats and waits until none is being written.
func (p *pulse) end() {
	p.stop()
	p.done.Wait()
}

func (w *Worker) heartbeat() time.Duration { return time.Duration(w.plan.Heartbeat) }

// pause waits for so long, or returns ctx's error if ctx ends first.
func pause(ctx context.Context, wait time.Duration) error {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
