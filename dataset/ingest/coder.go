package ingest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"coppice/dataset"
)

// coder turns the raw values of one column into model values and bins of a feature. Whoever stages and whoever predicts
// uses this one.
type coder struct {
	feature *dataset.Feature
	tokens  *tokens
	search  searcher          // of numeric and time features
	codes   map[string]uint8  // of categories
	floats  map[float64]uint8 // of categories that are numbers
	ints    map[int64]uint8   // of categories that are whole numbers
	truths  [2]int            // of categories that say false and true; -1 where none does
	missing uint8             // bin
	other   uint8             // bin of categorical features
}

func newCoder(f *dataset.Feature, t *tokens) *coder {
	c := &coder{feature: f, tokens: t}
	if f.Kind == dataset.Categorical {
		c.mapCategories()
		c.other = uint8(f.OtherBin)
		c.missing = c.other
		if f.MissingBin >= 0 {
			c.missing = uint8(f.MissingBin)
		}
		return c
	}

	c.search = newSearcher(f.Bounds)
	c.missing = f.BinOfNumber(math.NaN())
	return c
}

// mapCategories says which category stands for what. A table may hold numbers and truth values where the training table held
// texts such as 1.0 and True: where no category is written as they are, the first one that means the same counts.
func (c *coder) mapCategories() {
	n := len(c.feature.Categories)
	c.codes, c.floats, c.ints, c.truths = make(map[string]uint8, n), map[float64]uint8{}, map[int64]uint8{}, [2]int{-1, -1}

	// From the last to the first, so that the first of those that mean the same counts.
	for i, text := range slices.Backward(c.feature.Categories) {
		c.codes[text] = uint8(i)
		if x, ok := plainNumber(text); ok {
			c.floats[x] = uint8(i)
			if x == math.Trunc(x) {
				c.ints[int64(x)] = uint8(i)
			}
		}
		for truth, word := range []string{"false", "true"} {
			if strings.EqualFold(trim(text), word) {
				c.truths[truth] = i
			}
		}
	}

	// A text that is exactly how a number is written goes first.
	for i, text := range c.feature.Categories {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
			c.ints[n] = uint8(i)
		}
	}
}

// meaning is the category that means value i though it is written otherwise.
func (c *coder) meaning(v *dataset.Values, i int) (code uint8, known bool) {
	switch v.Type {
	case dataset.Float:
		code, known = c.floats[v.Float[i]]
	case dataset.Bool:
		truth := c.truths[v.Int[i]&1]
		return uint8(truth), truth >= 0
	}
	return code, known
}

// bins writes the bin of every value. buf is for its own use; it gives it back, perhaps grown.
func (c *coder) bins(v *dataset.Values, out []uint8, buf []float64) ([]float64, error) {
	if c.feature.Kind == dataset.Categorical {
		c.categories(v, out)
		return buf, nil
	}
	numbers, buf, err := c.numbers(v, buf)
	if err != nil {
		return buf, err
	}
	c.search.find(numbers, out, c.missing)
	return buf, nil
}

// values writes the model value of every value to out[0], out[stride] ...
func (c *coder) values(v *dataset.Values, out []float64, stride int) error {
	n := v.Len()
	if c.feature.Kind == dataset.Categorical {
		codes := make([]uint8, n)
		c.categories(v, codes)
		for i, code := range codes {
			out[i*stride] = float64(code)
		}
		return nil
	}

	numbers, _, err := c.numbers(v, nil)
	if err != nil {
		return err
	}

	for i, x := range numbers {
		out[i*stride] = max(-math.MaxFloat64, min(math.MaxFloat64, x)) // NaN stays NaN
	}
	return nil
}

func (c *coder) categories(v *dataset.Values, out []uint8) {
	switch v.Type {
	case dataset.Text:
		// A text is a category only where it is written exactly so.
		for i, text := range v.Text {
			code, known := c.codes[text]
			switch {
			case v.IsNull(i) || c.tokens.has(text):
				code = c.missing
			case !known:
				code = c.other
			}
			out[i] = code
		}

	case dataset.Int:
		// The map holds both how a number is written and what only means the same, so no text has to be made of it.
		for i, n := range v.Int {
			code, known := c.ints[n]
			switch {
			case missing(v, i, c.tokens):
				code = c.missing
			case !known:
				code = c.other
			}
			out[i] = code
		}

	default:
		// As it is written or, where no category is written so, as what it means.
		var buf []byte
		for i := range out[:v.Len()] {
			buf = v.AppendText(buf[:0], i)
			code, known := c.codes[string(buf)]
			if !known {
				code, known = c.meaning(v, i)
			}

			switch {
			case missing(v, i, c.tokens):
				code = c.missing
			case !known:
				code = c.other
			}
			out[i] = code
		}
	}
}

// numbers are the values of a numeric or time column as model numbers, NaN for those that are missing: the column's own
// slice where it is one already, otherwise buf.
func (c *coder) numbers(v *dataset.Values, buf []float64) (numbers, _ []float64, err error) {
	if v.Type == dataset.Float && len(c.tokens.numbers) == 0 {
		if c.feature.Kind == dataset.Temporal {
			return nil, buf, c.wrongType(v)
		}
		return v.Float, buf, nil
	}

	buf = resize(buf, v.Len())

	switch {
	case v.Type == dataset.Text:
		err = c.textNumbers(v, buf)
	case (v.Type == dataset.Time) != (c.feature.Kind == dataset.Temporal): // seconds where milliseconds may have been, or the reverse
		err = c.wrongType(v)
	case v.Type == dataset.Time:
		for i, n := range v.Int {
			if v.IsNull(i) {
				buf[i] = math.NaN()
			} else {
				buf[i] = dataset.Seconds(v.Unit.Split(n))
			}
		}
	default:
		plainNumbers(v, c.tokens, buf)
	}

	return buf, buf, err
}

// plainNumbers reads columns of numbers and of truth values.
func plainNumbers(v *dataset.Values, t *tokens, out []float64) {
	check := v.Null != nil || len(t.numbers) > 0
	for i := range out {
		switch {
		case check && missing(v, i, t):
			out[i] = math.NaN()
		case v.Type == dataset.Float:
			out[i] = v.Float[i]
		default:
			out[i] = float64(v.Int[i])
		}
	}
}

func (c *coder) textNumbers(v *dataset.Values, out []float64) error {
	for i, text := range v.Text {
		ok := true
		switch {
		case v.IsNull(i) || c.tokens.has(text):
			out[i] = math.NaN()
		case c.feature.Kind == dataset.Temporal:
			var sec, nsec int64
			sec, nsec, ok = parseTime(text)
			out[i] = dataset.Seconds(sec, nsec)
		default:
			if out[i], ok = parseForced(text); c.tokens.hasNumber(out[i]) {
				out[i] = math.NaN()
			}
		}

		if !ok {
			return &valueError{i, fmt.Sprintf("%q is not a %s", brief(text), map[dataset.Kind]string{dataset.Numeric: "number", dataset.Temporal: "time"}[c.feature.Kind])}
		}
	}
	return nil
}

func (c *coder) wrongType(v *dataset.Values) error {
	want := map[dataset.Kind]string{dataset.Numeric: "numbers", dataset.Temporal: "times"}[c.feature.Kind]
	return &valueError{0, fmt.Sprintf("the column holds values of type %s where the dataset has %s; convert it as it was for training", v.Type, want)}
}
