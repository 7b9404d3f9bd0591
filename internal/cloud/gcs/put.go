package gcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"

	"cloud.google.com/go/storage"
	"github.com/google/uuid"
	"google.golang.org/api/googleapi"

	"coppice/internal/blob"
)

// Put writes the object atomically, as blob.Store says. It holds at most a chunk of it in memory. Each write has a
// random mark in the object's metadata: if a repeated request fails its condition because an earlier attempt was
// carried out and only its answer was lost, the mark shows that the object is this write's.
func (b *bucket) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	if err := blob.ValidName(name); err != nil {
		return blob.Attrs{}, err
	}
	if err := ctx.Err(); err != nil {
		return blob.Attrs{}, b.convertError("put", name, err)
	}

	o := b.b.Object(name)
	switch {
	case cond == blob.Absent:
		o = o.If(storage.Conditions{DoesNotExist: true})
	case cond > 0:
		o = o.If(storage.Conditions{GenerationMatch: int64(cond)})
	case cond != blob.Any:
		return blob.Attrs{}, fmt.Errorf("put %s: condition %d is not a generation", name, cond)
	}

	// A short object is sent in one request, a long one in chunks.
	var head bytes.Buffer
	_, err := io.CopyN(&head, r, int64(b.limits.small))
	if err != nil && !errors.Is(err, io.EOF) {
		return blob.Attrs{}, b.convertError("put", name, err)
	}

	short := err != nil // it ended before limits.small bytes
	mark := uuid.NewString()
	p := &put{bucket: b, object: o, mark: mark}
	var a *storage.ObjectAttrs
	if short {
		a, err = p.sendWhole(ctx, head.Bytes())
	} else {
		a, err = p.stream(ctx, io.MultiReader(&head, r))
	}

	if isPrecondition(err) {
		if now, statErr := b.stat(ctx, b.b.Object(name)); statErr == nil && now.Metadata[markKey] == mark {
			a, err = now, nil
		}
	}

	if err != nil {
		return blob.Attrs{}, b.convertError("put", name, err)
	}
	return attrsOf(a), nil
}

// Remove removes the object at this generation, as blob.Remover says; that there is none is no error. The service keeps
// what was removed for as long as the bucket's soft deletion says.
func (b *bucket) Remove(ctx context.Context, name string, at blob.Generation) error {
	o := b.b.Object(name).If(storage.Conditions{GenerationMatch: int64(at)})
	ctx, cancel := context.WithTimeoutCause(ctx, b.limits.call, errTooLong)
	defer cancel()
	err := withCause(ctx, o.Delete(ctx))
	if isPrecondition(err) { // also if there is no object, as after an earlier attempt whose answer was lost
		if _, gone := b.stat(ctx, b.b.Object(name)); errors.Is(gone, storage.ErrObjectNotExist) {
			err = gone
		}
	}
	if err == nil || errors.Is(err, storage.ErrObjectNotExist) {
		return nil
	}
	return b.convertError("remove", name, err)
}

// isPrecondition reports whether the service has found an object at another generation than the condition says.
func isPrecondition(err error) bool {
	var api *googleapi.Error
	return errors.As(err, &api) && api.Code == http.StatusPreconditionFailed
}

// put is one write.
type put struct {
	bucket *bucket
	object *storage.ObjectHandle
	mark   string
}

// writer makes the library's writer for the object, with the mark.
func (p *put) writer(ctx context.Context) *storage.Writer {
	w := p.object.NewWriter(ctx)
	w.ContentType = "application/octet-stream"
	w.Metadata = map[string]string{markKey: p.mark}
	w.ChunkRetryDeadline = retryFor
	return w
}

// sendWhole sends a small object in one request, together with its checksum, by which the service rejects data that
// were damaged on the way.
func (p *put) sendWhole(ctx context.Context, data []byte) (*storage.ObjectAttrs, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.bucket.limits.call, errTooLong)
	defer cancel()
	w := p.writer(ctx)
	w.ChunkSize = len(data) + 1 // more than the contents: one request, kept for a retry
	w.CRC32C = crc32.Checksum(data, castagnoli)
	w.SendCRC32C = true
	if _, err := w.Write(data); err != nil {
		return nil, withCause(ctx, errors.Join(err, w.Close()))
	}
	if err := w.Close(); err != nil {
		return nil, withCause(ctx, err)
	}
	return w.Attrs(), nil
}

// stream sends an object of any length in chunks. It compares the checksum of what it read from r with that of the
// object in the service's answer, since the sum is not known when the first chunk is sent. If r fails, its error is
// returned and nothing is written.
func (p *put) stream(ctx context.Context, r io.Reader) (*storage.ObjectAttrs, error) {
	ctx, watch := watchTransfer(ctx, p.bucket.limits.stall)
	defer watch.end()

	w := p.writer(ctx)
	w.ChunkSize = p.bucket.limits.chunk
	w.ChunkTransferTimeout = p.bucket.limits.stall

	crc := crc32.New(castagnoli)
	source := &pacedReader{r: io.TeeReader(r, crc), watch: watch}
	if _, err := io.Copy(writerOnly{w}, source); err != nil {
		// The context is ended before Close, which would otherwise complete the object with what came before the error.
		err = withCause(ctx, err)
		watch.end()
		closed := w.Close()
		switch {
		case source.err != nil:
			return nil, source.err
		case closed != nil && !errors.Is(closed, context.Canceled): // the reason why the library stopped
			return nil, closed
		}
		return nil, err
	}

	watch.progress()
	if err := w.Close(); err != nil {
		return nil, withCause(ctx, err)
	}

	if a := w.Attrs(); a.CRC32C != crc.Sum32() {
		return nil, fmt.Errorf("the service holds bytes with CRC32C %08x, %08x were sent", a.CRC32C, crc.Sum32())
	}
	return w.Attrs(), nil
}

// writerOnly hides the writer's other interfaces, so that io.Copy alternates reads and writes.
type writerOnly struct{ io.Writer }

// pacedReader stops the watch while it reads from its source: a slow source is not a stalled transfer.
type pacedReader struct {
	r     io.Reader
	watch *transferWatch
	err   error // the source's own error
}

// Read stops the watch while it waits for the source, and keeps the error with which the source failed.
func (p *pacedReader) Read(b []byte) (int, error) {
	p.watch.pause()
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	p.watch.progress()
	return n, err
}
