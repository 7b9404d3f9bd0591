package team

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/gbt"
	"coppice/internal/must"
)

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (calls, answers net.Conn) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	calls = must.Get(net.Dial("tcp", l.Addr().String()))(t)
	answers = must.Get(l.Accept())(t)
	return calls, answers
}

// pair returns the two meshes of a team of two workers, which are closed when the test ends. They send no heartbeat
// within a test.
func pair(t *testing.T) (a, b *Mesh) {
	t.Helper()
	x, y := tcpPair(t)
	hello := header{kind: helloMessage, epoch: 3, training: 7}
	a = newMesh(hello, 0, []net.Conn{nil, x}, time.Hour, new(Traffic))
	b = newMesh(hello, 1, []net.Conn{y, nil}, time.Hour, new(Traffic))
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	return a, b
}

// TestMessagesThatDoNotBelongAreRefused: a message whose header is of another epoch, training or exchange, or announces
// another size or kind than expected, ends the exchange with an error that says so.
func TestMessagesThatDoNotBelongAreRefused(t *testing.T) {
	// One word takes at most 17 bytes: 8 for the mask, 1 for the width, and 8.
	good := header{kind: wordsMessage, epoch: 3, training: 7, sequence: 1, words: 1, bytes: 16}
	for what, tc := range map[string]struct {
		change func(h *header)
		want   string
	}{
		"another epoch":    {func(h *header) { h.epoch = 2 }, "a message of epoch 2 in epoch 3"},
		"another training": {func(h *header) { h.training = 8 }, "a message of another training"},
		"another exchange": {func(h *header) { h.sequence = 2 }, "is at exchange 2, this one at 1"},
		"more words": {func(h *header) { h.words = 1 << 30; h.bytes = 1 << 31 },
			"words in 2147483648 bytes, expected 1"},
		"too many bytes":  {func(h *header) { h.bytes = 24 }, "1 words in 24 bytes, expected 1"},
		"a second hello":  {func(h *header) { *h = header{kind: helloMessage, training: 7} }, "a second hello"},
		"an unknown kind": {func(h *header) { h.kind = 9 }, "unknown kind"},
		"a heavy beat":    {func(h *header) { h.kind = beatMessage }, "cannot have any"},
	} {
		x, y := net.Pipe()
		m := newMesh(header{epoch: 3, training: 7}, 0, []net.Conn{nil, x}, time.Hour, new(Traffic))
		h := good
		tc.change(&h)
		go func() { _, _ = y.Write(h.append(nil)) }()
		go func() { _ = discard(y) }() // Gather sends first, and a pipe has no buffer
		_, err := m.Gather([]int64{5})
		must.Say(t, what, err, tc.want)
		m.Close()
		_ = y.Close()
	}
}

// TestAWriteToAStoppedWorkerEnds: sending to a worker that does not read any more fails with a deadline, even if no
// answer is expected from it.
func TestAWriteToAStoppedWorkerEnds(t *testing.T) {
	raw, stopped := tcpPair(t)
	defer stopped.Close()
	c := must.Get(newImpatient(raw, 20*time.Millisecond))(t)
	m := newMesh(header{}, 0, []net.Conn{nil, c}, time.Hour, new(Traffic))
	defer m.Close()
	words := slices.Repeat([]int64{1}, 4<<20) // more than the buffers of a connection hold
	if err := m.Broadcast(0, words); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("32 MiB for a worker that reads nothing: error %v, want that its time is over", err)
	}
}

// TestCloseDoesNotWait: closing a mesh returns at once even if the other worker has stopped reading and the buffers of
// the connection are full.
func TestCloseDoesNotWait(t *testing.T) {
	board := Bucket(blob.Memory(), "a/")
	var meshes [2]*Mesh
	var meeting sync.WaitGroup
	for id := range meshes {
		w := newWorker(t, board, id, len(meshes), silence(time.Minute))
		defer w.Close()
		meeting.Go(func() {
			var err error
			if meshes[id], _, err = w.meetTeam(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	meeting.Wait()
	if t.Failed() {
		return
	}
	defer meshes[1].Close()

	// Fill the buffers of the connection, until not a byte more fits.
	raw := meshes[0].peers[1].conn.(*tls.Conn).NetConn().(impatient).Conn
	for _, n := range []int{64 << 20, 1} {
		must.Do(t, raw.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		for err := error(nil); !errors.Is(err, os.ErrDeadlineExceeded); {
			if _, err = raw.Write(make([]byte, n)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
	}
	closed := make(chan struct{})
	go func() {
		meshes[0].Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(3 * time.Second):
		t.Error("Close has not returned within 3 seconds, want at once")
	}
}

// TestReasonOfAnEnd: reading from a connection that the other end has reset or closed returns that as the error,
// although the operating system reports it only once and reading begins with polls.
func TestReasonOfAnEnd(t *testing.T) {
	for reset, want := range map[bool]error{true: syscall.ECONNRESET, false: io.EOF} {
		a, b := tcpPair(t)
		c := must.Get(newImpatient(a, time.Minute))(t)
		if reset {
			must.Do(t, b.(*net.TCPConn).SetLinger(0))
		}
		must.Do(t, b.Close())
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("read from a connection that the other end has closed (reset: %t): error %v, want %v", reset, err,
				want)
		}
		_ = c.Close()
	}
}

// discard reads until the connection ends.
func discard(c net.Conn) error {
	b := make([]byte, 1<<10)
	for {
		if _, err := c.Read(b); err != nil {
			return err
		}
	}
}

// TestExchangesOfAllSizes: Reduce and Gather give the right words for any number of them: around the size of a block
// (64), and beyond what is sent before anything is received. A third of the words that Reduce adds up are 0; word i of
// the others is -2 i on worker 0 and 3 i on worker 1, which makes i. Worker 0 gets the sums of the first third.
// broadcast shares bytes up to its limit.
func TestExchangesOfAllSizes(t *testing.T) {
	a, b := pair(t)
	var wg sync.WaitGroup
	for _, m := range []*Mesh{a, b} {
		wg.Go(func() {
			for _, n := range []int{1, 63, 64, 65, 1000, 100_000} {
				words := make([]int64, n)
				for i := range words {
					if i%3 > 0 {
						words[i] = int64(i) * int64(m.rank*5-2)
					}
				}
				cut := n / 3
				if err := m.Reduce(words, []int{0, cut, n}); err != nil {
					t.Error(err)
					return
				}
				for i := range words {
					want := int64(0)
					if i%3 > 0 {
						want = int64(i)
					}
					if mine := i < cut == (m.rank == 0); mine && words[i] != want {
						t.Errorf("reduce %d words: worker %d has %d at %d, want %d", n, m.rank, words[i], i, want)
						return
					}
				}
				all, err := m.Gather(slices.Repeat([]int64{int64(m.rank)}, n))
				if err != nil || !slices.Equal(all, append(make([]int64, n), slices.Repeat([]int64{1}, n)...)) {
					t.Errorf("gather %d words: got %d words and error %v, want as many zeros and then ones", n,
						len(all), err)
				}
			}
			got, err := m.broadcast(1, []byte("a text"), 10)
			if err != nil || (m.rank == 0 && string(got) != "a text") {
				t.Errorf("share a text: worker %d got %q, error %v; want \"a text\"", m.rank, got, err)
			}
			if _, err := m.broadcast(0, make([]byte, 11), 10); err == nil {
				t.Error("11 bytes were shared where 10 are allowed, want an error")
			}
		})
	}
	wg.Wait()
}

// TestMessagesOfAnotherVersionAreRefused: a header of another encoding is refused before its words are read.
func TestMessagesOfAnotherVersionAreRefused(t *testing.T) {
	h := header{kind: helloMessage, epoch: 3, training: 7}
	b := h.append(nil)
	b[1]++
	_, err := h.readHeader(bytes.NewReader(b))
	must.Say(t, "reading a header of another version", err, "another version")
}

// FuzzReadWords: any bytes are refused, or give words that are the same after encoding and reading them again.
func FuzzReadWords(f *testing.F) {
	f.Add(appendWords(nil, []int64{1, 0, -5, 0, 0, math.MaxInt64}), uint16(6))
	f.Add(appendWords(nil, make([]int64, 130)), uint16(130))
	f.Add([]byte{1}, uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, n uint16) {
		words := make([]int64, n)
		if err := readWords(b, words); err != nil {
			return
		}
		again := appendWords(nil, words)
		if len(again) > mostBytes(int(n)) {
			t.Fatalf("%d words take %d bytes, want at most %d", n, len(again), mostBytes(int(n)))
		}
		back := make([]int64, n)
		if err := readWords(again, back); err != nil {
			t.Fatalf("what was encoded cannot be read: %v", err)
		}
		for i := range words {
			if words[i] != back[i] {
				t.Fatalf("word %d: got %d, want %d", i, back[i], words[i])
			}
		}
	})
}

// FuzzMessages: whatever another worker sends, an exchange ends: with as many words as expected, or with an error.
func FuzzMessages(f *testing.F) {
	h := header{kind: wordsMessage, epoch: 3, training: 7, sequence: 1, words: 2, bytes: 11}
	f.Add(appendWords(h.append(nil), []int64{5, 6}))
	f.Add(header{kind: beatMessage, epoch: 3, training: 7}.append(nil))
	f.Fuzz(func(t *testing.T, sent []byte) {
		x, y := net.Pipe()
		m := newMesh(header{epoch: 3, training: 7}, 0, []net.Conn{nil, x}, time.Hour, new(Traffic))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = y.Write(sent)
			_ = y.Close()
		})
		wg.Go(func() { _ = discard(y) })
		if all, err := m.Gather([]int64{1, 2}); err == nil && len(all) != 4 {
			t.Errorf("got %d words, want 4", len(all))
		}
		m.Close()
		wg.Wait()
	})
}

// FuzzObjects: whatever object is on the board, the leader's meetTeam ends within five seconds.
func FuzzObjects(f *testing.F) {
	f.Add("epochs/00000001/members", []byte(`{"ids":["000","001"]}`))
	f.Add("epochs/00000001/members", []byte(`{"ids":["../000"]}`))
	f.Add("epochs/00000001/workers/001", []byte(`{"address":"127.0.0.1:1","certificate":"AAAA"}`))
	f.Add("epochs/9999999999999999999999/members", []byte(`{}`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		board := Bucket(blob.Memory(), "a/")
		if err := board.create(t.Context(), name, data); err != nil {
			return
		}
		w := newWorker(t, board, 0, 1, silence(50*time.Millisecond))
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		m, _, err := w.meetTeam(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal("the worker still meets after five seconds, want a mesh or an error")
		}
		if err == nil {
			m.Close()
		}
	})
}

var faults = flag.Int("faults", 5, "trainings over a network with faults")

// fault is what happens to a connection after some bytes, in addition to delays, or to a worker.
type fault int

const (
	cut       fault = iota // the connection ends in the middle of a message
	blackHole              // nothing arrives any more, but the connection stays open
	pause                  // nothing arrives for a while, as if the other end were stopped and continued
	twice                  // a second connection is made that repeats what is sent on the first
	noFault
	died // a worker is lost, in the middle of a tree or between two
	came // a worker comes in its place
	faultKinds
)

// proxy passes connections on to a worker's port. It delays and throttles what passes, and its first two connections
// have a fault, which the seed determines.
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

// pass passes bytes between a caller and the target, both ways, until the connection ends. The fault f happens after at
// bytes.
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

	// pump passes bytes in one direction, and a copy of them to also.
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
			happens := (f == cut || f == blackHole || f == pause) && before+n > at
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

// announcedAt returns the board of a store on which a worker announces the given address instead of its own.
func announcedAt(s blob.Store, address string) Board {
	return Bucket(&blobtest.Hooked{Store: s, Writes: func(name string, data []byte) ([]byte, error) {
		if !strings.Contains(name, "/workers/") {
			return data, nil
		}
		var a announcement
		if err := json.Unmarshal(data, &a); err != nil {
			return nil, err
		}
		a.Address = address
		return json.Marshal(a)
	}}, "a/")
}

// TestNetworkFaults: over a network with delays and all kinds of faults, where workers are lost and others come, the
// leader always finishes. All workers that finish have the model that one worker trains alone, and no connection stays
// open: the proxies end only with their connections.
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
			t.Errorf("fault %d has not happened in %d trainings, want each kind at least once", f, *faults)
		}
	}
}

// overFaults runs one such training with 2 to 4 workers, each behind a proxy, and counts the faults that happen.
func overFaults(t *testing.T, seed uint64, had *[faultKinds]atomic.Int32) {
	rng := rand.New(rand.NewPCG(seed, 4))
	d, p := table(500+rng.IntN(1500), 6, seed), params(10)
	alone := must.Get(gbt.Train(t.Context(), d, p, gbt.Options{Threads: 1}))(t)
	want := text(t, alone)

	ctx, over := context.WithTimeout(t.Context(), 4*time.Minute)
	defer over()
	bucket := blob.Memory()
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
		w := newWorker(t, announcedAt(bucket, l.Addr().String()), id, n, silence(own.silence),
			func(o *Options) { o.Patience = 3 * time.Second })
		own.target = w.listener.Addr().String()
		proxies.Go(own.serve)

		ctx, die := context.WithCancel(ctx)
		dies := id%2 == 1 && id < n // workers 1 and 3; the replacements, from n on, stay
		after := 1 + mine.IntN(9)   // rounds
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
				t.Errorf("worker %d of %d has another model than one worker alone, want the same", id, n)
			case id == 0 && err != nil:
				t.Errorf("the leader of %d workers: error %v, want a model", n, err)
			case err != nil && ctx.Err() == nil:
				t.Errorf("worker %d of %d, which was not lost: error %v, want a model", id, n, err)
			}
		})
	}
	for id := range n {
		start(id)
	}
	training.Wait()
	proxies.Wait()
}
