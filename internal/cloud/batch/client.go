package batch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	batch "cloud.google.com/go/batch/apiv1"
	"cloud.google.com/go/batch/apiv1/batchpb"
	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"coppice/internal/cloud"
	"coppice/internal/problem"
)

const service = "Batch"

// Options say where jobs run.
type Options struct {
	Project  string
	Location string // region
	// Endpoint is host:port of an emulator on this machine, used without TLS and credentials; "" is Google Cloud with
	// the application default credentials.
	Endpoint string
}

// Time limits of calls. A call that changes something is retried while the service is unavailable, for retryFor.
const (
	callLimit  = 60 * time.Second
	retryFor   = 2 * time.Minute
	cancelFor  = 10 * time.Minute // until a cancelled job has released its machines
	notFoundOK = 10 * time.Second // a job that was just created may not be readable at once
)

// Client submits and watches jobs in one project and region. It is safe for concurrent use.
type Client struct {
	c      *batch.Client
	parent string
	opts   Options
	poll   time.Duration // first pause between polls of a job
	look   time.Duration // how long to look for a job that was just created
}

// ErrNotExist means that there is no such job.
var ErrNotExist = errors.New("no such batch job")

var projectPattern = regexp.MustCompile(`^[a-z0-9:.-]+$`)

// New connects. Missing settings or credentials, and an endpoint that is not on this machine, are a *cloud.SetupError.
func New(ctx context.Context, o Options) (*Client, error) {
	if !projectPattern.MatchString(o.Project) {
		return nil, &cloud.SetupError{What: fmt.Sprintf("%.80q is not a project", o.Project),
			Hint: "set COPPICE_PROJECT"}
	}
	if !regionPattern.MatchString(o.Location) {
		return nil, &cloud.SetupError{What: fmt.Sprintf("%.80q is not a region", o.Location),
			Hint: "set COPPICE_LOCATION, for example to us-central1"}
	}

	var opts []option.ClientOption
	for _, dial := range cloud.FailFast() {
		opts = append(opts, option.WithGRPCDialOption(dial))
	}
	if o.Endpoint != "" {
		if err := cloud.Loopback("COPPICE_BATCH_ENDPOINT", o.Endpoint); err != nil {
			return nil, err
		}
		opts = append(opts, option.WithEndpoint(o.Endpoint), option.WithoutAuthentication(),
			option.WithTelemetryDisabled(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}

	c, err := batch.NewClient(ctx, opts...)
	if err != nil {
		return nil, cloud.Dial(service, err)
	}
	return &Client{c: c, parent: "projects/" + o.Project + "/locations/" + o.Location, opts: o,
		poll: 500 * time.Millisecond, look: notFoundOK}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.c.Close() }

// Name is the full name of the job with the id.
func (c *Client) Name(id string) string { return c.parent + "/jobs/" + id }

// retry calls f until it succeeds or fails with anything but UNAVAILABLE, with growing pauses, for retryFor at most. It
// is for calls that change something; Google's library repeats only reads by itself.
func retry[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	return backoff.Retry(ctx, func() (T, error) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		v, err := f(ctx)
		if err != nil && status.Code(err) != codes.Unavailable {
			return v, backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: 200 * time.Millisecond, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: 10 * time.Second,
	}), backoff.WithMaxElapsedTime(retryFor))
}

// fail turns the error of a call about the named job into ErrNotExist or one of package cloud's.
func (c *Client) fail(name string, err error) error {
	if status.Code(err) == codes.NotFound {
		return fmt.Errorf("%s: %w", name, ErrNotExist)
	}
	return cloud.FromStatus(service, name, "", err)
}

// Submit creates the job and returns its full name. If a job with this id exists already for the same plan (PlanLabel),
// existed is true and nothing changes; if it exists for another plan, the error is of the kind problem.Conflict. A job
// that breaks a rule of Batch, or is for another region than the client's, is of the kind problem.Input, and nothing is
// sent. A job without a region gets the client's.
func (c *Client) Submit(ctx context.Context, j Job) (name string, existed bool, err error) {
	if j.Location == "" {
		j.Location = c.opts.Location
	}
	if j.Location != c.opts.Location {
		return "", false, broken("region", "Location",
			fmt.Sprintf("%.80q is not %s, where jobs are submitted", j.Location, c.opts.Location))
	}

	job, err := Build(j)
	if err != nil {
		return "", false, err
	}

	// It may have been submitted before.
	name = c.Name(j.ID)
	got, err := c.get(ctx, name)
	existed = err == nil
	if !existed {
		if status.Code(err) != codes.NotFound {
			return "", false, cloud.FromStatus(service, name, "", err)
		}
		// Another launcher may create it at the same time: then existed is true after all.
		if got, existed, err = c.create(ctx, j.ID, job); err != nil {
			return "", false, err
		}
	}

	// Repeating our own request returns the first job without an error, so the plan is compared in any case.
	if has, want := got.GetLabels()[PlanLabel], j.Labels[PlanLabel]; has != want {
		return "", false, problem.New(problem.Conflict, "batch job %s exists and was made for another plan (%s, not "+
			"%s); use another sweep id, or delete that job", name, has, want)
	}
	return name, existed, nil
}

// requestSpace is the namespace of request ids, a random UUID.
var requestSpace = uuid.MustParse("5a1d2c0e-7a3f-4f0e-9c55-0b7c5ad0f6c1")

// requestID makes the id of the request that creates a job from the job's full name and its plan. Launchers that were
// started twice send the same id, and Batch then makes one job. again counts the jobs of this name that were created
// and are gone, so that a job can be created anew.
func requestID(name, plan string, again int) string {
	return uuid.NewSHA1(requestSpace, fmt.Appendf(nil, "%s\x00%s\x00%d", name, plan, again)).String()
}

// maxAgain bounds how often a job may be deleted and created again within the hour in which Batch remembers requests.
const maxAgain = 5

// create creates the job, or finds the one that another process has created meanwhile (existed).
//
// Batch remembers a request for an hour and answers it with the original job, even if that was deleted since; then
// nothing would run. So if the job that was returned cannot be found, it is requested again with another request id.
func (c *Client) create(ctx context.Context, id string, job *batchpb.Job) (got *batchpb.Job, existed bool, err error) {
	name := c.Name(id)
	for again := range maxAgain {
		request := requestID(name, job.GetLabels()[PlanLabel], again)
		got, err = retry(ctx, func(ctx context.Context) (*batchpb.Job, error) {
			return c.c.CreateJob(ctx, &batchpb.CreateJobRequest{Parent: c.parent, JobId: id, Job: job,
				RequestId: request})
		})
		existed = status.Code(err) == codes.AlreadyExists
		if err != nil && !existed {
			return nil, false, cloud.FromStatus(service, "create "+name,
				"the project or region may be wrong: check COPPICE_PROJECT and COPPICE_LOCATION", err)
		}

		found, err := c.getExisting(ctx, name)
		if err == nil || existed || !errors.Is(err, ErrNotExist) {
			// The job is there, or it belongs to another process, or asking has failed. Only a job that was created
			// here and is gone is requested again. One that another process made with the same request id is the same
			// job.
			return found, existed, err
		}
	}
	return got, false, fmt.Errorf("batch job %s was created %d times and was gone each time; something deletes it: "+
		"use another sweep id", name, maxAgain)
}

// getExisting gets a job that was just created and may not be readable yet: while it is not found, it is looked up
// again, for c.look at most.
func (c *Client) getExisting(ctx context.Context, name string) (*batchpb.Job, error) {
	j, err := backoff.Retry(ctx, func() (*batchpb.Job, error) {
		j, err := c.get(ctx, name)
		if err != nil && status.Code(err) != codes.NotFound {
			return nil, backoff.Permanent(err)
		}
		return j, err
	}, backoff.WithMaxElapsedTime(c.look))
	if err != nil {
		return nil, c.fail(name, err)
	}
	return j, nil
}

// get gets a job, with the service's own error.
func (c *Client) get(ctx context.Context, name string) (*batchpb.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return c.c.GetJob(ctx, &batchpb.GetJobRequest{Name: name})
}

// Get returns the job's status, or ErrNotExist.
func (c *Client) Get(ctx context.Context, name string) (Status, error) {
	j, err := c.get(ctx, name)
	if err != nil {
		return Status{}, c.fail(name, err)
	}
	return statusOf(j), nil
}

// Cancel stops the job, waits until it has stopped, at most ten minutes, and returns its last status. A job that has
// finished is left as it is. A cancelled job can still be read and listed. If the job is being deleted, the wait ends
// with ErrNotExist.
func (c *Client) Cancel(ctx context.Context, name string) (Status, error) {
	s, err := c.Get(ctx, name)
	if err != nil || s.State.Finished() {
		return s, err
	}

	if s.State != Cancelling && s.State != Deleting {
		_, err = retry(ctx, func(ctx context.Context) (*batch.CancelJobOperation, error) {
			return c.c.CancelJob(ctx, &batchpb.CancelJobRequest{Name: name})
		})
		// FAILED_PRECONDITION says that another process has cancelled it, or that it has just ended. Both are fine: the
		// state that Wait sees decides.
		if err != nil && status.Code(err) != codes.FailedPrecondition {
			return s, c.fail(name, err)
		}
	}
	return c.Wait(ctx, name, cancelFor)
}

// Delete removes a finished job, and returns once its id is free, or with an error after ten minutes. It is no error if
// there is no such job.
func (c *Client) Delete(ctx context.Context, name string) error {
	_, err := retry(ctx, func(ctx context.Context) (*batch.DeleteJobOperation, error) {
		return c.c.DeleteJob(ctx, &batchpb.DeleteJobRequest{Name: name})
	})
	if err == nil {
		// The wait ends with ErrNotExist, whatever the state before.
		_, err = c.waitFor(ctx, name, cancelFor, func(Status) bool { return false })
	} else {
		err = c.fail(name, err)
	}
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	return err
}

// Wait returns the last status once the job has finished, or an error if that takes longer than limit.
func (c *Client) Wait(ctx context.Context, name string, limit time.Duration) (Status, error) {
	return c.waitFor(ctx, name, limit, func(s Status) bool { return s.State.Finished() })
}

// waitFor asks for the job's status until done returns true for it, and returns that status. The pauses grow from
// c.poll to 15 s. After limit it returns an error with the last status.
func (c *Client) waitFor(ctx context.Context, name string, limit time.Duration,
	done func(Status) bool) (Status, error) {
	errBusy := errors.New("the job has not come to rest")
	s, err := backoff.Retry(ctx, func() (Status, error) {
		s, err := c.Get(ctx, name)
		switch {
		case err != nil:
			return s, backoff.Permanent(err)
		case !done(s):
			return s, fmt.Errorf("%s after %v: %w, it is %s", name, limit, errBusy, s.State)
		}
		return s, nil
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: c.poll, RandomizationFactor: 0.1, Multiplier: 1.5, MaxInterval: 15 * time.Second,
	}), backoff.WithMaxElapsedTime(limit))
	return s, err
}
