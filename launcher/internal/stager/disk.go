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
	// encodedFactor and copyFactor, multiplied by the number of orders of train's rows, are the same if statistics of
	// ids may be made: the dataset then has more columns, and temporary files hold 8 bytes per row and part of a key,
	// and the bins of statistics once more. This applies to a well compressed source with little but ids; uncompressed
	// text is textShare times as large.
	encodedFactor = 56
	copyFactor    = 28
	textShare     = 3
)

// DiskNeed is how many bytes of disk staging the source may need. Unless the spec says how often train repeats its
// rows, only small tables repeat them.
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
