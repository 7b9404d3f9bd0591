package team

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"coppice/internal/blob"
	"coppice/internal/strictjson"
)

// Board is where workers find each other: small objects below a folder of object storage, which ends in a slash. They
// are created once and never changed.
type Board struct {
	store  blob.Store
	folder string
}

// Bucket is the board below a folder of a store.
func Bucket(s blob.Store, folder string) Board { return Board{s, folder} }

// maxObject bounds an object of a board: the names of 256 workers.
const maxObject = 64 << 10

// create writes an object, and does nothing if there is one of that name.
func (b Board) create(ctx context.Context, name string, data []byte) error {
	_, err := blob.Create(ctx, b.store, b.folder+name, data)
	return err
}

// read returns an object, or an error that is fs.ErrNotExist.
func (b Board) read(ctx context.Context, name string) ([]byte, error) {
	data, _, err := blob.ReadAll(ctx, b.store, b.folder+name, maxObject)
	return data, err
}

// list returns the names of all objects below a folder of the board, which ends in a slash, in any order.
func (b Board) list(ctx context.Context, folder string) (names []string, err error) {
	for a, err := range b.store.List(ctx, b.folder+folder) {
		if err != nil {
			return nil, err
		}
		names = append(names, strings.TrimPrefix(a.Name, b.folder))
	}
	return names, nil
}

// Objects of a board:
//
//	epochs/00000003/workers/ID   a worker that would take part in epoch 3 (announcement), created by itself
//	epochs/00000003/members      who takes part, in the order of their ranks, created by the worker that leads
//
// An epoch ends when one of its members is gone. The others, and newcomers, announce themselves for the next.

// announcement is what the others have to know of a worker.
type announcement struct {
	Address     string `json:"address"`
	Certificate []byte `json:"certificate"` // DER; its key was made for this process
}

// members is the decision who takes part in an epoch.
type members struct {
	IDs []string `json:"ids"`
}

// mostWorkers bounds a team.
const mostWorkers = 256

// check refuses a decision that no leader writes: too many members, or names that are none or double.
func (m *members) check(name string) error {
	if len(m.IDs) > mostWorkers {
		return fmt.Errorf("read %s: %d workers; %d at most", name, len(m.IDs), mostWorkers)
	}
	for i, id := range m.IDs {
		if !plainID.MatchString(id) || slices.Contains(m.IDs[:i], id) {
			return fmt.Errorf("read %s: %.60q is not the name of one worker", name, id)
		}
	}
	return nil
}

// plainID is what a worker may be called: part of an object's name.
var plainID = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{0,99}$`)

func epochFolder(epoch int) string { return fmt.Sprintf("epochs/%08d/", epoch) }

// nextEpoch returns the first epoch that nobody has decided, and whether there is already a worker that waits for it.
func (w *Member) nextEpoch(ctx context.Context, after int) (epoch int, awaited bool, err error) {
	names, err := w.board.list(ctx, "epochs/")
	if err != nil {
		return 0, false, fmt.Errorf("look for other workers: %w", err)
	}
	last := 0
	for _, name := range names {
		parts := strings.Split(name, "/")
		if len(parts) < 3 {
			continue
		}
		e, err := strconv.Atoi(parts[1])
		if err != nil || e < 1 {
			continue
		}
		if parts[2] == "members" {
			last = max(last, e)
		}
		awaited = awaited || e > after
	}
	return last + 1, awaited, nil
}

// Members returns the workers of the board's latest team or, if none has been formed yet, those that have announced
// themselves.
func Members(ctx context.Context, b Board) (ids []string, err error) {
	w := Member{board: b}
	next, _, err := w.nextEpoch(ctx, 0)
	switch {
	case err != nil:
		return nil, err
	case next == 1:
		return w.listAnnounced(ctx, next)
	}
	return w.membersOf(ctx, next-1)
}

// membersOf returns the members of an epoch, once they are known; fs.ErrNotExist before.
func (w *Member) membersOf(ctx context.Context, epoch int) ([]string, error) {
	name := epochFolder(epoch) + "members"
	data, err := w.board.read(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var m members
	if err := strictjson.Decode(data, &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return m.IDs, m.check(name)
}

// decide returns the members of an epoch, once they are known. A worker that leads decides that as soon as all that it
// expects have announced themselves, or it has waited long enough.
//
// Where a team has come apart, more may come than are expected, all at about the same time. So it waits until nobody
// has come for a while: one that was left out would only make the team begin anew.
func (w *Member) decide(ctx context.Context, epoch int) ([]string, error) {
	name := epochFolder(epoch) + "members"
	var known []string
	start := time.Now()
	for last := start; ; {
		if ids, err := w.membersOf(ctx, epoch); !errors.Is(err, fs.ErrNotExist) {
			return ids, err
		}

		if w.leads {
			ids, err := w.listAnnounced(ctx, epoch)
			if err != nil {
				return nil, err
			}
			ids = slices.Insert(ids, 0, w.id)
			if !slices.Equal(ids, known) {
				known, last = ids, time.Now()
			}
			expected := int(w.expected.Load())
			settled := len(ids) == expected && w.Epochs() == 0 || time.Since(last) > 5*w.look
			if len(ids) >= expected && settled || time.Since(start) > w.patience() {
				data, err := json.Marshal(members{ids[:min(len(ids), w.most)]})
				if err != nil {
					return nil, err
				}
				if err := w.board.create(ctx, name, data); err != nil {
					return nil, fmt.Errorf("write %s: %w", name, err)
				}
				continue // and read what was decided
			}
		}

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(w.look):
		}
	}
}

// listAnnounced returns the other workers that would take part in an epoch.
func (w *Member) listAnnounced(ctx context.Context, epoch int) (ids []string, err error) {
	names, err := w.board.list(ctx, epochFolder(epoch)+"workers/")
	if err != nil {
		return nil, fmt.Errorf("look for other workers: %w", err)
	}
	slices.Sort(names)
	for _, n := range names {
		if id := path.Base(n); id != w.id && plainID.MatchString(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// meetTeam returns the team of the next epoch that this worker is a member of.
func (w *Member) meetTeam(ctx context.Context) (*Mesh, int, error) {
	for {
		epoch, _, err := w.nextEpoch(ctx, 0)
		if err != nil {
			return nil, 0, err
		}
		own, err := json.Marshal(announcement{w.listener.Addr().String(), w.identity.Certificate[0]})
		if err != nil {
			return nil, 0, err
		}
		if err := w.board.create(ctx, epochFolder(epoch)+"workers/"+w.id, own); err != nil {
			return nil, 0, fmt.Errorf("announce this worker: %w", err)
		}

		ids, err := w.decide(ctx, epoch)
		if err != nil {
			return nil, 0, err
		}
		rank := slices.Index(ids, w.id)
		if rank < 0 {
			continue // decided before this worker was there
		}

		m, err := w.connect(ctx, epoch, ids, rank)
		switch {
		case err == nil:
			return m, epoch, nil
		case ctx.Err() != nil:
			return nil, 0, ctx.Err()
		}
		w.log("epoch %d does not come about: %v", epoch, err)
		if w.leads { // the others wait until it has gone on alone
			w.fruitless()
		}
	}
}

// connect makes the connections among the members of an epoch: each calls those before it.
func (w *Member) connect(ctx context.Context, epoch int, ids []string, rank int) (*Mesh, error) {
	ctx, cancel := context.WithTimeout(ctx, w.silence)
	defer cancel()
	hello := header{kind: helloMessage, epoch: uint32(epoch), training: w.training}
	conns := make([]net.Conn, len(ids))
	failed := func(err error) (*Mesh, error) {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, err
	}

	certificates := make([][]byte, len(ids))
	addresses := make([]string, len(ids))
	for i, id := range ids {
		name := epochFolder(epoch) + "workers/" + id
		data, err := w.board.read(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		var a announcement
		if err := strictjson.Decode(data, &a); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		certificates[i], addresses[i] = a.Certificate, a.Address
	}

	for i := range rank {
		c, err := w.connectTo(ctx, addresses[i], certificates[i], hello)
		if err != nil {
			return failed(fmt.Errorf("call worker %d at %s: %w", i, addresses[i], err))
		}
		conns[i] = c
	}
	for missing := len(ids) - rank - 1; missing > 0; {
		c, err := w.callers.next(ctx, epoch)
		if err != nil {
			return failed(fmt.Errorf("wait for %d workers to call: %w", missing, err))
		}
		i := slices.IndexFunc(certificates, func(known []byte) bool { return bytes.Equal(known, c.certificate) })
		if i <= rank || conns[i] != nil {
			_ = c.conn.Close() // a stranger, or one that calls twice
			continue
		}
		conns[i] = c.conn
		missing--
	}
	return newMesh(hello, rank, conns, w.silence/8, &w.Traffic), nil
}

// connectTo connects to a worker that has the certificate.
func (w *Member) connectTo(ctx context.Context, address string, certificate []byte, hello header) (net.Conn, error) {
	known, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(known)

	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	timed, err := newImpatient(raw, w.silence)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	c := tls.Client(timed, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots,
		ServerName: serverName, Certificates: []tls.Certificate{w.identity}})
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	if _, err := c.Write(hello.append(nil)); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// caller is a connection that somebody has made. They have shown that they have the key of the certificate, no more.
type caller struct {
	conn        net.Conn
	epoch       int
	certificate []byte
}

// callers hands connections to the epochs that they are for.
type callers struct {
	mu      sync.Mutex
	waiting []caller
	came    chan struct{} // has room for one
	closed  bool
}

// mostWaiting bounds the connections that nobody has asked for yet; the oldest make room.
const mostWaiting = 2 * mostWorkers

// add keeps a connection until its epoch asks for it; the oldest makes room, and after close all are closed.
func (c *callers) add(one caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = one.conn.Close()
		return
	}
	if len(c.waiting) == mostWaiting {
		_ = c.waiting[0].conn.Close()
		c.waiting = c.waiting[1:]
	}
	c.waiting = append(c.waiting, one)
	select {
	case c.came <- struct{}{}:
	default:
	}
}

// next returns a connection for an epoch, and closes those for earlier ones.
func (c *callers) next(ctx context.Context, epoch int) (caller, error) {
	for {
		c.mu.Lock()
		found := caller{}
		c.waiting = slices.DeleteFunc(c.waiting, func(one caller) bool {
			if one.epoch < epoch {
				_ = one.conn.Close()
				return true
			}
			if one.epoch == epoch && found.conn == nil {
				found = one
				return true
			}
			return false
		})
		c.mu.Unlock()
		if found.conn != nil {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return caller{}, ctx.Err()
		case <-c.came:
		}
	}
}

// close hangs up on all that wait, and on those that come later.
func (c *callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, one := range c.waiting {
		_ = one.conn.Close()
	}
	c.waiting = nil
}

// accept takes calls until the listener is closed.
func (w *Member) accept() {
	for {
		raw, err := w.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(w.look) // such as too many open files
			continue
		}
		w.answers.Go(func() {
			if c, err := w.answer(raw); err != nil {
				_ = raw.Close()
			} else {
				w.callers.add(c)
			}
		})
	}
}

// answer is the other end of connectTo.
func (w *Member) answer(raw net.Conn) (caller, error) {
	ctx, cancel := context.WithTimeout(w.life, w.silence)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // however slowly its hello comes
	defer stop()
	timed, err := newImpatient(raw, w.silence)
	if err != nil {
		return caller{}, err
	}
	c := tls.Server(timed, &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{w.identity}, ClientAuth: tls.RequireAnyClientCert})
	if err := c.HandshakeContext(ctx); err != nil {
		return caller{}, err
	}
	h, err := header{training: w.training}.readHello(c)
	if err != nil {
		return caller{}, err
	}
	return caller{c, int(h.epoch), c.ConnectionState().PeerCertificates[0].Raw}, nil
}

// impatient is a connection whose reads fail after so long a silence. A write fails if nothing is taken for six times
// as long: the other end may wait for a slower worker before it reads, but one that has stopped never does.
//
// Waking a process that sleeps takes 50 microseconds, on virtual machines up to a millisecond, and a tree needs dozens
// of messages. So a read polls for a while before it sleeps, as the goroutines of a training do.
type impatient struct {
	net.Conn
	raw     syscall.RawConn
	silence time.Duration
}

// awake is how long a read polls: longer than workers with equal parts differ in time.
const awake = 400 * time.Microsecond

func newImpatient(c net.Conn, silence time.Duration) (net.Conn, error) {
	raw, err := c.(syscall.Conn).SyscallConn()
	return impatient{c, raw, silence}, err
}

// Read implements net.Conn.
func (c impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	for start := time.Now(); time.Since(start) < awake; runtime.Gosched() {
		if n, err := poll(c.raw, b); n > 0 || err != nil {
			return n, err
		}
	}
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c impatient) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(6 * c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// serverName is what every worker's certificate is for. Which worker it is, is told by the certificate itself.
const serverName = "worker.coppice.internal"

// newIdentity makes a key and a certificate of it for one process.
func newIdentity() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	made := x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: serverName},
		DNSNames: []string{serverName}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(365 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, &made, &made, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
