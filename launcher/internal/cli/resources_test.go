package cli

import (
	"fmt"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/sweep"
)

// TestCompletionReadsNames counts what a shell's completion requests after 50 nights and after 100, each with a dataset
// version, a sweep and a registered version: what is read stays the same, and only sweeps are listed one by one.
func TestCompletionReadsNames(t *testing.T) {
	t.Parallel()
	asked, listed := map[string][2]int64{}, map[string][2]int64{}
	for i, nights := range []int{50, 100} {
		w := newWorld(t)
		w.register(nights)
		w.must("registry", "promote", "ctr@1", "--why", "a test")
		for n := range nights {
			for bucket, object := range map[string]string{
				"datasets": sweep.DatasetDir("clicks", fmt.Sprintf("%016x", n)) + dataset.ManifestFile,
				"sweeps":   sweep.Names(sweep.ID(fmt.Sprint("night-", n))).Plan(),
			} {
				if _, err := w.buckets[bucket].Put(t.Context(), object, blob.Absent,
					strings.NewReader("{}")); err != nil {
					t.Fatal(err)
				}
			}
		}
		stores := map[string]*blobtest.Counting{}
		for name, s := range w.buckets {
			stores[name] = &blobtest.Counting{Store: s}
			w.buckets[name] = stores[name]
		}

		for line, want := range map[string]string{"datasets show ": "clicks", "status ": "night-7",
			"registry show ": "ctr@champion", "predict --model ": "ctr@latest", "report ": "clicks"} {
			out := w.must(append([]string{"__complete"}, strings.Split(line, " ")...)...)
			if !strings.Contains(out, want+"\n") {
				t.Errorf("launcher %q is completed as\n%s\nwant %s among it", line, out, want)
			}
			a, l := asked[line], listed[line]
			for name, s := range stores {
				a[i] += s.Asked.Swap(0)
				if n := s.Listed.Swap(0); name != "sweeps" {
					l[i] += n
				}
			}
			asked[line], listed[line] = a, l
		}
	}
	for line := range asked {
		if a, l := asked[line], listed[line]; a[0] != a[1] || l[0] != l[1] {
			t.Errorf("completing %q reads %d and %d objects and lists %d and %d names after 50 and 100 nights; want "+
				"no more after more", line, a[0], a[1], l[0], l[1])
		}
	}
}
