//go:build unix

package gcsemu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// maxMetadata bounds the JSON that describes an upload; the service allows 8 KiB of custom metadata.
const maxMetadata = 64 << 10

// upload is an object being uploaded.
type upload struct {
	bucket string
	object string
	query  url.Values // with the preconditions
	attrs  uploadAttrs
	body   *spool
	door   net.Addr // where it was begun

	components int // of a composition, else 0
}

// uploadAttrs is the part of an object resource that a client may set.
type uploadAttrs struct {
	Name               string            `json:"name"`
	ContentType        string            `json:"contentType"`
	ContentEncoding    string            `json:"contentEncoding"`
	ContentDisposition string            `json:"contentDisposition"`
	ContentLanguage    string            `json:"contentLanguage"`
	CacheControl       string            `json:"cacheControl"`
	StorageClass       string            `json:"storageClass"`
	CustomTime         time.Time         `json:"customTime"`
	Metadata           map[string]string `json:"metadata"`
	MD5                string            `json:"md5Hash"`
	CRC32C             string            `json:"crc32c"`
}

// beginUpload handles a whole upload (uploadType media and multipart) or opens a session (resumable).
func (s *Server) beginUpload(r *http.Request, c call) *response {
	u := &upload{bucket: c.bucket, query: r.URL.Query(), body: newSpool(s.dir), door: door(r)}
	s.mu.RLock()
	missing := s.missing(c)
	s.mu.RUnlock()
	if missing != nil {
		return missing
	}

	kind := u.query.Get("uploadType")
	var err error
	switch kind {
	case "media":
		u.attrs.ContentType = r.Header.Get("Content-Type")
		_, err = io.Copy(u.body, r.Body)
	case "multipart":
		err = u.readMultipart(r)
	case "resumable":
		err = u.readMetadata(r.Body)
	default:
		return answer(http.StatusBadRequest, fmt.Sprintf("Invalid uploadType %.40q", kind))
	}

	if err == nil {
		u.object = u.attrs.Name
		if name := u.query.Get("name"); name != "" {
			u.object = name
		}
		if why := impossible(u.object); why != "" {
			err = fmt.Errorf("invalid object name %.80q: %s", u.object, why)
		}
	}
	if err != nil {
		u.body.close()
		return answer(http.StatusBadRequest, err.Error())
	}

	if kind == "resumable" {
		return s.openSession(r, u)
	}
	defer u.body.close()
	return s.commit(u)
}

func (u *upload) readMetadata(r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, maxMetadata+1))
	if err != nil {
		return err
	}
	if len(data) > maxMetadata {
		return fmt.Errorf("metadata of more than %d bytes", maxMetadata)
	}
	if len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, &u.attrs)
}

var singleQuoted = regexp.MustCompile(`boundary='([^'"]*)'`)

// readMultipart reads multipart/related: the metadata, then the contents.
func (u *upload) readMultipart(r *http.Request) error {
	// gcloud puts the boundary in single quotes, which do not quote anything in a media type, and omits them before the
	// parts.
	quoted := singleQuoted.ReplaceAllString(r.Header.Get("Content-Type"), `boundary="$1"`)
	_, params, err := mime.ParseMediaType(quoted)
	if err != nil {
		return fmt.Errorf("content type: %w", err)
	}

	parts := multipart.NewReader(r.Body, params["boundary"])
	head, err := parts.NextRawPart()
	if err != nil {
		return fmt.Errorf("metadata part: %w", err)
	}
	if err := u.readMetadata(head); err != nil {
		return fmt.Errorf("metadata part: %w", err)
	}

	media, err := parts.NextRawPart()
	if err != nil {
		return fmt.Errorf("media part: %w", err)
	}
	if t := media.Header.Get("Content-Type"); t != "" && u.attrs.ContentType == "" {
		u.attrs.ContentType = t
	}
	if _, err := io.Copy(u.body, media); err != nil {
		return fmt.Errorf("media part: %w", err)
	}
	return nil
}

// commit makes the uploaded bytes the object, if its conditions and checksums hold.
func (s *Server) commit(u *upload) *response {
	if a := s.faults.refuse(u.object, s.client(u.door)); a != nil {
		return a
	}

	s.mu.Lock()
	a, written := s.write(u)
	s.mu.Unlock()
	if written {
		s.onWrite(u.bucket, u.object)
	}
	return a
}

// write is commit without concurrent writes. The lock is held.
func (s *Server) write(u *upload) (a *response, written bool) {
	if a := s.missing(call{bucket: u.bucket}); a != nil {
		return a, false
	}
	if a := s.compare(u.query, "ifGenerationMatch", "ifGenerationNotMatch", u.bucket, u.object, false); a != nil {
		return a, false
	}

	if a := s.compare(u.query, "ifMetagenerationMatch", "ifMetagenerationNotMatch", u.bucket, u.object,
		false); a != nil {
		return a, false
	}

	if s.generation(u.bucket, u.object) != 0 { // overwriting an object deletes one
		if err := s.allow(u.door, "bucket", u.bucket, "storage.objects.delete"); err != nil {
			return answer(http.StatusForbidden, err.Error()), false
		}
	}
	if err := u.body.verify(u.attrs.CRC32C, u.attrs.MD5); err != nil {
		return answer(http.StatusBadRequest, err.Error()), false
	}

	s.tick()
	err := s.store(u)
	s.ticked()
	if err == nil && u.components > 0 {
		err = s.metas.composed(u.bucket, u.object, s.generation(u.bucket, u.object), u.components)
	}
	if err != nil {
		s.log.Error("write object", "object", u.object, "error", err)
		return answer(http.StatusInternalServerError, err.Error()), false
	}

	// The object is written; only the answer may be lost.
	if a := s.faults.lose(u.object, s.client(u.door)); a != nil {
		return a, true
	}
	return s.describe(u.bucket, u.object), true
}

// store hands the object to fake-gcs-server. With buckets on disk, that would hold all of it in memory, several times
// over while its buffer grows. So a long object is created empty, gets the attributes of its contents, and is then
// filled in place: its file is new, and no reader has it open. The lock is held.
func (s *Server) store(u *upload) error {
	p := s.room(u.bucket, u.object)
	o := u.streaming(p, s.settings[u.bucket].StorageClass)
	if s.dir == "" || u.body.file == nil {
		return s.fake.CreateObjectStreaming(o)
	}

	o.Content = &keepOpen{bytes.NewReader(nil)}
	if err := s.fake.CreateObjectStreaming(o); err != nil {
		return err
	}

	// The empty object gets the attributes of the contents that follow.
	backend := s.fake.Backend()
	made, err := backend.GetObject(p.bucket, p.name)
	if err != nil {
		return err
	}
	made.Crc32c = u.body.crc32c()
	made.Md5Hash = u.body.md5sum()
	made.Etag = u.body.md5sum()
	made.Content = &keepOpen{bytes.NewReader(nil)}
	made.Generation = 0

	s.ticked()
	s.tick()
	if _, err := backend.CreateObject(made, unconditional{}); err != nil {
		return err
	}

	f, err := os.OpenFile(s.file(p), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(u.body.copyTo(f), f.Close())
}

// unconditional is fake-gcs-server's interface for a write without preconditions.
type unconditional struct{}

// ConditionsMet always returns true.
func (unconditional) ConditionsMet(int64) bool { return true }

// streaming returns the object as fake-gcs-server takes it, in a place, with its storage class unless the upload names
// one.
func (u *upload) streaming(p place, class string) fakestorage.StreamingObject {
	now := time.Now()
	a := u.attrs
	if a.ContentType == "" {
		a.ContentType = "application/octet-stream"
	}
	if a.StorageClass == "" {
		a.StorageClass = class
	}

	return fakestorage.StreamingObject{
		ObjectAttrs: fakestorage.ObjectAttrs{
			BucketName: p.bucket, Name: p.name, ContentType: a.ContentType, ContentEncoding: a.ContentEncoding,
			ContentDisposition: a.ContentDisposition, ContentLanguage: a.ContentLanguage, CacheControl: a.CacheControl,
			StorageClass: a.StorageClass, CustomTime: a.CustomTime, Metadata: a.Metadata,
			Crc32c: u.body.crc32c(), Md5Hash: u.body.md5sum(), Created: now, Updated: now,
		},
		Content: u.body.content(),
	}
}

// describe returns the object's resource. The lock is held.
func (s *Server) describe(bucket, object string) *response {
	target := "http://" + s.addr + "/storage/v1" + objectPath(s.place(bucket, object))
	r, err := http.NewRequest(http.MethodGet, target, http.NoBody) //nolint:noctx // answered by a function call
	if err != nil {
		return answer(http.StatusInternalServerError, err.Error())
	}
	return s.ask(r)
}

// declared takes over the checksums of an "X-Goog-Hash: crc32c=...,md5=..." header.
func (a *uploadAttrs) declared(h http.Header) {
	for _, line := range h.Values("X-Goog-Hash") {
		for item := range strings.SplitSeq(line, ",") {
			if v, ok := strings.CutPrefix(strings.TrimSpace(item), "crc32c="); ok {
				a.CRC32C = v
			} else if v, ok := strings.CutPrefix(strings.TrimSpace(item), "md5="); ok {
				a.MD5 = v
			}
		}
	}
}
