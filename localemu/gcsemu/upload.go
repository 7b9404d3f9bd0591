package gcsemu

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"coppice/localemu/internal/httpjson"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// upload is an object being written: its attributes, and its contents in a file of their own.
type upload struct {
	call   *call // that began it, with the preconditions
	wanted wanted
	file   *os.File
	size   int64
	crc    uint32
	md5    hash.Hash

	// Of a resumable one:
	mu       sync.Mutex // held while a chunk arrives
	begun    time.Time
	finished map[string]any // the answer, for a client that asks again because it got none
}

// wanted is what a client says of the object.
type wanted struct {
	Name   string `json:"name"`
	CRC32C string `json:"crc32c"`
	MD5    string `json:"md5Hash"`
	attributes
}

// newUpload begins an upload for a call, with an empty file for its contents. Its caller has to close it.
func (s *Server) newUpload(c *call) (*upload, error) {
	f, err := s.newFile()
	return &upload{call: c, file: f, md5: md5.New()}, err
}

// Write appends to the contents and carries the size and the checksums on.
func (u *upload) Write(p []byte) (int, error) {
	n, err := u.file.Write(p)
	u.size += int64(n)
	u.crc = crc32.Update(u.crc, castagnoli, p[:n])
	u.md5.Write(p[:n])
	return n, err
}

// close gives the upload's file up.
func (u *upload) close() {
	u.file.Close()
	os.Remove(u.file.Name()) // no longer there, and so left alone, if it was renamed to the object's
}

// verify returns the object that the contents and the client's attributes make. It is an error if a checksum that the
// client declared is not that of the contents. An object without a type gets the service's default.
func (u *upload) verify() (*object, error) {
	o := &object{Bucket: u.call.bucket, Name: u.call.object, Size: u.size,
		CRC32C:     base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, u.crc)),
		MD5:        base64.StdEncoding.EncodeToString(u.md5.Sum(nil)),
		attributes: u.wanted.attributes}
	if v := u.wanted.CRC32C; v != "" && v != o.CRC32C {
		return nil, httpjson.Errorf(http.StatusBadRequest,
			"Provided CRC32C %q doesn't match calculated CRC32C %q", v, o.CRC32C)
	}
	if v := u.wanted.MD5; v != "" && v != o.MD5 {
		return nil, httpjson.Errorf(http.StatusBadRequest,
			"Provided MD5 hash %q doesn't match calculated MD5 hash %q", v, o.MD5)
	}
	if o.ContentType == "" {
		o.ContentType = "application/octet-stream"
	}
	return o, nil
}

// upload answers all calls that write an object. With uploadType media and multipart, the request holds the whole
// object. With resumable, it opens a session, to which later requests with its upload_id send the contents in chunks.
func (s *Server) upload(w http.ResponseWriter, c *call) (any, error) {
	if c.q.Has("upload_id") {
		v, err := s.continueUpload(w, c)
		if isFull(err) { // the upload cannot end well, and what has come of it takes room from others
			s.sessions.mu.Lock()
			s.sessions.drop(c.q.Get("upload_id"))
			s.sessions.mu.Unlock()
		}
		return v, err
	}
	if c.Header.Get("Content-Encoding") == "gzip" {
		return nil, httpjson.Errorf(http.StatusNotImplemented, "localemu does not imitate compressed requests")
	}
	if c.Method != http.MethodPost {
		return nil, httpjson.NotImitated(c.Request)
	}
	if !s.HasBucket(c.bucket) {
		_, err := s.bucket("") // the error of a bucket that does not exist
		return nil, err
	}

	u, err := s.newUpload(c)
	if err != nil {
		return nil, err
	}

	// A session keeps its upload; all others end with this request.
	kind := c.q.Get("uploadType")
	if err = u.receive(kind); err == nil && kind == "resumable" {
		s.beginUpload(w, u)
		return nil, nil
	}
	defer u.close()
	if err != nil {
		return nil, err
	}
	return s.commit(u)
}

// receive reads the request that begins an upload of the kind (the call's uploadType): the attributes and, unless it is
// resumable, the contents. It sets u.wanted and the object's name in u.call, and checks the name.
func (u *upload) receive(kind string) (err error) {
	c := u.call
	switch kind {
	case "media":
		u.wanted.ContentType = c.Header.Get("Content-Type")
		_, err = io.Copy(u, c.Body)
	case "multipart":
		if err = u.readMultipart(); err != nil && !isFull(err) {
			err = httpjson.Errorf(http.StatusBadRequest, "multipart upload: %v", err)
		}
	case "resumable":
		if u.wanted, err = decode[wanted](c.Body); u.wanted.ContentType == "" {
			u.wanted.ContentType = c.Header.Get("X-Upload-Content-Type")
		}
	default:
		return httpjson.Errorf(http.StatusBadRequest, "Invalid uploadType %.40q", kind)
	}
	if err != nil {
		return err
	}
	c.object = u.wanted.Name
	if name := c.q.Get("name"); name != "" {
		c.object = name
	}
	return checkNames("", c.object)
}

// readMultipart reads multipart/related: the metadata, then the contents.
func (u *upload) readMultipart() error {
	_, params, err := mime.ParseMediaType(u.call.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	parts := multipart.NewReader(u.call.Body, params["boundary"])
	head, err := parts.NextRawPart()
	if err != nil {
		return err
	}
	if u.wanted, err = decode[wanted](head); err != nil {
		return err
	}
	media, err := parts.NextRawPart()
	if err != nil {
		return err
	}
	if u.wanted.ContentType == "" {
		u.wanted.ContentType = media.Header.Get("Content-Type")
	}
	_, err = io.Copy(u, media)
	return err
}

// commit makes the uploaded bytes the object, if its preconditions and checksums hold, and returns the object's
// resource for the answer. Two faults may strike: before the write, so that nothing is written, and after it, so that
// only the answer is lost.
func (s *Server) commit(u *upload) (any, error) {
	if err := s.writes.strike(u.call.object); err != nil {
		return nil, err
	}
	s.mu.Lock()
	o, err := s.writeLocked(u)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	u.finished = u.call.describe(o)
	s.opts.OnWrite(o.Bucket, o.Name)

	if err := s.answers.strike(o.Name); err != nil {
		return nil, err
	}
	return u.finished, nil
}

// writeLocked checks the preconditions and checksums of an upload and puts it in the place of the object. The lock is
// held, so that no other write comes between the check and the change.
func (s *Server) writeLocked(u *upload) (*object, error) {
	c := u.call
	b, err := s.bucket(c.bucket)
	if err != nil {
		return nil, err
	}
	if err := checkPreconditions(c.q, b.objects[c.object], false); err != nil {
		return nil, err
	}

	o, err := u.verify()
	if err != nil {
		return nil, err
	}
	if err := u.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) { // Windows renames no open file
		return nil, err
	}
	return o, s.putContents(o, u.file.Name())
}

// maxSessions bounds the unfinished uploads; beyond it the oldest is abandoned.
const maxSessions = 1000

// sessions are the resumable uploads.
type sessions struct {
	mu   sync.Mutex
	open map[string]*upload
}

// drop removes an upload. The lock is held.
func (ss *sessions) drop(id string) {
	if u := ss.open[id]; u != nil {
		u.close()
		delete(ss.open, id)
	}
}

func (ss *sessions) closeAll() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for id := range ss.open {
		ss.drop(id)
	}
}

// beginUpload opens a session for the upload and answers with the address to which its contents are sent. If there are
// too many sessions, the oldest is abandoned.
func (s *Server) beginUpload(w http.ResponseWriter, u *upload) {
	u.begun = time.Now()
	id := uuid.NewString()
	ss := &s.sessions
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.open) >= maxSessions {
		var oldest string
		for k, o := range ss.open {
			if oldest == "" || o.begun.Before(ss.open[oldest].begun) { // the first, or an older one
				oldest = k
			}
		}
		ss.drop(oldest)
	}
	ss.open[id] = u

	c := u.call
	target := url.Values{"uploadType": {"resumable"}, "name": {c.object}, "upload_id": {id}}
	w.Header().Set("Location", fmt.Sprintf("http://%s/upload/storage/v1/b/%s/o?%s", c.Host, c.bucket, target.Encode()))
	w.WriteHeader(http.StatusOK)
}

// continueUpload answers a request with an upload_id: a chunk of the contents, a question how much has come, or DELETE.
// With the last chunk the object is written. A client may send a chunk again whose answer it did not get; what is
// stored already is skipped, and after the last chunk it gets the same answer again.
func (s *Server) continueUpload(w http.ResponseWriter, c *call) (any, error) {
	id := c.q.Get("upload_id")
	s.sessions.mu.Lock()
	u := s.sessions.open[id]
	if c.Method == http.MethodDelete {
		s.sessions.drop(id)
		s.sessions.mu.Unlock()
		return nil, httpjson.Errorf(499, "The upload was cancelled.") // the service's own status
	}
	s.sessions.mu.Unlock()
	if u == nil {
		return nil, httpjson.Errorf(http.StatusNotFound, "No such upload.")
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	if u.finished != nil {
		return u.finished, nil
	}
	from, total, err := parseContentRange(c.Header.Get("Content-Range"), u.size)
	if err != nil {
		return nil, err
	}
	if from > u.size { // a gap: tell the client where to continue
		return u.incomplete(w, c)
	}

	// Skip what is already stored, and keep the rest; received bytes stay if the connection breaks. A chunk that ends
	// while it is being skipped brings nothing new.
	if _, err := io.CopyN(io.Discard, c.Body, u.size-from); err == nil {
		if _, err := io.Copy(u, c.Body); isFull(err) {
			return nil, err
		} else if err != nil {
			return u.incomplete(w, c)
		}
	}
	if total < 0 || u.size < total { // the size is not known yet, or more has to come
		return u.incomplete(w, c)
	}
	if u.size > total {
		return nil, httpjson.Errorf(http.StatusBadRequest, "%d bytes came for an upload of %d", u.size, total)
	}

	// All is there. Checksums may come with the last chunk.
	for item := range strings.SplitSeq(strings.Join(c.Header.Values("X-Goog-Hash"), ","), ",") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(item), "crc32c="); ok {
			u.wanted.CRC32C = v
		} else if v, ok := strings.CutPrefix(strings.TrimSpace(item), "md5="); ok {
			u.wanted.MD5 = v
		}
	}
	return s.commit(u)
}

// parseContentRange reads a chunk's Content-Range: "bytes 0-99/*", "bytes 100-199/200", and "bytes */200" or "bytes
// */*" for a request without contents. from is where the chunk begins, which in the last two cases is have, the bytes
// that are stored. total is the size of the object, or -1 while it is not known.
func parseContentRange(text string, have int64) (from, total int64, err error) {
	invalid := httpjson.Errorf(http.StatusBadRequest, "a chunk needs a Content-Range such as bytes 0-99/*, not %.60q",
		text)
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

// incomplete answers "308 Resume Incomplete" and tells how many bytes are stored, so that the client sends what
// follows. Go's client wants the status 200 instead, with 308 in a header.
func (u *upload) incomplete(w http.ResponseWriter, c *call) (any, error) {
	if u.size > 0 {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", u.size-1))
	}
	code := http.StatusPermanentRedirect
	if c.Header.Get("X-GUploader-No-308") != "" {
		code = http.StatusOK
		w.Header().Set("X-Http-Status-Code-Override", "308")
	}
	w.WriteHeader(code)
	return nil, nil
}
