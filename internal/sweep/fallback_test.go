package sweep_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// withMachine is the good spec with another machine.
func withMachine(machine string) string {
	before, rest, _ := strings.Cut(good, "machine: ")
	_, after, _ := strings.Cut(rest, "\n")
	return before + "machine: " + machine + "\n" + after
}

const several = "{type: n2-highmem-64, zones: [us-central1-a], wait: 5m, fallback: [{zones: [us-central1-f, " +
	"us-central1-b]}, {type: n2d-highmem-64}, {spot: false}]}"

func TestFallback(t *testing.T) {
	s, err := sweep.ParseSpec("sweep.yaml", []byte(withMachine(several)), words())
	if err != nil {
		t.Fatal(err)
	}
	m := s.Machine
	if time.Duration(m.Wait) != 5*time.Minute || m.LocalSSD != 0 {
		t.Errorf("the machine is %+v; want a wait of 5m, and as many local SSDs as it takes", m)
	}
	for n, want := range []string{"n2-highmem-64 true [us-central1-a] 0",
		"n2-highmem-64 true [us-central1-f us-central1-b] 0", "n2d-highmem-64 true [us-central1-a] 0",
		"n2-highmem-64 false [us-central1-a] 0"} {
		c := m.Choice(n)
		if got := fmt.Sprint(c.Type, " ", *c.Spot, " ", c.Zones, " ", int(c.LocalSSD)); got != want ||
			c.ThreadsPerTask != m.ThreadsPerTask {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	text := must.Get(json.Marshal(s))(t)
	var back sweep.Spec
	if err := json.Unmarshal(text, &back); err != nil || len(back.Machine.Fallback) != 3 ||
		back.Machine.Wait != m.Wait {
		t.Errorf("%s read again: error %v, %d fallbacks, wait %s; want 3 and %s", text, err, len(back.Machine.Fallback),
			back.Machine.Wait, m.Wait)
	}
	if s, err = sweep.ParseSpec("sweep.yaml", []byte(withMachine("{fallback: [{spot: false}]}")),
		words()); err != nil || time.Duration(s.Machine.Wait) != 10*time.Minute {
		t.Errorf("the default wait: %v %v", s, err)
	}
	for name, c := range map[string][2]string{
		"a region as zone":     {"{zones: [us-central1]}", "zone \"us-central1\""},
		"a zone of a fallback": {"{fallback: [{zones: [a]}]}", "zone \"a\""},
		"wait for nothing":     {"{wait: 5m}", "there is none"},
		"too short":            {"{wait: 10ms, fallback: [{spot: false}]}", "machine.wait is 10ms"},
		"too long":             {"{wait: 4h, fallback: [{spot: false}]}", "use 1s to 3h0m0s"},
		"too long in all":      {"{wait: 2h, fallback: [{spot: false}, {type: n2-highmem-32}]}", "use 1s to 1h30m0s"},
		"the same":             {"{fallback: [{type: n2-highmem-8}]}", "the same as what comes before it"},
		"the same as the first": {"{zones: [us-central1-a], fallback: [{spot: false}, {spot: false}]}",
			"the same as what comes before it"},
		"disks": {"{fallback: [{spot: false, local_ssd: 4}]}", "unknown key \"local_ssd\""},
		"too many": {"{fallback: [" + strings.Repeat("{spot: false}, {type: n2-highmem-8}, ", 11) + "]}",
			"use at most 20"},
		"what prices decided": {"{spot: 'auto'}", `expected true or false, found "auto"`},
		"a wrong key":         {"{fallback: [{kind: spot}]}", "kind"},

		"a type and a size":  {"{type: n2-highmem-8, vcpus: 16, memory: 64}", "type is of Google's machines"},
		"a size and zones":   {"{vcpus: 16, memory: 64, zones: [us-central1-a]}", "zones is of Google's"},
		"a size on Spot":     {"{vcpus: 16, memory: 64, spot: true}", "spot is of Google's"},
		"a size and another": {"{vcpus: 16, memory: 64, fallback: [{spot: false}]}", "fallback is of Google's"},
		"no memory":          {"{vcpus: 16}", "16 vCPUs, 0 GiB: give both"},
		"no vCPUs":           {"{memory: 64}", "0 vCPUs, 64 GiB: give both"},
		"vCPUs below 0":      {"{vcpus: -1, memory: 64}", "-1 vCPUs"},
		"too much memory":    {"{vcpus: 16, memory: 100000}", "100000 GiB"},
		"memory with a unit": {"{vcpus: 16, memory: 64GiB}", "expected a whole number, found \"64GiB\""},
	} {
		_, err := sweep.ParseSpec("sweep.yaml", []byte(withMachine(c[0])), words())
		if err == nil || !strings.Contains(err.Error(), c[1]) || !strings.HasPrefix(err.Error(), "sweep.yaml:") {
			t.Errorf("%s: got error %v; want one with its place in sweep.yaml and %q", name, err, c[1])
		}
	}
}

func TestJobsOfASweep(t *testing.T) {
	long := sweep.ID(strings.Repeat("a", 63))
	for _, c := range []struct {
		id   sweep.ID
		n    int
		want string
	}{{"nightly-1", 0, "nightly-1"}, {"nightly-1", 1, "nightly-1-f1"}, {"nightly-1", 20, "nightly-1-f20"},
		{long, 0, string(long)}} {
		if got := c.id.JobID(c.n); string(got) != c.want {
			t.Errorf("job %d of sweep %s is called %s; want %s", c.n, c.id, got, c.want)
		}
	}
	seen := map[sweep.ID]bool{}
	for _, id := range []sweep.ID{long, long[:62] + "b", long[:61]} {
		for n := range sweep.MaxFallbacks + 1 {
			job := id.JobID(n)
			if err := sweep.CheckID(string(job)); err != nil || seen[job] {
				t.Errorf("%s: %v, seen before: %t", job, err, seen[job])
			}
			seen[job] = true
		}
	}
	p := &sweep.Plan{Sweep: "j", Job: "projects/p/locations/l/jobs/j", Sizing: sweep.Sizing{VMs: 1},
		Fallback: []sweep.Sizing{{VMs: 2}}}
	p.Spec.Machine.Fallback = []sweep.Fallback{{Type: "n2d-highmem-64"}}
	if p.Placed(0) != p {
		t.Error("the plan itself is not job 0")
	}
	placed := p.Placed(1)
	if placed.Job != "projects/p/locations/l/jobs/j-f1" || placed.Spec.Machine.Type != "n2d-highmem-64" ||
		placed.Sizing.VMs != 2 || p.Sizing.VMs != 1 || placed.Sweep != "j" {
		t.Errorf("job 1 of the plan is %+v; want j-f1 with 2 n2d-highmem-64, and the plan unchanged", placed)
	}
	if placed.Fingerprint() == p.Fingerprint() {
		t.Error("two jobs with one fingerprint")
	}
}

func FuzzJobRecord(f *testing.F) {
	p := &sweep.Plan{Sweep: "j", Job: "projects/p/locations/l/jobs/j", Fallback: make([]sweep.Sizing, 2)}
	whole, err := json.Marshal(sweep.JobRecord{Format: 1, Sweep: "j", Number: 1, Job: p.JobName(1), Reason: "because"})
	if err != nil {
		f.Fatal(err)
	}
	must.Get(sweep.DecodeJobRecord(whole, p, 1))(f)
	f.Add(whole, 1)
	f.Add([]byte(`{"format":1}`), 3)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		r, err := sweep.DecodeJobRecord(data, p, n)
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("a record that cannot be read: got error %v, want one of kind damaged", err)
		}
		if err == nil && (r.Number != n || n < 1 || n > 2 || r.Job != p.JobName(n)) {
			t.Fatalf("the record of job %d was read as %+v", n, r)
		}
	})
}

// TestDescribedMachine: vCPUs and memory are a machine without a type, on demand.
func TestDescribedMachine(t *testing.T) {
	s := must.Get(sweep.ParseSpec("sweep.yaml", []byte(withMachine("{vcpus: 16, memory: 64, vms: 4}")), words()))(t)
	if m := s.Machine; m.Type != "custom-16-65536" || *m.Spot || m.VMs != 4 {
		t.Errorf("16 vCPUs and 64 GiB: got %+v, want four of custom-16-65536 that are not Spot", m)
	}
	text := must.Get(json.Marshal(s.Machine))(t)
	if strings.Contains(string(text), "memory") || strings.Contains(string(text), "vcpus") {
		t.Errorf("the plan says it twice: %s", text)
	}
}
