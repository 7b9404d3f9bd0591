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

// pair returns two connected meshes.
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

// TestMessagesThatDoNotBelongAreRefused: a message of another team, training or exchange, or of another size, ends the
// exchange with an error.
func TestMessagesThatDoNotBelongAreRefused(t *testing.T) {
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
		go func() { _ = discard(y) }()
		_, err := m.Gather([]int64{5})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v; want %q", what, err, tc.want)
		}
		m.Close()
		_ = y.Close()
	}
}

// TestAWriteToAStoppedWorkerEnds: it takes nothing, and nothing is expected of it.
func TestAWriteToAStoppedWorkerEnds(t *testing.T) {
	raw, stopped := tcpPair(t)
	defer stopped.Close()
	c := must.Get(newImpatient(raw, 20*time.Millisecond))(t)
	m := newMesh(header{}, 0, []net.Conn{nil, c}, time.Hour, new(Traffic))
	defer m.Close()
	words := slices.Repeat([]int64{1}, 4<<20) // more than there is room for between two processes
	if err := m.Broadcast(0, words); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("32 MiB for a worker that reads nothing: error %v, want that its time is over", err)
	}
}

// TestCloseDoesNotWait: a worker that has stopped reading does not hold the others up when they leave.
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

	raw := meshes[0].peers[1].conn.(*tls.Conn).NetConn().(impatient).Conn
	for _, n := range []int{64 << 20, 1} { // until there is no room for a byte
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
		t.Error("the other worker has not left within 3 seconds, want at once")
	}
}

// TestReasonOfAnEnd: why a connection has ended is told, although reading polls first.
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

func discard(c net.Conn) error {
	b := make([]byte, 1<<10)
	for {
		if _, err := c.Read(b); err != nil {
			return err
		}
	}
}

// TestExchangesOfAllSizes: words of any number arrive as they were sent, whether they are added up or gathered.
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
				all, err := m.Gather(make([]int64, n))
				if err != nil || len(all) != 2*n {
					t.Errorf("gather %d words: got %d words and error %v", n, len(all), err)
				}
			}
			got, err := m.broadcast(1, []byte("a text"), 10)
			if err != nil || (m.rank == 0 && string(got) != "a text") {
				t.Errorf("share a text: worker %d got %q, error %v", m.rank, got, err)
			}
			if _, err := m.broadcast(0, make([]byte, 11), 10); err == nil {
				t.Error("11 bytes were shared where 10 are allowed")
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
	if _, err := h.readHeader(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("got error %v, want one of another version", err)
	}
}

// FuzzReadWords: any bytes are an error, or words that are the same when encoded and read again.
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

// FuzzMessages: whatever a peer sends, an exchange ends, with its words or with an error.
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

// FuzzObjects: whatever lies on the board, meeting ends.
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
			t.Fatal("the worker meets forever")
		}
		if err == nil {
			m.Close()
		}
	})
}

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

// announcedAt is the board of a store on which a worker announces another address than its own.
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
