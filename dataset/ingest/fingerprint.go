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

	"coppice/dataset"
)

// binningRevision goes up when the same input makes other bins than before, so that it is staged anew.
const binningRevision = 2

// Fingerprint is a hash of all that decides what Stage makes: the spec (but not where its source lies) and the contents of
// the files, in order. A file with a Checksum is not read. Equal fingerprints make equal datasets.
func Fingerprint(ctx context.Context, spec *dataset.Spec, files []File) (string, error) {
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
		// How a file is read depends on how its name ends.
		fmt.Fprintf(all, "%s %d %s\n", suffix(f.URI), f.Bytes, sum)
	}
	return hex.EncodeToString(all.Sum(nil)[:16]), nil
}

func hashFile(ctx context.Context, f File) (string, error) {
	r, err := os.Open(f.Path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	h := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		_, err := io.CopyN(h, r, 64<<20)
		if errors.Is(err, io.EOF) {
			return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", &TableError{File: f.URI, Msg: "read", Err: err}
		}
	}
}
