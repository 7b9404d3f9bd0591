package team

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"coppice/internal/gbt"
)

// Mesh is the team of one epoch: a connection to every other worker. It implements gbt.Team with direct exchanges. In
// Reduce, each worker sends to every other one the words that this one adds up. No other order of exchanges sends less,
// and this one takes a single step, where a ring takes one for each worker and recursive halving one for each doubling.
// It needs n(n-1)/2 connections among n workers, which is 496 for 32.
type Mesh struct {
	hello    header // what the messages of this epoch have in common
	rank     int
	peers    []*peer       // by rank; nil for this worker
	sequence uint64        // number of the last exchange
	stop     chan struct{} // closed when the mesh is
	closing  sync.Once
	beats    sync.WaitGroup

	traffic *Traffic // the Member's, to which this mesh adds
}

// Traffic is what the network has cost so far.
type Traffic struct {
	Sent, Received atomic.Int64 // bytes of messages, without TLS and below
	Waited         atomic.Int64 // nanoseconds in exchanges, which includes waiting for slower workers
	Exchanges      atomic.Int64
}

var _ gbt.Team = (*Mesh)(nil)

// peer is the connection to one other worker.
type peer struct {
	rank  int
	conn  net.Conn
	write sync.Mutex
	out   []byte  // memory for the message being sent
	in    []byte  // memory for the bytes of the message being received
	words []int64 // memory for its words
}

// kind of message.
type kind uint8

const (
	helloMessage kind = iota + 1 // the first on a connection
	wordsMessage
	beatMessage // a heartbeat: shows that the sender lives, while it has nothing else to send
)

// header begins every message. All numbers are little endian.
type header struct {
	kind     kind
	epoch    uint32
	training uint64 // a hash of its name
	sequence uint64 // of the exchange that it belongs to, 1, 2, 3 ...
	words    uint32 // number of words in the message
	bytes    uint32 // number of bytes that follow, which encode the words
}

const headerBytes = 32

// wire is the version of the encoding of messages. Every header has it, so that programs of different versions refuse
// each other's messages.
const wire = 1

// append appends the encoded header, headerBytes bytes.
func (h header) append(to []byte) []byte {
	to = append(to, byte(h.kind), wire, 0, 0)
	to = binary.LittleEndian.AppendUint32(to, h.epoch)
	to = binary.LittleEndian.AppendUint64(to, h.training)
	to = binary.LittleEndian.AppendUint64(to, h.sequence)
	to = binary.LittleEndian.AppendUint32(to, h.words)
	return binary.LittleEndian.AppendUint32(to, h.bytes)
}

// readHeader reads a header. It returns an error if the header is of another version or training than h or, except for
// a hello, of another epoch, or if it announces words where there cannot be any.
func (h header) readHeader(r io.Reader) (got header, err error) {
	var b [headerBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return got, err
	}
	got = header{kind: kind(b[0]), epoch: binary.LittleEndian.Uint32(b[4:]),
		training: binary.LittleEndian.Uint64(b[8:]), sequence: binary.LittleEndian.Uint64(b[16:]),
		words: binary.LittleEndian.Uint32(b[24:]), bytes: binary.LittleEndian.Uint32(b[28:])}
	switch {
	case b[1] != wire:
		return got, errors.New("a message of another version of the program")
	case got.kind < helloMessage || got.kind > beatMessage || b[2] != 0 || b[3] != 0:
		return got, errors.New("a message of an unknown kind")
	case got.training != h.training:
		return got, errors.New("a message of another training")
	case got.kind != wordsMessage && (got.words != 0 || got.bytes != 0):
		return got, errors.New("a message with words that cannot have any")
	case got.kind != helloMessage && got.epoch != h.epoch:
		return got, fmt.Errorf("a message of epoch %d in epoch %d", got.epoch, h.epoch)
	}
	return got, nil
}

// Words are sent in blocks of 64. A block is
//
//	8 bytes        a bit for each word, 1 if the word is not 0
//	1 byte         the width in bytes of the longest word that is not 0; only if there is one
//	width bytes    for each word that is not 0, its value in zigzag encoding
//
// That is short for histograms of small leaves, in which most bins have no rows and the other sums are small. In zigzag
// encoding the sign is the lowest bit, so that small negative words are short, too.

const blockWords = 64

// mostBytes is the most bytes that n words can take.
func mostBytes(n int) int { return 8*n + 9*((n+blockWords-1)/blockWords) }

// appendWords appends the encoded words.
func appendWords(to []byte, words []int64) []byte {
	// Each word is written as eight bytes, and the next word overwrites those beyond the width. So the last word needs
	// memory for up to eight bytes more.
	at := len(to)
	end := at + mostBytes(len(words)) + 8
	to = slices.Grow(to, end-at)[:end]
	for len(words) > 0 {
		// Which words are not 0, and the bits that any of them has.
		n := min(len(words), blockWords)
		mask, all := uint64(0), uint64(0)
		for i, w := range words[:n] {
			if w != 0 {
				mask |= 1 << i
				all |= zigzag(w)
			}
		}

		binary.LittleEndian.PutUint64(to[at:], mask)
		at += 8
		if mask != 0 {
			width := (bits.Len64(all) + 7) / 8
			to[at] = byte(width)
			at++
			for _, w := range words[:n] {
				if w != 0 {
					binary.LittleEndian.PutUint64(to[at:], zigzag(w))
					at += width
				}
			}
		}
		words = words[n:]
	}
	return to[:at]
}

// zigzag moves the sign of a word to its lowest bit: 0, -1, 1, -2 become 0, 1, 2, 3.
func zigzag(w int64) uint64 { return uint64(w)<<1 ^ uint64(w>>63) }

var errEncoding = errors.New("a message with other words than it says")

// readWords is the inverse of appendWords: it sets words from b, which must encode exactly len(words) words. b need not
// be trusted.
func readWords(b []byte, words []int64) error {
	for len(words) > 0 {
		n := min(len(words), blockWords)
		if len(b) < 8 {
			return errEncoding
		}
		mask := binary.LittleEndian.Uint64(b)
		b = b[8:]
		clear(words[:n])
		if mask != 0 {
			if len(b) == 0 || n < blockWords && mask>>n != 0 { // no width, or bits of words beyond the last one
				return errEncoding
			}
			width := int(b[0])
			b = b[1:]
			if width < 1 || width > 8 || len(b) < width*bits.OnesCount64(mask) {
				return errEncoding
			}
			for ; mask != 0; mask &= mask - 1 {
				// The next width bytes as a number; near the end of b there may be no eight bytes to load.
				var z uint64
				if len(b) >= 8 {
					z = binary.LittleEndian.Uint64(b) << (64 - 8*width) >> (64 - 8*width)
				} else {
					var last [8]byte
					copy(last[:width], b)
					z = binary.LittleEndian.Uint64(last[:])
				}
				words[bits.TrailingZeros64(mask)] = int64(z>>1) ^ -int64(z&1) // the inverse of zigzag
				b = b[width:]
			}
		}
		words = words[n:]
	}
	if len(b) > 0 {
		return errEncoding
	}
	return nil
}

// newMesh returns a mesh over connections to the other workers, by rank; that of this worker is nil. Both ends of each
// have exchanged hellos. The mesh owns the connections, and sends a heartbeat over each of them every beat until it is
// closed.
func newMesh(hello header, rank int, conns []net.Conn, beat time.Duration, traffic *Traffic) *Mesh {
	m := &Mesh{hello: hello, rank: rank, peers: make([]*peer, len(conns)), stop: make(chan struct{}), traffic: traffic}
	for i, c := range conns {
		if c != nil {
			m.peers[i] = &peer{rank: i, conn: c}
		}
	}
	m.beats.Go(func() { m.beat(beat) })
	return m
}

// beat sends heartbeats to all other workers until the mesh is closed.
func (m *Mesh) beat(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	h := m.hello
	h.kind = beatMessage
	message := h.append(nil)
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
		}
		for _, p := range m.peers {
			if p != nil && p.write.TryLock() { // else another message is being sent, which serves as well
				_, _ = p.conn.Write(message) // the next exchange notices a lost connection
				p.write.Unlock()
			}
		}
	}
}

// Close closes the connections, and waits until no heartbeat is being sent. It may be called several times.
func (m *Mesh) Close() {
	m.closeNow()
	m.beats.Wait()
}

// closeNow is Close without waiting. Exchanges in progress fail.
func (m *Mesh) closeNow() {
	m.closing.Do(func() {
		close(m.stop)
		for _, p := range m.peers {
			if p != nil {
				hangUp(p.conn)
			}
		}
	})
}

// hangUp closes a connection on which nothing more is expected. TLS by itself would first say so to the other end, and
// wait for one that has stopped reading.
func hangUp(c net.Conn) {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	_ = c.Close()
}

// Place implements gbt.Team.
func (m *Mesh) Place() (rank, size int) { return m.rank, len(m.peers) }

// Reduce implements gbt.Team: the words bounds[rank] to bounds[rank+1] become the sums of all workers' words there. The
// other words keep this worker's values.
func (m *Mesh) Reduce(words []int64, bounds []int) error {
	own := words[bounds[m.rank]:bounds[m.rank+1]]
	return m.exchange(
		func(to int) []int64 { return words[bounds[to]:bounds[to+1]] },
		func(int) int { return len(own) },
		func(_ int, theirs []int64) {
			for i, w := range theirs {
				own[i] += w
			}
		})
}

// Gather implements gbt.Team: it returns the words of all workers, one after the other by rank.
func (m *Mesh) Gather(words []int64) ([]int64, error) {
	all := make([]int64, len(words)*len(m.peers))
	copy(all[m.rank*len(words):], words)
	err := m.exchange(
		func(int) []int64 { return words },
		func(int) int { return len(words) },
		func(from int, theirs []int64) { copy(all[from*len(words):], theirs) })
	return all, err
}

// Broadcast implements gbt.Team: words become those of worker from.
func (m *Mesh) Broadcast(from int, words []int64) error {
	return m.exchange(
		func(int) []int64 {
			if m.rank != from {
				return nil
			}
			return words
		},
		func(sender int) int {
			if sender != from {
				return 0
			}
			return len(words)
		},
		func(_ int, theirs []int64) { copy(words, theirs) })
}

// sendAtOnce is the most bytes of a message that is sent before anything is received. The buffers of a connection have
// room for several such messages, so the two ends cannot wait for each other. Longer messages are sent by goroutines of
// their own.
const sendAtOnce = 32 << 10

// exchange sends the words send(to) to each other worker, receives expect(from) words from each, and calls take with
// them, one worker after the other. No message is sent for no words. If receiving fails, the mesh is closed. After any
// error, the workers no longer agree on the exchange they are at, so the caller must close the mesh.
func (m *Mesh) exchange(send func(to int) []int64, expect func(from int) int,
	take func(from int, words []int64)) error {
	m.sequence++
	start := time.Now()
	defer func() {
		m.traffic.Waited.Add(int64(time.Since(start)))
		m.traffic.Exchanges.Add(1)
	}()

	var sending sync.WaitGroup
	failed := make([]error, len(m.peers)) // by rank, the error of sending
	for i, p := range m.peers {
		if p == nil {
			continue
		}
		words := send(i)
		switch {
		case len(words) == 0: // the other end expects no message
		case mostBytes(len(words)) <= sendAtOnce:
			failed[i] = m.send(p, words)
		default:
			sending.Go(func() { failed[i] = m.send(p, words) })
		}
	}

	// Receive in the order of ranks, until the first error. Closing the mesh then ends what is still being sent.
	var err error
	for i, p := range m.peers {
		if p == nil || expect(i) == 0 || err != nil {
			continue
		}
		var words []int64
		if words, err = m.receive(p, expect(i)); err == nil {
			take(i, words)
		}
	}
	if err != nil {
		m.closeNow()
	}
	sending.Wait()
	return errors.Join(append(failed, err)...)
}

// send sends words to one worker as a message of the current exchange.
func (m *Mesh) send(p *peer, words []int64) error {
	p.write.Lock()
	defer p.write.Unlock()

	// The length, the last field of the header, is only known when the words are encoded.
	h := m.hello
	h.kind, h.sequence, h.words = wordsMessage, m.sequence, uint32(len(words))
	p.out = h.append(p.out[:0])
	p.out = appendWords(p.out, words)
	binary.LittleEndian.PutUint32(p.out[headerBytes-4:], uint32(len(p.out)-headerBytes))
	m.traffic.Sent.Add(int64(len(p.out)))
	if _, err := p.conn.Write(p.out); err != nil {
		return fmt.Errorf("send to worker %d: %w", p.rank, err)
	}
	return nil
}

// receive returns the words of a worker's message of the current exchange, which must be n words. They are valid until
// the next call.
func (m *Mesh) receive(p *peer, n int) ([]int64, error) {
	// Skip heartbeats.
	h := header{kind: beatMessage}
	for h.kind == beatMessage {
		var err error
		if h, err = m.hello.readHeader(p.conn); err != nil {
			return nil, fmt.Errorf("worker %d is gone: %w", p.rank, err)
		}
	}

	switch {
	case h.kind != wordsMessage:
		return nil, fmt.Errorf("worker %d sends a second hello", p.rank)
	case h.sequence != m.sequence:
		return nil, fmt.Errorf("worker %d is at exchange %d, this one at %d", p.rank, h.sequence, m.sequence)
	case int(h.words) != n || int(h.bytes) > mostBytes(n):
		return nil, fmt.Errorf("worker %d sends %d words in %d bytes, expected %d", p.rank, h.words, h.bytes, n)
	}
	p.in = resize(p.in, int(h.bytes))
	if _, err := io.ReadFull(p.conn, p.in); err != nil {
		return nil, fmt.Errorf("receive from worker %d: %w", p.rank, err)
	}
	m.traffic.Received.Add(int64(headerBytes + len(p.in)))
	p.words = resize(p.words, n)
	if err := readWords(p.in, p.words); err != nil {
		return nil, fmt.Errorf("worker %d sends %w", p.rank, err)
	}
	return p.words, nil
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// broadcast returns the bytes b of worker from on all workers. The b of other workers is ignored. More than limit bytes
// are an error.
func (m *Mesh) broadcast(from int, b []byte, limit int) ([]byte, error) {
	// First the length, so that the others can make room.
	length := []int64{int64(len(b))}
	if err := m.Broadcast(from, length); err != nil {
		return nil, err
	}
	n := int(length[0])
	if n < 0 || n > limit {
		return nil, fmt.Errorf("worker %d has %d bytes to share; %d at most", from, n, limit)
	}
	if n == 0 {
		return nil, nil
	}

	// Then the bytes as words, padded with zeros.
	words := make([]int64, (n+7)/8)
	padded := append(bytes.Clone(b), make([]byte, 8)...)
	if m.rank == from {
		for i := range words {
			words[i] = int64(binary.LittleEndian.Uint64(padded[8*i:]))
		}
	}
	if err := m.Broadcast(from, words); err != nil {
		return nil, err
	}
	out := make([]byte, 0, 8*len(words))
	for _, w := range words {
		out = binary.LittleEndian.AppendUint64(out, uint64(w))
	}
	return out[:n], nil
}

// readHello reads the first message of a connection, a hello of any epoch.
func (h header) readHello(r io.Reader) (header, error) {
	got, err := h.readHeader(r)
	if err == nil && got.kind != helloMessage {
		err = errors.New("no hello")
	}
	return got, err
}
