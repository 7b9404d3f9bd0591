package encode

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// planFeatures sets m.features with their bin bounds, and m.assign, which bins by them. Counts of all rows of train are
// left to countLevels, since their bounds depend on the largest count.
//
// The rates are not known before the pass that bins them, so their bounds are made from simulated rates of sampled
// rows. Half of these are as for rows that are predicted later, from all rows of a level. The other half are as for
// rows of train, from a random part of the level's rows.
func (m *Maker) planFeatures() error {
	for k := range m.c.Keys {
		for _, what := range m.c.Keys[k].Statistics() {
			m.features = append(m.features, DerivedFeature{Key: k, What: what, Missing: what == dataset.DeriveRecency})
		}
	}

	rates := make([][]float64, len(m.c.Keys))
	if m.c.Sample > 0 {
		rows, err := m.sample.takeRows()
		if err != nil {
			return err
		}
		w := &scratch{}
		for k := range m.c.Keys { // a key falls back to an earlier one
			rates[k] = m.sampleRates(k, rows, rates, w)
		}
	}

	m.assign = make([]func([]float64, []uint8, uint8), len(m.features))
	dataset.Parallel(m.c.Threads, len(m.features), func(i int) {
		f := &m.features[i]
		switch f.What {
		case dataset.DeriveRate:
			f.Bounds = m.boundsOf(f, func() []float64 { return m.c.Bounds(slices.Clone(rates[f.Key])) })
			if m.c.Sample > 0 {
				r := rates[f.Key]
				slices.Sort(r)
				f.Range = [3]float64{r[0], r[(len(r)-1)/2], r[len(r)-1]}
			}
		case dataset.DeriveRecency: // from a second to some 30 years
			f.Bounds = m.boundsOf(f, func() []float64 { return growingBounds(1, 1e9, 1.2) })
		case dataset.DeriveCount:
			if !m.countsSoFar(f.Key) {
				return
			}
			f.Bounds = m.boundsOf(f, func() []float64 { return growingBounds(0, float64(m.c.Rows[0])-1, countFactor) })
		}
		m.assign[i] = m.c.Assign(f.Bounds)
	})
	return nil
}

// boundsOf returns the bounds that the caller's key gives for a feature, or else those that compute returns. If there
// are more than the feature may have, it thins them out.
func (m *Maker) boundsOf(f *DerivedFeature, compute func() []float64) []float64 {
	bounds, ok := m.c.Keys[f.Key].Bounds[f.What]
	if !ok {
		bounds = compute()
	}
	return thinBounds(bounds, m.maxBounds(f))
}

// growingBounds returns whole bounds from first up to limit. Each is the one before times factor, rounded down, but at
// least 1 larger.
func growingBounds(first, limit, factor float64) []float64 {
	var out []float64
	for x := first; x <= limit; x = max(x+1, math.Floor(x*factor)) {
		out = append(out, x)
	}
	return out
}

// maxBounds returns the most bounds that a feature may have: one less than its bins of numbers.
func (m *Maker) maxBounds(f *DerivedFeature) int {
	n := cmp.Or(m.c.MaxBins, dataset.MaxBins) - 1
	if f.Missing {
		n--
	}
	return max(n, 0)
}

// thinBounds returns at most count of the bounds, evenly chosen. If there are any, the first bound is one of them.
func thinBounds(bounds []float64, count int) []float64 {
	count = min(count, len(bounds))
	var kept []float64
	for i, bound := range bounds {
		if len(kept) < count && i == len(kept)*len(bounds)/count {
			kept = append(kept, bound)
		}
	}
	return kept
}

// sampled is a sampled row.
type sampled struct {
	hash          uint64 // of the row's number, a source of random bits
	label, weight float64
	levels        []uint64 // by key, the hash of its level
}

// sample holds the rows of train whose hash is at most limit. Which rows these are depends on their numbers alone.
type sample struct {
	limit uint64
	rows  []sampled
}

// newSample returns an empty sample that will hold about c.Sample rows, or all of train if that has fewer.
func newSample(c *Config) sample {
	share := float64(c.Sample) / float64(max(c.Rows[0], 1))
	if share < 1 {
		return sample{limit: uint64(share * math.MaxUint64)}
	}
	return sample{limit: math.MaxUint64}
}

// offerRow adds row i of r to the sample if its hash is low enough.
func (s *sample) offerRow(keys []Key, r *LabelledRows, i int, weight float64) {
	// The random orders of the copies of train have the numbers 0 to MaxCopies-1, so this one is independent of theirs.
	hash := Order(uint32(r.First+i), dataset.MaxCopies)
	if hash > s.limit {
		return
	}
	one := sampled{hash: hash, label: float64(r.Label[i]), weight: weight, levels: make([]uint64, len(keys))}
	for k := range keys {
		one.levels[k] = Level()
		for _, p := range keys[k].Parts {
			one.levels[k] = Join(one.levels[k], r.Parts[p][i])
		}
	}
	s.rows = append(s.rows, one)
}

// takeRows returns the sampled rows by ascending hash, and empties the sample. It is an error if there are none.
func (s *sample) takeRows() ([]sampled, error) {
	rows := s.rows
	s.rows = nil
	if len(rows) == 0 {
		return nil, errors.New("no row of train was drawn for the bounds of statistics")
	}
	slices.SortFunc(rows, func(a, b sampled) int { return cmp.Compare(a.hash, b.hash) })
	return rows, nil
}

// frequent is how many sampled rows a level needs for its rate to be estimated from the sample.
const frequent = 8

// sampleRates simulates the rate of key k for each sampled row, for planFeatures. rates holds the simulated rates of
// the earlier keys, to which k may fall back. w is memory.
func (m *Maker) sampleRates(k int, rows []sampled, rates [][]float64, w *scratch) []float64 {
	// Sum up the sample by level.
	w.hashes = dataset.Resize(w.hashes, len(rows))
	for i := range rows {
		w.hashes[i] = rows[i].levels[k]
	}
	codes := w.numberLevels()
	seen := make([]slot, codes.levels)
	for i, level := range codes.code {
		seen[level].addRow(m.c.Keys[k].target(rows[i].label), rows[i].weight)
	}
	whole := len(rows) == m.c.Rows[0]
	counted := m.levels[k].countedRows()

	out := make([]float64, len(rows))
	table := dataset.LevelTable{Strength: m.c.Keys[k].Strength}
	for i := range rows {
		s := seen[codes.code[i]]
		hash := Mix(rows[i].hash + uint64(k)) // other random bits for each key

		// Of a rare level the sample has only a few of its rows, and so a rate that is too extreme. Use a random level
		// that was counted exactly instead. A sample that is all of train needs no replacement.
		if !whole && s.rows < frequent && len(counted) > 0 {
			s = counted[hash%uint64(len(counted))]
		}
		if rows[i].hash&1 == 1 { // half of the rows, the same for every key, as rows of train
			s = s.drawSome(hash)
		}
		prior := m.Prior(k)
		if up := m.c.Keys[k].BackOff; up >= 0 {
			prior = rates[up][i]
		}
		out[i] = table.Rate(s.sum, s.n, prior)
	}
	return out
}

// countedRows returns the statistics of the levels that were counted exactly, each once per row of the level, so that a
// random element is the level of a random row. No level is repeated more than 4*frequent times, which bounds the
// memory.
func (d *DistinctCount) countedRows() []slot {
	var out []slot
	for _, at := range d.table.sorted(1) {
		s := d.table.slots[at]
		for range min(s.rows, 4*frequent) {
			out = append(out, s)
		}
	}
	return out
}

// exactDraws is the number of rows up to which rows are drawn one by one.
const exactDraws = 32

// drawSome simulates the statistics of a random number of the level's rows, from none to fewer than all, drawn without
// replacement. hash determines the result. Only n and sum of the result are set.
func (s slot) drawSome(hash uint64) slot {
	draw := func(i int) float64 { return float64(Mix(hash+uint64(i))>>11) / (1 << 53) } // uniform in [0, 1), of 53 bits
	share := draw(0)
	out := slot{n: math.Floor(share * s.n)}
	binary := s.sum >= 0 && s.sum <= s.n && s.sum == math.Trunc(s.sum) && s.n == math.Trunc(s.n)

	switch {
	case !binary: // with weights or other labels than 0 and 1, the same share of both
		out.n, out.sum = share*s.n, share*s.sum
	case out.n <= exactDraws: // draw rows one by one; a remaining row has label 1 with the remaining share of ones
		for i := range int(out.n) {
			if draw(i+1)*(s.n-float64(i)) < s.sum-out.sum {
				out.sum++
			}
		}
	default: // the normal approximation of the hypergeometric distribution
		p := s.sum / s.n
		deviate := -6.0 // the sum of twelve uniform numbers is nearly normal, with mean 6 and variance 1
		for i := range 12 {
			deviate += draw(i + 1)
		}
		// The variance of the hypergeometric distribution, of out.n rows out of s.n.
		spread := math.Sqrt(out.n * p * (1 - p) * (s.n - out.n) / max(s.n-1, 1))
		out.sum = max(0, min(out.n, math.Round(float64(out.n*p)+float64(deviate*spread)), s.sum))
	}

	return out
}
