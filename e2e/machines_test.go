//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// TestE2EMachinesTrainTheSameModel: the final training by three machines has the bytes of that by one, also where one
// of them is lost without notice in the middle of it, or all, one of which leads.
func TestE2EMachinesTrainTheSameModel(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	execute(t, l.dir, nil, binaryOf(t, "clicks"), "--rows", "60000", "--out", l.dir+"/clicks.parquet").ok(t)
	l.must("launcher", "stage",
		l.file("dataset.yaml", "name: clicks\nsource: clicks.parquet\nlabel: is_click\ndrop: [impression_id, ts]\n"+
			"split: {by: hash, key: user_id, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n"), "--json")

	args, want := l.args, map[int]string{}
	for i, of := range []struct {
		final string
		lost  []int // machines
	}{
		{"{rows: all}", nil}, {"{machines: 3}", []int{0}}, {"{machines: 3}", []int{0, 1, 2}},
	} {
		name := fmt.Sprintf("%s, machines %v are lost", of.final, of.lost)
		faults := "at_write:\n"
		for _, vm := range of.lost {
			faults += fmt.Sprintf("  - {match: \"sweeps/*/trials/0003/checkpoints/**\", nth: 2, does: lose_machine, "+
				"vm: %d}\n", vm)
		}
		l.args = args
		if of.lost != nil {
			l.args = append(l.args[:len(l.args):len(l.args)], "--faults", l.file("faults.yaml", faults))
		}
		file := l.file("sweep.yaml", fmt.Sprintf("name: final%d\ndataset: clicks\nmodel: ctr%d\nmetric: auc\n"+
			"trials: 3\nparams: {num_iterations: 200, learning_rate: 0.01}\n"+
			"search: {fixed: [{num_leaves: 31}, {num_leaves: 2}, "+ // the others cost little
			"{num_leaves: 3}]}\nmachine: {type: n2-highmem-2, vms: 3, threads_per_task: 1, tasks_per_vm: 1}\n"+
			"limits: {trial: 8m, sweep: 15m}\nfinal: %s\n", i, i, of.final))
		c := conclusion(t, l.must("launcher", "sweep", file, "--json"))
		if c.Final == nil || !c.Final.Registered {
			t.Fatalf("%s: the sweep ended with %+v, want its final model", name, c)
		}
		objects := l.objects()
		var r *sweep.Result
		for n := range 4 {
			var err error
			at := "coppice-sweeps/" + sweep.Names(c.Sweep).Result(n)
			if r, err = sweep.DecodeResult([]byte(objects[at])); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: trial %d, claim %d, %+v", name, n, r.Claim, r.Usage)
			if i == 0 {
				want[n] = r.Model.SHA256
			}
			if r.Model.SHA256 != want[n] {
				t.Errorf("%s: trial %d has another model than from one machine, want the same", name, n)
			}
			teams := false
			for object := range objects {
				teams = teams || strings.HasPrefix(object, "coppice-sweeps/"+sweep.Names(c.Sweep).Team(n, r.Claim))
			}
			if wanted := n == 3 && i > 0; teams != wanted {
				t.Errorf("%s: trial %d has had a team: %t, want %t", name, n, teams, wanted)
			}
		}
		switch holderLost := len(of.lost) == 3; {
		case i > 0 && !holderLost && r.Usage.Machines < 2:
			t.Errorf("%s: %d machines, want several", name, r.Usage.Machines)
		case holderLost && (r.Claim == 0 || r.Usage.ResumedTrees == 0):
			t.Errorf("%s: claim %d, %d resumed trees, want another claim, which resumes", name, r.Claim,
				r.Usage.ResumedTrees)
		}
	}
}
