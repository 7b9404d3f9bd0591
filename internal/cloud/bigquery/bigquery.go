// Package bigquery is the adapter of BigQuery: what a query reads and costs before it runs, and the export of its
// rows to Parquet in a bucket.
//
//	query ──dry run──▶ bytes, columns, tables ──▶ their last changes: what identifies the rows
//	query ──EXPORT DATA, a job with a name──▶ gs://BUCKET/FOLDER/*.parquet
//
// Google's generated client is used, as it comes with the other services' modules: cloud.google.com/go/bigquery would
// bring a second Apache Arrow for reading rows, which nothing here does.
package bigquery

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	bq "google.golang.org/api/bigquery/v2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"coppice/internal/cloud"
	"coppice/internal/problem"
)

// USDPerTiB is what reading a TiB costs on demand in the United States (https://cloud.google.com/bigquery/pricing,
// 2026-11). The first TiB of a month is free, and reservations are paid by slots.
const USDPerTiB = 6.25

const (
	maxTables = 200              // that one query reads, with views and functions
	waitLimit = 30 * time.Second // how long one call waits for a job; then it is asked again
	retryFor  = 2 * time.Minute  // how long a service that fails is asked again
	goodbye   = 10 * time.Second // for cancelling a job whose caller has gone
)

// Client runs queries in one project, which pays for them. It is not safe for concurrent use: Look notes for Export
// where a query's data are.
type Client struct {
	api       *bq.Service
	project   string
	locations map[string]string // of the data of queries; outside the US and the EU no job is found without
	pause     time.Duration     // before asking again, at first
}

// New opens BigQuery; endpoint is host:port of an emulator, without TLS and credentials, or empty.
func New(ctx context.Context, project, endpoint string) (*Client, error) {
	var options []option.ClientOption
	if endpoint != "" {
		options = []option.ClientOption{option.WithoutAuthentication(),
			option.WithEndpoint("http://" + endpoint + "/bigquery.googleapis.com/bigquery/v2/")}
	}
	api, err := bq.NewService(ctx, options...)
	if err != nil {
		return nil, cloud.Dial("BigQuery", err)
	}
	return &Client{api: api, project: project, locations: map[string]string{}, pause: time.Second / 2}, nil
}

// Look asks what a SELECT would read, without running it. bytes is what the query is paid for. identity is a hash that
// changes with the text of the query, its columns, and the last change of each table, view and function that it reads:
// if it is the same, the rows are. Errors of the kind problem.Input are: a statement that is no SELECT, a column of
// several values per row, an external table, whose changes BigQuery does not know, and more than maxTables tables.
func (c *Client) Look(ctx context.Context, query string) (bytes int64, identity string, err error) {
	// A dry run tells the bytes, the columns and the tables.
	job, err := c.insert(ctx, query, nil)
	switch {
	case err != nil:
		return 0, "", translate("the query", err)
	case job.Statistics == nil || job.Statistics.Query == nil:
		return 0, "", errors.New("BigQuery's answer to a dry run has no statistics")
	case job.JobReference != nil:
		c.locations[query] = job.JobReference.Location
	}

	q := job.Statistics.Query
	if kind := q.StatementType; kind != "SELECT" {
		return 0, "", problem.New(problem.Input, "the query is a statement of the type %.40q: give a SELECT", kind)
	}
	if q.Schema != nil {
		for _, f := range q.Schema.Fields {
			if f.Mode == "REPEATED" || f.Type == "RECORD" || f.Type == "STRUCT" {
				return 0, "", problem.New(problem.Input, "column %q holds several values (%s): select its parts, or "+
					"leave it out with SELECT * EXCEPT (%s)", f.Name, strings.ToLower(f.Mode+" "+f.Type), f.Name)
			}
		}
	}

	// When each table and function was last changed. Views are asked for, too: ReferencedTables has only the tables
	// behind them. The streaming buffer is part of a table's state, since rows in it do not count as a change yet.
	tables := slices.Concat(q.ReferencedTables, q.ReferencedLogicalViews)
	if n := len(tables) + len(q.ReferencedRoutines); n > maxTables {
		return 0, "", problem.New(problem.Input, "the query reads %d tables, views and functions, and may read %d", n,
			maxTables)
	}
	state := map[string]any{} // by name
	for _, t := range tables {
		name := t.ProjectId + "." + t.DatasetId + "." + t.TableId
		table, err := patiently(ctx, c, c.api.Tables.Get(t.ProjectId, t.DatasetId, t.TableId).
			Fields("type,lastModifiedTime,streamingBuffer,view(query)").Context(ctx).Do)
		if err != nil {
			return 0, "", translate("table "+name, err)
		}
		if table.Type == "EXTERNAL" {
			return 0, "", problem.New(problem.Input, "table %s is external, and BigQuery does not know when its rows "+
				"change: copy them into a table of its own, or name its files: gs://BUCKET/PATH", name)
		}
		state["table "+name] = table
	}
	for _, r := range q.ReferencedRoutines {
		name := "function " + r.ProjectId + "." + r.DatasetId + "." + r.RoutineId
		if state[name], err = patiently(ctx, c, c.api.Routines.Get(r.ProjectId, r.DatasetId, r.RoutineId).
			Fields("lastModifiedTime").Context(ctx).Do); err != nil {
			return 0, "", translate(name, err)
		}
	}
	text, err := json.Marshal([]any{query, q.Schema, state})
	return job.Statistics.TotalBytesProcessed, fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// insert starts a query as a job with the given name. If name is nil, it is a dry run: BigQuery says what the query
// would read, and runs nothing.
func (c *Client) insert(ctx context.Context, query string, name *bq.JobReference) (*bq.Job, error) {
	job := &bq.Job{JobReference: name, Configuration: &bq.JobConfiguration{DryRun: name == nil,
		Labels: map[string]string{"coppice": "stage"},
		Query:  &bq.JobConfigurationQuery{Query: query, UseLegacySql: new(false)}}}
	return patiently(ctx, c, c.api.Jobs.Insert(c.project, job).Context(ctx).Do)
}

// Export writes the rows of a SELECT as Parquet files to uri, gs://BUCKET/FOLDER/*.parquet, and returns when they are
// written. Look must have been called with the same text before: it learns where the query's tables are, and the job
// must run there. The job's id is given, so that a request whose answer was lost can be repeated without a second
// export. The job is cancelled if ctx ends, or if the service fails for too long.
func (c *Client) Export(ctx context.Context, id, query, uri string) error {
	if strings.ContainsAny(uri, "'\\\n") {
		return fmt.Errorf("%q is no place for an export", uri)
	}
	export := fmt.Sprintf("EXPORT DATA OPTIONS(uri='%s', format='PARQUET', overwrite=true) AS\n%s", uri, query)
	name := &bq.JobReference{ProjectId: c.project, JobId: id, Location: c.locations[query]}
	_, err := c.insert(ctx, export, name)
	var api *googleapi.Error
	if errors.As(err, &api) && api.Code == http.StatusConflict { // it is this job, and the first answer was lost
		err = nil
	}

	// Wait for its end.
	for ended := err != nil; !ended; {
		// The service answers when the job has ended, or after waitLimit; with the job's error if it has failed.
		var r *bq.GetQueryResultsResponse
		r, err = patiently(ctx, c, c.api.Jobs.GetQueryResults(c.project, id).Location(name.Location).MaxResults(0).
			TimeoutMs(waitLimit.Milliseconds()).Context(ctx).Do)
		if ended = err != nil || r.JobComplete; !ended {
			time.Sleep(c.pause)
		}
	}

	// If the waiting was given up, the job may run on and be paid for although nobody reads what it writes.
	if ctx.Err() != nil || err != nil && passing(err) {
		bye, stop := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer stop()
		_, _ = c.api.Jobs.Cancel(c.project, id).Location(name.Location).Context(bye).Do() // else it ends by itself
	}
	if err != nil && ctx.Err() == nil {
		err = translate("the export "+id, err)
	}
	return err
}

// patiently calls f until it succeeds or fails with an error that does not pass by itself (see passing), for retryFor
// at most. The generated client never repeats a call.
func patiently[T any](ctx context.Context, c *Client, f func(...googleapi.CallOption) (T, error)) (T, error) {
	again := backoff.NewExponentialBackOff()
	again.InitialInterval = c.pause
	return backoff.Retry(ctx, func() (T, error) {
		v, err := f()
		if err != nil && (ctx.Err() != nil || !passing(err)) {
			return v, backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithBackOff(again), backoff.WithMaxElapsedTime(retryFor))
}

// passing reports whether an error may pass by itself: the service or the network fails, or the service is asked too
// often. A local cloud that is not running and credentials that are refused (cloud.Environment) do not pass.
func passing(err error) bool {
	var api *googleapi.Error
	if errors.As(err, &api) {
		return api.Code >= 500 || api.Code == http.StatusTooManyRequests ||
			strings.Contains(strings.ToLower(err.Error()), "ratelimitexceeded")
	}
	var connection *url.Error
	return errors.As(err, &connection) && cloud.Environment("BigQuery", err) == nil
}

// translate turns the service's error about what ("the query") into one with a kind. A wrong query is problem.Input, an
// unknown table problem.NotFound, a used-up quota or missing billing problem.Environment. A missing role or login
// becomes one of package cloud's errors, as for any service.
func translate(what string, err error) error {
	var api *googleapi.Error
	if errors.As(err, &api) {
		switch api.Code {
		case http.StatusBadRequest:
			return problem.New(problem.Input, "BigQuery refuses %s: %s", what, api.Message)
		case http.StatusNotFound:
			return problem.New(problem.NotFound, "BigQuery does not find what %s names: %s", what, api.Message)
		case http.StatusForbidden:
			if word := err.Error(); strings.Contains(word, "Exceeded") || strings.Contains(word, "billing") {
				return problem.New(problem.Environment, "BigQuery refuses %s: %s", what, api.Message)
			}
			return cloud.Forbidden(what+" in BigQuery", err)
		case http.StatusUnauthorized:
			return cloud.Unauthorized("BigQuery", err)
		}
	}
	if env := cloud.Environment("BigQuery", err); env != nil {
		return env
	}
	return fmt.Errorf("BigQuery: %s: %w", what, err)
}
