//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
	"coppice/internal/sweep"
)

// nightly is a local cloud that stays up, with a stream of clicks.
type nightly struct {
	*export
	stream nightstest.Stream
}

func newNights(t *testing.T, seed uint64, rows int) *nightly {
	t.Helper()
	n := &nightly{&export{local: newLocal(t)}, nightstest.Stream{Seed: seed, Rows: rows}}
	n.up()
	n.file("sweep.yaml",
		"name: nightly\ndataset: clicks\nmodel: ctr\nmetric: auc\ntrials: 2\nseed: 3\nparams: {num_iterations: 30}\n"+
			"search: {random: {num_leaves: {log_int: [4, 16]}}}\nmachine: {type: n2-highmem-2, vms: 1, "+
			"threads_per_task: 1, tasks_per_vm: 2}\nlimits: {trial: 2m, sweep: 5m}\n"+
			"gate: {against: none}\n") // what stops a night here is not the gate
	return n
}

// launcher runs the launcher in the cloud.
func (n *nightly) launcher(args ...string) ran {
	n.t.Helper()
	return execute(n.t, n.dir, n.env, binaryOf(n.t, "launcher"), args...)
}

// staged is what `stage --json` says of a night.
type staged struct {
	Version  string
	Existed  bool
	Blocked  bool
	Findings []nights.Finding
}

// stage stages a table under the name of a file.
func (n *nightly) stage(name string, table nightstest.Table, flags ...string) (staged, ran) {
	n.t.Helper()
	must.Do(n.t, os.WriteFile(filepath.Join(n.dir, name+".csv"), table.CSV(), 0o600))
	spec := n.file(name+".yaml", string(nightstest.Spec(name+".csv"))+"encodings: none\n")
	r := n.launcher(slices.Concat([]string{"stage", spec, "--json"}, flags)...)
	var s staged
	if r.out != "" {
		decode(n.t, r.out, &s)
	}
	return s, r
}

// forget blocks a bad night that was not noticed, so that those after it are judged by good nights alone.
func (n *nightly) forget(version string) {
	n.t.Helper()
	name := sweep.DatasetNight("clicks", version)
	text, _, err := blob.ReadAll(n.t.Context(), n.bucket, name, nights.MaxRecord)
	if err != nil {
		n.t.Fatal(err)
	}
	r := must.Get(nights.DecodeRecord(text, "clicks", version))(n.t)
	r.Findings = append(r.Findings, nights.Finding{Code: nights.CodeRows, Level: nights.Blocking,
		Text: "it was not noticed"})
	if text, err = r.Encode(); err == nil {
		_, err = n.bucket.Put(n.t.Context(), name, blob.Any, bytes.NewReader(text))
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// slot runs the sweep of a schedule's slot: the first day of a month of this year, or of the last one.
func (n *nightly) slot(month int) ran { return n.slotOn(month, 1) }

// slotOn is slot on another day of the month.
func (n *nightly) slotOn(month, day int) ran {
	n.t.Helper()
	return n.launcher("sweep", "sweep.yaml", "--schedule", fmt.Sprintf("0 0 %d %d *", day, month), "--json")
}

// champion is the version that is live; 0 when there is none.
func (n *nightly) champion() int {
	n.t.Helper()
	r := n.launcher("registry", "list", "--json")
	var models []struct{ Champion int }
	if err := json.Unmarshal([]byte(r.out), &models); err != nil || len(models) > 1 {
		n.t.Fatalf("registry list: %v, expected one model at most:\n%s\n%s", err, r.out, r.errOut)
	}
	if len(models) == 0 {
		return 0
	}
	return models[0].Champion
}

// kind is a kind of bad night by its name.
func kind(t *testing.T, name string) nightstest.Kind {
	t.Helper()
	for _, k := range nightstest.Kinds() {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("there is no bad night called %q", name)
	return nightstest.Kind{}
}

// TestNightsOfAllKinds: every kind of bad night, on as many seeds as NIGHTS_SEEDS says, after eight good nights and
// before eight more. It prints the table of docs/LAB.md.
func TestNightsOfAllKinds(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("NIGHTS_SEEDS"))
	if err != nil || seeds < 1 {
		t.Fatalf("NIGHTS_SEEDS is %q; run it as `make nights`, or with how many seeds to try",
			os.Getenv("NIGHTS_SEEDS"))
	}

	kinds := nightstest.Kinds()
	caught, right, firsts := make([]int, len(kinds)), make([]int, len(kinds)), make([]map[string]int, len(kinds))
	good, held := 0, 0
	for seed := range seeds {
		n := newNights(t, uint64(100+seed), 20_000)
		const past, later = 8, 8
		stageGood := func(day int) {
			good++
			if s, r := n.stage(fmt.Sprint("good-", day), n.stream.Night(day)); r.code != 0 {
				held++
				t.Logf("seed %d: good night %d ended with %d: %v\n%s", seed, day, r.code, s.Findings, r.errOut)
				n.launcher("datasets", "accept", "clicks", "--why", "it is good")
			}
		}

		for day := range past {
			stageGood(day)
		}
		if r := n.slot(1); r.code != 0 {
			t.Fatalf("seed %d: the sweep ended with %d\n%s", seed, r.code, r.errOut)
		}

		today, yesterday := n.stream.Night(past), n.stream.Night(past-1)
		free := 1 // the slot that no sweep has taken yet: a day of February
		for i, k := range kinds {
			before := n.champion()
			s, r := n.stage(fmt.Sprint("bad-", i), k.Break(rand.New(rand.NewPCG(uint64(seed), uint64(i))), today,
				yesterday))
			sweepAfter := n.slotOn(2, free)
			live := n.champion()
			nothing := sweepAfter.code == 0 && strings.Contains(sweepAfter.out, `"nothing_new": true`)
			if live == before && (r.code == sweep.ExitBlocked && sweepAfter.code == sweep.ExitBlocked ||
				(r.code == sweep.ExitInput || s.Existed) && (nothing || sweepAfter.code == sweep.ExitBlocked)) {
				caught[i]++
			} else {
				t.Logf("seed %d, %s: stage ended with %d, sweep with %d, champion %d; found %v", seed, k.Name, r.code,
					sweepAfter.code, live, s.Findings)
				n.forget(s.Version)
				free = min(28, free+1)
			}

			first := "refused"
			switch {
			case len(s.Findings) > 0:
				first = string(s.Findings[0].Code)
			case s.Existed:
				first = "existed"
			}
			if slices.Contains(k.Want, nights.Code(first)) || len(k.Want) == 0 && first == "refused" ||
				first == "existed" {
				right[i]++
			}
			if firsts[i] == nil {
				firsts[i] = map[string]int{}
			}
			firsts[i][first]++
		}
		for day := past; day < past+later; day++ {
			stageGood(day)
		}
	}

	total, fit, missed, costly := 0, 0, 0, 0
	fmt.Printf("| kind of night | used to choose limits | held back | right finding first | first findings " +
		"|\n|---|---|---|---|---|\n")
	for i, k := range kinds {
		tuned := ""
		if k.Tuned {
			tuned = "yes"
		}
		total, fit = total+caught[i], fit+right[i]
		if !k.Harmless {
			missed, costly = missed+seeds-caught[i], costly+seeds
		}
		fmt.Printf("| %s | %s | %d of %d | %d | %s |\n", k.Name, tuned, caught[i], seeds, right[i],
			strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(firsts[i]), "map["), "]"))
	}
	fmt.Printf("\n%d of %d bad nights held back, the right finding first in %d; %d of %d good nights held back; "+
		"of %d that cost 1 %% of a model, %d missed\n", total, seeds*len(kinds), fit, held, good, costly, missed)
	if 20*missed > costly || float64(fit) < 0.9*float64(seeds*len(kinds)) || held > good/50 {
		t.Error("that is not what docs/run.md promises")
	}
}
