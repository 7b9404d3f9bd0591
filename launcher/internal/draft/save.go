package draft

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"coppice/internal/atomicfile"
	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// Save writes the two specs into a folder, which it makes. It does nothing if folder is empty.
func (d *Draft) Save(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("--save-specs: %w", err)
	}
	for name, text := range map[string][]byte{"dataset.yaml": d.Dataset, "sweep.yaml": d.Sweep} {
		if err := atomicfile.Write(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("--save-specs: %w", err)
		}
	}
	return nil
}

// maxName is the most characters of a name that nameOf makes.
const maxName = 40

// nameOf makes a dataset's name of the last element of a path: that of /data/Clicks 2026.csv.gz is clicks-2026. The
// suffixes of a table's format and compression are left out. A name begins with a letter, so what comes before the
// first one is dropped: 2026-clicks.csv gives clicks. Letters become small; whatever is neither a letter from a to z
// nor a digit becomes a hyphen, several in a row become one, and none is at the end. A path without such letters gives
// "table".
func nameOf(path string) string {
	base := strings.ToLower(filepath.Base(filepath.Clean(path)))
	for _, suffix := range []string{".gz", ".zst", ".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq", ".jsonl",
		".ndjson", ".json"} {
		base = strings.TrimSuffix(base, suffix)
	}
	var b strings.Builder
	for _, r := range base {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9' && b.Len() > 0:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := b.String()
	return cmp.Or(strings.Trim(name[:min(len(name), maxName)], "-"), "table")
}

// writeDatasetSpec writes dataset.yaml. label and split are values of these keys. A key that was neither asked for nor
// needed is left out. A local source is made absolute, so that the file means the same wherever it is saved.
func (d *Draft) writeDatasetSpec(q Request, label, split string, drop []string) []byte {
	var b bytes.Buffer
	var sources []string
	for _, s := range q.Sources {
		if abs, err := filepath.Abs(s); err == nil && !dataset.InBucket(s) {
			s = abs
		}
		sources = append(sources, s)
	}
	fmt.Fprintf(&b, "name: %s\nsource: %s\nlabel: %s\nsplit: %s\n", d.Name, list(sources), label, split)
	if q.Weight != "" {
		fmt.Fprintf(&b, "weight: %s\n", quoted(q.Weight))
	}
	if len(q.values) > 0 {
		fmt.Fprintf(&b, "values: %s\n", list(q.values))
	}
	if q.Group != "" {
		// In an order by group, statistics of ids see no labels of other rows of the same query.
		fmt.Fprintf(&b, "group: %s\nencodings: {order: {by: group}}\n", quoted(q.Group))
	}
	if q.NoHeader {
		b.WriteString("csv: {header: false}\n")
	}
	if len(q.Missing) > 0 {
		fmt.Fprintf(&b, "missing: %s\n", list(q.missing()))
	}
	if len(q.said) > 0 {
		said, _ := json.Marshal(q.said) // a map of texts always can; JSON is YAML, too
		fmt.Fprintf(&b, "format: %s\n", said)
	}
	if len(drop) > 0 {
		fmt.Fprintf(&b, "drop: %s\n", list(drop))
	}
	if len(q.Categorical) > 0 {
		fmt.Fprintf(&b, "categorical: %s\n", list(q.Categorical))
	}
	if len(q.numbered) > 0 {
		var keys []string
		for _, name := range q.numbered {
			keys = append(keys, "["+quoted(name)+"]")
		}
		fmt.Fprintf(&b, "numeric: %s\nencodings: {keys: [%s]}\n", list(q.numbered), strings.Join(keys, ", "))
	}
	return b.Bytes()
}

// What is searched. The first configuration is good for most tables of ids (docs/data.md), the second for tables of
// numbers; the search begins with both.
const (
	ofIDs     = "{learning_rate: 0.05, lambda_l2: 10, feature_fraction: 0.5, extra_trees: true}"
	ofNumbers = "{learning_rate: 0.05}"
	// Of few rows and two classes it is this (docs/LAB.md).
	ofFewNumbers = "{learning_rate: 0.08, num_leaves: 15, min_data_in_leaf: 30, feature_fraction: 0.7, lambda_l2: 1}"
	// Of several classes the first is ofIDs, and the second this: a rare class has leaves with next to no curvature,
	// whose values without lambda_l2 are so large that the loss of kddcup99 rises (docs/LAB.md).
	ofClasses = "{learning_rate: 0.05, lambda_l2: 1}"
	// Of few rows ofIDs is still learning at the last tree, and with less of a penalty it is best (docs/LAB.md).
	ofFewOfClasses = "{learning_rate: 0.05, lambda_l2: 1, feature_fraction: 0.5, extra_trees: true}"

	space = `    learning_rate: {log_uniform: [0.02, 0.2]}
    num_leaves: {log_int: [8, 255]}
    min_data_in_leaf: {log_int: [5, 500]}
    feature_fraction: {uniform: [0.3, 1]}
    lambda_l2: {log_uniform: [0.001, 30]}
    extra_trees: {choice: [true, false]}
`
	fewRows      = 1000   // with fewer rows, held-out ones serve for all purposes, and leaves are small
	fewOfClass   = 200    // with fewer rows of the rarest class, too
	leastOfClass = 4      // least rows of a class: one for each split
	leafShare    = 50     // with fewRows, a leaf has at least this part of the rows: 1 of 50
	manyRows     = 50_000 // ofFewNumbers is for fewer rows
	manyLevels   = 32     // a column of more levels holds ids rather than a few categories; as in docs/data.md
)

// trialsPerMinute is how many trials a laptop trains in a minute on a small table. On a larger one the limit comes
// first, and the sweep concludes with what has been trained.
const trialsPerMinute = 10

// A sweep whose number of trials was not asked for has at least the two configurations that are tried first and one
// that is searched. However long the limit, it has at most mostTrials: more have to be asked for.
const leastTrials, mostTrials = 3, 200

// writeSweepSpec writes sweep.yaml: the two configurations that are tried first, which depend on rows and ids, and
// ranges of the parameters that were not given.
func (d *Draft) writeSweepSpec(q Request, objective string, trials int, s *seen) []byte {
	// What is optimised.
	optimised := cmp.Or(q.Metric, map[string]string{binaryObjective: "log_loss", "regression": "rmse",
		"multiclass": "multi_logloss"}[objective])
	// Objectives other than these three have set q.Metric (setObjective).
	if strings.Contains(optimised, "(") { // an expression
		optimised = quoted(optimised)
	}

	// Which configuration comes first.
	labelled := s.label.present // rows
	names := slices.Concat(q.Categorical, q.numbered)
	// ids says that the table has a feature of ids.
	ids := slices.ContainsFunc(s.columns, func(c *column) bool {
		return c.Name != q.Label && c.Unreadable == "" && c.distinct.n() > manyLevels &&
			(c.texts && !c.isTime() || slices.Contains(names, c.Name) || c.Dictionary)
	})
	first, second := ofNumbers, ofIDs
	if objective == binaryObjective && labelled >= fewRows && labelled < manyRows {
		first = ofFewNumbers
	}
	switch {
	case gbt.Classes(objective) && labelled < fewRows:
		first, second = ofFewOfClasses, ofClasses
	case gbt.Classes(objective): // whether or not there are ids
		first, second = ofIDs, ofClasses
	case ids:
		first, second = second, first
	}

	// The default of 20 rows in a leaf would leave too few leaves.
	if labelled < fewRows {
		least := fmt.Sprintf(", min_data_in_leaf: %d}", max(1, labelled/leafShare))
		first, second = strings.TrimSuffix(first, "}")+least, strings.TrimSuffix(second, "}")+least
	}

	// Parameters that were given are not searched. If all are, there is one trial.
	first, second = q.removeGiven(first, ", "), q.removeGiven(second, ", ")
	space := q.removeGiven(space, "\n")
	if strings.TrimSpace(space) == "" {
		trials = 1
	}
	vcpus, threads := machine(q.Cores)

	var b bytes.Buffer
	fmt.Fprintf(&b, `name: %s
dataset: %s
model: %s
objective: %s
metric: %s
trials: %d
seed: %d
early_stopping_rounds: %s
params: %s
`, d.Name, d.Name, d.Name, objective, optimised, trials, q.Seed, cmp.Or(q.rounds, "50"),
		q.params(trees(q, objective, labelled)))
	if trials == 1 {
		fmt.Fprintf(&b, "search: {fixed: [%s]}\n", first)
	} else {
		fmt.Fprintf(&b, "search:\n  method: auto\n  fixed:\n    - %s\n    - %s\n  random:\n%s", first, second, space)
	}
	fmt.Fprintf(&b, "machine: {type: n2-highmem-%d, spot: false, threads_per_task: %d, tasks_per_vm: %d}\n", vcpus,
		threads, min(max(1, q.Cores/threads), maxTasks))
	fmt.Fprintf(&b, "limits: {trial: %s, sweep: %s, quorum: 0.001}\n", q.Limit, q.Limit)
	return b.Bytes()
}

// threadsPerTask is how many threads a trial gets here. So a machine of at most four cores runs one task at a time: the
// search, which learns from one trial after another, then comes to the same model each time.
const threadsPerTask = 4

// maxTasks is the most tasks that a spec may have on a machine.
const maxTasks = 20

// machine returns the vCPUs of the smallest Google machine type with at least as many vCPUs as this machine has cores,
// and the threads of a task.
func machine(cores int) (vcpus, threads int) {
	sizes := []int{2, 4, 8, 16, 32, 48, 64, 80, 96, 128}
	i, _ := slices.BinarySearch(sizes, cores)
	return sizes[min(i, len(sizes)-1)], max(1, min(cores, threadsPerTask))
}

// quoted returns a text as YAML: in quotes, as in JSON.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can be encoded
	return strings.TrimSpace(b.String())
}

func list(texts []string) string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = quoted(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func percent(n, of int64) string { return sweep.Percent(float64(n) / float64(max(of, 1))) }
