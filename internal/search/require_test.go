package search_test

import (
	"fmt"
	"strings"

	"coppice/internal/strictyaml"
)

// known resolves the names of results that have only these values.
func known(names []string) func(string) (string, error) {
	identifier := strings.NewReplacer("@", "_at_", "%", "pct", ".", "_").Replace
	by := make(map[string]string, len(names))
	for _, name := range names {
		by[identifier(name)] = name
	}
	return func(name string) (string, error) {
		if full, ok := by[identifier(name)]; ok {
			return full, nil
		}
		return "", fmt.Errorf("unknown name %.60q%s", name, strictyaml.Suggest(name, names))
	}
}
