package batchemu

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"time"
)

// machine is one pretend VM. Its name and folders never change; the rest is guarded by the server's lock.
type machine struct {
	name   string // vm-K
	dir    string
	mounts []mount // where the job's volumes are on this machine
	zone   string

	instance uint64 // Compute Engine's id; a replaced machine gets another one
	replaced int    // how often
	attempts []*attempt
	lost     bool // no task may start on it until it is replaced
}

// ssdFolder is the folder that stands for a machine's local SSD.
const ssdFolder = "ssd"

// place is where the machine is, as Batch's events write it: zones/Z/instances/I.
func (m *machine) place() string { return fmt.Sprintf("%s/instances/%d", m.zone, m.instance) }

// host is the machine's host name, which its containers have, too. job is the job's id. A machine that replaces a lost
// one has another name.
func (m *machine) host(job string) string {
	if m.replaced > 0 {
		return fmt.Sprintf("%s-%s-%d", job, m.name, m.replaced)
	}
	return job + "-" + m.name
}

// makeMachines makes n machines for the job, vm-0 and so on, with empty disks, and sets j.vms.
func (j *job) makeMachines(n int) error {
	s := j.srv
	vms := make([]*machine, n)
	for k := range vms {
		name := fmt.Sprintf("vm-%d", k)
		vm := &machine{name: name, dir: filepath.Join(s.machines, j.id, name), zone: j.zone}
		for _, m := range j.plan.mounts {
			vm.mounts = append(vm.mounts, mount{m.path, filepath.Join(vm.dir, m.folder)})
		}
		if err := vm.makeFolders(); err != nil {
			return err
		}
		vms[k] = vm
	}

	// Instance ids are counted for the whole server, under its lock.
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, vm := range vms {
		vm.instance = s.instanceID(j.spec.Uid)
	}
	j.vms = vms
	return nil
}

// makeFolders makes the machine's folders. Volumes belong to the user running localemu and only they may write to them,
// as in the cloud only root may: the job itself must grant access to the container's user.
func (m *machine) makeFolders() error {
	for _, folder := range []string{ssdFolder, "home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(m.dir, folder), 0o755); err != nil {
			return err
		}
	}
	for _, v := range m.mounts {
		if err := os.MkdirAll(v.folder, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// instanceID makes up an id like Compute Engine's, a number of 19 digits (1e18 to just below 1e19), different for each
// machine. uid is the job's. The lock is held.
func (s *Server) instanceID(uid string) uint64 {
	s.serial++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", uid, s.serial)
	return h.Sum64()%9e18 + 1e18
}

// loseMachine removes the machine number k with everything on it: its attempts are ended for cause c (see endAfter),
// and when the last of them has ended, a new machine replaces it. It does nothing if the job has no such machine or has
// ended, or if the machine is lost already. The lock is held.
func (j *job) loseMachine(k int, c cause, notice time.Duration) {
	if k >= len(j.vms) || j.vms[k].lost || terminal(j.state) {
		return
	}
	j.srv.opts.Struck(reserved[c].class)
	if notice > 0 {
		j.srv.opts.Struck("notice before the end")
	}
	vm := j.vms[k]
	vm.lost = true
	for _, a := range vm.attempts {
		a.endAfter(c, notice)
	}
	if len(vm.attempts) == 0 {
		j.replace(vm)
	}
}

// replace puts a new machine with an empty disk in the place of a lost one. The lock is held, so that no task starts
// there before the old disk is gone.
func (j *job) replace(vm *machine) {
	// Renamed first: a process that lives on may write to the old disk while it is being removed.
	old := fmt.Sprintf("%s.lost-%d", vm.dir, vm.instance)
	err := os.Rename(vm.dir, old)
	if err == nil {
		err = vm.makeFolders()
	}

	if left := os.RemoveAll(old); left != nil {
		j.srv.opts.Log.Info("a lost machine's disk is removed with the job", "job", j.id, "machine", vm.name, "error",
			left)
	}
	if err != nil {
		j.srv.opts.Log.Error("replace a lost machine", "job", j.id, "machine", vm.name, "error", err)
	}

	vm.instance = j.srv.instanceID(j.spec.Uid)
	vm.replaced++
	vm.lost = false
}

// release removes the machines: Batch deletes a job's resources before the job reaches its final state.
func (j *job) release() {
	if err := os.RemoveAll(filepath.Join(j.srv.machines, j.id)); err != nil {
		j.srv.opts.Log.Error("remove the job's machines", "job", j.id, "error", err)
	}
}
