//go:build unix

package gcsemu

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// place is where fake-gcs-server keeps an object. In memory, and usually on disk, that is the object's own name: the
// path of its file is BUCKET/NAME. An object whose name is not a valid path ("a//b", "dir/"), or whose path is taken by
// a folder or leads through a file ("k" beside "k/b"), has a file with an escaped name in the folder "BUCKET+", which
// is no valid bucket name.
type place struct{ bucket, name string }

const (
	overflowSuffix = "+"         // of the folder beside a bucket's
	sidecarSuffix  = ".metadata" // of fake-gcs-server's notes on a file, where the file system has no attributes
	longestPart    = 255         // bytes of a file's name
	longestWritten = 230         // of one being written, which has a longer name at first
	longestEscaped = 200         // of one part of an escaped name
)

// isPath reports whether an object's name can be the path of its file.
func isPath(object string) bool {
	for part := range strings.SplitSeq(object, "/") {
		if part == "" || part == "." || part == ".." || len(part) > longestPart {
			return false
		}
	}
	return !strings.HasSuffix(object, sidecarSuffix)
}

// escape makes a path of any name: one part, or several if that would be too long, all but the last ending in "+". It
// escapes "/", "%", "+", control characters, a dot at the beginning of a part, and the dot of a final ".metadata".
func escape(object string) string {
	var path strings.Builder
	length := 0 // of the part being written
	for i, r := range object {
		piece := string(r)
		hidden := r == '.' && (length == 0 || length+len(piece) > longestEscaped || object[i:] == sidecarSuffix)
		if hidden || r == '/' || r == '%' || r == '+' || r < ' ' || r == '\x7f' {
			piece = "%" + string("0123456789ABCDEF"[r>>4]) + string("0123456789ABCDEF"[r&15])
		}

		if length+len(piece) > longestEscaped {
			path.WriteString("+/")
			length = 0
		}
		path.WriteString(piece)
		length += len(piece)
	}
	return path.String()
}

// unescaped reverses escape; ok is false for a path that escape did not make.
func unescaped(path string) (object string, ok bool) {
	object, err := url.PathUnescape(strings.ReplaceAll(path, "+/", ""))
	return object, err == nil && utf8.ValidString(object) && escape(object) == path
}

// overflow returns the place of an object that cannot be under its own name.
func overflow(bucket, object string) place { return place{bucket + overflowSuffix, escape(object)} }

// file returns the path of an object on disk.
func (s *Server) file(p place) string {
	return filepath.Join(s.dir, url.PathEscape(p.bucket), filepath.FromSlash(p.name))
}

// place returns where the object is, or would be looked for. The lock is held.
func (s *Server) place(bucket, object string) place {
	own := place{bucket, object}
	if s.dir == "" {
		return own
	}

	other := overflow(bucket, object)
	if !isPath(object) {
		return other
	}
	if info, err := os.Lstat(s.file(other)); err == nil && info.Mode().IsRegular() {
		return other
	}
	return own
}

// room returns where to write the object: where it is, or where there is room for it. The lock is held.
func (s *Server) room(bucket, object string) place {
	p := s.place(bucket, object)
	if s.dir == "" || p.bucket != bucket || s.fits(p) {
		return p
	}
	return overflow(bucket, object)
}

// fits reports whether a file can be written at the place: no folder is there, and only folders are above it.
func (s *Server) fits(p place) bool {
	path := s.file(p)
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() {
		err = os.Remove(path) // works if the folder is empty: its objects are gone
		return err == nil
	}
	if err == nil {
		return true
	}

	for above := p.name; strings.Contains(above, "/"); {
		above = above[:strings.LastIndexByte(above, '/')]
		if info, err := os.Lstat(s.file(place{p.bucket, above})); err == nil {
			if !info.IsDir() {
				return false
			}
			break
		}
	}
	return len(filepath.Base(path)) <= longestWritten
}

// inside returns the request as fake-gcs-server must see it: with the object's place instead of its name. The lock is
// held.
func (s *Server) inside(r *http.Request, c call) *http.Request {
	if s.dir == "" || c.object == "" {
		return r
	}

	at := s.place(c.bucket, c.object)
	if at == (place{c.bucket, c.object}) {
		return r
	}

	target := "/download/storage/v1" + objectPath(at) // contents, by the JSON API or the XML API
	if strings.HasPrefix(r.URL.EscapedPath(), "/storage/v1/") {
		target = "/storage/v1" + objectPath(at)
	}
	out := r.Clone(r.Context())
	out.URL.Path, out.URL.RawPath = unescape(target), target
	return out
}

// objectPath returns the part of a URL that names an object.
func objectPath(p place) string {
	return "/b/" + url.PathEscape(p.bucket) + "/o/" + url.PathEscape(p.name)
}

// named restores the object's own name in a resource that fake-gcs-server has made.
func named(resource map[string]any) {
	bucket, _ := resource["bucket"].(string)
	name, _ := resource["name"].(string)
	own, ok := strings.CutSuffix(bucket, overflowSuffix)
	object, known := unescaped(name)
	if !ok || !known {
		return
	}

	resource["bucket"], resource["name"] = own, object
	resource["id"] = own + "/" + object
	for _, link := range []string{"selfLink", "mediaLink"} {
		if text, is := resource[link].(string); is {
			resource[link] = strings.Replace(text, objectPath(place{bucket, name}), objectPath(place{own, object}), 1)
		}
	}
}
