package gbt

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// MonotoneList says in which direction predictions may depend on features: 1 up, -1 down, 0 either. As LightGBM's
// monotone_constraints it has a number for every feature, "1,0,-1"; or it names some, "name:price=1,age=-1". Empty
// constrains nothing.
type MonotoneList string

// setDirections takes a list as text or as numbers, or a single number.
func (s *paramSpec) setDirections(value any, field *MonotoneList) error {
	values, isList := value.([]any)
	text, isText := value.(string)
	if !isList && !isText {
		values = []any{value}
	}

	// A list or a number is read as its text form.
	if !isText {
		list := make([]string, len(values))
		for i, v := range values {
			if err := s.setWhole(v, func(x float64) { list[i] = strconv.Itoa(int(x)) }); err != nil {
				return fmt.Errorf("expected directions such as \"1,0,-1\" or \"%sprice=1,age=-1\": %w", byName, err)
			}
		}
		text = strings.Join(list, ",")
	}

	list, err := parseDirections(text)
	if err != nil {
		return err
	}
	*field = list
	return nil
}

// parseDirections returns the canonical form of text as far as it can be known without the table.
func parseDirections(text string) (MonotoneList, error) {
	if len(text) > maxColumnList {
		return "", fmt.Errorf("%d bytes of directions; at most %d", len(text), maxColumnList)
	}

	if names, ok := strings.CutPrefix(strings.TrimSpace(text), byName); ok {
		byNames, err := parseNamedDirections(names)
		return namedDirections(byNames), err
	}

	var all []int8
	for _, word := range words(text) {
		d, err := direction(word)
		if err != nil {
			return "", err
		}
		all = append(all, d)
	}

	return listedDirections(all), nil
}

func direction(word string) (int8, error) {
	d, err := strconv.ParseInt(word, 10, 8)
	if err != nil || d < -1 || d > 1 {
		return 0, fmt.Errorf("%.60q is not a direction; 1 is upwards, -1 downwards and 0 either; names come after %s",
			word, byName)
	}
	return int8(d), nil
}

// parseNamedDirections splits entries of the form NAME=DIRECTION. A name may itself contain "=".
func parseNamedDirections(text string) (map[string]int8, error) {
	all := map[string]int8{}
	for _, word := range words(text) {
		at := strings.LastIndex(word, "=")
		if at < 0 {
			return nil, fmt.Errorf("%.60q has no direction; write %.60q", word, word+"=1")
		}

		name := strings.TrimSpace(word[:at])
		if !writable(name) {
			return nil, fmt.Errorf("the column name %.60q has marks that cannot be written here; give directions of "+
				"all columns by position", name)
		}

		d, err := direction(strings.TrimSpace(word[at+1:]))
		if err != nil {
			return nil, err
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("column %.60q has two directions", name)
		}
		all[name] = d
	}
	return all, nil
}

// namedDirections and listedDirections return the canonical forms: empty if nothing is constrained.

func namedDirections(all map[string]int8) MonotoneList {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != 0 {
			entries = append(entries, fmt.Sprintf("%s=%d", name, all[name]))
		}
	}
	return MonotoneList(named(entries))
}

func listedDirections(all []int8) MonotoneList {
	if !slices.ContainsFunc(all, func(d int8) bool { return d != 0 }) {
		return ""
	}
	text := make([]string, len(all))
	for i, d := range all {
		text[i] = strconv.Itoa(int(d))
	}
	return MonotoneList(strings.Join(text, ","))
}

// directions returns the directions of a table's columns; nil if there are none.
func (l MonotoneList) directions(columns []string) ([]int8, error) {
	if l == "" {
		return nil, nil
	}

	all := make([]int8, len(columns))
	if names, ok := strings.CutPrefix(string(l), byName); ok {
		byNames, err := parseNamedDirections(names)
		if err != nil {
			return nil, err
		}

		find := nameFinder(columns)
		for _, name := range slices.Sorted(maps.Keys(byNames)) {
			n, err := find(name)
			if err != nil {
				return nil, err
			}
			all[n] = byNames[name]
		}
		return all, nil
	}

	list := words(string(l))
	if len(list) != len(columns) {
		return nil, fmt.Errorf("%d directions for the table's %d columns; give one for each, or name some after %s",
			len(list), len(columns), byName)
	}

	for i, word := range list {
		d, err := direction(word)
		if err != nil {
			return nil, err
		}
		all[i] = d
	}
	return all, nil
}

// forColumns returns the form shared by all lists of the same directions, by name if it can be written.
func (l MonotoneList) forColumns(columns []string) (MonotoneList, error) {
	all, err := l.directions(columns)
	if err != nil || all == nil {
		return "", err
	}

	byNames := map[string]int8{}
	for i, d := range all {
		if d == 0 {
			continue
		}
		if _, twice := byNames[columns[i]]; twice || !writable(columns[i]) {
			return listedDirections(all), nil
		}
		byNames[columns[i]] = d
	}

	out := namedDirections(byNames)
	if _, err := out.directions(columns); err != nil { // two columns have the name
		out = listedDirections(all)
	}
	return out, nil
}

// among returns the directions by feature for a table for which ForColumns has resolved the list.
func (l MonotoneList) among(features []Feature) []int8 { return resolved(features, l.directions) }

// check refuses directions of unordered features.
func (l MonotoneList) check(features []Feature) error {
	for f, d := range l.among(features) {
		if d != 0 && features[f].Categorical {
			return &ParamError{monotoneConstraints, fmt.Sprintf("column %.60q is categorical and has no order",
				features[f].Name)}
		}
	}
	return nil
}
