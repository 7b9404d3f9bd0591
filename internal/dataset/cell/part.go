package cell

import (
	"math"
	"sort"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
)

// PartReader turns the raw values of a column into the hashes that a part of a key has in each row, in staging and in
// prediction alike. It reuses its memory, so it is not safe for concurrent use.
type PartReader struct {
	Part    dataset.Part
	markers *Markers
	encoder *ColumnEncoder // reads numbers and times; nil for a categorical column
	ranges  []uint64       // the hash of each range; nil if the part has none
	search  *Searcher      // finds a number's range; nil if there are too many ranges for a byte
	bins    []uint8
	buf     []byte
	x       []float64
}

// Parts is a list of parts without duplicates, in the order in which they were added.
type Parts struct {
	All      []dataset.Part
	byColumn map[string][]int
}

// Add adds a part, unless the list has it, and returns its index and whether it is new.
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

// NewPartReader returns a reader of the part p. t has the texts that stand for a missing value.
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

// Hashes writes the hash of every value of the part's column to out. A value that is no number or time, where the part
// has these, is a *ValueError.
func (r *PartReader) Hashes(v *dataset.Values, out []uint64) error {
	if r.encoder == nil {
		r.Texts(v, out)
		return nil
	}

	numbers, buf, err := r.encoder.Numbers(v, r.x)
	r.x = buf
	if err != nil {
		return err
	}

	r.hashNumbers(numbers, out)
	return nil
}

// hashNumbers writes the hashes of a column's numbers to out: of the range that a number is in, if the part has ranges,
// or of the number. A time is first turned into its hour or weekday if the part takes that.
func (r *PartReader) hashNumbers(numbers []float64, out []uint64) {
	if r.search != nil && r.Part.Take == "" {
		r.bins = dataset.Resize(r.bins, len(numbers))
		r.search.Find(numbers, r.bins, 0)
		for i, x := range numbers {
			out[i] = r.ranges[r.bins[i]]
			if x != x {
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

// Texts writes the hashes of a column's values as texts to out. All spellings of a value have the same hash
// (plainText).
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

	// The texts of a batch repeat, so keep the hashes of some. Texts of a Parquet dictionary share their memory, so
	// that comparing them takes no time. The place of a text in known depends on its length and three of its bytes,
	// each times another odd number, so that similar texts have different places.
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
		if s == "" { // it has no bytes to choose a place by, and would equal the text of a place not yet used
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

// textOrMissing returns the hash of a text, or that of missing values if the text stands for one.
func (r *PartReader) textOrMissing(s string) uint64 {
	if r.markers.Has(s) {
		return encode.Missing()
	}
	return r.hashText(s)
}

// hashText returns the hash of a text in the spelling of plainText, or that of missing values if it is a number that
// stands for one.
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

// Clamp replaces infinities by the largest finite numbers, since JSON and models cannot hold infinities. NaN stays NaN.
func Clamp(x float64) float64 { return max(-math.MaxFloat64, min(math.MaxFloat64, x)) }

// Take returns the hour or the weekday of a time in seconds since 1970, in UTC. For other derivations it returns the
// time; for NaN it returns NaN.
func Take(what dataset.Derivation, seconds float64) float64 {
	day := math.Floor(seconds / SecondsPerDay)
	switch what {
	case dataset.DeriveHour: // the conversion to float64 prevents a fused multiply-add
		return (seconds - float64(day*SecondsPerDay)) / 3600
	case dataset.DeriveWeekday: // 1970-01-01 was a Thursday, day 3 of the week
		if math.Abs(day) < 1<<53 { // whole numbers are exact, and faster than the remainders of floats below
			return float64(((int64(day)+3)%7 + 7) % 7)
		}
		return math.Mod(math.Mod(day+3, 7)+7, 7)
	}
	return seconds
}

// SecondsPerDay is the length of each day of Unix time, which has no leap seconds.
const SecondsPerDay = 86400

// Age returns the number of days from then to now, both in seconds.
func Age(now, then float64) float64 { return (now - then) / SecondsPerDay }
