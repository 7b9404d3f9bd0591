//go:build unix

package batchemu

import (
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const jobsTopic = "projects/local-project/topics/coppice-jobs"

func notification(topic string, m *batchpb.JobNotification_Message) *batchpb.JobNotification {
	return &batchpb.JobNotification{PubsubTopic: topic, Message: m}
}

func TestNotifications(t *testing.T) {
	var mu sync.Mutex
	var got []Notification
	w := newWorld(t, func(o *Options) {
		o.Notify = func(n Notification) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, n)
		}
	})
	changed := batchpb.JobNotification_JOB_STATE_CHANGED
	job := w.create("told-1", "ok", 1, func(j *batchpb.Job) {
		j.Notifications = []*batchpb.JobNotification{
			notification(jobsTopic, &batchpb.JobNotification_Message{Type: changed}),
			notification("projects/p/topics/failures", &batchpb.JobNotification_Message{Type: changed,
				NewJobState: batchpb.JobStatus_FAILED}),
			notification("projects/p/topics/ends", &batchpb.JobNotification_Message{Type: changed,
				NewJobState: batchpb.JobStatus_SUCCEEDED}),
			notification("projects/p/topics/nothing", nil),
		}
	})
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	mu.Lock()
	defer mu.Unlock()
	var told []string
	for _, n := range got {
		a := n.Attributes
		told = append(told, n.Topic+" "+a["NewJobState"])
		if len(a) != 4 || a["Type"] != "JOB_STATE_CHANGED" || a["JobName"] != job.Name || a["JobUID"] != job.Uid ||
			!strings.Contains(n.Data, "jobUID="+job.Uid) {
			t.Errorf("the notification is %+v, expected the type, the job's name and UID and its new state", n)
		}
	}
	if want := jobsTopic + " SCHEDULED," + jobsTopic + " RUNNING," + jobsTopic +
		" SUCCEEDED,projects/p/topics/ends SUCCEEDED"; strings.Join(told, ",") != want {
		t.Errorf("told %q", told)
	}
	if data := got[1].Data; !strings.Contains(data, "previousState=SCHEDULED, currentState=RUNNING, timestamp=2") {
		t.Errorf("data %q", data)
	}
}

func TestNotificationsRefused(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Notify = func(Notification) {} })
	silent := newWorld(t, nil)
	for name, c := range map[string]struct {
		w    *world
		n    *batchpb.JobNotification
		code codes.Code
		word string
	}{
		"no Pub/Sub": {silent, notification(jobsTopic, nil), codes.Unimplemented, "no Pub/Sub"},
		"no topic":   {w, notification("coppice-jobs", nil), codes.InvalidArgument, "topic"},
		"tasks": {w, notification(jobsTopic,
			&batchpb.JobNotification_Message{Type: batchpb.JobNotification_TASK_STATE_CHANGED}),
			codes.Unimplemented, "tasks"},
	} {
		_, err := c.w.client.CreateJob(w.ctx,
			w.request("refused-1", "ok", 1, func(j *batchpb.Job) { j.Notifications = []*batchpb.JobNotification{c.n} }))
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.word) {
			t.Errorf("%s: got %v, want %v about %q", name, err, c.code, c.word)
		}
	}
}
