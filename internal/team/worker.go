// Package team trains one model with several workers, which are processes on one machine or on many. Each has a part of
// the rows. They find each other by objects that are created once (Board), talk over TLS with keys that each makes for
// itself (Mesh), and go on with those that are left when one is gone, from the newest checkpoint that any of them has.
// Only one that leads cannot be spared: it decides who takes part, and its caller keeps the model.
//
//	            ┌──────────── an epoch ────────────┐
//	announce ──▶ decide ──▶ connect ──▶ gbt.Train ──▶ model
//	   ▲                                    │
//	   └───── a worker is gone, or new ◀────┘
//
// Nothing but time depends on who takes part: package gbt adds up integers, and its model is the same bytes for any
// division of the rows. docs/run.md says when to use it.
package team

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"coppice/internal/gbt"
	"coppice/internal/problem"
)

// Options say how a worker takes part.
type Options struct {
	Board Board
	// Training is the name of what is trained: workers of different ones refuse each other.
	Training string
	// ID is this worker's, different from all others' and a file name.
	ID string
	// Leads is set for one worker of a board. It decides who takes part in each epoch, is the first of them, evaluates
	// the metric, and begins alone if no other comes. The others wait for it until their context ends.
	Leads bool
	// Listen is the address to be called at, such as 127.0.0.1:0.
	Listen string
	// Workers is how many the leading one expects. Fewer begin after Patience.
	Workers int
	// Most is how many take part at once, in the eyes of the leading one; more wait for one to be gone. 256 if 0.
	Most int
	// Patience is how long to wait for expected workers; at the beginning ten times as long. A minute if 0.
	Patience time.Duration
	// Silence is after how long a worker counts as gone of which nothing has come; 10 s if 0.
	Silence time.Duration
	// Look is how often the board is looked at while meeting; 20 ms if 0. In a team, the first worker looks for
	// newcomers every 50 times as long.
	Look time.Duration
	// Log is told what becomes of the team; nil if nobody wants to know.
	Log func(format string, args ...any)
}

// Member is one process's part in training a model.
type Member struct {
	Traffic Traffic

	id       string
	leads    bool
	most     int
	board    Board
	training uint64
	expected atomic.Int32
	wait     time.Duration
	silence  time.Duration
	look     time.Duration
	log      func(format string, args ...any)

	identity tls.Certificate
	listener net.Listener
	callers  callers
	life     context.Context
	end      context.CancelFunc
	answers  sync.WaitGroup // goroutines

	epochs atomic.Int32              // that this worker was a member of
	size   atomic.Int32              // of its team
	left   atomic.Pointer[time.Time] // when it was last in a team, or made; nil in one
	inVain int                       // epochs in a row that have grown no tree
}

// New returns a worker that can be called. The caller closes it.
func New(o Options) (*Member, error) {
	w := &Member{id: o.ID, leads: o.Leads, most: cmp.Or(o.Most, mostWorkers), board: o.Board,
		wait: cmp.Or(o.Patience, time.Minute), silence: cmp.Or(o.Silence, 10*time.Second),
		look: cmp.Or(o.Look, 20*time.Millisecond), log: o.Log}
	if w.log == nil {
		w.log = func(string, ...any) {}
	}
	sum := sha256.Sum256([]byte(o.Training))
	w.training = binary.LittleEndian.Uint64(sum[:])
	w.Expect(o.Workers)
	w.leave()

	var err error
	if w.identity, err = newIdentity(); err != nil {
		return nil, fmt.Errorf("make a key for the training: %w", err)
	}
	w.life, w.end = context.WithCancel(context.Background())
	if w.listener, err = new(net.ListenConfig).Listen(w.life, "tcp", o.Listen); err != nil {
		w.end()
		return nil, problem.Wrap(problem.Environment, err, "listen for other workers")
	}
	w.callers.came = make(chan struct{}, 1)
	w.answers.Go(w.accept)
	return w, nil
}

// Expect says how many workers to wait for, from now on.
func (w *Member) Expect(workers int) { w.expected.Store(int32(workers)) }

// Epochs is how many teams this worker has been a member of: one, if no worker was lost and none came.
func (w *Member) Epochs() int { return int(w.epochs.Load()) }

// Apart is for how long this worker has been in no team: those that meet cannot reach it, or have no room.
func (w *Member) Apart() time.Duration {
	if left := w.left.Load(); left != nil {
		return time.Since(*left)
	}
	return 0
}

func (w *Member) leave() {
	now := time.Now()
	w.left.Store(&now)
}

// Size is how many workers this worker's team has, or had.
func (w *Member) Size() int { return int(w.size.Load()) }

// Close stops taking calls.
func (w *Member) Close() error {
	w.end()
	err := w.listener.Close()
	w.callers.close()
	w.answers.Wait()
	return err
}

func (w *Member) patience() time.Duration {
	if w.Epochs() == 0 {
		return 10 * w.wait
	}
	return w.wait
}

// errNewcomer ends a team between two trees, because there is a worker that would take part.
var errNewcomer = errors.New("another worker has come")

// Epochs in a row that grow no tree: after so many the one that leads goes on alone, since it cannot reach the others,
// or they not each other; another worker gives up.
const (
	mostForLeader = 5
	mostForOthers = 20
)

// fruitless counts an epoch that has grown no tree.
func (w *Member) fruitless() {
	if w.inVain++; w.leads && w.inVain == mostForLeader {
		w.log("%d teams in a row have grown no tree; the first worker goes on alone. Can all workers reach each other "+
			"at their ports?", w.inVain)
		w.most = 1
		w.Expect(1)
	}
}

// Train is gbt.Train together with the other workers. Each has the whole of d before its eyes, and trains on its part.
func (w *Member) Train(ctx context.Context, d *gbt.Data, p gbt.Params, opt gbt.Options) (*gbt.Result, error) {
	t := &training{w: w, d: d, p: p, opt: opt, newest: opt.Resume}
	resumed := 0
	if opt.Resume != nil {
		resumed = opt.Resume.Trees()
	}
	for {
		before := t.rounds()
		res, err := t.trainTogether(ctx)
		switch {
		case err == nil:
			res.Resumed = resumed // the others were grown here, in one team or another
			return res, nil
		case ctx.Err() != nil || !errors.Is(err, gbt.ErrTeam) && !errors.Is(err, errNewcomer):
			return nil, err
		}
		if t.rounds() > before {
			w.inVain = 0
		} else if w.fruitless(); w.inVain >= mostForOthers {
			return nil, fmt.Errorf("%d teams in a row have grown no tree, the last: %w", w.inVain, err)
		}
		w.log("after %d trees: %v; the rows are divided anew", t.rounds(), err)
	}
}

// training is what a worker knows of its training, over all teams.
type training struct {
	w      *Member
	d      *gbt.Data
	p      gbt.Params
	opt    gbt.Options
	newest *gbt.Checkpoint
	looked time.Time // when the first worker last looked for newcomers
	every  time.Duration
}

func (t *training) rounds() int {
	if t.newest == nil {
		return 0
	}
	return t.newest.Rounds()
}

// trainTogether trains with one team, from the newest checkpoint that any of it has, until the model is done or one is
// gone.
func (t *training) trainTogether(ctx context.Context) (*gbt.Result, error) {
	start := time.Now()
	m, epoch, err := t.w.meetTeam(ctx)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	t.w.left.Store(nil)
	defer t.w.leave()
	stop := context.AfterFunc(ctx, m.closeNow)
	defer stop()

	first := t.w.epochs.Add(1) == 1
	t.w.size.Store(int32(len(m.peers)))
	if len(m.peers) < int(t.w.expected.Load()) || !first {
		t.w.log("epoch %d has %d workers", epoch, len(m.peers))
	}
	if err := t.alignWorkers(m); err != nil {
		return nil, err
	}

	lo, hi := rowsOfWorker(t.d, m.rank, len(m.peers))
	own := t.d.Shard(lo, hi)
	own.Team = m
	t.looked, t.every = time.Now(), max(50*t.w.look, 10*time.Since(start)) // beginning anew has a price
	opt := t.opt
	opt.Resume = t.newest
	opt.Checkpoint = func(c *gbt.Checkpoint) error { return t.keepCheckpoint(ctx, c, m, epoch) }
	return gbt.Train(ctx, own, t.p, opt)
}

// alignWorkers makes sure that all train the same, and gives all the newest checkpoint that any of them has.
func (t *training) alignWorkers(m *Mesh) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v %q %t %x", t.p, t.opt.Identity, t.opt.Maximize, t.opt.Shift))
	// Each worker tells a hash of what it trains, and the rounds of its newest checkpoint.
	all, err := m.Gather([]int64{int64(binary.LittleEndian.Uint64(sum[:])), int64(t.rounds())})
	if err != nil {
		return fmt.Errorf("%w: %w", gbt.ErrTeam, err)
	}

	from := 0
	for i := range len(m.peers) {
		if all[2*i] != all[0] { // another hash
			return problem.New(problem.Input, "worker %d trains something else than worker 0: parameters, dataset or "+
				"program differ; start all workers with the same command", i)
		}
		if all[2*i+1] > all[2*from+1] {
			from = i
		}
	}
	if all[2*from+1] == 0 {
		return nil
	}

	var b []byte
	if from == m.rank {
		if b, err = t.newest.AppendBinary(nil); err != nil {
			return err
		}
	}
	if b, err = m.broadcast(from, b, gbt.MaxCheckpointBytes); err != nil {
		return fmt.Errorf("%w: %w", gbt.ErrTeam, err)
	}
	if int64(t.rounds()) < all[2*from+1] {
		t.newest, err = gbt.ReadCheckpoint(b)
	}
	return err
}

// keepCheckpoint remembers a checkpoint and, from time to time, looks whether another worker has come.
func (t *training) keepCheckpoint(ctx context.Context, c *gbt.Checkpoint, m *Mesh, epoch int) error {
	t.newest = c
	if t.opt.Checkpoint != nil {
		if err := t.opt.Checkpoint(c); err != nil {
			return err
		}
	}
	if !t.w.leads || len(m.peers) >= t.w.most || time.Since(t.looked) < t.every {
		return nil
	}

	t.looked = time.Now()
	switch _, awaited, err := t.w.nextEpoch(ctx, epoch); {
	case err != nil: // a team that trains needs no board
		t.w.log("go on without looking: %v", err)
	case awaited:
		return errNewcomer
	}
	return ctx.Err()
}

// rowsOfWorker returns the rows of one of so many workers: about as many in use for each.
func rowsOfWorker(d *gbt.Data, rank, size int) (lo, hi int) {
	row := func(i int) int {
		at := d.Used() * i / size
		switch {
		case i == size:
			return d.Rows
		case d.Subset == nil || i == 0:
			return at
		}
		return int(d.Subset[at])
	}
	return row(rank), row(rank + 1)
}
