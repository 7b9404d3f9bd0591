package slurm

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/engine"
)

// at is a time of the recorded day.
func at(clock string) time.Time {
	t, _ := time.Parse(layout, "2026-11-29T"+clock)
	return t
}

// recorded is what Slurm 22.05 has printed of jobs of five tasks.
var recorded = map[string]struct {
	out  string
	want engine.JobStatus
}{
	"held": {`1|0|PENDING|2026-11-29T22:53:19|N/A|N/A|coppice 1 ab|JobHeldUser
`, engine.JobStatus{State: engine.Waiting, Tasks: engine.Tasks{Waiting: 1}, Created: at("22:53:19"),
		Lacks: "it was submitted and not released: run the same command again (JobHeldUser)"}},
	"one failed, one runs, one was requeued": {
		`1|0|COMPLETED|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T22:53:21|coppice 5 ab|None
1|4|COMPLETED|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T22:53:21|coppice 5 ab|None
1|2|FAILED|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T22:53:22|coppice 5 ab|NonZeroExitCode
1|1|PENDING|2026-11-29T22:53:22|2026-11-29T22:55:23|2026-11-29T23:05:23|coppice 5 ab|BeginTime
1|3|RUNNING|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T23:03:20|coppice 5 ab|None
`, engine.JobStatus{State: engine.Running, Tasks: engine.Tasks{Waiting: 1, Running: 1, Done: 2, Failed: 1}, Began: true,
			Created: at("22:53:19"), From: at("22:53:20"),
			Lacks: "it was requeued; Slurm starts it again after two minutes (BeginTime)"}},
	"most are forgotten": {`1|3|COMPLETING|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T23:03:20|coppice 5 ab|None
`, engine.JobStatus{State: engine.Running, Tasks: engine.Tasks{Running: 1, Done: 4}, Began: true,
		Created: at("22:53:19"), From: at("22:53:20")}},
	"cancelled before it began": {
		`7|0|CANCELLED|2026-11-29T23:17:55|2026-11-29T23:17:57|2026-11-29T23:17:57|coppice 1 ab|BeginTime
`, engine.JobStatus{State: engine.Cancelled, Tasks: engine.Tasks{Failed: 1}, Created: at("23:17:55")}},
	"failed": {`1|0|COMPLETED|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T22:53:21|coppice 2 ab|None
1|1|FAILED|2026-11-29T22:53:19|2026-11-29T22:53:21|2026-11-29T22:53:25|coppice 2 ab|NonZeroExitCode
`, engine.JobStatus{State: engine.Failed, Tasks: engine.Tasks{Done: 1, Failed: 1}, Began: true, Created: at("22:53:19"),
		From: at("22:53:20"), To: at("22:53:25"), Failure: "task 1: FAILED (NonZeroExitCode)"}},
	"nodes are drained": {`9|0|PENDING|2026-11-29T22:53:19|N/A|N/A|coppice 1 ab|ReqNodeNotAvail, UnavailableNodes:n[1-4]
`, engine.JobStatus{State: engine.Waiting, Tasks: engine.Tasks{Waiting: 1}, Created: at("22:53:19"),
		Lacks: "nodes are down, drained or reserved (ReqNodeNotAvail, UnavailableNodes:n[1-4])"}},
	"a state of tomorrow": {`9|0|DREAMING|2026-11-29T22:53:19|2026-11-29T22:53:19|Unknown|coppice 1 ab|a|b
`, engine.JobStatus{State: engine.Running, Tasks: engine.Tasks{Running: 1}, Began: true, Created: at("22:53:19"),
		From: at("22:53:19")}},
}

func TestStatus(t *testing.T) {
	const others = "8|N/A|RUNNING|2026-11-29T22:00:00|2026-11-29T22:00:00|N/A|(null)|None\n" +
		"8|N/A|RUNNING|x|x|x|mine|a|b\n\n"
	for name, c := range recorded {
		all, err := parse([]byte(others + c.out))
		if err != nil || len(all) != 1 {
			t.Errorf("%s: %d arrays, %v, want one", name, len(all), err)
			continue
		}
		if got := all[0].status(); got != c.want {
			t.Errorf("%s: got\n%+v, want\n%+v", name, got, c.want)
		}
	}
}

func TestDamagedLines(t *testing.T) {
	for _, line := range []string{
		"x|0|PENDING|N/A|N/A|N/A|coppice 1 ab|None",
		"1|1|PENDING|N/A|N/A|N/A|coppice 1 ab|None",
		"1|-1|PENDING|N/A|N/A|N/A|coppice 1 ab|None",
		"1|0|PENDING|yesterday|N/A|N/A|coppice 1 ab|None",
		"1|0|PENDING|N/A|N/A|N/A|coppice 9999999 ab|None",
		"-1|0|PENDING|N/A|N/A|N/A|coppice 1 ab|None",
	} {
		if all, err := parse([]byte(line + "\n")); err == nil || !strings.Contains(err.Error(), "cannot read") {
			t.Errorf("%s: read as %d arrays, %v", line, len(all), err)
		}
	}
	for _, text := range []string{"", "Submitted batch job 7\n", "0\n", "7 8\n", "12345678901\n"} {
		if id, err := arrayID([]byte(text)); err == nil {
			t.Errorf("sbatch printed %q: taken for %d", text, id)
		}
	}
	if id, err := arrayID([]byte("7;test\n")); err != nil || id != 7 {
		t.Errorf("a job of a named cluster: %d, %v", id, err)
	}
}

// FuzzParse: whatever squeue prints, every array has tasks that can be counted.
func FuzzParse(f *testing.F) {
	for _, c := range recorded {
		f.Add(c.out)
	}
	f.Fuzz(func(t *testing.T, out string) {
		all, err := parse([]byte(out))
		for _, a := range all {
			s := a.status()
			least := min(s.Tasks.Waiting, s.Tasks.Running, s.Tasks.Done, s.Tasks.Failed)
			if err == nil && (least < 0 || s.State == engine.Gone || a.id <= 0) {
				t.Errorf("%q: %+v", out, s)
			}
		}
	})
}
