package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// statistics makes the features that are statistics of ids. During the second pass observe and addBatch hand it all
// rows; after it, finish makes the statistics and writes them. close removes temporary files, whatever has happened.
type statistics struct {
	survey    *survey
	m         *dataset.Manifest
	d         *design
	maker     *encode.Maker
	final     *encode.Maker // of the rows of all splits, as if they were of train; nil unless the spec wants it
	finalKeys []encode.Key
	first     int // index of the first feature that is a statistic

	// A part (dataset.Part) is what one column contributes to the levels of keys: its value, or the range of its
	// number.
	file   string              // of the current batch, for errors
	hashes [][]uint64          // [parts][rows] of the current batch: what each row has as the part
	times  []float64           // of the current batch
	errs   []error             // by part
	rows   encode.LabelledRows // of one split in the current batch

	all     [][]uint8 // by feature, the bins of the rows that assemble writes
	rowBins []uint8   // the same bins row by row
}

const (
	// memoryRows is how many bytes of rows are kept in memory before they are spilled to a temporary file.
	memoryRows = 64 << 20
	// boundRows is how many rows of train determine the bin bounds of rates.
	boundRows = 50_000
)

// newStatistics prepares the statistics of the design's keys for the rows of all splits. With encodings.final, it also
// prepares a second set, made from the rows of all splits as if all were train, for the final training. If rows need
// much memory, they are kept in a file next to dir, the dataset's folder.
func newStatistics(survey *survey, manifest *dataset.Manifest, design *design, dir string,
	options Options) *statistics {
	c := encode.Config{Keys: design.keys, Parts: len(design.readers), Few: design.maxLevels,
		Weighted: manifest.Weight != "", Order: *manifest.Order, Levels: survey.spec.Encodings.Levels,
		MaxBins: survey.spec.MaxBin, Dir: filepath.Dir(dir), Memory: memoryRows, Threads: options.Threads,
		Sample: boundRows, Splits: len(manifest.Splits)}

	for _, split := range manifest.Splits {
		c.Rows = append(c.Rows, manifest.TableRows(split.Name))
	}

	// The rows of train are processed in pieces. In an order by time, these end between two times.
	if c.Order.By == dataset.OrderTime {
		c.Cuts = survey.cutTimes(int64(encode.PieceRows(&c)))
	}

	// Features are binned as this package bins other numbers.
	bins := survey.spec.MaxBin
	c.Bounds = func(values []float64) []float64 {
		var count cell.Counter
		all, _ := count.Count(values)
		return cell.FindBounds(all, bins, false)
	}
	c.Assign = func(bounds []float64) func([]float64, []uint8, uint8) {
		search := cell.NewSearcher(bounds)
		return search.Find
	}

	made := &statistics{survey: survey, m: manifest, d: design, maker: encode.NewMaker(c), first: len(design.columns),
		hashes: make([][]uint64, len(design.readers)), errs: make([]error, len(design.readers))}

	// The second set has the rows of all splits in one.
	if survey.spec.Encodings.Final && len(manifest.Splits) > 1 {
		made.finalKeys = slices.Clone(design.keys)
		c.Keys, c.Splits, c.Rows = made.finalKeys, 1, []int{made.rowsBefore(len(manifest.Splits))}
		c.Sample, c.Order.Copies = 0, 1 // bounds are those of the first set; held-out rows have one copy
		made.final = encode.NewMaker(c)
	}
	return made
}

// cutTimes returns ascending times at which the rows can be divided into pieces of at most so many rows. Each cut is
// just below the first time of a piece. The rows of one bucket of times (see axis) are never divided, so a piece has
// more rows if a bucket has.
func (s *survey) cutTimes(pieceRows int64) []float64 {
	a := s.splitter.axis()
	if s.order != nil {
		a = s.order.axis()
	}

	var cuts []float64
	inside := int64(0)
	for _, g := range a.sorted() {
		if inside+g.rows > pieceRows && inside > 0 {
			cuts = append(cuts, math.Nextafter(a.least(g.key), math.Inf(-1)))
			inside = 0
		}
		inside += g.rows
	}

	return cuts
}

// close removes temporary files. An error is ignored: at worst a file stays behind, and the dataset does not need it.
func (s *statistics) close() {
	_ = s.maker.Close()
	if s.final != nil {
		_ = s.final.Close()
	}
}

// observe takes in a batch: it stores, for every part and row, the hash of what the row has as the part (s.hashes), the
// times that order the rows (s.times, unless nothing orders them), and the file's name for errors (s.file). The
// addBatch calls for the same batch use all three. An error names the row of a value that cannot be read.
func (s *statistics) observe(batch *table.Batch) error {
	s.file = batch.File
	dataset.Parallel(s.survey.threads, len(s.d.readers), func(i int) {
		s.hashes[i] = dataset.Resize(s.hashes[i], batch.Rows)
		s.errs[i] = s.d.readers[i].Hashes(&batch.Columns[s.d.places[i]], s.hashes[i])
	})

	for i, err := range s.errs {
		if err != nil {
			return placeError(batch, s.d.readers[i].Part.Column, err)
		}
	}

	if s.survey.roles.order < 0 {
		return nil
	}
	var err error
	s.times, err = s.survey.orderTimes(batch, s.times)
	return err
}

// addBatch passes the rows of one split in the current batch to the makers. number is the split's index in the
// manifest. observe must have seen the batch. The error that a part has more values than the first pass counted says
// that the table has changed.
func (s *statistics) addBatch(number int, part *splitPart) error {
	r := &s.rows
	r.Split, r.First, r.Label, r.Group = number, part.next, part.targets.Label, part.targets.Group

	if s.m.Weight != "" {
		r.Weight = part.targets.Weight
	}
	if s.survey.roles.order >= 0 {
		r.Time = dataset.PickInto(s.times, part.places, r.Time)
	}

	r.Parts = dataset.Resize(r.Parts, len(s.hashes))
	for i, hashes := range s.hashes {
		r.Parts[i] = dataset.PickInto(hashes, part.places, r.Parts[i])
	}

	// The second set has all rows in one split, one after the other.
	err := s.maker.Add(*r)
	if s.final != nil && err == nil {
		r.Split, r.First = 0, s.rowsBefore(number)+r.First
		err = s.final.Add(*r)
	}
	var many *encode.TooManyValuesError
	if errors.As(err, &many) {
		return &table.InputError{File: s.file, Column: s.d.readers[many.Part].Part.Column,
			Msg: fmt.Sprintf("the table changed while it was read: the column had %d values before and has more "+
				"now; stage it again", many.Known)}
	}
	return err
}

// finish makes the statistics and writes everything that depends on them: their columns, all features row by row, and
// the tables of levels. It completes the manifest's features and tables.
func (s *statistics) finish(ctx context.Context, writer *dataset.Writer, options Options) error {
	if err := s.maker.Run(ctx, options.progress(PhaseEncode), func(split, first int, columns [][]uint8) error {
		return s.assemble(writer, split, first, columns)
	}); err != nil {
		return err
	}

	// The bins of the new features.
	for i, made := range s.maker.Features() {
		f := &s.m.Features[s.first+i]
		f.Bounds, f.Bins = made.Bounds, len(made.Bounds)+1
		if made.What != dataset.DeriveRecency { // recency has the same bounds for every table
			f.Range = &dataset.Range{Min: made.Range[0], Median: made.Range[1], Max: made.Range[2]}
		}
		if made.Missing {
			f.MissingBin, f.Bins = f.Bins, f.Bins+1
		}
	}

	// The tables, and how many levels the report says that a column has.
	levels, first, count := s.maker.Tables()
	for i := range s.m.Tables {
		t := &s.m.Tables[i]
		t.First, t.Levels, t.Floor, t.Prior = first[i], count[i], s.maker.Floor(), s.maker.Prior(i)
		for j, table := range s.d.counted {
			e := &s.m.About.Encodings[j]
			switch {
			case table != i: // entry j is not about this table
			case t.Floor == 1: // the table has every level that a row has
				e.Levels = t.Levels - missingLevels(t, levels)
			default: // it has only the frequent ones, and the survey's estimate may be too low as well
				e.Levels = max(e.Levels, t.Levels)
			}
		}
	}
	if levels.Len() > 0 {
		if err := writer.WriteLevels(dataset.LevelsFile, levels); err != nil {
			return err
		}
	}
	return s.finishFinal(ctx, writer, options)
}

// finishFinal makes the second set of statistics, from all rows as if all were train, with the bins of the first set.
// It writes those of the rows that are not train, and the levels. It does nothing if the spec does not ask for the set.
func (s *statistics) finishFinal(ctx context.Context, writer *dataset.Writer, options Options) error {
	if s.final == nil {
		return nil
	}

	// The second set has the bins of the first, since one model reads both.
	for _, made := range s.maker.Features() {
		key := &s.finalKeys[made.Key]
		key.Bounds = maps.Clone(key.Bounds) // the map is that of the first set's key
		if key.Bounds == nil {
			key.Bounds = map[dataset.Derivation][]float64{}
		}
		key.Bounds[made.What] = made.Bounds
	}

	if err := writer.CreateFinal(); err != nil {
		return err
	}
	train, all := s.rowsBefore(1), s.rowsBefore(len(s.m.Splits))
	// write gets rows number first and on of all splits, [statistics][rows], and writes those that are not train.
	write := func(_, first int, columns [][]uint8) error {
		from, to := max(first, train), min(first+len(columns[0]), all)
		if from >= to {
			return nil
		}
		for i := range columns {
			if err := writer.WriteFinal(i, from-train, columns[i][from-first:to-first]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.final.Run(ctx, options.progress(PhaseEncode), write); err != nil {
		return err
	}

	levels, first, count := s.final.Tables()
	s.m.FinalTables = slices.Clone(s.m.Tables)
	for i := range s.m.FinalTables {
		t := &s.m.FinalTables[i]
		t.First, t.Levels, t.Floor, t.Prior = first[i], count[i], s.final.Floor(), s.final.Prior(i)
	}
	if levels.Len() == 0 {
		return nil
	}
	return writer.WriteLevels(dataset.FinalLevelsFile, levels)
}

// rowsBefore returns the number of rows, without copies, in the manifest's splits before the given one.
func (s *statistics) rowsBefore(split int) int {
	n := 0
	for _, info := range s.m.Splits[:split] {
		n += s.m.TableRows(info.Name)
	}
	return n
}

// missingLevels returns 1 if a table of a single column has a level for missing values, otherwise 0.
func missingLevels(t *dataset.LevelTable, levels *dataset.Levels) int {
	if len(t.Of) == 1 {
		if _, ok := levels.Find(t, encode.Join(encode.Level(), encode.Missing())); ok {
			return 1
		}
	}
	return 0
}

// assemble completes some rows of a split, from row number first on. columns has the bins of their statistics,
// [statistics][rows], at least one. It writes these into the features' columns, and all features row by row. The other
// features are read back from their columns, which the second pass wrote for the first copy of each row. For further
// copies of train, assemble writes them, too.
func (s *statistics) assemble(writer *dataset.Writer, split, first int, columns [][]uint8) error {
	info := s.m.Splits[split]
	rows, distinctRows := len(columns[0]), s.m.TableRows(info.Name)

	// The bins of all features: some are given, the others are read. A range of rows may go over the end of a copy;
	// then it continues at the first row.
	all := dataset.Resize(s.all, len(s.m.Features))
	s.all = all
	errs := make([]error, len(all))
	dataset.Parallel(s.survey.threads, len(all), func(i int) {
		if i >= s.first {
			all[i] = columns[i-s.first]
			errs[i] = writer.WriteColumn(info.Name, i, first, all[i])
			return
		}
		all[i] = dataset.Resize(all[i], rows)
		for done := 0; done < rows && errs[i] == nil; {
			from := (first + done) % distinctRows
			n := min(rows-done, distinctRows-from)
			errs[i] = writer.ReadColumn(info.Name, i, from, all[i][done:done+n])
			done += n
		}
		if errs[i] == nil && first+rows > distinctRows {
			errs[i] = writer.WriteColumn(info.Name, i, first, all[i])
		}
	})
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("write feature %q: %w", s.m.Features[i].Name, err)
		}
	}

	// The same row by row.
	s.rowBins = dataset.Resize(s.rowBins, rows*len(all))
	dataset.Parallel(s.survey.threads, (rows+tileRows-1)/tileRows, func(tile int) {
		from := tile * tileRows
		transpose(all, from, min(rows-from, tileRows), s.rowBins[from*len(all):])
	})
	return writer.WriteRows(info.Name, first, s.rowBins)
}
