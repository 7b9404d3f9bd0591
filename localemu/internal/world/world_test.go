//go:build unix

package world

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"coppice/internal/cloud"
	"coppice/internal/cloud/bigquery"
	"coppice/internal/cloud/inspect"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/localemu/batchemu"
	"coppice/localemu/gcsemu"
)

// startOnPorts starts a local cloud on four ports in a row and returns the first of them. They lie below those that the
// system gives away by itself (32768 on Linux), so that no other test's connection takes one meanwhile.
func startOnPorts(t *testing.T) (*World, int) {
	t.Helper()
	for range 50 {
		base := 20_000 + rand.IntN(12_000)
		w, err := Start(t.Context(), Options{Data: t.TempDir(), PortBase: base, Stderr: io.Discard})
		if err == nil {
			return w, base
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("starting the world: got error %v, want none or a port in use", err)
		}
	}
	t.Fatal("found no four free ports in a row in fifty tries, want one")
	return nil, 0
}

// TestPorts: with a base port, storage, Pub/Sub and Batch have it and the next two, and the environment names them. A
// second local cloud on the same ports fails, with the flag to use in the error, and leaves its folder unlocked.
func TestPorts(t *testing.T) {
	w, base := startOnPorts(t)
	defer w.Close()
	for i, name := range []string{"STORAGE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "COPPICE_BATCH_ENDPOINT"} {
		// Python's client of storage needs the scheme.
		scheme := map[string]string{"STORAGE_EMULATOR_HOST": "http://"}[name]
		if want := name + "=" + scheme + "127.0.0.1:" + strconv.Itoa(base+i); !slices.Contains(w.Env(), want) {
			t.Errorf("no %s in %q", want, w.Env())
		}
	}
	data := t.TempDir()
	if _, err := Start(t.Context(), Options{Data: data, PortBase: base, Stderr: io.Discard}); err == nil ||
		!strings.Contains(err.Error(), "--port-base") {
		t.Errorf("started on ports that are taken: got %v, want an error that names --port-base", err)
	}
	again, err := Start(t.Context(), Options{Data: data, Stderr: io.Discard})
	if err != nil {
		t.Fatalf("a start that was not possible left the folder locked: %v", err)
	}
	again.Close()
	again.Close() // does nothing
}

// TestOneWorldForOneFolder: a folder can be used by one local cloud at a time. A second one fails with a conflict and
// changes nothing; after the first is closed, another can use it.
func TestOneWorldForOneFolder(t *testing.T) {
	data := t.TempDir()
	w := must.Get(Start(t.Context(), Options{Data: data, Stderr: io.Discard}))(t)
	if _, err := Start(t.Context(), Options{Data: data, Stderr: io.Discard}); !problem.Is(err, problem.Conflict) {
		t.Errorf("second local cloud on a folder: got %v, expected a conflict", err)
	}
	if _, err := os.Stat(filepath.Join(data, "gcs")); err != nil {
		t.Errorf("the folder of the first world: got error %v, want it left by the second", err)
	}
	w.Close()
	w = must.Get(Start(t.Context(), Options{Data: data, Stderr: io.Discard}))(t)
	w.Close()
}

// TestEnviron: World.Environ adds the local cloud's variables to an environment and drops those that lead to another
// deployment. The address of a telemetry collector stays, unless it is Cloud Monitoring's. The slice that it was given
// stays as it is.
func TestEnviron(t *testing.T) {
	w := must.Get(Start(t.Context(), Options{Data: t.TempDir(), Stderr: io.Discard}))(t)
	defer w.Close()
	mine := []string{"HOME=/h", "COPPICE_ZONES=x", "STORAGE_EMULATOR_HOST=elsewhere", "STORAGE_EMULATOR_HOST_GRPC=x",
		"ODD"}
	before := slices.Clone(mine)
	got := w.Environ(mine)
	if !slices.Equal(got[:2], []string{"HOME=/h", "ODD"}) || len(got) != 2+len(w.Env()) {
		t.Errorf("the command's environment is %q, expected HOME, ODD and the local cloud's", got)
	}
	if !slices.Equal(mine, before) {
		t.Errorf("the caller's environment has become %q, want it as it was", mine)
	}

	for value, kept := range map[string]bool{
		"https://telemetry.googleapis.com": false, "https://telemetry.googleapis.com/": false,
		"http://collector:4318": true, "": true, "%": true,
		"http://collector:4318/telemetry.googleapis.com": true,
	} {
		v := "OTEL_EXPORTER_OTLP_ENDPOINT=" + value
		if slices.Contains(w.Environ([]string{v}), v) != kept {
			t.Errorf("%s: kept %t, want %t", v, !kept, kept)
		}
	}
}

// connect opens a gRPC connection to an emulator, which ends with the test.
func connect(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn := must.Get(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// tellingJob is the request for a job of one task, called "told", that publishes a notification when it has succeeded.
func tellingJob() *batchpb.CreateJobRequest {
	return &batchpb.CreateJobRequest{
		Parent: "projects/" + project + "/locations/" + location, JobId: "told", Job: &batchpb.Job{
			TaskGroups: []*batchpb.TaskGroup{{TaskSpec: &batchpb.TaskSpec{Runnables: []*batchpb.Runnable{{
				Executable: &batchpb.Runnable_Container_{Container: &batchpb.Runnable_Container{ImageUri: TaskImage}},
			}}}}},
			Notifications: []*batchpb.JobNotification{{
				PubsubTopic: topic(jobsTopic), Message: &batchpb.JobNotification_Message{
					Type: batchpb.JobNotification_JOB_STATE_CHANGED, NewJobState: batchpb.JobStatus_SUCCEEDED},
			}},
		},
	}
}

// TestJobsAreToldOf: without an aggregator, Batch's notification of a job waits in the deployment's subscription for
// it, from which the test pulls it.
func TestJobsAreToldOf(t *testing.T) {
	w := must.Get(Start(t.Context(), Options{Data: t.TempDir(), Images: map[string]string{TaskImage: "/bin/true"},
		Stderr: io.Discard}))(t)
	defer w.Close()
	if !slices.Contains(w.Env(), "COPPICE_JOBS_TOPIC="+jobsTopic) {
		t.Errorf("the environment %q has no topic of jobs", w.Env())
	}
	must.Get(batchpb.NewBatchServiceClient(connect(t, w.batch.Addr())).CreateJob(t.Context(), tellingJob()))(t)
	reader := pubsubpb.NewSubscriberClient(connect(t, w.pubsub.Addr()))
	var got []*pubsubpb.ReceivedMessage
	for len(got) == 0 && t.Context().Err() == nil { // a pull that finds nothing may answer at once
		reply := must.Get(reader.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: "projects/" + project +
			"/subscriptions/" + jobsTopic, MaxMessages: 10}))(t)
		got = reply.ReceivedMessages
	}
	if len(got) != 1 {
		t.Fatalf("%d messages, want one", len(got))
	}
	if a := got[0].Message.Attributes; a["NewJobState"] != "SUCCEEDED" ||
		!strings.HasSuffix(a["JobName"], "/jobs/told") {
		t.Errorf("the notification has %v, expected that the job told has SUCCEEDED", got)
	}
}

// TestInspect: the adapter of launcher doctor reads who is calling, what they may do and what exists in the local
// cloud. What that does not imitate gives ErrNotImitated.
func TestInspect(t *testing.T) {
	w := must.Get(Start(t.Context(), Options{Data: t.TempDir(), Stderr: io.Discard}))(t)
	defer w.Close()
	ctx := t.Context()
	c := must.Get(inspect.New(ctx, inspect.Options{Project: project, Location: location, Endpoint: w.rest.Addr()}))(t)
	if email, err := c.Caller(ctx); err != nil || email == "" {
		t.Errorf("the caller is told that it is %q, %v; expected an account", email, err)
	}
	wanted := []string{"storage.objects.create", "storage.objects.list"}
	for _, r := range []cloud.Resource{{Kind: "project", Name: project}, {Kind: "bucket", Name: "coppice-sweeps"},
		{Kind: "account", Name: account("task")}} {
		if held, err := c.Held(ctx, r, wanted); err != nil || !slices.Equal(held, wanted) {
			t.Errorf("on %s the caller holds %q, %v; expected all of %q", r, held, err, wanted)
		}
	}
	if _, err := c.Held(ctx, cloud.Resource{Kind: "bucket", Name: "coppice-none"}, wanted); !errors.Is(err,
		cloud.ErrNotThere) {
		t.Errorf("a bucket that does not exist: got %v, expected %v", err, cloud.ErrNotThere)
	}
	if err := c.Topic(ctx, topic(scoresTopic)); err != nil {
		t.Errorf("the topic of scores: got %v, expected that it exists", err)
	}
	if err := c.Topic(ctx, topic("none")); !errors.Is(err, cloud.ErrNotThere) {
		t.Errorf("a topic that does not exist: got %v, expected %v", err, cloud.ErrNotThere)
	}
	if _, err := c.Enabled(ctx, []string{"batch.googleapis.com"}); !errors.Is(err, cloud.ErrNotImitated) {
		t.Errorf("the enabled services: got %v, expected %v", err, cloud.ErrNotImitated)
	}
	if _, err := c.Region(ctx); !errors.Is(err, cloud.ErrNotImitated) {
		t.Errorf("quotas that no fault sets: got %v, expected %v", err, cloud.ErrNotImitated)
	}
}

// TestQuotaOfTheProject: launcher doctor reads the quota of vCPUs that the faults set, and that jobs run into.
func TestQuotaOfTheProject(t *testing.T) {
	w := must.Get(Start(t.Context(), Options{Data: t.TempDir(), Stderr: io.Discard, Faults: &FaultSpec{CPUs: 12}}))(t)
	defer w.Close()
	c := must.Get(inspect.New(t.Context(),
		inspect.Options{Project: project, Location: location, Endpoint: w.rest.Addr()}))(t)
	if r, err := c.Region(t.Context()); err != nil || r.Quotas[cloud.CPUsAllRegions].Limit != 12 || len(r.Zones) != 1 {
		t.Errorf("the region and its project: %+v, %v, want a zone and 12 vCPUs", r, err)
	}
}

// TestBigQuery: the adapter for BigQuery finds a table, a folder of Parquet files in the data folder, with its size,
// and exports it to a bucket, whatever the prefix. Other statements, such as those of several tables, and tables that
// are not there have errors of their own kinds.
func TestBigQuery(t *testing.T) {
	data := t.TempDir()
	folder := filepath.Join(data, "bigquery", "ads-1", "events", "clicks")
	must.Do(t, os.MkdirAll(folder, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(folder, "a.parquet"), []byte("rows"), 0o644))
	w := must.Get(Start(t.Context(), Options{Data: data, Stderr: io.Discard}))(t)
	defer w.Close()
	c := must.Get(bigquery.New(t.Context(), project, w.rest.Addr()))(t)

	const query = "SELECT * FROM `ads-1.events.clicks`"
	bytes, identity, err := c.Look(t.Context(), query)
	if err != nil || bytes != 4 || identity == "" {
		t.Errorf("looking says %d bytes, identity %q, %v; expected the file's 4", bytes, identity, err)
	}
	for id, prefix := range map[string]string{"first": "e", "second": "e+f"} {
		must.Do(t, c.Export(t.Context(), id, query, "gs://coppice-datasets/exports/"+prefix+"/*.parquet"))
		have, err := os.ReadFile(filepath.Join(data, "gcs", "coppice-datasets", "exports", prefix,
			"000000000000.parquet"))
		if err != nil || string(have) != "rows" {
			t.Errorf("exports/%s of the bucket has %q, %v; expected the table's file", prefix, have, err)
		}
	}

	for query, kind := range map[string]problem.Kind{"SELECT 1": problem.Input,
		"SELECT * FROM `ads-1.events.none`": problem.NotFound, "SELECT * FROM `../../etc`": problem.Input,
		"SELECT * FROM `ads-1.events.click*`": problem.Input} { // the tables whose names begin so
		if _, _, err := c.Look(t.Context(), query); !problem.Is(err, kind) {
			t.Errorf("%s: %v, expected an error of the kind %v", query, err, kind)
		}
	}
}

const all = `seed: 7
duplicate_messages: true
shuffle_messages: true
drop_messages: 0.5
lose_acks: 0.25
lose_machine: {1: [3s]}
no_capacity: [{type: n2-highmem-2, zone: us-central1-a, spot: false, fail: true}]
cpus_all_regions: 12
refuse_write: [{match: "sweeps/*/trials/0003/**", times: 2, status: 500}]
lose_answer: [{match: "**", times: 1}]
read_fault: [{match: "datasets/**", times: 2, delay: 1s}, {match: "*", status: 429}]
at_write: [{match: "a", nth: 2, does: lose_machine, vm: 1, code: 50001, notice: 5s}, {match: "b",
  does: kill_task, task: 3}]
`

// TestParse: every key of a file of faults is read.
func TestParse(t *testing.T) {
	s := must.Get(ParseFaults("faults.yaml", []byte(all)))(t)
	if d := cmp.Diff(&FaultSpec{
		Seed: 7, Duplicate: true, Shuffle: true, Drop: 0.5, LoseAcks: 0.25,
		Lose: map[int][]sweep.Duration{1: {sweep.Duration(3 * time.Second)}},
		Shortage: []batchemu.Shortage{{MachineType: "n2-highmem-2", Zone: "us-central1-a", Spot: new(false),
			Fail: true}}, CPUs: 12,
		Refuse:    []gcsemu.Fault{{Match: "sweeps/*/trials/0003/**", Times: 2, Status: 500}},
		LoseReply: []gcsemu.Fault{{Match: "**", Times: 1}},
		Read: []gcsemu.Fault{{Match: "datasets/**", Times: 2, Delay: sweep.Duration(time.Second)},
			{Match: "*", Status: 429}},
		AtWrite: []atWrite{{Match: "a", Nth: 2, Does: loseMachine, VM: 1, Code: 50001,
			Notice: sweep.Duration(5 * time.Second)}, {Match: "b", Does: killTask, Task: 3}},
	}, s); d != "" {
		t.Errorf("parsed with differences (-expected +parsed):\n%s", d)
	}
}

// TestExampleIsValidAndComplete: the example of a file of faults can be read and shows every key.
func TestExampleIsValidAndComplete(t *testing.T) {
	s := must.Get(ParseFaults("example", []byte(FaultsExample)))(t)
	for i, v := 0, reflect.ValueOf(*s); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the example does not show %s", v.Type().Field(i).Tag.Get("yaml"))
		}
	}
}

// FuzzParse: no file of faults crashes ParseFaults. A file is either refused with line and column, or has only faults
// that can be carried out.
func FuzzParse(f *testing.F) {
	f.Add([]byte(FaultsExample))
	f.Add([]byte("lose_machine: {0: [1s]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseFaults("f", data)
		var at *strictyaml.Error
		if err != nil {
			if !errors.As(err, &at) {
				t.Fatalf("%q is refused with a %T: %v; expected one with line and column", data, err, err)
			}
			return
		}
		for _, a := range s.AtWrite {
			if a.Match == "" || a.VM < 0 || a.Notice > 0 && a.Does != loseMachine {
				t.Fatalf("%q is accepted with %+v, want it refused", data, a)
			}
		}
	})
}

// TestRefuses: each mistake in a file of faults, here all on line 1, is refused with its place and what is wrong. The
// one case with "" is right and accepted.
func TestRefuses(t *testing.T) {
	for text, where := range map[string]string{
		"drop_message: 1":                                         "f:1:1: unknown key",
		"drop_messages: 2":                                        "f:1:16: drop_messages",
		"lose_acks: -0.5":                                         "f:1:12: lose_acks",
		"no_capacity: [{zone: us-central1}]":                      "f:1:16: zone \"us-central1\"",
		"no_capacity: [{kind: spot}]":                             "kind",
		"cpus_all_regions: -1":                                    "f:1:19: cpus_all_regions",
		"lose_machine: {1: [-1s]}":                                "after -1s",
		"lose_machine: {1: [2]}":                                  "duration",
		"lose_machine: {-1: [1s]}":                                "machine -1",
		"lose_machine: {one: [1s]}":                               "one",
		"refuse_write: [{match: x, times: -1}]":                   "times is -1",
		"refuse_write: [{match: x, status: 200}]":                 "status is 200",
		"read_fault: [{match: x, delay: -1s}]":                    "delay is -1s",
		"lose_answer: [{times: 1}]":                               "match",
		"at_write: [{match: a, does: lose_machine}]":              "",
		"at_write: [{does: kill_task}]":                           "pattern",
		`at_write: [{match: "[", does: kill_task}]`:               "pattern",
		"at_write: [{match: a, does: dance}]":                     "lose_machine, kill_task",
		"at_write: [{match: a, does: kill_task, nth: -1}]":        "cannot be negative",
		"at_write: [{match: a, does: lose_machine, code: 50005}]": "50001 50002 50003 50004 50006",
		"at_write: [{match: a, does: kill_task, code: 50004}]":    "with lose_machine",
		"at_write: [{match: a, does: kill_task, notice: 2s}]":     "with lose_machine",
		"at_write: [{match: a, does: lose_machine, notice: 9h}]":  "5m",
	} {
		_, err := ParseFaults("f", []byte(text))
		var at *strictyaml.Error
		switch {
		case where == "" && err != nil:
			t.Errorf("%s: %v, want it accepted", text, err)
		case where != "" && (!errors.As(err, &at) || at.Line != 1 || !strings.Contains(err.Error(), where)):
			t.Errorf("%s: got %v, want an error on line 1 with %q in it", text, err, where)
		}
	}
}

// TestAtTheSecondWrite: a fault at the second write of plans/* kills the aggregator when plans/b is written, neither
// before nor again at plans/c, and the file of faults counts it once. Here a sleeping script is the aggregator.
func TestAtTheSecondWrite(t *testing.T) {
	program := filepath.Join(t.TempDir(), "aggregator")
	must.Do(t, os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 100\n"), 0o700))
	spec := must.Get(ParseFaults("f", []byte("at_write: [{match: \"plans/*\", nth: 2, does: kill_aggregators}]\n")))(t)
	w := must.Get(Start(t.Context(), Options{Data: t.TempDir(), Aggregator: program, Environ: os.Environ(),
		Faults: spec, Stderr: io.Discard}))(t)
	defer w.Close()
	first := w.aggregators.running[0].proc
	for i, name := range []string{"plans/a", "other", "plans/b", "plans/c"} { // other does not match, nor count
		answer, err := http.Post("http://"+w.storage.Addr()+
			"/upload/storage/v1/b/coppice-sweeps/o?uploadType=media&name="+name, "text/plain", strings.NewReader("x"))
		must.Do(t, err)
		answer.Body.Close()
		w.script.mu.Lock()
		if got, want := w.script.counts["aggregator killed"], min(i/2, 1); got != want { // 0 before plans/b, then 1
			t.Errorf("after writing %s the aggregator was killed %d times; want %d", name, got, want)
		}
		w.script.mu.Unlock()
	}
	<-first.Done()
	w.Close()

	var counts map[string]int
	text, err := os.ReadFile(filepath.Join(w.Data(), FaultsFile))
	if err == nil {
		err = json.Unmarshal(text, &counts)
	}
	if err != nil || counts["aggregator killed"] != 1 || len(counts) != 1 {
		t.Errorf("%s says %v, %v; want one aggregator killed", FaultsFile, counts, err)
	}
}
