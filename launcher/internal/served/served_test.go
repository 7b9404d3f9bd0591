package served_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/problem"
	"coppice/launcher/internal/served"
)

// log writes answers of some hours: predictions that are right, of which every clicks-th hour has the labels of odd.
func log(t *testing.T, seed uint64, hours, rows int, odd func(hour int, site string, p float64) float64) (in,
	labels string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	var a, b strings.Builder
	a.WriteString("key,at,p,site,click\n")
	b.WriteString("auction,click\n")
	begin := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for h := range hours {
		for r := range rows {
			p := .02 + .2*rng.Float64()*rng.Float64()
			site := fmt.Sprintf("s%d", rng.IntN(8))
			click := 0
			if rng.Float64() < odd(h, site, p) {
				click = 1
				fmt.Fprintf(&b, "%d.0,1\n", h*rows+r) // 7.0 and 7 are one key
			}
			at := begin.Add(time.Duration(h)*time.Hour + time.Duration(rng.IntN(3600))*time.Second)
			fmt.Fprintf(&a, "%d,%s,%g,%s,%d\n", h*rows+r, at.Format(time.DateTime), p, site, click)
		}
	}
	in, labels = filepath.Join(t.TempDir(), "in.csv"), filepath.Join(t.TempDir(), "labels.csv")
	for path, text := range map[string]string{in: a.String(), labels: b.String()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return in, labels
}

func right(_ int, _ string, p float64) float64 { return p }

var asked = served.Answers{Label: "click", Prediction: "p", Time: "at", By: "site", Tolerance: .2}

// TestQuietDays: right predictions give no finding in ten days of 24 hours and 8 segments.
func TestQuietDays(t *testing.T) {
	for day := range uint64(10) {
		q := asked
		q.In, _ = log(t, day, 24, 4000, right)
		r, err := served.Run(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Hours) != 24*9 || r.Rows != 24*4000 || r.Unlabelled != 0 {
			t.Errorf("got %d hours and segments, %d rows of which %d were not judged; want 216, 96000 and 0",
				len(r.Hours), r.Rows, r.Unlabelled)
		}
		if off := r.Off("day"); off != nil {
			t.Errorf("day %d: got the finding %v, want none", day, off)
		}
	}
}

// TestShiftsAreFoundInTheirHour: labels that come twice as often, in one segment only, and predictions that say nothing
// any more; from the column and from a joined table.
func TestShiftsAreFoundInTheirHour(t *testing.T) {
	for name, odd := range map[string]struct {
		labels func(hour int, site string, p float64) float64
		where  string
	}{
		"all": {func(h int, _ string, p float64) float64 { return p * float64(1+h/5) }, ""},
		"segment": {func(h int, s string, p float64) float64 {
			return p * map[bool]float64{true: 3, false: 1}[h == 5 && s == "s3"]
		},
			"site=s3"},
		"turned": {func(h int, _ string, p float64) float64 {
			if h == 5 {
				return .09 - p*.3
			}
			return p
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in, labels := log(t, 5, 6, 20_000, odd.labels)
			for _, joined := range []bool{false, true} {
				q := asked
				if q.In = in; joined {
					q.Labels, q.Key, q.PositivesOnly = labels, "key", true
				}
				if joined { // the tables call it differently
					text, err := os.ReadFile(labels)
					if err != nil {
						t.Fatal(err)
					}
					text = bytes.Replace(text, []byte("auction"), []byte("key"), 1)
					if err := os.WriteFile(labels, text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				r, err := served.Run(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				off := r.Off(in)
				if off == nil || off.ExitStatus() != 8 {
					t.Fatalf("joined %v: got %v, want a finding", joined, off)
				}
				found := false
				for _, h := range r.Hours {
					if h.Finding != "" && h.Begin.Hour() != 5 {
						t.Errorf("joined %v: got a finding at %v: %s; want them at 5 o'clock only", joined, h.Begin,
							h.Finding)
					}
					found = found || h.Finding != "" && h.Segment == odd.where
				}
				if !found {
					t.Errorf("joined %v: got %s, want one of segment %q", joined, off.Reason(), odd.where)
				}
			}
		})
	}
}

// TestLabelsThatAreNotThereYet: they are counted, and not taken for negative ones unless that is said.
func TestLabelsThatAreNotThereYet(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	q := served.Answers{In: write("in.csv", "k,at,p\n1,2026-11-20 01:02:03,.5\n2,2026-11-20 01:59:59,.25\n"+
		",2026-11-20 02:00:00,.1\n"),
		Labels: write("labels.csv", "k,y\n 1,0\n1.0,1\n7,1\n"), Key: "k", Label: "y", Prediction: "p", Time: "at"}
	r, err := served.Run(t.Context(), q)
	if err != nil || r.Rows != 3 || r.Unlabelled != 2 || len(r.Hours) != 1 || r.Hours[0].Positive != 1 ||
		r.Hours[0].Ratio != .5 {
		t.Errorf("got %+v, %v; want one row judged, positive, predicted .5", r, err)
	}
	q.PositivesOnly = true
	r, err = served.Run(t.Context(), q)
	if err != nil || r.Unlabelled != 1 || len(r.Hours) != 1 || r.Hours[0].Rows != 2 || r.Hours[0].Ratio != .75 {
		t.Errorf("got %+v, %v; want two rows judged, one positive, predicted .75", r, err)
	}

	for _, bad := range []struct{ in, labels string }{
		{"k,at,p\n1,2026-11-20 01:02:03,1.5\n", "k,y\n1,1\n"}, {"k,at,p\n1,,.5\n", "k,y\n1,1\n"},
		{"k,at,p\n1,yesterday,.5\n", "k,y\n1,1\n"}, {"k,at,p\n1,2026-11-20 01:02:03,.5\n", "k,y\n1,2\n"},
		{"k,at,p\n1,2026-11-20 01:02:03,x\n", "k,y\n1,1\n"}, {"k,at\n1,2026-11-20 01:02:03\n", "k,y\n1,1\n"},
	} {
		q.In, q.Labels = write("in.csv", bad.in), write("labels.csv", bad.labels)
		if _, err := served.Run(t.Context(), q); problem.Of(err) != problem.Input {
			t.Errorf("%q, %q: got %v, want an error about the table", bad.in, bad.labels, err)
		}
	}
}
