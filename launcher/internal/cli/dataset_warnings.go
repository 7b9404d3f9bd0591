package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
)

// showWarnings prints what a person should check. If several columns should be dropped, they are also printed as a list
// to paste.
func (w *World) showWarnings(warnings []dataset.Warning) {
	useless := map[string]bool{ingest.WarnConstant: true, ingest.WarnAllMissing: true, ingest.WarnIDLike: true}
	hints := map[string]bool{ingest.HintIDs: true, ingest.HintKey: true}

	var drop []string
	for _, warning := range warnings {
		if useless[warning.Code] && !slices.Contains(drop, warning.Column) {
			drop = append(drop, warning.Column)
		}
	}
	together := len(drop) > 1

	for _, warning := range warnings {
		if together && useless[warning.Code] {
			continue
		}
		where, kind := "", "warning"
		if warning.Column != "" {
			where = warning.Column + ": "
		}
		if hints[warning.Code] {
			kind = "hint"
		}
		fmt.Fprintf(w.Out, "%s: %s%s\n", kind, where, warning.Text)
	}

	if !together {
		return
	}
	for _, reason := range []struct{ code, text string }{
		{ingest.WarnAllMissing, "no value at all"},
		{ingest.WarnConstant, "the same value in every row"},
		{ingest.WarnIDLike, "nearly every row has a value of its own, as with ids"},
	} {
		var of []string
		for _, warning := range warnings {
			if warning.Code == reason.code {
				of = append(of, warning.Column)
			}
		}
		if len(of) > 0 {
			fmt.Fprintf(w.Out, "warning: %s: %s\n", reason.text, strings.Join(of, ", "))
		}
	}

	for i, column := range drop {
		drop[i] = yamlText(column)
	}
	fmt.Fprintf(w.Out, "nothing can be learnt from these %d columns; to leave them out, add this to the dataset's "+
		"YAML, or to its existing drop:\ndrop: [%s]\n",
		len(drop), strings.Join(drop, ", "))
}

// plainYAML matches texts that YAML always reads as themselves, not as other words or numbers.
var plainYAML = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// yamlText formats a text so that YAML reads it back unchanged.
func yamlText(s string) string {
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(s)
	}
	if !plainYAML.MatchString(s) {
		return strconv.Quote(s)
	}
	return s
}
