package bigquery_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	bq "google.golang.org/api/bigquery/v2"

	"coppice/internal/cloud/bigquery"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// service stands for BigQuery: a test gives its answers, each as a status and a body, and it records what it was asked.
// call counts the calls of a kind from 1.
type service struct {
	dry     func() (int, any) // to a dry run
	table   *bq.Table         // each of them
	view    *bq.Table         // v, behind which is the table
	routine *bq.Routine
	export  func(call int) (int, any)
	results func(call int) (int, any)
	asked   []string // METHOD path
	jobs    []*bq.Job
}

// open starts a server for it and returns a client that does not pause between attempts.
func (s *service) open(t *testing.T) *bigquery.Client {
	t.Helper()
	count, exports := map[string]int{}, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, path, _ := strings.Cut(r.URL.Path, "/bigquery/v2/projects/")
		s.asked = append(s.asked, r.Method+" "+path)
		count[r.Method+path]++
		code, answer := http.StatusOK, any(map[string]any{})
		switch {
		case r.Method == http.MethodPost && path == "p/jobs":
			text, _ := io.ReadAll(r.Body)
			var job bq.Job
			if err := json.Unmarshal(text, &job); err != nil {
				t.Errorf("a job of %s: got error %v, want JSON of a job", text, err)
			}
			s.jobs = append(s.jobs, &job)
			if job.Configuration.DryRun {
				code, answer = s.dry()
			} else {
				exports++
				code, answer = s.export(exports)
			}
		case strings.Contains(path, "/queries/"):
			code, answer = s.results(count[r.Method+path])
		case strings.HasSuffix(path, "/tables/v") && s.view != nil:
			answer = s.view
		case strings.Contains(path, "/routines/") && s.routine != nil:
			answer = s.routine
		case strings.Contains(path, "/tables/"):
			answer = s.table
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	c := must.Get(bigquery.New(t.Context(), "p", strings.TrimPrefix(server.URL, "http://")))(t)
	c.Hurry()
	return c
}

// refusal is an answer in the form of Google's errors, whose reason is what stands before a colon in the message.
func refusal(code int, message string) (int, any) {
	reason, _, _ := strings.Cut(message, ":")
	return code, map[string]any{"error": map[string]any{"code": code, "message": message,
		"errors": []map[string]any{{"reason": reason}}}}
}

// looked is the answer to a dry run of a statement of a kind: 5 GiB in europe-west3, read from the table t, the view v
// and the function f.
func looked(kind string, fields ...*bq.TableFieldSchema) func() (int, any) {
	return func() (int, any) {
		return http.StatusOK, &bq.Job{JobReference: &bq.JobReference{Location: "europe-west3"}, Statistics: &bq.
			JobStatistics{TotalBytesProcessed: 5 << 30,
			Query: &bq.JobStatistics2{StatementType: kind, Schema: &bq.TableSchema{Fields: fields},
				ReferencedTables:       []*bq.TableReference{{ProjectId: "p", DatasetId: "d", TableId: "t"}},
				ReferencedLogicalViews: []*bq.TableReference{{ProjectId: "p", DatasetId: "d", TableId: "v"}},
				ReferencedRoutines:     []*bq.RoutineReference{{ProjectId: "p", DatasetId: "d", RoutineId: "f"}}}}}
	}
}

// TestLook: the bytes are the dry run's, and the identity is that of text, columns and the last changes of tables,
// views and functions.
func TestLook(t *testing.T) {
	s := &service{dry: looked("SELECT", &bq.TableFieldSchema{Name: "a", Type: "NUMERIC"}),
		table:   &bq.Table{LastModifiedTime: 7},
		view:    &bq.Table{Type: "VIEW", LastModifiedTime: 7, View: &bq.ViewDefinition{Query: "SELECT a FROM d.t"}},
		routine: &bq.Routine{LastModifiedTime: 7}}
	c := s.open(t)
	identity := func(query string) string {
		t.Helper()
		n, id, err := c.Look(t.Context(), query)
		if err != nil || n != 5<<30 || len(id) != 64 {
			t.Fatalf("%s: %d bytes, identity %q, %v; expected 5 GiB and no error", query, n, id, err)
		}
		return id
	}
	first := identity("SELECT a FROM t")
	if identity("SELECT a FROM t") != first {
		t.Error("the same query of unchanged tables has another identity, want the same")
	}
	// The changes add up, in any order: each has to make an identity that none before it had.
	seen := map[string]string{first: "the first"} // the case that has each identity
	for what, change := range map[string]func() string{
		"another text":    func() string { return "SELECT a FROM t WHERE a > 0" },
		"a changed table": func() string { s.table.LastModifiedTime = 8; return "SELECT a FROM t" },
		"a view of another text": func() string {
			s.view.View.Query = "SELECT a + 1 AS a FROM d.t"
			return "SELECT a FROM t"
		},
		"a view created anew": func() string { s.view.LastModifiedTime = 8; return "SELECT a FROM t" },
		"another function": func() string {
			s.routine = &bq.Routine{LastModifiedTime: 8}
			return "SELECT a FROM t"
		},
		"a streamed row": func() string {
			s.table.StreamingBuffer = &bq.Streamingbuffer{EstimatedRows: 1}
			return "SELECT a FROM t"
		},
		"another column": func() string {
			s.dry = looked("SELECT", &bq.TableFieldSchema{Name: "a", Type: "STRING"})
			return "SELECT a FROM t"
		},
	} {
		id := identity(change())
		if seen[id] != "" {
			t.Errorf("%s has the identity of %s, want another", what, seen[id])
		}
		seen[id] = what
	}
	for _, asked := range s.asked {
		if strings.Contains(asked, "queries/") {
			t.Errorf("looking ran a query: %s; want none", asked)
		}
	}
}

// TestLookRefuses: Look returns an error of the right kind, with the words of the case, for columns of several values,
// statements that change something, wrong queries, missing tables, rights and quotas, and external tables.
func TestLookRefuses(t *testing.T) {
	for _, c := range []struct {
		dry  func() (int, any)
		kind problem.Kind
		want string
	}{
		{looked("SELECT", &bq.TableFieldSchema{Name: "items", Mode: "REPEATED", Type: "STRING"}), problem.Input,
			`"items"`},
		{looked("SELECT", &bq.TableFieldSchema{Name: "geo", Type: "RECORD"}), problem.Input, "EXCEPT (geo)"},
		{looked("DROP_TABLE"), problem.Input, "DROP_TABLE"},
		{func() (int, any) { return refusal(400, "Syntax error at [1:8]") }, problem.Input, "[1:8]"},
		{func() (int, any) { return refusal(404, "Not found: Table p:d.t") }, problem.NotFound, "p:d.t"},
		{func() (int, any) { return refusal(403, "Access Denied") }, problem.Environment, "role"},
		{func() (int, any) { return refusal(403, "quotaExceeded: Custom quota exceeded") }, problem.Environment,
			"refuses the query: quotaExceeded: Custom quota"},
		{func() (int, any) { return http.StatusOK, &bq.Job{} }, problem.Other, "no statistics"},
		{looked("SELECT"), problem.Input, "table p.d.t is external"},
	} {
		s := &service{dry: c.dry, table: &bq.Table{Type: "EXTERNAL"}}
		_, _, err := s.open(t).Look(t.Context(), "SELECT 1")
		if err == nil || !strings.Contains(err.Error(), c.want) || c.kind != problem.Other && !problem.Is(err, c.kind) {
			t.Errorf("got error %v; expected one of the kind %v with %q in it", err, c.kind, c.want)
		}
	}
}

// TestExport: Export takes a job of its own id that exists already for its own, whose first answer was lost, and asks
// for its end until it has ended. A job that fails, and a place with a quote in it, are errors.
func TestExport(t *testing.T) {
	s := &service{dry: looked("SELECT"),
		export: func(int) (int, any) { return refusal(409, "Already Exists: Job p:US.coppice-export-1") },
		results: func(call int) (int, any) {
			return http.StatusOK, &bq.GetQueryResultsResponse{JobComplete: call == 3}
		}}
	must.Do(t, s.open(t).Export(t.Context(), "coppice-export-1", "SELECT a FROM t", "gs://b/f/*.parquet"))
	want := "EXPORT DATA OPTIONS(uri='gs://b/f/*.parquet', format='PARQUET', overwrite=true) AS\nSELECT a FROM t"
	if s.jobs[0].Configuration.Query.Query != want {
		t.Errorf("ran %q, expected %q", s.jobs[0].Configuration.Query.Query, want)
	}
	waited := strings.Count(strings.Join(s.asked, "\n"), "p/queries/coppice-export-1")
	if waited != 3 {
		t.Errorf("asked %d times for the end, expected 3: %v", waited, s.asked)
	}

	s.export = func(int) (int, any) { return http.StatusOK, &bq.Job{} }
	s.results = func(int) (int, any) { return refusal(400, "Resources exceeded") }
	c := s.open(t)
	if err := c.Export(t.Context(), "e", "SELECT 1", "gs://b/f/*.parquet"); !problem.Is(err, problem.Input) {
		t.Errorf("a failed job: %v, expected an error of the kind %s", err, problem.Input)
	}
	if err := c.Export(t.Context(), "e", "SELECT 1", "gs://b/'/*.parquet"); err == nil {
		t.Error("a place with a quote: got no error, want one")
	}
}

// TestAServiceThatFailsIsAskedAgain: each call is repeated while the service fails or says that it is asked too often.
// The export runs where the dry run found the tables, and is not cancelled when it has ended.
func TestAServiceThatFailsIsAskedAgain(t *testing.T) {
	faults := []func() (int, any){
		func() (int, any) { return refusal(503, "backendError: try again") },
		func() (int, any) { return refusal(403, "rateLimitExceeded: slower") },
		func() (int, any) { return refusal(429, "slower") },
	}
	fail := func(then func() (int, any)) func(int) (int, any) {
		return func(call int) (int, any) {
			if call <= len(faults) {
				return faults[call-1]()
			}
			return then()
		}
	}
	dry := fail(looked("SELECT"))
	looks := 0
	s := &service{table: &bq.Table{}, dry: func() (int, any) { looks++; return dry(looks) }}
	s.export = fail(func() (int, any) { return http.StatusOK, &bq.Job{} })
	s.results = fail(func() (int, any) { return http.StatusOK, &bq.GetQueryResultsResponse{JobComplete: true} })
	c := s.open(t)
	if _, _, err := c.Look(t.Context(), "SELECT 1"); err != nil {
		t.Fatalf("looking, after three failures: %v; want no error", err)
	}
	if err := c.Export(t.Context(), "e", "SELECT 1", "gs://b/f/*.parquet"); err != nil {
		t.Fatalf("exporting, after three failures each: %v; want no error", err)
	}
	last := s.jobs[len(s.jobs)-1]
	// looked's answers to dry runs are of europe-west3.
	if at := last.JobReference; at == nil || at.Location != "europe-west3" || at.JobId != "e" {
		t.Errorf("the export's job is %+v, expected e in europe-west3, where the rows are", at)
	}
	for _, asked := range s.asked {
		if strings.Contains(asked, "cancel") {
			t.Errorf("an export that has ended was cancelled: %s", asked)
		}
	}
}

// TestInterruptedExportIsCancelled: when the context ends while an export starts or runs, its job is cancelled, so that
// nothing is paid for that nobody waits for.
func TestInterruptedExportIsCancelled(t *testing.T) {
	for _, during := range []string{"the start", "the export"} {
		ctx, stop := context.WithCancel(t.Context())
		s := &service{dry: looked("SELECT"), export: func(int) (int, any) {
			if during == "the start" {
				stop()
			}
			return http.StatusOK, &bq.Job{}
		}, results: func(int) (int, any) {
			stop()
			return http.StatusOK, &bq.GetQueryResultsResponse{}
		}}
		if err := s.open(t).Export(ctx, "e", "SELECT 1", "gs://b/f/*.parquet"); !errors.Is(err, context.Canceled) {
			t.Errorf("during %s: %v, expected %v", during, err, context.Canceled)
		}
		if last := s.asked[len(s.asked)-1]; last != "POST p/jobs/e/cancel" {
			t.Errorf("during %s: the last call was %s, expected that the job is cancelled", during, last)
		}
	}
}
