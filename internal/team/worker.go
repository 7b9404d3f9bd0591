// Package team trains one model with several workers, which are processes on one machine or on many. Each worker trains
// on a part of the rows. Workers find each other by objects in object storage (Board), and talk over TLS with keys that
// each makes for itself (Mesh). An epoch is a stretch of training by a fixed set of workers. If one of them is gone,
// the others begin another epoch from the newest checkpoint that any of them has. Only the leader cannot be replaced:
// it decides who takes part, and its caller keeps the model.
//
//	            ┌──────────── an epoch ────────────┐
//	announce ──▶ decide ──▶ connect ──▶ gbt.Train ──▶ model
//	   ▲                                    │
//	   └───── a worker is gone, or new ◀────┘
//
// The model does not depend on who takes part: package gbt adds up integers, and its model is the same bytes for any
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
	// Training is the name of what is trained. Workers refuse connections from workers of another training.
	Training string
	// ID is this worker's name on the board, different from those of all other workers. It is a part of object names.
	ID string
	// Leads is set for exactly one worker of a board, the leader. It decides who takes part in each epoch, has rank 0,
	// evaluates the metric, and begins alone if no other worker comes. The others wait for it until their context ends.
	Leads bool
	// Listen is the address to listen on for other workers, such as 127.0.0.1:0.
	Listen string
	// Workers is how many workers the leader expects, itself included. After Patience it begins with fewer.
	Workers int
	// Most is how many workers the leader lets take part at once; more wait until one is gone. 256 if 0.
	Most int
	// Patience is how long to wait for expected workers, ten times as long in the first epoch. A minute if 0.
	Patience time.Duration
	// Silence is how long nothing may come from a worker before it counts as gone; 10 s if 0.
	Silence time.Duration
	// Look is how often the board is read while workers meet; 20 ms if 0. During an epoch, the leader looks for new
	// workers at most every 50 times as long.
	Look time.Duration
	// Log is called with messages about the team for people; nil for none.
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

	epochs atomic.Int32              // how many epochs this worker was a member of
	size   atomic.Int32              // how many workers its team has, or had last
	left   atomic.Pointer[time.Time] // when it left its last team, or was made; nil while it is in a team
	inVain int                       // how many epochs in a row have grown no tree
}

// New returns a worker that listens for connections of other workers. The caller must close it.
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

// Expect sets how many workers the leader waits for from now on (Options.Workers).
func (w *Member) Expect(workers int) { w.expected.Store(int32(workers)) }

// Epochs returns how many epochs this worker has taken part in: one, if no worker was lost and none came later.
func (w *Member) Epochs() int { return int(w.epochs.Load()) }

// Apart returns for how long this worker has been in no team; 0 while it is in one. If it is long, the others cannot
// reach this worker, or the team is full.
func (w *Member) Apart() time.Duration {
	if left := w.left.Load(); left != nil {
		return time.Since(*left)
	}
	return 0
}

// leave records that the worker is in no team from now on.
func (w *Member) leave() {
	now := time.Now()
	w.left.Store(&now)
}

// Size is how many workers this worker's team has, or had.
func (w *Member) Size() int { return int(w.size.Load()) }

// Close stops listening, closes the connections that no epoch has taken, and waits for the goroutines that answer
// calls.
func (w *Member) Close() error {
	w.end()
	err := w.listener.Close()
	w.callers.close()
	w.answers.Wait()
	return err
}

// patience returns how long to wait for expected workers: longer before the first epoch, while machines still start.
func (w *Member) patience() time.Duration {
	if w.Epochs() == 0 {
		return 10 * w.wait
	}
	return w.wait
}

// errNewcomer ends an epoch between two trees, because another worker wants to take part.
var errNewcomer = errors.New("another worker has come")

// How many epochs in a row may grow no tree. After mostTogether the leader continues alone: probably some workers
// cannot reach each other. After mostInVain a worker gives up. By then the leader, which needs no other worker any
// more, has grown a tree or ended with another error.
const (
	mostTogether = 5
	mostInVain   = 20
)

// countFruitless counts an epoch that has grown no tree. After mostTogether of them in a row, it makes the leader
// continue alone.
func (w *Member) countFruitless() {
	w.inVain++
	if w.leads && w.inVain == mostTogether {
		w.log("%d teams in a row have grown no tree; the first worker goes on alone. Can all workers reach each other "+
			"at their ports?", w.inVain)
		w.most = 1
		w.Expect(1)
	}
}

// Train is gbt.Train together with the other workers. All workers pass the same table, parameters and options; each
// trains on its part of the rows. All of them get the model. Train returns when the model is finished, in however many
// epochs, or when no other epoch can help: on ctx's end, on an error of the training itself, or after too many epochs
// without a tree.
func (w *Member) Train(ctx context.Context, d *gbt.Data, p gbt.Params, opt gbt.Options) (*gbt.Result, error) {
	t := &training{w: w, d: d, p: p, opt: opt, newest: opt.Resume}
	resumed := 0
	if opt.Resume != nil {
		resumed = opt.Resume.Trees()
	}

	// One epoch after the other, until one finishes the model.
	for {
		before := t.rounds()
		res, err := t.trainTogether(ctx)
		switch {
		case err == nil:
			res.Resumed = resumed // trees of earlier epochs do not count: they were grown here
			return res, nil
		case ctx.Err() != nil || !errors.Is(err, gbt.ErrTeam) && !errors.Is(err, errNewcomer):
			return nil, err
		}

		// A worker is gone or has come. Try again, unless that has been in vain too often.
		if t.rounds() > before {
			w.inVain = 0
		} else {
			w.countFruitless()
		}
		if w.inVain >= mostInVain {
			return nil, fmt.Errorf("%d teams in a row have grown no tree, the last: %w", w.inVain, err)
		}
		w.log("after %d trees: %v; the rows are divided anew", t.rounds(), err)
	}
}

// training is the state of a call of Train, over all its epochs.
type training struct {
	w      *Member
	d      *gbt.Data // the whole table
	p      gbt.Params
	opt    gbt.Options
	newest *gbt.Checkpoint // the newest that this worker knows; nil before the first tree
	looked time.Time       // when the leader last looked for new workers
	every  time.Duration   // how often it does
}

// rounds is how many rounds the newest checkpoint has.
func (t *training) rounds() int {
	if t.newest == nil {
		return 0
	}
	return t.newest.Rounds()
}

// trainTogether takes part in one epoch: it meets the other workers and trains with them from the newest checkpoint
// that any of them has. It returns the finished model, or an error that wraps gbt.ErrTeam if a worker is gone, or
// errNewcomer if another one has come.
func (t *training) trainTogether(ctx context.Context) (*gbt.Result, error) {
	start := time.Now()
	m, epoch, err := t.w.meetTeam(ctx)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	t.w.left.Store(nil)
	defer t.w.leave()
	stop := context.AfterFunc(ctx, m.closeNow) // an exchange knows nothing of ctx, but fails on a closed mesh
	defer stop()

	first := t.w.epochs.Add(1) == 1
	t.w.size.Store(int32(len(m.peers)))
	if len(m.peers) < int(t.w.expected.Load()) || !first {
		t.w.log("epoch %d has %d workers", epoch, len(m.peers))
	}
	if err := t.alignWorkers(m); err != nil {
		return nil, err
	}

	// This worker's part of the rows, as views of the whole table.
	lo, hi := rowsOfWorker(t.d, m.rank, len(m.peers))
	own := t.d.Shard(lo, hi)
	own.Team = m

	// Beginning another epoch takes as long as this one took to begin, so look for new workers a tenth as often.
	t.looked, t.every = time.Now(), max(50*t.w.look, 10*time.Since(start))
	opt := t.opt
	opt.Resume = t.newest
	opt.Checkpoint = func(c *gbt.Checkpoint) error { return t.keepCheckpoint(ctx, c, m, epoch) }
	return gbt.Train(ctx, own, t.p, opt)
}

// alignWorkers returns an error unless all workers of the mesh train the same, and sets t.newest on all of them to the
// newest checkpoint that any of them has.
func (t *training) alignWorkers(m *Mesh) error {
	// Each worker tells a hash of what it trains, and the rounds of its newest checkpoint. all is [workers x 2].
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v %q %t %x", t.p, t.opt.Identity, t.opt.Maximize, t.opt.Shift))
	all, err := m.Gather([]int64{int64(binary.LittleEndian.Uint64(sum[:])), int64(t.rounds())})
	if err != nil {
		return fmt.Errorf("%w: %w", gbt.ErrTeam, err)
	}

	// Find the first worker with the newest checkpoint, and compare the hashes.
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
	if all[2*from+1] == 0 { // no worker has a checkpoint: begin with the first tree
		return nil
	}

	// That worker sends it to all, and all must take part in the broadcast; those whose own is older take it.
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

// keepCheckpoint is the gbt.Options.Checkpoint of an epoch: it remembers the checkpoint and passes it on to the
// caller's function. From time to time the leader looks whether another worker has announced itself for a later epoch;
// if so, it returns errNewcomer, which ends this one. It does not look if the team is full. An error of the caller's
// function ends the training; one of the board is only logged.
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
	case err != nil: // the epoch does not need the board
		t.w.log("go on without looking: %v", err)
	case awaited:
		return errNewcomer
	}
	return ctx.Err() // if ctx has ended, that is why the board could not be read
}

// rowsOfWorker returns the rows lo <= r < hi of worker rank of size. All workers get about as many of the rows in use,
// d.Used(). If the training uses only some rows, d.Subset lists these in ascending order.
func rowsOfWorker(d *gbt.Data, rank, size int) (lo, hi int) {
	row := func(i int) int { // the first row of worker i
		// The rows before the first one in use go to worker 0, and those after the last one to the last worker.
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
