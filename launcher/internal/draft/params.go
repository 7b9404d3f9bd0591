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

// setParams reads the file of parameters that every trial has into q.given, by the names that gbt has for them. The
// objective and the metric in it become those of the request unless flags give them; its rounds of early stopping
// become q.rounds. Parameters that training does not know, but LightGBM does, are not passed on: gbt.ReadParams has
// told what has no effect, and refused all other names. A parameter that is set but has no effect because of another
// one, such as bagging_fraction without bagging_freq, is an error.
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
			// Of a list the first metric stops and chooses, as in LightGBM. An empty list is no metric.
			if list, several := value.([]any); several {
				value = ""
				if len(list) > 0 {
					value = list[0]
				}
			}
			q.Metric = fmt.Sprint(value)
		case canonical == "early_stopping_round":
			q.rounds = fmt.Sprint(value)
		case slices.Contains(gbt.ParamNames(), canonical) && canonical != "objective":
			q.given[canonical] = value
		}
	}

	// Check the parameters together with the objective, which decides what belongs to it.
	all := maps.Clone(q.given)
	word, _, _ := strings.Cut(q.Objective, "@")
	if name, err := gbt.CanonicalObjective(word); err == nil {
		all["objective"] = name
	}
	p, err := gbt.ParseParams(all)
	if err == nil {
		for _, idle := range p.Idle() {
			err = idle // the last one is reported
		}
	}
	if err != nil {
		return problem.Wrap(problem.Input, err, "--params %s", q.ParamsFile)
	}
	return nil
}

// removeGiven returns a text without the entries of parameters that were given. The text is a configuration, such as
// {a: 1, b: 2} with the separator ", ", or lines of ranges, NAME: RANGE, whose separator is a line's end.
func (q *Request) removeGiven(text, separator string) string {
	inside := strings.Trim(text, "{}")
	kept := slices.DeleteFunc(strings.Split(inside, separator), func(one string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(one), ":")
		_, given := q.given[name]
		return given
	})
	return strings.Replace(text, inside, strings.Join(kept, separator), 1)
}

// A trial has at most mostTrees trees, which early stopping seldom lets it reach. Where numbers are predicted and rows
// are at most quickRows, it has mostTreesOfValues: the numbers may follow the columns so closely that more trees with a
// low learning rate pay, and that takes only seconds (docs/LAB.md).
const mostTrees, mostTreesOfValues, quickRows = 1000, 4000, 20_000

// trees returns the most trees of a trial on so many rows.
func trees(q Request, objective string, rows int64) int {
	if rows > quickRows || objective == binaryObjective || gbt.Classes(objective) || q.Group != "" {
		return mostTrees
	}
	return mostTreesOfValues
}

// params returns the parameters that all trials share, as YAML. trees is the number of trees, unless the file of
// parameters gives one. What an objective takes (q.argument) is the last, and begins with a comma.
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

// judgesTwoClasses reports whether the metric that was asked for judges two classes only, and the objective is not one
// of several classes. Without a metric asked for it is false.
func (q *Request) judgesTwoClasses() bool {
	return !q.wantsClasses() && q.Metric != "" && ofTwoClasses(q.Metric)
}
