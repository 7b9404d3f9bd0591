package cell

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
)

// ColumnEncoder turns the raw values of one column into model values and bins of a feature. Staging and prediction
// share it. It is safe for concurrent use.
type ColumnEncoder struct {
	feature  *dataset.Feature
	markers  *Markers
	search   Searcher         // for numeric and time features
	codes    map[string]uint8 // bins of categories
	ints     map[int64]uint8  // bins of categories that are whole numbers
	meanings map[uint64]uint8 // bins of categories by level hash, which is the same for all spellings of a value
	missing  uint8            // the bin of missing values
	other    uint8            // the bin of other categories
}

// NewColumnEncoder returns an encoder for the values of a feature that is a column, or further categories of one. t has
// the texts that stand for a missing value.
func NewColumnEncoder(f *dataset.Feature, t *Markers) *ColumnEncoder {
	c := &ColumnEncoder{feature: f, markers: t}
	if f.Kind == dataset.Categorical {
		c.mapCategories()
		c.other = uint8(f.OtherBin)
		c.missing = c.other
		if f.MissingBin >= 0 {
			c.missing = uint8(f.MissingBin)
		}
		return c
	}

	c.search = NewSearcher(f.Bounds)
	c.missing = f.BinOfNumber(math.NaN())
	return c
}

// NewNumbers returns an encoder that reads a column as numbers or times (Numbers). It has no bins.
func NewNumbers(column string, kind dataset.Kind, t *Markers) *ColumnEncoder {
	return &ColumnEncoder{feature: &dataset.Feature{Name: column, Kind: kind}, markers: t}
}

// mapCategories fills in the maps from values to categories. A table may write a category differently from the training
// table, or with another type: 1001.0 for 1001, or a boolean for the text True. So codes is by spelling, meanings by
// what all spellings of a value have in common, and ints for both, for columns of whole numbers. categories looks a
// value up by its spelling first.
func (c *ColumnEncoder) mapCategories() {
	n := len(c.feature.Categories)
	c.codes, c.ints, c.meanings = make(map[string]uint8, n), map[int64]uint8{}, make(map[uint64]uint8, n)

	// By meaning. Going backwards, the first (most frequent) of the categories with the same meaning wins.
	r := PartReader{markers: NewMarkers(nil)}
	for i, category := range slices.Backward(c.feature.Categories) {
		c.codes[category] = uint8(i)
		c.meanings[r.hashText(category)] = uint8(i)

		text, number, _ := plainText(category, r.markers, nil)
		if number != nil { // plainText gives numbers apart from other texts
			text = string(number)
		}
		if n, ok := shortInt(text); ok {
			c.ints[n] = uint8(i)
		}
	}

	// A category that is written exactly as the number takes precedence over others with its meaning.
	for i, text := range c.feature.Categories {
		if n, ok := shortInt(text); ok {
			c.ints[n] = uint8(i)
		}
	}
}

// shortInt returns the whole number that is written as text. It is false for other spellings of numbers, such as 007.
func shortInt(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// Bins writes the bin of every value to out. buf is memory for numbers, which is returned, perhaps grown, for the next
// call. A value that is no number of the feature's kind is a *ValueError.
func (c *ColumnEncoder) Bins(v *dataset.Values, out []uint8, buf []float64) ([]float64, error) {
	if c.feature.Kind == dataset.Categorical {
		c.Categories(v, out)
		return buf, nil
	}
	numbers, buf, err := c.Numbers(v, buf)
	if err != nil {
		return buf, err
	}
	c.BinNumbers(numbers, out)
	return buf, nil
}

// BinNumbers writes the bins of numbers that Numbers has read to out.
func (c *ColumnEncoder) BinNumbers(numbers []float64, out []uint8) {
	c.search.Find(numbers, out, c.missing)
}

// Categories writes the bin of every value of a categorical feature to out.
func (c *ColumnEncoder) Categories(v *dataset.Values, out []uint8) {
	c.categories(v, out, &PartReader{markers: c.markers})
}

// categories is Categories with the memory of r.
func (c *ColumnEncoder) categories(v *dataset.Values, out []uint8, r *PartReader) {
	switch v.Type {
	case dataset.Text:
		for i, text := range v.Text {
			code, known := c.codes[text]
			switch {
			case v.IsNull(i) || c.markers.Has(text):
				code = c.missing
			case !known:
				code = c.codeOfMeaning(r.hashText(text))
			}
			out[i] = code
		}

	case dataset.Int:
		// c.ints has the numbers of all spellings, so no text has to be made.
		for i, n := range v.Int {
			code, known := c.ints[n]
			switch {
			case Missing(v, i, c.markers):
				code = c.missing
			case !known:
				code = c.other
			}
			out[i] = code
		}

	default:
		// By the value's text.
		for i := range out[:v.Len()] {
			r.buf = v.AppendText(r.buf[:0], i)
			code, known := c.codes[string(r.buf)]
			switch {
			case Missing(v, i, c.markers):
				code = c.missing
			case !known:
				code = c.codeOfMeaning(encode.Text(r.buf))
			}
			out[i] = code
		}
	}
}

// codeOfMeaning returns the bin of the category whose value has this level hash, whatever its spelling; the bin of
// missing values for their hash, and that of other categories for one that no category has.
func (c *ColumnEncoder) codeOfMeaning(level uint64) uint8 {
	if level == encode.Missing() {
		return c.missing
	}
	if code, known := c.meanings[level]; known {
		return code
	}
	return c.other
}

// Numbers returns the values of a numeric or time column as floats: times in seconds since 1970, missing values as NaN.
// numbers is the column's own slice if that can be used as it is, so it must not be written to. Otherwise it is
// scratch, which is buf, grown if needed. A value that can't be read is a *ValueError; numbers then mean nothing.
func (c *ColumnEncoder) Numbers(v *dataset.Values, buf []float64) (numbers, scratch []float64, err error) {
	if v.Type == dataset.Float && len(c.markers.Numbers) == 0 && c.feature.Kind != dataset.Temporal {
		return v.Float, buf, nil
	}

	buf = dataset.Resize(buf, v.Len())

	switch {
	case v.Type == dataset.Text:
		err = c.textNumbers(v, buf)
	// Times where the dataset has numbers, or the reverse. A column without values has an arbitrary type.
	case (v.Type == dataset.Time) != (c.feature.Kind == dataset.Temporal):
		if !allAbsent(v) {
			err = c.wrongType(v)
		}
		for i := range buf {
			buf[i] = math.NaN()
		}
	case v.Type == dataset.Time:
		for i, n := range v.Int {
			if v.IsNull(i) {
				buf[i] = math.NaN()
			} else {
				buf[i] = dataset.Seconds(v.Unit.Split(n))
			}
		}
	default:
		plainNumbers(v, c.markers, buf)
	}

	return buf, buf, err
}

// allAbsent reports whether no row has a value: all are null or NaN.
func allAbsent(v *dataset.Values) bool {
	for i := range v.Len() {
		if !v.IsNull(i) && !(v.Type == dataset.Float && math.IsNaN(v.Float[i])) {
			return false
		}
	}
	return true
}

// plainNumbers writes the values of a column of numbers or booleans to out, and NaN for missing ones.
func plainNumbers(v *dataset.Values, t *Markers, out []float64) {
	check := v.Null != nil || len(t.Numbers) > 0 // otherwise only NaN is missing, which stays as it is
	for i := range out {
		switch {
		case check && Missing(v, i, t):
			out[i] = math.NaN()
		case v.Type == dataset.Float:
			out[i] = v.Float[i]
		default:
			out[i] = float64(v.Int[i])
		}
	}
}

// textNumbers reads texts as numbers or, for a feature of times, as seconds since 1970, into out. Missing ones are NaN.
// A text that cannot be read is a *ValueError.
func (c *ColumnEncoder) textNumbers(v *dataset.Values, out []float64) error {
	for i, text := range v.Text {
		ok := true
		switch {
		case v.IsNull(i) || c.markers.Has(text):
			out[i] = math.NaN()
		case c.feature.Kind == dataset.Temporal:
			var sec, nsec int64
			sec, nsec, ok = ParseTime(text)
			out[i] = dataset.Seconds(sec, nsec)
		default:
			out[i], ok = ParseForced(text)
			if c.markers.HasNumber(out[i]) {
				out[i] = math.NaN()
			}
		}

		if !ok {
			return &ValueError{i, fmt.Sprintf("%.40q is not a %s", text, c.wanted())}
		}
	}
	return nil
}

// ValueError is a value that cannot be used. It does not know where its batch is in the table.
type ValueError struct {
	At  int // the value's place in the batch
	Msg string
}

func (e *ValueError) Error() string { return e.Msg }

// wrongType returns the error for a column of times where the feature has numbers, or the other way round.
func (c *ColumnEncoder) wrongType(v *dataset.Values) error {
	return &ValueError{0,
		fmt.Sprintf("the column holds values of type %s where the dataset has %ss; convert it as it was for training",
			v.Type, c.wanted())}
}

// wanted returns the word for a value of the feature, which has numbers or times.
func (c *ColumnEncoder) wanted() string {
	if c.feature.Kind == dataset.Temporal {
		return "time"
	}
	return "number"
}
