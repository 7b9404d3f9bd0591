package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"coppice/internal/dataset"
)

// Disks flip bits, files get cut, and a machine that was switched off may have lost unwritten pages. So a copy is
// verified against the manifest, in full, before it is mapped. That costs one read of the copy, and the tasks of a
// machine need not repeat it: the task that has verified the copy leaves a mark beside it with the time and with the
// files' sizes and times.

// mark records that a copy was found whole. It is a JSON file next to the copy.
type mark struct {
	At    time.Time `json:"at"`    // when the copy was verified
	Looks string    `json:"looks"` // what looks returned then
}

func markOf(dir string) string { return dir + ".whole" }

// looks returns a hash of what can be seen of a copy without reading its files: the manifest, and the size and time of
// each file. It changes if a file is written.
func looks(dir string, m *dataset.Manifest) (string, error) {
	sum := sha256.New()
	text, err := os.ReadFile(filepath.Join(dir, dataset.ManifestFile))
	if err != nil {
		return "", err
	}
	sum.Write(text)

	for _, f := range m.Files {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f.Name)))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, f.Name, info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// isWhole reports whether the copy in dir may be used. If a mark does not say that it was verified, it verifies it now,
// and leaves a mark. A damaged copy is removed. The caller holds the lock.
func (q *Request) isWhole(ctx context.Context, dir string) (bool, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if q.wasVerified(dir) {
		q.Log.Info("dataset found", "dir", dir)
		return true, nil
	}

	start := time.Now()
	m, err := dataset.Check(ctx, dir, nil)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err == nil {
		err = checkVersion(q, m)
	}
	if err == nil {
		q.Log.Info("dataset found and intact", "dir", dir, "bytes", m.Bytes(), "seconds", time.Since(start).Seconds())
		q.leaveMark(dir, m)
		return true, nil
	}

	return false, q.discard(dir, err)
}

// discard removes a damaged copy and logs why.
func (q *Request) discard(dir string, why error) error {
	q.Log.Warn("the machine's copy of the dataset is damaged; fetching it again", "dir", dir, "error", why.Error())
	return onDisk("remove the damaged copy", discard(dir))
}

// discard removes a copy, first from its name and then from the disk. Processes that have it mapped keep it until they
// unmap it.
func discard(dir string) error {
	bad := dir + ".bad"
	if err := os.RemoveAll(bad); err != nil {
		return err
	}
	if err := os.Rename(dir, bad); err != nil {
		return err
	}
	return os.RemoveAll(bad)
}

// wasVerified reports whether the mark says that the copy was verified recently enough, and the copy seems unchanged
// since. A mark from the future is not believed.
func (q *Request) wasVerified(dir string) bool {
	text, err := os.ReadFile(markOf(dir))
	if err != nil {
		return false
	}
	var k mark
	if err := json.Unmarshal(text, &k); err != nil || k.At.Before(q.Since) || k.At.After(time.Now()) {
		return false
	}

	m, err := dataset.ReadManifest(dir)
	if err != nil || m.Name != q.Dataset.Name || m.Version != q.Dataset.Version {
		return false
	}
	now, err := looks(dir, m)
	return err == nil && now == k.Looks
}

// leaveMark notes for the machine's other tasks that the copy is whole. If that fails, it is only logged: without the
// mark they verify the copy themselves.
func (q *Request) leaveMark(dir string, m *dataset.Manifest) {
	k := mark{At: time.Now()}
	var err error
	if k.Looks, err = looks(dir, m); err == nil {
		var text []byte
		if text, err = json.Marshal(k); err == nil {
			err = os.WriteFile(markOf(dir), text, 0o644)
		}
	}
	if err != nil {
		q.Log.Warn("record that the dataset is intact", "dir", dir, "error", err.Error())
	}
}
