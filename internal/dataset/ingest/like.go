package ingest

import (
	"fmt"
	"maps"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// A dataset may be made like another one, so that a model trained on that keeps its meaning on this: with the same
// columns, bin bounds, and statistics of ids over the same columns. The statistics themselves come from this table's
// train rows only: the other dataset's may include the very rows that are encoded here.

// specLike returns the spec that reads the table as the other dataset's was read.
func specLike(spec *dataset.Spec, old *dataset.Manifest, t *table.Table) *dataset.Spec {
	s := *spec
	s.Encodings.Columns, s.Encodings.Keys, s.Encodings.BackOff = nil, nil, nil
	s.Categorical, s.Numeric = slices.Clone(s.Categorical), slices.Clone(s.Numeric)
	roles := []string{s.Label.Column, s.Weight, s.Group, s.Split.Key, s.Split.Column, s.Encodings.Order.Column,
		s.Label.At}

	// A column's kind depends on tonight's values, unless it is set.
	kinds := kindsOf(old)
	stated := map[string]bool{}
	for _, name := range slices.Concat(roles, s.Drop, s.Categorical, s.Numeric) {
		stated[name] = true
	}
	for _, c := range t.Columns() {
		if stated[c.Name] {
			continue
		}
		switch kinds[c.Name] {
		case dataset.Categorical:
			s.Categorical = append(s.Categorical, c.Name)
		case dataset.Numeric:
			s.Numeric = append(s.Numeric, c.Name)
		}
	}

	for i := range old.Features {
		if d := old.Features[i].From; d != nil && d.What == dataset.DeriveLevels {
			if s.Encodings.Columns == nil {
				s.Encodings.Columns = map[string]dataset.ColumnEncodings{}
			}
			s.Encodings.Columns[d.Of[0].Column] = dataset.ColumnEncodings{dataset.EncodeLevels}
		}
	}
	return &s
}

// kindsOf returns the kind by which each of a dataset's columns was read.
func kindsOf(manifest *dataset.Manifest) map[string]dataset.Kind {
	kinds := map[string]dataset.Kind{}
	for i := range manifest.Tables {
		for _, p := range manifest.Tables[i].Of {
			kinds[p.Column] = p.Kind
		}
	}
	for i := range manifest.Features {
		if f := &manifest.Features[i]; f.From == nil {
			kinds[f.Name] = f.Kind
		}
	}
	return kinds
}

// ofColumns returns, by name, the features of a dataset that are columns or derived from a row's time.
func ofColumns(manifest *dataset.Manifest) map[string]*dataset.Feature {
	out := map[string]*dataset.Feature{}
	for i := range manifest.Features {
		if f := &manifest.Features[i]; f.From == nil || f.From.Table < 0 && f.From.What != dataset.DeriveLevels {
			out[f.Name] = f
		}
	}
	return out
}

// follow copies the design of another dataset.
func (p *designer) follow(old *dataset.Manifest) error {
	name := old.Name + "@" + old.Version
	known, columns := kindsOf(old), ofColumns(old)
	for i := range p.columns {
		c := &p.columns[i]
		if was := columns[c.Name]; was != nil && (was.From == nil) == (c.from.from == nil) {
			p.out.features = append(p.out.features, c.number)
			p.tellAsItIs(c, "as in "+name)
		} else if known[c.Name] == "" && !c.from.auto {
			p.warn(c.Name, "the column is not used as a feature, because dataset %s, which this one is made like, "+
				"does not use it", name)
		}
	}

	for number := range old.Tables {
		if err := p.followTable(old, number); err != nil {
			return err
		}
	}
	if len(p.out.keys) > 0 {
		p.out.copies = p.copies()
		p.warnOfScale(old)
	}
	return nil
}

// followTable makes a table like the one with that number in another dataset, and the features made of it.
func (p *designer) followTable(old *dataset.Manifest, number int) error {
	was := &old.Tables[number]
	key := encode.Key{BackOff: was.BackOff, Strength: was.Strength, Bounds: map[dataset.Derivation][]float64{}}
	for _, part := range was.Of {
		place, ok := p.survey.roles.places[part.Column]
		if !ok {
			return p.survey.spec.Errorf("encodings.like",
				"column %q is not in the table, or has another role, but dataset %s@%s has statistics of it",
				part.Column, old.Name, old.Version)
		}
		key.Parts = append(key.Parts, p.addReader(part, place, p.maxLevels(&part)))
	}

	if was.Class > 0 {
		class := old.Label.Classes[was.Class-1]
		if key.Class = 1 + slices.Index(p.survey.labels.info.Classes, class); key.Class == 0 {
			return p.survey.spec.Errorf("encodings.like", "no label is %.60q, of which dataset %s@%s has rates", class,
				old.Name, old.Version)
		}
	}

	table := dataset.LevelTable{Of: was.Of, Class: key.Class, Floor: 1, Strength: was.Strength, BackOff: was.BackOff,
		Recency: was.Recency}
	info := dataset.EncodingInfo{Name: table.Name(), Why: fmt.Sprintf("as in %s@%s", old.Name, old.Version)}
	for i := range old.Features {
		f := &old.Features[i]
		if f.From == nil || f.From.Table != number {
			continue
		}
		switch f.From.What {
		case dataset.DeriveRate:
			key.Rate = true
		case dataset.DeriveCount:
			key.Count = true
		case dataset.DeriveRecency:
			key.Recency = true
		}
		key.Bounds[f.From.What] = f.Bounds
		info.Made = append(info.Made, f.Name)
	}

	if was.Recency && p.survey.spec.OrderBy() != dataset.OrderTime {
		return p.survey.spec.Errorf("encodings.like",
			"dataset %s@%s has the feature recency, which needs an order by time: give a split by time, or "+
				"encodings.order.column",
			old.Name, old.Version)
	}
	key.Recency = was.Recency
	p.out.keys, p.out.tables = append(p.out.keys, key), append(p.out.tables, table)
	p.tell(number, info)
	return nil
}

// maxLevels is the most values that a part can have; 0 if unknown.
func (p *designer) maxLevels(part *dataset.Part) int {
	if len(part.Bounds) > 0 {
		return len(part.Bounds) + 2 // ranges, and missing values
	}
	at, ok := p.byName[part.Column]
	if !ok || part.Kind != dataset.Categorical || p.columns[at].from.from != nil {
		return 0
	}
	return p.columns[at].exact
}

// maxScale is the ratio of train rows, either way, up to which counts remain comparable.
const maxScale = 2

// warnOfScale warns if statistics cover many more rows than those of the other dataset, or many fewer.
func (p *designer) warnOfScale(old *dataset.Manifest) {
	was, is := old.Splits[0].Rows/old.Copies(), int(p.survey.counts[0])
	if is <= maxScale*was && was <= maxScale*is {
		return
	}
	p.out.warnings = append(p.out.warnings, dataset.Warning{Code: WarnScale,
		Text: fmt.Sprintf("train has %d rows, but %d in dataset %s@%s, which this one is made like: counts are on "+
			"another scale, and rates are of other numbers of rows; "+
			"continue a model on about as many rows as it was trained on", is, was, old.Name, old.Version)})
}

// likeBounds returns another dataset's bounds, limited to one fewer than the allowed bins.
func likeBounds(bounds []float64, bins int) []float64 {
	return slices.Clone(bounds[:min(len(bounds), max(bins-1, 0))])
}

// likeColumns gives columns of numbers the bins that they have in another dataset.
func (s *survey) likeColumns(old *dataset.Manifest) {
	columns := ofColumns(old)
	maps.DeleteFunc(columns, func(_ string, f *dataset.Feature) bool { return f.Kind == dataset.Categorical })
	for _, c := range s.columns {
		c.like = columns[c.feature.column.Name]
	}
}
