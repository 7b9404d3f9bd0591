package predict

import (
	"strconv"
	"strings"

	"coppice/internal/problem"
)

// TopOf returns the N of --explain top:N, 0 for an empty text. Anything else is an error of kind Usage.
func TopOf(explain string) (int, error) {
	if explain == "" {
		return 0, nil
	}
	number, ok := strings.CutPrefix(explain, "top:")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 {
		return 0, problem.New(problem.Usage, "--explain %q: give a number of features, as in top:3", explain)
	}
	return n, nil
}
