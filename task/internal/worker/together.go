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
	"coppice/internal/sweep"
	"coppice/internal/team"
)

// The final training may be that of several machines (final.machines). Whoever has claimed the trial leads: it decides
// who takes part, keeps checkpoints and writes the result, like the holder of any trial. The others take part while
// they wait for a trial to claim (protocol.Help), so they see what becomes of the holder, and one of them claims the
// trial if it is gone. The model's bytes do not depend on any of this.

// leaderID names the holder of the trial among those that train it.
const leaderID = "holder"

// join makes this task a member of the team that trains the trial of a claim together. Only one task of a machine may
// be one, since it uses all of the machine's processors. If another task of the machine is, and does not leave within
// wait, t is nil without an error. If t is not nil, the caller has to call release, which leaves the team.
func (w *Worker) join(ctx context.Context, claim *sweep.Claim, wait time.Duration) (t *team.Member, release func(),
	err error) {
	one := atomicfile.NewLock(filepath.Join(w.Scratch, "together.lock"))
	locking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// It tries about ten times; the millisecond is for a wait of 0.
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
	if claim.Nonce == w.Nonce { // the claim is this task's own: it leads
		id = leaderID
	}
	machines := w.plan.Spec.FinalMachines()
	look := max(min(time.Second, w.heartbeat()/10), time.Millisecond)
	t, err = team.New(team.Options{Board: team.Bucket(w.trials.Meeting(claim.Trial, claim.Claim)),
		Training: fmt.Sprintf("%s/%d/%d", w.Sweep, claim.Trial, claim.Claim), ID: id, Leads: id == leaderID,
		Listen: address, Workers: machines, Most: machines, Look: look,
		// A team that is new is waited for ten times as long, two and a half heartbeats: the others see the claim one
		// heartbeat later, and then copy their rows.
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

// address returns the address at which other machines' tasks can reach this one. Where only a port is configured, the
// host is the address of the interface through which this machine reaches the outside.
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

// lead makes a request train together with other machines, if it is the final training of several. The caller has to
// call stop when the training has ended: it leaves the team and notes in the usage how the machines trained together.
// If no team can be joined, this machine trains alone; the model has the same bytes.
func (t *training) lead(ctx context.Context, request *fit.Request) (stop func(*sweep.Usage)) {
	if !request.Final || t.plan.Spec.FinalMachines() < 2 {
		return func(*sweep.Usage) {}
	}
	member, release, err := t.join(ctx, t.claim, 3*t.heartbeat())
	if err != nil || member == nil {
		if err == nil {
			err = errors.New("another task of this machine takes part in a training")
		}
		t.Log.Warn("trains alone", "trial", t.claim.Trial, "error", err.Error())
		return func(*sweep.Usage) {}
	}
	machines := 0
	request.Grow = func(ctx context.Context, d *gbt.Data, p gbt.Params, opt gbt.Options) (*gbt.Result, error) {
		onTree := opt.OnTree
		opt.OnTree = func(g gbt.Progress) error {
			machines = max(machines, member.Size())
			return onTree(g)
		}
		return member.Train(ctx, d, p, opt)
	}
	return func(u *sweep.Usage) {
		u.Machines, u.Teams = machines, member.Epochs()
		u.SentBytes = member.Traffic.Sent.Load()
		u.ExchangeSeconds = time.Duration(member.Traffic.Waited.Load()).Seconds()
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

// help takes part in another task's training of a trial under a claim, in the background, and reports whether this task
// is of use there: it is in the team, or has tried to get into one that has room for less than the takeover time. It is
// called once every heartbeat. The first call for a claim joins the team, later ones only report.
func (c *claiming) help(ctx context.Context, trial, number int) bool {
	if a := c.assistant; a != nil && a.claim == number {
		select {
		case <-a.done: // it has failed, or there is nothing more to grow
			return false
		default:
		}
		apart := a.team.Apart()
		return apart == 0 || apart < time.Duration(c.plan.Takeover) && c.hasRoom(ctx, trial, number)
	}
	c.leaveTeam()

	if !c.hasRoom(ctx, trial, number) { // or it is not known, which hasRoom has logged
		return false
	}
	member, release, q, err := c.joinTraining(ctx, trial, number)
	if member == nil {
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot take part in the training", "trial", trial, "error", err.Error())
		}
		return false
	}

	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	c.assistant = &assistant{claim: number, team: member, stop: stop, done: done}
	go func() {
		defer close(done)
		defer release()
		switch err := c.takePart(ctx, member, q); {
		case errors.Is(err, errPartDone) || ctx.Err() != nil: // it has come to its end, or this task has left
		case errors.Is(err, gbt.ErrLeader): // it has been told to go
			c.Log.Info("the holder has ended the training", "trial", trial, "claim", number)
		default:
			c.Log.Warn("takes no more part in the training", "trial", trial, "error", fmt.Sprint(err))
		}
	}()
	return true
}

// joinTraining joins the team of a claim, and returns the request with which its holder trains. member is nil if
// another task of this machine is in a team, or with an error. The caller has to call release.
func (w *Worker) joinTraining(ctx context.Context, trial, number int) (member *team.Member, release func(),
	q fit.Request, err error) {
	claim := &sweep.Claim{Trial: trial, Claim: number}
	s, err := w.settle(ctx, claim)
	if err == nil {
		q, err = w.fullRequest(ctx, trial, s.params, nil)
	}
	if err == nil {
		member, release, err = w.join(ctx, claim, w.heartbeat()/10)
	}
	return member, release, q, err
}

// hasRoom reports whether this task can be of use to the team of a claim: it is listed as a member already, or the team
// has fewer machines than it may have.
func (w *Worker) hasRoom(ctx context.Context, trial, claim int) bool {
	ids, err := team.Members(ctx, team.Bucket(w.trials.Meeting(trial, claim)))
	if err != nil && ctx.Err() == nil {
		w.Log.Warn("look for the team of a training", "trial", trial, "error", err.Error())
	}
	return err == nil && (slices.Contains(ids, w.Nonce) || len(ids) < w.plan.Spec.FinalMachines())
}

// takePart trains with the holder until there is nothing more to grow; the error then is errPartDone. A panic becomes
// an error, as in train, and the holder goes on without this task.
func (w *Worker) takePart(ctx context.Context, member *team.Member, request fit.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	request.Grow = func(ctx context.Context, d *gbt.Data, p gbt.Params, opt gbt.Options) (*gbt.Result, error) {
		// The rows have been copied, so damage from here on concerns nobody.
		if err := w.verify(ctx, "before taking part in a training"); err != nil {
			return nil, err
		}
		if _, err := member.Train(ctx, d, p, opt); err != nil {
			return nil, err
		}
		return nil, errPartDone
	}
	_, err = w.table.Train(ctx, request)
	return err
}

// errPartDone ends a training that only its leader evaluates.
var errPartDone = errors.New("this machine's part is done")

// leaveTeam ends this task's part in another one's training.
func (c *claiming) leaveTeam() {
	if a := c.assistant; a != nil {
		a.stop()
		<-a.done
		c.assistant = nil
	}
}
