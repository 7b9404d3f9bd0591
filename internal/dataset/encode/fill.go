package encode

import (
	"context"
	"math"

	"coppice/internal/dataset"
)

// processRows processes the rows of train in their order, once per copy, and then the rows of the other splits. Rates
// are binned at once. If rows arrived in that order, their bins are also output at once; otherwise they go to the
// segment of the row. With random orders, counts are over all rows of train, so for these only the level's number is
// stored.
func (m *Maker) processRows(ctx context.Context, progress func(done, total int64),
	write func(split, first int, columns [][]uint8) error) error {
	m.divideIntoSegments()
	f := newFiller(m, progress, write)
	blocks := m.trainBlocks()

	for number := range m.c.Order.Copies {
		f.beginCopy(number, blocks)
		for _, p := range blocks {
			if err := f.processTrain(ctx, p); err != nil {
				return err
			}
		}
		if err := f.finish(ctx); err != nil {
			return err
		}
	}

	m.countLevels()
	if err := m.handOut(ctx, write); err != nil {
		return err
	}

	for _, p := range m.heldOutBlocks() {
		if err := f.processHeldOut(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// filler is the state of processRows. Rows of the block asked get their statistics, while rows of the block seen are
// added to the levels. seen may be an earlier block than asked: by time with a delay, rows are added long after they
// were asked.
type filler struct {
	m      *Maker
	copy   int
	blocks []place
	asked  *block
	seen   *block // often the same block as asked
	other  *block // the spare block, if asked and seen are the same
	at     int    // index of seen in blocks; it is loaded if ready
	ready  bool
	next   int // the next row of seen to add
	until  []int
	chains [][]int // keys after those that they fall back to; different chains run in parallel

	before int // rows in the blocks before seen

	rates   [][]float64 // by key, of the rows asked
	counts  [][]float64 // by time, by key with a count
	gaps    [][]float64 // by key with recency
	numbers [][]uint32  // by key, the rows' level numbers; 0 is none
	own     [][]uint32  // by group, by key with a count, how many rows of the row's group have its level
	out     [][]uint8   // by feature, except counts of all rows of train, the bins of the rows asked
	records []byte      // the bins of the rows asked, as records

	write       func(split, first int, columns [][]uint8) error
	progress    func(done, total int64)
	done, total int64
}

// newFiller prepares to write the rows of all splits, those of train once for each copy.
func newFiller(m *Maker, progress func(done, total int64),
	write func(split, first int, columns [][]uint8) error) *filler {
	keys := len(m.c.Keys)
	f := &filler{m: m, asked: &block{}, seen: &block{}, write: write, progress: progress, chains: m.chains(),
		rates: make([][]float64, keys), counts: make([][]float64, keys), gaps: make([][]float64, keys),
		numbers: make([][]uint32, keys), own: make([][]uint32, keys), out: make([][]uint8, len(m.features))}
	for _, rows := range m.c.Rows {
		f.total += int64(rows)
	}
	f.total += int64(m.c.Rows[0]) * int64(m.c.Order.Copies-1)
	return f
}

// chains groups the keys into independent chains.
func (m *Maker) chains() [][]int {
	var out [][]int
	member := make([]int, len(m.c.Keys))
	for k, key := range m.c.Keys {
		if key.BackOff < 0 {
			member[k] = len(out)
			out = append(out, nil)
		} else {
			member[k] = member[key.BackOff]
		}
		out[member[k]] = append(out[member[k]], k)
	}
	return out
}

// beginCopy starts a copy: no rows have been added.
func (f *filler) beginCopy(number int, blocks []place) {
	f.m.lasts = make([][]float64, len(f.m.tables))
	for k, t := range f.m.tables {
		t.begin()
		if f.m.c.Keys[k].Recency {
			f.m.lasts[k] = make([]float64, 0, t.used)
		}
	}
	f.copy, f.blocks, f.at, f.next, f.ready, f.before = number, blocks, 0, 0, false, 0
}

// processTrain computes the statistics of a block of train, and counts on through the blocks whose rows it may see,
// which are loaded as they are needed.
func (f *filler) processTrain(ctx context.Context, p place) error {
	if f.seen == f.asked { // still in use
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

		// As many rows as the block seen determines. A row that may see beyond it needs the next block.
		last := f.at+1 == len(f.blocks)
		to, seen := from, f.next
		f.until = f.until[:0]
		for ; to < len(f.asked.row); to++ {
			for seen < len(f.seen.order) && f.seen.order[seen] < f.asked.limit[to] {
				seen++
			}
			if seen == len(f.seen.order) && !last {
				break
			}
			f.until = append(f.until, seen)
		}
		f.stretch(from, to, seen)
		if from, f.next = to, seen; from < len(f.asked.row) {
			f.before += len(f.seen.order)
			f.at, f.next, f.ready = f.at+1, 0, false
		}
	}
	f.count(p.count)
	if f.m.sorted {
		return f.write(0, int(f.asked.row[0]), f.out)
	}
	return f.spoolBins()
}

// loadSeen makes sure that the block with the next rows to add is loaded.
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

// finish adds the rows that no row of train may see, so that the tables are those of all of train.
func (f *filler) finish(ctx context.Context) error {
	if f.seen == f.asked && f.other != nil {
		f.asked, f.other = f.other, nil
	}
	f.asked.place = place{pile: -1}

	for ; f.at < len(f.blocks); f.at, f.next, f.ready = f.at+1, 0, false {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.loadSeen(); err != nil {
			return err
		}
		f.until = f.until[:0]
		f.stretch(0, 0, len(f.seen.order))
	}
	return nil
}

// processHeldOut gives the rows of another split the statistics of all rows of train.
func (f *filler) processHeldOut(ctx context.Context, p place) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := f.m.loadBlock(p, 0, f.asked); err != nil {
		return err
	}

	f.until = dataset.Resize(f.until, len(f.asked.row))
	clear(f.until)
	f.next = 0
	f.stretch(0, p.count, 0)

	// For counts of all rows of train only the level was stored; their bins are known by now.
	for i := range f.m.features {
		if f.m.binBytes(i) > 1 {
			f.out[i] = dataset.Resize(f.out[i], p.count)
			for r, number := range f.numbers[f.m.features[i].Key] {
				f.out[i][r] = f.m.countBin(i, 1, number, 0)
			}
		}
	}

	f.count(p.count)
	return f.write(p.pile-f.m.pieces+1, p.first, f.out)
}

// stretch computes the statistics of rows from..to of the block asked. Before each of them, the rows of the block seen
// up to its until are added, and at the end all up to end.
func (f *filler) stretch(from, to, end int) {
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

// processKey is stretch for one key, a turn of rows after the other.
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
	for at := from; at < to; at += turnRows {
		next = f.takeTurn(k, at, min(at+turnRows, to), next, f.until[at-from:], train)
	}

	f.addSeen(k, next, end)
	f.assign(k, from, to)
	if train && f.m.layout.group >= 0 && f.m.c.Keys[k].Count { // which has all rows of its groups
		f.own[k] = ownRows(f.asked.order, f.numbers[k], f.own[k])
	}
}

// takeTurn computes the statistics of at most turnRows rows for one key, and adds to the levels the rows that each of
// them may see before it. It returns how far that has come. An unseen level has number 0.
func (f *filler) takeTurn(k, from, to, next int, until []int, train bool) int {
	var slots [turnRows]int32
	m := f.m
	m.findLevels(f.asked, k, from, to, train, &slots)

	key, all := &m.c.Keys[k], m.tables[k].slots
	table := dataset.LevelTable{Strength: key.Strength}
	prior, floor, soFar := m.Prior(k), uint32(0), m.countsSoFar(k)
	if !train { // a level without a place in the final table counts as unseen
		floor = uint32(m.floor)
	}

	for i := from; i < to; i++ {
		if next < until[i-from] {
			next = f.seeAmong(k, next, until[i-from], from, &slots)
		}
		if key.BackOff >= 0 {
			prior = f.rates[key.BackOff][i]
		}

		var s slot
		number := uint32(0)
		if at := slots[i-from]; at != absent && all[at].rows >= floor {
			s = all[at]
			number = s.number + 1
		}

		f.rates[k][i], f.numbers[k][i] = table.Rate(s.sum, s.n, prior), number
		if key.Recency {
			f.gaps[k][i] = f.asked.time[i] - m.lastOf(k, number)
		}
		if soFar {
			if f.counts[k][i] = float64(s.rows); train {
				f.counts[k][i] = m.projected(s.rows, f.before+until[i-from])
			}
		}
	}
	return next
}

// lastOf is when the level with that number was last seen; NaN if never.
func (m *Maker) lastOf(k int, number uint32) float64 {
	if number == 0 || int(number) > len(m.lasts[k]) {
		return math.NaN()
	}
	return m.lasts[k][number-1]
}

// seeAmong is see, reusing the slots that were looked up for the rows asked from row from on.
func (f *filler) seeAmong(k, next, end, from int, slots *[turnRows]int32) int {
	if f.seen != f.asked || next < from {
		stop := end
		if f.seen == f.asked {
			stop = min(end, from)
		}
		next = f.addSeen(k, next, stop)
	}
	for ; next < end && next-from < turnRows; next++ {
		f.seeRow(k, next, slots[next-from])
	}
	if next == end { // nearly always: see would clear its slots for nothing, once a row
		return next
	}
	return f.addSeen(k, next, end)
}

// addSeen adds rows next to end of the block seen to the levels of key k, and returns the larger of the two.
func (f *filler) addSeen(k, next, end int) int {
	var slots [turnRows]int32
	for next < end {
		n := min(end-next, turnRows)
		f.m.findLevels(f.seen, k, next, next+n, false, &slots)
		for i, at := range slots[:n] {
			f.seeRow(k, next+i, at)
		}
		next += n
	}
	return next
}

// seeRow adds a row of the block seen to its level, and its time, if it is later, as that of the level's last row.
// absent is a level without a place in the table.
func (f *filler) seeRow(k, row int, at int32) {
	if at == absent {
		return
	}
	s := &f.m.tables[k].slots[at]
	s.see(f.m.c.Keys[k].target(f.seen.label[row]), f.seen.weight[row])

	if !f.m.c.Keys[k].Recency {
		return
	}

	lasts := f.m.lasts[k]
	for int(s.number) >= len(lasts) {
		lasts = append(lasts, math.NaN())
	}
	if t := f.seen.time[row]; t == t && !(t <= lasts[s.number]) {
		lasts[s.number] = t
	}

	f.m.lasts[k] = lasts
}

// assign bins the statistics of rows from..to for one key; counts over all rows have been binned by countLevels.
func (f *filler) assign(k, from, to int) {
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

// count reports finished rows as progress.
func (f *filler) count(rows int) {
	if f.done += int64(rows); f.progress != nil {
		f.progress(f.done, f.total)
	}
}
