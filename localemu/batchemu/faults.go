package batchemu

import "time"

// Faults are what goes wrong on purpose, in every job alike. Each happens once per job.
type Faults struct {
	Preempt     []Preemption
	LoseMachine []MachineLoss
}

// Preemption takes a Spot machine away. Jobs on standard machines are not preempted.
//
// With Task and Attempt set, only that attempt dies, After its start, and its machine's other tasks go on: the smallest
// test of a retry. With VM set, the whole machine goes After the job began to run: all its attempts die and its local SSD
// is lost, as it really happens.
type Preemption struct {
	VM      *int
	Task    int
	Attempt int
	After   time.Duration
}

// MachineLoss lets the machine number VM vanish After the job began to run, whatever its kind: its tasks end with 50002,
// its local SSD is lost, and a new machine takes its place.
type MachineLoss struct {
	VM    int
	After time.Duration
}
