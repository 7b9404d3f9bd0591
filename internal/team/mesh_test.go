package team

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"coppice/internal/blob"
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
			if meshes[id], _, err = w.meet(t.Context()); err != nil {
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

func TestMessagesOfAnotherVersionAreRefused(t *testing.T) {
	h := header{kind: helloMessage, epoch: 3, training: 7}
	b := h.append(nil)
	b[1]++
	if _, err := h.readHeader(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("got error %v, want one of another version", err)
	}
}

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
		if err := board.Create(t.Context(), name, data); err != nil {
			return
		}
		w := newWorker(t, board, 0, 1, silence(50*time.Millisecond))
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		m, _, err := w.meet(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal("the worker meets forever")
		}
		if err == nil {
			m.Close()
		}
	})
}
