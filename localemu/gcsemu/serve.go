//go:build unix

package gcsemu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if why := s.foreign(r); why != "" {
		answer(http.StatusForbidden, why).send(w)
		return
	}

	r.Host = s.addr // for fake-gcs-server, which knows no other
	c := classify(r)
	if a := s.check(c, r); a != nil {
		a.send(w)
		return
	}
	if a := s.authorize(c, r); a != nil {
		a.send(w)
		return
	}

	ahead := s.faults.ahead(s.client(door(r)))
	if c.kind == kindContents {
		if ahead != 0 {
			w = &shifting{ResponseWriter: w, ahead: ahead}
		}
		s.read(w, r, c)
		return
	}

	var a *response
	switch c.kind {
	case kindUpload:
		a = s.beginUpload(r, c)
	case kindChunk:
		a = s.continueUpload(r)
	case kindAbandon:
		a = s.abandonUpload(r)
	case kindChange:
		a = s.change(r, c)
	case kindCompose:
		a = s.compose(r, c)
	case kindCopy:
		a = s.copied(r, c)
	case kindBuckets:
		a = s.buckets(r, c)
	default: // list, metadata, health
		s.mu.RLock()
		a = s.lookUp(r, c)
		s.mu.RUnlock()
	}
	a = s.finished(a, r.URL.Query().Get("fields"))
	if ahead != 0 {
		a.shift(ahead)
	}
	a.send(w)
}

// foreign says why a request does not come from a client of the local cloud: web pages must not reach it, neither
// directly nor through a host name of theirs that resolves to this machine.
func (s *Server) foreign(r *http.Request) string {
	if r.Header.Get("Origin") != "" {
		return "requests from web pages are refused"
	}
	host, port, err := net.SplitHostPort(r.Host)
	_, own, _ := net.SplitHostPort(door(r).String())
	if err != nil || port != own || host != "localhost" && host != "127.0.0.1" && host != "[::1]" && host != "::1" {
		return fmt.Sprintf("the host name %.100q is not this server's: use %s", r.Host, door(r))
	}
	return ""
}

// check rejects what is not imitated, and invalid names.
func (s *Server) check(c call, r *http.Request) *response {
	q := r.URL.Query()
	switch {
	case c.kind == kindRefused:
		return answer(http.StatusNotImplemented, fmt.Sprintf("localemu does not imitate %s %s", r.Method, r.URL.Path))
	case c.kind == kindBuckets && (q.Has("ifMetagenerationMatch") || q.Has("ifMetagenerationNotMatch")):
		return answer(http.StatusNotImplemented,
			"localemu does not imitate conditions on the metageneration of a bucket")
	case q.Has("fields"):
		if _, err := parseFields(q.Get("fields")); err != nil { // before anything is written
			return answer(http.StatusBadRequest, err.Error())
		}
	case r.Header.Get("Content-Encoding") == "gzip":
		return answer(http.StatusNotImplemented, "localemu does not imitate compressed requests")
	}

	for _, bucket := range []string{c.bucket, c.from} {
		if bucket != "" && (!bucketPattern.MatchString(bucket) || len(bucket) > 222) {
			return answer(http.StatusBadRequest, fmt.Sprintf("Invalid bucket name: %.80q", bucket))
		}
	}

	for _, param := range []string{"softDeleted", "filter"} {
		if v := q.Get(param); v != "" && v != "false" { // Go's client always sends the first
			return answer(http.StatusNotImplemented, "localemu does not imitate "+param)
		}
	}
	if q.Get("matchGlob") != "" && q.Get("delimiter") != "" {
		return answer(http.StatusNotImplemented, "localemu does not imitate matchGlob with a delimiter")
	}

	for _, object := range []string{c.object, c.source} {
		if why := impossible(object); object != "" && why != "" {
			return answer(http.StatusBadRequest, fmt.Sprintf("Invalid object name %.80q: %s", object, why))
		}
	}
	return nil
}

// absent is the service's answer about an object that does not exist.
func absent(bucket, object string) *response {
	return answer(http.StatusNotFound, fmt.Sprintf("No such object: %s/%s", bucket, object))
}

// read sends an object's contents. The lock is held until the first byte is sent: by then the file is open, and a write
// replaces the file instead of changing it.
func (s *Server) read(w http.ResponseWriter, r *http.Request, c call) {
	if f := s.faults.read(c.object, s.client(door(r))); f != nil {
		if f.before(r.Context(), w) {
			return
		}
		if f.Does == "cut" || f.Does == "flip" {
			w = &spoiling{ResponseWriter: w, does: f.Does}
		}
	}

	s.mu.RLock()
	release := sync.OnceFunc(s.mu.RUnlock)
	defer release()

	if a := s.missing(c); a != nil {
		release()
		a.send(w)
		return
	}
	if a := s.condition(r, c, true); a != nil {
		release()
		a.send(w)
		return
	}

	s.inner.ServeHTTP(&releasing{w, release}, s.inside(r, c))
}

// releasing calls release when contents begin to flow. It does not implement io.ReaderFrom, so that every byte passes
// Write.
type releasing struct {
	http.ResponseWriter
	release func()
}

func (w *releasing) Write(p []byte) (int, error) {
	w.release()
	return w.ResponseWriter.Write(p)
}

// lookUp answers requests that read no contents. The lock is held.
func (s *Server) lookUp(r *http.Request, c call) *response {
	if c.kind == kindHealth {
		return s.ask(r)
	}
	if a := s.missing(c); a != nil {
		return a
	}
	if a := s.condition(r, c, true); a != nil {
		return a
	}
	if c.kind == kindList {
		return s.list(r, c)
	}
	return s.ask(s.inside(r, c))
}

// missing is the service's answer about a bucket that does not exist. The lock is held.
func (s *Server) missing(c call) *response {
	if s.hasBucket(c.bucket) && (c.from == "" || s.hasBucket(c.from)) {
		return nil
	}
	return answer(http.StatusNotFound, "The specified bucket does not exist.")
}

// again is a received body that can be read a second time.
func again(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// receive reads the whole request, which is small, so that a slow client is not waited for under the lock.
func receive(r *http.Request) *response {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		return answer(http.StatusBadRequest, fmt.Sprintf("the request is broken or has more than %d bytes", maxBody))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// maxBody bounds a request that carries no contents: the longest composes 32 objects.
const maxBody = 1 << 20

// change passes a write other than an upload to fake-gcs-server, if its conditions hold.
func (s *Server) change(r *http.Request, c call) *response {
	if a := receive(r); a != nil {
		return a
	}
	if a := s.faults.refuse(c.object, s.client(door(r))); a != nil {
		return a
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.missing(c); a != nil {
		return a
	}
	if a := s.condition(r, c, false); a != nil {
		return a
	}

	s.tick()
	defer s.ticked()
	if r.Method != http.MethodDelete {
		return s.redescribe(r, c)
	}
	return s.ask(s.inside(r, c))
}

// condition compares the object with the request's generation conditions. The lock is held.
func (s *Server) condition(r *http.Request, c call, reading bool) *response {
	q := r.URL.Query()
	if c.object == "" {
		return nil
	}
	if a := s.compare(q, "ifGenerationMatch", "ifGenerationNotMatch", c.bucket, c.object, reading); a != nil {
		return a
	}
	if a := s.compare(q, "ifMetagenerationMatch", "ifMetagenerationNotMatch", c.bucket, c.object, reading); a != nil {
		return a
	}

	if match := r.Header.Get("X-Goog-If-Generation-Match"); match != "" { // the XML API
		xml := url.Values{"ifGenerationMatch": {match}}
		if a := s.compare(xml, "ifGenerationMatch", "", c.bucket, c.object, reading); a != nil {
			return a
		}
	}

	if c.source == "" {
		return nil
	}
	if a := s.compare(q, "ifSourceGenerationMatch", "ifSourceGenerationNotMatch", c.from, c.source, false); a != nil {
		return a
	}
	return s.compare(q, "ifSourceMetagenerationMatch", "ifSourceMetagenerationNotMatch", c.from, c.source, false)
}

func (s *Server) compare(q url.Values, match, notMatch, bucket, object string, reading bool) *response {
	if !q.Has(match) && !q.Has(notMatch) {
		return nil
	}

	now := s.generation(bucket, object)
	if strings.Contains(match, "Metageneration") {
		if now == 0 && reading {
			return nil // the read itself answers that the object is missing
		}
		if now != 0 {
			now = s.metas.now(bucket, object, now)
		}
	}
	for _, name := range []string{match, notMatch} {
		if !q.Has(name) {
			continue
		}
		want, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil {
			return answer(http.StatusBadRequest, fmt.Sprintf("Invalid value for %s: %.40q", name, q.Get(name)))
		}
		if holds := (want == now) == (name == match); holds {
			continue
		}
		if reading && name == notMatch {
			return &response{status: http.StatusNotModified, header: http.Header{}}
		}
		return answer(http.StatusPreconditionFailed, "At least one of the pre-conditions you specified did not hold.")
	}
	return nil
}

// response is an answer that is complete before it is sent.
type response struct {
	status int
	header http.Header
	body   bytes.Buffer
}

// ask passes a request to fake-gcs-server.
func (s *Server) ask(r *http.Request) *response {
	a := &response{header: http.Header{}}
	s.inner.ServeHTTP(a, r)
	return a
}

// answer is an error in the format of the JSON API.
func answer(status int, message string) *response {
	a := &response{status: status, header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}}}
	reason := map[int]string{
		http.StatusBadRequest: "invalid", http.StatusForbidden: "forbidden", http.StatusNotFound: "notFound",
		http.StatusConflict:           "conflict",
		http.StatusPreconditionFailed: "conditionNotMet", http.StatusNotImplemented: "notImplemented",
		http.StatusTooManyRequests: "rateLimitExceeded", http.StatusInternalServerError: "internalError",
	}[status]
	if reason == "" {
		reason = "backendError"
	}

	type item struct {
		Message string `json:"message"`
		Domain  string `json:"domain"`
		Reason  string `json:"reason"`
	}

	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"code": status, "message": message, "errors": []item{{message, "global", reason}},
	}})
	if err != nil { // strings and numbers always encode
		body = []byte("{}")
	}
	a.body.Write(body)
	return a
}

// Header, WriteHeader and Write make response an http.ResponseWriter.
func (a *response) Header() http.Header { return a.header }

// WriteHeader keeps the first status; later ones are not meant for the client.
func (a *response) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *response) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *response) send(w http.ResponseWriter) {
	for name, values := range a.header {
		if !strings.HasPrefix(name, "Access-Control-") {
			w.Header()[name] = values
		}
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	w.WriteHeader(a.status)
	if a.status != http.StatusNotModified && a.status != http.StatusNoContent {
		_, _ = w.Write(a.body.Bytes()) // the client may have left
	}
}
