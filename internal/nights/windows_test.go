package nights_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/segment"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
)

// window is the table of so many days up to one, with fifteen rows a day.
func window(days, last int) nightstest.Table {
	t := nightstest.Table{Names: []string{"ts", "campaign_id", "advertiser_id", "user_id", "price", "is_click"}}
	for day := last - days + 1; day <= last; day++ {
		r := rand.New(rand.NewPCG(uint64(day), 1))
		for i := range 15 {
			at := nightstest.First.AddDate(0, 0, day).Add(time.Duration(i) * 96 * time.Minute)
			campaign, click := r.IntN(8), 0
			if r.IntN(10) < 1+campaign/2 {
				click = 1
			}
			t.Rows = append(t.Rows, []string{at.Format("2006-01-02T15:04:05.000Z"), fmt.Sprint(campaign),
				fmt.Sprint(campaign / 2), fmt.Sprint("u", r.IntN(300)), fmt.Sprintf("%.4f", 1+r.Float64()),
				fmt.Sprint(click)})
		}
	}
	return t
}

// TestHonestWindows: nearly all rows of a window of 28, 90 or 180 days are last night's, as they should be, on the
// second night and after nights that were left out, too. The same window again, with new dates or without, is not.
func TestHonestWindows(t *testing.T) {
	for _, days := range []int{28, 90, 180} {
		var before []*nights.Profile
		tonight := func(table nightstest.Table) []nights.Finding {
			n := stageGood(t, table, before)
			found := compare(t, n, before)
			before = append(before, n.profile)
			return found
		}
		for i, day := range []int{200, 201, 203, 205, 206, 208} {
			if found := tonight(window(days, day)); nights.Blocked(found) {
				t.Errorf("honest night %d of %d days is held back: %v", i, days, found)
			}
		}
		last, usual := window(days, 208), before
		for name, table := range map[string]nightstest.Table{"the same rows": last, "new dates": last.Moved(24 * time.Hour)} {
			before = slices.Clone(usual)
			if found := tonight(table); !nights.Blocked(found) || found[0].Code != nights.CodeSameRows {
				t.Errorf("%s, %d days: found %v, want same_rows", name, days, found)
			}
		}
	}
}

// TestAWindowFillsWithALeak: a column that knows the labels of all days from one on explains more of them each night,
// and what the last nights have let pass does not become usual.
func TestAWindowFillsWithALeak(t *testing.T) {
	const days, first = 14, 208
	var before []*nights.Profile
	for day := first - 8; day < first+days/2; day++ {
		table := window(days, day)
		for i, row := range table.Rows {
			if day-days+1+i/15 >= first && row[5] == "1" {
				row[4] = "0.5"
			}
		}
		n := must.Get(stage(t, table, before))(t)
		found := compare(t, n, before)
		leaks := slices.ContainsFunc(found, func(f nights.Finding) bool { return f.Code == nights.CodeLeak })
		switch {
		case day < first && nights.Blocked(found):
			t.Errorf("an honest night is held back: %v", found)
		case leaks && nights.Blocked(found):
			return
		}
		before = append(before, n.profile)
	}
	t.Errorf("price knows the label of half of the days, and no night was held back for a leak")
}

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

// BenchmarkStaging measures what counting all rows for the checks adds to staging, in CPU time, since a machine may be
// busy with other things.
func BenchmarkStaging(b *testing.B) {
	const rows = 300_000
	stream := nightstest.Stream{Seed: 3, Rows: rows}
	csv := stream.Night(1).CSV()
	stage := func(w segment.Scorer) *ingest.Report {
		r := must.Get(staged(b, csv, nightstest.Spec, ingest.Options{Threads: 1, Witness: w}))(b)
		return r
	}
	cpu := func() float64 {
		var u syscall.Rusage
		must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return float64(u.Utime.Nano())
	}
	first := stage(nil)
	before := cpu()
	p := must.Get(nights.Measure(b.Context(), first.Night, first.Manifest, 1, nil))(b)
	measured := cpu() - before
	for name, w := range map[string]segment.Scorer{"alone": nil, "counted": nights.NewWitness([]*nights.Profile{p},
		false)} {
		b.Run(name, func(b *testing.B) {
			before := cpu()
			for b.Loop() {
				stage(w)
			}
			b.ReportMetric((cpu()-before)/float64(b.N)/rows, "cpu-ns/row")
			b.ReportMetric(measured/1e6, "measure-cpu-ms")
		})
	}
}
