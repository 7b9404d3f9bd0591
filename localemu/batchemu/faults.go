package batchemu

import (
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"coppice/internal/sweep"
)

// Faults are the failures to inject, in every job alike.
type Faults struct {
	// LoseMachine says when machines vanish, by number, from when the job began to run: see Server.LoseMachine.
	LoseMachine map[int][]sweep.Duration
	NoCapacity  []Shortage
	// CPUs is the project's quota CPUS_ALL_REGIONS: a job gets as many of its machines as that leaves room for beside
	// those of other jobs, and no more later. 0 is no quota.
	CPUs int
}

// Shortage means that machines of the type cannot be had in the zone: a job that may run nowhere else stays SCHEDULED
// until it is cancelled, or fails at once. Empty fields match any type, any zone, any kind.
type Shortage struct {
	MachineType string `yaml:"type"`
	Zone        string `yaml:"zone"` // such as us-central1-a
	Spot        *bool  `yaml:"spot"` // only Spot machines, or only others
	Fail        bool   `yaml:"fail"`
}

// Check returns what is wrong with a shortage.
func (s Shortage) Check() error {
	if s.Zone != "" && !zonePattern.MatchString("zones/"+s.Zone) {
		return fmt.Errorf("zone %.60q: use one such as us-central1-a", s.Zone)
	}
	return nil
}

// CheckLosses returns what is wrong with Faults.LoseMachine.
func CheckLosses(all map[int][]sweep.Duration) error {
	for vm, losses := range all {
		for _, after := range losses {
			if vm < 0 || after < 0 || time.Duration(after) > maxRunTime {
				return fmt.Errorf("machine %d after %s: use 0 or more, and 0s to %s", vm, after, maxRunTime)
			}
		}
	}
	return nil
}

// scheduleFaults starts a timer for every loss of a machine that Faults.LoseMachine names. stop stops those that have
// not fired.
func (j *job) scheduleFaults() (stop func()) {
	var timers []*time.Timer
	for vm, losses := range j.srv.opts.Faults.LoseMachine {
		for _, after := range losses {
			timers = append(timers, time.AfterFunc(time.Duration(after), func() {
				j.srv.mu.Lock()
				defer j.srv.mu.Unlock()
				j.loseMachine(vm, causeLost, 0)
			}))
		}
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}

// shortage returns the first fault that leaves a zone ("zones/Z") without machines for the job; nil if there is none.
func (j *job) shortage(zone string) *Shortage {
	for i, f := range j.srv.opts.Faults.NoCapacity {
		if (f.MachineType == "" || f.MachineType == j.plan.machineType) && (f.Zone == "" || "zones/"+f.Zone == zone) &&
			(f.Spot == nil || *f.Spot == j.plan.spot) {
			return &j.srv.opts.Faults.NoCapacity[i]
		}
	}
	return nil
}

// settleIn sets j.zone to the first zone that has machines for the job. For each zone without, it adds an event with
// the service's text. If none has machines, found is false, and fail says whether the job fails at once or waits:
// what the fault of the last zone says counts.
func (j *job) settleIn() (found, fail bool) {
	for _, zone := range j.plan.zones {
		f := j.shortage(zone)
		if f == nil {
			j.zone = zone
			return true, false
		}

		fail = f.Fail
		j.srv.mu.Lock()
		j.lacks("CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED", "Instance of type %s: the zone '%s' does not have enough "+
			"resources available to fulfill the request.", j.plan.machineType, strings.TrimPrefix(zone, "zones/"))
		j.srv.mu.Unlock()
	}
	return false, fail
}

// lacks adds the event that Batch writes about machines that it could not create. The lock is held.
func (j *job) lacks(code, message string, args ...any) {
	j.updated = time.Now()
	j.events = append(j.events, &batchpb.StatusEvent{Type: "OPERATIONAL_INFO", EventTime: timestamppb.New(j.updated),
		Description: "Batch Error: code - " + code + ", description - error count is 1, latest message example: " +
			fmt.Sprintf(message, args...)})
}

// grantMachines sets j.granted to how many machines the job gets, and returns it: all that it needs, or fewer if
// Faults.CPUs limits the vCPUs of all jobs together and the others leave less room. If it gets fewer, an event says so
// in Compute Engine's words.
func (j *job) grantMachines() int {
	s, limit := j.srv, j.srv.opts.Faults.CPUs
	s.mu.Lock()
	defer s.mu.Unlock()
	room := limit // in vCPUs
	for _, other := range s.jobs {
		if !terminal(other.state) {
			room -= other.granted * vcpusOf(other.plan.machineType)
		}
	}
	n := min(j.plan.vms, max(0, room)/vcpusOf(j.plan.machineType))
	if limit == 0 {
		n = j.plan.vms
	}
	if j.granted = n; n == j.plan.vms {
		return n
	}
	j.lacks("CODE_GCE_QUOTA_EXCEEDED", "Instance '%s-%d' creation failed: Quota 'CPUS_ALL_REGIONS' exceeded.  "+
		"Limit: %d.0 globally.", j.id, n, limit)
	return n
}

// LossCodes are the exit codes that Batch may give a task because of its machine.
var LossCodes = []int{50001, 50002, 50003, 50004, 50006}

// MaxNotice bounds the time between a machine's notice and its end.
const MaxNotice = 5 * time.Minute

// LoseMachine makes the machine number vm of every running job vanish. Its tasks get SIGTERM and, after the notice,
// SIGKILL; without a notice they are killed at once. They end with the exit code, which has to be one of LossCodes. The
// machine's local SSD is lost, and a new machine takes its place.
func (s *Server) LoseMachine(vm, code int, notice time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		for c, r := range reserved {
			if int(r.code) == code {
				j.loseMachine(vm, c, notice)
			}
		}
	}
}

// KillTask kills the processes of a task of every running job, as the kernel does when memory is short. A task that
// does not run, or is being ended for another reason, is left alone.
func (s *Server) KillTask(task int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		for _, vm := range j.vms {
			for _, a := range vm.attempts {
				if a.task.index == task && a.cause == causeNone && a.process != nil && !a.hasEnded() {
					s.opts.Struck("task killed")
					a.process.Kill()
				}
			}
		}
	}
}
