// Package stage brings a dataset to a machine's local disk, once for all tasks of the machine. The first task copies it
// under a file lock; the others wait for the lock and find it there. What an interrupted copy left behind is checked and
// used.
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

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"coppice/blob"
	"coppice/dataset"
	"coppice/sweep"
)

// Request says which dataset is wanted where.
type Request struct {
	Store   blob.Store // the datasets bucket
	Dataset sweep.DatasetRef
	Scratch string // a folder that all tasks of the machine share
	Log     *slog.Logger
	// Progress, which may be nil, is told how many of all bytes are there. Many goroutines call it.
	Progress func(done, total int64)
}

// transfers is how many ranges are fetched at once: enough to fill a VM's network, few enough to stay below 150 MB of
// buffers.
const transfers = 16

// lockPoll is how often a waiting task looks whether the copy is finished.
const lockPoll = 200 * time.Millisecond

const maxManifest = 64 << 20

// VersionError is a dataset whose manifest is of another version than the folder that it lies in.
type VersionError struct{ Want, Got string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("dataset %s: its manifest says %s; stage it again", e.Want, e.Got)
}

// IsPermanent says that another attempt would find the same.
func (*VersionError) IsPermanent() bool { return true }

// Dataset makes sure that the dataset lies complete and verified in a folder of q.Scratch and returns that folder. Any
// number of processes may call it at once; the copy appears by renaming, so a folder that exists is complete.
func Dataset(ctx context.Context, q Request) (string, error) {
	home := filepath.Join(q.Scratch, "datasets", q.Dataset.Name)
	dir := filepath.Join(home, q.Dataset.Version)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", fmt.Errorf("make the scratch folder: %w", err)
	}
	lock := flock.New(dir + ".lock")
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return "", fmt.Errorf("wait for the dataset's lock: %w", err)
	}
	defer lock.Close()
	if _, err := os.Stat(filepath.Join(dir, dataset.ManifestFile)); err == nil {
		q.Log.Info("dataset is there", "dir", dir)
		return dir, nil
	}
	start := time.Now()
	partial := dir + ".partial"
	m, err := q.copyAll(ctx, partial)
	if err != nil {
		return "", err
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", fmt.Errorf("finish the dataset's copy: %w", err)
	}
	q.Log.Info("dataset staged", "dir", dir, "bytes", m.Bytes(), "seconds", time.Since(start).Seconds())
	return dir, nil
}

// copyAll copies every file and, last, the manifest.
func (q *Request) copyAll(ctx context.Context, partial string) (*dataset.Manifest, error) {
	prefix := sweep.DatasetDir(q.Dataset.Name, q.Dataset.Version)
	text, _, err := blob.ReadAll(ctx, q.Store, prefix+dataset.ManifestFile, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("read the dataset's manifest: %w", err)
	}
	m, err := dataset.DecodeManifest(text)
	if err != nil {
		return nil, fmt.Errorf("dataset %s@%s: %w", q.Dataset.Name, q.Dataset.Version, err)
	}
	if m.Name != q.Dataset.Name || m.Version != q.Dataset.Version {
		return nil, &VersionError{q.Dataset.Name + "@" + q.Dataset.Version, m.Name + "@" + m.Version}
	}
	c := copier{Request: q, total: m.Bytes()}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(transfers)
	for _, file := range m.Files {
		if err := c.copyFile(ctx, group, partial, prefix, file); err != nil {
			if first := group.Wait(); first != nil {
				return nil, first // it is what cut this one short
			}
			return nil, err
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return m, os.WriteFile(filepath.Join(partial, dataset.ManifestFile), text, 0o644)
}

type copier struct {
	*Request
	total int64
	done  atomic.Int64
}

// copyFile starts the transfer of those blocks of a file that are not there yet.
func (c *copier) copyFile(ctx context.Context, group *errgroup.Group, partial, prefix string, info dataset.FileInfo) error {
	path := filepath.Join(partial, filepath.FromSlash(info.Name)) // DecodeManifest has refused names that lead elsewhere
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the scratch folder: %w", err)
	}
	attrs, err := c.Store.Stat(ctx, prefix+info.Name)
	if err != nil {
		return fmt.Errorf("find the dataset's %s: %w", info.Name, err)
	}
	if attrs.Size != info.Bytes {
		return &dataset.CorruptError{File: prefix + info.Name, From: min(attrs.Size, info.Bytes), To: max(attrs.Size, info.Bytes),
			Msg: fmt.Sprintf("the object has %d bytes, the manifest says %d", attrs.Size, info.Bytes)}
	}
	_, err = os.Stat(path)
	resumed := err == nil
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := file.Truncate(info.Bytes); err != nil {
		file.Close()
		return fmt.Errorf("make room for %s: %w", info.Name, err)
	}
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

// has reports whether an earlier, interrupted copy has left block i whole.
func (c *copier) has(file *os.File, info dataset.FileInfo, i int) bool {
	offset, length := info.Block(i)
	data := make([]byte, length)
	if _, err := file.ReadAt(data, offset); err != nil || info.VerifyBlock(i, data) != nil {
		return false
	}
	c.report(length)
	return true
}

// copyBlock fetches one block of the pinned generation, verifies it and writes it in place.
func (c *copier) copyBlock(ctx context.Context, file *os.File, name string, gen blob.Generation, info dataset.FileInfo, i int) error {
	offset, length := info.Block(i)
	data := make([]byte, length)
	r, _, err := c.Store.Open(ctx, name, blob.Range{Offset: offset, Length: length, Generation: gen})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s changed while it was copied: %w", name, err)
	}
	if err != nil {
		return fmt.Errorf("fetch %s: %w", name, err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, data); err != nil {
		return fmt.Errorf("fetch %s, bytes %d to %d: %w", name, offset, offset+length, err)
	}
	if err := info.VerifyBlock(i, data); err != nil {
		return err
	}
	if _, err := file.WriteAt(data, offset); err != nil {
		return fmt.Errorf("write %s: %w", info.Name, err)
	}
	c.report(length)
	return nil
}

func (c *copier) report(n int64) {
	done := c.done.Add(n)
	if c.Progress != nil {
		c.Progress(done, c.total)
	}
}
