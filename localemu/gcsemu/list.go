package gcsemu

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"coppice/localemu/internal/httpjson"
)

// listing is a request for a list of objects. Source: https://cloud.google.com/storage/docs/json_api/v1/objects/list
type listing struct {
	prefix, delimiter string
	from, before      string // names >= from and < before; "" is no bound
	after             string // the last name or prefix of the previous page
	trailing          bool
	glob              *regexp.Regexp
	most              int
}

// mostListed is the maximum page size.
const mostListed = 1000

func parseListing(q url.Values) (l listing, err error) {
	for _, param := range []string{"softDeleted", "filter"} {
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

	if pattern := q.Get("matchGlob"); pattern != "" {
		if l.delimiter != "" {
			return l, httpjson.Errorf(http.StatusNotImplemented,
				"localemu does not imitate matchGlob with a delimiter")
		}
		if l.glob, err = compileGlob(pattern); err != nil {
			return l, httpjson.Errorf(http.StatusBadRequest, "Invalid matchGlob %.80q: %v", pattern, err)
		}
	}
	return l, nil
}

// list answers with a page of a bucket's objects.
func (s *Server) list(_ http.ResponseWriter, c *call) (any, error) {
	if err := s.allow(c, c.bucket, "storage.objects.list"); err != nil {
		return nil, err
	}
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

	names, prefixes, next := l.page(slices.Sorted(maps.Keys(b.objects)))
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

// page returns a page of the names, which must be in order. All that has one name, or one prefix, is on one page.
func (l listing) page(all []string) (names, prefixes []string, next string) {
	last := ""
	for _, name := range all {
		if !strings.HasPrefix(name, l.prefix) || name < l.from || l.before != "" && name >= l.before ||
			l.glob != nil && !l.glob.MatchString(name) {
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

// globTokens are the elements of a matchGlob pattern, and the expressions that they stand for. "**/" at the beginning
// of a part also stands for no part at all. Source:
// https://cloud.google.com/storage/docs/json_api/v1/objects/list#list-objects-and-prefixes-using-glob
var globTokens = regexp.MustCompile(`(?s)^(\*\*/|\*\*|\*|\?|\[[!^]?[^]]+\]|[{},]|\\.|[^\\\[])`)

// compileGlob translates a matchGlob pattern to a regular expression.
func compileGlob(pattern string) (*regexp.Regexp, error) {
	if !utf8.ValidString(pattern) {
		return nil, errors.New("it is not UTF-8")
	}
	var out strings.Builder
	out.WriteString(`(?s)\A`)
	braces := 0
	begins, braceBegins := true, false // a part of the path begins here, or did before the latest {
	for pattern != "" {
		token := globTokens.FindString(pattern)
		if token == "" {
			return nil, fmt.Errorf("at %.20q: a [ without ], or with nothing in it, or a \\ at the end", pattern)
		}
		pattern = pattern[len(token):]
		before := begins
		begins = false
		switch {
		case token == "**/" && before:
			out.WriteString(`(?:.*/)?`)
			begins = true
		case token == "**/":
			out.WriteString(`.*/`)
			begins = true
		case token == "**":
			out.WriteString(`.*`)
		case token == "*":
			out.WriteString(`[^/]*`)
		case token == "?":
			out.WriteString(`[^/]`)
		case len(token) > 1 && token[0] == '[':
			out.WriteString(globClass(token[1 : len(token)-1]))
		case token == "{":
			braces++
			out.WriteString(`(?:`)
			begins, braceBegins = before, before
		case token == "}" && braces > 0:
			braces--
			out.WriteByte(')')
		case token == "," && braces > 0:
			out.WriteByte('|')
			begins = braceBegins
		default:
			literal := strings.TrimPrefix(token, `\`)
			out.WriteString(regexp.QuoteMeta(literal))
			begins = literal == "/"
		}
	}
	if braces > 0 {
		return nil, errors.New("a { without }")
	}
	out.WriteString(`\z`)
	return regexp.Compile(out.String())
}

// globClass translates the inside of [...].
func globClass(inside string) string {
	var out strings.Builder
	out.WriteByte('[')
	if len(inside) > 1 && (inside[0] == '!' || inside[0] == '^') {
		inside = inside[1:]
		out.WriteString(`^/`)
	}
	for i, r := range inside {
		if r == '-' && i > 0 && i < len(inside)-1 {
			out.WriteByte('-')
			continue
		}
		fmt.Fprintf(&out, `\x{%x}`, r)
	}
	out.WriteByte(']')
	return out.String()
}

// mask is a parsed "fields" parameter: each name with what is wanted below it, none for all of it. Source:
// https://cloud.google.com/storage/docs/json_api#partial-response
type mask map[string]mask

// deepestFields bounds the nesting of selections.
const deepestFields = 20

// parseMask reads a selection such as items(name,metadata/k),nextPageToken.
func parseMask(text string) (mask, error) {
	if text == "" {
		return nil, nil
	}
	m, rest, ok := fieldList(text, 0)
	if !ok || rest != "" {
		return nil, httpjson.Errorf(http.StatusBadRequest, "invalid field selection %.80q", text)
	}
	return m, nil
}

// fieldList parses FIELD,FIELD,...
func fieldList(text string, deep int) (m mask, rest string, ok bool) {
	m = mask{}
	for {
		if rest, ok = m.field(text, deep); !ok || !strings.HasPrefix(rest, ",") {
			return m, rest, ok
		}
		text = rest[1:]
	}
}

// field parses NAME, NAME/FIELD or NAME(LIST), and adds it to m.
func (m mask) field(text string, deep int) (rest string, ok bool) {
	end := strings.IndexAny(text+",", ",/()")
	name := text[:end]
	rest = text[end:]
	if name == "" || deep > deepestFields {
		return rest, false
	}

	had, known := m[name]
	below := maps.Clone(had)
	if !known {
		below = mask{}
	}
	switch {
	case strings.HasPrefix(rest, "/"):
		rest, ok = below.field(rest[1:], deep+1)
	case strings.HasPrefix(rest, "("):
		var inner mask
		if inner, rest, ok = fieldList(rest[1:], deep+1); !ok || !strings.HasPrefix(rest, ")") {
			return rest, false
		}
		rest = rest[1:]
		maps.Copy(below, inner)
	default:
		below, ok = mask{}, true
	}
	if known && len(had) == 0 { // all of it already
		below = had
	}
	m[name] = below
	return rest, ok
}

// of returns the wanted part of a resource or a list of them.
func (m mask) of(v any) any {
	if len(m) == 0 {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, below := range m {
			if value, has := v[name]; has {
				out[name] = below.of(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = m.of(one)
		}
		return out
	}
	return v
}
