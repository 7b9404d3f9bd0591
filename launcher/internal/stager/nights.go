package stager

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"coppice/internal/atomicfile"
	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
)

// BlockedError says that a version of a dataset must not be trained on.
type BlockedError struct {
	Record *nights.Record
	Reason string
	In     string // where it was staged to; empty for the datasets bucket
}

// Error says why the version is blocked, where to read more, and how to accept it.
func (e *BlockedError) Error() string {
	ref := e.Record.Dataset + "@" + e.Record.Version
	in := ""
	if e.In != "" {
		in = " --in " + program.ShellQuote(e.In)
	}
	return fmt.Sprintf("dataset %s is blocked: %s\n`launcher datasets show %s%s` lists all findings; if the table is "+
		"right, accept it: `launcher datasets accept %s%s --why REASON`", ref, e.Reason, ref, in, ref, in)
}

// ExitStatus is the exit code of a program that ends with this error.
func (*BlockedError) ExitStatus() int { return sweep.ExitBlocked }

// CheckNight returns a *BlockedError if a dataset version must not be trained on now: if the comparison with earlier
// nights has blocked it, or if its data is too old. r is the record of that comparison; nil, for a version without a
// record, passes. in is BlockedError.In.
func CheckNight(r *nights.Record, now time.Time, in string) error {
	if r == nil {
		return nil
	}
	if r.Blocked() {
		return &BlockedError{r, nights.Reason(r.Findings), in}
	}
	if why := r.Old(now); why != "" {
		return &BlockedError{r, why, in}
	}
	return nil
}

// CheckNewest returns an error of kind Conflict if a table with the same spec was staged after the night r whose rows
// are no older, and is not blocked: then r's table is not tonight's. A nil r, of a version without a record, passes.
func (d Destination) CheckNewest(ctx context.Context, r *nights.Record) error {
	if r == nil {
		return nil
	}
	all, err := d.Nights(ctx, r.Dataset)
	for _, n := range slices.Backward(all) {
		backfill := n.Profile.Newest.Before(r.Profile.Newest) // an older table, staged later
		if n.Spec == r.Spec && n.At.After(r.At) && !n.Blocked() && !backfill {
			return problem.New(problem.Conflict, "the table is that of dataset %s@%s, which was staged on %s, and a "+
				"newer one since (%s, on %s): deliver tonight's, or make up for an earlier night with --at", r.Dataset,
				r.Version, r.At.UTC().Format(time.DateOnly), n.Version, n.At.UTC().Format(time.DateOnly))
		}
	}
	return err
}

// readPastNights reads the records of earlier nights. It returns a new record for tonight, still without version and
// findings, and the request that compares tonight with those nights. Earlier nights count if they are not blocked and
// their spec means the same.
func (s *Stager) readPastNights(ctx context.Context, spec *dataset.Spec, dst Destination) (*nights.Record,
	*nights.Request, error) {
	hash, meaning, err := nights.SpecHashes(spec)
	if err != nil {
		return nil, nil, err
	}
	earlier, err := dst.Nights(ctx, spec.Name)
	if err != nil {
		return nil, nil, err
	}

	r := &nights.Record{Format: 1, Dataset: spec.Name, Night: s.Night, At: s.now(), Spec: hash, Meaning: meaning,
		MaxAge: spec.Contract.MaxAge}
	q := &nights.Request{Spec: spec, At: r.At, Declared: s.Night != "" || spec.Contract.Declared}
	// The oldest comes first, as Nights returns them.
	for _, n := range earlier {
		if !n.Blocked() && n.Meaning == meaning {
			q.Before = append(q.Before, n.Profile)
			q.Respecified = n.Spec != hash // of the last one
			// The last one is doubted, unless the one before it was, too: two in a row confirm each other.
			q.Doubted = n.Doubted() && !q.Doubted
			r.Against = append(r.Against, n.Version)
		}
	}
	return r, q, nil
}

// judgeNight compares the newly staged table with those of earlier nights, writes the record to dst and returns it. r
// and q are what readPastNights returned; judgeNight completes both. absent lists places of days without a file. A
// version that already has a record keeps it, and that one is returned; a damaged record is written anew.
func (s *Stager) judgeNight(ctx context.Context, r *nights.Record, q *nights.Request, report *ingest.Report,
	absent []string, dst Destination) (*nights.Record, error) {
	defer ingest.LessGarbage(len(report.Manifest.Features))()
	m := report.Manifest
	known, err := dst.Night(ctx, m.Name, m.Version)
	if known != nil {
		return known, nil
	}
	if err != nil && !problem.Is(err, problem.Damaged) {
		return nil, err
	}

	r.Version = m.Version
	if r.Profile, err = nights.Measure(ctx, report.Night, m, s.threads(), s.progress(StepCompare)); err != nil {
		return nil, err
	}
	q.Night, q.Tonight = report.Night, r.Profile
	if r.Findings, err = nights.Compare(ctx, *q); err != nil {
		return nil, err
	}
	if len(absent) > 0 {
		r.Findings = append(r.Findings, nights.Finding{Code: nights.CodeMissingDays, Level: nights.Warning,
			Text: fmt.Sprintf("no file matches %s", shortList(absent))})
	}
	return r, dst.putNight(ctx, r, blob.Any) // any record that is there is damaged
}

// shortList joins names for a message, the first five if there are more.
func shortList(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func (s *Stager) now() time.Time {
	if s.Now == nil {
		return time.Now().UTC()
	}
	return s.Now().UTC()
}

// nightFile returns the path of a version's record in a folder.
func (d Destination) nightFile(name, version string) string {
	return filepath.Join(d.Dir, name, "nights", version+".json")
}

// Night returns the record of a version, nil if there is none.
func (d Destination) Night(ctx context.Context, name, version string) (*nights.Record, error) {
	r, _, err := d.readNight(ctx, name, version)
	return r, err
}

// readNight returns the record of a version and the generation of its object, on which the next write depends. Without
// a record, it returns nil and blob.Absent; in a folder the generation is 0.
func (d Destination) readNight(ctx context.Context, name, version string) (*nights.Record, blob.Generation, error) {
	var text []byte
	var attrs blob.Attrs
	var err error
	if d.Store != nil {
		text, attrs, err = blob.ReadAll(ctx, d.Store, sweep.DatasetNight(name, version), nights.MaxRecord)
	} else {
		text, err = os.ReadFile(d.nightFile(name, version))
	}

	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, blob.Absent, nil
	case problem.Is(err, problem.Damaged):
		return nil, 0, nights.Damaged(name, version, err)
	case err != nil:
		return nil, 0, err
	}
	r, err := nights.DecodeRecord(text, name, version)
	return r, attrs.Generation, err
}

// putNight writes a record. In a bucket it does so only if the object is still of the generation cond; in a folder cond
// is ignored.
func (d Destination) putNight(ctx context.Context, r *nights.Record, cond blob.Generation) error {
	text, err := r.Encode()
	if err != nil {
		return err
	}

	if d.Store != nil {
		_, err = d.Store.Put(ctx, sweep.DatasetNight(r.Dataset, r.Version), cond, bytes.NewReader(text))
	} else {
		file := d.nightFile(r.Dataset, r.Version)
		if err = os.MkdirAll(filepath.Dir(file), 0o755); err == nil {
			err = atomicfile.Write(file, text, 0o644)
		}
	}

	if err != nil {
		return fmt.Errorf("write the record of the night %s@%s: %w", r.Dataset, r.Version, err)
	}
	return nil
}

// How many records Nights reads: the newest until nightsRead of them are not blocked, twice as many as are compared, as
// the spec of some may mean something else. It reads no more than nightBytes, so that records of a wide table do not
// fill the memory.
const (
	nightsRead = 2 * nights.MaxNights
	nightBytes = 256 << 20
)

// Nights returns the newest records of a dataset, the oldest first (see nightsRead). Damaged records, files whose names
// are no versions, and records that are removed meanwhile are left out. Without any record, the result is empty.
func (d Destination) Nights(ctx context.Context, name string) ([]*nights.Record, error) {
	type found struct {
		version string
		at      time.Time
		bytes   int64
	}
	var all []found
	add := func(file string, at time.Time, bytes int64) {
		if version, ok := strings.CutSuffix(file, ".json"); ok {
			if _, _, err := sweep.SplitDatasetRef(name + "@" + version); err == nil {
				all = append(all, found{version, at, bytes})
			}
		}
	}

	// List all records.
	if d.Store != nil {
		for attrs, err := range d.Store.List(ctx, sweep.DatasetNights(name)) {
			if err != nil {
				return nil, fmt.Errorf("list the nights of dataset %s: %w", name, err)
			}
			add(path.Base(attrs.Name), attrs.Updated, attrs.Size)
		}
	} else {
		entries, err := os.ReadDir(filepath.Dir(d.nightFile(name, "")))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil { // else it was removed meanwhile
				add(e.Name(), info.ModTime(), info.Size())
			}
		}
	}

	// Read the newest of them.
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.version, b.version)) })
	var out []*nights.Record
	read, usable := int64(0), 0
	for _, f := range all {
		read += f.bytes
		if read > nightBytes || usable == nightsRead {
			break
		}
		r, err := d.Night(ctx, name, f.version)
		if problem.Is(err, problem.Damaged) || r == nil && err == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
		if !r.Blocked() {
			usable++
		}
	}

	// Return them by the time of staging, which a record says itself.
	slices.SortFunc(out,
		func(a, b *nights.Record) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Version, b.Version)) })
	return out, nil
}

// Accept lets a blocked version pass: it writes the acceptance into the version's record, and returns the record. A
// version that is accepted already stays as it is, unless a lasting acceptance replaces one that is not. A version
// without a record is an error of kind NotFound.
func (d Destination) Accept(ctx context.Context, name, version string, a nights.Acceptance) (*nights.Record, error) {
	r, generation, err := d.readNight(ctx, name, version)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, NotStaged(name + "@" + version)
	}
	if r.Accepted != nil && (r.Accepted.Lasting || !a.Lasting) {
		return r, nil
	}
	r.Accepted = &a
	return r, d.putNight(ctx, r, generation)
}

// FindNight returns the record of a version, given as NAME or NAME@VERSION. NAME alone is the latest version in a
// bucket, and in a folder the one that was staged last.
func (d Destination) FindNight(ctx context.Context, ref string) (*nights.Record, error) {
	name, version, err := sweep.SplitDatasetRef(ref)
	if err != nil {
		return nil, problem.As(problem.Usage, err)
	}

	var r *nights.Record
	switch {
	case version != "":
		r, err = d.Night(ctx, name, version)
	case d.Store != nil:
		m, resolveErr := Resolve(ctx, d.Store, name)
		if resolveErr != nil {
			return nil, resolveErr
		}
		r, err = d.Night(ctx, name, m.Version)
	default:
		var all []*nights.Record
		if all, err = d.Nights(ctx, name); len(all) > 0 {
			r = all[len(all)-1]
		}
	}
	if err == nil && r == nil {
		err = problem.New(problem.NotFound, "there is no record for dataset %s: it was not staged here", ref)
	}
	return r, err
}
