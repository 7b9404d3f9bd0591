package gbt

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// FeatureGroups restricts which features may be on one path from root to leaf: those of one group. It is written like
// LightGBM's interaction_constraints, "[0,1],[2,3]" or "[[0,1],[2,3]]" by number, or by name,
// "name:[age,price],[site]". Features in no group are not used at all. Empty means no restriction.
type FeatureGroups string

// parseGroups takes groups as text or as a list of lists and returns their canonical form, as far as it can be known
// without the table.
func parseGroups(value any) (FeatureGroups, error) {
	text, ok := value.(string)
	if list, isList := value.([]any); isList {
		text, ok = groupsText(list)
	}
	if !ok {
		return "", fmt.Errorf("expected groups such as \"[0,1],[2,3]\" or \"%s[age,price],[site]\", found %s", byName,
			quoted(value))
	}
	if len(text) > maxColumnList {
		return "", fmt.Errorf("%d bytes of groups; at most %d", len(text), maxColumnList)
	}

	list, byNames := strings.CutPrefix(strings.TrimSpace(text), byName)
	groups, err := bracketed(list)
	if err != nil {
		return "", err
	}

	// Numbers get one spelling; names must be readable again once written.
	for _, group := range groups {
		for i, word := range group {
			if byNames {
				if !groupable(word) {
					return "", fmt.Errorf("the column name %.60q has marks that cannot be written here; give "+
						"columns' numbers", word)
				}
				continue
			}
			n, err := columnNumber(word)
			if err != nil {
				return "", err
			}
			group[i] = strconv.Itoa(n)
		}
	}

	return joinedGroups(groups, byNames), nil
}

// groupsText returns a list of lists, of numbers or of names, as text.
func groupsText(list []any) (string, bool) {
	groups := make([]string, len(list))
	names, numbers := 0, 0
	for i, item := range list {
		members, ok := item.([]any)
		if !ok {
			return "", false
		}

		var group []string
		for _, m := range members {
			switch m := m.(type) {
			case string:
				if !groupable(m) {
					return "", false
				}
				names++
			case int, int64, uint64, float64:
				numbers++
			default:
				return "", false
			}
			group = append(group, fmt.Sprint(m))
		}

		groups[i] = "[" + strings.Join(group, ",") + "]"
	}

	text := strings.Join(groups, ",")
	if names > 0 {
		text = byName + text
	}

	// Either all are names or all are numbers.
	return text, names == 0 || numbers == 0
}

// bracketed splits "[a,b],[c]", with or without outer brackets.
func bracketed(text string) ([][]string, error) {
	// The whole list may have brackets of its own, as JSON writes it.
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(text, "]") {
		inner = strings.TrimSpace(strings.TrimSuffix(inner, "]"))
		if inner == "" {
			return nil, nil
		}
		if strings.HasPrefix(inner, "[") {
			text = inner
		}
	}

	var groups [][]string
	for rest := text; rest != ""; {
		inner, ok := strings.CutPrefix(rest, "[")
		end := strings.IndexAny(inner, "[]")
		if !ok || end < 0 || inner[end] != ']' {
			return nil, fmt.Errorf("expected groups such as [0,1],[2,3], found %.60q", text)
		}
		if group := words(inner[:end]); len(group) > 0 {
			groups = append(groups, group)
		}

		rest = strings.TrimSpace(inner[end+1:])
		if rest == "" {
			break
		}
		if rest, ok = strings.CutPrefix(rest, ","); !ok {
			return nil, fmt.Errorf("expected a comma between groups, found %.60q", rest)
		}
		rest = strings.TrimSpace(rest)
		if rest == "" {
			return nil, fmt.Errorf("expected a group after the last comma of %.60q", text)
		}
	}

	return groups, nil
}

// groupable reports whether a name can be written in a group.
func groupable(name string) bool { return writable(name) && !strings.ContainsAny(name, "[]") }

// joinedGroups returns the canonical form of groups: sorted, without duplicates.
func joinedGroups(groups [][]string, byNames bool) FeatureGroups {
	order := func(a, b string) int {
		if byNames {
			return cmp.Compare(a, b)
		}
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // numbers without leading zeros
	}

	// One spelling per meaning: members and groups sorted and without duplicates.
	for i := range groups {
		slices.SortFunc(groups[i], order)
		groups[i] = slices.Compact(groups[i])
	}
	slices.SortFunc(groups, func(a, b []string) int { return slices.CompareFunc(a, b, order) })
	groups = slices.CompactFunc(groups, slices.Equal)

	text := make([]string, len(groups))
	for i, group := range groups {
		text[i] = "[" + strings.Join(group, ",") + "]"
	}
	if byNames && len(text) > 0 {
		text[0] = byName + text[0]
	}

	return FeatureGroups(strings.Join(text, ","))
}

// numbers returns the groups' columns as indices into a table's columns, ascending in each group.
func (l FeatureGroups) numbers(columns []string) ([][]int, error) {
	if l == "" {
		return nil, nil
	}

	list, _, find := finder(string(l), columns)
	groups, err := bracketed(list)
	if err != nil {
		return nil, err
	}

	out := make([][]int, len(groups))
	for i, group := range groups {
		for _, word := range group {
			n, err := find(word)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], n)
		}
		slices.Sort(out[i])
		out[i] = slices.Compact(out[i])
	}

	return out, nil
}

// forColumns returns the form shared by all lists of the same groups, by name if it can be written.
func (l FeatureGroups) forColumns(columns []string) (FeatureGroups, error) {
	groups, err := l.numbers(columns)
	if err != nil || groups == nil {
		return "", err
	}

	byNames := make([][]string, len(groups))
	ok := true

	for i, group := range groups {
		for _, n := range group {
			byNames[i] = append(byNames[i], columns[n])
			ok = ok && groupable(columns[n])
		}
	}

	// By name, unless a name cannot be written or is ambiguous.
	if ok {
		out := joinedGroups(byNames, true)
		if _, err := out.numbers(columns); err == nil { // an error means that two columns have the name
			return out, nil
		}
	}

	return numberedGroups(groups), nil
}

func numberedGroups(groups [][]int) FeatureGroups {
	text := make([][]string, len(groups))
	for i, group := range groups {
		for _, n := range group {
			text[i] = append(text[i], strconv.Itoa(n))
		}
	}
	return joinedGroups(text, false)
}

// among returns the groups for a table for which ForColumns has resolved the list; none if there is no restriction.
func (l FeatureGroups) among(features []Feature) [][]int { return resolved(features, l.numbers) }

// meeting returns those of the given groups that contain feature f.
func meeting(groups [][]int, among []int, f int) []int {
	var out []int
	for _, g := range among {
		if _, found := slices.BinarySearch(groups[g], f); found {
			out = append(out, g)
		}
	}
	return out
}

// allowed returns those of the features, ascending, that are in one of the given groups.
func allowed(groups [][]int, among, features []int) []int {
	var out []int
	for _, f := range features {
		if len(meeting(groups, among, f)) > 0 {
			out = append(out, f)
		}
	}
	return out
}
