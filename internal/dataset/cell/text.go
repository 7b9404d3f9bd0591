package cell

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/dataset"
)

// Form is what a text looks like.
type Form uint8

// The forms.
const (
	FormText   Form = iota
	FormNumber      // a quantity
	FormDigits      // reads as a number but is likely an id: 0052, 623049e6
	FormBig         // a whole number that a float64 cannot represent exactly
	FormTime        // an ISO 8601 date or time
)

// numeral is a decimal number as it is written.
type numeral struct {
	mantissa       uint64 // all digits; wrong beyond 19 of them
	digits         int
	fraction       int  // digits after the point
	signed         bool // a sign before the number
	point          bool
	zeros          bool // leading zeros before further digits
	exponent       bool
	exponentSigned bool
}

// scanNumeral reads a text as a decimal number. ok is false if it is none, or if something follows it. Then n.digits is
// 0 if the text does not even begin like a number.
func scanNumeral(s string) (n numeral, ok bool) {
	i := 0
	if s != "" && (s[0] == '-' || s[0] == '+') {
		n.signed = true
		i = 1
	}

	// The whole part and the fraction, of which one may be missing.
	whole := i
	i = n.scanDigits(s, i)
	n.zeros = i-whole > 1 && s[whole] == '0'

	if i < len(s) && s[i] == '.' {
		n.point = true
		from := i + 1
		i = n.scanDigits(s, from)
		n.fraction = i - from
	}

	if n.digits == 0 {
		return n, false
	}

	// The exponent: e or E, a sign, and at least one digit.
	if i < len(s) && s[i]|0x20 == 'e' {
		n.exponent = true
		i++
		if i < len(s) && (s[i] == '-' || s[i] == '+') {
			n.exponentSigned = true
			i++
		}

		from := i
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		return n, i > from && i == len(s)
	}
	return n, i == len(s)
}

// scanDigits adds the digits of s from position i on to the mantissa, and returns the position after them.
func (n *numeral) scanDigits(s string, i int) int {
	for ; i < len(s) && isDigit(s[i]); i++ {
		n.mantissa = n.mantissa*10 + uint64(s[i]-'0')
		n.digits++
	}
	return i
}

// ParseNumber reads a decimal number and says what it looks like. Infinities and NaN are numbers, too. Forms of
// programming languages, such as hexadecimal digits and underscores, are FormText, and so is anything else.
func ParseNumber(s string) (float64, Form) {
	s = Trim(s)
	n, ok := scanNumeral(s)
	switch {
	case n.digits == 0:
		return parseWord(s)
	case !ok:
		return 0, FormText
	}

	x := n.nearestFloat(s)

	// 0052 and 623049e6 are likely ids, and so is a number that is too large for a float64 (NaN).
	switch {
	case n.zeros, x != x, n.exponent && !n.signed && !n.exponentSigned && !n.point:
		return x, FormDigits
	case !n.exponent && !n.point && n.digits > 15 && !exactWhole(s, x):
		return x, FormBig
	}
	return x, FormNumber
}

// plainNumber reads a number such as 17, 17.0 or -0.5, without exponent and leading zeros. It has at most 15 digits, so
// that different numbers are different float64s.
func plainNumber(s string) (float64, bool) {
	s = Trim(s)
	n, ok := scanNumeral(s)
	if !ok || n.exponent || n.zeros || n.digits > 15 {
		return 0, false
	}
	return n.nearestFloat(s), true
}

// powers are the powers of ten that a float64 represents exactly.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// nearestFloat returns the float64 nearest to the number that s spells; NaN if it is beyond their range. n is what
// scanNumeral says of s.
func (n *numeral) nearestFloat(s string) float64 {
	if n.exponent || n.digits > 15 || n.fraction >= len(powers) {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil { // beyond the range, as 1e999 is: no quantity that a row can have
			return math.NaN()
		}
		return x
	}

	// Up to 15 digits and the power of ten are both exact, so one division gives the nearest float64 (W. D. Clinger,
	// How to read floating point numbers accurately, 1990).
	x := float64(n.mantissa) / powers[n.fraction]
	if s[0] == '-' {
		return -x
	}
	return x
}

// exactWhole reports whether s spells a whole number that x, its nearest float64, is exactly: up to 2^53.
func exactWhole(s string, x float64) bool {
	if math.Abs(x) > dataset.MaxExact {
		return false
	}
	v, err := strconv.ParseInt(strings.TrimPrefix(s, "+"), 10, 64)
	return err == nil && v <= dataset.MaxExact && v >= -dataset.MaxExact
}

// parseWord reads inf, infinity and nan, with or without a sign and in any case, as R, Python, C and SQL write them.
func parseWord(s string) (float64, Form) {
	sign, word := 1.0, s
	if len(word) > 0 && (word[0] == '-' || word[0] == '+') {
		if word[0] == '-' {
			sign = -1
		}
		word = word[1:]
	}

	switch {
	case len(word) < 3 || len(word) > 8:
		return 0, FormText
	case strings.EqualFold(word, "inf") || strings.EqualFold(word, "infinity"):
		return math.Inf(int(sign)), FormNumber
	case strings.EqualFold(word, "nan"):
		return math.NaN(), FormNumber
	}
	return 0, FormText
}

// shortNumber does what ParseForced does, faster, for the texts that most numbers are: up to 15 digits, with or without
// a minus sign and a point, in at most 16 bytes, and nothing else. It is false for all others.
func shortNumber(s string) (x float64, ok bool) {
	if len(s) > 16 {
		return 0, false
	}
	mantissa, digits, fraction := uint64(0), 0, 0
	from := 0
	if s != "" && s[0] == '-' {
		from = 1
	}
	for i := from; i < len(s); i++ {
		switch c := s[i] - '0'; {
		case c <= 9:
			mantissa = mantissa*10 + uint64(c)
			digits++
		case s[i] == '.' && fraction == 0:
			fraction = len(s) - i // 1 + the digits after the point, so that it is not 0 after a point
		default:
			return 0, false
		}
	}
	if digits == 0 || digits > 15 {
		return 0, false
	}
	x = float64(mantissa) / powers[max(fraction-1, 0)] // the nearest float64, as in nearestFloat
	if from == 1 {
		x = -x
	}
	return x, true
}

// ParseForced reads a number where the spec says that there are numbers. Unlike for ParseNumber, digits that look like
// an id are a number, and true and false are 1 and 0.
func ParseForced(s string) (float64, bool) {
	if x, ok := shortNumber(s); ok {
		return x, true
	}
	x, f := ParseNumber(s)
	if f != FormText {
		return x, true
	}
	switch s = Trim(s); {
	case strings.EqualFold(s, "true"):
		return 1, true
	case strings.EqualFold(s, "false"):
		return 0, true
	}
	return 0, false
}

// isDigit reports whether c is 0 to 9. A byte below '0' wraps around to a large number.
func isDigit(c byte) bool { return c-'0' <= 9 }

// Trim removes spaces and tabs from both ends.
func Trim(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// Markers is the set of texts that stand for a missing value ("missing markers").
type Markers struct {
	texts   map[string]struct{}
	lengths uint64    // bit n is set if some marker has n bytes; bit 63 stands for 63 and more
	first   [256]bool // the bytes with which markers begin
	Numbers []float64 // markers that are numbers: they also stand for a missing value in columns of numbers
}

// NewMarkers returns the markers with these texts. Spaces and tabs around them do not matter.
func NewMarkers(texts []string) *Markers {
	t := &Markers{texts: map[string]struct{}{}}
	for _, text := range texts {
		text = Trim(text)
		t.texts[text] = struct{}{}
		t.lengths |= 1 << min(63, len(text))
		if text != "" {
			t.first[text[0]] = true
		}
		if x, f := ParseNumber(text); f != FormText && x == x {
			t.Numbers = append(t.Numbers, x)
		}
	}
	return t
}

// OfDerived returns the markers for derived values, without Numbers: an hour of 6 is never missing.
func (t *Markers) OfDerived() *Markers {
	return &Markers{texts: t.texts, lengths: t.lengths, first: t.first}
}

// Has reports whether the text s stands for a missing value.
func (t *Markers) Has(s string) bool {
	s = Trim(s)

	// Most texts have a length or a first byte that no marker has.
	if t.lengths>>min(63, len(s))&1 == 0 || s != "" && !t.first[s[0]] {
		return false
	}
	_, ok := t.texts[s]
	return ok
}

// Spelt reports whether s is any spelling of a plain number that stands for a missing value, such as -99.0 for -99.
func (t *Markers) Spelt(s string) bool {
	x, ok := plainNumber(s)
	return ok && t.HasNumber(x)
}

// HasNumber reports whether the number x stands for a missing value.
func (t *Markers) HasNumber(x float64) bool { return slices.Contains(t.Numbers, x) }
