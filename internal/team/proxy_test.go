package team

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/gbt"
	"coppice/internal/must"
)

var faults = flag.Int("faults", 5, "trainings over a network with faults")

// fault is what befalls a connection, besides being slow, when so many bytes have passed; or a worker.
type fault int

const (
	cut       fault = iota // in the middle of a message
	blackHole              // nothing passes any more, and nobody is told
	pause                  // nothing passes for a while, as if the other end were stopped and continued
	twice                  // it is made twice, and the second one repeats what the first has sent
	noFault
	died // a worker, in the middle of a tree or between two
	came // another one in its place
	faultKinds
)

// proxy stands before a worker's port: it delays and throttles what passes, and its first connections have a fault.
type proxy struct {
	listener net.Listener
	target   string
	seed     uint64
	had      *[faultKinds]atomic.Int32 // how many faults have happened
	delay    time.Duration             // the longest
	silence  time.Duration             // pauses are up to half as long again
	atOnce   int                       // bytes that pass without a delay, at most

	accepted int
	conns    sync.WaitGroup
}

// serve passes connections until the listener and all of them are closed.
func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			break
		}
		p.accepted++
		rng := rand.New(rand.NewPCG(p.seed, uint64(p.accepted)))
		f, at := noFault, 100+rng.IntN(20_000)
		if p.accepted <= 2 {
			f = fault((int(p.seed) + p.accepted) % int(noFault))
		}
		p.conns.Go(func() { p.pass(c, f, at, rng.Uint64()) })
	}
	p.conns.Wait()
}

// pass connects a caller with the target, until the connection ends or is cut.
func (p *proxy) pass(caller net.Conn, f fault, at int, seed uint64) {
	defer caller.Close()
	target, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer target.Close()

	also := io.Discard
	if f == twice {
		second, err := net.Dial("tcp", p.target)
		if err != nil {
			return
		}
		defer second.Close()
		also = second
		p.had[twice].Add(1)
	}

	var passed atomic.Int64
	var both sync.WaitGroup
	pump := func(to, from net.Conn, also io.Writer, seed uint64) {
		defer to.Close()
		defer from.Close()
		rng := rand.New(rand.NewPCG(seed, 0))
		b := make([]byte, p.atOnce)
		paused := false
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			<-time.After(time.Duration(rng.Int64N(int64(p.delay))))

			before := int(passed.Add(int64(n))) - n
			happens := f < twice && before+n > at
			if happens && before <= at {
				p.had[f].Add(1)
			}
			switch {
			case happens && f == pause && !paused:
				paused = true
				<-time.After(time.Duration(rng.Int64N(int64(p.silence) * 3 / 2)))
			case happens && f != pause: // what is left before that still passes
				_, _ = to.Write(b[:max(at-before, 0)])
				if f == cut {
					return
				}
				continue
			}
			_, _ = also.Write(b[:n])
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	both.Go(func() { pump(target, caller, also, seed) })
	both.Go(func() { pump(caller, target, io.Discard, seed+1) })
	both.Wait()
}

// announcedAt is a board on which a worker announces another address than its own.
type announcedAt struct {
	Board
	address string
}

func (b announcedAt) Create(ctx context.Context, name string, data []byte) error {
	if strings.Contains(name, "/workers/") {
		var a announcement
		if err := json.Unmarshal(data, &a); err != nil {
			return err
		}
		a.Address = b.address
		var err error
		if data, err = json.Marshal(a); err != nil {
			return err
		}
	}
	return b.Board.Create(ctx, name, data)
}

// TestNetworkFaults: over a network that delays, throttles, cuts messages, falls silent, pauses and repeats
// connections, where workers die and others come, all that end have the model of one, and leave no connection.
func TestNetworkFaults(t *testing.T) {
	var had [faultKinds]atomic.Int32
	t.Run("seeds", func(t *testing.T) {
		for seed := range uint64(*faults) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel() // they wait most of the time
				overFaults(t, seed, &had)
			})
		}
	})
	for f := range had {
		if had[f].Load() == 0 && fault(f) != noFault {
			t.Errorf("fault %d has not happened in %d trainings, want each", f, *faults)
		}
	}
}

func overFaults(t *testing.T, seed uint64, had *[faultKinds]atomic.Int32) {
	rng := rand.New(rand.NewPCG(seed, 4))
	d, p := table(500+rng.IntN(1500), 6, seed), params(10)
	if seed%3 == 1 {
		ranking(d, &p)
	}
	alone := must.Get(gbt.Train(t.Context(), d, p, gbt.Options{Threads: 1}))(t)
	want := text(t, alone)

	ctx, over := context.WithTimeout(t.Context(), 4*time.Minute)
	defer over()
	board := Bucket(blob.Memory(), "a/")
	var proxies, training sync.WaitGroup
	n := 2 + rng.IntN(3)
	var start func(id int)
	start = func(id int) {
		mine := rand.New(rand.NewPCG(seed, uint64(id)))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Error(err)
			return
		}
		own := &proxy{listener: l, seed: seed + uint64(id), had: had, delay: time.Duration(1 + mine.IntN(3e6)),
			silence: 2 * time.Second, atOnce: 200 + mine.IntN(20_000)}
		at := announcedAt{board, l.Addr().String()}
		w := newWorker(t, at, id, n, silence(own.silence), func(o *Options) { o.Patience = 3 * time.Second })
		own.target = w.listener.Addr().String()
		proxies.Go(own.serve)

		ctx, die := context.WithCancel(ctx)
		dies := id%2 == 1 && id < n // after so many trees
		after := 1 + mine.IntN(9)
		training.Go(func() {
			defer die()
			defer l.Close()
			defer w.Close()
			res, err := w.Train(ctx, d, p, gbt.Options{Threads: 1, Checkpoint: func(c *gbt.Checkpoint) error {
				if !dies || c.Rounds() < after {
					return nil
				}
				dies = false
				had[died].Add(1)
				if mine.IntN(2) == 0 {
					had[came].Add(1)
					start(id + n)
				}
				time.AfterFunc(time.Duration(mine.IntN(2000))*time.Microsecond, die)
				return nil
			}})
			if id == 0 {
				defer over() // whoever has not ended with it is of no use any more
			}
			switch {
			case err == nil && text(t, res) != want:
				t.Errorf("worker %d of %d has another model", id, n)
			case id == 0 && err != nil:
				t.Errorf("the one of %d that leads: %v, want a model", n, err)
			case err != nil && ctx.Err() == nil:
				t.Errorf("worker %d of %d: %v", id, n, err)
			}
		})
	}
	for id := range n {
		start(id)
	}
	training.Wait()
	proxies.Wait()
}
