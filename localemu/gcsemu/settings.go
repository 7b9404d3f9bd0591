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
	"regexp"
	"slices"
	"strings"
)

// settings are a bucket's settings beside its name. They only affect what is reported of the bucket, and the class of
// new objects.
type settings struct {
	StorageClass string            `json:"storageClass,omitempty"` // "" is STANDARD
	Labels       map[string]string `json:"labels,omitempty"`
}

// settingsFile is beside the buckets, whose names do not begin with a dot.
const settingsFile = ".buckets"

// classes are the storage classes. Source: https://cloud.google.com/storage/docs/storage-classes
var classes = []string{"STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE", "MULTI_REGIONAL", "REGIONAL",
	"DURABLE_REDUCED_AVAILABILITY"}

// Labels of a bucket. Source: https://cloud.google.com/storage/docs/tags-and-labels
var (
	labelKey   = regexp.MustCompile(`^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]{0,62}$`)
	labelValue = regexp.MustCompile(`^[\p{Ll}\p{Lo}\p{N}_-]{0,63}$`)
)

const mostLabels = 64

func openSettings(dir string) (map[string]settings, error) {
	of := map[string]settings{}
	if dir == "" {
		return of, nil
	}
	path := filepath.Join(dir, settingsFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return of, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &of)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return of, nil
}

// set gives a bucket settings, or with none forgets the bucket. The lock is held.
func (s *Server) set(bucket string, to settings) error {
	if to.StorageClass == "" && len(to.Labels) == 0 {
		if _, had := s.settings[bucket]; !had {
			return nil
		}
		delete(s.settings, bucket)
	} else {
		s.settings[bucket] = to
	}
	if s.dir == "" {
		return nil
	}

	data, err := json.Marshal(s.settings)
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, settingsFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// buckets lets fake-gcs-server answer about buckets, and keeps the settings that it does not.
func (s *Server) buckets(r *http.Request, c call) *response {
	if a := receive(r); a != nil {
		return a
	}
	given, a := s.checkSettings(r)
	if a != nil {
		return a
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	others := c.bucket + overflowSuffix
	if r.Method == http.MethodDelete && s.dir != "" {
		if left, err := s.fake.Backend().ListObjects(others, "", false); err == nil && len(left) > 0 {
			return notEmpty()
		}
	}

	a = s.ask(r)
	switch {
	case r.Method == http.MethodDelete && a.status == http.StatusPreconditionFailed: // in the service's own words
		return notEmpty()
	case r.Method == http.MethodGet || a.status >= http.StatusMultipleChoices:
		return a
	}
	if r.Method == http.MethodPost {
		c.bucket = given.name
	}
	now := s.settings[c.bucket]
	if r.Method == http.MethodDelete {
		now = settings{}
		if err := s.fake.Backend().DeleteBucket(others); err != nil {
			s.log.Debug("a bucket had nothing beside it", "bucket", c.bucket, "error", err)
		}
	}
	if err := s.set(c.bucket, given.onto(now, r.Method == http.MethodPut)); err != nil {
		return answer(http.StatusInternalServerError, fmt.Sprintf("write down the settings of bucket %s: %v", c.bucket,
			err))
	}
	return a
}

func notEmpty() *response {
	return answer(http.StatusConflict, "The bucket you tried to delete is not empty.")
}

// change is a request's change of a bucket's settings; nil labels are removed.
type change struct {
	name, class string
	labels      map[string]*string
}

// onto returns the settings after the change: entirely new if replaces, else now with the change applied.
func (c change) onto(now settings, replaces bool) settings {
	out := settings{StorageClass: now.StorageClass, Labels: maps.Clone(now.Labels)}
	if replaces {
		out = settings{}
	}
	if c.class != "" {
		out.StorageClass = strings.TrimPrefix(c.class, "STANDARD")
	}

	for key, value := range c.labels {
		if value == nil {
			delete(out.Labels, key)
			continue
		}
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[key] = *value
	}
	return out
}

// checkSettings reads the settings of a bucket from a request, and refuses those that would be silently ignored.
func (s *Server) checkSettings(r *http.Request) (change, *response) {
	var out change
	if r.Method != http.MethodPost && r.Method != http.MethodPatch && r.Method != http.MethodPut {
		return out, nil
	}
	body, err := again(r)
	if err != nil {
		return out, answer(http.StatusBadRequest, err.Error())
	}
	if len(body) == 0 {
		return out, nil
	}

	var given map[string]any
	if err := json.Unmarshal(body, &given); err != nil {
		return out, answer(http.StatusBadRequest, fmt.Sprintf("the body is not a bucket: %v", err))
	}
	var kept struct {
		Name         string             `json:"name"`
		StorageClass string             `json:"storageClass"`
		Labels       map[string]*string `json:"labels"`
	}
	if err := json.Unmarshal(body, &kept); err != nil {
		return out, answer(http.StatusBadRequest, fmt.Sprintf("the body is not a bucket: %v", err))
	}

	for _, name := range slices.Sorted(maps.Keys(given)) {
		if name != "labels" && !s.keeps(name, given[name]) {
			return out, answer(http.StatusNotImplemented, fmt.Sprintf("localemu does not imitate the setting %.60q "+
				"of a bucket; "+
				"it has name, location (all are one here), storageClass, labels and, in memory, versioning", name))
		}
	}
	out = change{kept.Name, kept.StorageClass, kept.Labels}
	return out, out.invalid()
}

// invalid is the service's answer to a class or labels that it does not accept.
func (c change) invalid() *response {
	if c.class != "" && !slices.Contains(classes, c.class) {
		return answer(http.StatusBadRequest, fmt.Sprintf("The storage class %.60q is invalid: use one of %s", c.class,
			strings.Join(classes, ", ")))
	}
	if len(c.labels) > mostLabels {
		return answer(http.StatusBadRequest, fmt.Sprintf("%d labels: a bucket has at most %d", len(c.labels),
			mostLabels))
	}
	for _, key := range slices.Sorted(maps.Keys(c.labels)) {
		if value := c.labels[key]; !labelKey.MatchString(key) || value != nil && !labelValue.MatchString(*value) {
			return answer(http.StatusBadRequest,
				fmt.Sprintf("Invalid label %.80q: keys have 1 to 63 lower-case letters, digits, - and _, beginning "+
					"with a letter; values up to 63", key))
		}
	}
	return nil
}

// keeps reports whether a setting of a bucket is kept, or has no effect anyway.
func (s *Server) keeps(name string, value any) bool {
	switch v := value.(type) {
	case nil, string:
		return true
	case map[string]any:
		return len(v) == 0 || name == "versioning" && (s.dir == "" || v["enabled"] != true)
	case []any:
		return len(v) == 0
	case bool:
		return !v
	}

	return false
}

// settle writes a bucket's settings into its resource.
func (s settings) settle(resource map[string]any) {
	if s.StorageClass != "" {
		resource["storageClass"] = s.StorageClass
	}
	if len(s.Labels) > 0 {
		resource["labels"] = s.Labels
	}
}
