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

// survey is the first pass over a table. It learns what each column holds, how many rows each split gets and what the
// labels are, and draws a sample of train. newSurvey, readTable, describe is the order of calls.
type survey struct {
	spec      *dataset.Spec
	roles     *roles
	threads   int
	labels    *labeler
	splitter  *splitter
	columns   []*columnSurvey
	sampler   sampler
	label     store        // of the sampled rows
	times     store        // of the sampled rows: the column that splits them, if splits are not known yet
	when      store        // of the sampled rows: the time that orders statistics, if it is not the split's
	order     *clock       // of all rows: the same time
	orderType dataset.Type // of the column that orders statistics; empty before the first rows
	numbers   []int64      // of the sampled rows: their numbers in the table
	groups    []uint64     // of the sampled rows: the hash of what keeps rows together; nil if nothing does
	chosen    []chosen     // of the current batch
	markers   *cell.Markers
	ripe      *ripener // nil if every label is final
	source    *cleanRows
	reading   *Reading

	binRows int      // most rows of train to make bins from
	rows    int64    // rows with a label
	counts  [4]int64 // by split
}

// oversample is the factor by which more rows are sampled if it is not yet known which of them are train. A smaller
// share of train than a quarter gets a smaller sample.
const oversample = 4

// newSurvey prepares the first pass over table t. The sample has fewer rows if there are many columns (see rowsOf).
func newSurvey(spec *dataset.Spec, t *table.Table, roles *roles, markers *cell.Markers, threads int) *survey {
	s := &survey{spec: spec, roles: roles, threads: threads, markers: markers,
		labels: newLabeler(spec, cell.NewMarkers(spec.LabelMissing())), ripe: newRipener(spec, roles, markers)}
	s.splitter = newSplitter(spec, markers, s.labels)
	s.source = &cleanRows{table: t, roles: roles, labels: s.labels, ripe: s.ripe}
	for _, f := range roles.features {
		s.columns = append(s.columns, newColumnSurvey(f, s.tokensOf(f.from)))
	}

	// Statistics may be ordered by another time than the split's, which then has to be counted, too.
	splitsByIt := s.splitter.by == dataset.SplitByTime && roles.order == roles.split
	if roles.order >= 0 && !splitsByIt && spec.OrderBy() == dataset.OrderTime {
		s.order = &clock{column: spec.TimeColumn(), markers: markers, asTime: newAxis(minTimeBuckets),
			asNumber: newAxis(minTimeBuckets)}
	}

	// How many rows to sample.
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

// rowsOf returns how many rows are sampled. rows is what the spec says: any number but the default is taken as it is.
// The default number is lowered so that a sample of so many columns has at most cells values.
func rowsOf(rows, byDefault, columns, cells int) int {
	if rows != byDefault {
		return rows
	}
	return min(rows, cells/max(columns, 1))
}

// tokensOf returns the markers of missing values that apply to a feature. from is nil for a column of the table;
// numbers derived from others have only some of them.
func (s *survey) tokensOf(from *dataset.Derived) *cell.Markers {
	if from == nil || from.What == dataset.DeriveLevels {
		return s.markers
	}
	return s.markers.OfDerived()
}

// readTable reads the whole table once, and afterwards settles what the labels are and how rows are split. A table
// without rows to learn from is an input error. progress may be nil.
func (s *survey) readTable(ctx context.Context, progress func(done, total int64)) error {
	if err := s.ripe.resolve(ctx, s.source.table, progress); err != nil {
		return err
	}
	if err := s.source.eachBatch(ctx, true, s.observeBatch, progress); err != nil {
		return err
	}
	if s.rows == 0 {
		msg := "the table has no rows"
		switch matures := time.Duration(s.spec.Label.Matures); {
		case s.labels.thinned > 0:
			msg = "no row is left: all final labels are negative, and sample.negatives leaves out all of their rows"
		case s.ripe.anyLeft() && s.labels.missing > 0:
			msg = fmt.Sprintf("no row has a final label: %d rows are younger than label.matures, %v, and in all "+
				"others the label is missing", s.ripe.left, matures)
		case s.ripe.anyLeft():
			msg = fmt.Sprintf("no label is final: no row is as old as label.matures, %v", matures)
		case s.labels.missing > 0:
			msg = "the label is missing in every row"
		}
		return &table.InputError{File: s.source.table.URI(), Msg: msg}
	}

	if err := s.labels.resolve(); err != nil {
		return err
	}
	return s.splitter.resolve(&s.counts)
}

// observeBatch adds a batch to the survey. It checks times, weights and values, of which an error names the row, finds
// each row's split, and takes the sample.
func (s *survey) observeBatch(batch *table.Batch) error {
	// The time that orders statistics.
	if s.roles.order >= 0 && s.orderType == "" {
		s.orderType = batch.Columns[s.roles.order].Type
	}
	if s.order != nil {
		if err := s.order.observe(batch, &batch.Columns[s.roles.order]); err != nil {
			return err
		}
	}

	// Weights and values are needed in the second pass, but it is better to fail now.
	s.rows += int64(batch.Rows)
	if _, _, err := s.weights(batch); err != nil {
		return err
	}

	// The split of each row, if it is known yet.
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

// takeSample chooses rows of a batch for the sample of train, counts the rows of each split, and shows the whole batch
// to every column. splits has the split of each row. It is nil if they are not known yet: then any row may be train,
// and the sample also keeps the value by which rows are split, from the column split.
func (s *survey) takeSample(batch *table.Batch, splits []uint8, split *dataset.Values) {
	sample := s.chosen[:0]
	for i := range batch.Rows {
		if splits != nil {
			s.counts[splits[i]]++
			if splits[i] != 0 { // only train is sampled
				continue
			}
		}

		if slot, ok := s.sampler.offerRow(batch.Row(i)); ok {
			sample = append(sample, chosen{i, slot})
			s.numbers = stretch(s.numbers, slot+1, s.sampler.slots())
			s.numbers[slot] = batch.Row(i)
		}
	}

	// Copy what the survey itself needs of the chosen rows.
	s.chosen = sample
	s.observeGroups(batch, sample)
	s.label.copyChosen(&batch.Columns[s.roles.label], sample)
	if splits == nil {
		s.times.copyChosen(split, sample)
	}
	if s.order != nil {
		s.when.copyChosen(&batch.Columns[s.roles.order], sample)
	}

	// Every column sees all rows, and keeps its values of the chosen ones.
	dataset.Parallel(s.threads, len(s.columns), func(i int) {
		s.columns[i].observe(batch, &batch.Columns[s.columns[i].feature.place], sample)
	})
}

// observeGroups stores, for each chosen row, the hash of what keeps it together with others: the key of a split by
// hash, or else the group. If statistics are ordered by group, the group is taken in any case.
func (s *survey) observeGroups(batch *table.Batch, sample []chosen) {
	place, keys := s.roles.group, s.splitter.groups // a copy: the splitter itself counts each missing key once
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

// trainSample is the sampled rows of train, in the order of their hashes. All slices are parallel.
type trainSample struct {
	places  []int32 // slots of the rows in the columns' stores
	labels  []float32
	folds   []uint8   // for detecting leaks
	times   []float64 // that order statistics; nil unless they are ordered by time
	groups  []uint64  // the hash of what keeps rows together; nil if nothing does
	binary  bool      // labels are 0 and 1
	classes int       // number of classes; 0 if labels are something else
}

// days returns how many days the sampled rows span, by the times that order statistics; 0 without those.
func (t *trainSample) days() float64 {
	if len(t.times) == 0 {
		return 0
	}
	return (slices.Max(t.times) - slices.Min(t.times)) / cell.SecondsPerDay
}

// selectTrain determines which of the sampled rows are train, at most s.binRows of them. It is called once, after
// readTable, as it gives away the sample's labels and times.
func (s *survey) selectTrain() (*trainSample, error) {
	n := s.sampler.used()
	label := s.label.finish(n)
	times := s.times.finish(n)
	out := &trainSample{binary: s.labels.info.Kind == dataset.Binary,
		classes: len(s.labels.info.Classes)}
	b := &table.Batch{Numbers: s.numbers}

	// Lowest hashes first: a random choice, if there are too many rows.
	for _, slot := range s.sampler.sorted() {
		i := slot.place
		if s.splitter.late() {
			// There is no error, as the first pass has read the same row.
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

	// The times that order statistics, as orderTimes reads them from a batch.
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

// weights returns a batch's weights, nil if the spec has none, and the batch's columns of values (spec.Values). A
// weight below 0, and a missing weight or value, is an error that names the row.
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

// columnOfNumbers returns the column at place in a batch as numbers. A value that is missing, not a number, below least
// or beyond a float32 is an error that names the row; what says in it what the number is, and must what it has to be.
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
