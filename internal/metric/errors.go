package metric

import (
	"fmt"
	"strings"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// InputError says that a metric is undefined for an Input. Reports leave the metric out then.
type InputError struct{ msg string }

// Error returns "metric: row N: what: detail".
func (e *InputError) Error() string { return e.msg }

// Kind says that the input is at fault.
func (*InputError) Kind() problem.Kind { return problem.Input }

// fault returns an *InputError about a row, or about all of them if row is -1.
func fault(m Metric, row int, format string, args ...any) error {
	where := m.Name + ": "
	if row >= 0 {
		where += fmt.Sprintf("row %d: ", row)
	}
	return &InputError{where + fmt.Sprintf(format, args...)}
}

// unknown looks for a similar name among the canonical ones, then among those of other libraries.
func unknown(name string) error {
	hint := strictyaml.Suggest(name, Names())
	if !strings.Contains(hint, "did you mean") {
		var long []string
		for _, d := range definitions() {
			for alias := range strings.FieldsSeq(d.aliases) {
				if len(alias) > 3 {
					long = append(long, alias)
				}
			}
		}

		if other := strictyaml.Suggest(name, long); strings.Contains(other, "did you mean") {
			hint = other
		}
	}
	return problem.New(problem.Input, "unknown metric %.60q%s", name, hint)
}
