package ingest

import (
	"cmp"
	"context"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/segment"
	"coppice/internal/dataset/table"
)

// NightRows is the most rows that a Night holds. Of a table with more than 500 columns, it holds fewer.
const NightRows = 50_000

// Night summarises a table at the time it was staged, so that it can be compared with the tables of other nights. It
// holds the raw values of a uniform sample of rows from all splits, chosen by row number, and a summary of all rows.
type Night struct {
	Table  int64    // rows of the whole table with a label
	Row    []int64  // number of each sampled row in the table, ascending
	Split  []string // split of each sampled row
	Label  []float32
	Weight []float32 // nil if all weights are equal
	// Time is in seconds since 1970, NaN if missing; nil if no column has the rows' times. TimeColumn is its name.
	Time       []float64
	TimeColumn string
	// Sample has the raw values of every column read, in the form that a model can predict. Its Row indexes the sampled
	// rows.
	Sample *dataset.Sample
	Prints Prints // of entire rows
	// Bare are prints of bare rows: rows without their times, without ids of rows and without what determines their
	// split. A row of test copied into train, or yesterday's row with a new date, differs only in those.
	Bare Prints
	// Outside lists the columns that Bare leaves out because of tonight's values, or because contract.time or label.at
	// names them. The Bare of nights with other ones cannot be compared.
	Outside []string
	// Alike has, by sampled row, a hash of its bare contents without the label. A model cannot tell rows with equal
	// hashes apart.
	Alike []uint64
	// Segments counts all rows by segment; nil if Options.Witness was nil.
	Segments *segment.Counts

	markers *cell.Markers
}

// Print is a distinct row of a table.
type Print struct {
	Hash  uint64
	Count [4]int32 // occurrences by split, in the order of dataset.SplitNames
}

// Prints are some of a table's distinct rows, ascending by hash: those with the lowest hashes, so that the overlap of
// two tables, or of two parts of one, can be estimated (Broder, On the resemblance and containment of documents, 1997).
type Prints []Print

// maxPrints is how many distinct rows are kept.
const maxPrints = 1 << 14

// Missing reports whether value i of a column is missing: null in the table, NaN, or one of the spec's texts.
func (n *Night) Missing(values *dataset.Values, i int) bool {
	return cell.Missing(values, i, n.markers)
}

// Numbers returns a column's values as numbers, NaN if missing, infinite or unreadable. readable is the share of
// present values that are finite numbers; for times it is 0.
func (n *Night) Numbers(values *dataset.Values) (x []float64, readable float64) {
	return n.read(values, 0, func(i int) (float64, bool) {
		if values.Type == dataset.Time {
			return 0, false
		}
		y, ok := parseNumber(values, i)
		return y, ok && dataset.Finite(y)
	})
}

// Times returns a column's values as seconds since 1970, NaN if missing or unreadable. Numbers are not readable as
// times. readable is the share of present values that are. Once the share must be below least, Times stops, and the
// rest of x is 0.
func (n *Night) Times(values *dataset.Values, least float64) (x []float64, readable float64) {
	return n.read(values, least, func(i int) (float64, bool) { return timeAt(values, i) })
}

// read converts each present value with the function parse. Missing and unreadable values become NaN. readable is the
// share of the present values that parse can read. It stops early once more values are unreadable than least, a share
// of all values, allows; the rest of x is then 0.
func (n *Night) read(values *dataset.Values, least float64,
	parse func(i int) (float64, bool)) (x []float64, readable float64) {
	x = make([]float64, values.Len())
	present, parsed := 0, 0
	for i := range x {
		x[i] = math.NaN()
		if n.Missing(values, i) {
			continue
		}

		present++
		if y, ok := parse(i); ok {
			x[i] = y
			parsed++
		} else if float64(present-parsed-1) > (1-least)*float64(len(x)) {
			break // one more than the limit is unreadable, so that rounding of the limit does not matter
		}
	}
	return x, float64(parsed) / float64(max(present, 1))
}

// nightTaker collects a Night during the second pass: addBatch takes every batch, then finish returns the night.
type nightTaker struct {
	night  *Night
	take   sampler     // decides which rows are sampled
	chosen []chosen    // sampled rows of the current batch
	stores []store     // by column read, the values of the sampled rows
	slots  []nightSlot // by slot of the sampler
	splits []uint8     // of the current batch's rows
	bare   []uint64    // hashes of the current batch's bare rows
	hashes []uint64    // hashes of the current batch's whole rows
	prints printer     // of hashes
	bares  printer     // of bare
	spec   *dataset.Spec
	read   []string // names of the columns read
	label  int      // the label's index in read
	// notBare says which of the columns read are left out of bare rows: the one that orders the rows, times, ids,
	// columns from which nothing can be learnt (WarnDropped), and the one that determines the split unless it is the
	// label or the key of a split by hash.
	notBare []bool
}

// nightSlot holds what a Night keeps of a row in addition to its values.
type nightSlot struct {
	row    int64
	split  uint8
	label  float32
	weight float32
}

// newNightTaker prepares to sample whole rows, and to count how often each row occurs, both as it is and bare (see
// Night.Bare). The manifest's features and warnings say which columns hold times or ids.
func newNightTaker(survey *survey, manifest *dataset.Manifest) *nightTaker {
	t := &nightTaker{night: &Night{markers: survey.markers}, spec: survey.spec, read: survey.roles.read,
		label: survey.roles.label, prints: newPrinter(), bares: newPrinter()}
	t.take = newSampler(rowsOf(NightRows, NightRows, len(t.read), nightCells))
	t.stores = make([]store, len(t.read))
	t.notBare = make([]bool, len(t.read))
	for i := range t.stores {
		// Longer texts are no categories, and need only be told apart.
		t.stores[i].longest, t.stores[i].room = dataset.MaxCategory, int(min(survey.rows, int64(t.take.slots())))
		// A copied row may have another time and be in another split. So what orders the rows or decides their split
		// is not part of a bare row, except for the key of a split by hash and the label, by whose classes rows may be
		// split.
		t.notBare[i] = i == survey.roles.order || i == survey.roles.split && i != t.label &&
			survey.splitter.by != dataset.SplitByHash
	}

	// Times, and columns in which almost every row has its own value, are not part of a bare row.
	for i := range manifest.Features {
		if f := &manifest.Features[i]; f.Kind == dataset.Temporal {
			t.exclude(survey, f.Name)
		}
	}
	for _, w := range manifest.About.Warnings {
		if w.Code == WarnIDLike || w.Code == WarnDropped {
			t.exclude(survey, w.Column)
		}
	}

	// Nor are the times that the spec names, which may be numbers, or dropped as features.
	for _, name := range []string{t.spec.Contract.Time, t.spec.Label.At} {
		if i, ok := survey.roles.places[name]; ok && !t.notBare[i] {
			t.exclude(survey, name)
		}
	}
	return t
}

// exclude leaves a column out of bare rows, unless it is the label.
func (t *nightTaker) exclude(survey *survey, name string) {
	if i, ok := survey.roles.places[name]; ok && i != survey.roles.label {
		t.notBare[i], t.night.Outside = true, append(t.night.Outside, name)
	}
}

// addBatch processes a batch of the second pass. labels are by row; splits says which rows are in which split, and
// their weights.
func (t *nightTaker) addBatch(batch *table.Batch, labels []float32, splits []*splitPart, threads int) {
	t.night.Table += int64(batch.Rows)
	t.splits = dataset.Resize(t.splits, batch.Rows)
	t.chosen = t.chosen[:0]

	// The split of each row. Every row has one (dealRows), so nothing of the last batch is left.
	for where, part := range splits {
		if part == nil { // no row of the table is in this split
			continue
		}
		for _, place := range part.places {
			t.splits[place] = uint8(where)
		}
	}

	// Choose the rows of the sample. The weight is set by recordWeights, as only splits know it.
	for i := range batch.Rows {
		slot, ok := t.take.offerRow(batch.Row(i))
		if !ok {
			continue
		}
		t.chosen = append(t.chosen, chosen{i, slot})
		t.slots = stretch(t.slots, slot+1, 0)
		t.slots[slot] = nightSlot{row: batch.Row(i), split: t.splits[i], label: labels[i], weight: 1}
	}
	t.recordWeights(splits)

	// Copy the values of the chosen rows, and count all rows by their hashes.
	dataset.Parallel(threads, len(t.stores), func(i int) { t.stores[i].copyChosen(&batch.Columns[i], t.chosen) })
	t.hashRows(batch, threads)
	t.prints.addRows(t.hashes, t.splits)
	t.bares.addRows(t.bare, t.splits)
}

// recordWeights sets the weights of the rows just chosen. A split without weights keeps the 1 that they have.
func (t *nightTaker) recordWeights(splits []*splitPart) {
	for _, part := range splits {
		if part == nil || len(part.targets.Weight) == 0 {
			continue
		}

		next := 0 // chosen rows and a split's places are both ascending
		for at, place := range part.places {
			for next < len(t.chosen) && t.chosen[next].row < int(place) {
				next++
			}
			if next < len(t.chosen) && t.chosen[next].row == int(place) {
				t.slots[t.chosen[next].slot].weight = part.targets.Weight[at]
			}
		}
	}
}

// hashChunk is how many rows a goroutine hashes at a time.
const hashChunk = 2048

// hashRows computes two hashes of every row of the batch: one over the columns of the bare row into t.bare, and one
// over all columns read into t.hashes.
func (t *nightTaker) hashRows(batch *table.Batch, threads int) {
	t.hashes, t.bare = dataset.Resize(t.hashes, batch.Rows), dataset.Resize(t.bare, batch.Rows)
	columns := batch.Columns[:len(t.read)]
	dataset.Parallel(threads, (batch.Rows+hashChunk-1)/hashChunk, func(chunk int) {
		from := chunk * hashChunk
		to := min(from+hashChunk, batch.Rows)
		out := t.bare[from:to]
		for i := range out {
			out[i] = seedNight
		}

		// First the columns of the bare row, then all others.
		for _, notBare := range []bool{false, true} {
			for c := range columns {
				if t.notBare[c] != notBare {
					continue
				}
				v := &columns[c]
				for i := range out {
					out[i] = encode.Mix(out[i] ^ rawHash(v, from+i))
				}
			}

			// So far this is the hash of the bare row; the rest continues from it.
			if !notBare {
				copy(t.hashes[from:to], out)
				out = t.hashes[from:to]
			}
		}
	})
}

// rawHash hashes value i as written in the table; a null has a hash of its own.
func rawHash(values *dataset.Values, i int) uint64 {
	if values.IsNull(i) {
		return seedNight
	}
	return segment.Hash(values, i)
}

// finish returns the night, its rows in the table's order, and frees t's stores. The only error is ctx's.
func (t *nightTaker) finish(ctx context.Context) (*Night, error) {
	// The rows that were drawn, in the order of the table.
	n := t.night
	kept := t.take.sorted()
	slices.SortFunc(kept, func(a, b slot) int { return cmp.Compare(t.slots[a.place].row, t.slots[b.place].row) })

	places := make([]int32, len(kept))
	weighted, inOrder := false, len(kept) == t.take.used()
	n.Sample = &dataset.Sample{Names: t.read}
	for i, s := range kept {
		row := t.slots[s.place]
		places[i] = int32(s.place)
		inOrder = inOrder && s.place == i // as in any table that the sample holds whole
		n.Sample.Row = append(n.Sample.Row, uint32(i))
		n.Row = append(n.Row, row.row)
		n.Split = append(n.Split, dataset.SplitNames()[row.split])
		n.Label = append(n.Label, row.label)
		n.Weight = append(n.Weight, row.weight)
		weighted = weighted || row.weight != 1
	}
	if !weighted {
		n.Weight = nil
	}

	// Their values, in the same order.
	for i := range t.stores {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		raw := t.stores[i].finish(t.take.used())
		if !inOrder {
			raw = raw.Pick(places)
		}
		n.Sample.Columns = append(n.Sample.Columns, raw)
	}
	// A hash of each bare row without its label (see Night.Alike).
	n.Alike = make([]uint64, len(places))
	for c := range n.Sample.Columns {
		if v := &n.Sample.Columns[c]; c != t.label && !t.notBare[c] {
			for i := range n.Alike {
				n.Alike[i] = encode.Mix(n.Alike[i] ^ rawHash(v, i))
			}
		}
	}

	n.Prints, n.Bare = t.prints.finish(), t.bares.finish()
	n.findTimes(ctx, t.spec)
	return n, ctx.Err()
}

const (
	// timeShare is the least share of a column's present values that have to be times: a few may be mistakes.
	timeShare = 0.99
	// mostTimed is the least share of all rows in which a column has to have a time to be taken before the columns
	// after it. It is well below what an export usually has, so that the column is the same one night after night.
	mostTimed = 0.9
	// leastTimed is the least share of all rows in which a column that the spec does not name has to have a time. When
	// a click happened, known for 2 % of the rows, is not the time of the rows.
	leastTimed = 0.5
)

// findTimes sets the time of each sampled row, if a column has it. These are tried in turn:
//
//   - contract.time, if the spec has it: then no other column is tried, also if tonight it holds no times;
//   - label.at, and the column that orders or splits the rows;
//   - the table's first column with a time in nearly every row;
//   - the table's first column with a time in half of the rows.
//
// A column that the spec names may hold numbers instead of times, and be missing in any number of rows.
func (n *Night) findTimes(ctx context.Context, spec *dataset.Spec) {
	named, others := []string{spec.Label.At, spec.TimeColumn()}, n.Sample.Names
	if spec.Contract.Time != "" {
		named, others = []string{spec.Contract.Time}, nil
	}
	columns := make(map[string]*dataset.Values, len(n.Sample.Names))
	for i, name := range n.Sample.Names {
		columns[name] = &n.Sample.Columns[i]
	}

	for i, name := range append(named, others...) {
		v := columns[name]
		if v == nil { // no such key in the spec; those that it has are in the table (assignRoles)
			continue
		}
		if ctx.Err() != nil {
			return // finish returns the error
		}

		x, readable := n.Times(v, timeShare)
		if readable == 0 && i < len(named) {
			x, readable = n.Numbers(v) // seconds, or any number that grows with time
		}
		if readable < timeShare {
			continue
		}

		missing := 0
		for _, t := range x {
			if math.IsNaN(t) {
				missing++
			}
		}
		timed := 1 - float64(missing)/float64(len(x))
		if i < len(named) || timed >= mostTimed {
			n.Time, n.TimeColumn = x, name
			return
		}
		if timed >= leastTimed && n.Time == nil { // kept unless a later column has times in nearly every row
			n.Time, n.TimeColumn = x, name
		}
	}
}

// printer counts distinct rows by their hashes, but only those with the lowest maxPrints hashes. Two nights that keep
// the lowest hashes keep mostly the same rows of those they share.
type printer struct {
	limit  uint64               // rows with larger hashes are ignored
	counts map[uint64]*[4]int32 // by hash, the rows of each split
}

func newPrinter() printer { return printer{limit: math.MaxUint64, counts: map[uint64]*[4]int32{}} }

// addRows counts rows, given by hash and split; a count stays at the largest that it can hold. The map may grow to
// twice maxPrints before the higher half is dropped, so that dropping is rare.
func (p *printer) addRows(hashes []uint64, splits []uint8) {
	for i, h := range hashes {
		if h > p.limit { // at least maxPrints other rows have lower hashes
			continue
		}

		count := p.counts[h]
		if count == nil {
			if len(p.counts) == 2*maxPrints {
				p.keepLowest()
				if h > p.limit {
					continue
				}
			}
			count = new([4]int32)
			p.counts[h] = count
		}
		if count[splits[i]] < math.MaxInt32 {
			count[splits[i]]++
		}
	}
}

// keepLowest drops all hashes but the maxPrints lowest, and from then on all higher ones are ignored.
func (p *printer) keepLowest() {
	hashes := make([]uint64, 0, len(p.counts))
	for h := range p.counts {
		hashes = append(hashes, h)
	}
	slices.Sort(hashes)
	if len(hashes) <= maxPrints {
		return
	}

	p.limit = hashes[maxPrints-1]
	for _, h := range hashes[maxPrints:] {
		delete(p.counts, h)
	}
}

// finish returns the rows with the lowest hashes, ascending by hash.
func (p *printer) finish() Prints {
	p.keepLowest()
	out := make(Prints, 0, len(p.counts))
	for h, count := range p.counts {
		out = append(out, Print{h, *count})
	}
	slices.SortFunc(out, func(a, b Print) int { return cmp.Compare(a.Hash, b.Hash) })
	return out
}
