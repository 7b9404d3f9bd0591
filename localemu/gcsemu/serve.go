package gcsemu

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coppice/localemu/internal/httpjson"
)

// call is a request, and what it is about.
type call struct {
	*http.Request
	q              url.Values
	bucket, object string
}

// routes are the imitated calls, by the escaped path: a slash in a name is %2F, except in the XML API.
var routes = []struct {
	methods string
	path    *regexp.Regexp
	answer  func(s *Server, w http.ResponseWriter, c *call) (any, error) // nil: it has answered
}{
	{"GET", regexp.MustCompile(`^/storage/v1/b/?$`), (*Server).listBuckets},
	{"POST", regexp.MustCompile(`^/storage/v1/b/?$`), (*Server).makeBucket},
	{"GET DELETE", regexp.MustCompile(`^/storage/v1/b/([^/]+)$`), (*Server).serveBucket},
	{"GET", regexp.MustCompile(`^/storage/v1/b/([^/]+)/o/?$`), (*Server).list},
	{"GET DELETE", regexp.MustCompile(`^/storage/v1/b/([^/]+)/o/([^/]+)$`), (*Server).serveObject},
	{"GET", regexp.MustCompile(`^/download/storage/v1/b/([^/]+)/o/([^/]+)$`), (*Server).sendContents},
	{"POST PUT DELETE", regexp.MustCompile(`^/upload/storage/v1/b/([^/]+)/o/?$`), (*Server).upload},
	{"", regexp.MustCompile(`^/(?:storage|upload|download|batch)/`), nil},
	{"GET HEAD", regexp.MustCompile(`^/([^/]+)/(.+)$`), (*Server).sendContents}, // the XML API
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: r, q: r.URL.Query()}
	v, err := s.answer(w, c)
	switch {
	case err != nil:
		httpjson.Fail(w, s.full(err))
	case v != nil:
		httpjson.Reply(w, http.StatusOK, v)
	}
}

// answer finds the first route that fits the request, reads the names of bucket and object from its path, and calls it.
// The value goes out as JSON; nil means that the route has answered itself. A path of the JSON API without a route is
// answered with 501, lest it be taken for a bucket's and an object's name in the XML API.
func (s *Server) answer(w http.ResponseWriter, c *call) (any, error) {
	if err := httpjson.Foreign(c.Request); err != nil {
		return nil, err
	}
	for _, route := range routes {
		m := route.path.FindStringSubmatch(c.URL.EscapedPath())
		if m == nil || route.answer != nil && !slices.Contains(strings.Fields(route.methods), c.Method) {
			continue
		}
		if route.answer == nil {
			break
		}

		for i, part := range m {
			text, err := url.PathUnescape(part)
			if err != nil {
				return nil, httpjson.Errorf(http.StatusBadRequest, "the path is not escaped: %v", err)
			}
			m[i] = text
		}
		m = append(m, "", "") // routes have at most two names
		c.bucket, c.object = m[1], m[2]
		if err := checkNames(c.bucket); err != nil {
			return nil, err
		}
		if err := checkNames("", c.object); c.object != "" && err != nil {
			return nil, err
		}
		return route.answer(s, w, c)
	}
	return nil, httpjson.NotImitated(c.Request)
}

// maxBody bounds a request that carries no contents.
const maxBody = 1 << 20

// decode reads a body of JSON of at most maxBody bytes; an empty one gives the zero value. It is called before the lock
// is taken, so that a slow client does not hold all others up.
func decode[T any](r io.Reader) (T, error) {
	var v T
	data, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err == nil && len(data) > maxBody {
		err = fmt.Errorf("more than %d bytes", maxBody)
	}
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		return v, httpjson.Errorf(http.StatusBadRequest, "the body is not the JSON that this call needs: %v", err)
	}
	return v, nil
}

// listBuckets answers with the buckets whose names begin with prefix, by name, all on one page.
func (s *Server) listBuckets(_ http.ResponseWriter, c *call) (any, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	items := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.buckets)) {
		if strings.HasPrefix(name, c.q.Get("prefix")) {
			items = append(items, c.describeBucket(s.buckets[name]))
		}
	}
	return map[string]any{"kind": "storage#buckets", "items": items}, nil
}

// makeBucket makes a bucket and answers with its resource, or with 409 if there is one of the name.
func (s *Server) makeBucket(_ http.ResponseWriter, c *call) (any, error) {
	wanted, err := decode[map[string]any](c.Body)
	if err != nil {
		return nil, err
	}
	if err := checkSettings(wanted); err != nil {
		return nil, err
	}
	b := &bucket{}
	b.Name, _ = wanted["name"].(string)
	if !bucketNamed(b.Name) {
		return nil, httpjson.Errorf(http.StatusBadRequest, "Invalid bucket name: %.80q", b.Name)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[b.Name] != nil {
		return nil, httpjson.Errorf(http.StatusConflict,
			"Your previous request to create the named bucket succeeded and you already own it.")
	}
	if err := s.addBucket(b); err != nil {
		return nil, err
	}
	return c.describeBucket(b), nil
}

// serveBucket answers a bucket's GET and DELETE; only an empty one can be deleted.
func (s *Server) serveBucket(w http.ResponseWriter, c *call) (any, error) {
	if c.q.Has("ifMetagenerationMatch") || c.q.Has("ifMetagenerationNotMatch") {
		return nil, httpjson.Errorf(http.StatusNotImplemented,
			"localemu does not imitate conditions on the metageneration of a bucket")
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.bucket(c.bucket)
	switch {
	case err != nil:
		return nil, err
	case c.Method == http.MethodGet:
		return c.describeBucket(b), nil
	case len(b.objects) > 0:
		return nil, httpjson.Errorf(http.StatusConflict, "The bucket you tried to delete is not empty.")
	}
	if err := s.deleteBucket(b); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

// serveObject answers GET and DELETE of an object. GET gives its attributes, or its contents with alt=media. DELETE is
// a write, so a fault may strike it.
func (s *Server) serveObject(w http.ResponseWriter, c *call) (any, error) {
	if c.Method == http.MethodGet && c.q.Get("alt") == "media" {
		return s.sendContents(w, c)
	}
	if c.Method == http.MethodGet {
		s.mu.RLock()
		defer s.mu.RUnlock()
		o, err := s.findObject(c, true)
		if err != nil {
			return nil, err
		}
		return c.describe(o), nil
	}

	if err := s.writes.strike(c.object); err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.findObject(c, false)
	if err == nil {
		err = s.delete(o)
	}
	if err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

// sendContents sends an object's contents, or the range that is asked for, with the headers of Cloud Storage.
func (s *Server) sendContents(w http.ResponseWriter, c *call) (any, error) {
	if err := s.reads.strike(c.object); err != nil {
		return nil, err
	}
	// The XML API has the preconditions in headers.
	for _, name := range []string{"Generation", "Metageneration"} {
		if v := c.Header.Get("X-Goog-If-" + name + "-Match"); v != "" {
			c.q.Set("if"+name+"Match", v)
		}
	}

	o, f, err := s.openContents(c)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if o.Size == 0 && c.Header.Get("Range") != "" { // net/http would answer 200 and nothing, unlike the service
		return nil, httpjson.Errorf(http.StatusRequestedRangeNotSatisfiable, "The requested range cannot be satisfied.")
	}

	h := w.Header()
	for name, value := range map[string]string{
		"Content-Type": o.ContentType, "Content-Encoding": o.ContentEncoding, "Cache-Control": o.CacheControl,
		"Content-Disposition": o.ContentDisposition, "Content-Language": o.ContentLanguage,
		"X-Goog-Generation": strconv.FormatInt(o.Generation, 10), "X-Goog-Storage-Class": o.StorageClass,
		"X-Goog-Metageneration":        strconv.FormatInt(o.Metageneration, 10),
		"X-Goog-Stored-Content-Length": strconv.FormatInt(o.Size, 10), "X-Goog-Stored-Content-Encoding": "identity",
	} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if o.ContentEncoding != "" {
		h.Set("X-Goog-Stored-Content-Encoding", o.ContentEncoding)
	}
	h.Add("X-Goog-Hash", "crc32c="+o.CRC32C)
	if o.MD5 != "" {
		h.Add("X-Goog-Hash", "md5="+o.MD5)
	}
	for name, value := range o.Metadata {
		h.Set("X-Goog-Meta-"+name, value)
	}
	http.ServeContent(w, c.Request, "", o.Updated, f)
	return nil, nil
}

// openContents returns an object and its open contents, which the caller closes. They stay those of this generation
// even if the object is written or deleted meanwhile.
func (s *Server) openContents(c *call) (*object, *os.File, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, err := s.findObject(c, true)
	if err != nil {
		return nil, nil, err
	}
	f, err := s.openFile(o.file)
	return o, f, err
}
