package strictyaml

import (
	"fmt"

	"github.com/goccy/go-yaml"
)

// Encode writes YAML for other programs: mappings have their keys in the order of a struct's fields, or alphabetically.
func Encode(v any) ([]byte, error) {
	data, err := yaml.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode YAML: %w", err)
	}
	return data, nil
}
