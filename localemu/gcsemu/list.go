//go:build unix

package gcsemu

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// listing is a request for a list of objects. Source: https://cloud.google.com/storage/docs/json_api/v1/objects/list
type listing struct {
	prefix, delimiter  string
	from, before       string // names >= from and < before; "" is no bound
	after              string // the last name or prefix of the previous page
	trailing, versions bool
	glob               *regexp.Regexp
	most               int
}

// mostListed is the maximum page size.
const mostListed = 1000

func parseListing(q url.Values) (listing, error) {
	trailing, _ := strconv.ParseBool(q.Get("includeTrailingDelimiter")) // Python writes True
	versions, _ := strconv.ParseBool(q.Get("versions"))
	l := listing{
		prefix: q.Get("prefix"), delimiter: q.Get("delimiter"), from: q.Get("startOffset"), before: q.Get("endOffset"),
		trailing: trailing, versions: versions, most: mostListed,
	}
	if text := q.Get("maxResults"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return l, fmt.Errorf("Invalid value for maxResults: %.40q",
				text) //nolint:staticcheck // the service's words
		}
		if n > 0 {
			l.most = min(n, mostListed)
		}
	}

	after, err := base64.RawURLEncoding.DecodeString(q.Get("pageToken"))
	if err != nil {
		return l, fmt.Errorf("Invalid pageToken: %.40q", q.Get("pageToken")) //nolint:staticcheck // the service's words
	}
	l.after = string(after)
	if pattern := q.Get("matchGlob"); pattern != "" {
		if l.glob, err = compileGlob(pattern); err != nil {
			return l, fmt.Errorf("Invalid matchGlob %.80q: %w", pattern,
				err) //nolint:staticcheck // the service's words
		}
	}
	return l, nil
}

// listed is a page in the form of the JSON API.
type listed struct {
	Kind     string           `json:"kind"`
	Items    []map[string]any `json:"items,omitempty"`
	Prefixes []string         `json:"prefixes,omitempty"`
	Next     string           `json:"nextPageToken,omitempty"`
}

// list answers with a page of a bucket's objects. fake-gcs-server returns them in two lists if some are kept in the
// overflow folder (see place). The lock is held.
func (s *Server) list(r *http.Request, c call) *response {
	l, err := parseListing(r.URL.Query())
	if err != nil {
		return answer(http.StatusBadRequest, err.Error())
	}

	objects, a := s.resources(r, c.bucket, l.prefix, l.versions)
	if a != nil {
		return a
	}
	if s.dir != "" {
		if _, err := os.Stat(s.file(place{c.bucket + overflowSuffix, ""})); err == nil {
			others, a := s.resources(r, c.bucket+overflowSuffix, "", l.versions)
			if a != nil {
				return a
			}
			for _, o := range others {
				named(o)
			}
			objects = append(objects, others...)
		}
	}

	slices.SortStableFunc(objects, func(a, b map[string]any) int { return strings.Compare(nameOf(a), nameOf(b)) })
	body, err := json.Marshal(l.page(objects))
	if err != nil {
		return answer(http.StatusInternalServerError, err.Error())
	}
	out := &response{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}}}
	out.body.Write(body)
	return out
}

func nameOf(resource map[string]any) string {
	name, _ := resource["name"].(string)
	return name
}

// resources returns all objects with the prefix that fake-gcs-server has in a bucket.
func (s *Server) resources(r *http.Request, bucket, prefix string, versions bool) ([]map[string]any, *response) {
	all := r.Clone(r.Context())
	all.URL.Path = "/storage/v1/b/" + bucket + "/o"
	all.URL.RawPath = "/storage/v1/b/" + url.PathEscape(bucket) + "/o"
	all.URL.RawQuery = url.Values{"prefix": {prefix}, "versions": {strconv.FormatBool(versions)}}.Encode()

	a := s.ask(all)
	if a.status >= http.StatusMultipleChoices {
		return nil, a
	}
	var l listed
	decoder := json.NewDecoder(bytes.NewReader(a.body.Bytes()))
	decoder.UseNumber()
	if err := decoder.Decode(&l); err != nil {
		return nil, answer(http.StatusInternalServerError, fmt.Sprintf("list bucket %s: %v", bucket, err))
	}
	return l.Items, nil
}

// page returns a page of the objects, which must be in order. All that has one name, or one prefix, is on one page.
func (l listing) page(objects []map[string]any) listed {
	out := listed{Kind: "storage#objects"}
	last := ""
	for _, o := range objects {
		name := nameOf(o)
		if !l.wants(name) {
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
		if shown != last && len(out.Items)+len(out.Prefixes) >= l.most {
			out.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}

		if below && (len(out.Prefixes) == 0 || out.Prefixes[len(out.Prefixes)-1] != shown) {
			out.Prefixes = append(out.Prefixes, shown)
		}
		if !below || l.trailing && name == shown {
			out.Items = append(out.Items, o)
		}
		last = shown
	}
	return out
}

func (l listing) wants(name string) bool {
	return strings.HasPrefix(name, l.prefix) && name >= l.from && (l.before == "" || name < l.before) &&
		(l.glob == nil || l.glob.MatchString(name))
}
