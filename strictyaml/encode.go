package strictyaml

import (
	"fmt"

	"github.com/goccy/go-yaml"
)

// Encode writes YAML for programs that want it: mappings have their keys in the order of a struct's fields, or of the alphabet.
func Encode(v any) ([]byte, error) {
	data, err := yaml.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode YAML: %w", err)
	}
	return data, nil
}
