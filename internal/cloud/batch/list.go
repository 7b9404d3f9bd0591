package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/api/iterator"
)

// Tasks yields the job's tasks by index. It stops at the first error.
func (c *Client) Tasks(ctx context.Context, name string) iter.Seq2[Task, error] {
	it := c.c.ListTasks(ctx, &batchpb.ListTasksRequest{Parent: name + "/taskGroups/group0"})
	return sequence(it.Next, func(t *batchpb.Task) Task {
		return Task{Index: lastPart(t.GetName()), State: t.GetStatus().GetState().String(),
			Events: eventsOf(t.GetStatus().GetStatusEvents())}
	}, func(err error) error { return c.fail(name, err) })
}

// List yields the jobs of this project and region that have the label with the value, newest first. It stops at the
// first error. An empty label yields all jobs.
func (c *Client) List(ctx context.Context, label, value string) iter.Seq2[Status, error] {
	r := &batchpb.ListJobsRequest{Parent: c.parent, OrderBy: "create_time desc"}
	if label != "" {
		if !labelKeyPattern.MatchString(label) || !labelPattern.MatchString(value) {
			return func(yield func(Status, error) bool) {
				yield(Status{}, broken("label-value", "Labels",
					fmt.Sprintf("%.80q=%.80q is not a valid label", label, value)))
			}
		}
		r.Filter = fmt.Sprintf("labels.%q = %q", label, value)
	}
	return sequence(c.c.ListJobs(ctx, r).Next, statusOf, func(err error) error { return c.fail(c.parent, err) })
}

// sequence converts the library's iterator to Go's.
func sequence[From, To any](next func() (From, error), convert func(From) To, fail func(error) error) iter.Seq2[To,
	error] {
	return func(yield func(To, error) bool) {
		for {
			v, err := next()
			if errors.Is(err, iterator.Done) {
				return
			}
			if err != nil {
				var none To
				yield(none, fail(err))
				return
			}

			if !yield(convert(v), nil) {
				return
			}
		}
	}
}
