package encode

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// layFeatures decides which features there are, and the bin bounds of rates and gaps. The values of a rate are only
// known in the pass that bins them. So bounds are made from simulated values: half of them as for rows that are
// predicted later, from all rows of their level, and half as for rows of train, from some of them.
func (m *Maker) layFeatures() error {
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
		for k := range m.c.Keys { // a key falls back to an earlier one
			rates[k] = m.sampleRates(k, rows, rates)
		}
	}
	m.assign = make([]func([]float64, []uint8, uint8), len(m.features))
	dataset.Parallel(m.c.Threads, len(m.features), func(i int) {
		f := &m.features[i]
		switch f.What {
		case dataset.DeriveRate:
			f.Bounds = m.given(f, func() []float64 { return m.c.Bounds(slices.Clone(rates[f.Key])) })
			if m.c.Sample > 0 {
				r := rates[f.Key]
				slices.Sort(r)
				f.Range = [3]float64{r[0], r[(len(r)-1)/2], r[len(r)-1]}
			}
		case dataset.DeriveRecency:
			f.Bounds = m.given(f, func() []float64 { return steps(1, 1e9, 1.2) })
		case dataset.DeriveCount:
			if !m.countsSoFar(f.Key) {
				return // by countLevels, which knows the largest count
			}
			f.Bounds = m.given(f, func() []float64 { return steps(0, float64(m.c.Rows[0])-1, countFactor) })
		}
		m.assign[i] = m.c.Assign(f.Bounds)
	})
	return nil
}

// given returns the bounds that the key gives for a feature, else those returned by made, limited to the allowed
// number.
func (m *Maker) given(f *DerivedFeature, made func() []float64) []float64 {
	bounds, ok := m.c.Keys[f.Key].Bounds[f.What]
	if !ok {
		bounds = made()
	}
	return spread(bounds, m.maxBounds(f))
}

// steps returns bounds from first up to most that grow by a factor, and at least by 1.
func steps(first, most, factor float64) []float64 {
	var out []float64
	for x := first; x <= most; x = max(x+1, math.Floor(x*factor)) {
		out = append(out, x)
	}
	return out
}

// maxBounds is the most bounds that a feature may have.
func (m *Maker) maxBounds(f *DerivedFeature) int {
	n := cmp.Or(m.c.MaxBins, dataset.MaxBins) - 1
	if f.Missing {
		n--
	}
	return max(n, 0)
}

// spread keeps at most most of the bounds, evenly spread and including the first.
func spread(bounds []float64, most int) []float64 {
	most = min(most, len(bounds))
	var kept []float64
	for i, bound := range bounds {
		if len(kept) < most && i == len(kept)*len(bounds)/most {
			kept = append(kept, bound)
		}
	}
	return kept
}

// sampled is a sampled row: its hash, label and weight, and its level for each key.
type sampled struct {
	hash          uint64
	label, weight float64
	levels        []uint64
}

// sample holds the rows of train with the lowest hashes.
type sample struct {
	limit uint64 // of hashes
	rows  []sampled
}

func newSample(c *Config) sample {
	share := float64(c.Sample) / float64(max(c.Rows[0], 1))
	if share < 1 {
		return sample{limit: uint64(share * math.MaxUint64)}
	}
	return sample{limit: math.MaxUint64}
}

// offerRow takes row i if its hash is low enough.
func (s *sample) offerRow(keys []Key, r *LabelledRows, i int, weight float64) {
	hash := Order(uint32(r.First+i), dataset.MaxCopies) // an order that no copy uses
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

// takeRows returns the rows by ascending hash, and resets the sample.
func (s *sample) takeRows() ([]sampled, error) {
	rows := s.rows
	s.rows = nil
	if len(rows) == 0 {
		return nil, errors.New("no row of train was drawn for the bounds of statistics")
	}
	slices.SortFunc(rows, func(a, b sampled) int { return cmp.Compare(a.hash, b.hash) })
	return rows, nil
}

// frequent is how many sampled rows a level needs for its statistics to be estimated from the sample. Unless the sample
// is all of train, rarer levels are replaced by levels that were counted exactly.
const frequent = 8

// sampleRates simulates rates of key k. rates holds those of earlier keys.
func (m *Maker) sampleRates(k int, rows []sampled, rates [][]float64) []float64 {
	seen, at := newTable(len(rows)), make([]int32, len(rows))
	for i := range rows {
		level := rows[i].levels[k]
		slot, free := seen.findSlot(level)
		if at[i] = slot; slot == absent {
			seen.add(level, free)
			at[i] = free
		}
		seen.slots[at[i]].see(m.c.Keys[k].target(rows[i].label), rows[i].weight)
	}
	whole := len(rows) == m.c.Rows[0]
	rare := m.levels[k].rareRows()

	out := make([]float64, len(rows))
	table := dataset.LevelTable{Strength: m.c.Keys[k].Strength}
	for i := range rows {
		s := seen.slots[at[i]]
		hash := Mix(rows[i].hash + uint64(k))
		if !whole && s.rows < frequent && len(rare) > 0 {
			s = rare[hash%uint64(len(rare))]
		}
		if rows[i].hash&1 == 1 { // as a row of train
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

// rareRows returns the levels that were counted exactly, each repeated once per row, up to a limit.
func (d *DistinctCount) rareRows() []slot {
	var out []slot
	for _, at := range d.table.sorted(1) {
		s := d.table.slots[at]
		for range min(s.rows, 4*frequent) {
			out = append(out, s)
		}
	}
	return out
}

// exactDraws is the number of rows up to which draws are made one by one.
const exactDraws = 32

// drawSome simulates the statistics of a random number of the level's rows, from none to all, drawn without
// replacement; for many rows, and for labels other than 0 and 1, it uses an approximation.
func (s slot) drawSome(hash uint64) slot {
	draw := func(i int) float64 { return float64(Mix(hash+uint64(i))>>11) / (1 << 53) }
	share := draw(0)
	out := slot{n: math.Floor(share * s.n)}
	binary := s.sum >= 0 && s.sum <= s.n && s.sum == math.Trunc(s.sum) && s.n == math.Trunc(s.n)

	switch {
	case !binary:
		out.n, out.sum = share*s.n, share*s.sum
	case out.n <= exactDraws:
		for i := range int(out.n) {
			if draw(i+1)*(s.n-float64(i)) < s.sum-out.sum {
				out.sum++
			}
		}
	default:
		p := s.sum / s.n
		deviate := -6.0 // nearly normal: the sum of twelve uniform numbers
		for i := range 12 {
			deviate += draw(i + 1)
		}
		spread := math.Sqrt(out.n * p * (1 - p) * (s.n - out.n) / max(s.n-1, 1))
		out.sum = max(0, min(out.n, math.Round(float64(out.n*p)+float64(deviate*spread)), s.sum))
	}

	return out
}
