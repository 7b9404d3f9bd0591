//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// pairSpec is the sweep.yaml of a small sweep, to which features add what they need.
type pairSpec struct {
	data      string // the dataset's name, which is also the key of its label in pairTables
	metric    string
	more      string // further metrics
	objective string
	search    []string // entries below search
	method    string   // another of them, which comes after these
	random    bool     // search has to have random parameters
	keys      []string // further lines at the top level
}

// pairSeen is what is left when a sweep has ended: its conclusion, the trials' results and the text of the model.
type pairSeen struct {
	conclusion sweep.Conclusion
	results    []sweep.Result
	model      string
}

// pairFeature is a part of sweep.yaml, or of what is learnt, with a row and a column in the table of docs/sweep.md.
type pairFeature struct {
	name string
	add  func(*pairSpec)
	// changed says what is missing if the sweep is as if the feature were not there; "" if it shows.
	changed func(pairSeen) string
}

func (s pairSeen) any(is func(sweep.Result) bool) bool { return slices.ContainsFunc(s.results, is) }

// missing is text unless ok.
func missing(ok bool, text string) string {
	if ok {
		return ""
	}
	return text
}

var pairFeatures = []pairFeature{
	{"`final`", func(s *pairSpec) { s.keys = append(s.keys, "final: {rows: all}") }, func(e pairSeen) string {
		f := e.conclusion.Final
		return missing(f != nil && f.Registered && e.any(func(r sweep.Result) bool {
			return r.Trial == f.Trial && r.Refits != nil && r.TrainRows > 2900
		}), "a model of all rows is registered")
	}},
	{"`validate`", func(s *pairSpec) { s.keys = append(s.keys, "validate: {kfold: 3}") }, func(e pairSeen) string {
		return missing(e.any(func(r sweep.Result) bool { return r.Fold == 3 && r.Status == sweep.StatusDone }) &&
			strings.Contains(e.conclusion.Reason, "over 3 folds"), "the winner has the best mean over its folds")
	}},
	{"several metrics", func(s *pairSpec) { s.more = ", trees" }, func(e pairSeen) string {
		return missing(strings.Contains(e.conclusion.Reason, "trees"), "the winner is chosen by its trees, too")
	}},
	{"`pbt`", func(s *pairSpec) {
		s.method = "method: pbt, population: 3"
		s.random = true
	}, func(e pairSeen) string {
		return missing(e.any(func(r sweep.Result) bool { return r.From != nil && len(r.From.Lineage) > 0 }),
			"trials continue each other's models")
	}},
	{"`stop`", func(s *pairSpec) {
		s.search = append(s.search, "stop: {rule: asha, by: trees, eta: 2, min_trees: 12}")
	}, func(e pairSeen) string {
		return missing(e.any(func(r sweep.Result) bool { return r.Status == sweep.StatusStopped && len(r.Rungs) > 0 }),
			"a trial is stopped at a rung")
	}},
	{"`ensemble`", func(s *pairSpec) { s.keys = append(s.keys, "ensemble: {bag: 3}") }, func(e pairSeen) string {
		f := e.conclusion.Final
		return missing(f != nil && strings.Contains(f.Reason, "the mean of 3 models, each trained without"),
			"models of folds are merged")
	}},
	{"groups of columns", func(s *pairSpec) {
		s.search = append(s.search, "features: {try: drop_one, groups: {a: [x1], b: [x2, x3], c: [x4]}}")
	}, func(e pairSeen) string {
		return missing(e.any(func(r sweep.Result) bool { return r.Params[sweep.IgnoreColumn] == "name:x2,x3" }),
			"a trial leaves a group out")
	}},
	{"classes", func(s *pairSpec) { s.data, s.metric, s.objective = "classes", "multi_logloss", "multiclass" }, func(e pairSeen) string {
		return missing(strings.Contains(e.model, "num_class=3"), "the model has three classes")
	}},
	{"rankings", func(s *pairSpec) {
		s.data, s.metric = "ranking", "ndcg@5"
		if s.objective == "binary" {
			s.objective = "lambdarank"
		}
	}, func(e pairSeen) string {
		return missing(strings.Contains(e.model, "objective=lambdarank"), "the model orders rows")
	}},
}

// yaml returns the whole sweep.yaml. It may change s and is called once.
func (s *pairSpec) yaml(name string) string {
	metric := s.metric
	if s.more != "" {
		metric = "[" + metric + s.more + "]\npick: {best: " + metric + ", within: 50%}"
	}
	groups := slices.ContainsFunc(s.search, func(line string) bool { return strings.HasPrefix(line, "features") })
	if s.method != "" {
		s.search = append(s.search, s.method)
	}
	if s.random || !groups {
		s.search = append(s.search, "random: {learning_rate: {log_uniform: [0.02, 0.4]}, num_leaves: {log_int: [3, 24]}}")
	}
	trials := "trials: 9\n"
	if groups && s.method == "" {
		trials = ""
	}
	if !slices.ContainsFunc(s.keys, func(line string) bool {
		return strings.HasPrefix(line, "final") || strings.HasPrefix(line, "ensemble")
	}) {
		s.keys = append(s.keys, "final: {rows: train}")
	}
	return fmt.Sprintf("name: %s\ndataset: %s\nmodel: %s\nmetric: %s\n%sobjective: %s\nseed: 3\n"+
		"params: {num_iterations: 24, min_data_in_leaf: 5}\nsearch: {%s}\n%s\n"+
		"machine: {type: n2-highmem-2, vms: 1, threads_per_task: 1, tasks_per_vm: 2}\nlimits: {trial: 2m, sweep: 5m}\n"+
		"gate: {promote: never, against: none}\n",
		name, s.data, name, metric, trials, s.objective, strings.Join(s.search, ", "), strings.Join(s.keys, "\n"))
}

// pairTables stages a table of 3,000 rows three times: as the dataset two with a label of two values, as classes with
// one of three classes, and as ranking with grades of the rows in queries of ten.
func pairTables(l *local) {
	l.t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("query,x1,x2,x3,x4,two,three,grade\n")
	for i := range 3000 {
		x1, x2, x3, x4 := rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64()
		score := 2*x1 + x2*x3 + 0.3*x4 + 0.5*rng.NormFloat64()
		fmt.Fprintf(&b, "%d,%.4f,%.4f,%.4f,%.4f,%d,%s,%d\n", i/10, x1, x2, x3, x4, min(1, int(max(0, score/1.5))),
			[]string{"low", "mid", "high"}[min(2, int(max(0, score)))], min(3, int(max(0, 1.3*score))))
	}
	table := l.file("pairs.csv", b.String())
	for name, label := range map[string]string{
		"two":     "label: two\ndrop: [query, three, grade]\nsplit: {by: random,",
		"classes": "label: {column: three, kind: classes}\ndrop: [query, two, grade]\nsplit: {by: random,",
		"ranking": "label: {column: grade, kind: regression}\ngroup: query\ndrop: [two, three]\nsplit: {by: hash, key: query,",
	} {
		l.must("launcher", "stage", l.file(name+".yaml", "name: "+name+"\nsource: "+table+"\n"+label+
			" train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\nencodings: none\n"), "--json")
	}
}

// pairRefused matches an error about a place in a sweep.yaml; the group is the reason.
var pairRefused = regexp.MustCompile(`(?s)^launcher: \S+?:\d+:\d+: (.*?)\s*$`)

// tryPair runs a sweep of that name with one or two features. If sweep.yaml is refused, it returns the reason.
// Otherwise it returns "", and fails the test unless each feature shows in the result and training the winner again
// gives the same bytes.
func tryPair(t *testing.T, l *local, name string, features ...pairFeature) (refused string) {
	t.Helper()
	s := pairSpec{data: "two", metric: "log_loss", objective: "binary"}
	for _, f := range features {
		f.add(&s)
	}
	r := l.run("launcher", "sweep", l.file(name+".yaml", s.yaml(name)), "--json")
	if m := pairRefused.FindStringSubmatch(r.errOut); m != nil && r.code == sweep.ExitInput {
		return m[1]
	}
	if r.code != 0 && r.code != sweep.ExitNotPromoted {
		t.Errorf("%s ended with exit code %d:\n%s\n%s", name, r.code, r.out, r.errOut)
		return ""
	}
	end := pairSeen{conclusion: *conclusion(t, r.out)}
	for object, text := range l.objects() {
		if strings.Contains(object, "/"+string(end.conclusion.Sweep)+"/") && strings.HasSuffix(object, "/result.json") {
			result, err := sweep.DecodeResult([]byte(text))
			if err != nil {
				t.Fatalf("%s: reading the result: %v, want no error", object, err)
			}
			end.results = append(end.results, *result)
		}
		if strings.HasSuffix(object, "registry/"+name+"/versions/1/model.txt") {
			end.model = text
		}
	}
	for _, f := range features {
		if lacks := f.changed(end); lacks != "" {
			t.Errorf("%s: expected that %s; the sweep ended with %+v", name, lacks, end.conclusion)
		}
	}
	if out := l.must("launcher", "registry", "reproduce", name+"@1"); !strings.Contains(out, "the same bytes") {
		t.Errorf("%s trained again:\n%s\nexpected the same bytes", name, out)
	}
	return ""
}

// TestPairs: the table in docs/sweep.md says of every pair of features whether a sweep can have both, and why not. The
// test runs a sweep with each feature and with each pair. With COPPICE_PAIRS=write it writes the table.
func TestPairs(t *testing.T) {
	l := newLocal(t)
	pairTables(l)
	for i, f := range pairFeatures {
		if refused := tryPair(t, l, fmt.Sprintf("alone-%d", i), f); refused != "" {
			t.Errorf("%s alone is refused: %s; want it accepted", f.name, refused)
		}
	}

	var names, why []string
	no, pairs := 0, 0
	rows := map[string][]string{}
	for i, f := range pairFeatures {
		names = append(names, f.name)
		for j, g := range pairFeatures[:i] {
			refused := tryPair(t, l, fmt.Sprintf("pair-%d-%d", j, i), g, f)
			cell := "yes"
			if pairs++; refused != "" {
				no++
				cell = fmt.Sprintf("no (%d)", no)
				why = append(why, fmt.Sprintf("| %d | %s |", no, refused))
			}
			rows[f.name] = append(rows[f.name], cell)
		}
	}
	t.Logf("%d of %d pairs combine", pairs-no, pairs)

	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d pairs combine (`make pairs`).\n\n| | %s |\n|%s\n", pairs-no, pairs,
		strings.Join(names[:len(names)-1], " | "), strings.Repeat("---|", len(names)))
	for _, name := range names[1:] {
		cells := rows[name]
		for len(cells) < len(names)-1 {
			cells = append(cells, "")
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(cells, " | "))
	}
	if len(why) > 0 {
		fmt.Fprintf(&b, "\n| no | why |\n|---|---|\n%s\n", strings.Join(why, "\n"))
	}
	checkTable(t, "docs/sweep.md", "pairs", b.String())
}

// checkTable fails the test if the part of a page between the comments NAME:begin and NAME:end is not text. With
// COPPICE_PAIRS=write it writes text there, if nothing has failed yet.
func checkTable(t *testing.T, page, name, text string) {
	t.Helper()
	whole := must.Get(os.ReadFile(page))(t)
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	before, rest, ok1 := strings.Cut(string(whole), begin)
	old, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok1 || !ok2:
		t.Fatalf("%s has no %s ... %s", page, begin, end)
	case os.Getenv("COPPICE_PAIRS") == "write" && !t.Failed():
		must.Do(t, os.WriteFile(page, []byte(before+begin+text+end+after), 0o644))
	case old != text:
		t.Errorf("%s has another table than what was seen (COPPICE_PAIRS=write writes it):\n%s", page, text)
	}
}
