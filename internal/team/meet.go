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

// Board is where workers find each other: small objects in a folder of object storage, which are created once and never
// changed.
type Board struct {
	store  blob.Store
	folder string // ends in a slash
}

// Bucket returns the board in a folder of a store. The folder's name ends in a slash.
func Bucket(s blob.Store, folder string) Board { return Board{s, folder} }

// maxObject is the most bytes of an object of a board, enough for the names of 256 workers.
const maxObject = 64 << 10

// create writes an object. It does nothing if there already is an object of this name.
func (b Board) create(ctx context.Context, name string, data []byte) error {
	_, err := blob.Create(ctx, b.store, b.folder+name, data)
	return err
}

// read returns the contents of an object. The error is fs.ErrNotExist if there is no such object.
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
//	epochs/00000003/workers/ID   a worker wants to take part in epoch 3 (announcement); created by this worker
//	epochs/00000003/members      who takes part in epoch 3, by rank (members); created by the leader
//
// An epoch ends when one of its members is gone. The others, and new workers, announce themselves for the next one.

// announcement is what other workers need to connect to a worker.
type announcement struct {
	Address     string `json:"address"`
	Certificate []byte `json:"certificate"` // DER; its key was made for this process
}

// members is the leader's decision on who takes part in an epoch.
type members struct {
	IDs []string `json:"ids"` // by rank; the leader is the first
}

// mostWorkers is the most workers of a team.
const mostWorkers = 256

// check returns an error if no leader can have written this: there are too many members, or a name is invalid or occurs
// twice. name is the object's, for the error.
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

// plainID matches valid names of workers, which are parts of object names.
var plainID = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{0,99}$`)

// epochFolder is the folder of an epoch's objects.
func epochFolder(epoch int) string { return fmt.Sprintf("epochs/%08d/", epoch) }

// nextEpoch returns the epoch after the last one whose members are decided. awaited says whether there is any object of
// an epoch later than after, so that a worker waits for one. Objects with other names are ignored.
func (w *Member) nextEpoch(ctx context.Context, after int) (epoch int, awaited bool, err error) {
	names, err := w.board.list(ctx, "epochs/")
	if err != nil {
		return 0, false, fmt.Errorf("look for other workers: %w", err)
	}

	last := 0 // the last epoch with members
	for _, name := range names {
		parts := strings.Split(name, "/") // epochs, number, members or workers ...
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

// Members returns the names of the workers of the board's last epoch. Before the first epoch, they are those that have
// announced themselves for it.
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

// membersOf returns the members of an epoch, by rank. The error wraps fs.ErrNotExist if they are not decided yet.
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

// decide waits until the members of an epoch are decided, and returns them by rank. The leader decides them itself: the
// leader first and then the others, sorted by name, at most w.most of them.
//
// With fewer workers than expected, the leader waits for more until patience() is over, and then decides without them.
// With exactly as many, it decides at once if it has not been in an epoch yet. With more, or in a later epoch, others
// may come at about the same time: then it waits until none has come for the time of five looks at the board, since a
// worker that is left out would only make the team begin anew. After patience() it decides in any case.
func (w *Member) decide(ctx context.Context, epoch int) ([]string, error) {
	name := epochFolder(epoch) + "members"
	var known []string // on the leader: who had announced themselves when it last looked
	start := time.Now()
	for changed := start; ; { // changed: when the leader saw known change
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
				known, changed = ids, time.Now()
			}
			expected := int(w.expected.Load())
			settled := len(ids) == expected && w.Epochs() == 0 || time.Since(changed) > 5*w.look
			overdue := time.Since(start) > w.patience()
			if len(ids) >= expected && settled || overdue {
				data, err := json.Marshal(members{ids[:min(len(ids), w.most)]})
				if err != nil {
					return nil, err
				}
				if err := w.board.create(ctx, name, data); err != nil {
					return nil, fmt.Errorf("write %s: %w", name, err)
				}
				continue // read the decision like all other workers
			}
		}

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(w.look):
		}
	}
}

// listAnnounced returns the names of the other workers that have announced themselves for an epoch, sorted.
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

// meetTeam announces this worker for the next epoch, and for those after it, until it is a member of one whose members
// have all connected. It returns their mesh, which the caller closes, and the epoch's number.
func (w *Member) meetTeam(ctx context.Context) (*Mesh, int, error) {
	for {
		// Announce this worker.
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

		// Wait for the members. If they were decided before this worker was there, or the team is full, try the next
		// epoch.
		ids, err := w.decide(ctx, epoch)
		if err != nil {
			return nil, 0, err
		}
		rank := slices.Index(ids, w.id)
		if rank < 0 {
			continue
		}

		m, err := w.connect(ctx, epoch, ids, rank)
		switch {
		case err == nil:
			return m, epoch, nil
		case ctx.Err() != nil:
			return nil, 0, ctx.Err()
		}
		w.log("epoch %d does not come about: %v", epoch, err)
		if w.leads { // only the leader counts these: the others wait for its decision
			w.countFruitless()
		}
	}
}

// connect connects this worker, which has the given rank, to all other members of an epoch. It calls the workers of
// lower rank, and waits for those of higher rank to call. If that takes longer than w.silence, it fails.
func (w *Member) connect(ctx context.Context, epoch int, ids []string, rank int) (*Mesh, error) {
	ctx, cancel := context.WithTimeout(ctx, w.silence)
	defer cancel()
	hello := header{kind: helloMessage, epoch: uint32(epoch), training: w.training}
	conns := make([]net.Conn, len(ids))
	failed := func(err error) (*Mesh, error) { // closes what is connected so far
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, err
	}

	// What the members have announced.
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

	// Call those of lower rank.
	for i := range rank {
		c, err := w.connectTo(ctx, addresses[i], certificates[i], hello)
		if err != nil {
			return failed(fmt.Errorf("call worker %d at %s: %w", i, addresses[i], err))
		}
		conns[i] = c
	}

	// Wait for those of higher rank, which are recognised by their certificates.
	for missing := len(ids) - rank - 1; missing > 0; {
		c, err := w.callers.next(ctx, epoch)
		if err != nil {
			return failed(fmt.Errorf("wait for %d workers to call: %w", missing, err))
		}
		i := slices.IndexFunc(certificates, func(known []byte) bool { return bytes.Equal(known, c.certificate) })
		if i <= rank || conns[i] != nil {
			_ = c.conn.Close() // not a member (i is -1), one that this worker calls itself, or one that calls twice
			continue
		}
		conns[i] = c.conn
		missing--
	}

	// Several heartbeats fit into the time after which a silent worker counts as gone, so that a late one does no harm.
	return newMesh(hello, rank, conns, w.silence/8, &w.Traffic), nil
}

// connectTo connects to the worker at an address and sends it hello. The worker must have the key of the certificate.
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

// caller is a connection from another process. The process has shown that it has the key of the certificate; whether
// that is a member's has yet to be checked.
type caller struct {
	conn        net.Conn
	epoch       int
	certificate []byte
}

// callers keeps connections from other workers until the epoch that they are for asks for them.
type callers struct {
	mu      sync.Mutex
	waiting []caller      // oldest first
	came    chan struct{} // gets an element after a connection was added; has room for one
	closed  bool
}

// mostWaiting is how many connections are kept; beyond that the oldest is closed.
const mostWaiting = 2 * mostWorkers

// add takes over a connection until next returns it. If there are too many, the oldest one is closed. After close, the
// connection is closed at once.
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
	default: // it has an element already, on which next looks at all connections
	}
}

// next waits for a connection for an epoch and returns it; the caller closes it. Connections for earlier epochs are
// closed, those for later ones stay. The error is ctx's, when it ends.
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

// close closes all connections that are kept, and those that are added later.
func (c *callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, one := range c.waiting {
		_ = one.conn.Close()
	}
	c.waiting = nil
}

// accept accepts connections until the listener is closed, and adds those that pass answer to w.callers. Each is
// answered by a goroutine of its own.
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

// answer is the other end of connectTo: it checks that the other process has the key of its certificate, and reads its
// hello. On an error, the caller closes raw.
func (w *Member) answer(raw net.Conn) (caller, error) {
	ctx, cancel := context.WithTimeout(w.life, w.silence)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // so that a slow hello takes no longer, either
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
	return caller{conn: c, epoch: int(h.epoch), certificate: c.ConnectionState().PeerCertificates[0].Raw}, nil
}

// impatient is a connection on which a read fails if nothing comes for the time of silence, so that a lost worker is
// noticed. A write fails after six times as long: the other end may have to wait for a slower worker before it reads,
// but if it has stopped it never will.
//
// Waking a sleeping process takes 50 microseconds, on virtual machines up to a millisecond, and a tree needs dozens of
// messages. So a read polls for a while before it sleeps, as the goroutines of a training do.
type impatient struct {
	net.Conn
	raw     syscall.RawConn
	silence time.Duration
}

// awake is how long a read polls: longer than the difference in time between workers with equal parts of the rows.
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
	// While nothing has come, poll returns 0 without an error; other goroutines then get the processor.
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

// serverName is the host name in every worker's certificate. Workers are told apart by the certificates as a whole.
const serverName = "worker.coppice.internal"

// newIdentity makes a key and a certificate signed with it, for one process.
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
