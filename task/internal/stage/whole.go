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

	"coppice/dataset"
)

// Disks flip bits, files get cut, and a machine that was switched off may have lost what it had not written yet. So a copy is
// verified before it is mapped: all of it, against the manifest. That takes as long as reading it once, and the tasks of a
// machine need not do it one after the other: whoever has verified it leaves a mark beside it, which says when, and what the
// files looked like from outside.

// mark says that a copy was whole.
type mark struct {
	At    time.Time `json:"at"`
	Looks string    `json:"looks"`
}

func markOf(dir string) string { return dir + ".whole" }

// looks is what can be seen of a copy without reading it: manifest, sizes and times.
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

// isWhole says whether the copy may be used. One that is damaged is taken away.
func (q *Request) isWhole(ctx context.Context, dir string) (bool, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if q.marked(dir) {
		q.Log.Info("dataset is there", "dir", dir)
		return true, nil
	}

	start := time.Now()
	m, err := dataset.Check(ctx, dir, nil)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err == nil && (m.Name != q.Dataset.Name || m.Version != q.Dataset.Version) {
		err = &VersionError{q.Dataset.Name + "@" + q.Dataset.Version, m.Name + "@" + m.Version}
	}
	if err == nil {
		q.Log.Info("dataset is there and whole", "dir", dir, "bytes", m.Bytes(), "seconds", time.Since(start).Seconds())
		q.leaveMark(dir, m)
		return true, nil
	}

	return false, q.discard(dir, err)
}

// discard takes a damaged copy away.
func (q *Request) discard(dir string, why error) error {
	q.Log.Warn("the machine's copy of the dataset is damaged; it is fetched again", "dir", dir, "error", why.Error())
	if q.Replaced != nil {
		q.Replaced()
	}
	return onDisk("take the damaged copy away", discard(dir))
}

// discard takes a copy away. Who has it mapped keeps it until the mapping ends.
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

// marked says whether somebody has verified the copy lately, and nothing seems to have happened to it since.
func (q *Request) marked(dir string) bool {
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

// leaveMark tells the machine's other tasks that the copy is whole. Without it they find out for themselves.
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
		q.Log.Warn("note that the dataset is whole", "dir", dir, "error", err.Error())
	}
}
