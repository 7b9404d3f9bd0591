package world

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	bq "google.golang.org/api/bigquery/v2"

	"coppice/localemu/internal/httpjson"
)

// warehouse is BigQuery as staging uses it. A table is a folder of Parquet files, bigquery/PROJECT/DATASET/TABLE of the
// data folder.
//
// Not imitated, and refused: every statement but SELECT * FROM `TABLE` and its export, which copies the files as they
// are. A job has ended when it is answered, costs nothing and is in no location; a dry run knows no columns.
type warehouse struct {
	dir, storage string // storage is the address of the bucket's emulator
}

var (
	// A name has no character that matches others in filepath.Glob, so a wildcard table is no table here.
	selects = regexp.MustCompile("(?is)^\\s*SELECT\\s+\\*\\s+FROM\\s+`([^./`*?[\\\\]+)\\.([^./`*?[\\\\]+)\\." +
		"([^./`*?[\\\\]+)`\\s*$")
	exports = regexp.MustCompile(`(?is)^EXPORT DATA OPTIONS\(uri='gs://([^/']+)/([^']*)\*\.parquet', ` +
		`format='PARQUET', overwrite=true\) AS\s(.*)$`)
)

// insert answers the call that starts a query. The only query that it runs selects a whole table, maybe within an
// export to Cloud Storage, as staging writes them. The answer says how many bytes the table has. If the query exports
// and is not a dry run, the table's files are copied to the bucket before the answer.
func (q *warehouse) insert(r *http.Request) (any, error) {
	var job bq.Job
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&job); err != nil {
		return nil, httpjson.Errorf(http.StatusBadRequest, "not a job: %v", err)
	}
	if job.Configuration == nil || job.Configuration.Query == nil {
		return nil, httpjson.Errorf(http.StatusBadRequest, "a job without a query")
	}
	statement := job.Configuration.Query.Query
	export := exports.FindStringSubmatch(statement)
	if export != nil {
		statement = export[3]
	}
	m := selects.FindStringSubmatch(statement)
	if m == nil {
		return nil, httpjson.Errorf(http.StatusBadRequest, "localemu runs SELECT * FROM `PROJECT.DATASET.TABLE` only, "+
			"not %.80q", statement)
	}

	files, table, err := q.filesOf(m[1], m[2], m[3])
	exporting := export != nil && !job.Configuration.DryRun
	for i := 0; err == nil && exporting && i < len(files); i++ {
		err = q.uploadFile(r, files[i], export[1], fmt.Sprintf("%s%012d.parquet", export[2], i))
	}
	job.Statistics = &bq.JobStatistics{TotalBytesProcessed: table.NumBytes, Query: &bq.JobStatistics2{
		StatementType:    "SELECT",
		ReferencedTables: []*bq.TableReference{{ProjectId: m[1], DatasetId: m[2], TableId: m[3]}}}}
	return &job, err
}

// filesOf returns the paths of a table's files. t has their size in bytes and when the last of them was changed, in
// milliseconds since 1970. A table without files is not found.
func (q *warehouse) filesOf(project, dataset, name string) (files []string, t bq.Table, err error) {
	files, err = filepath.Glob(filepath.Join(q.dir, project, dataset, name, "*.parquet"))
	if err == nil && len(files) == 0 {
		err = httpjson.Errorf(http.StatusNotFound, "Not found: Table %s:%s.%s", project, dataset, name)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return nil, t, err
		}
		t.NumBytes += info.Size()
		t.LastModifiedTime = max(t.LastModifiedTime, uint64(info.ModTime().UnixMilli()))
	}
	return files, t, err
}

// uploadFile copies a file to an object of the local cloud's storage, through the storage's own API.
func (q *warehouse) uploadFile(r *http.Request, file, bucket, object string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	put, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+q.storage+"/upload/storage/v1/b/"+
		bucket+"/o?uploadType=media&name="+url.QueryEscape(object), f)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(put)
	if err == nil {
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			err = httpjson.Errorf(answer.StatusCode, "export to gs://%s/%s: %s", bucket, object, answer.Status)
		}
	}
	return err
}

// table answers when a table has changed last.
func (q *warehouse) table(r *http.Request) (any, error) {
	_, t, err := q.filesOf(r.PathValue("project"), r.PathValue("dataset"), r.PathValue("table"))
	return &t, err
}
