// Package stage copies a dataset to a machine's local disk, once for all tasks of the machine. The first task copies it
// under a file lock; the others wait for the lock and find it there. The remains of an interrupted copy are verified
// and reused; blocks damaged since are fetched again.
package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"coppice/internal/atomicfile"
	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Request says which dataset to provide, and where. Open uses it.
type Request struct {
	Store   blob.Store // the datasets bucket
	Dataset sweep.DatasetRef
	Scratch string // a folder shared by all tasks of the machine
	Log     *slog.Logger
	// Since is the earliest time at which the copy may have been verified, by any task. If it was verified earlier, it
	// is verified again. With the zero time, a copy is trusted if its files seem unchanged since it was verified.
	Since time.Time
	// Progress, which may be nil, is called with the bytes present and the total, from several goroutines.
	Progress func(done, total int64)
}

// transfers is how many blocks are fetched at once: enough to saturate a VM's network, few enough to stay below 150 MB
// of buffers.
const transfers = 16

// lockPoll is how often a waiting task tries the lock.
const lockPoll = 200 * time.Millisecond

// maxManifest is the most bytes that a manifest may have.
const maxManifest = 64 << 20

// ErrVersion is in the error about a dataset whose manifest names another version than its folder does. Another attempt
// would meet it again.
var ErrVersion = errors.New("stage it again")

// checkVersion returns an error if a manifest is not that of the dataset that was asked for.
func checkVersion(q *Request, m *dataset.Manifest) error {
	if m.Name == q.Dataset.Name && m.Version == q.Dataset.Version {
		return nil
	}
	return fmt.Errorf("dataset %s@%s: its manifest says %s@%s; %w", q.Dataset.Name, q.Dataset.Version, m.Name,
		m.Version, ErrVersion)
}

// onDisk marks an error of the local disk, which is full or broken, as transient. An immediate retry would fail again,
// but a later one may not, and one on another machine most likely not. doing says what was done. nil stays nil.
func onDisk(doing string, err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Transient, err, "%s", doing)
}

// opens is how many times a copy is fetched before Open gives up because it cannot be opened.
const opens = 3

// Open provides the complete, verified dataset in a folder of q.Scratch and maps it. The caller closes the result. Any
// number of processes may call it at once: a lock makes one of them copy while the others wait, and is held until the
// dataset is mapped, so that no process replaces the copy in between.
//
// The copy appears by renaming, so a folder that exists was once complete; it is verified again as q.Since demands. A
// damaged copy is replaced. A copy is also replaced if it was verified a moment ago but cannot be opened now, because
// the disk damaged it in between.
func Open(ctx context.Context, q Request) (*dataset.Dataset, error) {
	for n := 1; ; n++ {
		dir, unlock, err := q.provide(ctx)
		if err != nil {
			return nil, err
		}
		ds, err := dataset.Open(dir)
		if err == nil || n == opens {
			return ds, errors.Join(err, unlock())
		}
		if err := errors.Join(q.discard(dir, err), unlock()); err != nil {
			return nil, err
		}
	}
}

// provide makes sure that a whole copy is in dir. On success it returns with the lock held, which the caller releases
// with unlock.
func (q *Request) provide(ctx context.Context) (dir string, unlock func() error, err error) {
	home := filepath.Join(q.Scratch, "datasets", q.Dataset.Name)
	dir = filepath.Join(home, q.Dataset.Version)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", nil, onDisk("make the scratch folder", err)
	}

	lock := atomicfile.NewLock(dir + ".lock")
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		if ctx.Err() == nil {
			err = problem.As(problem.Transient, err)
		}
		return "", nil, fmt.Errorf("wait for the dataset's lock: %w", err)
	}
	if err := q.provideLocked(ctx, dir); err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return dir, lock.Close, nil
}

// provideLocked copies the dataset to dir, unless a whole copy is there. The copy is made in dir.partial until its last
// file is there, so an interrupted copy is continued. The caller holds the lock.
func (q *Request) provideLocked(ctx context.Context, dir string) error {
	whole, err := q.isWhole(ctx, dir)
	if err != nil || whole {
		return err
	}

	start := time.Now()
	partial := dir + ".partial"
	m, err := q.copyAll(ctx, partial)
	if err != nil {
		return err
	}
	if err := putInPlace(partial, dir); err != nil {
		return onDisk("finish the dataset's copy", err)
	}
	q.Log.Info("dataset staged", "dir", dir, "bytes", m.Bytes(), "seconds", time.Since(start).Seconds())
	q.leaveMark(dir, m)
	return nil
}

// putInPlace renames the finished copy to dir. It returns only when the names of the copy's files, and its own new
// name, are on the disk. The files' contents may still be on their way: a machine that loses power may lose some of
// them, which the next verification finds (see isWhole).
func putInPlace(partial, dir string) error {
	if err := dataset.SyncPath(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	return dataset.SyncPath(filepath.Dir(dir))
}

// copyAll copies every file of the dataset to the folder partial, and finally the manifest, which it returns.
func (q *Request) copyAll(ctx context.Context, partial string) (*dataset.Manifest, error) {
	prefix := sweep.DatasetDir(q.Dataset.Name, q.Dataset.Version)
	var text []byte
	var m *dataset.Manifest
	// What arrives damaged is read again, a few times; an error of the store is not.
	err := q.untilWhole(ctx, prefix+dataset.ManifestFile, func() (err error) {
		if text, _, err = blob.ReadAll(ctx, q.Store, prefix+dataset.ManifestFile, maxManifest); err != nil {
			return backoff.Permanent(fmt.Errorf("read the dataset's manifest: %w", err))
		}
		if m, err = dataset.DecodeManifest(text); err != nil {
			return fmt.Errorf("dataset %s@%s: %w", q.Dataset.Name, q.Dataset.Version, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := checkVersion(q, m); err != nil {
		return nil, err
	}

	// The files, several blocks at a time.
	c := copier{Request: q, total: m.Bytes()}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(transfers)
	for _, file := range m.Files {
		if err := c.copyFile(ctx, group, partial, prefix, file); err != nil {
			if first := group.Wait(); first != nil {
				return nil, first // the error that cancelled this one
			}
			return nil, err
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}

	// The manifest comes last: it makes the copy complete.
	path := filepath.Join(partial, dataset.ManifestFile)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return nil, onDisk("write the dataset's manifest", err)
	}
	return m, onDisk("write the dataset's manifest", dataset.SyncPath(path))
}

// copier copies the files of one dataset.
type copier struct {
	*Request
	total int64        // bytes of all files
	done  atomic.Int64 // bytes that are present
}

// copyFile starts goroutines in group that fetch the blocks of a file, except those that an interrupted copy has left.
// prefix is the dataset's folder in the bucket. The file is closed when its last block is done.
func (c *copier) copyFile(ctx context.Context, group *errgroup.Group, partial, prefix string,
	info dataset.FileInfo) error {
	// DecodeManifest has rejected names that lead out of the folder.
	path := filepath.Join(partial, filepath.FromSlash(info.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return onDisk("make the scratch folder", err)
	}

	attrs, err := c.Store.Stat(ctx, prefix+info.Name)
	if err != nil {
		return fmt.Errorf("find the dataset's %s: %w", info.Name, err)
	}

	if attrs.Size != info.Bytes {
		return &dataset.CorruptError{File: prefix + info.Name, From: min(attrs.Size, info.Bytes),
			To: max(attrs.Size, info.Bytes), Msg: fmt.Sprintf("the object has %d bytes, the manifest says %d",
				attrs.Size, info.Bytes)}
	}

	// A file that exists is from an interrupted copy: its whole blocks are not fetched again. If it cannot be looked at
	// for another reason than that it is absent, opening it fails, too.
	_, err = os.Stat(path)
	resumed := err == nil

	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return onDisk("make the dataset's copy", err)
	}
	if err := file.Truncate(info.Bytes); err != nil {
		return onDisk("make room for "+info.Name, errors.Join(err, file.Close()))
	}

	// The last block to finish closes the file.
	var left atomic.Int64
	left.Store(int64(len(info.Blocks)))
	for i := range info.Blocks {
		group.Go(func() error {
			defer func() {
				if left.Add(-1) == 0 {
					file.Close()
				}
			}()

			if err := ctx.Err(); err != nil {
				return err
			}

			if resumed && c.has(file, info, i) {
				return nil
			}
			return c.copyBlock(ctx, file, prefix+info.Name, attrs.Generation, info, i)
		})
	}

	return nil
}

// has reports whether an earlier, interrupted copy left block i of a file whole. If so, it counts the block as present.
func (c *copier) has(file *os.File, info dataset.FileInfo, i int) bool {
	offset, length := info.Block(i)
	data := make([]byte, length)
	if _, err := file.ReadAt(data, offset); err != nil || info.VerifyBlock(i, data) != nil {
		return false
	}
	c.report(length)
	return true
}

// copyBlock fetches block i of a file, verifies it and writes it in its place. It reads the generation gen of the
// object, so that all blocks are of the same one. A block that arrives damaged is fetched again, since the object
// itself is most likely whole.
func (c *copier) copyBlock(ctx context.Context, file *os.File, name string, gen blob.Generation, info dataset.FileInfo,
	i int) error {
	offset, length := info.Block(i)
	data := make([]byte, length)
	err := c.untilWhole(ctx, name, func() error {
		if err := c.fetch(ctx, name, blob.Range{Offset: offset, Length: length, Generation: gen}, data); err != nil {
			return err
		}
		return info.VerifyBlock(i, data)
	})
	if err != nil {
		return err
	}

	if _, err := file.WriteAt(data, offset); err != nil {
		_ = file.Truncate(0) // makes room to report the error, if the bucket is on the same full disk
		return onDisk("write "+info.Name, err)
	}
	c.report(length)
	return nil
}

// fetch reads a range of an object into data, which has the range's length. An error of opening the object is
// backoff.Permanent, since the store has already retried; an error of reading is not.
func (q *Request) fetch(ctx context.Context, name string, part blob.Range, data []byte) error {
	r, _, err := q.Store.Open(ctx, name, part)
	if errors.Is(err, fs.ErrNotExist) {
		return backoff.Permanent(fmt.Errorf("%s changed while it was copied: %w", name, err))
	}
	if err != nil {
		return backoff.Permanent(fmt.Errorf("fetch %s: %w", name, err))
	}
	defer r.Close()

	if _, err := io.ReadFull(r, data); err != nil {
		return fmt.Errorf("fetch %s, bytes %d to %d: %w", name, part.Offset, part.Offset+part.Length, err)
	}
	return nil
}

// Bounds on fetching damaged data again. Damage in transit is rare and does not repeat, so what is damaged five times
// is damaged in the bucket. The pauses double from the first one, and are a second or two together.
const (
	fetches    = 5
	firstPause = 100 * time.Millisecond
)

// untilWhole calls fetch at most fetches times, until it returns no error or one that is backoff.Permanent. It returns
// the last error. name is for the log.
func (q *Request) untilWhole(ctx context.Context, name string, fetch func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier = firstPause, 2

	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, fetch() },
		backoff.WithBackOff(pauses), backoff.WithMaxTries(fetches), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, _ time.Duration) {
			q.Log.Warn("the fetched file is incomplete or damaged; fetching it again", "object", name, "error",
				err.Error())
		}))
	return err
}

// report adds n bytes to those that are present, and reports the progress.
func (c *copier) report(n int64) {
	done := c.done.Add(n)
	if c.Progress != nil {
		c.Progress(done, c.total)
	}
}
