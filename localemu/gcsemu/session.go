//go:build unix

package gcsemu

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// maxSessions bounds the unfinished uploads; beyond it the oldest is abandoned.
const maxSessions = 1000

// uploads are the unfinished resumable uploads.
type uploads struct {
	mu   sync.Mutex
	open map[string]*session
}

// session is one resumable upload. Its lock is held while a chunk arrives.
type session struct {
	mu       sync.Mutex
	begun    time.Time
	upload   *upload
	finished *response // the answer to the chunk that completed the upload, for a client that asks again
}

// openSession answers with the address to send the contents to.
func (s *Server) openSession(r *http.Request, u *upload) *response {
	if t := r.Header.Get("X-Upload-Content-Type"); t != "" && u.attrs.ContentType == "" {
		u.attrs.ContentType = t
	}
	id := uuid.NewString()
	s.uploads.add(id, &session{begun: time.Now(), upload: u})
	a := &response{status: http.StatusOK, header: http.Header{}}
	location := fmt.Sprintf("http://%s/upload/storage/v1/b/%s/o?uploadType=resumable&name=%s&upload_id=%s", u.door,
		url.PathEscape(u.bucket), url.QueryEscape(u.object), id)
	if fields := u.query.Get("fields"); fields != "" { // of the answer to the last chunk
		location += "&fields=" + url.QueryEscape(fields)
	}
	a.header.Set("Location", location)
	return a
}

func (us *uploads) add(id string, s *session) {
	us.mu.Lock()
	defer us.mu.Unlock()
	for len(us.open) >= maxSessions {
		var oldest string
		for k, o := range us.open {
			if oldest == "" || o.begun.Before(us.open[oldest].begun) {
				oldest = k
			}
		}
		us.open[oldest].upload.body.close()
		delete(us.open, oldest)
	}

	us.open[id] = s
}

func (us *uploads) get(id string) *session {
	us.mu.Lock()
	defer us.mu.Unlock()
	return us.open[id]
}

func (us *uploads) closeAll() {
	us.mu.Lock()
	defer us.mu.Unlock()
	for id, s := range us.open {
		s.upload.body.close()
		delete(us.open, id)
	}
}

// abandonUpload drops an upload.
func (s *Server) abandonUpload(r *http.Request) *response {
	id := r.URL.Query().Get("upload_id")
	s.uploads.mu.Lock()
	defer s.uploads.mu.Unlock()
	if o := s.uploads.open[id]; o != nil {
		o.upload.body.close()
		delete(s.uploads.open, id)
	}
	return answer(499, "The upload was cancelled.") // the service's own status
}

// continueUpload takes a chunk. A chunk that is sent again, because its answer was lost, is skipped as far as it is
// already stored.
func (s *Server) continueUpload(r *http.Request) *response {
	o := s.uploads.get(r.URL.Query().Get("upload_id"))
	if o == nil {
		return answer(http.StatusNotFound, "No such upload.")
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	if o.finished != nil {
		return o.finished
	}

	body := o.upload.body
	from, total, err := parseContentRange(r.Header.Get("Content-Range"), body.size)
	if err != nil {
		return answer(http.StatusBadRequest, err.Error())
	}
	if from > body.size { // a gap: tell the client where to continue
		return incomplete(r, body.size)
	}

	// Skip what is already stored, and keep the rest.
	if _, err := io.CopyN(io.Discard, r.Body, body.size-from); err == nil {
		if _, err := io.Copy(body, r.Body); err != nil {
			return incomplete(r, body.size) // received bytes stay
		}
	}

	if total < 0 || body.size < total {
		return incomplete(r, body.size)
	}
	if body.size > total {
		return answer(http.StatusBadRequest, fmt.Sprintf("%d bytes came for an upload of %d", body.size, total))
	}

	// Everything has arrived.
	o.upload.attrs.declared(r.Header)
	a := s.commit(o.upload)
	if a.status < 500 {
		o.finished = a
		body.close()
	}
	return a
}

// parseContentRange reads "bytes 0-99/*", "bytes 100-199/200", "bytes */200" and "bytes */*"; without the header the
// body is all that remains. from is where the chunk begins, total the size of the object or -1 while it is unknown.
func parseContentRange(text string, have int64) (from, total int64, err error) {
	invalid := fmt.Errorf("invalid Content-Range %.60q", text)
	if text == "" {
		return have, -1, fmt.Errorf("localemu needs a Content-Range on every chunk")
	}

	span, ok := strings.CutPrefix(text, "bytes ")
	span, size, ok2 := strings.Cut(span, "/")
	if !ok || !ok2 {
		return 0, 0, invalid
	}

	total = -1
	if size != "*" {
		if total, err = strconv.ParseInt(size, 10, 64); err != nil || total < 0 {
			return 0, 0, invalid
		}
	}
	if span == "*" {
		return have, total, nil
	}

	first, last, ok := strings.Cut(span, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	if !ok || err1 != nil || err2 != nil || from < 0 || to < from || total >= 0 && to >= total {
		return 0, 0, invalid
	}
	return from, total, nil
}

// incomplete is "308 Resume Incomplete", in the form that the client expects.
func incomplete(r *http.Request, have int64) *response {
	a := &response{status: http.StatusPermanentRedirect, header: http.Header{}}
	if have > 0 {
		a.header.Set("Range", fmt.Sprintf("bytes=0-%d", have-1))
	}
	if r.Header.Get("X-GUploader-No-308") != "" {
		a.status = http.StatusOK
		a.header.Set("X-Http-Status-Code-Override", "308")
	}
	return a
}
