//go:build unix

package batchemu

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// defaultPage and maxPage bound a page of a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

// ListJobs lists the jobs of a project and location, or of all its locations with "-".
func (s *Server) ListJobs(_ context.Context, r *batchpb.ListJobsRequest) (*batchpb.ListJobsResponse, error) {
	parent := r.GetParent()
	prefix, all := strings.CutSuffix(parent, "/locations/-")
	if all {
		prefix += "/locations/"
	} else {
		prefix = parent + "/jobs/"
	}
	if !all && !parentPattern.MatchString(parent) {
		return nil, invalid("parent %.200q is not projects/PROJECT/locations/LOCATION", parent)
	}

	keep, err := parseFilter(r.GetFilter())
	if err != nil {
		return nil, err
	}
	key, descending, err := jobOrder(r.GetOrderBy())
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]*job{}
	for name, j := range s.jobs {
		if strings.HasPrefix(name, prefix) && keep(jobField(j)) {
			found[key(j)] = j
		}
	}

	keys, next, err := page(found, descending, r.GetPageSize(), r.GetPageToken())
	if err != nil {
		return nil, err
	}

	out := &batchpb.ListJobsResponse{NextPageToken: next}
	for _, k := range keys {
		out.Jobs = append(out.Jobs, found[k].view())
	}
	return out, nil
}

// ListTasks lists the tasks of a job by index.
func (s *Server) ListTasks(_ context.Context, r *batchpb.ListTasksRequest) (*batchpb.ListTasksResponse, error) {
	keep, err := parseFilter(r.GetFilter())
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.groupJob(r.GetParent())
	if err != nil {
		return nil, err
	}

	found := map[string]*task{}
	for _, t := range j.tasks {
		state := t.state.String()
		if keep(func(field string) (string, bool) {
			return state, strings.EqualFold(field, "state") || field == "status.state"
		}) {
			found[fmt.Sprintf("%09d", t.index)] = t
		}
	}

	keys, next, err := page(found, false, r.GetPageSize(), r.GetPageToken())
	if err != nil {
		return nil, err
	}

	out := &batchpb.ListTasksResponse{NextPageToken: next}
	for _, k := range keys {
		out.Tasks = append(out.Tasks, j.taskView(found[k]))
	}
	return out, nil
}

// jobOrder returns the sort key for order_by.
func jobOrder(by string) (key func(*job) string, descending bool, err error) {
	field, descending := strings.CutSuffix(by, " desc")
	switch field {
	case "", "name":
		return func(j *job) string { return j.spec.Name }, descending, nil
	case "create_time":
		return func(j *job) string {
			return fmt.Sprintf("%020d/%s", j.spec.CreateTime.AsTime().UnixNano(), j.spec.Name)
		}, descending, nil
	}
	return nil, false, invalid("order_by %.80q: use name or create_time, with or without \" desc\"", by)
}

// page returns the keys of one page. A token is the last key of the previous page, so items that come and go between
// two calls neither repeat nor hide others.
func page[T any](found map[string]T, descending bool, size int32, token string) (keys []string, next string,
	err error) {
	if size < 0 {
		return nil, "", invalid("page_size is %d", size)
	}
	if size == 0 {
		size = defaultPage
	}
	size = min(size, maxPage)

	after, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, "", invalid("page_token %.80q is none of ours", token)
	}

	for k := range found {
		if token == "" || !descending && k > string(after) || descending && k < string(after) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	if descending {
		slices.Reverse(keys)
	}

	if len(keys) > int(size) {
		keys = keys[:size]
		next = base64.RawURLEncoding.EncodeToString([]byte(keys[size-1]))
	}
	return keys, next, nil
}

// fields gives the value of an item's field; ok is false when the item has no such field.
type fields func(field string) (value string, ok bool)

// jobField returns the fields by which jobs can be filtered.
func jobField(j *job) fields {
	return func(field string) (string, bool) {
		switch field {
		case "status.state":
			return j.state.String(), true
		case "name":
			return j.spec.Name, true
		case "uid":
			return j.spec.Uid, true
		}

		label, isLabel := strings.CutPrefix(field, "labels.")
		value, ok := j.spec.GetLabels()[label]
		return value, isLabel && ok
	}
}

// parseFilter reads the common part of AIP-160: FIELD = "value" and FIELD != "value", joined by AND. Label keys and
// values may be quoted. An item without the field passes no "=" and every "!=".
func parseFilter(text string) (func(fields) bool, error) {
	var terms []func(fields) bool
	p := filterParser{rest: text}
	for p.skip(); p.rest != ""; p.skip() {
		if len(terms) > 0 && !p.word("AND") {
			return nil, p.fail("expected AND")
		}

		p.skip()
		field := p.field()
		p.skip()
		negated := p.word("!=")
		if field == "" || !negated && !p.word("=") {
			return nil, p.fail(`expected FIELD = "value"`)
		}

		p.skip()
		want, ok := p.value()
		if !ok {
			return nil, p.fail("expected a value")
		}

		terms = append(terms, func(get fields) bool {
			value, has := get(field)
			return (has && value == want) != negated
		})
	}

	return func(get fields) bool {
		return !slices.ContainsFunc(terms, func(term func(fields) bool) bool { return !term(get) })
	}, nil
}

type filterParser struct {
	rest string
	read int
}

func (p *filterParser) fail(what string) error {
	return invalid("filter, at character %d: %s", p.read+1, what)
}

func (p *filterParser) take(n int) string {
	s := p.rest[:n]
	p.rest = p.rest[n:]
	p.read += n
	return s
}

func (p *filterParser) skip() { p.take(len(p.rest) - len(strings.TrimLeft(p.rest, " \t\n"))) }

func (p *filterParser) word(w string) bool {
	if !strings.HasPrefix(p.rest, w) {
		return false
	}
	p.take(len(w))
	return true
}

// field reads a.b."c".
func (p *filterParser) field() string {
	var out string
	for {
		part, ok := p.value()
		if !ok {
			return ""
		}
		out += part
		if !p.word(".") {
			return out
		}
		out += "."
	}
}

// value reads a bare word or a quoted text.
func (p *filterParser) value() (string, bool) {
	if p.word(`"`) {
		end := strings.IndexByte(p.rest, '"')
		if end < 0 {
			return "", false
		}
		v := p.take(end)
		p.take(1)
		return v, true
	}

	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	if n < 0 {
		n = len(p.rest)
	}
	return p.take(n), n > 0
}
