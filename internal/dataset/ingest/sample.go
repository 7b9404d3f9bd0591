package ingest

import (
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// sampleTaker picks the rows of sample.arrow, by which predictions from raw values are checked later. They are drawn
// uniformly from the last split: test or, if there is none, calib, valid or train. The split's number of rows is known
// by then, so that one pass picks exactly as many as wanted, in order (Knuth, The Art of Computer Programming, volume
// 2, algorithm S).
type sampleTaker struct {
	split  string
	rows   int      // of the split
	want   int      // rows of the sample
	seen   int      // rows of the split so far
	chosen []chosen // of the current batch
	sample *dataset.Sample
	places []int // indices in a batch of the columns kept
	stores []store
}

// newSampleTaker chooses the split, the columns and the number of rows. The columns are those that tonight's features
// read, and all others of the table that could be features: a model of another night may need those.
func newSampleTaker(survey *survey, manifest *dataset.Manifest) *sampleTaker {
	last := manifest.Splits[len(manifest.Splits)-1] // test if it exists: splits are in order
	rows := manifest.TableRows(last.Name)
	names := manifest.Encoding().Inputs()

	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	for _, c := range survey.columns {
		if c.feature.from == nil && !known[c.feature.column.Name] {
			names = append(names, c.feature.column.Name)
		}
	}

	want := rowsOf(survey.spec.Sample.Rows, dataset.DefaultSample, len(names), sampleCells)
	t := &sampleTaker{split: last.Name, rows: rows, want: min(want, rows), places: survey.roles.placesOf(names)}
	t.stores = make([]store, len(t.places))
	t.sample = &dataset.Sample{Split: last.Name}

	for i, place := range t.places {
		t.sample.Names = append(t.sample.Names, survey.roles.read[place])
		t.stores[i].room = t.want
	}
	return t
}

// choose picks rows among those of the split in the current batch; takeAll then stores their values. A row is taken
// with probability (rows still wanted) / (rows still to come). So exactly as many as wanted are taken, each row as
// likely as any other. The draw is by the row's number in the split: the same table gives the same sample.
func (t *sampleTaker) choose(part *splitPart) {
	t.chosen = t.chosen[:0]
	for i, place := range part.places {
		left, have := t.rows-t.seen, len(t.sample.Row)
		if cell.Unit(encode.Mix(uint64(t.seen)^seedTest)) < float64(t.want-have)/float64(left) {
			t.chosen = append(t.chosen, chosen{int(place), have})
			t.sample.Row = append(t.sample.Row, uint32(part.next+i))
		}
		t.seen++
	}
}

// takeAll stores the values of the rows that choose picked.
func (t *sampleTaker) takeAll(batch *table.Batch, threads int) {
	dataset.Parallel(threads, len(t.places), func(i int) {
		t.stores[i].copyChosen(&batch.Columns[t.places[i]], t.chosen)
	})
}

// finish returns the sample, and empties the stores.
func (t *sampleTaker) finish() *dataset.Sample {
	for i := range t.stores {
		t.sample.Columns = append(t.sample.Columns, t.stores[i].finish(len(t.sample.Row)))
	}
	return t.sample
}
