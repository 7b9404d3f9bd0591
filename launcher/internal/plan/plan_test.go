package plan_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// words lets everything pass: the engines' own checks are tested with them.
func words() sweep.Vocabulary {
	fine := func(string) error { return nil }
	return sweep.Vocabulary{Metric: fine, ParamName: gbt.CanonicalName, Param: gbt.CheckParam,
		Constraint: func(c string) (string, error) { return c, nil }, Require: fine,
		Objective: func(o, _ string) (string, error) { return o, nil },
		Machine:   fine, LocalSSD: func(string, int) error { return nil }}
}

const spec = `
name: night
dataset: clicks
model: ctr
metric: ap
trials: 8
seed: 3
early_stopping_rounds: 10
params: {eta: 0.05}
search:
  fixed: [{}, {learning_rate: 0.2}]
  random: {num_leaves: {log_int: [15, 255]}}
require: ["precision@1% > 0.1", "trees < 900"]
final: {rows: train}
machine: {type: n2-highmem-64}
`

// parse reads spec with edits: pairs of texts, of which the first is replaced by the second.
func parse(t *testing.T, edits ...string) *sweep.Spec {
	t.Helper()
	return must.Get(sweep.ParseSpec("sweep.yaml", []byte(strings.NewReplacer(edits...).Replace(spec)), words()))(t)
}

// specOf reads a spec that begins with a name, a dataset and its metric, with the parser's real vocabulary.
func specOf(t *testing.T, text string) *sweep.Spec {
	t.Helper()
	return must.Get(sweep.ParseSpec("sweep.yaml", []byte("name: n\ndataset: clicks\nmetric: "+text),
		plan.Vocabulary()))(t)
}

// unread fails unless parsing the spec's text returns an error at a place in the file that contains says.
func unread(t *testing.T, says, text string) {
	t.Helper()
	_, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
	if !errors.As(err, new(*strictyaml.Error)) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s\ngot error %v, want one with %q", text, err, says)
	}
}

// manifest is a dataset of 40 features with the given splits: 130 million rows of train, a million of each other one,
// of which 3 % are positive.
func manifest(splits ...string) *dataset.Manifest {
	m := &dataset.Manifest{Name: "clicks", Version: "0123456789abcdef", Label: dataset.LabelInfo{Kind: dataset.Binary},
		Sample: dataset.SampleInfo{Rows: 1000}}
	for range 40 {
		m.Features = append(m.Features, dataset.Feature{Name: "f", Bins: 255})
	}
	for _, s := range splits {
		rows := 1_000_000
		if s == "train" {
			rows = 130_000_000
		}
		m.Splits = append(m.Splits, dataset.Rows{Name: s, Rows: rows, LabelMean: 0.03})
	}
	m.Files = []dataset.FileInfo{{Name: "train/rows.arrow", Bytes: 11 << 30}}
	return m
}

// build plans a sweep on a dataset at one fixed time, without earlier sweeps.
func build(s *sweep.Spec, m *dataset.Manifest) (*plan.Planned, error) {
	return plan.Build(plan.Inputs{Spec: s, Manifest: m, Job: func(id sweep.ID) string { return "jobs/" + string(id) },
		Now: time.Unix(1, 0), Version: "v1"})
}

// built plans the spec on the dataset, which must succeed.
func built(t *testing.T, s *sweep.Spec, m *dataset.Manifest) *plan.Planned {
	t.Helper()
	return must.Get(build(s, m))(t)
}

// readBack writes the plan as JSON and returns what its reader makes of it, which must be no error.
func readBack(t *testing.T, p *plan.Planned) *sweep.Plan {
	t.Helper()
	return must.Get(sweep.DecodePlan(must.Get(json.Marshal(p.Plan))(t)))(t)
}

// noted fails unless the plan's notes say each of these.
func noted(t *testing.T, p *plan.Planned, says ...string) {
	t.Helper()
	notes := strings.Join(p.Notes, "\n")
	for _, text := range says {
		if !strings.Contains(notes, text) {
			t.Errorf("the notes are\n%s\nwant %q among them", notes, text)
		}
	}
}

// refused fails unless planning the spec on the dataset returns an error of kind input that contains says.
func refused(t *testing.T, says string, s *sweep.Spec, m *dataset.Manifest) {
	t.Helper()
	if _, err := build(s, m); !problem.Is(err, problem.Input) || !strings.Contains(err.Error(), says) {
		t.Errorf("got error %v, want one of kind input with %q", err, says)
	}
}

var all = []string{"train", "valid", "calib", "test"}

// TestBuild: a plan has its trials, complete with every parameter under its canonical name, the metrics that are asked
// for or required, and is read as it was written.
func TestBuild(t *testing.T) {
	p := built(t, parse(t), manifest(all...))
	if len(p.Trials) != 8 || !p.Maximize || p.Job != "jobs/"+string(p.Sweep) ||
		!strings.HasPrefix(string(p.Sweep), "night-") {
		t.Errorf("the plan is %+v; want 8 trials of a night's sweep to maximise, with its job's name", p.Plan)
	}
	// The spec's eta and a trial's learning_rate are one parameter; every trial is complete.
	for i, want := range []float64{0.05, 0.2} {
		if got := p.Trials[i].Params["learning_rate"]; got != want {
			t.Errorf("trial %d: learning_rate %v, want %v", i, got, want)
		}
	}
	// Trial 3 is not listed in the spec: it is drawn.
	names := slices.Sorted(maps.Keys(p.Trials[3].Params))
	known := gbt.ParamNames()
	slices.Sort(known)
	if !slices.Equal(names, known) || p.Trials[3].Params["early_stopping_round"] != 10.0 ||
		p.Trials[3].Params["seed"] != 3.0 {
		t.Errorf("trial 3 has the parameters %v; want all known ones, with early_stopping_round 10 and seed 3",
			p.Trials[3].Params)
	}
	if !slices.Contains(p.Metrics, "precision@1%") || !slices.Contains(p.Metrics, "average_precision") ||
		!slices.Contains(p.Metrics, "log_loss") || slices.Contains(p.Metrics, "trees") {
		t.Errorf("metrics %v; want the required, the chosen and the default ones, and no trees", p.Metrics)
	}
	readBack(t, p)
}

// TestColumnsToTrainWithout: ignore_column, or an alias of LightGBM's for it, works in params, fixed, random and
// constraints. Lists of the same columns are one configuration, however they are written. A column that the dataset
// does not have is refused in each place.
func TestColumnsToTrainWithout(t *testing.T) {
	m := manifest(all...)
	for i := range m.Features {
		m.Features[i].Name = fmt.Sprintf("f%d", i)
	}
	m.Features[39].Kind = dataset.Categorical
	search := `  fixed: [{}, {blacklist: "0,1"}, {ignore_column: "name:f1, f0"}]
  random: {num_leaves: {int: [15, 16]}, ignore_column: {choice: ["", "name:f3", 7]}}
  constraints: ['ignore_column != "name:f7" or num_leaves == 16']`
	edit := []string{`  fixed: [{}, {learning_rate: 0.2}]
  random: {num_leaves: {log_int: [15, 255]}}`, search, "trials: 8", "trials: 7"}
	p := built(t, parse(t, edit...), m)
	count := map[string]int{}
	for _, trial := range p.Trials {
		list := trial.Params[gbt.IgnoreColumn].(string)
		count[list]++
		if list == "name:f7" && trial.Params["num_leaves"] != 16.0 {
			t.Errorf("%v breaks the constraint, want 16 leaves without f7", trial.Params)
		}
	}
	// Two of the three fixed ones are the same, f0 and f1; the other one has no list. Of the six random ones, 15 or 16
	// leaves with each of three lists ("", f3, f7), the constraint leaves out 15 leaves without f7. So no list comes
	// 1 + 2 times. "name:f7" is the choice 7, a column's number.
	if want := map[string]int{"": 3, "name:f0,f1": 1, "name:f3": 2, "name:f7": 1}; !maps.Equal(count, want) ||
		p.Skipped < 1 {
		t.Errorf("trials ignore these lists: %v, want %v; %d were left out as repetitions, want at least 1", count,
			want, p.Skipped)
	}
	for bad, says := range map[string]string{
		`params: {eta: 0.05, blacklist: "name:f00"}`: `params: dataset clicks: ignore_column: there is no column ` +
			`"f00" (did you mean "f0"?)`,
		`params: {ignore_column: 40}`:        "there is no column 40; the table's 40 columns count from 0",
		`params: {ignore_column: "name:g*"}`: `params: dataset clicks: ignore_column: no column matches "g*"`,
	} {
		refused(t, says, parse(t, append(edit, "params: {eta: 0.05}", bad)...), m)
	}
	for old, bad := range map[string]string{`"name:f3"`: `"name:f3x"`, `{}`: `{ignore_feature: "name:g"}`} {
		spoilt := slices.Clone(edit)
		spoilt[1] = strings.Replace(spoilt[1], old, bad, 1)
		refused(t, "there is no column", parse(t, spoilt...), m)
	}
}

// TestIDDependsOnWhatIsTrained: the same spec on the same data has the same id, whatever its budget. With another seed
// or another version of the dataset it has another id.
func TestIDDependsOnWhatIsTrained(t *testing.T) {
	first := built(t, parse(t), manifest(all...)).Sweep
	budgeted, other := parse(t), manifest(all...)
	budgeted.Budget, other.Version = 12.5, "fedcba9876543210"
	for _, tc := range []struct {
		name string
		s    *sweep.Spec
		m    *dataset.Manifest
		same bool
	}{{"the same", parse(t), manifest(all...), true}, {"with a budget", budgeted, manifest(all...), true},
		{"another seed", parse(t, "seed: 3", "seed: 4"), manifest(all...), false},
		{"another dataset version", parse(t), other, false}} {
		if id := built(t, tc.s, tc.m).Sweep; (id == first) != tc.same {
			t.Errorf("%s: id %s, the first %s; want the same: %t", tc.name, id, first, tc.same)
		}
	}
}

// TestHoldoutIsCarvedWhereItIsMissing: if the dataset has no split calib or test, folds of another split are taken for
// it, and a note says so. A ranking, which is not calibrated, keeps all of valid, and needs a dataset with groups.
// Without train or valid there is no plan.
func TestHoldoutIsCarvedWhereItIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		splits             []string
		valid, calib, test string
		noted              bool
	}{
		"all":      {all, "valid []", "calib []", "test []", false},
		"no calib": {[]string{"train", "valid", "test"}, "valid [0 1 2 3 4 5 6]", "valid [7 8 9]", "test []", true},
		"no test":  {[]string{"train", "valid", "calib"}, "valid []", "calib [0 1 2 3 4 5]", "calib [6 7 8 9]", true},
		"neither":  {[]string{"train", "valid"}, "valid [0 1 2 3 4]", "valid [5 6 7]", "valid [8 9]", true},
	} {
		p := built(t, parse(t), manifest(tc.splits...))
		h := p.Holdout
		for part, want := range map[*sweep.Rows]string{&h.Valid: tc.valid, &h.Calib: tc.calib, &h.Test: tc.test} {
			if got := fmt.Sprintf("%s %d", part.Split, part.Folds); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		if (len(p.Notes) > 0) != tc.noted {
			t.Errorf("%s: notes %q, want some: %t", name, p.Notes, tc.noted)
		}
	}

	// A ranking is not calibrated, so no row is kept for it.
	s, m := parse(t), manifest("train", "valid", "test")
	s.Objective, s.Metric, m.Group, m.Order = "lambdarank", "ndcg@10", "query", nil
	p := built(t, s, m)
	if h := p.Holdout; h.Valid.Folds != nil || h.Calib.Split != "valid" || h.Calib.Folds != nil {
		t.Errorf("a ranking: valid is %v, calib %v; want all of valid for both", h.Valid, h.Calib)
	}
	m.Group = ""
	refused(t, "stage it with group: COLUMN", s, m)
	for _, splits := range [][]string{{"train"}, {"valid", "test"}} {
		refused(t, "stage it again", parse(t), manifest(splits...))
	}
}

// TestSizing: tasks per machine are limited by vCPUs, trials, memory, Batch or the spec, and the plan names the limit
// that applies. A machine on which nothing fits, or that does not exist, is refused. The dataset has 11 GiB, and
// n2-highmem-64 512 GiB of memory and 64 vCPUs. Unless a case says otherwise, there are 8 trials of 4 threads each.
//
// The machine of each case that is not refused has 64 vCPUs, with which Google gives 8 local SSDs at least; a node of a
// cluster is given none.
func TestSizing(t *testing.T) {
	for name, tc := range map[string]struct {
		edits          []string // of the spec: a text, and what takes its place
		tasksPerVM     int      // 0 by the memory: as many as fit, see below
		tasks          int
		limited, fails string // a part of the limit's text, or else of the error
	}{
		"by the vCPUs":  {[]string{"trials: 8", "trials: 50"}, 16, 16, "64 vCPUs / 4 threads", ""},
		"by the trials": {nil, 8, 8, "8 trials on 1 VMs", ""},
		"by Batch": {[]string{"trials: 8", "trials: 50", "n2-highmem-64}",
			"n2-highmem-64, threads_per_task: 1}"}, 20, 20, "Batch runs at most 20", ""},
		"by the memory": {[]string{"trials: 8", "trials: 50", "n2-highmem-64}",
			"n2-highcpu-64, threads_per_task: 1}"}, 0, 0, "GiB dataset", ""},
		"as asked": {[]string{"n2-highmem-64}", "n2-highmem-64, tasks_per_vm: 3}"}, 3, 3,
			"machine.tasks_per_vm", ""},
		"asked for more than there are": {[]string{"trials: 8", "trials: 3", "n2-highmem-64}",
			"n2-highmem-64, tasks_per_vm: 8}"}, 3, 3, "3 trials on 1 VMs", ""},
		"two machines": {[]string{"trials: 8", "trials: 50", "n2-highmem-64}",
			"n2-highmem-64, vms: 2}"}, 16, 32, "vCPUs", ""},
		"a node of a cluster": {[]string{"trials: 8", "trials: 80", "type: n2-highmem-64}",
			"vcpus: 64, memory: 512, threads_per_task: 1}"}, 64, 64, "64 vCPUs / 1 threads", ""},
		"asked for more than Batch runs": {[]string{"trials: 8", "trials: 50", "n2-highmem-64}",
			"n2-highmem-64, threads_per_task: 1, tasks_per_vm: 21}"}, 0, 0, "",
			"machine.tasks_per_vm is 21, but Batch runs at most 20 tasks on a VM"},
		// 8 GiB, less than the dataset.
		"too small": {[]string{"n2-highmem-64}", "n2-standard-2, threads_per_task: 1}"}, 0, 0, "",
			"no trial fits"},
		// 32 GiB hold the dataset, but not 20 trials beside it.
		"asked too many": {[]string{"n2-highmem-64}",
			"n2-standard-8, threads_per_task: 1, tasks_per_vm: 20}"}, 0, 0, "", "tasks_per_vm is 20"},
		"unknown machine": {[]string{"n2-highmem-64", "n2-highmen-64"}, 0, 0, "",
			`did you mean "n2-highmem"?`},
		"no machine": {[]string{"n2-highmem-64", "big"}, 0, 0, "", "such as n2-highmem-64"},
		"more than a disk": {[]string{"n2-highmem-64}", "n2-highmem-64, local_ssd: 1}"}, 0, 0, "",
			"raise machine.local_ssd"},
	} {
		t.Run(name, func(t *testing.T) {
			m := manifest(all...)
			if name == "more than a disk" { // one local SSD has 375 GiB
				m.Files[0].Bytes = 400 << 30
			}
			p, err := build(parse(t, tc.edits...), m)
			if tc.fails != "" {
				if !problem.Is(err, problem.Input) || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %v, want %q", err, tc.fails)
				}
				return
			}
			must.Do(t, err)
			z := p.Sizing
			if disks := p.Spec.Machine.LocalSSD; disks != 8 && name != "a node of a cluster" {
				t.Errorf("%d local SSDs; 64 vCPUs take 8 at least", disks)
			}
			if name == "by the memory" { // exactly as many as fit
				used := z.DatasetBytes + z.ReserveBytes + int64(z.TasksPerVM)*z.TrialBytes
				if used > z.MemoryBytes || used+z.TrialBytes <= z.MemoryBytes ||
					!strings.Contains(z.LimitedBy, tc.limited) {
					t.Errorf("sized as %+v; want all memory used by whole trials, limited by %s", z, tc.limited)
				}
				return
			}
			if z.TasksPerVM != tc.tasksPerVM || z.Tasks != tc.tasks || !strings.Contains(z.LimitedBy, tc.limited) {
				t.Errorf("sized as %+v; want %d tasks per machine, %d in all, limited by %s", z, tc.tasksPerVM,
					tc.tasks, tc.limited)
			}
		})
	}
}

// TestLabelAndObjective: the objective has to fit the label's kind, and a dataset without raw rows cannot be verified.
func TestLabelAndObjective(t *testing.T) {
	m := manifest(all...)
	m.Label.Kind = dataset.Regression
	refused(t, "objective binary needs a label of 0 and 1", parse(t), m)
	built(t, parse(t, "metric: ap", "metric: rmse\nobjective: regression", "precision@1% > 0.1", "rmse < 3"), m)
	m = manifest(all...)
	m.Sample.Rows = 0
	refused(t, "has no sample of raw rows", parse(t), m)
}

// TestRowsOfCopies: where train has four copies of the table's rows, one for each order, TableRows returns the number
// of the table's rows, a quarter of train's 130 million. Other splits have no copies.
func TestRowsOfCopies(t *testing.T) {
	m := manifest(all...)
	m.Order = &dataset.Ordering{By: dataset.OrderRandom, Copies: 4}
	p := built(t, parse(t), m)
	d := p.Dataset
	if got, test := d.TableRows(sweep.Train), d.TableRows("test"); got != 32_500_000 || test != 1e6 {
		t.Errorf("got %d rows of the table in train and %d of test, want 32,500,000 and 1,000,000", got, test)
	}
}

// TestAliasesDrawWhatTheyDrew: specs have the trials (num_leaves/lambda_l2 of each) that they had when plans still
// contained aliases. A spec with canonical names keeps its id. With an alias in their place, trials, id and fingerprint
// are the same.
func TestAliasesDrawWhatTheyDrew(t *testing.T) {
	const drawn = "{num_leaves: {log_int: [15, 255]}}"
	for name, tc := range map[string]struct {
		edits                   []string
		id, fingerprint, trials string
	}{
		"canonical": {[]string{"eta", "learning_rate"}, "night-fa9b4f98", "8aad6214218abc9b",
			"31/0 31/0 238/0 26/0 39/0 59/0 73/0 95/0"},
		"an alias": {nil, "night-fa9b4f98", "8aad6214218abc9b", "31/0 31/0 238/0 26/0 39/0 59/0 73/0 95/0"},
		"drawn": {[]string{drawn, "{max_leaves: {log_int: [15, 255]}, reg_lambda: {choice: [0, 1]}}"}, "", "",
			"31/0 31/0 79/1 110/0 41/0 176/1 98/1 178/0"},
		"a small space": {[]string{"fixed: [{}, {learning_rate: 0.2}]", "fixed: [{}]", drawn,
			"{num_leaf: {int: [15, 18]}, lambda: {choice: [0, 1]}}"},
			"", "", "31/0 18/0 15/0 18/1 16/1 17/0 15/1 16/0"},
	} {
		p := built(t, parse(t, tc.edits...), manifest(all...))

		var trials []string
		for _, trial := range p.Trials {
			trials = append(trials, fmt.Sprintf("%v/%v", trial.Params["num_leaves"], trial.Params["lambda_l2"]))
		}
		if want := strings.Fields(tc.trials); !slices.Equal(trials, want) {
			t.Errorf("%s: trials %v, expected %v", name, trials, want)
		}
		if got := string(p.Sweep); tc.id != "" && (got != tc.id || p.Fingerprint()[:16] != tc.fingerprint) {
			t.Errorf("%s: sweep %s with fingerprint %.16s, expected %s and %s; a new training parameter changes the "+
				"fingerprint, as a plan states all defaults: then write the new one here, but the id must stay",
				name, got, p.Fingerprint(), tc.id, tc.fingerprint)
		}
	}
}

// TestHeldOutRowsOfOneClass: a plan is refused if the rows that select, calibrate or judge are all of one class. If
// calib and test are folds of valid, the smallest part is two tenths of it: of five positive rows one is expected
// there, which is enough, and of four fewer. Each split has a million rows.
func TestHeldOutRowsOfOneClass(t *testing.T) {
	for name, tc := range map[string]struct {
		splits []string
		split  string
		mean   float64
		want   string
	}{
		"calib without positives": {all, "calib", 0,
			"none of the 1000000 rows of calib in dataset clicks@0123456789abcdef is positive, so there is nothing " +
				"to calibrate by"},
		"calib without negatives": {all, "calib", 1, "of calib in dataset clicks@0123456789abcdef is negative"},
		"valid without positives": {all, "valid", 0,
			"of valid in dataset clicks@0123456789abcdef is positive, so there is nothing to select by"},
		"calib out of valid": {[]string{"train", "valid"}, "valid", 0,
			"of valid in dataset clicks@0123456789abcdef is positive"},
		"test without positives": {all, "test", 0, "of test in dataset clicks@0123456789abcdef is positive, so there " +
			"is nothing to judge by"},
		"too few to be divided in three": {[]string{"train", "valid"}, "valid", 4e-6,
			"only 4 of the 1000000 rows of valid"},
		"enough to be divided": {[]string{"train", "valid"}, "valid", 5e-6, ""},
		"one positive":         {all, "calib", 1e-6, ""},
	} {
		m := manifest(tc.splits...)
		for i := range m.Splits {
			if m.Splits[i].Name == tc.split {
				m.Splits[i].LabelMean = tc.mean
			}
		}
		_, err := build(parse(t), m)
		if tc.want == "" && err != nil || tc.want != "" &&
			(!problem.Is(err, problem.Input) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want ... %s", name, err, tc.want)
		}
	}
}

// TestSeveralClasses: trials and the base of a search that learns have the label's number of classes. Another number, a
// metric of two classes and an objective without classes are refused. The default bag has a limit, if nobody asked for
// it.
func TestSeveralClasses(t *testing.T) {
	m := manifest(all...)
	m.Label.Kind, m.Label.Classes = "classes", []string{"a", "b", "c"}
	const classes = "objective: multiclass\nmetric: multi_logloss"
	for _, tc := range []struct {
		lines   string // in place of the spec's metric
		params  string // the spec's; "" for those that it has
		refused string // a part of the error; "" for none
	}{
		{classes, "", ""},
		{classes + "\nensemble: {bag: 1}", "", ""},
		{"objective: multiclass\nmetric: multi_error", "{num_class: 3}", ""},
		{classes, "{num_class: 4}", "num_class is 4, and the label of"},
		{classes + "\nrequire: [auc > 0.7]", "", "metric auc is for binary"},
		{"objective: regression\nmetric: rmse", "", "has 3 classes: use objective"},
	} {
		const had = "{eta: 0.05}"
		s := parse(t, "metric: ap", tc.lines, "params: "+had, "params: "+cmp.Or(tc.params, had),
			"search:", "search:\n  method: auto", `require: ["precision@1% > 0.1", "trees < 900"]`, "")
		p, err := build(s, m)
		if tc.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tc.refused) || !problem.Is(err, problem.Input) {
				t.Errorf("%+v: got error %v, want one of kind input with %q", tc, err, tc.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: got error %v; want none", tc, err)
		} else if n := p.Trials[0].Params["num_class"]; n != 3.0 {
			t.Errorf("%+v: the plan trains %v classes, want 3", tc, n)
		} else if n := p.Base["num_class"]; n != 3.0 {
			t.Errorf("%+v: what a search that learns begins with has %v classes, want 3", tc, n)
		}
	}
	refused(t, "needs a label of several classes", parse(t, "metric: ap", classes), manifest(all...))

	// Of a small table the default bag has at most 2,500 trees, so 500 a model, or 166 rounds of these three classes.
	for i := range m.Splits {
		m.Splits[i].Rows = 1000
	}
	for lines, want := range map[string]sweep.Ensemble{"": {Bag: 5, MostRounds: 166},
		"\nensemble: {bag: 5}": {Bag: 5}} {
		p, err := build(parse(t, "metric: ap", classes+lines, `require: ["precision@1% > 0.1", "trees < 900"]`, "",
			"final: {rows: train}\n", ""), m)
		if err != nil {
			t.Errorf("%q on a small table: %v, want no error", lines, err)
		} else if *p.Spec.Ensemble != want || strings.Contains(strings.Join(p.Notes, "\n"),
			"unless the winner has more than 166 rounds") != (want.MostRounds > 0) {
			t.Errorf("%q on a small table: %+v, want %+v and a note of it; notes %q", lines, p.Spec.Ensemble, want,
				p.Notes)
		}
	}
}
