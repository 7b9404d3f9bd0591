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
	Scratch string           // folder for temporary files; empty for the system's
	Threads int              // compute goroutines; 0 for all CPUs
	Now     func() time.Time // the time of staging; nil for time.Now
	Day     time.Time        // the newest day of a source of days; zero for yesterday, in UTC
	// Night is the day for which a schedule stages the table; empty for any other table. The table of a scheduled night
	// can be blocked from the second night on.
	Night string
	// Progress may be nil. It is called from one goroutine at a time, in bytes unless the step says otherwise.
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
	QueryBytes  int64   // how many of them BigQuery would read, and charge for
	Staged      *Staged // the complete version that was staged from it before; nil if there is none, and after Find
	src         *source
}

// Find locates the source's files, and computes the fingerprint of spec and files. It reads local files for their
// checksums.
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

// Look does the same as Find, and also finds out whether the source was staged at dst before. It changes nothing.
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
		return in, nil // staging the table again makes its comparison again
	}
	if err != nil {
		return nil, err
	}

	in.Staged = &Staged{Manifest: m, Place: dst.Place(m), Existed: true, Night: night}
	return in, nil
}

// Stage makes the dataset that spec describes at dst. If a complete version was staged from the same input before, it
// returns that and makes it the latest. A damaged version is replaced.
func (s *Stager) Stage(ctx context.Context, spec *dataset.Spec, dst Destination) (*Staged, error) {
	in, err := s.Look(ctx, spec, dst)
	if err != nil {
		return nil, err
	}
	if in.Staged != nil {
		// It is nil if the version has been removed since Look: then it is staged again.
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

// WithTable calls use with the files of a table. Those in buckets are fetched first and removed afterwards, so they
// exist only during the call.
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

// scratch returns the folder for temporary files.
func (s *Stager) scratch() string {
	if s.Scratch == "" {
		return os.TempDir()
	}
	return s.Scratch
}

// ingest makes the dataset in the folder dir, from local files. past has the earlier nights: unless the contract is
// off, a witness made from them, if they suffice for one, counts all rows by segments for the later comparison.
func (s *Stager) ingest(ctx context.Context, spec *dataset.Spec, files []table.File, dir string,
	past *nights.Request) (*ingest.Report, error) {
	o := ingest.Options{Threads: s.Threads, Learner: s.learner, Orders: compareOrders}
	if w := nights.NewWitness(past.Before, past.Doubted); w != nil && !spec.Contract.Off {
		o.Witness = w
	}
	steps := map[ingest.Phase]Step{ingest.PhaseSurvey: StepSurvey, ingest.PhaseSearch: StepSearch,
		ingest.PhaseWrite: StepWrite, ingest.PhaseEncode: StepEncode, ingest.PhaseChecksum: StepChecksum}
	o.Progress = func(p ingest.Progress) { s.report(steps[p.Phase], p.Done, p.Total) }
	return ingest.Stage(ctx, spec, files, dir, o)
}

// threads returns the number of compute goroutines.
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

// intoFolder stages src, whose files are on this machine, into a workspace next to the final folder, and renames it. So
// a version that can be seen is complete.
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

	// The comparison with earlier nights is written before the version appears. So whoever finds the version finds the
	// comparison, even if this process is killed in between.
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

// putIntoPlace renames the finished dataset in work to place. If that exists, because the same version was made from
// another input, it is kept if it is complete and replaced if it is damaged.
func (s *Stager) putIntoPlace(ctx context.Context, work *workspace, place, version string) error {
	// One at a time: no process may check a version while another replaces it.
	lock := atomicfile.NewLock(filepath.Join(filepath.Dir(place), placeLock))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return fmt.Errorf("wait for another process that stages here: %w", err)
	}
	defer lock.Close()

	// A folder that exists, and is not empty, cannot be replaced by a rename.
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

// placeLock is the name of the lock in a dataset's folder. A waiting process tries it every lockPoll.
const (
	placeLock = ".lock"
	lockPoll  = 50 * time.Millisecond
)

// holdsWhole reports whether a folder holds the version, complete and undamaged. If that cannot be decided, for
// instance because a file is not readable, it returns an error.
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

// progress returns a function that reports a step and may be called from several goroutines (see ingest.Serial). It is
// nil if s.Progress is.
func (s *Stager) progress(step Step) func(done, total int64) {
	if s.Progress == nil {
		return nil
	}
	return ingest.Serial(func(done, total int64) { s.Progress(step, done, total) })
}

// intoBucket stages src, whose files are on this machine, in the workspace, and uploads the result. The order makes
// sure that a failure leaves nothing half: first the files, then the comparison with earlier nights, then the manifest,
// which makes the version complete, and last the pointers by which it is found.
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

	// Upload all but the manifest.
	m := report.Manifest
	sums, err := s.upload(ctx, work.path("dataset"), m, dst.Store)
	if err != nil {
		return nil, err
	}
	night, err := s.judgeNight(ctx, record, past, report, src.absent, dst)
	if err != nil {
		return nil, err
	}

	// Now the version appears.
	if err := uploadManifest(ctx, work.path("dataset/"+dataset.ManifestFile), dst.Store, m); err != nil {
		return nil, fmt.Errorf("upload %s: %w", dataset.ManifestFile, err)
	}
	if err := dst.putPointer(ctx, sweep.DatasetInput(m.Name, fingerprint), pointer{1, m.Version, sums}); err != nil {
		return nil, fmt.Errorf("remember the input: %w", err)
	}
	return &Staged{Manifest: m, Place: dst.Place(m), Night: night}, dst.MakeLatest(ctx, m)
}

// input returns the path of the file that says which version an input was staged as, in a folder.
func (d Destination) input(name, fingerprint string) string {
	return filepath.Join(d.Dir, name, "inputs", fingerprint+".json")
}

// Place returns the folder or the URL of a version.
func (d Destination) Place(m *dataset.Manifest) string {
	if d.Store == nil {
		return filepath.Join(d.Dir, m.Name, m.Version)
	}
	return strings.TrimSuffix(d.URL, "/") + "/" + strings.TrimSuffix(sweep.DatasetDir(m.Name, m.Version), "/")
}

// findStaged returns the manifest of the version that this input was staged as. It returns nil if there is none, or if
// it is not complete.
func (s *Stager) findStaged(ctx context.Context, d Destination, name, fingerprint string) (*dataset.Manifest, error) {
	if d.Store != nil {
		return d.findStagedInBucket(ctx, name, fingerprint)
	}

	var p pointer
	text, err := os.ReadFile(d.input(name, fingerprint))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return nil, nil //nolint:nilerr // without a readable pointer the input counts as new
	}

	place := filepath.Join(d.Dir, name, p.Version)
	m, err := dataset.ReadManifest(place)
	if err != nil {
		return nil, nil //nolint:nilerr // the version was removed
	}
	if whole, err := s.holdsWhole(ctx, place, p.Version); err != nil || !whole {
		return nil, err
	}
	return m, nil
}

// findStagedInBucket does the same in a bucket. It compares the sizes and checksums of all files with what the manifest
// and the pointer say, without reading the files.
func (d Destination) findStagedInBucket(ctx context.Context, name, fingerprint string) (*dataset.Manifest, error) {
	p, err := readPointer(ctx, d.Store, sweep.DatasetInput(name, fingerprint))
	if damaged(err) { // without a readable pointer the input counts as new
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	m, err := Manifest(ctx, d.Store, name, p.Version)
	if damaged(err) {
		return nil, nil // it was removed, or is being repaired
	}
	if err != nil {
		return nil, err
	}

	// A version with a missing or changed file is staged again.
	for _, f := range m.Files {
		attrs, err := d.Store.Stat(ctx, sweep.DatasetDir(name, m.Version)+f.Name)
		if errors.Is(err, blob.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if sum, ok := p.CRC32C[f.Name]; attrs.Size != f.Bytes || ok && sum != attrs.CRC32C {
			return nil, nil
		}
	}
	return m, nil
}

// damaged reports whether an error says that an object is missing or unusable.
func damaged(err error) bool {
	return errors.Is(err, blob.ErrNotExist) || problem.Is(err, problem.Damaged)
}

// MakeLatest makes the version the one that the dataset's name alone refers to. In a folder there is no such pointer,
// and it does nothing.
func (d Destination) MakeLatest(ctx context.Context, m *dataset.Manifest) error {
	if d.Store == nil {
		return nil
	}
	if err := d.putPointer(ctx, sweep.DatasetLatest(m.Name), pointer{Format: 1, Version: m.Version}); err != nil {
		return fmt.Errorf("make version %s the latest: %w", m.Version, err)
	}
	return nil
}

// putPointer writes a pointer to the bucket. It does not overwrite one of another format, which is a conflict. Any
// other one is overwritten, also one that cannot be read.
func (d Destination) putPointer(ctx context.Context, name string, p pointer) error {
	if _, err := readPointer(ctx, d.Store, name); problem.Is(err, problem.Conflict) {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = d.Store.Put(ctx, name, blob.Any, strings.NewReader(string(text)+"\n"))
	return err
}

// Reuse makes a version that was staged before the latest one, and keeps `launcher clean` from removing it. It returns
// nil if the version has been removed meanwhile.
func (d Destination) Reuse(ctx context.Context, s *Staged) (*Staged, error) {
	if d.Store != nil {
		err := Renew(ctx, d.Store, s.Manifest.Name+"@"+s.Manifest.Version)
		if problem.Is(err, problem.NotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return s, d.MakeLatest(ctx, s.Manifest)
}
