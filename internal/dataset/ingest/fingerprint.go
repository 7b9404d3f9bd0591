package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync/atomic"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// binningRevision is increased whenever the same input gives other bins than before, so that the input is staged again.
const binningRevision = 5

// Fingerprint hashes everything that determines Stage's result: the spec (except the location of its source) and the
// contents, sizes, suffixes and folder columns of the files, in order. A file with a Checksum is not read. Equal
// fingerprints give equal datasets.
func Fingerprint(ctx context.Context, spec *dataset.Spec, files []table.File) (string, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}

	all := sha256.New()
	fmt.Fprintf(all, "coppice dataset, format %d, bins %d\n%s\n", dataset.FormatVersion, binningRevision, text)

	for _, f := range files {
		sum := f.Checksum
		if sum == "" {
			if sum, err = hashFile(ctx, f); err != nil {
				return "", err
			}
		}
		// A file's format depends on its suffix.
		fmt.Fprintf(all, "%s %d %s\n", table.Suffix(f.URI), f.Bytes, sum)
		if len(f.Partitions) > 0 {
			fmt.Fprintln(all, f.Partitions)
		}
	}
	return hex.EncodeToString(all.Sum(nil)[:16]), nil
}

// hashPart is how many bytes of a file one hash covers; the parts of a longer file are hashed in parallel. It is also
// the most bytes that a row of text may have.
const hashPart = 16 << 20

// hashFile returns the SHA-256 of a file's contents or, for a file longer than hashPart, of its parts' hashes. On the
// way it checks that a file of text is text (table.TextCheck), so that a broken file is refused early.
func hashFile(ctx context.Context, file table.File) (string, error) {
	r, err := os.Open(file.Path)
	if err != nil {
		return "", err
	}
	defer r.Close()

	info, err := r.Stat()
	if err != nil {
		return "", err
	}

	isText, err := table.IsPlainText(file)
	if err != nil {
		return "", err
	}

	// An empty file has no parts, and the hash of none.
	parts := int((info.Size() + hashPart - 1) / hashPart)
	sums, errs := make([][]byte, parts), make([]error, parts)
	var faulty atomic.Int64 // the first part with an error; parts after it need not be read
	faulty.Store(int64(parts))
	dataset.Parallel(runtime.GOMAXPROCS(0), parts, func(i int) {
		if errs[i] = ctx.Err(); errs[i] != nil || int64(i) > faulty.Load() {
			return
		}

		// Hash the part. Plain text is checked at the same time.
		h := sha256.New()
		at := int64(i) * hashPart
		want := min(hashPart, info.Size()-at)

		look := io.Writer(h)
		check := &table.TextCheck{File: file.URI, At: at}
		if isText {
			look = io.MultiWriter(h, check)
		}
		n, err := io.Copy(look, io.NewSectionReader(r, at, want))
		switch {
		case err == nil && n < want:
			err = io.ErrUnexpectedEOF
		case err == nil && isText && want == hashPart: // a whole part without the end of a line is too long a row
			err = check.Line()
		}
		if err != nil {
			errs[i] = err
			if !errors.As(err, new(*table.InputError)) {
				errs[i] = &table.InputError{File: file.URI, Msg: "read", Err: err}
			}
			// Lower faulty to i, unless another goroutine has set it lower.
			for first := faulty.Load(); int64(i) < first && !faulty.CompareAndSwap(first, int64(i)); {
				first = faulty.Load()
			}
		}
		sums[i] = h.Sum(nil)
	})

	if err := firstOf(ctx.Err(), errs); err != nil {
		return "", err
	}

	if parts == 1 {
		return "sha256:" + hex.EncodeToString(sums[0]), nil
	}

	all := sha256.Sum256(slices.Concat(sums...))
	return fmt.Sprintf("sha256 of parts:%x", all), nil
}
