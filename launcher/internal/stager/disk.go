package stager

import (
	"path/filepath"
	"slices"

	"coppice/internal/dataset"
)

const (
	// DiskFactor is how much disk staging may need per byte of the source: the source itself, the dataset, which may
	// be larger than well compressed Parquet, and a reserve.
	DiskFactor = 8
	// If statistics of ids may be made, a byte of a well compressed source with little but ids may need encodedFactor
	// bytes, and copyFactor more for each copy of train's rows. The dataset then has more columns, and temporary files
	// hold 8 bytes per row and id, and the bins of the statistics once more.
	encodedFactor = 56
	copyFactor    = 28
	// Uncompressed text has about textShare times the bytes of compressed Parquet, so each of its bytes needs less.
	textShare = 3
)

// DiskNeed returns how many bytes of disk staging the source may need. Without a number of copies in the spec, it
// counts one copy of each row: only small tables get more. Compressed text, such as .csv.gz, counts like Parquet.
func (in *Located) DiskNeed(spec *dataset.Spec) int64 {
	need := int64(0)
	for _, f := range in.src.files {
		factor := int64(encodedFactor + copyFactor*max(1, spec.Encodings.Order.Copies))
		switch {
		case spec.Encodings.Off:
			factor = DiskFactor
		case slices.Contains([]string{".csv", ".tsv", ".tab", ".jsonl", ".ndjson"}, filepath.Ext(f.URI)):
			factor /= textShare
		}
		need += factor * f.Bytes
	}
	return need
}
