package search

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"

	rng "coppice/internal/random"
	"coppice/internal/sweep"
)

// sampler draws one parameter.
type sampler struct {
	name string
	key  string                // key of its draws: the name, or the alias in the spec
	size uint64                // number of values; 0 if uncountable
	draw func(bits uint64) any // from 64 random bits
	at   func(i uint64) any    // value i of size
}

// maxWhole is the largest number up to which every whole number is exact in a float64.
const maxWhole = 1 << 53

// digits is the number of significant digits that drawn numbers are rounded to, unless their range is narrow: few
// enough to be read and typed exactly.
const digits = 6

// newSampler returns the sampler of a distribution, whose key is still to be set. The bounds are those that
// sweep.ParseSpec requires. They are checked again, for distributions that have not passed through it.
func newSampler(name string, d sweep.Distribution) (sampler, error) {
	switch {
	case len(d.Uniform) == 2 && d.Uniform[0] < d.Uniform[1] && sweep.Finite(d.Uniform[1]-d.Uniform[0]):
		return uniform(name, d.Uniform[0], d.Uniform[1]), nil
	case len(d.LogUniform) == 2 && 0 < d.LogUniform[0] && d.LogUniform[0] < d.LogUniform[1] &&
		sweep.Finite(d.LogUniform[1]):
		return logUniform(name, d.LogUniform[0], d.LogUniform[1]), nil
	case len(d.Int) == 2 && d.Int[0] <= d.Int[1] && -maxWhole <= d.Int[0] && d.Int[1] <= maxWhole:
		low, size := d.Int[0], uint64(d.Int[1]-d.Int[0])+1
		return newCountedSampler(name, size, func(i uint64) any { return float64(low + int64(i)) }), nil
	case len(d.LogInt) == 2 && 1 <= d.LogInt[0] && d.LogInt[0] <= d.LogInt[1] && d.LogInt[1] <= maxWhole:
		return logInt(name, d.LogInt[0], d.LogInt[1]), nil
	case len(d.Step) == 3 && d.Step[0] <= d.Step[1] && d.Step[2] > 0 && (d.Step[1]-d.Step[0])/d.Step[2] <= 1e6:
		// The upper bound is a value if whole steps lead to it, up to rounding: hence the 1e-9. Values are rounded to
		// 12 digits, so that 0.1 + 2 x 0.1 is 0.3.
		low, step := d.Step[0], d.Step[2]
		size := uint64(math.Floor((d.Step[1]-low)/step+1e-9)) + 1
		return newCountedSampler(name, size, func(i uint64) any { return round(low+float64(float64(i)*step), 12) }), nil
	case len(d.Choice) > 0:
		return choice(name, d.Choice), nil
	}

	return sampler{}, specErrorf("random "+name, "nothing can be drawn from %+v", d)
}

// newCountedSampler returns a sampler that draws each of size values with equal probability; at returns value i.
func newCountedSampler(name string, size uint64, at func(uint64) any) sampler {
	return sampler{name: name, size: size, at: at, draw: func(r uint64) any {
		i, _ := bits.Mul64(r, size) // of r / 2^64 x size, the whole part
		return at(i)
	}}
}

// choice returns a sampler that draws each entry of a list with equal probability. Listing a value twice doubles its
// probability, but it is still one value of the space.
func choice(name string, values []any) sampler {
	distinct, _ := levels(values)
	s := newCountedSampler(name, uint64(len(distinct)), func(i uint64) any { return distinct[i] })
	s.draw = newCountedSampler(name, uint64(len(values)), func(i uint64) any { return values[i] }).draw
	return s
}

// uniform returns a sampler that draws numbers evenly from low to high, without high, and rounds them to a few digits.
func uniform(name string, low, high float64) sampler {
	// A range that is narrow for the size of its numbers gets more digits, so that it still has ten thousand values or
	// more. From 100 to 101, for instance, there are seven: the powers of ten are 2 and 0, and 2 - 0 + 5 = 7.
	largest := math.Max(math.Abs(low), math.Abs(high))
	precision := max(digits, int(math.Floor(math.Log10(largest)))-int(math.Floor(math.Log10(high-low)))+digits-1)
	return sampler{name: name, draw: func(r uint64) any {
		return rounded(low+float64(unit(r)*(high-low)), low, high, precision)
	}}
}

// logUniform returns a sampler that draws numbers from low to high, without high, whose logarithm is evenly
// distributed. As with uniform, they are rounded to a few digits, and to more if the range is narrow: three more if
// high is 1 % above low.
func logUniform(name string, low, high float64) sampler {
	ratio := math.Log(high / low)
	precision := max(digits, digits-int(math.Floor(math.Log10(ratio))))
	return sampler{name: name, draw: func(r uint64) any {
		return rounded(low*math.Exp(unit(r)*ratio), low, high, precision)
	}}
}

// logInt returns a sampler that draws whole numbers from low to high, whose logarithm is evenly distributed. It draws
// from a range that is half a step wider at both ends and rounds, so that the ends are as likely as their neighbours.
func logInt(name string, low, high int64) sampler {
	a, b := math.Log(float64(low)-0.5), math.Log(float64(high)+0.5)
	s := newCountedSampler(name, uint64(high-low)+1, func(i uint64) any { return float64(low + int64(i)) })
	s.draw = func(r uint64) any {
		v := math.Round(math.Exp(a + float64(unit(r)*(b-a))))
		return min(max(v, float64(low)), float64(high))
	}
	return s
}

// unit returns a number in [0, 1) from the upper 53 of 64 random bits.
func unit(r uint64) float64 { return float64(r>>11) / (1 << 53) }

// rounded returns v with so many significant digits if that is in [low, high), else v itself, moved into [low, high).
func rounded(v, low, high float64, precision int) float64 {
	if r := round(v, precision); r >= low && r < high {
		return r
	}
	return min(max(v, low), math.Nextafter(high, low))
}

// round rounds v to a number of significant digits, as decimal text does, so that it prints with that many.
func round(v float64, precision int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', min(precision, 17), 64), 64)
	if err != nil {
		return v // rounded up beyond the largest float64
	}
	return r + 0 // -0 becomes 0
}

// random is a counter-based generator: 64 bits for each (seed, number of the draw, parameter), so that adding a
// parameter, or drawing more often, does not change the others. It applies SplitMix64's finalizer (Steele, Lea and
// Flood 2014) to the three in turn, with the name as its FNV-1a hash.
func random(seed, draw uint64, name string) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		hash = (hash ^ uint64(name[i])) * 0x100000001b3
	}
	x := rng.Mix(seed + rng.Step)
	x = rng.Mix((x ^ draw) + rng.Step)
	return rng.Mix((x ^ hash) + rng.Step)
}

// space is the product of the parameters in search.random, or of a grid's.
type space struct {
	samplers []sampler // by key
	size     uint64    // number of configurations; 0 if uncountable
}

// newSpace returns the space of search.random. Its parameters are ordered and drawn by the names that the spec writes,
// which may be aliases of the trainer's names, such as eta. So a spec draws the same values whenever it is planned. An
// error is about the spec.
func newSpace(s sweep.Search) (space, error) {
	var samplers []sampler
	written := func(name string) string { return cmp.Or(s.Random[name].DrawnAs, name) }
	names := slices.SortedFunc(maps.Keys(s.Random),
		func(a, b string) int { return cmp.Compare(written(a), written(b)) })
	for _, name := range names {
		one, err := newSampler(name, s.Random[name])
		if err != nil {
			return space{}, err
		}
		one.key = written(name)
		samplers = append(samplers, one)
	}
	return productOf(samplers), nil
}

// productOf returns the space of all combinations of the samplers' values. Without samplers it has no configuration.
// Its size is 0 if a sampler's is, or if the product does not fit in 64 bits.
func productOf(samplers []sampler) space {
	size := min(1, uint64(len(samplers)))
	for _, one := range samplers {
		overflow, product := bits.Mul64(size, one.size)
		size = product
		if overflow != 0 {
			size = 0 // and remains so
		}
	}
	return space{samplers: samplers, size: size}
}

// countable reports whether the space can be enumerated.
func (s space) countable() bool { return s.size > 0 && s.size <= maxEnumerated }

// draw returns the configuration of a draw, which depends on the seed and the draw's number only.
func (s space) draw(seed, number uint64) map[string]any {
	params := make(map[string]any, len(s.samplers))
	for _, one := range s.samplers {
		params[one.name] = one.draw(random(seed, number, one.key))
	}
	return params
}

// at returns configuration i of a countable space; the first parameter changes fastest.
func (s space) at(i uint64) map[string]any {
	params := make(map[string]any, len(s.samplers))
	for _, one := range s.samplers {
		params[one.name] = one.at(i % one.size)
		i /= one.size
	}
	return params
}

// order returns the numbers of all configurations of a countable space, shuffled by the seed.
func (s space) order(seed uint64) []uint64 {
	all := make([]uint64, s.size)
	for i := range all {
		all[i] = uint64(i)
	}
	slices.SortFunc(all, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(random(seed, a, ""), random(seed, b, "")), cmp.Compare(a, b))
	})
	return all
}
