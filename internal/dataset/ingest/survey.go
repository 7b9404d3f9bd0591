package ingest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// survey is the first pass over a table: the contents of columns, the number of rows of each split, and a sample of
// train.
type survey struct {
	spec      *dataset.Spec
	roles     *roles
	threads   int
	labels    *labeler
	splitter  *splitter
	columns   []*columnSurvey
	sampler   sampler
	label     store        // of the sampled rows
	times     store        // of the sampled rows, if the split is by time
	when      store        // of the sampled rows, if another time orders statistics
	order     *clock       // of all rows, if another time than the split's orders statistics
	orderType dataset.Type // of the column that orders statistics; empty before the first rows
	numbers   []int64
	groups    []uint64 // of the sampled rows, the hash that keeps rows together; nil if there is none
	chosen    []chosen // of the current batch
	markers   *cell.Markers
	ripe      *ripener // nil if every label is final
	source    *cleanRows
	reading   *Reading

	binRows int      // most rows of train to make bins from
	rows    int64    // rows with a label
	counts  [4]int64 // by split
}

// oversample is the factor by which more rows are sampled if it is not yet known which of them are train.
const oversample = 4

// newSurvey prepares the first pass: what is observed of each column, the split, and samples whose rows are fewer the
// more columns there are.
func newSurvey(spec *dataset.Spec, t *table.Table, roles *roles, markers *cell.Markers, threads int) *survey {
	s := &survey{spec: spec, roles: roles, threads: threads, markers: markers,
		labels: newLabeler(spec, cell.NewMarkers(spec.LabelMissing())), ripe: newRipener(spec, roles, markers)}
	s.splitter = newSplitter(spec, markers, s.labels)
	s.source = &cleanRows{table: t, roles: roles, labels: s.labels, ripe: s.ripe}
	for _, f := range roles.features {
		s.columns = append(s.columns, newColumnSurvey(f, s.tokensOf(f.from)))
	}

	splitsByIt := s.splitter.by == dataset.SplitByTime && roles.order == roles.split
	if roles.order >= 0 && !splitsByIt && spec.OrderBy() == dataset.OrderTime {
		s.order = &clock{column: spec.TimeColumn(), markers: markers, asTime: newAxis(minTimeBuckets),
			asNumber: newAxis(minTimeBuckets)}
	}

	s.binRows = rowsOf(spec.BinRows, dataset.DefaultBinRows, len(s.columns), binCells)
	size := s.binRows
	if s.splitter.late() {
		size = int(float64(size) * min(oversample, 1/spec.Split.Train.Share))
	}

	s.sampler = newSampler(size)
	for _, c := range s.columns {
		c.sample.room = s.sampler.slots()
	}
	return s
}

// The default numbers of sampled rows are for tables of up to 500 columns. Of wider ones fewer rows are sampled, so
// that memory does not grow with the columns: about as many values as these, of 20 to 30 bytes each while they are
// texts.
const (
	binCells    = 500 * dataset.DefaultBinRows
	nightCells  = 500 * NightRows
	sampleCells = 500 * dataset.DefaultSample
)

// rowsOf is how many rows are sampled where the spec says rows: with a number of its own, that many.
func rowsOf(rows, byDefault, columns, cells int) int {
	if rows != byDefault {
		return rows
	}
	return min(rows, cells/max(columns, 1))
}

// tokensOf returns the markers that apply to a feature's values; from is nil for a column of the table.
func (s *survey) tokensOf(from *dataset.Derived) *cell.Markers {
	if from == nil || from.What == dataset.DeriveLevels {
		return s.markers
	}
	return s.markers.OfDerived()
}

// readTable reads the whole table once and settles labels and splits. A table without rows to learn from is an input
// error.
func (s *survey) readTable(ctx context.Context, progress func(done, total int64)) error {
	if err := s.ripe.resolve(ctx, s.source.table, progress); err != nil {
		return err
	}
	if err := s.source.eachBatch(ctx, true, s.observeBatch, progress); err != nil {
		return err
	}
	if s.rows == 0 {
		msg := "the table has no rows"
		switch {
		case s.labels.missing > 0:
			msg = "the label is missing in every row"
		case s.ripe.all(s.rows):
			msg = fmt.Sprintf("no label is final: no row is as old as label.matures, %v",
				time.Duration(s.spec.Label.Matures))
		}
		return &table.InputError{File: s.source.table.URI(), Msg: msg}
	}

	if err := s.labels.resolve(); err != nil {
		return err
	}
	return s.splitter.resolve(&s.counts)
}

// observeBatch counts a batch's rows by time, weight and split and samples some, which columns are judged by. An error
// names the row.
func (s *survey) observeBatch(batch *table.Batch) error {
	if s.roles.order >= 0 && s.orderType == "" {
		s.orderType = batch.Columns[s.roles.order].Type
	}
	if s.order != nil {
		if err := s.order.observe(batch, &batch.Columns[s.roles.order]); err != nil {
			return err
		}
	}

	s.rows += int64(batch.Rows)

	if _, _, err := s.weights(batch); err != nil {
		return err
	}

	var split *dataset.Values
	if s.roles.split >= 0 {
		split = &batch.Columns[s.roles.split]
	}
	splits, err := s.splitter.observe(batch, split)
	if err != nil {
		return err
	}
	s.takeSample(batch, splits, split)
	return nil
}

// takeSample adds rows of a batch to the sample of train, and shows all of them to the columns. splits is nil if not
// known yet: then any row may be train, and its value of the split's column is kept.
func (s *survey) takeSample(batch *table.Batch, splits []uint8, split *dataset.Values) {
	sample := s.chosen[:0]
	for i := range batch.Rows {
		if splits != nil {
			s.counts[splits[i]]++
			if splits[i] != 0 {
				continue
			}
		}

		if slot, ok := s.sampler.offerRow(batch.Row(i)); ok {
			sample = append(sample, chosen{i, slot})
			s.numbers = stretch(s.numbers, slot+1, s.sampler.slots())
			s.numbers[slot] = batch.Row(i)
		}
	}

	s.chosen = sample
	s.observeGroups(batch, sample)
	s.label.copyChosen(&batch.Columns[s.roles.label], sample)
	if splits == nil {
		s.times.copyChosen(split, sample)
	}
	if s.order != nil {
		s.when.copyChosen(&batch.Columns[s.roles.order], sample)
	}

	dataset.Parallel(s.threads, len(s.columns), func(i int) {
		s.columns[i].observe(batch, &batch.Columns[s.columns[i].feature.place], sample)
	})
}

// observeGroups stores what keeps the chosen rows together: the key of a split by hash, or else the group, which goes
// first where it orders statistics.
func (s *survey) observeGroups(batch *table.Batch, sample []chosen) {
	place, keys := s.roles.group, s.splitter.groups // copies, so that missing keys are counted once
	if s.splitter.by == dataset.SplitByHash && s.roles.split >= 0 && s.spec.OrderBy() != dataset.OrderGroup {
		place, keys = s.roles.split, s.splitter.keys
	}
	if place < 0 {
		return
	}

	for _, c := range sample {
		s.groups = stretch(s.groups, c.slot+1, s.sampler.slots())
		s.groups[c.slot] = keys.Hash(&batch.Columns[place], c.row, batch.Row(c.row))
	}
}

// trainSample is the sampled rows of train: their slots, labels, and folds for detecting leaks.
type trainSample struct {
	places []int32
	labels []float32
	folds  []uint8
	times  []float64 // that order statistics, if they are ordered by time
	groups []uint64  // by row, the hash that keeps rows together; nil if there is none
	binary bool      // labels are 0 and 1
	// number of classes; 0 if labels are something else
	classes int
}

// days is how many days the sampled rows span.
func (t *trainSample) days() float64 {
	if len(t.times) == 0 {
		return 0
	}
	return (slices.Max(t.times) - slices.Min(t.times)) / cell.SecondsPerDay
}

// selectTrain determines which of the sampled rows are train, and frees the others.
func (s *survey) selectTrain() (*trainSample, error) {
	n := s.sampler.used()
	label := s.label.finish(n)
	times := s.times.finish(n)
	out := &trainSample{binary: s.labels.info.Kind == dataset.Binary,
		classes: len(s.labels.info.Classes)}
	b := &table.Batch{Numbers: s.numbers}
	for _, slot := range s.sampler.sorted() {
		i := slot.place
		if s.splitter.late() {
			if split, _, err := s.splitter.chooseSplit(b, &times, i); err != nil || split != 0 {
				continue
			}
		}
		if len(out.places) == s.binRows {
			break
		}
		y, err := s.labels.decode(b, &label, i)
		if err != nil {
			return nil, err
		}
		out.places = append(out.places, int32(i))
		out.folds = append(out.folds, leakFold(s.numbers[i]))
		if s.groups != nil {
			out.groups = append(out.groups, s.groups[i])
		}
		out.labels = append(out.labels, y)
	}
	if s.spec.OrderBy() != dataset.OrderTime {
		return out, nil
	}

	by := &times
	if s.order != nil {
		when := s.when.finish(n)
		by = &when
	}
	place := s.roles.order
	ordered := &table.Batch{Columns: make([]dataset.Values, place+1), Rows: len(out.places), Numbers: s.numbers}
	ordered.Columns[place] = by.Pick(out.places)
	var err error
	out.times, err = s.orderTimes(ordered, nil)
	return out, err
}

// weights returns a batch's weights, nil if the spec has none, and its columns of values.
func (s *survey) weights(batch *table.Batch) (weights []float32, values [][]float32, err error) {
	if s.roles.weight >= 0 {
		weights, err = s.columnOfNumbers(batch, s.roles.weight, "weight", "a number from 0 up", 0)
	}
	for _, place := range s.roles.values {
		if err != nil {
			return nil, nil, err
		}
		var v []float32
		v, err = s.columnOfNumbers(batch, place, "value", "a number in every row, as values: lists the column; "+
			"fill it, or leave the row out", math.Inf(-1))
		values = append(values, v)
	}
	return weights, values, err
}

// columnOfNumbers returns a column's numbers in a batch, none of which may be missing or below least.
func (s *survey) columnOfNumbers(batch *table.Batch, place int, what, must string, least float64) ([]float32, error) {
	v := &batch.Columns[place]
	out := make([]float32, batch.Rows)
	for i := range out {
		x, ok := parseNumber(v, i)
		missing := cell.Missing(v, i, s.labels.markers)
		if missing || !ok || !(x >= least) || !dataset.Finite(float64(float32(x))) {
			text := "missing"
			if !missing {
				text = v.TextOf(i)
			}
			return nil, batch.ErrorAt(i, s.roles.read[place], "the %s is %.40s; it must be %s", what, text, must)
		}
		out[i] = float32(x)
	}
	return out, nil
}
