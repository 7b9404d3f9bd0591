package metric

import (
	"slices"
	"strings"

	"coppice/internal/expression"
	"coppice/internal/problem"
)

// maxValueName is the most bytes of the name of a value metric.
const maxValueName = 300

// lookupValue returns the metric value(text): the weighted mean over rows of an expression of the row's label,
// prediction, weight and columns. It is an error if the text is no such expression, if the name becomes longer than
// maxValueName, or if the expression does not depend on the prediction.
func lookupValue(text string) (Metric, error) {
	rows, err := expression.CompileRows(text)
	if err != nil {
		return Metric{}, err
	}
	m := Metric{Name: "value(" + rows.Text + ")", Maximize: true, Kind: OfRows, low: -inf, high: inf, rows: rows,
		eval: meanValue, influence: valueInfluence}
	switch {
	case len(m.Name) > maxValueName:
		return Metric{}, problem.New(problem.Input, "metric %.60s...: %d bytes, more than the %d that a value may have",
			m.Name, len(m.Name), maxValueName)
	case !slices.Contains(rows.Names, "prediction"):
		return Metric{}, problem.New(problem.Input, "metric %s: it is the same for all models; make it depend on "+
			"prediction", m.Name)
	}
	return m, nil
}

// Columns returns the columns of the dataset that a value metric needs in Input.Values. It is empty for other metrics.
func (m Metric) Columns() (names []string) {
	if m.rows == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.rows.Names), func(name string) bool {
		return name == "label" || name == "prediction" || name == "weight" // every row has these
	})
}

// Stop returns the metric for early stopping when models are compared by m. It is m itself, except for a value metric:
// the objective's usual metric shows better whether another tree has helped.
func (m Metric) Stop(objective string) (Metric, error) {
	if m.rows == nil {
		return m, nil
	}
	return Usual(objective)
}

// eachValue calls f with the value and the weight of each row, and returns the total weight. It is an error if the rows
// are not valid (checkNumbers), a column is missing, or a number or a value is not finite. f may have been called
// before an error is found.
func (e *Evaluator) eachValue(m Metric, f func(value, weight float64)) (total float64, err error) {
	if total, err = e.checkNumbers(m); err != nil {
		return 0, err
	}

	// Find the columns that the expression uses. That of prediction, and of weights that are all 1, is nil.
	names := m.rows.Names
	columns := make([][]float32, len(names))
	for k, name := range names {
		switch name {
		case "label":
			columns[k] = e.in.Label
		case "weight":
			columns[k] = e.in.Weight
		case "prediction":
		default:
			columns[k] = e.in.Values[name]
			if len(columns[k]) != len(e.in.Pred) {
				return 0, fault(m, -1, "it is not known here: the rows have no %s", name)
			}
		}
	}

	// Evaluate the expression for each row.
	row := make([]float64, len(names))
	for i, p := range e.in.Pred {
		for k, c := range columns {
			switch {
			case c != nil:
				row[k] = float64(c[i])
			case names[k] == "prediction":
				row[k] = p
			default:
				row[k] = 1
			}
			if x := row[k]; x-x != 0 {
				return 0, fault(m, i, "the %s cannot be used: %v is not a finite number", names[k], x)
			}
		}
		v := m.rows.Of(row)
		if v-v != 0 {
			return 0, fault(m, i, "the value is %v, not a finite number, of %s %v", v, strings.Join(names, ", "), row)
		}
		f(v, e.in.weight(i))
	}
	return total, nil
}

func meanValue(e *Evaluator, m Metric) (float64, error) {
	var all sum
	total, err := e.eachValue(m, func(v, w float64) { all.add(v * w) })
	return all.value() / total, err
}

func valueInfluence(e *Evaluator, m Metric, value float64) (*units, error) {
	u := &units{}
	_, err := e.eachValue(m, func(v, w float64) {
		u.influence, u.weight = append(u.influence, v-value), append(u.weight, w)
	})
	return u, err
}
