package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"coppice/internal/atomicfile"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/sweep"
	"coppice/internal/team"
)

// The final training may be that of several machines (final.machines). Whoever has claimed the trial leads: it decides
// who takes part, keeps checkpoints and writes the result, like the holder of any trial. The others take part while
// they wait for a trial to claim (protocol.Help), so they see what becomes of the holder, and one of them claims the
// trial if it is gone. The model's bytes do not depend on any of this.

// leaderID names the holder of the trial among those that train it.
const leaderID = "holder"

// join makes this task one of those that train the trial of a claim together. Of a machine's tasks only one takes part,
// since that one uses all its processors; the others get nil. release ends it.
func (w *Worker) join(ctx context.Context, claim *sweep.Claim, wait time.Duration) (t *team.Member, release func(),
	err error) {
	one := atomicfile.NewLock(filepath.Join(w.Scratch, "together.lock"))
	locking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if locked, err := one.TryLockContext(locking, wait/10+time.Millisecond); !locked {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, nil, nil
		}
		return nil, nil, err
	}

	address, err := w.address(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, one.Unlock())
	}
	id := w.Nonce
	if claim.Nonce == w.Nonce {
		id = leaderID
	}
	machines := w.plan.Spec.FinalMachines()
	look := max(min(time.Second, w.heartbeat()/10), time.Millisecond)
	t, err = team.New(team.Options{Board: team.Bucket(w.trials.Meeting(claim.Trial, claim.Claim)),
		Training: fmt.Sprintf("%s/%d/%d", w.Sweep, claim.Trial, claim.Claim), ID: id, Leads: id == leaderID,
		Listen: address, Workers: machines, Most: machines, Look: look,
		// The others have seen the claim one heartbeat later, and then copy their rows.
		Patience: w.heartbeat() / 4,
		Log:      func(format string, args ...any) { w.Log.Info(fmt.Sprintf(format, args...), "trial", claim.Trial) }})
	if err != nil {
		return nil, nil, errors.Join(err, one.Unlock())
	}
	return t, func() {
		_ = t.Close() // nobody calls any more
		if err := one.Unlock(); err != nil {
			w.Log.Warn("unlock the machine's part in a training", "error", err.Error())
		}
	}, nil
}

// address is where other machines' tasks are to call. Where only a port is configured, it is that of this machine's
// interface through which the outside is reached.
func (w *Worker) address(ctx context.Context) (string, error) {
	host, port, err := net.SplitHostPort(w.Listen)
	if err != nil || host != "" {
		return w.Listen, err
	}
	// Nothing is sent: connecting a datagram socket only chooses a route.
	c, err := new(net.Dialer).DialContext(ctx, "udp", "192.0.2.1:9")
	if err != nil {
		return "", fmt.Errorf("find this machine's own address: %w", err)
	}
	defer c.Close()
	host, _, err = net.SplitHostPort(c.LocalAddr().String())
	return net.JoinHostPort(host, port), err
}

// lead makes q train with the other machines, if it is the final training of several. stop tells the result what it
// took. A training that cannot have others is that of this machine alone, and has the same bytes.
func (w *Worker) lead(ctx context.Context, claim *sweep.Claim, q *fit.Request) (stop func(*sweep.Usage)) {
	if !q.Final || w.plan.Spec.FinalMachines() < 2 {
		return func(*sweep.Usage) {}
	}
	t, release, err := w.join(ctx, claim, 3*w.heartbeat())
	if err != nil || t == nil {
		if err == nil {
			err = errors.New("another task of this machine takes part in a training")
		}
		w.Log.Warn("trains alone", "trial", claim.Trial, "error", err.Error())
		return func(*sweep.Usage) {}
	}
	most := 0
	q.Grow = func(ctx context.Context, d *gbt.Data, p gbt.Params, opt gbt.Options) (*gbt.Result, error) {
		onTree := opt.OnTree
		opt.OnTree = func(g gbt.Progress) error {
			most = max(most, t.Size())
			return onTree(g)
		}
		return t.Train(ctx, d, p, opt)
	}
	return func(u *sweep.Usage) {
		u.Machines, u.Teams = most, t.Epochs()
		u.SentBytes = t.Traffic.Sent.Load()
		u.ExchangeSeconds = time.Duration(t.Traffic.Waited.Load()).Seconds()
		release()
	}
}

// assistant is a task's part in the training of another one's trial.
type assistant struct {
	claim int
	team  *team.Member
	stop  context.CancelFunc
	done  chan struct{}
}

// help takes part in the training under a claim, in the background, and reports whether this task is of use: in a team,
// or on the way into one that has room, for less than the takeover time. It needs what the holder has: the parameters,
// and the rows.
func (l *looking) help(ctx context.Context, trial, number int) bool {
	w := l.w
	if a := l.assistant; a != nil && a.claim == number {
		select {
		case <-a.done: // it has failed, or there is nothing more to grow
			return false
		default:
		}
		apart := a.team.Apart()
		return apart == 0 || apart < time.Duration(w.plan.Takeover) && w.hasRoom(ctx, trial, number)
	}
	l.leave()

	if !w.hasRoom(ctx, trial, number) {
		return false
	}
	claim := &sweep.Claim{Trial: trial, Claim: number}
	q, err := w.assisting(ctx, claim)
	var t *team.Member
	var release func()
	if err == nil {
		t, release, err = w.join(ctx, claim, w.heartbeat()/10)
	}
	if t == nil {
		if err != nil && ctx.Err() == nil {
			w.Log.Warn("cannot take part in the training", "trial", trial, "error", err.Error())
		}
		return false
	}
	ctx, stop := context.WithCancel(ctx)
	l.assistant = &assistant{number, t, stop, make(chan struct{})}
	go func(done chan struct{}) {
		defer close(done)
		defer release()
		switch err := w.takePart(ctx, t, q); {
		case errors.Is(err, errPartDone) || ctx.Err() != nil:
		case errors.Is(err, gbt.ErrLeader): // it has been told to go
			w.Log.Info("the holder has ended the training", "trial", trial, "claim", number)
		default:
			w.Log.Warn("takes no more part in the training", "trial", trial, "error", fmt.Sprint(err))
		}
	}(l.assistant.done)
	return true
}

// hasRoom reports whether this task is in the team that trains a trial, though it may not have met yet, or the team has
// fewer machines than it may have.
func (w *Worker) hasRoom(ctx context.Context, trial, claim int) bool {
	ids, err := team.Members(ctx, team.Bucket(w.trials.Meeting(trial, claim)))
	if err != nil && ctx.Err() == nil {
		w.Log.Warn("look for the team of a training", "trial", trial, "error", err.Error())
	}
	return err == nil && (slices.Contains(ids, w.Nonce) || len(ids) < w.plan.Spec.FinalMachines())
}

// takePart trains with the holder until there is nothing more to grow, which is errPartDone. A panic is an error here
// as in train: the holder goes on without this task.
func (w *Worker) takePart(ctx context.Context, t *team.Member, q fit.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	q.Grow = func(ctx context.Context, d *gbt.Data, p gbt.Params, opt gbt.Options) (*gbt.Result, error) {
		// The rows have been copied, so damage from here on concerns nobody.
		if err := w.verify(ctx, "before taking part in a training"); err != nil {
			return nil, err
		}
		if _, err := t.Train(ctx, d, p, opt); err != nil {
			return nil, err
		}
		return nil, errPartDone
	}
	_, err = w.table.Train(ctx, q)
	return err
}

// errPartDone ends a training that only its leader evaluates.
var errPartDone = errors.New("this machine's part is done")

// assisting is what the holder of the final training trains.
func (w *Worker) assisting(ctx context.Context, claim *sweep.Claim) (fit.Request, error) {
	m, err := metric.Lookup(w.plan.Spec.Metric)
	if err != nil {
		return fit.Request{}, err
	}
	params, _, err := w.settleFold(ctx, claim)
	if err != nil {
		return fit.Request{}, err
	}
	return w.training(ctx, claim.Trial, m, params, nil)
}

// leave ends this task's part in another one's training.
func (l *looking) leave() {
	if a := l.assistant; a != nil {
		a.stop()
		<-a.done
		l.assistant = nil
	}
}
