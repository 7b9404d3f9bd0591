package ingest

import (
	"fmt"
	"strings"

	"coppice/internal/dataset"
)

// checkFeatureNames rejects a design in which two features have the same name, for instance if a table has a column
// called site:rate beside site. A model tells its features apart by name only.
func checkFeatureNames(spec *dataset.Spec, m *dataset.Manifest) error {
	first := map[string]*dataset.Feature{}
	for i := range m.Features {
		f := &m.Features[i]
		other := first[f.Name]
		if other == nil {
			first[f.Name] = f
			continue
		}

		made, column := f, other
		if !made.IsDerived() {
			made, column = column, made
		}
		return spec.Errorf("encodings",
			"%s and %s are both features called %q; rename a column in the table, or remove one of the two with "+
				"drop: or encodings.columns",
			describeFeature(m, column), describeFeature(m, made), f.Name)
	}
	return nil
}

// describeFeature describes a feature without its name.
func describeFeature(m *dataset.Manifest, f *dataset.Feature) string {
	if f.From == nil {
		return fmt.Sprintf("column %q", f.Name)
	}

	what, parts := string(f.From.What), f.From.Of
	if f.From.Table >= 0 {
		parts = m.Tables[f.From.Table].Of
	}
	if f.From.What == dataset.DeriveLevels {
		what = "further categories"
	}

	of := make([]string, len(parts))
	for i := range parts {
		of[i] = describePart(&parts[i])
	}
	return fmt.Sprintf("the %s of %s", what, strings.Join(of, " with "))
}

// describePart describes a part.
func describePart(p *dataset.Part) string {
	column := fmt.Sprintf("column %q", p.Column)
	if p.Take != "" {
		column = fmt.Sprintf("the %s of %s", p.Take, column)
	}
	if len(p.Bounds) > 0 {
		column = "ranges of " + column
	}
	return column
}
