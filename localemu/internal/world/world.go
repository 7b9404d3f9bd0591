// Package world assembles the local cloud: the four emulators on ports of this machine, the buckets, topics and
// subscriptions that Terraform would have made, and the aggregator as it is deployed: a service to which scores and
// Batch's notifications of jobs are pushed, and which a schedule calls. Without an aggregator, messages stay in their
// subscriptions for anyone who pulls them, as in a deployment without images.
//
// Not imitated: Cloud Run itself. An aggregator runs all the time, and has the CPU between requests; nothing limits how
// many requests it takes, and the token's signature is checked by the aggregator, not by Cloud Run in front of it.
package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/go-jose/go-jose/v4"
	"github.com/gofrs/flock"
	"google.golang.org/protobuf/types/known/durationpb"

	"coppice/internal/atomicfile"
	"coppice/internal/problem"
	"coppice/localemu/batchemu"
	"coppice/localemu/gcsemu"
	"coppice/localemu/internal/httpjson"
	"coppice/localemu/internal/proc"
	"coppice/localemu/pubsubemu"
)

// AggregatorName is the key of the aggregator in Options.Names, which is no image.
const AggregatorName = "aggregator"

// Names in the local cloud.
const (
	project       = "local-project"
	location      = "us-central1"
	scoresTopic   = "coppice-scores"
	subscription  = "coppice-aggregator"
	deadLetters   = "coppice-scores-dead"
	jobsTopic     = "coppice-jobs"     // and its subscription
	verdictsTopic = "coppice-verdicts" // and its subscription, for tests and users to pull
)

var buckets = map[string]string{
	"COPPICE_DATASETS_BUCKET": "coppice-datasets",
	"COPPICE_SWEEPS_BUCKET":   "coppice-sweeps",
	"COPPICE_REGISTRY_BUCKET": "coppice-registry",
}

// SettingsFile is the file in the data folder through which other terminals find a local cloud that stays up.
const SettingsFile = "env"

// Names of the images by which the launcher asks for the task program here, and for itself, to stage in the cloud.
const (
	TaskImage     = "coppice-task"
	LauncherImage = "coppice-launcher"
)

// Options describe the local cloud.
type Options struct {
	Data     string            // folder that keeps everything; "" is a temporary one
	LogDir   string            // "" is Data/logs
	PortBase int               // first of four ports; 0 takes any that are free
	Images   map[string]string // of tasks: container image to local program
	Names    map[string]string // by which those programs, and the aggregator, are called that are one program
	// tool that runs the images themselves, and then Images are its names for them; "" runs local programs
	Containers  string
	Aggregator  string     // program; "" runs none
	Aggregators int        // how many of them; 0 is 1
	Faults      *FaultSpec // nil is none
	Wait        bool       // for another local cloud on Data to end, instead of failing
	Environ     []string   // environment of the aggregator beside the local cloud's, and of the container tool
	Stderr      io.Writer  // for warnings
	Version     string
}

// World is a running local cloud.
type World struct {
	opts      Options
	data      string
	temporary bool
	lock      *flock.Flock
	log       *slog.Logger

	storage *gcsemu.Server
	pubsub  *pubsubemu.Server
	batch   *batchemu.Server
	rest    *httpjson.Listener
	procs   *proc.Set
	key     func() (jose.JSONWebKey, error) // of this local cloud alone; making it takes a tenth of a second, once

	aggregators *aggregators
	script      *script
	closing     sync.Once
}

// Start brings the local cloud up. Close takes it down again.
func Start(ctx context.Context, o Options) (*World, error) {
	if o.Faults == nil {
		o.Faults = &FaultSpec{}
	}
	w := &World{opts: o, procs: proc.NewSet(), key: sync.OnceValues(newKey),
		log: slog.New(slog.NewTextHandler(o.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := w.start(ctx); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// start starts the parts in the order in which they need each other. After an error its caller closes what was started.
func (w *World) start(ctx context.Context) error {
	w.script = &script{w: w, left: slices.Clone(w.opts.Faults.AtWrite), counts: map[string]int{}}
	if err := w.openData(ctx); err != nil {
		return err
	}
	w.aggregators = newAggregators(w)
	if err := w.startStorage(); err != nil {
		return err
	}
	if err := w.startPubSub(ctx); err != nil {
		return err
	}
	if err := w.startBatch(); err != nil {
		return err
	}
	if err := w.startREST(); err != nil {
		return err
	}
	return w.aggregators.start()
}

// A temporary data folder has a mark: no other folder is ever removed.
const (
	temporaryPrefix = "localemu-"
	temporaryMark   = "temporary"
	lockFile        = "lock"
)

// removeForgotten removes the temporary data folders of local clouds that were killed before they could do so. Such a
// folder has the mark of a temporary one and a lock file that no process holds. A folder without a lock file is left
// alone, because another localemu has only just made it. Failures are logged and change nothing else.
func (w *World) removeForgotten() {
	marks, _ := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*", temporaryMark))
	for _, mark := range marks {
		dir := filepath.Dir(mark)
		if _, err := os.Stat(filepath.Join(dir, lockFile)); err != nil {
			continue
		}
		lock := atomicfile.NewLock(filepath.Join(dir, lockFile))
		locked, err := lock.TryLock()
		if locked {
			err = errors.Join(os.RemoveAll(dir), lock.Close())
		}
		if err != nil {
			w.log.Warn("remove the temporary folder of a localemu that was killed", "folder", dir, "error", err)
		}
	}
}

// openData sets w.data to the absolute path of the data folder, creates the folder and that of the logs, and takes the
// folder's lock. Without Options.Data it makes a temporary folder, which Close removes. If another local cloud holds
// the lock, it waits with Options.Wait until ctx ends, and else returns an error of the kind problem.Conflict.
func (w *World) openData(ctx context.Context) error {
	w.data = w.opts.Data
	if w.data == "" {
		w.removeForgotten()
		dir, err := os.MkdirTemp("", temporaryPrefix)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, temporaryMark), nil, 0o644)
		}
		if err != nil {
			return fmt.Errorf("make a data folder: %w", err)
		}
		w.data = dir
		w.temporary = true
	}

	data, err := filepath.Abs(w.data)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	w.data = data

	if w.opts.LogDir == "" {
		w.opts.LogDir = filepath.Join(data, "logs")
	}
	for _, dir := range []string{data, w.opts.LogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}

	// One local cloud at a time may use the folder.
	lock := atomicfile.NewLock(filepath.Join(data, lockFile))
	locked, err := lock.TryLock()
	if err == nil && !locked && w.opts.Wait {
		fmt.Fprintf(w.opts.Stderr, "waiting for another command, such as `coppice serve`, that uses the local cloud "+
			"in %[1]s. To run several at once, end it and start `coppice localemu up --data %[1]s`, which they share; "+
			"a model saved by `fit --out` needs none\n", data)
		locked, err = lock.TryLockContext(ctx, 200*time.Millisecond)
	}
	switch {
	case err != nil:
		return fmt.Errorf("lock %s: %w", data, err)
	case !locked:
		w.temporary = false // not ours to remove
		return problem.New(problem.Conflict, "another localemu is using %s; end it, or use another --data folder", data)
	}

	w.lock = lock

	// Other terminals would use the addresses of a local cloud that was killed.
	if err := os.Remove(filepath.Join(data, SettingsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the settings of a local cloud that was killed: %w", err)
	}
	return nil
}

// listen opens the local cloud's port number i, from 0 to 3: Options.PortBase + i, or any free port without a base.
func (w *World) listen(i int) (net.Listener, error) {
	port := 0
	if w.opts.PortBase > 0 {
		port = w.opts.PortBase + i
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // nothing to wait for
	if err != nil {
		return nil, fmt.Errorf("open a port of the local cloud: %w; is another one running? use another --port-base",
			err)
	}
	return l, nil
}

// startStorage starts Cloud Storage on the first port and makes the deployment's buckets.
func (w *World) startStorage() error {
	l, err := w.listen(0)
	if err != nil {
		return err
	}

	f := w.opts.Faults
	w.storage, err = gcsemu.Start(l, gcsemu.Options{Dir: filepath.Join(w.data, "gcs"), Version: w.opts.Version,
		Faults:  gcsemu.Faults{Write: f.Refuse, Answer: f.LoseReply, Read: f.Read},
		OnWrite: w.script.written, Struck: w.script.struck, Log: w.log})
	if err != nil {
		return errors.Join(err, l.Close())
	}

	for _, name := range buckets {
		if err := w.storage.CreateBucket(name); err != nil {
			return err
		}
	}
	return nil
}

// startPubSub starts Pub/Sub on the second port, with the deployment's topics and subscriptions. Scores and changes of
// jobs are pushed to the aggregators. If there are none, they wait in subscriptions to be pulled, as dead letters and
// verdicts always do.
func (w *World) startPubSub(ctx context.Context) error {
	l, err := w.listen(1)
	if err != nil {
		return err
	}

	// The pauses between attempts are shorter than the deployment's, in which minutes do not matter.
	retry := &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second),
		MaximumBackoff: durationpb.New(10 * time.Second)}
	dead := &pubsubpb.DeadLetterPolicy{DeadLetterTopic: topic(deadLetters), MaxDeliveryAttempts: 20}
	scores := &pubsubpb.Subscription{Name: sub(subscription), Topic: topic(scoresTopic), RetryPolicy: retry,
		DeadLetterPolicy: dead}
	jobs := &pubsubpb.Subscription{Name: sub(jobsTopic), Topic: topic(jobsTopic), RetryPolicy: retry,
		DeadLetterPolicy: dead}
	pulled := []*pubsubpb.Subscription{
		{Name: sub(deadLetters), Topic: topic(deadLetters)}, {Name: sub(verdictsTopic), Topic: topic(verdictsTopic)},
	}
	// /push and /reconcile are the aggregator's own paths; it knows its caller by the account "push".
	pushes := []pubsubemu.Push{
		{Subscription: scores, Post: func(m []byte) error { return w.aggregators.postAs("/push", "push", m) }},
		{Subscription: jobs, Post: func(m []byte) error { return w.aggregators.postAs("/reconcile", "push", m) }},
	}
	if w.opts.Aggregator == "" {
		pulled, pushes = append(pulled, scores, jobs), nil
	}

	f := w.opts.Faults
	w.pubsub, err = pubsubemu.Start(l, pubsubemu.Options{Faults: pubsubemu.Faults{Duplicate: f.Duplicate,
		Shuffle: f.Shuffle, Drop: f.Drop, LoseAcks: f.LoseAcks, Seed: f.Seed}, Pushes: pushes,
		Struck: w.script.struck, Log: w.log})
	if err != nil {
		return errors.Join(err, l.Close())
	}

	for _, id := range []string{scoresTopic, jobsTopic, deadLetters, verdictsTopic} {
		if err := w.pubsub.CreateTopic(ctx, topic(id)); err != nil {
			return err
		}
	}
	for _, s := range pulled {
		if err := w.pubsub.CreateSubscription(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// startBatch starts Batch on the third port. Its tasks get the addresses of the other emulators in their environment.
func (w *World) startBatch() error {
	l, err := w.listen(2)
	if err != nil {
		return err
	}
	w.batch, err = batchemu.Start(l, batchemu.Options{
		Dir: w.data, LogDir: w.opts.LogDir, Images: w.opts.Images, Names: w.opts.Names,
		Containers: w.opts.Containers, Environ: w.opts.Environ, TaskEnv: w.emulators(),
		Faults: batchemu.Faults{LoseMachine: w.opts.Faults.Lose, NoCapacity: w.opts.Faults.Shortage,
			CPUs: w.opts.Faults.CPUs},
		Struck: w.script.struck, Log: w.log, Notify: w.notify,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// notify publishes a job's notification.
func (w *World) notify(n batchemu.Notification) {
	m := &pubsubpb.PubsubMessage{Attributes: n.Attributes, Data: []byte(n.Data)}
	if err := w.pubsub.PublishOwn(context.Background(), n.Topic, m); err != nil {
		w.log.Error("publish a notification of Batch", "error", err)
	}
}

// Data is the folder that keeps everything.
func (w *World) Data() string { return w.data }

// Procs starts processes that do not outlive the local cloud.
func (w *World) Procs() *proc.Set { return w.procs }

// Failed delivers the error when a part of the local cloud ends that should not have, or when no sweep can be concluded
// as the disk is full.
func (w *World) Failed() <-chan error { return w.aggregators.failed }

// Close takes the local cloud down in an order in which no part loses another one that it still needs: aggregators,
// other programs, tasks, emulators. Then it writes the counts of faults, unlocks the data folder and removes it if it
// is temporary. It also works on a World whose start failed half way. A second Close does nothing.
func (w *World) Close() {
	w.closing.Do(func() {
		if w.aggregators != nil {
			w.aggregators.stopAll()
		}
		w.procs.Close()
		if w.batch != nil {
			w.batch.Close()
		}
		if w.rest != nil {
			w.rest.Close()
		}
		if w.pubsub != nil {
			w.pubsub.Close()
		}
		if w.storage != nil {
			w.storage.Close()
		}

		if w.lock != nil { // the folder belongs to this local cloud
			if err := w.script.report(); err != nil {
				w.log.Error("write down what has gone wrong", "error", err)
			}
			if err := w.lock.Unlock(); err != nil {
				w.log.Error("unlock the data folder", "error", err)
			}
		}

		if w.temporary {
			if err := os.RemoveAll(w.data); err != nil {
				w.log.Error("remove the temporary data folder", "error", err)
			}
		}
	})
}

// aggregators are the aggregator processes of the local cloud.
type aggregators struct {
	w      *World
	failed chan error      // the first unexpected end
	open   context.Context // ends when the service takes no more requests
	shut   func()
	client http.Client

	mu      sync.Mutex
	running []*aggregator
	turn    int // counts requests

	fullSince time.Time // when the first of the calls began that have failed as the disk is full; zero for none
	watching  sync.WaitGroup
}

// aggregator is one aggregator, over all its restarts.
type aggregator struct {
	index   int
	life    int  // number of starts
	killed  bool // by a fault
	gone    bool
	shot    int // how often a signal from outside has killed it
	proc    *proc.Process
	log     string
	address string // "" before it serves
}

// An aggregator that a signal ends is started again so many times; more often, something is wrong with this machine.
const (
	maxShot   = 5
	byASignal = 128 // exit codes above it
)

// aggregatorGrace is how long an aggregator may take to end when the local cloud ends.
const aggregatorGrace = 10 * time.Second

func newAggregators(w *World) *aggregators {
	open, shut := context.WithCancel(context.Background())
	return &aggregators{w: w, failed: make(chan error, 1), open: open, shut: shut,
		client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
}

// start starts as many aggregators as were asked for, none without a program, and the schedule that reconciles.
func (as *aggregators) start() error {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.w.opts.Aggregator == "" {
		return nil
	}

	go func() { _, _ = as.w.key() }() // ready when the first message is
	for i := range max(1, as.w.opts.Aggregators) {
		a := &aggregator{index: i}
		if err := as.launch(a); err != nil {
			return err
		}
		as.running = append(as.running, a)
		as.watching.Go(func() { as.watch(a) })
	}
	as.watching.Go(as.schedule)
	return nil
}

// launch starts an aggregator's process, with a new log file, on a free port that the log will tell (see address). The
// lock is held.
func (as *aggregators) launch(a *aggregator) error {
	a.log = filepath.Join(as.w.opts.LogDir, fmt.Sprintf("aggregator-%d.%d.log", a.index, a.life))
	log, err := os.Create(a.log)
	if err != nil {
		return fmt.Errorf("aggregator log: %w", err)
	}
	defer log.Close() // the process has its own copy
	// On a full disk the aggregator could not log its address, and all would wait for it: take the log's first block.
	if _, err := log.WriteString("\n"); err != nil {
		return fmt.Errorf("aggregator log: %w", err)
	}

	a.proc, err = as.w.procs.Start(proc.Command{
		Path: as.w.opts.Aggregator, Name: as.w.opts.Names[AggregatorName],
		Args: []string{"serve", "--listen", "127.0.0.1:0"}, Stdout: log, Stderr: log,
		Env: append(as.w.Environ(as.w.opts.Environ), "COPPICE_AUDIENCE="+audience,
			"COPPICE_CALLERS="+account("push")+","+account("scheduler"),
			"COPPICE_KEYS_URL=http://"+as.w.rest.Addr()+keysPath),
	})
	if err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}

	a.life++
	a.killed, a.address = false, ""
	return nil
}

// watch waits for the end of an aggregator's process, again and again as long as noteEnd starts another one.
func (as *aggregators) watch(a *aggregator) {
	for again := true; again; {
		process := a.proc // only launch changes it, which after start is called from here alone
		<-process.Done()
		again = as.noteEnd(a, process)
	}
}

// noteEnd decides what the end of an aggregator's process means, and reports whether it has started another one.
//
// While the local cloud closes, nothing is done. One that a fault killed is started again, and so is one that any other
// signal killed, up to maxShot times, as Cloud Run would. All else is a failure of the local cloud, which World.Failed
// delivers.
func (as *aggregators) noteEnd(a *aggregator, process *proc.Process) (again bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.open.Err() != nil {
		return false
	}

	var err error
	switch {
	// It ended by itself (an exit code above byASignal stands for a signal), or was killed too often.
	case !a.killed && (process.ExitCode() <= byASignal || a.shot == maxShot):
		err = fmt.Errorf("aggregator %d ended unexpectedly, with exit code %d; the end of its log "+
			"(%s):\n%s", a.index, process.ExitCode(), a.log, tail(a.log))
	case !a.killed: // a signal from a person, or from the kernel for want of memory
		a.shot++
		as.w.log.Warn("an aggregator was killed; it is started again, as in the cloud", "aggregator", a.index, "code",
			process.ExitCode())
		fallthrough
	default:
		if err = as.launch(a); err == nil {
			return true
		}
	}

	a.gone = true
	as.fail(err)
	return false
}

// fail has World.Failed deliver an error.
func (as *aggregators) fail(err error) {
	select {
	case as.failed <- err:
	default: // an error waits to be received already, and one is enough
	}
}

// killAll kills all aggregators with SIGKILL, as a fault of the script; noteEnd starts them again.
func (as *aggregators) killAll() {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, a := range as.running {
		if !a.gone {
			a.killed = true
			a.proc.Kill()
			as.w.script.struck("aggregator killed")
		}
	}
}

// stopAll ends all aggregators and returns when they have ended, and with them the schedule. Each gets SIGTERM and,
// after aggregatorGrace, SIGKILL. Requests to them fail from now on.
func (as *aggregators) stopAll() {
	as.mu.Lock()
	as.shut()
	as.client.CloseIdleConnections() // an aggregator that ends waits for its open connections
	var rest []*proc.Process
	for _, a := range as.running {
		if !a.gone {
			rest = append(rest, a.proc)
		}
	}
	as.mu.Unlock()

	var group sync.WaitGroup
	for _, p := range rest {
		group.Go(func() { p.Stop(aggregatorGrace) })
	}
	group.Wait()
	as.watching.Wait()
}

// tailBytes is how much of a log is shown.
const tailBytes = 2000

// tail returns the end of a log file, or the error of reading it as text: it is only shown in a message.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-tailBytes):]))
}
