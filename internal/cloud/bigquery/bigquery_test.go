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
	"coppice/internal/problem"
)

// service is BigQuery as the adapter meets it: what it answers, and what it was asked.
type service struct {
	dry      func() (int, any) // to a dry run
	modified uint64            // of each table
	export   func(call int) (int, any)
	results  func(call int) (int, any)
	asked    []string // METHOD path
	queries  []string
}

func (s *service) open(t *testing.T) *bigquery.Client {
	t.Helper()
	count := map[string]int{}
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
				t.Errorf("a job of %s: %v", text, err)
			}
			s.queries = append(s.queries, job.Configuration.Query.Query)
			if code, answer = s.dry(); !job.Configuration.DryRun {
				code, answer = s.export(count[r.Method+path])
			}
		case strings.Contains(path, "/queries/"):
			code, answer = s.results(count[r.Method+path])
		case strings.Contains(path, "/tables/"):
			answer = &bq.Table{LastModifiedTime: s.modified}
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	c, err := bigquery.New(t.Context(), "p", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func refusal(code int, message string) (int, any) {
	return code, map[string]any{"error": map[string]any{"code": code, "message": message}}
}

func looked(kind string, fields ...*bq.TableFieldSchema) func() (int, any) {
	return func() (int, any) {
		return http.StatusOK, &bq.Job{Statistics: &bq.JobStatistics{TotalBytesProcessed: 5 << 30,
			Query: &bq.JobStatistics2{StatementType: kind, Schema: &bq.TableSchema{Fields: fields},
				ReferencedTables: []*bq.TableReference{{ProjectId: "p", DatasetId: "d", TableId: "t"}}}}}
	}
}

// TestLook: the bytes are the dry run's, and the identity is that of text, columns and the tables' last change.
func TestLook(t *testing.T) {
	s := &service{dry: looked("SELECT", &bq.TableFieldSchema{Name: "a", Type: "NUMERIC"}), modified: 7}
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
		t.Error("the same query of the same table has another identity")
	}
	seen := map[string]string{first: "the first"}
	for what, change := range map[string]func() string{
		"another text":    func() string { return "SELECT a FROM t WHERE a > 0" },
		"a changed table": func() string { s.modified = 8; return "SELECT a FROM t" },
		"another column": func() string {
			s.dry = looked("SELECT", &bq.TableFieldSchema{Name: "a", Type: "STRING"})
			return "SELECT a FROM t"
		},
	} {
		id := identity(change())
		if seen[id] != "" {
			t.Errorf("%s has the identity of %s", what, seen[id])
		}
		seen[id] = what
	}
	for _, asked := range s.asked {
		if strings.Contains(asked, "queries/") {
			t.Errorf("looking ran a query: %s", asked)
		}
	}
}

// TestLookRefuses what has no place in a table, names nothing that is there, or changes something.
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
		{func() (int, any) { return http.StatusOK, &bq.Job{} }, problem.Other, "no statistics"},
	} {
		s := &service{dry: c.dry}
		_, _, err := s.open(t).Look(t.Context(), "SELECT 1")
		if err == nil || !strings.Contains(err.Error(), c.want) || c.kind != problem.Other && !problem.Is(err, c.kind) {
			t.Errorf("%v; expected the kind %v and %q", err, c.kind, c.want)
		}
	}
}

// TestExport: a job whose answer was lost is ours, and its end is waited for, however long it takes.
func TestExport(t *testing.T) {
	s := &service{dry: looked("SELECT"),
		export: func(int) (int, any) { return refusal(409, "Already Exists: Job p:US.coppice-export-1") },
		results: func(call int) (int, any) {
			return http.StatusOK, &bq.GetQueryResultsResponse{JobComplete: call == 3}
		}}
	if err := s.open(t).Export(t.Context(), "coppice-export-1", "SELECT a FROM t", "gs://b/f/*.parquet"); err != nil {
		t.Fatal(err)
	}
	want := "EXPORT DATA OPTIONS(uri='gs://b/f/*.parquet', format='PARQUET', overwrite=true) AS\nSELECT a FROM t"
	if s.queries[0] != want {
		t.Errorf("ran %q, expected %q", s.queries[0], want)
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
		t.Error("a place with a quote was accepted")
	}
}

// TestInterruptedExportIsCancelled, so that nothing is paid for that nobody waits for.
func TestInterruptedExportIsCancelled(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := &service{dry: looked("SELECT"), export: func(int) (int, any) { return http.StatusOK, &bq.Job{} },
		results: func(int) (int, any) {
			stop()
			return http.StatusOK, &bq.GetQueryResultsResponse{}
		}}
	if err := s.open(t).Export(ctx, "e", "SELECT 1", "gs://b/f/*.parquet"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected %v", err, context.Canceled)
	}
	if last := s.asked[len(s.asked)-1]; last != "POST p/jobs/e/cancel" {
		t.Errorf("the last call was %s, expected that the job is cancelled", last)
	}
}
