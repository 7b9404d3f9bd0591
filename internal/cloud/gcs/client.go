// Package gcs is blob.Store over Google Cloud Storage, and the only importer of its client library.
//
// No call waits forever: each has limits on its retries and on how long it may stall. Writes are safe to retry: one
// that succeeded but lost its answer is recognised by a mark in its metadata, so that a writer does not lose a race
// against itself.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"coppice/internal/blob"
	"coppice/internal/blob/folder"
	"coppice/internal/cloud"
)

const service = "Cloud Storage"

// Limits of a single call. As the service recommends, retries have growing pauses; an outage longer than retryFor is
// left to the caller.
const (
	retryFor   = 60 * time.Second
	callLimit  = 90 * time.Second // for a call with little or no data
	stallLimit = 90 * time.Second // between two bytes of a transfer
	chunkSize  = 16 << 20         // of a long upload; held in memory meanwhile
	smallPut   = 4 << 20          // an upload below this is a single request
)

// Client opens Stores with one set of credentials. It is safe for concurrent use.
type Client struct {
	c      *storage.Client
	limits limits
}

// limits are the time limits of a call, as variables for tests.
type limits struct {
	call  time.Duration
	stall time.Duration
	small int
	chunk int
}

// New connects to the emulator named by STORAGE_EMULATOR_HOST (read by Google's library), else to Cloud Storage with
// the application default credentials. Without either, the error is a *cloud.SetupError. Options are for tests.
func New(ctx context.Context, opts ...option.ClientOption) (*Client, error) {
	c, err := storage.NewClient(ctx, append([]option.ClientOption{storage.WithJSONReads()}, opts...)...)
	if err != nil {
		return nil, cloud.Dial(service, err)
	}
	c.SetRetry(
		storage.WithBackoff(gax.Backoff{Initial: 200 * time.Millisecond, Max: 10 * time.Second, Multiplier: 2}),
		storage.WithMaxRetryDuration(retryFor),
		// Every call made here may be retried: reads, and conditional writes of whole objects.
		storage.WithPolicy(storage.RetryAlways),
		storage.WithErrorFunc(worthRetrying),
	)
	return &Client{c: c, limits: limits{callLimit, stallLimit, smallPut, chunkSize}}, nil
}

// worthRetrying reports whether the library should repeat a call after an error. It decides as the library does by
// itself, except that an emulator that is not running is not waited for.
func worthRetrying(err error) bool {
	if _, gone := cloud.NobodyAt(err); gone {
		return false
	}
	return storage.ShouldRetry(err)
}

// Open is New for a deployment's project. An empty project means that there is no cloud and all buckets are folders;
// then no credentials are needed.
func Open(ctx context.Context, project string) (*Client, error) {
	if project == "" {
		return New(ctx, option.WithoutAuthentication())
	}
	return New(ctx)
}

// Close closes the connections.
func (c *Client) Close() error { return c.c.Close() }

// Bucket returns the Store of the bucket's objects: of a folder if its name is an absolute path. It does not check that
// the bucket exists; if it does not, the first use returns an error of the environment.
func (c *Client) Bucket(name string) blob.Store {
	if filepath.IsAbs(name) {
		return folder.Bucket(name)
	}
	return &bucket{name: name, b: c.c.Bucket(name), limits: c.limits}
}

// convertError converts an error of the library into blob's, cloud's, or a wrapped one. action says what was done
// ("stat"), and name to which object; "" is the bucket as a whole.
func (b *bucket) convertError(action, name string, err error) error {
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
	case isAPI && api.Code == http.StatusRequestEntityTooLarge: // below the service's limit it is localemu's alone
		return &cloud.SetupError{What: "there is no room for " + what,
			Hint: "free space on the disk that has the local cloud's --data folder", Err: err}
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

// bucketMissing reports whether a 404 is about the bucket and not about the object. Only its text tells.
func bucketMissing(e *googleapi.Error) bool {
	return e.Code == http.StatusNotFound &&
		(strings.Contains(e.Message, "bucket does not exist") || strings.Contains(e.Body, "bucket does not exist"))
}

// rateLimited reports whether a 403 is for too many requests and not for a missing permission.
func rateLimited(e *googleapi.Error) bool {
	for _, item := range e.Errors {
		if strings.Contains(strings.ToLower(item.Reason), "ratelimit") || strings.Contains(strings.ToLower(item.Reason),
			"quota") {
			return true
		}
	}
	return false
}
