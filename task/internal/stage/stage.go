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

// Request says which dataset to provide, and where.
type Request struct {
	Store   blob.Store // the datasets bucket
	Dataset sweep.DatasetRef
	Scratch string // a folder shared by all tasks of the machine
	Log     *slog.Logger
	// Since is the earliest acceptable time of the copy's last verification, by any task; an older one is repeated now.
	// With the zero time a copy is trusted if it has not changed since it was verified.
	Since time.Time
	// Progress, which may be nil, is called with the bytes present and the total, from several goroutines.
	Progress func(done, total int64)
}

// transfers is how many ranges are fetched at once: enough to saturate a VM's network, few enough to stay below 150 MB
// of buffers.
const transfers = 16

// lockPoll is how often a waiting task tries the lock.
const lockPoll = 200 * time.Millisecond

const maxManifest = 64 << 20

// ErrVersion is a dataset whose manifest names another version than its folder does. Another attempt would meet it
// again.
var ErrVersion = errors.New("stage it again")

// checkVersion compares what a manifest says with what was asked for.
func checkVersion(q *Request, m *dataset.Manifest) error {
	if m.Name == q.Dataset.Name && m.Version == q.Dataset.Version {
		return nil
	}
	return fmt.Errorf("dataset %s@%s: its manifest says %s@%s; %w", q.Dataset.Name, q.Dataset.Version, m.Name,
		m.Version, ErrVersion)
}

// onDisk marks a failure of the local disk, full or broken, as transient: an immediate retry would meet it again, a
// later one perhaps not, and one on another machine probably not.
func onDisk(doing string, err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Transient, err, "%s", doing)
}

// opens is how many times a copy that cannot be opened is fetched.
const opens = 3

// Open provides the complete, verified dataset in a folder of q.Scratch and maps it before another process can replace
// it. Any number of processes may call it at once; the copy appears by renaming, so a folder that exists was once
// complete. Whether it still is gets verified as q.Since demands. A damaged copy is replaced, and so is one that
// verified a moment ago but cannot be opened now, because the disk damaged it in between.
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

// provide makes sure that the dataset is there. On return the caller holds the lock.
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

// provideLocked copies the dataset to dir, unless it is there whole; until its last file is copied it lies beside. The
// lock is held, so that one process of a machine copies.
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

// putInPlace renames the copy to dir, and returns when both are on the disk: then a crash leaves all of it, or none.
func putInPlace(partial, dir string) error {
	if err := dataset.SyncPath(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	return dataset.SyncPath(filepath.Dir(dir))
}

// copyAll copies every file and finally the manifest.
func (q *Request) copyAll(ctx context.Context, partial string) (*dataset.Manifest, error) {
	prefix := sweep.DatasetDir(q.Dataset.Name, q.Dataset.Version)
	var text []byte
	var m *dataset.Manifest
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

	path := filepath.Join(partial, dataset.ManifestFile)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return nil, onDisk("write the dataset's manifest", err)
	}
	return m, onDisk("write the dataset's manifest", dataset.SyncPath(path))
}

type copier struct {
	*Request
	total int64
	done  atomic.Int64
}

// copyFile starts fetching those blocks of a file that are still missing.
func (c *copier) copyFile(ctx context.Context, group *errgroup.Group, partial, prefix string,
	info dataset.FileInfo) error {
	// DecodeManifest has rejected names that escape the folder
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
			To:  max(attrs.Size, info.Bytes),
			Msg: fmt.Sprintf("the object has %d bytes, the manifest says %d", attrs.Size, info.Bytes)}
	}

	// Whole blocks of an interrupted copy are not fetched again.
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

// has reports whether an earlier, interrupted copy left block i whole.
func (c *copier) has(file *os.File, info dataset.FileInfo, i int) bool {
	offset, length := info.Block(i)
	data := make([]byte, length)
	if _, err := file.ReadAt(data, offset); err != nil || info.VerifyBlock(i, data) != nil {
		return false
	}
	c.report(length)
	return true
}

// copyBlock fetches one block of the pinned generation, verifies it and writes it in place. A block that arrives
// damaged is fetched again, since the object itself is most likely whole.
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
		_ = file.Truncate(0) // room to tell of it, where the bucket is on the same disk
		return onDisk("write "+info.Name, err)
	}
	c.report(length)
	return nil
}

// fetch reads a range of an object into data, which has its length. A failure to open it is backoff.Permanent: the
// store has already retried.
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

// Bounds on refetching damaged data. Damage in transit is rare and does not repeat; damage in the bucket shows within a
// second or two.
const (
	fetches    = 5
	firstPause = 100 * time.Millisecond
)

// untilWhole calls fetch up to a few times, until the data is whole or the error is backoff.Permanent.
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

func (c *copier) report(n int64) {
	done := c.done.Add(n)
	if c.Progress != nil {
		c.Progress(done, c.total)
	}
}
