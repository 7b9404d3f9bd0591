// Package gcs is blob.Store over Google Cloud Storage, and the only importer of its client library.
//
// Nothing here waits for ever: every call has a bound on its retries and on how long it may stand still. Writes are safe
// to repeat: one that reached the service although its answer was lost is recognised by a mark in its metadata, so that
// nobody loses a race against himself.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"coppice/blob"
	"coppice/cloud"
)

const service = "Cloud Storage"

// Bounds of a single call. The service's own advice is to retry with growing pauses; an outage longer than retryFor is
// the caller's to handle.
const (
	retryFor   = 60 * time.Second
	callLimit  = 90 * time.Second // of a call with little or no contents
	stallLimit = 90 * time.Second // between two bytes of a transfer
	chunkSize  = 16 << 20         // of a long upload, in memory as long as it runs
	smallPut   = 4 << 20          // below which an upload is one request
)

// Client makes the Stores of one set of credentials. It may be used from any goroutine.
type Client struct {
	c      *storage.Client
	limits limits
}

// limits are the bounds of a call as variables, so that tests need not wait for them.
type limits struct {
	call  time.Duration
	stall time.Duration
	small int
	chunk int
}

// New connects to the emulator that STORAGE_EMULATOR_HOST names (Google's library reads it), else to Cloud Storage with
// the application default credentials. Without either it is a *cloud.SetupError. Options are for tests.
func New(ctx context.Context, opts ...option.ClientOption) (*Client, error) {
	c, err := storage.NewClient(ctx, append([]option.ClientOption{storage.WithJSONReads()}, opts...)...)
	if err != nil {
		return nil, cloud.Dial(service, err)
	}
	c.SetRetry(
		storage.WithBackoff(gax.Backoff{Initial: 200 * time.Millisecond, Max: 10 * time.Second, Multiplier: 2}),
		storage.WithMaxRetryDuration(retryFor),
		// Every call made here may be repeated: reads, and writes of a whole object under one condition.
		storage.WithPolicy(storage.RetryAlways),
		storage.WithErrorFunc(worthRetrying),
	)
	return &Client{c: c, limits: limits{callLimit, stallLimit, smallPut, chunkSize}}, nil
}

// worthRetrying is the library's own judgement, except that an emulator that is not there is not waited for.
func worthRetrying(err error) bool {
	if _, gone := cloud.NobodyAt(err); gone {
		return false
	}
	return storage.ShouldRetry(err)
}

// Close frees the connections.
func (c *Client) Close() error { return c.c.Close() }

// Bucket is the Store of the bucket's objects. It does not ask whether the bucket exists; the first use does, and says
// so with a *cloud.SetupError.
func (c *Client) Bucket(name string) blob.Store {
	return &bucket{name: name, b: c.c.Bucket(name), limits: c.limits}
}

// fail turns the library's error about the object into ours. name is "" when the bucket as a whole was asked.
func (b *bucket) fail(action, name string, err error) error {
	what := "gs://" + b.name + "/" + name
	var api *googleapi.Error
	isAPI := errors.As(err, &api)
	switch {
	case errors.Is(err, storage.ErrBucketNotExist), isAPI && bucketMissing(api):
		return &cloud.SetupError{
			What: "bucket gs://" + b.name + " does not exist",
			Hint: "check the COPPICE_*_BUCKET variables; terraform/ and localemu make the buckets",
			Err:  err,
		}
	case errors.Is(err, storage.ErrObjectNotExist):
		return fmt.Errorf("%s %s: %w", action, what, blob.ErrNotExist)
	case isAPI && api.Code == http.StatusPreconditionFailed:
		return fmt.Errorf("%s %s: %w", action, what, blob.ErrPrecondition)
	case isAPI && api.Code == http.StatusForbidden && !rateLimited(api):
		return cloud.Forbidden(what, err)
	case isAPI && api.Code == http.StatusUnauthorized:
		return cloud.Unauthorized(service, err)
	}

	if env := cloud.Environment(service, err); env != nil {
		return env
	}
	return fmt.Errorf("%s %s: %w", action, what, err)
}

// bucketMissing tells a 404 about the bucket from one about the object; the service says it in words only.
func bucketMissing(e *googleapi.Error) bool {
	return e.Code == http.StatusNotFound &&
		(strings.Contains(e.Message, "bucket does not exist") || strings.Contains(e.Body, "bucket does not exist"))
}

// rateLimited tells a 403 about too many requests from one about permissions.
func rateLimited(e *googleapi.Error) bool {
	for _, item := range e.Errors {
		if strings.Contains(strings.ToLower(item.Reason), "ratelimit") || strings.Contains(strings.ToLower(item.Reason), "quota") {
			return true
		}
	}
	return false
}
