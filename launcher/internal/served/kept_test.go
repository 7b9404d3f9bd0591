package served

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset/cell"
	"coppice/internal/registry"
	"coppice/internal/scorer"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// anHour is an hour of a server whose column site is unseen in some of 1,000 rows.
func anHour(begin time.Time, unseen int64) Kept {
	return Kept{Version: "ctr@1", Begin: begin, Requests: 20, Rows: 1000, Predicted: 30, Seconds: .5,
		Inputs: cell.Inputs{Rows: 1000, Columns: []cell.InputCount{{Column: "site", IDs: true, Unseen: unseen}}}}
}

// keptWorld is a bucket, and a registry with a version of whose test rows one in a hundred has an unseen site.
func keptWorld(t *testing.T) (blob.Store, *registry.Registry) {
	t.Helper()
	r := registry.New(blob.Memory())
	usual, err := json.Marshal(cell.Inputs{Rows: 10_000,
		Columns: []cell.InputCount{{Column: "site", IDs: true, Unseen: 100}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Register(t.Context(), "ctr", "one", map[string][]byte{scorer.FileInputs: usual, "model.txt": {'m'}},
		registry.Info{At: noon, By: "test"}); err != nil {
		t.Fatal(err)
	}
	return blob.Memory(), r
}

// TestKept: the hours of several servers are added up and judged together. Each is written once.
func TestKept(t *testing.T) {
	bucket, r := keptWorld(t)
	keep := func(server string, k Kept) {
		t.Helper()
		if err := Keep(t.Context(), bucket, server, k); err != nil {
			t.Fatal(err)
		}
	}
	const one, two = "one", "two"
	keep(one, anHour(noon, 8))
	keep(two, anHour(noon, 12))
	keep(one, anHour(noon.Add(time.Hour), 30)) // of 1,000 rows that may be chance,
	keep(two, anHour(noon.Add(time.Hour), 80)) // of 2,000 it is not
	keep(one, anHour(noon, 999))               // again: the first one stays
	keep(one, anHour(noon.Add(2*time.Hour), 999))

	all, err := ReadPast(t.Context(), bucket, r, "ctr", 3, noon.Add(2*time.Hour+time.Minute))
	if err != nil || len(all.Hours) != 2 {
		t.Fatalf("got %+v, %v; want two hours, since the third has not ended", all, err)
	}
	past := all.Hours
	if p := past[0]; p.Servers != 2 || p.Requests != 40 || p.Rows != 2000 || p.Mean != .03 || p.Seconds != .025 ||
		len(p.Findings) > 0 || p.Inputs[0].Unseen.Now != .01 {
		t.Errorf("got %+v; want 2 servers with 40 requests, 2,000 rows, mean .03, 25 ms and no finding", p)
	}
	off := OffPast("ctr", past)
	if off == nil || len(off.Found) != 1 || !strings.HasPrefix(off.Found[0],
		"2026-11-20 13:00 ctr@1: site: 5.5 % of the values are unseen, compared with 1 %") {
		t.Errorf("got %v, want the one hour in which 5.5 %% of the sites are unseen", off)
	}

	all, err = ReadPast(t.Context(), bucket, r, "other", 3, noon.Add(2*time.Hour))
	if err != nil || len(all.Hours) > 0 {
		t.Errorf("another model: got %+v, %v; want nothing", all, err)
	}
}

// TestQuantiles: latencies of servers are added up in classes, and what is beyond them is at least the last bound.
func TestQuantiles(t *testing.T) {
	var k Kept
	for took, n := range map[time.Duration]int{
		time.Millisecond: 50, 1500 * time.Microsecond: 40, 15 * time.Millisecond: 9, time.Hour: 1,
	} {
		for range n {
			k.Answered(1, .5, took, &cell.Inputs{Rows: 1})
		}
	}
	for q, want := range map[float64]float64{.25: .00075, .5: .001, .7: .0015, .99: .02, 1: 5} {
		if got := quantile(k.Latency, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: got %v s, want %v", q, got, want)
		}
	}
	if got := quantile(nil, .5); got != 0 {
		t.Errorf("without requests: got %v s, want 0", got)
	}
	for status, want := range map[int]*int64{429: &k.Busy, 400: &k.Refused, 404: &k.Refused, 503: &k.Failed} {
		before := *want
		if k.Turned(status); *want != before+1 {
			t.Errorf("status %d is counted elsewhere", status)
		}
	}
}

// TestHoursOfARegression: what a server may have predicted is kept and read, and what could not be read is not kept.
func TestHoursOfARegression(t *testing.T) {
	bucket, r := keptWorld(t)
	k := anHour(noon, 8)
	k.Predicted = -2e15 // a million rows of 2e9
	if err := Keep(t.Context(), bucket, "one", k); err != nil {
		t.Fatal(err)
	}
	past, err := ReadPast(t.Context(), bucket, r, "ctr", 1, noon.Add(time.Hour))
	if err != nil || len(past.Hours) != 1 || past.Hours[0].Mean != -2e12 {
		t.Errorf("got %+v, %v; want an hour with the mean -2e12", past, err)
	}
	for _, sum := range []float64{math.NaN(), math.Inf(1), math.MaxFloat64} {
		k.Predicted = sum
		if err := Keep(t.Context(), bucket, "two", k); err == nil || !strings.Contains(err.Error(), "contradict") {
			t.Errorf("the sum %v: got %v, want it refused", sum, err)
		}
	}
}

// TestCrowdedHour: of more servers than are read the others are counted as an hour that is not whole.
func TestCrowdedHour(t *testing.T) {
	bucket, r := keptWorld(t)
	for i := range mostServers + 2 {
		if err := Keep(t.Context(), bucket, fmt.Sprint(i), anHour(noon, 8)); err != nil {
			t.Fatal(err)
		}
	}
	past, err := ReadPast(t.Context(), bucket, r, "ctr", 2, noon.Add(time.Hour))
	if err != nil || len(past.Hours) != 1 || past.Hours[0].Servers != mostServers || past.Crowded != 1 {
		t.Errorf("got %+v, %v; want an hour of 1,000 servers, and that it had more", past, err)
	}
}

// TestHostileHours: what no server writes is reported by its name, and not added to others.
func TestHostileHours(t *testing.T) {
	good, err := json.Marshal(func() Kept { k := anHour(noon, 8); k.Format = 1; return k }())
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string][2]string{
		"another model":        {"ctr@1", "ads@1"},
		"an alias":             {"ctr@1", "ctr@champion"},
		"another hour":         {"T12:00", "T11:00"},
		"a later format":       {`"format":1`, `"format":2`},
		"more unseen than all": {`"unseen":8`, `"unseen":1001`},
		"fewer than none":      {`"missing":0`, `"missing":-1`},
		"more in classes":      {`"inputs"`, `"latency":[21,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"inputs"`},
		"fewer classes":        {`"inputs"`, `"latency":[1],"inputs"`},
		"fewer than none late": {`"inputs"`, `"latency":[-1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"inputs"`},
		"fewer refused":        {`"inputs"`, `"failed":-1,"inputs"`},
		"too many":             {`"rows":1000,"predicted"`, `"rows":9000000000000000000,"predicted"`},
		"other columns":        {`"column":"site"`, `"column":"page"`},
		"more columns":         {`"columns":[`, `"columns":[{"column":"page","missing":0,"unseen":0,"rare":0},`},
		"an unknown key":       {`"format":1`, `"format":1,"user":"u1"`},
		"half of it":           {`"inputs"`, ``},
		"too long":             {`"format"`, strings.Repeat(" ", mostKept) + `"format"`},
	} {
		text := strings.Replace(string(good), change[0], change[1], 1)
		if text == string(good) {
			t.Fatalf("%s: nothing has changed in %s", what, good)
		}
		bucket, r := keptWorld(t)
		for name, text := range map[string]string{"a.json": string(good), "b.json": text} {
			if _, err := blob.Create(t.Context(), bucket, folder("ctr", noon)+name, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		past, err := ReadPast(t.Context(), bucket, r, "ctr", 1, noon.Add(time.Hour))
		if err != nil || len(past.Hours) != 1 || past.Hours[0].Servers != 1 || past.Unread != 1 ||
			!strings.HasPrefix(past.First, "served/ctr/20261120T12/b.json is not the hour of a server") {
			t.Errorf("%s: got %+v, %v; want the hour of a.json, and b.json named", what, past, err)
		}
	}
}

// FuzzKept: an hour that is read can be added to others and compared, and reads the same once more.
func FuzzKept(f *testing.F) {
	good, err := json.Marshal(func() Kept { k := anHour(noon, 8); k.Format = 1; return k }())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":1,"version":"ctr@1","begin":"2026-11-20T12:00:00Z","requests":0,"rows":0,"predicted":0,` +
		`"seconds":0,"inputs":{"rows":0,"columns":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := decodeKept(text, "ctr", noon)
		if err != nil {
			return
		}
		p := &Past{}
		if err := p.add(k); err != nil {
			t.Fatalf("it cannot be added to nothing: %v", err)
		}
		_ = p.add(k)
		again, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeKept(again, "ctr", noon); err != nil {
			t.Errorf("%s is refused once it is written again: %v", again, err)
		}
	})
}

// FuzzReport: what watch-labels has printed is read the same once more, and makes a page.
func FuzzReport(f *testing.F) {
	good, err := json.Marshal(&Report{Rows: 1000, Unlabelled: 1, Hours: []Judged{{Begin: noon, Rows: 999, Positive: 30,
		Mean: .03, Ratio: 1, Entropy: .9}, {Begin: noon, Segment: "site=a", Rows: 9, Finding: "x"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	for _, change := range [][2]string{{"T12:00", "T12:30"}, {`"rows":999`, `"rows":-1`}, {`"calibration_ratio":1`,
		`"calibration_ratio":-1`}, {`"hours"`, `"user"`}} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if _, err := decodeReport([]byte(bad)); err == nil || bad == string(good) {
			f.Errorf("%s is read", bad)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decodeReport(text)
		if err != nil {
			return
		}
		if err := Day("ctr", &Hours{}, r, noon, noon.Add(time.Hour)).Write(io.Discard); err != nil {
			t.Error(err)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeReport(again); err != nil {
			t.Errorf("%s is refused once it is written again: %v", again, err)
		}
	})
}

// TestDrifts: the share of a version's rows over all hours, those that are findings and then those that moved most
// first.
func TestDrifts(t *testing.T) {
	bucket, r := keptWorld(t)
	for hour, unseen := range []int64{8, 400} {
		k := anHour(noon.Add(time.Duration(hour)*time.Hour), unseen)
		k.Inputs.Columns = append(k.Inputs.Columns, cell.InputCount{Column: "page", Missing: 900})
		if err := Keep(t.Context(), bucket, "one", k); err != nil {
			t.Fatal(err)
		}
	}
	past, err := ReadPast(t.Context(), bucket, r, "ctr", 2, noon.Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	got := drifts(past.Hours)
	if len(got) != 4 || got[0].Column != "site" || got[0].What != "unseen" || got[0].Now != .204 ||
		got[0].Usual != .01 || got[0].Low != .008 || got[0].High != .4 || got[0].Off != 1 || !math.IsNaN(got[3].Usual) {
		t.Errorf("got %+v; want first that 20.4 %% of the sites are unseen, 0.8 to 40 %%, usually 1 %%", got)
	}
}
