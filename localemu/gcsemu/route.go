//go:build unix

package gcsemu

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// kind is what a request asks for.
type kind int

const (
	kindRefused  kind = iota // not imitated by this server
	kindHealth               // GET /_internal/healthcheck
	kindBuckets              // list or create buckets, read, change or delete one
	kindList                 // list objects
	kindMetadata             // read an object's metadata
	kindContents             // read an object
	kindChange               // delete, patch, update: done by fake-gcs-server
	kindCompose              // make one object of several
	kindCopy                 // make one object of another
	kindUpload               // begin an upload, or complete a short one
	kindChunk                // continue an upload
	kindAbandon              // abandon an upload
)

// call is a classified request. object is the one that is read or written.
type call struct {
	kind   kind
	bucket string
	object string
	source string // of a copy, in sourceBucket
	from   string // bucket of the source
	verb   string // of a copy: rewriteTo or copyTo
}

var (
	bucketPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*$`)
	copyPattern   = regexp.MustCompile(`^(.+)/(rewriteTo|copyTo)/b/([^/]+)/o/(.+)$`)
)

// classify recognises the paths of the JSON API, and of the XML API for reading.
func classify(r *http.Request) call {
	path := r.URL.EscapedPath()
	switch {
	case path == "/_internal/healthcheck":
		return call{kind: kindHealth}
	case strings.HasPrefix(path, "/_internal/"), strings.HasPrefix(path, "/batch/"):
		return call{}
	case path == "/storage/v1/b", path == "/storage/v1/b/":
		return call{kind: kindBuckets}
	}

	if rest, ok := strings.CutPrefix(path, "/upload/storage/v1/b/"); ok {
		return classifyUpload(r, rest)
	}
	if rest, ok := strings.CutPrefix(path, "/download/storage/v1/b/"); ok {
		return classifyObject(r, rest, kindContents)
	}
	if rest, ok := strings.CutPrefix(path, "/storage/v1/b/"); ok {
		reads := kindMetadata
		if r.URL.Query().Get("alt") == "media" {
			reads = kindContents
		}
		return classifyObject(r, rest, reads)
	}

	// The XML API: BUCKET/OBJECT, for reading only.
	bucket, object, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if ok && object != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return call{kind: kindContents, bucket: unescape(bucket), object: unescape(object)}
	}
	return call{}
}

func classifyUpload(r *http.Request, rest string) call {
	bucket, ok := strings.CutSuffix(strings.TrimSuffix(rest, "/"), "/o")
	c := call{bucket: unescape(bucket)}
	if !ok {
		return call{}
	}

	continues := r.URL.Query().Has("upload_id")
	switch {
	case continues && (r.Method == http.MethodPut || r.Method == http.MethodPost):
		c.kind = kindChunk
	case continues && r.Method == http.MethodDelete:
		c.kind = kindAbandon
	case r.Method == http.MethodPost:
		c.kind = kindUpload
	}
	return c
}

// classifyObject recognises B, B/o, B/o/OBJECT and what follows the object's name.
func classifyObject(r *http.Request, rest string, reads kind) call {
	bucket, tail, below := strings.Cut(rest, "/")
	c := call{bucket: unescape(bucket)}
	if !below {
		c.kind = kindBuckets
		return c
	}
	if tail == "o" || tail == "o/" {
		if r.Method == http.MethodGet {
			c.kind = kindList
		}
		return c
	}

	object, ok := strings.CutPrefix(tail, "o/")
	if !ok || strings.HasSuffix(object, "/acl") || strings.Contains(object, "/acl/") { // a slash of a name is escaped
		return call{}
	}

	if r.Method == http.MethodPost {
		if m := copyPattern.FindStringSubmatch(object); m != nil {
			return call{kindCopy, unescape(m[3]), unescape(m[4]), unescape(m[1]), c.bucket, m[2]}
		}
		if target, compose := strings.CutSuffix(object, "/compose"); compose {
			c.kind = kindCompose
			c.object = unescape(target)
			return c
		}
	}

	c.object = unescape(object)
	switch r.Method {
	case http.MethodGet:
		c.kind = reads
	case http.MethodHead:
		c.kind = kindContents
	case http.MethodDelete, http.MethodPatch, http.MethodPut:
		c.kind = kindChange
	}
	return c
}

func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// impossible returns why the service itself cannot have an object of the name; "" if it can.
func impossible(object string) string {
	switch {
	case object == "" || len(object) > 1024 || !utf8.ValidString(object):
		return "an object's name has 1 to 1024 bytes of UTF-8"
	case strings.ContainsAny(object, "\r\n\x00"):
		return "an object's name holds no line break and no zero byte"
	case object == "." || object == "..":
		return "an object cannot be called . or .."
	}
	return ""
}
