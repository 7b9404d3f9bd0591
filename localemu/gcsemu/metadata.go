//go:build unix

package gcsemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/pkg/xattr"
)

// metas are the metagenerations of objects whose metadata have been changed; of all others it is 1.
type metas struct {
	file string // that keeps them; "" keeps them in memory

	mu sync.RWMutex
	of map[string]described // by bucket/object
}

// described is how often the metadata of one generation of an object were written.
type described struct {
	Generation     int64 `json:"generation"`
	Metageneration int64 `json:"metageneration"`
}

// metasFile is beside the buckets, none of which begins with a dot.
const metasFile = ".metagenerations"

func openMetas(dir string) (*metas, error) {
	m := &metas{of: map[string]described{}}
	if dir == "" {
		return m, nil
	}
	m.file = filepath.Join(dir, metasFile)
	data, err := os.ReadFile(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m.of)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", m.file, err)
	}
	return m, nil
}

func (m *metas) none() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.of) == 0
}

// now is the metageneration of an object that has a generation.
func (m *metas) now(bucket, object string, generation int64) int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if d := m.of[bucket+"/"+object]; d.Generation == generation {
		return d.Metageneration
	}
	return 1
}

// next counts a change.
func (m *metas) next(bucket, object string, generation int64) error {
	d := described{generation, m.now(bucket, object, generation) + 1}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[bucket+"/"+object] = d
	if m.file == "" {
		return nil
	}

	data, err := json.Marshal(m.of)
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(m.file+".new", m.file)
}

// into writes the metagenerations of objects into resources, and lists of them, that fake-gcs-server has made.
func (m *metas) into(v any) {
	resource, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, below := range []string{"items", "resource"} {
		if items, list := resource[below].([]any); list {
			for _, item := range items {
				m.into(item)
			}
		}
		m.into(resource[below])
	}

	bucket, _ := resource["bucket"].(string)
	name, _ := resource["name"].(string)
	text, _ := resource["generation"].(string)
	if generation, err := strconv.ParseInt(text, 10, 64); err == nil && resource["kind"] == "storage#object" {
		resource["metageneration"] = strconv.FormatInt(m.now(bucket, name, generation), 10)
	}
}

// redescribe lets fake-gcs-server change an object's metadata. On disk it writes the object anew for that, under another generation: the
// object keeps the one that it has. The lock is held.
func (s *Server) redescribe(r *http.Request, c call) *response {
	body, err := again(r)
	if err != nil {
		return answer(http.StatusBadRequest, err.Error())
	}
	var changes map[string]any
	if json.Unmarshal(body, &changes) == nil {
		if name := firstNull("", changes); name != "" {
			return answer(http.StatusNotImplemented, fmt.Sprintf("localemu does not imitate taking %.60q away from an object's metadata", name))
		}
	}

	before := s.generation(c.bucket, c.object)
	a := s.ask(r)
	if before == 0 || a.status >= http.StatusMultipleChoices {
		return a
	}

	if now := s.generation(c.bucket, c.object); now != before {
		if err := s.regenerate(c.bucket, c.object, before); err != nil {
			return answer(http.StatusInternalServerError, fmt.Sprintf("keep the generation of %s: %v", c.object, err))
		}
	}
	if err := s.metas.next(c.bucket, c.object, before); err != nil {
		return answer(http.StatusInternalServerError, fmt.Sprintf("write down the metageneration of %s: %v", c.object, err))
	}
	return s.describe(c.bucket, c.object)
}

// firstNull is the path of the first name, in their order, that has null; "" where none has.
func firstNull(above string, changes map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		switch v := changes[name].(type) {
		case nil:
			return above + name
		case map[string]any:
			if found := firstNull(above+name+".", v); found != "" {
				return found
			}
		}
	}
	return ""
}

// attributes is where fake-gcs-server keeps its notes on a file: in an attribute of it or, where the file system has none, beside it.
const attributes = "user.metadata"

// regenerate writes another generation into what fake-gcs-server has noted of an object on disk.
func (s *Server) regenerate(bucket, object string, generation int64) error {
	path := filepath.Join(s.dir, url.PathEscape(bucket), object)
	beside := false
	text, err := xattr.Get(path, attributes)
	if err != nil {
		beside = true
		if text, err = os.ReadFile(path + ".metadata"); err != nil {
			return err
		}
	}

	note := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &note); err != nil {
		return err
	}
	note["Generation"] = strconv.AppendInt(nil, generation, 10)
	if text, err = json.Marshal(note); err != nil {
		return err
	}
	if beside {
		return os.WriteFile(path+".metadata", text, 0o600)
	}
	return xattr.Set(path, attributes, text)
}
