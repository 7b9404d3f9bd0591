//go:build unix

package world

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"coppice/internal/must"
	"coppice/internal/problem"
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
			t.Fatal(err)
		}
	}
	t.Fatal("no four free ports in a row, in fifty places")
	return nil, 0
}

func TestPorts(t *testing.T) {
	w, base := startOnPorts(t)
	defer w.Close()
	for i, name := range []string{"STORAGE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "COPPICE_BATCH_ENDPOINT"} {
		// without one, Python's client has no adapter for it
		scheme := map[string]string{"STORAGE_EMULATOR_HOST": "http://"}[name]
		if want := name + "=" + scheme + "127.0.0.1:" + strconv.Itoa(base+i); !slices.Contains(w.Env(), want) {
			t.Errorf("no %s in %q", want, w.Env())
		}
	}
	data := t.TempDir()
	if _, err := Start(t.Context(), Options{Data: data, PortBase: base, Stderr: io.Discard}); err == nil ||
		!strings.Contains(err.Error(), "--port-base") {
		t.Errorf("taken ports: %v", err)
	}
	again, err := Start(t.Context(), Options{Data: data, Stderr: io.Discard})
	if err != nil {
		t.Fatalf("a start that was not possible left the folder locked: %v", err)
	}
	again.Close()
	again.Close()
}

func TestOneWorldForOneFolder(t *testing.T) {
	data := t.TempDir()
	w := must.Get(Start(t.Context(), Options{Data: data, Stderr: io.Discard}))(t)
	if _, err := Start(t.Context(), Options{Data: data, Stderr: io.Discard}); !problem.Is(err, problem.Conflict) {
		t.Errorf("second local cloud on a folder: got %v, expected a conflict", err)
	}
	if _, err := os.Stat(filepath.Join(data, "gcs")); err != nil {
		t.Errorf("the second world removed the folder of the first: %v", err)
	}
	w.Close()
	w = must.Get(Start(t.Context(), Options{Data: data, Stderr: io.Discard}))(t)
	w.Close()
}

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
		t.Errorf("the caller's environment has become %q", mine)
	}
	// Measurements do not go to the cloud from here; they do go to a collector that was configured.
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

func connect(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn := must.Get(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// tellingJob asks for a job of one task that is to notify of its success.
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

// TestJobsAreToldOf: Batch's notification of a job waits, where no aggregator runs, in the subscription
// that the deployment has for it.
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
		t.Fatalf("%d messages", len(got))
	}
	if a := got[0].Message.Attributes; a["NewJobState"] != "SUCCEEDED" ||
		!strings.HasSuffix(a["JobName"], "/jobs/told") {
		t.Errorf("the notification has %v, expected that the job told has SUCCEEDED", got)
	}
}
