//go:build unix

package batchemu

import (
	"fmt"
	"regexp"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// Notification is what is published when a job changes its state. Google documents neither its attributes nor its text;
// both are as programs that read such messages expect them.
type Notification struct {
	Topic      string // projects/P/topics/T
	Attributes map[string]string
	Data       string // for people
}

var topicPattern = regexp.MustCompile(`^projects/[a-z0-9:.-]+/topics/[A-Za-z][A-Za-z0-9._~%+-]{2,254}$`)

// checkNotifications refuses notifications that would behave differently here than in the cloud.
func (s *Server) checkNotifications(all []*batchpb.JobNotification) error {
	if len(all) > 0 && s.opts.Notify == nil {
		return unimitated("notifications where it has no Pub/Sub")
	}
	for _, n := range all {
		switch {
		case !topicPattern.MatchString(n.GetPubsubTopic()):
			return invalid("notification: topic %.200q is not projects/PROJECT/topics/TOPIC", n.GetPubsubTopic())
		case n.GetMessage().GetType() == batchpb.JobNotification_TASK_STATE_CHANGED ||
			n.GetMessage().GetNewTaskState() != batchpb.TaskStatus_STATE_UNSPECIFIED:
			return unimitated("notifications about tasks")
		}
	}
	return nil
}

// tell publishes that the job has reached the state, where the job asks for it: a notification without a message asks
// for nothing, one without a state for every change. The lock is held.
func (j *job) tell(state batchpb.JobStatus_State, now time.Time) {
	for _, n := range j.spec.GetNotifications() {
		m := n.GetMessage()
		wanted := m.GetNewJobState() == batchpb.JobStatus_STATE_UNSPECIFIED || m.GetNewJobState() == state
		if m.GetType() != batchpb.JobNotification_JOB_STATE_CHANGED || !wanted {
			continue
		}

		j.srv.opts.Notify(Notification{
			Topic: n.GetPubsubTopic(),
			Attributes: map[string]string{"Type": m.GetType().String(), "JobName": j.spec.Name, "JobUID": j.spec.Uid,
				"NewJobState": state.String()},
			Data: fmt.Sprintf("Job state was updated: jobUID=%s, previousState=%s, currentState=%s, timestamp=%s",
				j.spec.Uid, j.state, state, now.Format(time.RFC3339)),
		})
	}
}
