package stager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// source is the files of a table, and where to fetch those in buckets from.
type source struct {
	files   []table.File
	objects map[string]object // by URI; none of local files
	absent  []string          // days without a file

	newest  string // day
	missing string // what the spec says of days without a file

	queries    []dataset.Place // whose rows are files only once they are exported
	queryBytes int64           // that BigQuery would read for them
}

type object struct {
	bucket blob.Store
	blob.Attrs
}

// SplitURL splits gs://BUCKET/REST.
func SplitURL(url string) (bucket, rest string, err error) {
	bucket, rest, _ = strings.Cut(strings.TrimPrefix(url, "gs://"), "/")
	if !dataset.InBucket(url) || !bucketPattern.MatchString(bucket) {
		return "", "", problem.New(problem.Input, "%.200q is not a bucket's address; use gs://BUCKET/PATH", url)
	}
	return bucket, rest, nil
}

// bucketPattern matches valid bucket names; anything else might be a path.
var bucketPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

// listFiles lists the source's files. Those in a bucket are identified by their checksums, so that nothing is fetched
// that was staged before.
func (s *Stager) listFiles(ctx context.Context, spec *dataset.Spec) (*source, error) {
	places := spec.Source.Places(s.newestDay())
	src := &source{objects: map[string]object{}, missing: spec.Source.Missing, newest: places[len(places)-1].Day}
	for _, place := range places {
		err := s.findIn(ctx, place, src)
		if len(src.files) > table.MaxFiles {
			err = tooManyFiles()
		}
		if !problem.Is(err, problem.NotFound) || place.Day == "" {
			if err != nil {
				return nil, err
			}
			continue
		}

		if err := src.noteMissing(place, err); err != nil {
			return nil, err
		}
	}
	src.files = table.Sorted(src.files)
	return src, nil
}

// noteMissing takes note that a place has nothing of its day, if that may be. Several places may have files of one day.
// Without the newest, the table is that of the night before.
func (src *source) noteMissing(place dataset.Place, err error) error {
	switch {
	case place.Day == src.newest:
		return problem.Wrap(problem.NotFound, err, "the newest day, %s, is not there yet", place.Day)
	case src.missing != dataset.MissingAllow:
		return problem.Wrap(problem.NotFound, err, "the day %s is missing; if days may be, say `missing: %s` "+
			"under `source`", place.Day, dataset.MissingAllow)
	}
	if place.Query != "" { // whose name does not say the day
		place.Pattern += " of " + place.Day
	}
	src.absent = append(src.absent, place.Pattern)
	return nil
}

func tooManyFiles() error {
	return problem.New(problem.Input,
		"the source has more than %d files, the most that a table can have; write fewer, "+
			"larger ones, or name a part of them", table.MaxFiles)
}

// findIn adds the files of a place: those of this machine, a bucket's objects with their checksums, or what a query
// selects. A place without any is an error.
func (s *Stager) findIn(ctx context.Context, place dataset.Place, src *source) error {
	if place.Query != "" {
		return s.lookAt(ctx, place, src)
	}
	if !dataset.InBucket(place.Pattern) {
		files, err := table.ExpandPlace(place)
		src.files = append(src.files, files...)
		return err
	}

	bucket, pattern, err := SplitURL(place.Pattern)
	if err != nil {
		return err
	}
	store, err := s.Bucket(ctx, bucket)
	if err != nil {
		return err
	}

	found := false
	for attrs, err := range store.List(ctx, literal(pattern)) {
		if err != nil {
			return fmt.Errorf("list %s: %w", place.Pattern, err)
		}
		if !table.Matches(pattern, attrs.Name) {
			continue
		}
		uri := "gs://" + bucket + "/" + attrs.Name
		columns, err := table.Partitions(place.Fixed, uri)
		if err != nil {
			return err
		}
		if found = true; len(src.files) >= table.MaxFiles {
			return tooManyFiles()
		}
		src.objects[uri] = object{store, attrs}
		src.files = append(src.files, table.File{URI: uri, Bytes: attrs.Size, Generation: int64(attrs.Generation),
			Checksum: fmt.Sprintf("crc32c:%08x:%d", attrs.CRC32C, attrs.Size), Partitions: columns})
	}
	if !found {
		return problem.New(problem.NotFound, "%s: no object matches; give an object, a pattern such as "+
			"gs://BUCKET/day/*.parquet, or a folder", place.Pattern)
	}
	return nil
}

// newestDay is the newest day of a source of days: the one before that of the run, which is not over.
func (s *Stager) newestDay() time.Time {
	if !s.Day.IsZero() {
		return s.Day
	}
	return s.now().AddDate(0, 0, -1)
}

// literal is the part of a pattern before its first special character: the prefix to list.
func literal(pattern string) string {
	if i := strings.IndexAny(pattern, "*?[\\"); i >= 0 {
		return pattern[:i]
	}
	return strings.TrimSuffix(pattern, "/")
}

// fetchObjects copies the source's objects into dir, and rows of BigQuery by way of the bucket.
func (s *Stager) fetchObjects(ctx context.Context, src *source, dir string) error {
	if err := s.exportQueries(ctx, src, dir); err != nil {
		return err
	}
	var total, done int64
	for _, o := range src.objects {
		total += o.Size
	}

	for i, f := range src.files {
		o, ok := src.objects[f.URI]
		if !ok {
			continue
		}
		// The number keeps names apart; the rest keeps what the name says of the format.
		to := filepath.Join(dir, fmt.Sprintf("%05d-%s", i, path.Base(o.Name)))
		err := blob.Fetch(ctx, o.bucket, o.Attrs, to, func(n int64) {
			done += n
			s.report(StepFetch, done, total)
		})
		if err != nil {
			return fmt.Errorf("fetch %s: %w", f.URI, err)
		}
		src.files[i].Path = to
	}
	return nil
}

// upload copies the files of a staged folder, but not its manifest, into the bucket, and returns their checksums.
// Objects with the same contents, such as those of an interrupted upload, are kept; damaged ones are overwritten.
func (s *Stager) upload(ctx context.Context, dir string, m *dataset.Manifest, store blob.Store) (map[string]uint32,
	error) {
	prefix := sweep.DatasetDir(m.Name, m.Version)
	total := m.Bytes()
	done := int64(0)
	sums := map[string]uint32{}

	for _, f := range m.Files {
		file := filepath.Join(dir, filepath.FromSlash(f.Name))
		sum, err := uploadOne(ctx, file, store, prefix+f.Name, s.now().Add(-resumeFor), func(n int64) {
			done += n
			s.report(StepUpload, min(done, total), total)
		})
		if err != nil {
			return nil, fmt.Errorf("upload %s: %w", f.Name, err)
		}
		sums[f.Name] = sum
	}
	return sums, nil
}

// resumeFor is for how long an interrupted upload is resumed. Older objects are written anew, since `launcher clean`
// may be removing them: it removes no other generation than it has seen.
const resumeFor = 24 * time.Hour

// uploadManifest creates the manifest. An existing manifest of the same version, which may differ only in its source,
// is renewed, so that `launcher clean` leaves it alone.
func uploadManifest(ctx context.Context, file string, store blob.Store, m *dataset.Manifest) error {
	name := sweep.DatasetDir(m.Name, m.Version) + dataset.ManifestFile
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}

	attrs, err := store.Stat(ctx, name)
	if err != nil && !errors.Is(err, blob.ErrNotExist) {
		return err
	}

	// Overwrite only a damaged manifest.
	cond := blob.Absent
	if err == nil {
		switch _, err := Manifest(ctx, store, m.Name, m.Version); {
		case err == nil: // unless `launcher clean` has just removed it
			if err := Renew(ctx, store, m.Name+"@"+m.Version); !problem.Is(err, problem.NotFound) {
				return err
			}
		case problem.Is(err, problem.Damaged):
			cond = attrs.Generation
		case !errors.Is(err, blob.ErrNotExist):
			return err
		}
	}

	if _, err = store.Put(ctx, name, cond, bytes.NewReader(text)); errors.Is(err, blob.ErrPrecondition) {
		return nil // another process has just created it
	}
	return err
}

// uploadOne uploads a file, unless the object was given its contents since then, and returns its checksum.
func uploadOne(ctx context.Context, file string, store blob.Store, name string, since time.Time,
	report func(int64)) (uint32, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, sum, err := checksum(f)
	if err != nil {
		return 0, err
	}

	for attempt := 1; ; attempt++ {
		cond := blob.Absent
		attrs, err := store.Stat(ctx, name)
		switch {
		case err == nil && attrs.Size == size && attrs.CRC32C == sum && attrs.Updated.After(since):
			report(size)
			return sum, nil
		case err == nil:
			cond = attrs.Generation
		case !errors.Is(err, blob.ErrNotExist):
			return 0, err
		}

		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		_, err = store.Put(ctx, name, cond, io.TeeReader(f, blob.Reported(report)))
		// another process may be uploading the same
		if err == nil || attempt == 3 || !errors.Is(err, blob.ErrPrecondition) {
			return sum, err
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(r io.Reader) (size int64, sum uint32, err error) {
	h := crc32.New(castagnoli)
	size, err = io.Copy(h, r)
	return size, h.Sum32(), err
}
