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

// setObjective takes the argument off the objective, and chooses the metric that goes with it.
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
