//go:build unix

package gcsemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pkg/xattr"
)

// metas keeps what fake-gcs-server does not: the metageneration of objects whose metadata were changed (it is 1 for all
// others), and the number of components of composed objects.
type metas struct {
	file string // where they are kept; "" keeps them in memory

	mu sync.RWMutex
	of map[string]described // by bucket/object
}

// described is how often the metadata of one generation of an object were written, and its number of components if it
// was composed.
type described struct {
	Generation     int64 `json:"generation"`
	Metageneration int64 `json:"metageneration"`
	Components     int   `json:"components,omitempty"`
}

// metasFile is beside the buckets, whose names do not begin with a dot.
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

// get returns what is kept of one generation of an object.
func (m *metas) get(bucket, object string, generation int64) described {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if d := m.of[bucket+"/"+object]; d.Generation == generation {
		return d
	}
	return described{Generation: generation, Metageneration: 1}
}

func (m *metas) now(bucket, object string, generation int64) int64 {
	return m.get(bucket, object, generation).Metageneration
}

// components returns how many components an object counts as in a composition.
func (m *metas) components(bucket, object string, generation int64) int {
	return max(m.get(bucket, object, generation).Components, 1)
}

// next counts a change.
func (m *metas) next(bucket, object string, generation int64) error {
	d := m.get(bucket, object, generation)
	d.Metageneration++
	return m.put(bucket, object, d)
}

// composed records the number of components of a new object.
func (m *metas) composed(bucket, object string, generation int64, components int) error {
	return m.put(bucket, object, described{generation, 1, components})
}

func (m *metas) put(bucket, object string, d described) error {
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

// into adds what is kept of an object to its resource. A composed object has no MD5.
func (m *metas) into(resource map[string]any) {
	bucket, _ := resource["bucket"].(string)
	text, _ := resource["generation"].(string)
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return
	}

	d := m.get(bucket, nameOf(resource), generation)
	resource["metageneration"] = strconv.FormatInt(d.Metageneration, 10)
	if d.Components > 0 {
		resource["componentCount"] = d.Components
		delete(resource, "md5Hash")
	}
}

// tell completes resources and lists of them that fake-gcs-server has made: it adds what fake-gcs-server does not know,
// under the objects' own names.
func (s *Server) tell(v any) {
	resource, ok := v.(map[string]any)
	if !ok {
		return
	}

	if items, list := resource["items"].([]any); list {
		items = slices.DeleteFunc(items, func(item any) bool {
			bucket, _ := item.(map[string]any)
			return bucket["kind"] == "storage#bucket" && strings.HasSuffix(nameOf(bucket), overflowSuffix)
		})
		for _, item := range items {
			s.tell(item)
		}
		resource["items"] = items
	}
	s.tell(resource["resource"]) // of a copy

	switch resource["kind"] {
	case "storage#object":
		named(resource)
		s.metas.into(resource)
	case "storage#bucket":
		s.mu.RLock()
		s.settings[nameOf(resource)].settle(resource)
		s.mu.RUnlock()
	}
}

// redescribe lets fake-gcs-server change an object's metadata. On disk, fake-gcs-server rewrites the object for that,
// with a new generation; redescribe restores the old one. The lock is held.
func (s *Server) redescribe(r *http.Request, c call) *response {
	body, err := again(r)
	if err != nil {
		return answer(http.StatusBadRequest, err.Error())
	}
	var changes map[string]any
	if json.Unmarshal(body, &changes) == nil {
		if name := firstNull("", changes); name != "" {
			return answer(http.StatusNotImplemented,
				fmt.Sprintf("localemu does not imitate taking %.60q away from an object's metadata", name))
		}
	}

	before := s.generation(c.bucket, c.object)
	a := s.ask(s.inside(r, c))
	if before == 0 || a.status >= http.StatusMultipleChoices {
		return a
	}

	if now := s.generation(c.bucket, c.object); now != before {
		if err := s.regenerate(c.bucket, c.object, before); err != nil {
			return answer(http.StatusInternalServerError, fmt.Sprintf("keep the generation of %s: %v", c.object, err))
		}
	}
	if err := s.metas.next(c.bucket, c.object, before); err != nil {
		return answer(http.StatusInternalServerError, fmt.Sprintf("write down the metageneration of %s: %v", c.object,
			err))
	}
	return s.describe(c.bucket, c.object)
}

// firstNull returns the path of the first name, in order, whose value is null; "" if there is none.
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

// attributes is where fake-gcs-server keeps its notes on a file: in an extended attribute or, where the file system has
// none, in a file beside it.
const attributes = "user.metadata"

// regenerate sets the generation in fake-gcs-server's notes on an object on disk.
func (s *Server) regenerate(bucket, object string, generation int64) error {
	path := s.file(s.place(bucket, object))
	beside := false
	text, err := xattr.Get(path, attributes)
	if err != nil {
		beside = true
		if text, err = os.ReadFile(path + sidecarSuffix); err != nil {
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
		return os.WriteFile(path+sidecarSuffix, text, 0o600)
	}
	return xattr.Set(path, attributes, text)
}
