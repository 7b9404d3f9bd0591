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

// source is the files of a table, and from where those in buckets are fetched.
type source struct {
	files   []table.File
	objects map[string]object // by URI, the files that are in buckets
	absent  []string          // places of days without a file

	newest  string // the newest day, empty for a source without days
	missing string // what the spec says of days without a file

	queries    []dataset.Place // those whose rows become files once they are exported
	queryBytes int64           // bytes that BigQuery would read for them
}

// object is a file in a bucket.
type object struct {
	bucket blob.Store
	blob.Attrs
}

// SplitURL splits gs://BUCKET/REST into the name of the bucket and the rest. Anything else is an error of kind Input.
func SplitURL(url string) (bucket, rest string, err error) {
	bucket, rest, _ = strings.Cut(strings.TrimPrefix(url, "gs://"), "/")
	if !dataset.InBucket(url) || !bucketPattern.MatchString(bucket) {
		return "", "", problem.New(problem.Input, "%.200q is not a bucket's address; use gs://BUCKET/PATH", url)
	}
	return bucket, rest, nil
}

// bucketPattern matches valid names of buckets. Anything else might be a path.
var bucketPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

// listFiles lists the source's files, sorted as their rows are in the table. Files in a bucket have their checksums, so
// that nothing is fetched that was staged before. A day without a file is noted or an error, as the spec says.
func (s *Stager) listFiles(ctx context.Context, spec *dataset.Spec) (*source, error) {
	places := spec.Source.Places(s.newestDay())
	// Places come in the order of days, those without a day first. So the last one has the newest day, or none has any.
	src := &source{objects: map[string]object{}, missing: spec.Source.Missing, newest: places[len(places)-1].Day}
	for _, place := range places {
		err := s.findIn(ctx, place, src)
		if len(src.files) > table.MaxFiles {
			err = tooManyFiles()
		}

		// Only a place of a day may be without files.
		if problem.Is(err, problem.NotFound) && place.Day != "" {
			err = src.noteMissing(place, err)
		}
		if err != nil {
			return nil, err
		}
	}
	src.files = table.Sorted(src.files)
	return src, nil
}

// noteMissing notes in src.absent that a place has nothing of its day, if the spec allows that. err, of kind NotFound,
// says what is missing. The newest day must never be missing: without it the table would be that of the night before.
func (src *source) noteMissing(place dataset.Place, err error) error {
	switch {
	case place.Day == src.newest:
		return problem.Wrap(problem.NotFound, err, "the newest day, %s, is not there yet", place.Day)
	case src.missing != dataset.MissingAllow:
		return problem.Wrap(problem.NotFound, err, "the day %s is missing; if days may be, say `missing: %s` "+
			"under `source`", place.Day, dataset.MissingAllow)
	}
	if place.Query != "" {
		place.Pattern += " of " + place.Day // unlike a pattern of files, it does not say the day
	}
	src.absent = append(src.absent, place.Pattern)
	return nil
}

// tooManyFiles returns the error about a source of more than table.MaxFiles files.
func tooManyFiles() error {
	return problem.New(problem.Input,
		"the source has more than %d files, the most that a table can have; write fewer, "+
			"larger ones, or name a part of them", table.MaxFiles)
}

// findIn adds the files of a place to src: files of this machine, objects of a bucket, or what a query selects. A place
// without any is an error of kind NotFound.
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
	for attrs, err := range store.List(ctx, table.Literal(pattern)) {
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
		found = true
		if len(src.files) >= table.MaxFiles {
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

// newestDay returns the newest day of a source of days. By default it is yesterday, since today is not over.
func (s *Stager) newestDay() time.Time {
	if !s.Day.IsZero() {
		return s.Day
	}
	return s.now().AddDate(0, 0, -1)
}

// fetchObjects copies the source's objects into dir, exports its queries, and sets the paths in src.files. Local files
// stay where they are.
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

// upload copies the files of a staged dataset in dir, but not its manifest m, into the bucket, and returns their
// checksums by name. An object that has the same contents already, for instance from an interrupted upload, is kept.
// Any other object is overwritten.
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
			s.report(StepUpload, min(done, total), total) // a file that is sent again counts twice
		})
		if err != nil {
			return nil, fmt.Errorf("upload %s: %w", f.Name, err)
		}
		sums[f.Name] = sum
	}
	return sums, nil
}

// resumeFor is how old an object of an interrupted upload may be to be kept. Older ones are written anew, since
// `launcher clean` may be removing them: it removes an object only if that is of the generation that it has seen.
const resumeFor = 24 * time.Hour

// uploadManifest writes the manifest m, whose text is in file, into the bucket. A version exists only with its
// manifest, and the same version may have been made from another source. So a manifest that is there is kept and
// renewed, which makes `launcher clean` leave it alone; a damaged one is overwritten.
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

	// cond is the generation that may be overwritten: none, or that of a damaged manifest.
	cond := blob.Absent
	if err == nil {
		switch _, err := Manifest(ctx, store, m.Name, m.Version); {
		case err == nil:
			// Write it only if `launcher clean` has just removed it.
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

// uploadOne uploads a file as the object name and returns its checksum. If the object has the same contents, and got
// them after since, it stays. report is told the bytes that are done. If other processes write the object at the same
// time, it gives up after three attempts.
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

	// If another process writes the object at the same time, look again at what is there: it is most likely the same.
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
		if err == nil || attempt == 3 || !errors.Is(err, blob.ErrPrecondition) {
			return sum, err
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum reads r to its end and returns its size and its CRC-32C, as Cloud Storage computes it.
func checksum(r io.Reader) (size int64, sum uint32, err error) {
	h := crc32.New(castagnoli)
	size, err = io.Copy(h, r)
	return size, h.Sum32(), err
}
