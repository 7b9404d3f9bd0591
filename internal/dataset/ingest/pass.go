package ingest

import (
	"context"
	"errors"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/segment"
	"coppice/internal/dataset/table"
)

// pass is the second pass over a table. Every row is binned and written to its place in its split. writeFiles runs it;
// all other methods are steps of that.
type pass struct {
	survey     *survey
	m          *dataset.Manifest
	w          *dataset.Writer
	columns    []int // by encoder, the column's index in a batch
	encoders   []*cell.ColumnEncoder
	statistics *statistics // nil if there are none
	sample     *sampleTaker
	night      *nightTaker
	segments   *segment.Counter       // nil without a witness
	groups     dataset.SplitsOfGroups // which splits each group has rows in

	learnt  [dataset.MaxClasses]bool // by class, whether a row of train has it
	splits  [4]*splitPart            // by index in dataset.SplitNames; nil if the split has no rows
	labels  []float32                // of the current batch
	bins    [][]uint8                // by feature, of the current batch
	buffers [][]float64              // by feature, memory that its encoder uses again
	errs    []error                  // by feature
}

// splitPart holds the rows of one split, mainly those of the current batch.
type splitPart struct {
	name    string
	rows    int             // of the whole split, without copies
	next    int             // rows of the split in earlier batches
	places  []int32         // where its rows are in the batch, ascending
	targets dataset.Targets // of its rows in the batch
	total   float64         // of labels
	lost    float64         // rounding error of total
	weighed bool            // some row has a weight above 0; set only if rows have weights
	columns [][]uint8       // bins by feature, for the rows in the batch
	mine    [][]uint8       // memory of columns; unused while all rows of a batch are in the split
	rowBins []uint8         // the same bins row by row, [rows x features]
}

// newPass prepares the second pass over the table: an encoder for each column that becomes a feature, the splits that
// have rows, and what samples rows on the way. The caller sets p.statistics if the design has some. A nil witness
// counts no segments.
func newPass(survey *survey, manifest *dataset.Manifest, writer *dataset.Writer, design *design,
	witness segment.Scorer) *pass {
	n := len(design.columns)
	p := &pass{survey: survey, m: manifest, w: writer, columns: design.columns, bins: make([][]uint8, n),
		buffers: make([][]float64, n), errs: make([]error, n), groups: dataset.SplitsOfGroups{}}

	for i := range n {
		p.encoders = append(p.encoders, cell.NewColumnEncoder(&manifest.Features[i],
			survey.tokensOf(manifest.Features[i].From)))
	}

	for i, name := range dataset.SplitNames() {
		if rows := manifest.TableRows(name); rows > 0 {
			p.splits[i] = &splitPart{name: name, rows: rows, columns: make([][]uint8, n), mine: make([][]uint8, n)}
		}
	}

	p.sample = newSampleTaker(survey, manifest)
	p.night = newNightTaker(survey, manifest)
	p.segments = segment.NewCounter(witness, survey.roles.read, survey.roles.label, manifest.Features[:n],
		manifest.Label.Classes, survey.spec.Missing, survey.rows)
	return p
}

// writeFiles reads the table again and writes all files of the dataset except the manifest. It completes the manifest
// with what only this pass knows: the mean labels and what the statistics say. A table that has other rows than in the
// first pass is an error, and so are rows of train that all have the same binary label, and a split other than calib
// whose rows all have the weight 0. The encoders and bins cannot be used afterwards.
func (p *pass) writeFiles(ctx context.Context, options Options) error {
	s := p.survey
	if err := s.source.eachBatch(ctx, false, p.writeBatch, options.progress(PhaseWrite)); err != nil {
		return err
	}

	// Each split must have got the rows that the first pass counted.
	for i := range p.m.Splits {
		split := &p.m.Splits[i]
		part := p.partNamed(split.Name)
		if part.next != part.rows {
			return p.changed()
		}
		// Only calibration copes with rows that do not count: it leaves scores as they are.
		if p.m.HasWeights() && !part.weighed && split.Name != dataset.CalibSplit {
			return s.spec.Errorf("weight", "column %q is 0 in all %d rows of %s, so that none of them counts: split "+
				"differently, or leave weight out", p.m.Weight, part.rows, split.Name)
		}
		// lost is what rounding took from total (addLabel).
		split.LabelMean = (part.total + part.lost) / float64(part.rows)
	}

	if err := p.checkTrain(); err != nil {
		return err
	}

	// Statistics need all rows of train, so they are made now.
	if p.statistics != nil {
		if err := p.statistics.finish(ctx, p.w, options); err != nil {
			return err
		}
	}

	// Free what is not needed any more: the night of a wide table needs that memory.
	p.encoders, p.bins, p.buffers, p.splits = nil, nil, nil, [4]*splitPart{}
	return p.w.WriteSample(ctx, p.sample.finish())
}

// partNamed returns the rows of the named split, nil if it has none. A split of the manifest always has some.
func (p *pass) partNamed(name string) *splitPart {
	for _, part := range p.splits {
		if part != nil && part.name == name {
			return part
		}
	}
	return nil
}

// changed returns the error that the table is another one than in the first pass.
func (p *pass) changed() error {
	return &table.InputError{File: p.survey.source.table.URI(),
		Msg: "the table changed while it was read; stage it again"}
}

// checkTrain returns an error if the label is binary and all rows of train have the same one. It is called after the
// rows have been written, when their mean is known.
func (p *pass) checkTrain() error {
	train := p.m.Splits[0]
	if p.m.Label.Kind == dataset.Binary && (train.LabelMean == 0 || train.LabelMean == 1) {
		return p.survey.spec.Errorf("split",
			"all %d rows of train have the label %v: there is nothing to learn; split differently", train.Rows,
			train.LabelMean)
	}
	return nil
}

// writeBatch writes one batch into the files: first the bins by column, in parallel, then the rows of each split. It
// also passes the batch on to the samples, to the night and to the statistics.
func (p *pass) writeBatch(batch *table.Batch) error {
	s := p.survey
	// Which rows go to which split, and the bins of every feature.
	if err := p.dealRows(batch); err != nil {
		return err
	}
	dataset.Parallel(s.threads, len(p.encoders), func(i int) {
		p.errs[i] = p.writeColumn(batch, i)
	})
	for i, err := range p.errs {
		if err != nil {
			return placeError(batch, p.m.Features[i].Name, err)
		}
	}

	// What else is taken from the batch.
	p.sample.takeAll(batch, s.threads)
	p.night.addBatch(batch, p.labels, p.splits[:], s.threads)
	p.segments.Add(batch.Columns, p.bins, p.labels, s.threads)
	if p.statistics != nil {
		if err := p.statistics.observe(batch); err != nil {
			return err
		}
	}

	// Write the rows of each split. number counts the splits that have rows, as the manifest lists only those.
	number := 0
	for _, part := range p.splits {
		if part == nil {
			continue
		}
		if len(part.places) > 0 {
			if err := p.writePart(part, number); err != nil {
				return err
			}
		}
		number++
	}
	return nil
}

// placeError adds file and row to an encoder's error about a value, as the first pass accepted all values. Other errors
// are returned as they are.
func placeError(batch *table.Batch, column string, err error) error {
	var value *cell.ValueError
	if errors.As(err, &value) {
		return batch.ErrorAt(value.At, column, "%s; the table changed while it was read", value.Msg)
	}
	return err
}

// dealRows assigns every row of a batch to its split, and sets the places and targets (label, weight, group and fold)
// of each part. It also sums labels, notes the classes of train and the splits of each group, and chooses rows of the
// sample. A row that does not fit into its split means that the table has changed.
func (p *pass) dealRows(batch *table.Batch) error {
	s := p.survey
	p.forgetBatch()

	// Decode the columns that have a role; column returns nil for a role that no column has.
	column := func(place int) *dataset.Values {
		if place < 0 {
			return nil
		}
		return &batch.Columns[place]
	}
	label, group, split := column(s.roles.label), column(s.roles.group), column(s.roles.split)
	weights, values, err := s.weights(batch)
	if err != nil {
		return err
	}
	p.labels = dataset.Resize(p.labels, batch.Rows)
	if err := s.labels.decodeAll(batch, label, p.labels); err != nil {
		return err
	}

	// Put each row into its split.
	for i, y := range p.labels {
		where, key, err := s.splitter.chooseSplit(batch, split, i)
		if err != nil {
			return err
		}

		part := p.splits[where]
		if part == nil || part.next+len(part.places) >= part.rows {
			return p.changed()
		}
		fold, groupHash := s.splitter.foldOf(batch, i, where, key, split, group)
		part.places = append(part.places, int32(i))
		part.targets.Label = append(part.targets.Label, y)
		part.targets.Fold = append(part.targets.Fold, fold)

		if p.m.HasWeights() {
			w := float32(1)
			if weights != nil {
				w = weights[i]
			}
			w = p.weightOf(where, y, w)
			part.targets.Weight = append(part.targets.Weight, w)
			part.weighed = part.weighed || w > 0
		}
		if group != nil {
			part.targets.Group = append(part.targets.Group, groupHash)
			// A split by the group itself cannot divide one.
			if s.spec.Split.Key != p.m.Group {
				p.groups.Add(groupHash, where)
			}
		}

		part.addLabel(float64(y))
		if where == 0 && p.m.Label.Kind == dataset.Classes {
			p.learnt[int(y)] = true
		}
	}

	// The other values are taken from their columns at once.
	for _, part := range p.splits {
		for i, name := range p.m.Values {
			if part != nil {
				part.targets.Values[name] = dataset.PickInto(values[i], part.places, nil)
			}
		}
	}
	if part := p.partNamed(p.sample.split); part != nil {
		p.sample.choose(part)
	}
	return nil
}

// forgetBatch empties the parts of the last batch, but keeps their memory.
func (p *pass) forgetBatch() {
	for _, part := range p.splits {
		if part != nil {
			part.places = part.places[:0]
			part.targets = dataset.Targets{Label: part.targets.Label[:0], Weight: part.targets.Weight[:0],
				Group: part.targets.Group[:0], Fold: part.targets.Fold[:0], Values: map[string][]float32{}}
		}
	}
}

// weightOf returns the weight of a row with the given label. Outside train, a negative row is heavier if sampling left
// out others (sample.negatives): it stands for them, so that means over the split are right. Models learn from the rows
// of train as they are.
func (p *pass) weightOf(split uint8, label, weight float32) float32 {
	if p.m.Negatives > 0 && split > 0 && label == 0 {
		return float32(float64(weight) / p.m.Negatives)
	}
	return weight
}

// addLabel adds a label to the split's total, with compensated rounding (Neumaier, 1974): lost holds what rounding took
// from total. Rows are added in the table's order, so the mean does not depend on batches or threads.
func (s *splitPart) addLabel(y float64) {
	sum := s.total + y
	if abs(s.total) >= abs(y) {
		s.lost += (s.total - sum) + y
	} else {
		s.lost += (y - sum) + s.total
	}
	s.total = sum
}

func abs(value float64) float64 { return max(value, -value) }

// writeColumn bins one feature of a batch and writes it into that feature's column in every split. Several features may
// be written at once.
func (p *pass) writeColumn(batch *table.Batch, feature int) error {
	raw := &batch.Columns[p.columns[feature]]
	bins := dataset.Resize(p.bins[feature], batch.Rows)
	p.bins[feature] = bins

	var err error
	if p.buffers[feature], err = p.encoders[feature].Bins(raw, bins, p.buffers[feature]); err != nil {
		return err
	}

	// If the whole batch is in one split, its bins need no copying.
	for _, part := range p.splits {
		if part == nil || len(part.places) == 0 {
			continue
		}

		column := bins
		if len(part.places) < batch.Rows {
			column = dataset.PickInto(bins, part.places, part.mine[feature])
			part.mine[feature] = column
		}

		part.columns[feature] = column
		if err := p.w.WriteColumn(part.name, feature, part.next, column); err != nil {
			return fmt.Errorf("write feature %q: %w", p.m.Features[feature].Name, err)
		}
	}
	return nil
}

// tileRows is how many rows are transposed at a time: a tile of some hundred features stays in the first-level cache.
const tileRows = 128

// writePart writes the targets of the batch's rows of one split, and their features row by row. With statistics,
// features are complete only after the pass; until then the rows wait in p.statistics. number is the split's index in
// the manifest.
func (p *pass) writePart(part *splitPart, number int) error {
	n := len(part.places)
	if p.statistics == nil {
		if err := p.writeRows(part); err != nil {
			return err
		}
	} else if err := p.statistics.addBatch(number, part); err != nil {
		return err
	}

	// The targets are the same in each copy of train.
	copies := 1
	if part == p.splits[0] {
		copies = p.m.Copies()
	}
	for copied := range copies {
		if err := p.w.WriteTargets(part.name, copied*part.rows+part.next, part.targets); err != nil {
			return err
		}
	}

	part.next += n
	return nil
}

// writeRows writes the features of the batch's rows of one split, row by row. It transposes columns, tile by tile.
func (p *pass) writeRows(part *splitPart) error {
	width, n := len(p.bins), len(part.places)
	part.rowBins = dataset.Resize(part.rowBins, n*width)
	dataset.Parallel(p.survey.threads, (n+tileRows-1)/tileRows, func(tile int) {
		from := tile * tileRows
		transpose(part.columns, from, min(n-from, tileRows), part.rowBins[from*width:])
	})
	return p.w.WriteRows(part.name, part.next, part.rowBins)
}

// transpose writes rows number from to from+rows-1 of the columns to out, row by row: the value of row from+r in column
// j goes to out[r*len(columns)+j].
func transpose(columns [][]uint8, from, rows int, out []uint8) {
	for j, column := range columns {
		for r, value := range column[from : from+rows] {
			out[r*len(columns)+j] = value
		}
	}
}
