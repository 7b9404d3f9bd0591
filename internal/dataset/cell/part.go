package cell

import (
	"math"
	"sort"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
)

// PartReader turns the raw values of a column into the hashes that a part contributes to levels, in staging and in
// prediction alike.
type PartReader struct {
	Part    dataset.Part
	markers *Markers
	encoder *ColumnEncoder // of numbers and times
	ranges  []uint64       // hashes of the ranges' numbers
	search  *Searcher      // of the ranges; nil if there are too many
	bins    []uint8
	buf     []byte
	x       []float64
}

// Parts are parts without duplicates, in the order in which they were added.
type Parts struct {
	All      []dataset.Part
	byColumn map[string][]int
}

// Add returns a part's index, and whether it is new.
func (p *Parts) Add(part dataset.Part) (number int, added bool) {
	for _, i := range p.byColumn[part.Column] {
		if p.All[i].Same(part) {
			return i, false
		}
	}
	if p.byColumn == nil {
		p.byColumn = map[string][]int{}
	}
	number = len(p.All)
	p.byColumn[part.Column] = append(p.byColumn[part.Column], number)
	p.All = append(p.All, part)
	return number, true
}

// NewPartReader returns a reader of one part of a key; t are the texts that stand for a missing value.
func NewPartReader(p dataset.Part, t *Markers) *PartReader {
	r := &PartReader{Part: p, markers: t}
	if p.Kind == dataset.Categorical {
		return r
	}
	r.encoder = NewNumbers(p.Column, p.Kind, t)
	if len(p.Bounds) > 0 {
		for i := range len(p.Bounds) + 1 {
			r.ranges = append(r.ranges, encode.Range(i))
		}
		if len(p.Bounds) < dataset.MaxBins {
			search := NewSearcher(p.Bounds)
			r.search = &search
		}
	}
	return r
}

// Hashes writes the hash of every value.
func (r *PartReader) Hashes(v *dataset.Values, out []uint64) error {
	if r.encoder == nil {
		r.Texts(v, out)
		return nil
	}

	numbers, buf, err := r.encoder.Numbers(v, r.x)
	if r.x = buf; err != nil {
		return err
	}

	r.hashNumbers(numbers, out)
	return nil
}

// hashNumbers hashes a column's numbers: as their range, if the part has ranges, or as they are, after Take.
func (r *PartReader) hashNumbers(numbers []float64, out []uint64) {
	if r.search != nil && r.Part.Take == "" {
		r.bins = dataset.Resize(r.bins, len(numbers))
		r.search.Find(numbers, r.bins, 0)
		for i, x := range numbers {
			if out[i] = r.ranges[r.bins[i]]; x != x {
				out[i] = encode.Missing()
			}
		}
		return
	}
	for i, x := range numbers {
		if r.Part.Take != "" {
			x = Take(r.Part.Take, x)
		}

		switch {
		case r.ranges == nil || x != x:
			out[i] = encode.Number(Clamp(x))
		default:
			out[i] = r.ranges[sort.SearchFloat64s(r.Part.Bounds, x)]
		}
	}
}

// textCache is how many of a batch's texts are cached with their hashes.
const textCache = 256

// Texts hashes the values of a categorical column by their normalised text.
func (r *PartReader) Texts(v *dataset.Values, out []uint64) {
	if v.Type != dataset.Text {
		for i := range out {
			if Missing(v, i, r.markers) {
				out[i] = encode.Missing()
				continue
			}
			r.buf = v.AppendText(r.buf[:0], i)
			out[i] = encode.Text(r.buf)
		}
		return
	}

	// A batch's texts repeat, and those of a dictionary share their memory, which makes comparing them immediate.
	var known [textCache]struct {
		text string
		hash uint64
	}
	for i := range out {
		if v.IsNull(i) {
			out[i] = encode.Missing()
			continue
		}
		s := v.Text[i]
		if s == "" {
			out[i] = r.textOrMissing(s)
			continue
		}
		k := &known[(len(s)*7^int(s[0])*5^int(s[len(s)-1])^int(s[len(s)/2])*3)%textCache]
		if k.text != s {
			k.text, k.hash = s, r.textOrMissing(s)
		}
		out[i] = k.hash
	}
}

func (r *PartReader) textOrMissing(s string) uint64 {
	if r.markers.Has(s) {
		return encode.Missing()
	}
	return r.hashText(s)
}

// hashText hashes a text as plainText spells it.
func (r *PartReader) hashText(s string) uint64 {
	text, number, missing := plainText(s, r.markers, r.buf)
	switch {
	case missing:
		return encode.Missing()
	case number != nil:
		r.buf = number
		return encode.Text(number)
	}
	return encode.Text(text)
}

// Clamp replaces infinities by the largest finite numbers, since JSON and models cannot hold infinities; NaN
// stays NaN.
func Clamp(x float64) float64 { return max(-math.MaxFloat64, min(math.MaxFloat64, x)) }

// Take returns the calendar value of a time in seconds since 1970, in UTC; NaN for NaN.
func Take(what dataset.Derivation, seconds float64) float64 {
	day := math.Floor(seconds / SecondsPerDay)
	switch what {
	case dataset.DeriveHour:
		return (seconds - float64(day*SecondsPerDay)) / 3600
	case dataset.DeriveWeekday: // 1970-01-01 was a Thursday
		if math.Abs(day) < 1<<53 {
			return float64(((int64(day)+3)%7 + 7) % 7)
		}
		return math.Mod(math.Mod(day+3, 7)+7, 7)
	}
	return seconds
}

// SecondsPerDay has no leap second, as Unix time has none.
const SecondsPerDay = 86400

// Age is the number of days from then to now, both in seconds.
func Age(now, then float64) float64 { return (now - then) / SecondsPerDay }
