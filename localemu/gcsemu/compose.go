//go:build unix

package gcsemu

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// mostParts is how many objects one composition takes. Source: https://cloud.google.com/storage/docs/composite-objects
const mostParts = 32

// composition is the body of a compose request.
type composition struct {
	SourceObjects []part
	Destination   uploadAttrs
}

// part is a source of a composition or copy, with its preconditions.
type part struct {
	Name                string
	Generation          json.Number
	ObjectPreconditions struct{ IfGenerationMatch json.Number }
}

// compose makes one object of several. fake-gcs-server would hold all of them in memory, and has no component counts.
func (s *Server) compose(r *http.Request, c call) *response {
	if a := receive(r); a != nil {
		return a
	}
	var wanted composition
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		return answer(http.StatusBadRequest, fmt.Sprintf("the body is not a compose request: %v", err))
	}
	if n := len(wanted.SourceObjects); n < 1 || n > mostParts {
		return answer(http.StatusBadRequest, fmt.Sprintf("The number of source components provided (%d) is not 1 to %d",
			n, mostParts))
	}
	for _, o := range wanted.SourceObjects {
		if why := impossible(o.Name); why != "" {
			return answer(http.StatusBadRequest, fmt.Sprintf("Invalid object name %.80q: %s", o.Name, why))
		}
	}

	c.from = c.bucket
	a, _ := s.join(r, c, wanted.SourceObjects, func(u *upload, sources []fakestorage.ObjectAttrs) {
		u.attrs = wanted.Destination
		u.attrs.Name = c.object
		for _, o := range sources {
			u.components += s.metas.components(c.bucket, o.Name, o.Generation)
		}
	})
	return a
}

// copied copies an object. Attributes that the request does not set are the source's, except for the storage class,
// which is the bucket's.
func (s *Server) copied(r *http.Request, c call) *response {
	if a := receive(r); a != nil {
		return a
	}
	var wanted uploadAttrs
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil && !errors.Is(err, io.EOF) {
		return answer(http.StatusBadRequest, fmt.Sprintf("the body is not an object: %v", err))
	}

	source := part{Name: c.source, Generation: json.Number(r.URL.Query().Get("sourceGeneration"))}
	a, size := s.join(r, c, []part{source}, func(u *upload, sources []fakestorage.ObjectAttrs) {
		u.attrs = wanted.over(sources[0])
		u.attrs.Name = c.object
	})
	if c.verb == "copyTo" || a.status >= http.StatusMultipleChoices {
		return a
	}

	text := strconv.FormatInt(size, 10)
	body, err := json.Marshal(map[string]any{
		"kind": "storage#rewriteResponse", "totalBytesRewritten": text, "objectSize": text, "done": true,
		"resource": json.RawMessage(a.body.Bytes()),
	})
	if err != nil {
		return answer(http.StatusInternalServerError, err.Error())
	}
	out := &response{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}}}
	out.body.Write(body)
	return out
}

// over returns an object's attributes, overlaid with those of the request.
func (a uploadAttrs) over(o fakestorage.ObjectAttrs) uploadAttrs {
	a.ContentType = cmp.Or(a.ContentType, o.ContentType)
	a.ContentEncoding = cmp.Or(a.ContentEncoding, o.ContentEncoding)
	a.ContentDisposition = cmp.Or(a.ContentDisposition, o.ContentDisposition)
	a.ContentLanguage = cmp.Or(a.ContentLanguage, o.ContentLanguage)
	a.CacheControl = cmp.Or(a.CacheControl, o.CacheControl)
	if a.Metadata == nil {
		a.Metadata = o.Metadata
	}
	if a.CustomTime.IsZero() {
		a.CustomTime = o.CustomTime
	}
	a.CRC32C, a.MD5 = "", "" // a request cannot set them
	return a
}

// join writes the parts, from the bucket c.from, as one object with the attributes set by describe. It returns the
// object's length.
func (s *Server) join(r *http.Request, c call, parts []part,
	describe func(*upload, []fakestorage.ObjectAttrs)) (*response, int64) {
	if a := s.faults.refuse(c.object, s.client(door(r))); a != nil {
		return a, 0
	}

	u := &upload{bucket: c.bucket, object: c.object, query: r.URL.Query(), body: newSpool(s.dir), door: door(r)}
	defer u.body.close()
	a, written := s.joined(r, c, u, parts, describe)
	if written {
		s.onWrite(u.bucket, u.object)
	}
	return a, u.body.size
}

// joined is join under the lock that excludes other writes.
func (s *Server) joined(r *http.Request, c call, u *upload, parts []part,
	describe func(*upload, []fakestorage.ObjectAttrs)) (a *response, written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.missing(c); a != nil {
		return a, false
	}
	if a := s.condition(r, c, false); a != nil {
		return a, false
	}
	if a := s.unmet(c.from, parts); a != nil {
		return a, false
	}

	sources := make([]fakestorage.ObjectAttrs, len(parts))
	for i, p := range parts {
		at := s.place(c.from, p.Name)
		o, err := s.fake.GetObjectStreaming(at.bucket, at.name)
		if err == nil {
			_, err = io.Copy(u.body, o.Content)
			err = errors.Join(err, o.Close())
		}
		if err != nil {
			return answer(http.StatusInternalServerError, fmt.Sprintf("read %s for %s: %v", p.Name, c.object, err)),
				false
		}
		sources[i] = o.ObjectAttrs
		sources[i].Name = p.Name
	}

	describe(u, sources)
	return s.write(u)
}

// unmet returns the error for the first source that does not exist or does not meet its preconditions. The lock is
// held.
func (s *Server) unmet(bucket string, parts []part) *response {
	for _, p := range parts {
		now := s.generation(bucket, p.Name)
		if now == 0 || p.Generation != "" && p.Generation.String() != strconv.FormatInt(now, 10) {
			return absent(bucket, p.Name)
		}
		if want := p.ObjectPreconditions.IfGenerationMatch; want != "" && want.String() != strconv.FormatInt(now, 10) {
			return answer(http.StatusPreconditionFailed,
				"At least one of the pre-conditions you specified did not hold.")
		}
	}
	return nil
}
