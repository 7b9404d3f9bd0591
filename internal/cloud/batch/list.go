package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/api/iterator"
)

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
	return func(yield func(Status, error) bool) {
		for it := c.c.ListJobs(ctx, r); ; {
			j, err := it.Next()
			if errors.Is(err, iterator.Done) {
				return
			}
			if err != nil {
				yield(Status{}, c.fail(c.parent, err))
				return
			}
			if !yield(statusOf(j), nil) {
				return
			}
		}
	}
}
