package draft

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/problem"
)

// setObjective takes q.Objective apart, such as quantile@0.9: the name stays, what follows @ goes to q.argument, and
// the metric that goes with it to q.Metric unless one was asked for. For regression and binary, which the label's
// values decide between by default, it leaves q.Objective empty; q.regression then says that the first was asked for.
// For any other objective q.regression says that its label is a number. It does nothing without an objective.
func (q *Request) setObjective() error {
	if q.Objective == "" {
		return nil
	}
	fail := func(err error) error { return problem.Wrap(problem.Usage, err, "--objective %s", q.Objective) }
	word, argument, has := strings.Cut(q.Objective, "@")
	name, err := gbt.CanonicalObjective(word)
	if err != nil {
		return fail(err)
	}
	if name == "regression" && !has {
		q.Objective, q.regression = "", true
		return nil
	}
	if name == binaryObjective {
		if has {
			return fail(errors.New("binary takes no argument"))
		}
		q.Objective = ""
		return nil
	}

	// What follows @ must be the number that the objective takes. by is the metric that goes with the
	// objective: the usual one, whose error counts only without a number, or else the one with this number.
	parameter := gbt.ObjectiveArgument(name)
	by, err := metric.Usual(name)
	if has {
		var value float64
		if value, err = strconv.ParseFloat(argument, 64); err != nil || parameter == "" {
			return fail(fmt.Errorf("use %s, without @, or an objective with a number: quantile, huber, tweedie",
				name))
		}
		q.argument = fmt.Sprintf(", %s: %v", parameter, value)
		if err = gbt.CheckParam(parameter, value); err == nil {
			by, err = metric.Lookup(name + "@" + argument)
		}
	}
	if err != nil {
		return fail(err)
	}
	q.Objective, q.Metric = name, cmp.Or(q.Metric, by.Name)
	q.regression = !gbt.Ranks(name) && !gbt.Classes(name)
	return nil
}
