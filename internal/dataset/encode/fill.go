package encode

import (
	"context"
	"math"

	"coppice/internal/dataset"
)

// processRows makes the statistics of all rows and passes their bins to write: first those of train, once per copy,
// then those of the other splits. It needs the features of planFeatures, and leaves the tables with all rows of train.
//
// The rows of train are processed in the order of the statistics. If they arrived in this order, which only sorted
// times do, their bins are written at once. Otherwise the bins are spooled and later written in the order of the rows.
// Without times, a count is of all rows of train and so is known only after all have been processed: until then the
// spool has the level's number in its place.
func (m *Maker) processRows(ctx context.Context, progress func(done, total int64), write writeFunc) error {
	m.divideIntoSegments()
	f := newFiller(m, progress, write)
	blocks := m.listBlocks(0, m.pieces)

	// Train, in order.
	for number := range m.c.Order.Copies {
		f.beginCopy(number, blocks)
		for _, p := range blocks {
			if err := f.processTrain(ctx, p); err != nil {
				return err
			}
		}
		if err := f.addRemaining(ctx); err != nil {
			return err
		}
	}

	// All rows of train are counted now.
	m.countLevels()
	if err := m.writeSegments(ctx, write); err != nil {
		return err
	}

	// The other splits, whose rows see all of train.
	for _, p := range m.listBlocks(m.pieces, len(m.rows.piles)) {
		if err := f.processHeldOut(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// filler is the state of processRows. It goes through the blocks of train with two blocks in memory. The rows of the
// block asked get their statistics from the tables. Before that, the rows that they may see are added to the tables,
// from the block seen. Without a delay both are mostly the same block. With a delay, seen is an earlier block, since a
// row is added only when rows that are younger by the delay are asked.
type filler struct {
	m         *Maker
	copy      int // number of the current copy of train
	blocks    []place
	asked     *block
	seen      *block
	other     *block // an unused block if asked and seen are the same, else nil
	at        int    // index in blocks of the block that seen has to be
	ready     bool   // seen is that block and is loaded
	next      int    // the next row of seen to add
	seenUntil []int
	chains    [][]int // keys after those that they fall back to; different chains run in parallel

	rowsBefore int // rows in the blocks before seen

	rates     [][]float64 // by key, of the rows asked
	counts    [][]float64 // in an order by time: by key with a count, of the rows asked
	gaps      [][]float64 // by key with recency, of the rows asked
	numbers   [][]uint32  // by key, of the rows asked: 1 + the number of the row's level, or 0 if that is unseen
	groupRows [][]uint32  // in an order by group: by key with a count, the rows of the row's group that have its level
	out       [][]uint8   // by feature, except counts of all rows of train, the bins of the rows asked
	records   []byte      // the bins of the rows asked, as records

	write       writeFunc
	progress    func(done, total int64)
	done, total int64
}

// newFiller returns a filler, without any block loaded. Its total of rows for progress counts train once per copy.
func newFiller(m *Maker, progress func(done, total int64), write writeFunc) *filler {
	keys := len(m.c.Keys)
	f := &filler{m: m, asked: &block{}, seen: &block{}, write: write, progress: progress, chains: m.chains(),
		rates: make([][]float64, keys), counts: make([][]float64, keys), gaps: make([][]float64, keys),
		numbers: make([][]uint32, keys), groupRows: make([][]uint32, keys), out: make([][]uint8, len(m.features))}
	for _, rows := range m.c.Rows {
		f.total += int64(rows)
	}
	f.total += int64(m.c.Rows[0]) * int64(m.c.Order.Copies-1)
	return f
}

// chains groups the keys so that a key and the keys that it falls back to are in the same chain, which has them before
// it. Chains are independent of each other and run in parallel.
func (m *Maker) chains() [][]int {
	var out [][]int
	chainOf := make([]int, len(m.c.Keys))
	for k, key := range m.c.Keys {
		if key.BackOff < 0 {
			chainOf[k] = len(out)
			out = append(out, nil)
		} else {
			chainOf[k] = chainOf[key.BackOff] // of an earlier key
		}
		out[chainOf[k]] = append(out[chainOf[k]], k)
	}
	return out
}

// beginCopy starts another copy of train: it empties the statistics of the tables and returns to the first block.
func (f *filler) beginCopy(number int, blocks []place) {
	f.m.lasts = make([][]float64, len(f.m.tables)) // no row yet; addSeenRow makes them longer
	for k, t := range f.m.tables {
		t.resetStatistics()
		if f.m.c.Keys[k].Recency {
			f.m.lasts[k] = make([]float64, 0, t.used)
		}
	}
	f.copy, f.blocks, f.at, f.next, f.ready, f.rowsBefore = number, blocks, 0, 0, false, 0
}

// processTrain loads the block p of train into asked, computes the statistics of its rows and writes or spools their
// bins. It goes on in the block seen where the block before p ended, and loads further blocks as p's rows may see them.
func (f *filler) processTrain(ctx context.Context, p place) error {
	if f.seen == f.asked { // its remaining rows are still to be added, so p is loaded into the other block
		f.asked, f.other = f.other, nil
	}
	if err := f.m.loadBlock(p, f.copy, f.asked); err != nil {
		return err
	}

	for from := 0; from < len(f.asked.row); {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.loadSeen(); err != nil {
			return err
		}

		// Take as many rows of asked as the block seen is enough for. seenUntil gets, for each of them, the end of the
		// rows of seen that it may see. A row that may see all of them may also see rows of the next block, so it waits
		// for that block, unless there is none.
		last := f.at+1 == len(f.blocks)
		to, seen := from, f.next
		f.seenUntil = f.seenUntil[:0]
		for ; to < len(f.asked.row); to++ {
			for seen < len(f.seen.order) && f.seen.order[seen] < f.asked.limit[to] {
				seen++
			}
			if seen == len(f.seen.order) && !last {
				break
			}
			f.seenUntil = append(f.seenUntil, seen)
		}
		f.fillRows(from, to, seen)
		from, f.next = to, seen

		// Rows of asked remain only if they wait for the next block.
		if from < len(f.asked.row) {
			f.rowsBefore += len(f.seen.order)
			f.at, f.next, f.ready = f.at+1, 0, false
		}
	}

	f.reportProgress(p.count)
	if f.m.sorted { // then the block's rows follow each other in their split, too
		return f.write(0, int(f.asked.row[0]), f.out)
	}
	return f.spoolBins()
}

// loadSeen makes sure that seen is the block number f.at and is loaded. If asked is that block, seen becomes the same
// and its own memory the spare block.
func (f *filler) loadSeen() error {
	if f.ready {
		return nil
	}
	f.ready = true
	if f.blocks[f.at] == f.asked.place {
		if f.seen != f.asked {
			f.seen, f.other = f.asked, f.seen
		}
		return nil
	}
	return f.m.loadBlock(f.blocks[f.at], f.copy, f.seen)
}

// addRemaining adds the rows that no row of train may see, at the end of a copy, so that the tables have all of train.
func (f *filler) addRemaining(ctx context.Context) error {
	// asked must not be the block seen: its place is overwritten below.
	if f.seen == f.asked && f.other != nil {
		f.asked, f.other = f.other, nil
	}

	// Nothing is asked any more. The first block goes on at f.next, where the last row asked has left it.
	f.asked.place = place{pile: -1} // no block of train, so that loadSeen doesn't take it for one

	for ; f.at < len(f.blocks); f.at, f.next, f.ready = f.at+1, 0, false {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.loadSeen(); err != nil {
			return err
		}
		f.seenUntil = f.seenUntil[:0]
		f.fillRows(0, 0, len(f.seen.order))
	}
	return nil
}

// processHeldOut loads the block p of a split other than train, gives its rows the statistics of all rows of train, and
// writes their bins.
func (f *filler) processHeldOut(ctx context.Context, p place) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := f.m.loadBlock(p, 0, f.asked); err != nil {
		return err
	}

	// All rows of train have been added, so none is added before a row.
	f.seenUntil = dataset.Resize(f.seenUntil, len(f.asked.row))
	clear(f.seenUntil)
	f.next = 0
	f.fillRows(0, p.count, 0)

	// binKey leaves out counts of all rows of train.
	for i := range f.m.features {
		if f.m.binBytes(i) > 1 {
			f.out[i] = dataset.Resize(f.out[i], p.count)
			for r, number := range f.numbers[f.m.features[i].Key] {
				f.out[i][r] = f.m.countBin(i, 1, number, 0) // 1: not of train, where no rows of a group are left out
			}
		}
	}

	f.reportProgress(p.count)
	return f.write(p.pile-f.m.pieces+1, p.first, f.out)
}

// fillRows computes the statistics of rows from up to to, exclusive, of the block asked, for all keys, and bins them
// into f.out. Before row from+i, the rows of the block seen from f.next up to f.seenUntil[i] are added to the tables,
// and after the last row those up to end. If from is to, no statistics are computed, and rows are only added. f.next is
// not changed.
//
// A count of all rows of train cannot be binned yet. For it, fillRows leaves the rows' levels in f.numbers and, in an
// order by group, how many rows of its own group a row has to leave out in f.groupRows.
func (f *filler) fillRows(from, to, end int) {
	train := f.asked.place.pile < f.m.pieces
	dataset.Parallel(f.m.c.Threads, len(f.chains), func(chain int) {
		for _, k := range f.chains[chain] {
			if from == to {
				f.addSeen(k, f.next, end)
			} else {
				f.processKey(k, from, to, end, train)
			}
		}
	})
}

// processKey does what fillRows says for key k, where from is below to, batchRows rows at a time. train says that asked
// is a block of train.
func (f *filler) processKey(k, from, to, end int, train bool) {
	n := len(f.asked.row)
	f.rates[k], f.numbers[k] = dataset.Resize(f.rates[k], n), dataset.Resize(f.numbers[k], n)
	if f.m.c.Keys[k].Recency {
		f.gaps[k] = dataset.Resize(f.gaps[k], n)
	}
	if f.m.countsSoFar(k) {
		f.counts[k] = dataset.Resize(f.counts[k], n)
	}

	next := f.next
	for at := from; at < to; at += batchRows {
		next = f.fillBatch(k, at, min(at+batchRows, to), next, f.seenUntil[at-from:], train)
	}

	f.addSeen(k, next, end)
	f.binKey(k, from, to)
	if train && f.m.layout.group >= 0 && f.m.c.Keys[k].Count {
		// In an order by group, from is 0 and to the end of the block: as there is no delay, a row sees rows of its own
		// block and all of earlier ones, so no part of the block waits for another. Thus all numbers are those of this
		// block. The rows of a group have the same sort key, so all of them are in it and follow each other.
		f.groupRows[k] = countInGroup(f.asked.order, f.numbers[k], f.groupRows[k])
	}
}

// fillBatch computes the statistics of rows from up to to of the block asked for key k, at most batchRows of them.
// Before row from+i it adds the rows of the block seen from next up to until[i] to the key's table. It returns the next
// row of seen to add. In f.numbers a row gets 1 + the number of its level, or 0 if the level is unseen.
func (f *filler) fillBatch(k, from, to, next int, until []int, train bool) int {
	// Find the rows' slots once. In train, this adds their levels, whose statistics stay zero until rows are added.
	var slots [batchRows]int32
	m := f.m
	m.findLevels(f.asked, k, from, to, train, &slots)

	// Slots stay where they are from here on: rows are only added to levels that the table has.
	key, all := &m.c.Keys[k], m.tables[k].slots
	table := dataset.LevelTable{Strength: key.Strength}
	prior, floor, soFar := m.Prior(k), uint32(0), m.countsSoFar(k)
	if !train { // a level that the dataset's table leaves out is unseen, as it is when rows are predicted
		floor = uint32(m.floor)
	}

	for i := from; i < to; i++ {
		if next < until[i-from] {
			next = f.addSeenWithin(k, next, until[i-from], from, &slots)
		}
		if key.BackOff >= 0 {
			prior = f.rates[key.BackOff][i]
		}

		var s slot // an unseen level has no rows, so its rate is the prior
		number := uint32(0)
		if at := slots[i-from]; at != absent && all[at].rows >= floor {
			s = all[at]
			number = s.number + 1
		}

		f.rates[k][i], f.numbers[k][i] = table.Rate(s.sum, s.n, prior), number
		if key.Recency {
			f.gaps[k][i] = f.asked.time[i] - m.lastSeen(k, number)
		}
		if soFar && train { // extrapolated from the rows of train before this one
			f.counts[k][i] = m.projected(s.rows, f.rowsBefore+until[i-from])
		} else if soFar {
			f.counts[k][i] = float64(s.rows)
		}
	}
	return next
}

// lastSeen returns the time of the last row added to a level of key k. number is 1 + the level's number, or 0 for an
// unseen level. The result is NaN if the level has no row.
func (m *Maker) lastSeen(k int, number uint32) float64 {
	if number == 0 || int(number) > len(m.lasts[k]) { // addSeenRow makes lasts only as long as it needs
		return math.NaN()
	}
	return m.lasts[k][number-1]
}

// addSeenWithin does what addSeen does, but faster where asked and seen are the same block: it does not look up the
// rows of the current batch, which begins at row from and has these slots. next must be less than end.
//
// It is called once per row, and addSeen clears an array of slots each time: so that is only called if it has rows to
// add.
func (f *filler) addSeenWithin(k, next, end, from int, slots *[batchRows]int32) int {
	if f.seen != f.asked {
		return f.addSeen(k, next, end)
	}
	if next < from { // rows before the batch
		next = f.addSeen(k, next, min(end, from))
	}
	for ; next < end && next-from < batchRows; next++ {
		f.addSeenRow(k, next, slots[next-from])
	}
	if next < end { // rows behind it
		next = f.addSeen(k, next, end)
	}
	return next
}

// addSeen adds rows next up to end, exclusive, of the block seen to the table of key k. It returns the next row to add:
// end, or next if that is larger.
func (f *filler) addSeen(k, next, end int) int {
	var slots [batchRows]int32
	for next < end {
		n := min(end-next, batchRows)
		f.m.findLevels(f.seen, k, next, next+n, false, &slots)
		for i, at := range slots[:n] {
			f.addSeenRow(k, next+i, at)
		}
		next += n
	}
	return next
}

// addSeenRow adds a row of the block seen to the slot at of key k, or does nothing if at is absent: then the level has
// no place in the table. For a key with recency it also remembers the row's time, if no row of the level has a later
// one.
func (f *filler) addSeenRow(k, row int, at int32) {
	if at == absent {
		return
	}
	s := &f.m.tables[k].slots[at]
	s.addRow(f.m.c.Keys[k].target(f.seen.label[row]), f.seen.weight[row])

	if !f.m.c.Keys[k].Recency {
		return
	}

	lasts := f.m.lasts[k]
	for int(s.number) >= len(lasts) {
		lasts = append(lasts, math.NaN())
	}
	if t := f.seen.time[row]; t == t && !(t <= lasts[s.number]) { // also if lasts has NaN, for no row yet
		lasts[s.number] = t
	}

	f.m.lasts[k] = lasts
}

// binKey bins the statistics of key k for rows from up to to of the block asked, from f.rates, f.gaps and f.counts into
// f.out. It leaves out counts of all rows of train, which countBin bins later.
func (f *filler) binKey(k, from, to int) {
	for i := range f.m.features {
		feature := &f.m.features[i]
		if feature.Key != k || feature.What == dataset.DeriveCount && !f.m.countsSoFar(k) {
			continue
		}

		values := f.rates[k]
		switch feature.What {
		case dataset.DeriveRecency:
			values = f.gaps[k]
		case dataset.DeriveCount:
			values = f.counts[k]
		}

		f.out[i] = dataset.Resize(f.out[i], len(f.asked.row))
		f.m.assign[i](values[from:to], f.out[i][from:to], uint8(len(feature.Bounds)+1))
	}
}

// reportProgress adds rows to those done and reports the sum.
func (f *filler) reportProgress(rows int) {
	f.done += int64(rows)
	if f.progress != nil {
		f.progress(f.done, f.total)
	}
}
