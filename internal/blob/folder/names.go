package folder

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"coppice/internal/blob"
)

// version is one generation of an object.
type version struct {
	generation, base blob.Generation // base is the one before, 0 for the first
	size             int64
	crc              uint32
	id               string // of the write
	updated          time.Time
	strays           []string // beside it: contents that will never be an object's
}

func newID() string { return strings.ToLower(rand.Text()) }
func (v version) attrs(name string) blob.Attrs {
	return blob.Attrs{Name: name, Size: v.size, Generation: v.generation, CRC32C: v.crc, Updated: v.updated}
}

// mark is the name of the empty file that makes v current, and contents of the file beside it.
func (v version) mark() string {
	return fmt.Sprintf("%d.%d.%d.%08x.%s", v.generation, v.base, v.size, v.crc, v.id)
}
func (v version) contents() string { return fmt.Sprintf("%d.%s", v.base, v.id) }

// parseMark reads a mark's name, and refuses every other.
func parseMark(name string) (v version, ok bool) {
	n, _ := fmt.Sscanf(name, "%d.%d.%d.%x.%s", &v.generation, &v.base, &v.size, &v.crc, &v.id)
	return v, n == 5 && v.mark() == name && 0 <= v.base && v.base < v.generation && v.size >= 0 &&
		!strings.Contains(v.id, ".")
}

// parseBase reads which generation a file of contents was written to follow.
func parseBase(name string) (base blob.Generation, ok bool) {
	number, id, _ := strings.Cut(name, ".")
	n, err := strconv.ParseUint(number, 10, 63)
	return blob.Generation(n), err == nil && id != "" && !strings.Contains(id, ".")
}

// Ends of directories' names, which encoded names do not have, and the longest: file systems take 255 bytes.
const (
	objectEnd = "@"  // it is an object
	partEnd   = "+/" // the name goes on below
	longest   = 200
)

// odd is what a name may not have on each system. Some take capitals for small letters, and drop a dot at the end.
var odd = regexp.MustCompile(`[^a-z0-9_=.-]|^\.|\.$`)

// encode returns the object's directory.
func encode(name string) string {
	at := strings.LastIndexByte(name, '/') + 1
	return path.Join(encodeFolder(name), encodePart(name[at:])+objectEnd)
}

// encodeFolder returns the directory of all objects whose names begin with the parts of name before its last slash.
func encodeFolder(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = encodePart(part)
	}
	parts[len(parts)-1] = ""
	return path.Join(objects, path.Join(parts...))
}

func encodePart(part string) (out string) {
	part = odd.ReplaceAllStringFunc(part, func(c string) string {
		return "%" + strings.ReplaceAll(fmt.Sprintf("% x", c), " ", "%")
	})
	for ; len(part) > longest; part = part[longest:] {
		out += part[:longest] + partEnd
	}
	return out + part
}

// decode returns the name of the object whose directory this is.
func decode(dir string) (name string, ok bool) {
	escaped := strings.TrimSuffix(strings.TrimPrefix(dir, objects+"/"), objectEnd)
	name, err := url.PathUnescape(strings.ReplaceAll(escaped, partEnd, ""))
	return name, err == nil && blob.ValidName(name) == nil && encode(name) == dir
}
