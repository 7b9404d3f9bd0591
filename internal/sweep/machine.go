package sweep

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"coppice/internal/strictyaml"
)

// Machine says what the trials run on.
type Machine struct {
	Type           string `yaml:"type" json:"type"`                         // a Compute Engine machine type, or:
	VCPUs          int    `yaml:"vcpus" json:"-"`                           // of a cluster's nodes, whose Type
	Memory         int    `yaml:"memory" json:"-"`                          // (GiB) is then custom-VCPUS-MIB
	Spot           *bool  `yaml:"spot" json:"spot"`                         // default true; never nil once parsed
	VMs            int    `yaml:"vms" json:"vms"`                           // how many at once, default 1
	ThreadsPerTask int    `yaml:"threads_per_task" json:"threads_per_task"` // default 4
	// default auto: as many as CPU and memory allow
	TasksPerVM Auto `yaml:"tasks_per_vm" json:"tasks_per_vm"`
	// disks of 375 GiB on each VM, default auto: the fewest that hold the dataset
	LocalSSD Auto `yaml:"local_ssd" json:"local_ssd"`

	Zones []string `yaml:"zones" json:"zones,omitempty"` // where the VMs may be; default: the deployment's choice

	// Wait is how long a job may go without machines before the next entry of Fallback is tried, default 10m. The last
	// entry waits for as long as it takes.
	Wait     Duration   `yaml:"wait" json:"wait,omitzero"`
	Fallback []Fallback `yaml:"fallback" json:"fallback,omitempty"`
}

// Fallback is what a sweep runs on if the machines before it in the order are not available. Unset fields are as in
// Machine.
type Fallback struct {
	Type  string   `yaml:"type" json:"type,omitempty"`
	Zones []string `yaml:"zones" json:"zones,omitempty"`
	Spot  *bool    `yaml:"spot" json:"spot,omitempty"`
	// the fewest that hold the dataset, by the plan: each type allows other numbers
	LocalSSD Auto `yaml:"-" json:"local_ssd,omitempty"`
}

// MaxFallbacks bounds the list of fallbacks.
const MaxFallbacks = 20

// Choice returns the machines of the sweep's job number n: Machine itself, or Machine changed by a fallback.
func (m Machine) Choice(n int) Machine {
	if n == 0 {
		return m
	}
	f := m.Fallback[n-1]
	if f.Type != "" {
		m.Type = f.Type
	}
	if f.Spot != nil {
		m.Spot = f.Spot
	}
	if f.Zones != nil {
		m.Zones = f.Zones
	}
	m.LocalSSD = f.LocalSSD
	return m
}

// Auto is a count, or "auto" (0), which leaves it to Coppice.
type Auto int

// UnmarshalYAML accepts a whole number or the word auto.
func (a *Auto) UnmarshalYAML(decode func(any) error) error {
	var word string
	if decode(&word) == nil && word == "auto" {
		*a = 0
		return nil
	}
	return decode((*int)(a))
}

// MaxBudget bounds a budget, in USD: more is a typing error.
const MaxBudget = 1e6

// CheckBudget rejects an invalid amount for a budget.
func CheckBudget(usd float64) error {
	if !(usd > 0) || usd > MaxBudget {
		return fmt.Errorf("budget is %v: use an amount of USD above 0, at most %.0f", usd, MaxBudget)
	}
	return nil
}

// Labels as Google Cloud takes them on a job, its machines and disks.
var (
	labelKey   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelValue = regexp.MustCompile(`^[a-z0-9_-]{1,63}$`)
)

const maxOwnLabels = 32 // of 64, with those of Coppice and of the deployment

// checkLabels refuses labels that Google Cloud does not take on a job or a machine, and those that the programs set
// themselves.
func (s *Spec) checkLabels(doc *strictyaml.Document) error {
	if len(s.Labels) > maxOwnLabels {
		return doc.Errorf("labels", "%d labels: use at most %d", len(s.Labels), maxOwnLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		switch {
		case strings.HasPrefix(key, "coppice") || strings.HasPrefix(key, "goog"):
			return doc.Errorf("labels", "label %q: those that begin with coppice or goog are set by the programs", key)
		case !labelKey.MatchString(key):
			return doc.Errorf("labels", "label %.80q: use up to 63 of a-z, 0-9, '_' and '-', beginning with a letter",
				key)
		case !labelValue.MatchString(s.Labels[key]):
			return doc.Errorf("labels."+key, "value %.80q: use 1 to 63 of a-z, 0-9, '_' and '-'", s.Labels[key])
		}
	}
	return nil
}

// checkMachine checks the key machine, and what else is about machines: labels, budget and limits. A machine is either
// one of Google's types or, on a cluster, described by vCPUs and memory; then what only Google's machines have is
// refused. Fallbacks are checked by checkFallback.
func (s *Spec) checkMachine(doc *strictyaml.Document, v Vocabulary) error {
	m := s.Machine
	described := doc.Has("machine.vcpus") || doc.Has("machine.memory")
	for _, key := range []string{"type", "spot", "local_ssd", "zones", "fallback"} {
		if described && doc.Has("machine."+key) {
			return doc.Errorf("machine."+key, "%s is of Google's machines; vcpus and memory describe a cluster's", key)
		}
	}
	if described && (m.VCPUs < 1 || m.VCPUs > 9999 || m.Memory < 1 || m.Memory > 99999) {
		return doc.Errorf("machine", "%d vCPUs, %d GiB: give both, as in {vcpus: 16, memory: 64}", m.VCPUs, m.Memory)
	}
	if err := v.Machine(m.Type); err != nil && !described {
		return doc.Errorf("machine.type", "%v", err)
	}

	if err := s.checkLabels(doc); err != nil {
		return err
	}
	if doc.Has("budget") {
		if err := CheckBudget(s.Budget); err != nil {
			return doc.Errorf("budget", "%v", err)
		}
	}

	// Counts; 0 is auto, where it is allowed.
	for _, c := range []struct {
		path      string
		value     int
		low, high int
	}{
		{"machine.vms", m.VMs, 1, 2000},
		{"machine.threads_per_task", m.ThreadsPerTask, 1, 512},
		{"machine.tasks_per_vm", int(m.TasksPerVM), 0, 512},
		{"machine.local_ssd", int(m.LocalSSD), 0, 48},
	} {
		if c.value < c.low || c.value > c.high {
			return doc.Errorf(c.path, "%s is %d: use %d to %d", c.path, c.value, c.low, c.high)
		}
	}

	if m.LocalSSD != 0 {
		if err := v.LocalSSD(m.Type, int(m.LocalSSD)); err != nil {
			return doc.Errorf("machine.local_ssd", "%v", err)
		}
	}

	return s.checkLimits(doc)
}

// checkLimits checks limits: durations from a second to two weeks, and the quorum as a share.
func (s *Spec) checkLimits(doc *strictyaml.Document) error {
	l := s.Limits
	for _, c := range []struct {
		path  string
		limit Duration
	}{{"limits.trial", l.Trial}, {"limits.sweep", l.Sweep}} {
		if time.Duration(c.limit) < time.Second || time.Duration(c.limit) > 14*24*time.Hour {
			return doc.Errorf(c.path, "%s is %s: use 1s to 336h", c.path, c.limit)
		}
	}
	if l.Trial > l.Sweep && doc.Has("limits.trial") && doc.Has("limits.sweep") {
		return doc.Errorf("limits.trial", "limits.trial is %s, longer than limits.sweep with %s", l.Trial, l.Sweep)
	}

	if !(l.Quorum > 0 && l.Quorum <= 1) {
		return doc.Errorf("limits.quorum", "quorum is %v: use a share above 0, up to 1", l.Quorum)
	}

	return nil
}

var zonePattern = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+-[a-z]$`)

// checkZones refuses what is not the name of a zone. It does not check that there is such a zone, or in which region.
// at is the key that has the zones.
func checkZones(doc *strictyaml.Document, at string, zones []string) error {
	for i, z := range zones {
		if !zonePattern.MatchString(z) {
			return doc.Errorf(fmt.Sprintf("%s.zones[%d]", at, i), "zone %.60q: use one such as us-central1-a", z)
		}
	}
	return nil
}

// checkFallback checks machine.fallback, the machines to be tried one after the other, and machine.wait, which is how
// long each is waited for. Each has to differ from the one before.
func (s *Spec) checkFallback(doc *strictyaml.Document, v Vocabulary) error {
	m := s.Machine
	if err := checkZones(doc, "machine", m.Zones); err != nil {
		return err
	}

	if len(m.Fallback) == 0 {
		if m.Wait != 0 {
			return doc.Errorf("machine.wait",
				"machine.wait is how long to wait before the next of machine.fallback is tried, and there is none")
		}
		return nil
	}

	if len(m.Fallback) > MaxFallbacks {
		return doc.Errorf("machine.fallback", "%d fallbacks: use at most %d", len(m.Fallback), MaxFallbacks)
	}

	// A sweep's time limit starts with its plan, so waiting counts. At least half of it has to remain for the trials.
	longest := s.Limits.Sweep / Duration(2*len(m.Fallback))
	if m.Wait < Duration(time.Second) || m.Wait > longest {
		return doc.Errorf("machine.wait",
			"machine.wait is %s: use 1s to %s, so that waiting for %d machines takes no more than half of "+
				"limits.sweep (%s)", m.Wait, longest, len(m.Fallback), s.Limits.Sweep)
	}

	for i, f := range m.Fallback {
		at := fmt.Sprintf("machine.fallback[%d]", i)
		if f.Type != "" {
			if err := v.Machine(f.Type); err != nil {
				return doc.Errorf(at+".type", "%v", err)
			}
		}

		if err := checkZones(doc, at, f.Zones); err != nil {
			return err
		}

		this, before := m.Choice(i+1), m.Choice(i)
		if this.Type == before.Type && *this.Spot == *before.Spot && slices.Equal(this.Zones, before.Zones) {
			return doc.Errorf(at, "this fallback is the same as what comes before it: change type, zones or spot")
		}
	}

	return nil
}
