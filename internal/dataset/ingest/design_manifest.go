package ingest

import (
	"fmt"
	"strings"

	"coppice/internal/dataset"
)

// describeOrder returns, for the manifest, in which order the statistics were made; nil if the design has none.
func (s *survey) describeOrder(design *design) *dataset.Ordering {
	if len(design.keys) == 0 {
		return nil
	}
	o := &dataset.Ordering{By: s.spec.OrderBy(), Copies: design.copies}
	if o.By == dataset.OrderTime {
		o.Column, o.DelaySeconds = s.spec.TimeColumn(), max(design.delay, s.delayAsked())
	}
	return o
}

// addFeatures adds the design to the manifest and sets d.columns. It appends the features in this order: each chosen
// column, followed by its second feature if it has one (see built.second), then the statistics, whose bins are not
// known yet. It also sets the tables, their order, the report on encodings and the warnings, and multiplies train's
// number of rows by d.copies.
//
// More than dataset.MaxTables tables, or two features with the same name, are errors.
func (d *design) addFeatures(manifest *dataset.Manifest, columns []sampledColumn, survey *survey) error {
	for _, i := range d.features {
		manifest.Features = append(manifest.Features, columns[i].Feature)
		d.columns = append(d.columns, survey.roles.features[i].place)
		if second := columns[i].second; second != nil {
			manifest.Features = append(manifest.Features, *second)
			d.columns = append(d.columns, survey.roles.features[i].place)
		}
	}

	// The statistics of the keys.
	for number := range d.keys {
		for _, what := range d.keys[number].Statistics() {
			f := dataset.Feature{Name: d.tables[number].Feature(what, manifest.Label.Classes), Kind: dataset.Numeric,
				Why: dataset.WhyDerived, Bins: 1, MissingBin: -1, OtherBin: -1,
				From: &dataset.Derived{What: what, Table: number}}
			if what == dataset.DeriveRecency {
				f.From.Of = []dataset.Part{{Column: survey.spec.TimeColumn(), Kind: survey.orderKind()}}
			}
			manifest.Features = append(manifest.Features, f)
		}
	}

	if len(d.tables) > dataset.MaxTables {
		return survey.spec.Errorf("encodings",
			"%d columns of ids and combinations of them have statistics; %d at most. Drop some, give some "+
				"categories or none under encodings.columns, or make none at all: `encodings: none`",
			len(d.tables), dataset.MaxTables)
	}

	// What the manifest says about them.
	manifest.Tables, manifest.Order = d.tables, survey.describeOrder(d)
	manifest.Splits[0].Rows *= d.copies // train
	manifest.About.Encodings, manifest.About.Delay = d.about, d.delayInfo
	manifest.About.Warnings = append(manifest.About.Warnings, d.warnings...)
	return checkFeatureNames(survey.spec, manifest)
}

// orderKind tells whether the column that orders the statistics is read as times or as numbers: by its clock or, if it
// also splits the rows by time, as the splitter reads it. It is valid after the first pass.
func (s *survey) orderKind() dataset.Kind {
	switch {
	case s.order != nil:
		return s.order.kind()
	// The splitter has asTime for texts and numbers that it reads as times. A column of typed times needs none.
	case s.splitter.asTime == nil && s.orderType != dataset.Time:
		return dataset.Numeric
	}
	return dataset.Temporal
}

// checkFeatureNames returns an error if two features of the design have the same name, for instance if a table has a
// column called site:rate besides a column called site. A model tells its features apart by name only.
func checkFeatureNames(spec *dataset.Spec, manifest *dataset.Manifest) error {
	first := map[string]*dataset.Feature{}
	for i := range manifest.Features {
		f := &manifest.Features[i]
		other := first[f.Name]
		if other == nil {
			first[f.Name] = f
			continue
		}

		// The message names the column of the table first, then the feature that was made.
		made, column := f, other
		if !made.IsDerived() {
			made, column = column, made
		}
		return spec.Errorf("encodings",
			"%s and %s are both features called %q; rename a column in the table, or remove one of the two with "+
				"drop: or encodings.columns",
			describeFeature(manifest, column), describeFeature(manifest, made), f.Name)
	}
	return nil
}

// describeFeature says what a feature is made of. The error about two features of one name uses it, so it leaves out
// the name.
func describeFeature(manifest *dataset.Manifest, feature *dataset.Feature) string {
	if feature.From == nil {
		return fmt.Sprintf("column %q", feature.Name)
	}

	what, parts := string(feature.From.What), feature.From.Of
	if feature.From.Table >= 0 {
		parts = manifest.Tables[feature.From.Table].Of
	}
	if feature.From.What == dataset.DeriveLevels {
		what = "further categories"
	}

	of := make([]string, len(parts))
	for i := range parts {
		of[i] = describePart(&parts[i])
	}
	return fmt.Sprintf("the %s of %s", what, strings.Join(of, " with "))
}

// describePart describes a part of a key for messages.
func describePart(part *dataset.Part) string {
	column := fmt.Sprintf("column %q", part.Column)
	if part.Take != "" {
		column = fmt.Sprintf("the %s of %s", part.Take, column)
	}
	if len(part.Bounds) > 0 {
		column = "ranges of " + column
	}
	return column
}
