package gbt

import (
	"strings"
	"testing"
)

// FuzzConstraints compares the meaning of constraint lists before and after canonicalisation.
func FuzzConstraints(f *testing.F) {
	f.Add("1,0,-1", "a\nb\nc")
	f.Add("name:a=1,b==-1", "a\nb=\nb")
	f.Fuzz(func(t *testing.T, list, table string) {
		columns := strings.Split(table, "\n")
		for _, name := range []string{monotoneConstraints} {
			p, err := ParseParams(map[string]any{name: list})
			if err != nil {
				continue
			}
			if again, err := ParseParams(p.Map()); err != nil || again != p {
				t.Fatalf("%s %q is %v, which is %v (%v)", name, list, p.Map()[name], again.Map()[name], err)
			}
			q, err := p.ForColumns(columns)
			if err != nil {
				continue
			}
			if again, err := ParseParams(q.Map()); err != nil || again != q {
				t.Fatalf("%s %q of %q is %v, which cannot be read back: %v", name, list, columns, q.Map()[name], err)
			}
			directions, err1 := p.MonotoneConstraints.directions(columns)
			again, err2 := q.MonotoneConstraints.directions(columns)
			if err1 != nil || err2 != nil || listedDirections(directions) != listedDirections(again) {
				t.Fatalf("%s %q of %q: %v, as %v %v (%v, %v)", name, list, columns, directions, q.Map()[name], again,
					err1, err2)
			}
		}
	})
}
