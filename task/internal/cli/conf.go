package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"coppice/internal/problem"
)

// confLine is one parameter of a LightGBM file: name = value.
var confLine = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$`)

// fromConf turns LightGBM's train.conf into YAML, line by line, so that errors name its lines. A value with commas is a
// list. Errors are of kind Input.
func fromConf(file string, text []byte) ([]byte, error) {
	var b bytes.Buffer
	n := 0
	for line := range strings.Lines(string(bytes.TrimPrefix(text, []byte("\ufeff")))) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if line == "" {
			b.WriteByte('\n')
			continue
		}
		m := confLine.FindStringSubmatch(line)
		if m == nil {
			return nil, problem.New(problem.Input, "%s:%d: %.60q: a LightGBM parameter file has lines such as "+
				"num_leaves = 31", file, n, line)
		}
		value := confValue(m[2])
		if strings.Contains(m[2], ",") {
			var parts []string
			for part := range strings.SplitSeq(m[2], ",") {
				parts = append(parts, confValue(strings.TrimSpace(part)))
			}
			value = "[" + strings.Join(parts, ", ") + "]"
		}
		fmt.Fprintf(&b, "%s: %s\n", m[1], value)
	}
	return b.Bytes(), nil
}

// Numbers, as LightGBM reads them.
var (
	confInteger = regexp.MustCompile(`^[-+]?[0-9]+$`)
	confNumber  = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

// confValue is one value in YAML: a number or boolean, or else a text.
func confValue(text string) string {
	switch low := strings.ToLower(text); {
	case low == "true" || low == "false":
		return low
	case confInteger.MatchString(text):
		if n, err := strconv.Atoi(text); err == nil {
			return strconv.Itoa(n)
		}
	case confNumber.MatchString(text):
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			return strconv.FormatFloat(x, 'f', -1, 64)
		}
	}
	return strconv.QuoteToASCII(text)
}
