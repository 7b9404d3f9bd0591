package stager

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
)

// Warehouse is BigQuery, or whatever else selects rows by queries.
type Warehouse interface {
	// Look returns the bytes that a query would read, and what identifies the rows that it would select now.
	Look(ctx context.Context, query string) (bytes int64, identity string, err error)
	// Export writes the rows to Parquet files, gs://BUCKET/FOLDER/*.parquet, as a job called id.
	Export(ctx context.Context, id, query, uri string) error
}

// Exports says how the rows of queries become files: the warehouse writes them to objects in a bucket, and these are
// copied here and emptied afterwards. The bucket's lifecycle rule removes the empty objects, and those that a killed
// process leaves.
type Exports struct {
	Open   func(context.Context) (Warehouse, error)
	Store  blob.Store // the bucket
	Bucket string     // its name

	warehouse Warehouse // what Open returned; nil before the first use
}

// exportsFolder is the folder of the bucket that exports go to; terraform/buckets.tf has it, too.
const exportsFolder = "bigquery-exports/"

// lookAt asks the warehouse what the query of a place selects, and adds that to src: as one file that stands for the
// rows until exportQueries replaces it.
func (s *Stager) lookAt(ctx context.Context, place dataset.Place, src *source) error {
	e := s.Exports
	if e == nil || e.Open == nil {
		return problem.New(problem.Environment, "%s needs BigQuery and a bucket of Cloud Storage: set "+
			"COPPICE_PROJECT and COPPICE_DATASETS_BUCKET", place.Pattern)
	}
	var err error
	if e.warehouse == nil {
		if e.warehouse, err = e.Open(ctx); err != nil {
			return err
		}
	}
	bytes, identity, err := e.warehouse.Look(ctx, place.Query)
	if err != nil {
		return fmt.Errorf("%s: %w", place.Pattern, err)
	}
	src.queries = append(src.queries, place)
	src.queryBytes += bytes
	src.files = append(src.files, table.File{URI: place.Pattern, Bytes: bytes, Checksum: "query:" + identity})
	return nil
}

// exportQueries has the rows of all queries exported and copied into dir. In src.files it replaces each file that
// stands for a query by the files with its rows.
//
// It begins with the newest day, which is the last in src.queries: if that has no rows yet, the table is not ready, and
// the other exports would be in vain. The query of an older day without rows may be missing, as the spec says (see
// noteMissing). A query without a day is not looked at: a table without rows is refused later.
func (s *Stager) exportQueries(ctx context.Context, src *source, dir string) error {
	for i, q := range slices.Backward(src.queries) {
		s.report(StepExport, int64(len(src.queries)-1-i), int64(len(src.queries)))
		files, err := s.exportQuery(ctx, q, filepath.Join(dir, fmt.Sprintf("query-%05d", i)))
		empty := false
		if err == nil && q.Day != "" {
			empty, err = table.Empty(ctx, files)
		}
		if err == nil && empty {
			err = src.noteMissing(q, problem.New(problem.NotFound, "the query has no rows"))
			files = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", q.Pattern, err)
		}
		src.files = slices.DeleteFunc(src.files, func(f table.File) bool { return f.URI == q.Pattern })
		src.files = append(src.files, files...)
	}
	src.files = table.Sorted(src.files)
	return nil
}

// exportQuery has the rows of a query exported to a folder of its own in the bucket, copies the files to
// pathPrefix-NAME, and empties the folder, also after an error.
func (s *Stager) exportQuery(ctx context.Context, q dataset.Place, pathPrefix string) (files []table.File, err error) {
	id := "coppice-export-" + strings.ToLower(rand.Text())
	folder := exportsFolder + id + "/"

	// Whatever happens, no copy of the rows stays behind.
	defer func() { err = errors.Join(err, s.emptyObjects(ctx, folder)) }()
	uri := "gs://" + s.Exports.Bucket + "/" + folder + "*.parquet"
	if err := s.Exports.warehouse.Export(ctx, id, q.Query, uri); err != nil {
		return nil, err
	}
	for attrs, err := range s.Exports.Store.List(ctx, folder) {
		if err != nil {
			return nil, fmt.Errorf("list the export: %w", err)
		}
		name := path.Base(attrs.Name)
		f := table.File{URI: q.Pattern + "/" + name, Path: pathPrefix + "-" + name, Bytes: attrs.Size,
			Checksum: fmt.Sprintf("crc32c:%08x:%d", attrs.CRC32C, attrs.Size)}
		if err := blob.Fetch(ctx, s.Exports.Store, attrs, f.Path, func(int64) {}); err != nil {
			return nil, fmt.Errorf("fetch the export: %w", err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, problem.New(problem.NotFound, "the export has no files")
	}
	return files, nil
}

// emptyObjects overwrites the objects in a folder of an export with nothing, since Coppice may not delete objects. It
// does so also if ctx has ended, and goes on with the others if one cannot be overwritten.
func (s *Stager) emptyObjects(ctx context.Context, folder string) (failed error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stop()
	for attrs, err := range s.Exports.Store.List(ctx, folder) {
		if err == nil {
			_, err = s.Exports.Store.Put(ctx, attrs.Name, attrs.Generation, strings.NewReader(""))
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("empty the export gs://%s/%s: %w", s.Exports.Bucket, folder, err))
		}
	}
	return failed
}
