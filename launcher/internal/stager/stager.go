// Package stager turns a dataset.yaml into a dataset version in a folder or a bucket: it fetches the source if that is
// in a bucket, recognises an input that was staged before, and uploads the output of package ingest, the manifest last.
//
//	dataset.yaml, files    Find: where they are, and the fingerprint of spec and files (of a query: of what it reads)
//	inputs/FINGERPRINT     Look: staged before, and still complete? then that version
//	workspace              fetch from the bucket (rows of BigQuery are exported there first), ingest
//	NAME/VERSION/          upload, if it is in a bucket: all but the manifest
//	nights/VERSION         judge: compared with earlier nights, which may block it
//	NAME/VERSION/          putIntoPlace (a folder, renamed) or uploadManifest: the version exists
//	inputs/, latest        remembered, so that the next call finds it
package stager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"coppice/internal/atomicfile"
	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Step is a part of the work, for a progress bar.
type Step string

// The steps, in order.
const (
	StepExport   Step = "export" // from BigQuery; counts queries
	StepFetch    Step = "fetch"
	StepSurvey   Step = "survey"
	StepSearch   Step = "search" // for columns to combine; counts them, not bytes
	StepWrite    Step = "bin"
	StepEncode   Step = "encode" // ids; counts rows
	StepChecksum Step = "checksum"
	StepCompare  Step = "compare" // with earlier nights; counts columns
	StepUpload   Step = "copy"    // into the bucket
)

// Stager stages datasets.
type Stager struct {
	// Bucket opens a bucket by name. It is only called for sources and destinations in buckets.
	Bucket func(ctx context.Context, name string) (blob.Store, error)
	// Exports is needed for sources in BigQuery only.
	Exports *Exports
	Scratch string           // for temporary files; empty for the system's folder
	Threads int              // 0 for all CPUs
	Now     func() time.Time // the time of staging; nil for time.Now
	Day     time.Time        // the newest day of a source of days; zero for yesterday, in UTC
	// Night is the day of the slot if the table is a scheduled night's: it can be blocked from the second night on.
	Night string
	// Progress may be nil. It is called from one goroutine at a time, in bytes.
	Progress func(step Step, done, total int64)
}

// Destination is where dataset versions are stored: datasets/NAME/VERSION/ in a bucket, NAME/VERSION in a folder.
type Destination struct {
	Store blob.Store // nil for a folder
	URL   string     // gs://BUCKET[/PREFIX], for messages
	Dir   string     // the folder
}

// Staged is a staged dataset version.
type Staged struct {
	Manifest *dataset.Manifest
	Place    string         // folder or URL of the version
	Existed  bool           // it existed already, complete; the source was at most read for its checksums
	Night    *nights.Record // the comparison with earlier nights; nil for a version that was staged without it
}

// Located is a source that has been located but not read.
type Located struct {
	Fingerprint string  // of spec and files, in hexadecimal
	Bytes       int64   // of all files
	QueryBytes  int64   // of them, what BigQuery would read, and be paid for
	Staged      *Staged // the complete version staged from it before; nil if there is none
	src         *source
}

// Find locates the source's files.
func (s *Stager) Find(ctx context.Context, spec *dataset.Spec) (*Located, error) {
	src, err := s.listFiles(ctx, spec)
	if err != nil {
		return nil, err
	}

	in := &Located{src: src, QueryBytes: src.queryBytes}
	for _, f := range src.files {
		in.Bytes += f.Bytes
	}
	in.Fingerprint, err = ingest.Fingerprint(ctx, spec, src.files)
	return in, err
}

// Look locates the source's files and reports whether they were staged at dst before. It changes nothing.
func (s *Stager) Look(ctx context.Context, spec *dataset.Spec, dst Destination) (*Located, error) {
	in, err := s.Find(ctx, spec)
	if err != nil {
		return nil, err
	}
	m, err := s.findStaged(ctx, dst, spec.Name, in.Fingerprint)
	if err != nil || m == nil {
		return in, err
	}

	night, err := dst.Night(ctx, m.Name, m.Version)
	if problem.Is(err, problem.Damaged) {
		return in, nil // staging again compares the table again
	}
	if err != nil {
		return nil, err
	}

	in.Staged = &Staged{Manifest: m, Place: dst.Place(m), Existed: true, Night: night}
	return in, nil
}

// Stage makes the dataset that spec describes at dst. A damaged version there is replaced.
func (s *Stager) Stage(ctx context.Context, spec *dataset.Spec, dst Destination) (*Staged, error) {
	in, err := s.Look(ctx, spec, dst)
	if err != nil {
		return nil, err
	}
	if in.Staged != nil {
		if staged, err := dst.Reuse(ctx, in.Staged); staged != nil || err != nil {
			return staged, err
		}
	}
	src, fingerprint := in.src, in.Fingerprint
	if len(src.objects) == 0 && len(src.queries) == 0 && dst.Store == nil {
		return s.intoFolder(ctx, spec, src, dst, fingerprint)
	}

	// Files from or for a bucket need local space.
	work, err := newWorkspace(s.scratch(), "coppice-stage-")
	if err != nil {
		return nil, err
	}
	defer work.remove()

	if err := s.fetchObjects(ctx, src, work.dir); err != nil {
		return nil, err
	}
	if dst.Store == nil {
		return s.intoFolder(ctx, spec, src, dst, fingerprint)
	}
	return s.intoBucket(ctx, spec, src, dst, fingerprint, work)
}

// WithTable calls use with local files of a table, which exist for the duration of the call.
func (s *Stager) WithTable(ctx context.Context, in *Located, use func(files []table.File) error) error {
	work, err := newWorkspace(s.scratch(), "coppice-table-")
	if err != nil {
		return err
	}
	defer work.remove()

	if err := s.fetchObjects(ctx, in.src, work.dir); err != nil {
		return err
	}
	return use(in.src.files)
}

// scratch is the folder for temporary files.
func (s *Stager) scratch() string {
	if s.Scratch == "" {
		return os.TempDir()
	}
	return s.Scratch
}

// ingest bins the table into dir. Unless the contract is off, a witness from earlier nights, if there is one, counts
// rows by segments.
func (s *Stager) ingest(ctx context.Context, spec *dataset.Spec, files []table.File, dir string,
	past *nights.Request) (*ingest.Report, error) {
	o := ingest.Options{Threads: s.Threads, Learner: s.learner, Orders: compareOrders}
	if w := nights.NewWitness(past.Before, past.Doubted); w != nil && !spec.Contract.Off {
		o.Witness = w
	}
	steps := map[ingest.Phase]Step{ingest.PhaseSurvey: StepSurvey, ingest.PhaseSearch: StepSearch,
		ingest.PhaseWrite:  StepWrite,
		ingest.PhaseEncode: StepEncode, ingest.PhaseChecksum: StepChecksum}
	o.Progress = func(p ingest.Progress) { s.report(steps[p.Phase], p.Done, p.Total) }
	return ingest.Stage(ctx, spec, files, dir, o)
}

// threads is the number of compute goroutines.
func (s *Stager) threads() int {
	if s.Threads > 0 {
		return s.Threads
	}
	return runtime.GOMAXPROCS(0)
}

func (s *Stager) report(step Step, done, total int64) {
	if s.Progress != nil {
		s.Progress(step, done, total)
	}
}

// intoFolder stages into a folder next to the final one and renames it, so that a visible version is complete.
func (s *Stager) intoFolder(ctx context.Context, spec *dataset.Spec, src *source, dst Destination,
	fingerprint string) (*Staged, error) {
	home := filepath.Join(dst.Dir, spec.Name)
	work, err := newWorkspace(home, ".staging-")
	if err != nil {
		return nil, err
	}
	defer work.remove()

	record, past, err := s.readPastNights(ctx, spec, dst)
	if err != nil {
		return nil, err
	}
	report, err := s.ingest(ctx, spec, src.files, work.path("dataset"), past)
	if err != nil {
		return nil, err
	}

	// The verdict is there before the version is: whoever finds the version finds it, even if this process is killed.
	m := report.Manifest
	night, err := s.judgeNight(ctx, record, past, report, src.absent, dst)
	if err != nil {
		return nil, err
	}
	place := dst.Place(m)
	if err := s.putIntoPlace(ctx, work, place, m.Version); err != nil {
		return nil, err
	}

	// Remember the version of the input, so that it is not staged again.
	text, err := json.Marshal(pointer{Format: 1, Version: m.Version})
	if err != nil {
		return nil, err
	}
	input := dst.input(m.Name, fingerprint)
	if err = os.MkdirAll(filepath.Dir(input), 0o755); err == nil {
		err = atomicfile.Write(input, append(text, '\n'), 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("remember the input: %w", err)
	}

	return &Staged{Manifest: m, Place: place, Night: night}, dst.MakeLatest(ctx, m)
}

// putIntoPlace renames the finished dataset. The same version may exist from another input, and is kept if it is
// complete; a damaged one is replaced.
func (s *Stager) putIntoPlace(ctx context.Context, work *workspace, place, version string) error {
	// One at a time: no process may check a version while another replaces it.
	lock := atomicfile.NewLock(filepath.Join(filepath.Dir(place), placeLock))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return fmt.Errorf("wait for another process that stages here: %w", err)
	}
	defer lock.Close()

	err := os.Rename(work.path("dataset"), place)
	if _, statErr := os.Lstat(place); err != nil && statErr == nil {
		whole, checkErr := s.holdsWhole(ctx, place, version)
		if checkErr != nil || whole {
			return checkErr
		}
		if err = os.Rename(place, work.path("damaged")); err == nil {
			err = os.Rename(work.path("dataset"), place)
		}
	}

	if err != nil {
		return fmt.Errorf("move the dataset into place: %w", err)
	}
	return dataset.SyncPath(filepath.Dir(place))
}

// placeLock is the lock of a dataset's folder, and lockPoll how often a waiting process tries it.
const (
	placeLock = ".lock"
	lockPoll  = 50 * time.Millisecond
)

// holdsWhole reports whether a folder holds the version, undamaged. If that cannot be decided, for instance because a
// file is not readable, it returns an error.
func (s *Stager) holdsWhole(ctx context.Context, dir, version string) (bool, error) {
	m, err := dataset.Check(ctx, dir, s.progress(StepChecksum))
	if err == nil {
		return m.Version == version, nil
	}

	if problem.Is(err, problem.Damaged) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, err
}

// progress reports a step that runs in several goroutines.
func (s *Stager) progress(step Step) func(done, total int64) {
	if s.Progress == nil {
		return nil
	}
	var mu sync.Mutex
	last := int64(-1)
	return func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if done > last {
			last = done
			s.Progress(step, done, total)
		}
	}
}

// intoBucket stages in the workspace and uploads: files first, then the manifest, which makes a version complete, and
// last the pointers by which it is found. So a failure leaves nothing half.
func (s *Stager) intoBucket(ctx context.Context, spec *dataset.Spec, src *source, dst Destination,
	fingerprint string, work *workspace) (*Staged, error) {
	record, past, err := s.readPastNights(ctx, spec, dst)
	if err != nil {
		return nil, err
	}
	report, err := s.ingest(ctx, spec, src.files, work.path("dataset"), past)
	if err != nil {
		return nil, err
	}

	m := report.Manifest
	sums, err := s.upload(ctx, work.path("dataset"), m, dst.Store)
	if err != nil {
		return nil, err
	}
	night, err := s.judgeNight(ctx, record, past, report, src.absent, dst)
	if err != nil {
		return nil, err
	}
	if err := uploadManifest(ctx, work.path("dataset/"+dataset.ManifestFile), dst.Store, m); err != nil {
		return nil, fmt.Errorf("upload %s: %w", dataset.ManifestFile, err)
	}
	if err := dst.putPointer(ctx, sweep.DatasetInput(m.Name, fingerprint), pointer{1, m.Version, sums}); err != nil {
		return nil, fmt.Errorf("remember the input: %w", err)
	}
	return &Staged{Manifest: m, Place: dst.Place(m), Night: night}, dst.MakeLatest(ctx, m)
}

func (d Destination) input(name, fingerprint string) string {
	return filepath.Join(d.Dir, name, "inputs", fingerprint+".json")
}

// Place is the version's folder or URL.
func (d Destination) Place(m *dataset.Manifest) string {
	if d.Store == nil {
		return filepath.Join(d.Dir, m.Name, m.Version)
	}
	return strings.TrimSuffix(d.URL, "/") + "/" + strings.TrimSuffix(sweep.DatasetDir(m.Name, m.Version), "/")
}
