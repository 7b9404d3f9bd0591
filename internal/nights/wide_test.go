package nights_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/must"
	"coppice/internal/nights"
)

// wide is a night with many columns, whose numbers take as many digits as numbers can, and its dataset.
func wide(t *testing.T, columns int) (*ingest.Night, *dataset.Manifest) {
	t.Helper()
	var b strings.Builder
	b.WriteString("y")
	for c := range columns {
		fmt.Fprintf(&b, ",column_%d", c)
	}
	for i := range 60 {
		fmt.Fprintf(&b, "\n%d", i%2)
		for c := range columns {
			if c%2 == 0 {
				fmt.Fprintf(&b, ",%d", (i+c)/2*1001)
			} else {
				fmt.Fprintf(&b, ",%g", float64(i/2+1)/float64(c+3))
			}
		}
	}
	r := stageCSV(t, b.String(), "label: y\nmax_bin: 8\nencodings: none\n")
	return r.Night, r.Manifest
}

// TestMeasureStops: measuring a night ends soon after it is cancelled, at each column.
func TestMeasureStops(t *testing.T) {
	const columns, threads = 50, 2
	n, m := wide(t, columns)
	calls := int64(0)
	must.Get(nights.Measure(t.Context(), n, m, 1, func(int64, int64) { calls++ }))(t)
	for at := int64(1); at < calls; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		after := make(chan struct{}, calls)
		_, err := nights.Measure(ctx, n, m, threads, func(done, _ int64) {
			if done >= at {
				cancel()
				after <- struct{}{}
			}
		})
		if !errors.Is(err, context.Canceled) || len(after) > threads {
			t.Errorf("cancelled after %d of %d columns: got error %v after %d more, expected that it is cancelled "+
				"after at most %d", at, calls, err, len(after)-1, threads-1)
		}
	}
}

// TestRecordOfTheWidestTable: a night with as many columns as a dataset may have can be written, read back and compared
// with itself. Outside FULL it has an eighth of the columns, of each of which more is kept than of those of the widest
// table, and its record takes at most an eighth of the bytes that one may.
func TestRecordOfTheWidestTable(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: it has thousands of columns")
	}
	share := 8
	if os.Getenv("COPPICE_FULL") != "" {
		share = 1
	}
	columns := dataset.MaxFeatures / share
	n, m := wide(t, columns)
	p := measured(t, n, m)
	version := strings.Repeat("0", 16)
	text, err := (&nights.Record{Format: 1, Dataset: "t", Version: version, Profile: p}).Encode()
	if err != nil {
		t.Fatalf("write the record of %d columns: %v", len(p.Columns), err)
	}
	t.Logf("%d bytes", len(text))
	if len(text)*share > nights.MaxRecord {
		t.Errorf("the record of %d columns has %d bytes, and %d times as many are more than %d", columns, len(text),
			share, nights.MaxRecord)
	}
	r, err := nights.DecodeRecord(text, "t", version)
	if err != nil {
		t.Fatalf("read the record of %d columns: %v", len(p.Columns), err)
	}
	found := find(t, nights.Request{Night: n, Tonight: p, Before: []*nights.Profile{r.Profile},
		Respecified: true, Threads: 2})
	if nights.Blocked(found) {
		t.Errorf("the same night again: found %v, expected nothing that blocks", found)
	}
}

// TestAnotherTable: if hundreds of columns have other names, pairs of them are not compared, and each is missing.
func TestAnotherTable(t *testing.T) {
	const columns = 300
	n, m := wide(t, columns)
	p := measured(t, n, m)
	renamed := *p
	renamed.Columns = slices.Clone(p.Columns)
	for i := range renamed.Columns {
		renamed.Columns[i].Name = "was_" + renamed.Columns[i].Name
	}
	count := map[nights.Code]int{}
	for _, f := range find(t, nights.Request{Night: n, Tonight: p, Before: []*nights.Profile{&renamed},
		Declared: true, Threads: 2}) {
		count[f.Code]++
	}
	if count[nights.CodeColumnMissing] != columns || count[nights.CodeColumnRenamed] != 0 {
		t.Errorf("%d columns with other names: found %v, expected each to be missing and none renamed", columns, count)
	}
}
