// Package blob is what Coppice requires of object storage: conditional writes, reads, and listings. This is sufficient
// to run a sweep without a driver, and nothing else may be used, so that memory, an emulator and Google Cloud Storage
// behave alike (package blobtest tests the behaviour).
package blob

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cenkalti/backoff/v5"

	"coppice/internal/problem"
)

// Generation numbers the successive contents of an object: every write makes a new one. As a condition of Put it states
// the expected current contents.
type Generation int64

// Conditions of Put that are not an exact generation.
const (
	Any    Generation = -1 // unconditional
	Absent Generation = 0  // the object must not exist: create-only
)

// Attrs describes one object.
type Attrs struct {
	Name       string
	Size       int64
	Generation Generation
	CRC32C     uint32 // Castagnoli, of the contents
	Updated    time.Time
}

// Range is the part of an object to read: from byte Offset, Length bytes or, if Length is 0, to the end. What lies
// behind the end is left out, so a range that begins there is empty; that is no error. Negative numbers are one. A
// Generation other than 0 requires that generation; if it is not the current one, the error is ErrNotExist.
type Range struct {
	Offset     int64
	Length     int64
	Generation Generation
}

// Errors that a Store returns, wrapped with the object's name.
var (
	// ErrNotExist means that the object, or the generation, does not exist. It is fs.ErrNotExist.
	ErrNotExist = fs.ErrNotExist
	// ErrPrecondition means that the object is at another generation than expected.
	ErrPrecondition = errors.New("object is not at the expected generation")
	// ErrTooLong means that an object is longer than its kind allows.
	ErrTooLong = problem.New(problem.Damaged, "object is too long")
	// ErrChecksum means that the contents that arrived are not those that the object's checksum is of.
	ErrChecksum = errors.New("the contents do not match the object's checksum")
	// ErrName means that a name is not valid for an object; see ValidName.
	ErrName = errors.New("invalid object name")
)

// Store holds named objects. It is safe for concurrent use; after Put has returned, every Stat, Open and List sees the
// new contents. Names must satisfy ValidName.
type Store interface {
	// Stat returns the object's attributes, or ErrNotExist.
	Stat(ctx context.Context, name string) (Attrs, error)
	// Open reads a part of the object, or returns ErrNotExist. The caller closes the reader; if the data end early,
	// reading returns an error.
	Open(ctx context.Context, name string, r Range) (io.ReadCloser, Attrs, error)
	// Put atomically writes all of r under name if the object is at generation cond, else it returns ErrPrecondition.
	// An error from r leaves the object unchanged. The caller may retry a failed Put.
	Put(ctx context.Context, name string, cond Generation, r io.Reader) (Attrs, error)
	// List yields the objects whose names begin with prefix, ascending by name. It stops at the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Attrs, error]
}

// Remover is a Store that can also remove objects: `launcher clean` does, and nothing else.
type Remover interface {
	Store
	// Remove removes the object if it is at this generation, else it returns ErrPrecondition, but nil if there is none.
	Remove(ctx context.Context, name string, at Generation) error
}

// ValidName rejects names that could be misinterpreted on some system: empty, over 1,024 bytes, not UTF-8, with control
// characters or backslashes, absolute, or with an empty, "." or ".." component.
func ValidName(name string) error {
	if name == "" || len(name) > 1024 || !utf8.ValidString(name) {
		return fmt.Errorf("%w: %.60q must be 1 to 1024 bytes of UTF-8", ErrName, name)
	}

	for _, r := range name {
		if r < 0x20 || r == 0x7f || r == '\\' {
			return fmt.Errorf("%w: %.60q holds the character %q", ErrName, name, r)
		}
	}

	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("%w: %.60q has the part %q", ErrName, name, part)
		}
	}

	return nil
}

// Limits on reading again after a failed transfer.
const (
	reads     = 7
	readPause = 100 * time.Millisecond
)

// ReadAll returns the whole object. If it has more than limit bytes, the error is ErrTooLong. A read that fails on the
// way, or whose data do not match the object's checksum, is repeated, with growing pauses, six times at most. If the
// checksum is wrong every time, the store itself holds damaged data, and the error is of the kind problem.Damaged.
func ReadAll(ctx context.Context, s Store, name string, limit int64) (data []byte, attrs Attrs, err error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval = readPause

	mismatches := 0
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		data, attrs, err = readOnce(ctx, s, name, limit)
		if errors.Is(err, ErrChecksum) {
			mismatches++
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(reads), backoff.WithMaxElapsedTime(0))
	switch {
	case mismatches == reads:
		return nil, Attrs{}, problem.As(problem.Damaged, err)
	case err != nil:
		return nil, Attrs{}, err
	}
	return data, attrs, nil
}

// readOnce reads the object once. Errors that backoff.Retry should not repeat are marked as permanent: an object that
// cannot be opened (the store has repeated that itself), one that is too long, and a context that has ended.
func readOnce(ctx context.Context, s Store, name string, limit int64) ([]byte, Attrs, error) {
	r, attrs, err := s.Open(ctx, name, Range{})
	if err != nil {
		return nil, Attrs{}, backoff.Permanent(err)
	}
	defer r.Close()

	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, Attrs{}, backoff.Permanent(fmt.Errorf("read %s: %w", name, err))
	case err != nil:
		return nil, Attrs{}, fmt.Errorf("read %s: %w", name, err)
	case int64(len(data)) > limit:
		return nil, Attrs{}, backoff.Permanent(fmt.Errorf("read %s: %w: more than the %d bytes that it may have", name,
			ErrTooLong, limit))
	}
	return data, attrs, nil
}

// Create writes data under name if the object does not exist. If it exists, that is not an error: created is then
// false, and the caller reads the existing object.
func Create(ctx context.Context, s Store, name string, data []byte) (created bool, err error) {
	_, err = s.Put(ctx, name, Absent, bytes.NewReader(data))
	if errors.Is(err, ErrPrecondition) {
		return false, nil
	}
	return err == nil, err
}

// maxJSON bounds every JSON object: a plan of 100,000 trials is smaller.
const maxJSON = 64 << 20

// ReadJSON decodes the object's JSON into v. An object that is not such JSON is of the kind problem.Damaged.
func ReadJSON(ctx context.Context, s Store, name string, v any) (Attrs, error) {
	data, attrs, err := ReadAll(ctx, s, name, maxJSON)
	if err != nil {
		return Attrs{}, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return Attrs{}, problem.Wrap(problem.Damaged, err, "read %s: not the JSON that belongs there", name)
	}
	return attrs, nil
}
