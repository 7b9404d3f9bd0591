package gcs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"net/http"
	"strings"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"

	"coppice/internal/blob"
)

// bucket is a bucket as a blob.Store.
type bucket struct {
	name   string
	b      *storage.BucketHandle
	limits limits
}

// markKey is the metadata key that holds each write's unique mark.
const markKey = "coppice-write"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// attrsOf converts the library's attributes of an object.
func attrsOf(a *storage.ObjectAttrs) blob.Attrs {
	return blob.Attrs{Name: a.Name, Size: a.Size, Generation: blob.Generation(a.Generation), CRC32C: a.CRC32C,
		Updated: a.Updated.UTC()}
}

// Stat returns the object's attributes.
func (b *bucket) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	if err := blob.ValidName(name); err != nil {
		return blob.Attrs{}, err
	}
	a, err := b.stat(ctx, b.b.Object(name))
	if err != nil {
		return blob.Attrs{}, b.convertError("stat", name, err)
	}
	return attrsOf(a), nil
}

// stat gets an object's attributes within the time limit of a call. Its error is the library's.
func (b *bucket) stat(ctx context.Context, o *storage.ObjectHandle) (*storage.ObjectAttrs, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.limits.call, errTooLong)
	defer cancel()
	a, err := o.Attrs(ctx)
	return a, withCause(ctx, err)
}

// Open reads a part of the object, as blob.Store says. The library compares a read of the whole object with the
// service's checksum. If the connection breaks, it continues at the same position of the same generation. A transfer in
// which nothing arrives for limits.stall is given up.
func (b *bucket) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	if err := errors.Join(blob.ValidName(name), r.Check()); err != nil {
		return nil, blob.Attrs{}, err
	}

	o := b.b.Object(name)
	if r.Generation != 0 {
		o = o.Generation(int64(r.Generation))
	}
	length := cmp.Or(r.Length, -1) // -1 reads to the end

	transfer, watch := watchTransfer(ctx, b.limits.stall)
	reader, err := o.NewRangeReader(transfer, r.Offset, length)
	if err != nil {
		err = withCause(transfer, err)
		watch.end()
		if outOfRange(err) {
			return b.openEnd(ctx, name, o)
		}
		return nil, blob.Attrs{}, b.convertError("open", name, err)
	}

	a := reader.Attrs
	attrs := blob.Attrs{Name: name, Size: a.Size, Generation: blob.Generation(a.Generation), CRC32C: a.CRC32C,
		Updated: a.LastModified.UTC()}
	watch.pause() // until the caller reads
	return &objectReader{b: b, name: name, ctx: transfer, watch: watch, r: reader}, attrs, nil
}

// openEnd handles a range that begins at or after the object's end: it is empty, without an error.
func (b *bucket) openEnd(ctx context.Context, name string, o *storage.ObjectHandle) (io.ReadCloser, blob.Attrs, error) {
	a, err := b.stat(ctx, o)
	if err != nil {
		return nil, blob.Attrs{}, b.convertError("open", name, err)
	}
	return io.NopCloser(bytes.NewReader(nil)), attrsOf(a), nil
}

// outOfRange reports whether the service has refused a range that begins behind the object's end.
func outOfRange(err error) bool {
	var api *googleapi.Error
	return errors.As(err, &api) && api.Code == http.StatusRequestedRangeNotSatisfiable
}

// objectReader adds the object's name to errors, and gives up if no data arrive for too long.
type objectReader struct {
	b     *bucket
	name  string
	ctx   context.Context
	watch *transferWatch
	r     *storage.Reader
}

// Read reads what has arrived or arrives. The watch runs only while Read waits for the service, so that a slow caller
// is not taken for a stalled transfer. If the watch has given up, the error says so.
func (r *objectReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil { // checked first: data that are here already would hide it
		return 0, r.b.convertError("read", r.name, withCause(r.ctx, err))
	}
	r.watch.progress()
	n, err := r.r.Read(p)
	r.watch.pause()
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if strings.Contains(err.Error(), "bad CRC on read") { // the library has no type for it
		err = fmt.Errorf("%w: %w", blob.ErrChecksum, err)
	}
	return n, r.b.convertError("read", r.name, withCause(r.ctx, err))
}

// Close ends the transfer.
func (r *objectReader) Close() error {
	err := r.r.Close()
	r.watch.end()
	return err
}

// List yields the objects whose names begin with prefix, in the order of their names, in which the service lists them.
// Names that are not valid for blob.ValidName are left out: consoles make such objects, as placeholders for folders.
func (b *bucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		for a, err := range b.list(ctx, &storage.Query{Prefix: prefix}) {
			switch {
			case err != nil:
				yield(blob.Attrs{}, err)
				return
			case blob.ValidName(a.Name) == nil && !yield(attrsOf(a), nil):
				return
			}
		}
	}
}

// list yields what the service lists for a query, and stops at the first error. The watch limits each wait for a page,
// but not the time that the caller takes.
func (b *bucket) list(ctx context.Context, q *storage.Query) iter.Seq2[*storage.ObjectAttrs, error] {
	return func(yield func(*storage.ObjectAttrs, error) bool) {
		ctx, watch := watchTransfer(ctx, b.limits.call)
		defer watch.end()
		q.Projection = storage.ProjectionNoACL
		if err := q.SetAttrSelection([]string{"Name", "Size", "Generation", "CRC32C", "Updated"}); err != nil {
			yield(nil, b.convertError("list", q.Prefix, err))
			return
		}

		for it := b.b.Objects(ctx, q); ; {
			watch.progress()
			a, err := it.Next()
			watch.pause()
			if errors.Is(err, iterator.Done) {
				return
			}
			if err != nil {
				yield(nil, b.convertError("list", q.Prefix, withCause(ctx, err)))
				return
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}
