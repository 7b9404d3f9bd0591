package search_test

import (
	"fmt"

	"coppice/internal/search"
	"coppice/internal/strictyaml"
)

// known resolves the names of results that have only these values.
func known(names []string) func(string) (string, error) {
	by := make(map[string]string, len(names))
	for _, name := range names {
		by[search.Identifier(name)] = name
	}
	return func(name string) (string, error) {
		if full, ok := by[search.Identifier(name)]; ok {
			return full, nil
		}
		return "", fmt.Errorf("unknown name %.60q%s", name, strictyaml.Suggest(name, names))
	}
}
