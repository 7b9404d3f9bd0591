package gbt

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// ReadParams reads a file of parameters: a YAML map or, if its name ends in .conf, a LightGBM parameter file. It
// returns the values by name, notes for the user about parameters without effect, and the document, which knows the
// line of each name.
//
// Every value is checked, except that of metric, which is not the trainer's, and no parameter that has an effect may be
// there by two of its names. The error lists all that is refused, not just the first. From a .conf file, parameters are
// left out that another file or flag of Coppice has; a note says which.
func ReadParams(file string) (values map[string]any, notes []string, doc *strictyaml.Document, err error) {
	data, err := strictyaml.ReadFile(file)
	conf := strings.HasSuffix(file, ".conf")
	if err == nil && conf {
		data, err = fromConf(file, data)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	values = map[string]any{}
	if doc, err = strictyaml.Decode(file, data, &values); err != nil {
		return nil, nil, nil, err
	}

	// Check each parameter.
	var refused []*strictyaml.Error
	seen := map[string]string{} // by canonical name, the name in the file
	for _, name := range slices.Sorted(maps.Keys(values)) {
		canonical := CanonicalName(name)
		if first := seen[canonical]; first != "" && (canonical == "metric" || findParam(name) != nil) {
			refused = append(refused, doc.Errorf(name, "%s: says the same as %s; keep one", name, first))
			continue
		}
		seen[canonical] = name
		if canonical == "metric" {
			continue
		}
		other, err := findOther(name), CheckParam(name, values[name]) // other: nil if it is trained with, or unknown
		switch {
		case other != nil && other.fine == elsewhere && conf: // before err, which refuses it in other files
			notes = append(notes, fmt.Sprintf("%s has no effect here; in its place: %s", name, other.note))
			delete(values, name)
		case err != nil:
			refused = append(refused, doc.Errorf(name, "%v", err))
		}
	}

	// Report refusals in the order of the file.
	if len(refused) > 0 {
		slices.SortFunc(refused, func(a, b *strictyaml.Error) int { return cmp.Compare(a.Line, b.Line) })
		lines := make([]string, len(refused))
		for i, err := range refused {
			lines[i] = err.Error()
		}
		return nil, nil, nil, problem.New(problem.Input, "%s", strings.Join(lines, "\n"))
	}
	return values, append(notes, NoEffect(values)...), doc, nil
}

// confLine is one parameter of a LightGBM file: name = value.
var confLine = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$`)

// fromConf turns a LightGBM parameter file (name = value, # for comments) into YAML. Every line becomes one line, so
// that later errors have the right line number. A value may be in quotes. One with commas becomes a list, unless the
// parameter is a text with commas here, such as ignore_column. file is its name for errors, which are of kind Input.
func fromConf(file string, data []byte) ([]byte, error) {
	var b bytes.Buffer
	n := 0
	for line := range strings.Lines(string(bytes.TrimPrefix(data, []byte("\ufeff")))) {
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

		text := strings.TrimSpace(strings.Trim(m[2], `'"`))
		if text == "" { // to LightGBM, as if the line were not there
			b.WriteByte('\n')
			continue
		}
		value := confValue(text)
		if strings.Contains(text, ",") && !isText(m[1]) {
			var parts []string
			for part := range strings.SplitSeq(text, ",") {
				parts = append(parts, confValue(strings.TrimSpace(part)))
			}
			value = "[" + strings.Join(parts, ", ") + "]"
		}
		fmt.Fprintf(&b, "%s: %s\n", m[1], value)
	}
	return b.Bytes(), nil
}

// isText reports whether a parameter, by name or alias, is trained with and has a text as its value.
func isText(name string) bool {
	s := findParam(name)
	if s == nil {
		return false
	}
	switch s.field(new(Params)).(type) {
	case *string, *ColumnList:
		return true
	}
	return false
}

// Numbers, as LightGBM reads them.
var (
	confInteger = regexp.MustCompile(`^[-+]?[0-9]+$`)
	confNumber  = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

// confValue returns a value of a LightGBM file as YAML: a boolean, a number, or else a quoted text. A number that is
// too large for Go is text, too, which the parameter's check then refuses.
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
