package gcsemu

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"coppice/localemu/internal/httpjson"
)

// attributes are what a client may set of an object.
type attributes struct {
	ContentType        string            `json:"contentType,omitempty"`
	ContentEncoding    string            `json:"contentEncoding,omitempty"`
	ContentDisposition string            `json:"contentDisposition,omitempty"`
	ContentLanguage    string            `json:"contentLanguage,omitempty"`
	CacheControl       string            `json:"cacheControl,omitempty"`
	StorageClass       string            `json:"storageClass,omitempty"`
	CustomTime         *time.Time        `json:"customTime,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"`
}

// object is one generation of an object. It does not change: a change of its attributes makes another one.
type object struct {
	Bucket         string    `json:"bucket"`
	Name           string    `json:"name"`
	Generation     int64     `json:"generation,string"`
	Metageneration int64     `json:"metageneration,string"`
	Size           int64     `json:"size,string"`
	CRC32C         string    `json:"crc32c"`
	MD5            string    `json:"md5Hash,omitempty"`
	Created        time.Time `json:"timeCreated"`
	Updated        time.Time `json:"updated"`
	attributes

	file string // of the contents, in the data folder
}

type bucket struct {
	Name           string    `json:"name"`
	Metageneration int64     `json:"metageneration,string"`
	Created        time.Time `json:"timeCreated"`
	Updated        time.Time `json:"updated"`

	objects map[string]*object
}

// describe returns an object as the API shows it (its resource). The links in it lead to the host that was called.
func (c *call) describe(o *object) map[string]any {
	told := *o
	if told.StorageClass == "" {
		told.StorageClass = "STANDARD"
	}
	at := "/storage/v1/b/" + o.Bucket + "/o/" + url.PathEscape(o.Name)
	out := asJSON(told)
	maps.Copy(out, map[string]any{
		"kind": "storage#object", "id": fmt.Sprintf("%s/%s/%d", o.Bucket, o.Name, o.Generation),
		"selfLink": "http://" + c.Host + at,
		"mediaLink": fmt.Sprintf("http://%s/download%s?generation=%d&alt=media", c.Host, at,
			o.Generation),
		"etag":                    fmt.Sprintf("%d/%d", o.Generation, o.Metageneration),
		"timeStorageClassUpdated": told.Created, "timeFinalized": told.Created,
	})
	return out
}

// describeBucket is a bucket as the API shows it, with what all buckets have here.
func (c *call) describeBucket(b *bucket) map[string]any {
	out := asJSON(b)
	maps.Copy(out, map[string]any{"kind": "storage#bucket", "id": b.Name, "location": "US-CENTRAL1",
		"storageClass": "STANDARD",
		"selfLink":     "http://" + c.Host + "/storage/v1/b/" + b.Name,
		"etag":         strconv.FormatInt(b.Metageneration, 10)})
	return out
}

// asJSON returns the fields of a struct as encoding/json would write them, by their JSON names.
func asJSON(v any) map[string]any {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // records and resources always encode
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

var bucketPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*$`)

// bucketNamed reports whether a bucket may have the name, by its characters and its length: at most 222 in all, and 63
// in each part between dots. The service's other rules, such as 3 characters at least, are not checked.
func bucketNamed(name string) bool {
	long := slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return len(part) > 63 })
	return bucketPattern.MatchString(name) && !long && len(name) <= 222
}

// checkNames returns the service's error for a name that a bucket or an object cannot have. An empty bucket is not
// checked; an empty name of an object is an error.
func checkNames(bucket string, objects ...string) error {
	if bucket != "" && !bucketNamed(bucket) {
		return httpjson.Errorf(http.StatusBadRequest, "Invalid bucket name: %.80q", bucket)
	}
	for _, name := range objects {
		why := ""
		switch {
		case name == "" || len(name) > 1024 || !utf8.ValidString(name):
			why = "an object's name has 1 to 1024 bytes of UTF-8"
		case strings.ContainsAny(name, "\r\n\x00"):
			why = "an object's name holds no line break and no zero byte"
		case name == "." || name == "..":
			why = "an object cannot be called . or .."
		}
		if why != "" {
			return httpjson.Errorf(http.StatusBadRequest, "Invalid object name %.80q: %s", name, why)
		}
	}
	return nil
}

var errUnmet = &httpjson.Error{Code: http.StatusPreconditionFailed,
	Message: "At least one of the pre-conditions you specified did not hold."}

// checkPreconditions returns an error unless an object meets the preconditions in a request's query. o is nil if there
// is no object, which counts as generation 0. reading tells reads from writes: a read whose NotMatch condition does not
// hold is answered with 304 and not 412, and conditions on the metageneration of no object are ignored, so that the
// answer is 404.
func checkPreconditions(q url.Values, o *object, reading bool) error {
	var generation, metageneration int64
	if o != nil {
		generation, metageneration = o.Generation, o.Metageneration
	}
	for _, c := range []struct {
		name  string
		now   int64
		equal bool
	}{
		{"ifGenerationMatch", generation, true}, {"ifGenerationNotMatch", generation, false},
		{"ifMetagenerationMatch", metageneration, true}, {"ifMetagenerationNotMatch", metageneration, false},
	} {
		if !q.Has(c.name) {
			continue
		}
		want, err := strconv.ParseInt(q.Get(c.name), 10, 64)
		switch {
		case err != nil:
			return httpjson.Errorf(http.StatusBadRequest, "Invalid value for %s: %.40q", c.name,
				q.Get(c.name))
		case (want == c.now) == c.equal: // it holds
		case o == nil && reading && strings.HasPrefix(c.name, "ifMeta"): // ignored
		case reading && !c.equal:
			return httpjson.Errorf(http.StatusNotModified, "")
		default:
			return errUnmet
		}
	}
	return nil
}

// findObject returns the object of a request, or the service's error if there is none, if it is not of the generation
// asked for, or if it does not meet the preconditions (see checkPreconditions for reading). A lock is held.
func (s *Server) findObject(c *call, reading bool) (*object, error) {
	b, err := s.bucket(c.bucket)
	if err != nil {
		return nil, err
	}
	o := b.objects[c.object]
	if err := checkPreconditions(c.q, o, reading); err != nil {
		return nil, err
	}
	if g := c.q.Get("generation"); o == nil || g != "" && g != strconv.FormatInt(o.Generation, 10) {
		return nil, httpjson.Errorf(http.StatusNotFound, "No such object: %s/%s", c.bucket, c.object)
	}
	return o, nil
}

// bucket returns a bucket, or the service's error if there is none. A lock is held.
func (s *Server) bucket(name string) (*bucket, error) {
	if b := s.buckets[name]; b != nil {
		return b, nil
	}
	return nil, httpjson.Errorf(http.StatusNotFound, "The specified bucket does not exist.")
}

// checkSettings refuses settings of a new bucket that localemu would silently ignore. Texts such as name and location
// are allowed, and so are settings that ask for nothing (see harmless). Of storage classes only STANDARD is.
func checkSettings(wanted map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		_, text := wanted[name].(string)
		if name == "storageClass" {
			text = wanted[name] == "STANDARD"
		}
		if !text && !harmless(wanted[name]) {
			return httpjson.Errorf(http.StatusNotImplemented,
				"localemu does not imitate the setting %.60q of a bucket; it has a name and a location (all are one "+
					"here)", name)
		}
	}
	return nil
}

// harmless reports whether a setting asks for nothing: null, false, an empty list, or an object whose values all ask
// for nothing.
func harmless(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(below any) bool { return !harmless(below) })
	}
	return false
}
