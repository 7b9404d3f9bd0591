package gcsemu

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"coppice/localemu/internal/httpjson"
)

// listing is a request for a list of objects. Source: https://cloud.google.com/storage/docs/json_api/v1/objects/list
type listing struct {
	prefix, delimiter string
	from, before      string // names >= from and < before; "" is no bound
	after             string // the last name or prefix of the previous page
	trailing          bool
	most              int
}

// mostListed is the maximum page size.
const mostListed = 1000

// parseListing reads which objects a request asks for. maxResults of 0, or of more than mostListed, gives pages of
// mostListed. pageToken is the last name or prefix of the page before, in base64.
func parseListing(q url.Values) (l listing, err error) {
	for _, param := range []string{"softDeleted", "filter", "matchGlob"} {
		if v := q.Get(param); v != "" && v != "false" { // Go's client always sends the first
			return l, httpjson.Errorf(http.StatusNotImplemented, "localemu does not imitate %s", param)
		}
	}
	l = listing{prefix: q.Get("prefix"), delimiter: q.Get("delimiter"), from: q.Get("startOffset"),
		before: q.Get("endOffset"), most: mostListed}
	l.trailing, _ = strconv.ParseBool(q.Get("includeTrailingDelimiter")) // Python writes True

	if text := q.Get("maxResults"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return l, httpjson.Errorf(http.StatusBadRequest, "Invalid value for maxResults: %.40q", text)
		}
		if n > 0 {
			l.most = min(n, mostListed)
		}
	}
	after, err := base64.RawURLEncoding.DecodeString(q.Get("pageToken"))
	if err != nil {
		return l, httpjson.Errorf(http.StatusBadRequest, "Invalid pageToken: %.40q", q.Get("pageToken"))
	}
	l.after = string(after)
	return l, nil
}

// list answers with a page of a bucket's objects.
func (s *Server) list(_ http.ResponseWriter, c *call) (any, error) {
	l, err := parseListing(c.q)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, err := s.bucket(c.bucket)
	if err != nil {
		return nil, err
	}

	names, prefixes, next := l.cutPage(slices.Sorted(maps.Keys(b.objects)))
	out := map[string]any{"kind": "storage#objects"}
	if len(names) > 0 {
		items := make([]any, len(names))
		for i, name := range names {
			items[i] = c.describe(b.objects[name])
		}
		out["items"] = items
	}
	if len(prefixes) > 0 {
		out["prefixes"] = prefixes
	}
	if next != "" {
		out["nextPageToken"] = next
	}
	return out, nil
}

// cutPage returns one page of a listing. all has the bucket's names in order. names are the objects to list, prefixes
// what stands for objects below a delimiter, as folders do, and next is the token of the following page, "" after the
// last one. A page holds at most l.most entries; a prefix that is shown together with an object of that very name is
// not split between two pages.
func (l listing) cutPage(all []string) (names, prefixes []string, next string) {
	last := "" // the entry before
	for _, name := range all {
		if !strings.HasPrefix(name, l.prefix) || name < l.from || l.before != "" && name >= l.before {
			continue
		}

		// An object whose name continues after a delimiter is represented by its prefix.
		shown, below := name, false
		if i := strings.Index(name[len(l.prefix):], l.delimiter); i >= 0 && l.delimiter != "" {
			shown, below = name[:len(l.prefix)+i+len(l.delimiter)], true
		}
		if l.after != "" && shown <= l.after {
			continue
		}
		if shown != last && len(names)+len(prefixes) >= l.most {
			return names, prefixes, base64.RawURLEncoding.EncodeToString([]byte(last))
		}

		if below && (len(prefixes) == 0 || prefixes[len(prefixes)-1] != shown) {
			prefixes = append(prefixes, shown)
		}
		if !below || l.trailing && name == shown {
			names = append(names, name)
		}
		last = shown
	}
	return names, prefixes, ""
}
