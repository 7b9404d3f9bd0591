package draft

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coppice/internal/gbt"
	"coppice/internal/problem"
)

// setParams reads the parameters that every trial shall have. What sweep.yaml has a key for stands behind the flags.
func (d *Draft) setParams(q *Request) error {
	if q.ParamsFile == "" {
		return nil
	}
	values, notes, _, err := gbt.ReadParams(q.ParamsFile)
	if err != nil {
		return problem.Wrap(problem.Input, err, "--params")
	}
	for _, text := range notes {
		d.found("params", "%s", text)
	}
	q.given = map[string]any{}
	for name, value := range values {
		switch canonical := gbt.CanonicalName(name); {
		case canonical == "objective" && q.Objective == "":
			q.Objective = fmt.Sprint(value)
		case canonical == "metric" && q.Metric == "":
			if list, several := value.([]any); several { // the first one stops and chooses, as in LightGBM
				value = append(list, "")[0]
			}
			q.Metric = fmt.Sprint(value)
		case canonical == "early_stopping_round":
			q.rounds = fmt.Sprint(value)
		case slices.Contains(gbt.ParamNames(), canonical) && canonical != "objective":
			q.given[canonical] = value
		}
	}
	all := maps.Clone(q.given)
	word, _, _ := strings.Cut(q.Objective, "@")
	if name, err := gbt.CanonicalObjective(word); err == nil { // by which it is told what belongs to it
		all["objective"] = name
	}
	p, err := gbt.ParseParams(all)
	if err == nil {
		for _, idle := range p.Idle() {
			err = idle
		}
	}
	if err != nil {
		return problem.Wrap(problem.Input, err, "--params %s", q.ParamsFile)
	}
	return nil
}

// removeGiven is a configuration, {a: 1, b: 2}, or lines of ranges, without what is given.
func (q *Request) removeGiven(text, separator string) string {
	inside := strings.Trim(text, "{}")
	kept := slices.DeleteFunc(strings.Split(inside, separator), func(one string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(one), ":")
		_, given := q.given[name]
		return given
	})
	return strings.Replace(text, inside, strings.Join(kept, separator), 1)
}

// Trials have mostTrees, which early stopping seldom lets them reach. Values of few rows may follow the columns so
// closely that more trees of a low rate pay, in seconds (docs/LAB.md).
const mostTrees, mostTreesOfValues, quickRows = 1000, 4000, 20_000

// trees are how many a trial has at most, on so many rows.
func trees(q Request, objective string, rows int64) int {
	if rows > quickRows || objective == binaryObjective || gbt.Classes(objective) || q.Group != "" {
		return mostTrees
	}
	return mostTreesOfValues
}

// params returns, in YAML, the parameters that all trials share, with so many trees.
func (q *Request) params(trees int) string {
	out := fmt.Sprintf("num_iterations: %d", trees)
	if q.given["num_iterations"] != nil {
		out = ""
	}
	for _, name := range slices.Sorted(maps.Keys(q.given)) {
		text, _ := json.Marshal(q.given[name]) // it was read from YAML
		out += fmt.Sprintf(", %s: %s", name, text)
	}
	return "{" + strings.TrimPrefix(out+q.argument, ", ") + "}"
}

// judgesTwoClasses reports whether the metric that was asked for does, and nothing else asks for several.
func (q *Request) judgesTwoClasses() bool {
	return !q.wantsClasses() && q.Metric != "" && ofTwoClasses(q.Metric)
}
