//go:build unix

package batchemu

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// defaultPage and maxPage bound a page of a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

// ListJobs lists the jobs of a project and location, by name, or by the time of their creation, the latest first.
func (s *Server) ListJobs(_ context.Context, r *batchpb.ListJobsRequest) (*batchpb.ListJobsResponse, error) {
	if !parentPattern.MatchString(r.GetParent()) {
		return nil, invalid("parent %.200q is not projects/PROJECT/locations/LOCATION", r.GetParent())
	}
	keep, err := parseFilter(r.GetFilter())
	if err != nil {
		return nil, err
	}
	var latestFirst bool
	switch r.GetOrderBy() {
	case "", "name":
	case "create_time desc":
		latestFirst = true
	default:
		return nil, unimitated("lists in the order of " + r.GetOrderBy())
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]*job{}
	for name, j := range s.jobs {
		if !strings.HasPrefix(name, r.GetParent()+"/jobs/") || !keep(j.spec.GetLabels()) {
			continue
		}
		key := name
		if latestFirst {
			key = fmt.Sprintf("%020d/%s", j.spec.CreateTime.AsTime().UnixNano(), name)
		}
		found[key] = j
	}

	keys, next, err := page(found, latestFirst, r.GetPageSize(), r.GetPageToken())
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
	if r.GetFilter() != "" {
		return nil, unimitated("filters of tasks")
	}
	m := groupPattern.FindStringSubmatch(r.GetParent())
	if m == nil {
		return nil, invalid("parent %.200q is not .../jobs/JOB/taskGroups/group0", r.GetParent())
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[m[1]]
	if j == nil {
		return nil, notFound(m[1])
	}
	found := map[string]*task{}
	for _, t := range j.tasks {
		found[fmt.Sprintf("%09d", t.index)] = t
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

// labelTerm is one term of a filter, of AIP-160's language.
var labelTerm = regexp.MustCompile(`^labels\."?([a-z0-9_-]+)"? ?= ?("[a-z0-9_-]*"|[a-z0-9_-]+)$`)

// parseFilter reads labels."KEY" = "VALUE", joined by AND: a job is kept that has all of these labels.
func parseFilter(text string) (keep func(labels map[string]string) bool, err error) {
	if text == "" {
		return func(map[string]string) bool { return true }, nil
	}
	var wanted [][]string
	for term := range strings.SplitSeq(text, " AND ") {
		m := labelTerm.FindStringSubmatch(term)
		if m == nil {
			return nil, unimitated(fmt.Sprintf("the filter %.80q: it has labels.\"KEY\" = \"VALUE\", and AND", term))
		}
		wanted = append(wanted, []string{m[1], strings.Trim(m[2], `"`)})
	}
	return func(labels map[string]string) bool {
		return !slices.ContainsFunc(wanted, func(w []string) bool {
			value, has := labels[w[0]]
			return !has || value != w[1]
		})
	}, nil
}
