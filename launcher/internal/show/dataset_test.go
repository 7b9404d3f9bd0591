package show

import (
	"testing"

	"coppice/internal/dataset"
)

// TestYAMLText: column names survive the list that is printed for pasting.
func TestYAMLText(t *testing.T) {
	for _, name := range []string{"user_id", "odd name", "null", "No", "1", "a,b", "a: b", "x]", "#", "é", "\u202e",
		"-", "~", `"`, "a.b-c", "tab\t"} {
		spec, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\nlabel: y\ndrop: ["+yamlText(name)+
			"]\n"))
		if err != nil || len(spec.Drop) != 1 || spec.Drop[0] != name {
			t.Errorf("%q is written %s and read as %q (%v)", name, yamlText(name), spec.Drop, err)
		}
	}
}
