//go:build unix

package batchemu

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestCreateJobRefuses(t *testing.T) {
	w := newWorld(t, nil)
	spec := func(j *batchpb.Job) *batchpb.TaskSpec { return j.TaskGroups[0].TaskSpec }
	policy := func(j *batchpb.Job) *batchpb.AllocationPolicy_InstancePolicy {
		return j.AllocationPolicy.Instances[0].GetPolicy()
	}
	locations := func(l ...string) func(*batchpb.Job) {
		return func(j *batchpb.Job) {
			j.AllocationPolicy.Location = &batchpb.AllocationPolicy_LocationPolicy{AllowedLocations: l}
		}
	}
	for name, c := range map[string]struct {
		change func(*batchpb.Job)
		code   codes.Code
		word   string
	}{
		"no group": {func(j *batchpb.Job) { j.TaskGroups = nil }, codes.InvalidArgument, "exactly one"},
		"two groups": {func(j *batchpb.Job) { j.TaskGroups = append(j.TaskGroups, j.TaskGroups[0]) },
			codes.InvalidArgument, "exactly one"},
		"no spec": {func(j *batchpb.Job) { j.TaskGroups[0].TaskSpec = nil }, codes.InvalidArgument,
			"task_spec"},
		"no runnable": {func(j *batchpb.Job) { spec(j).Runnables = nil }, codes.InvalidArgument, "runnables"},
		"tasks": {func(j *batchpb.Job) { j.TaskGroups[0].TaskCount = 100_001 }, codes.InvalidArgument,
			"task_count"},
		"parallelism": {func(j *batchpb.Job) { j.TaskGroups[0].Parallelism = 5_001 }, codes.InvalidArgument,
			"parallelism"},
		"per node": {func(j *batchpb.Job) { j.TaskGroups[0].TaskCountPerNode = 21 }, codes.InvalidArgument,
			"task_count_per_node"},
		"per node, together": {func(j *batchpb.Job) { j.TaskGroups[0].Parallelism = 2 }, codes.InvalidArgument,
			"more than the parallelism"},
		"in order": {func(j *batchpb.Job) { j.TaskGroups[0].SchedulingPolicy = batchpb.TaskGroup_IN_ORDER },
			codes.InvalidArgument, "IN_ORDER"},
		"retries": {func(j *batchpb.Job) { spec(j).MaxRetryCount = 11 }, codes.InvalidArgument,
			"max_retry_count"},
		"policies": {func(j *batchpb.Job) {
			spec(j).LifecyclePolicies = append(spec(j).LifecyclePolicies, &batchpb.LifecyclePolicy{})
		}, codes.InvalidArgument, "lifecycle"},
		"policy without code": {func(j *batchpb.Job) { spec(j).LifecyclePolicies[0].ActionCondition = nil },
			codes.InvalidArgument, "exit codes"},
		"run duration": {func(j *batchpb.Job) { spec(j).MaxRunDuration = durationpb.New(15 * 24 * time.Hour) },
			codes.InvalidArgument, "max_run_duration"},
		"relative mount": {func(j *batchpb.Job) { spec(j).Volumes[0].MountPath = "mnt/ssd" },
			codes.InvalidArgument, "mount path"},
		"climbing mount": {func(j *batchpb.Job) { spec(j).Volumes[0].MountPath = "/mnt/../etc" },
			codes.InvalidArgument, "mount path"},
		"no such device": {func(j *batchpb.Job) { policy(j).Disks = nil }, codes.InvalidArgument, "device name"},
		"small SSD": {func(j *batchpb.Job) { policy(j).Disks[0].GetNewDisk().SizeGb = 100 },
			codes.InvalidArgument, "local SSD"},
		"machine type": {func(j *batchpb.Job) { policy(j).MachineType = "big" }, codes.InvalidArgument,
			"not a machine type"},
		"machines in a zone": {func(j *batchpb.Job) {
			g := j.TaskGroups[0]
			g.TaskCount, g.Parallelism, g.TaskCountPerNode = 2001, 2001, 1
			j.AllocationPolicy.Location = &batchpb.AllocationPolicy_LocationPolicy{AllowedLocations: []string{"zones/us-central1-a"}}
		}, codes.InvalidArgument, "machines"},
		"label key": {func(j *batchpb.Job) { j.Labels["Upper"] = "x" }, codes.InvalidArgument, "label"},
		"label value": {func(j *batchpb.Job) { j.Labels["x"] = strings.Repeat("x", 64) }, codes.InvalidArgument,
			"label"},
		"reserved label": {func(j *batchpb.Job) { j.Labels["goog-x"] = "x" }, codes.InvalidArgument, "reserved"},
		"priority":       {func(j *batchpb.Job) { j.Priority = 100 }, codes.InvalidArgument, "priority"},
		"too big": {func(j *batchpb.Job) { spec(j).Environment.Variables["X"] = strings.Repeat("x", 1<<20) },
			codes.InvalidArgument, "bytes"},
		"variable": {func(j *batchpb.Job) { spec(j).Environment.Variables["A=B"] = "x" },
			codes.InvalidArgument, "variable"},
		"zero in a command": {func(j *batchpb.Job) { spec(j).Runnables[0].GetContainer().Commands = []string{"a\x00b"} }, codes.InvalidArgument, "zero byte"},
		"other region":      {locations("regions/europe-west1"), codes.InvalidArgument, "allowed location"},
		"region and zone": {locations("regions/us-central1", "zones/us-central1-a"), codes.InvalidArgument,
			"allowed_locations"},
		"unknown image": {func(j *batchpb.Job) { spec(j).Runnables[0].GetContainer().ImageUri = "other" },
			codes.FailedPrecondition, "--image"},
		"two runnables": {func(j *batchpb.Job) {
			spec(j).Runnables = append(spec(j).Runnables,
				spec(j).Runnables[0])
		}, codes.Unimplemented, "runnables"},
		"entrypoint": {func(j *batchpb.Job) { spec(j).Runnables[0].GetContainer().Entrypoint = "/bin/sh" },
			codes.Unimplemented, "entrypoint"},
		"hosts file": {func(j *batchpb.Job) { j.TaskGroups[0].RequireHostsFile = true }, codes.Unimplemented,
			"hosts"},
		"notification": {func(j *batchpb.Job) { j.Notifications = []*batchpb.JobNotification{{}} },
			codes.Unimplemented, "notification"},
		"network volume": {func(j *batchpb.Job) {
			spec(j).Volumes[0].Source = &batchpb.Volume_Gcs{Gcs: &batchpb.GCS{RemotePath: "b"}}
		}, codes.Unimplemented, "volumes"},
	} {
		_, err := w.client.CreateJob(w.ctx, w.request("refused-1", "ok", 4, c.change))
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.word) {
			t.Errorf("%s: got %v, want %v about %q", name, err, c.code, c.word)
		}
	}
	for _, id := range []string{"Upper", "1st", "dash-", strings.Repeat("x", 64), "a/b", "../x"} {
		r := w.request("x", "ok", 1, nil)
		r.JobId = id
		if _, err := w.client.CreateJob(w.ctx, r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("job id %q: %v", id, err)
		}
	}
	for _, id := range []string{"1", "00000000-0000-0000-0000-000000000000", "6f1f0a6e5a554c0e8a5b3a9a7c7b0001"} {
		r := w.request("x", "ok", 1, nil)
		r.RequestId = id
		if _, err := w.client.CreateJob(w.ctx, r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("request id %q: %v", id, err)
		}
	}
	r := w.request("x", "ok", 1, nil)
	r.Parent = "projects/p"
	if _, err := w.client.CreateJob(w.ctx, r); status.Code(err) != codes.InvalidArgument {
		t.Errorf("parent: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("default-1", "hang", 40, func(j *batchpb.Job) {
		g := j.TaskGroups[0]
		g.Parallelism, g.TaskCountPerNode = 0, 0
		g.TaskSpec.ComputeResource = &batchpb.ComputeResource{CpuMilli: 4000}
		j.AllocationPolicy.Location = &batchpb.AllocationPolicy_LocationPolicy{AllowedLocations: []string{"zones/us-central1-f"}}
	})
	g := job.TaskGroups[0]
	if g.Parallelism != 40 || g.TaskCountPerNode != 4 { // 16 CPUs, 4 for each task
		t.Errorf("parallelism %d, per node %d", g.Parallelism, g.TaskCountPerNode)
	}
	w.waitCount(job.Name, "RUNNING", 40)
	if e := w.task(job.Name, 0).Status.StatusEvents[0]; !strings.Contains(e.Description, "zones/us-central1-f/") {
		t.Errorf("event %v", e)
	}
}

func TestRewrite(t *testing.T) {
	mounts := []mount{{"/mnt/ssd", "/data/vm/ssd"}, {"/mnt/ssd/deep", "/data/vm/disk-1"}}
	for text, want := range map[string]string{
		"":                         "",
		"/mnt/ssd":                 "/data/vm/ssd",
		"/mnt/ssd/":                "/data/vm/ssd/",
		"--a=/mnt/ssd/x:/mnt/ssd":  "--a=/data/vm/ssd/x:/data/vm/ssd",
		"/mnt/ssd/deep/x":          "/data/vm/disk-1/x",
		"/mnt/ssd/deeper":          "/data/vm/ssd/deeper",
		"/mnt/ssd2 /mnt/ssd-x":     "/mnt/ssd2 /mnt/ssd-x",
		"/srv/mnt/ssd x/mnt/ssd":   "/srv/mnt/ssd x/mnt/ssd",
		`{"dir":"/mnt/ssd","n":1}`: `{"dir":"/data/vm/ssd","n":1}`,
	} {
		if got := rewrite(text, mounts); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(`labels."a" = "b" AND labels.c = d`)
	f.Add(`a."`)
	f.Fuzz(func(t *testing.T, text string) {
		keep, err := parseFilter(text)
		if err != nil {
			if status.Code(err) != codes.Unimplemented {
				t.Fatalf("filter %q: got %v, expected UNIMPLEMENTED", text, err)
			}
			return
		}
		keep(map[string]string{"a": "b"})
	})
}
