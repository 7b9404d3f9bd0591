package cell

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/dataset"
)

// marked has the expressions for numbers that are written for readers, such as $1,234.50 or 12 %, by the format.
var marked = map[dataset.Format]*regexp.Regexp{
	dataset.AsNumber: markedNumber(",", `\.`), dataset.DecimalComma: markedNumber(`\.`, ",")}

// markedNumber returns the expression for a number with these separators, which are regular expressions. Its groups
// are: a sign, a currency, a sign after it, the whole part, the fraction, an exponent, and a unit.
func markedNumber(thousands, decimal string) *regexp.Regexp {
	return regexp.MustCompile(`^([+-]?)([$€£¥₹]?)[ \x{a0}]?([+-]?)([1-9][0-9]{0,2}(?:(?:` + thousands +
		`[0-9]{3})+|(?:'[0-9]{3})+|(?:[ \x{a0}\x{202f}][0-9]{3})+)|0|[1-9][0-9]*|)(?:` + decimal +
		`([0-9]+))?([eE][+-]?[0-9]+)?[ \x{a0}\x{202f}]?(%|[$€£¥₹]|[kKM]B?|[GT]B)?$`)
}

var (
	scales   = map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
	notDigit = regexp.MustCompile(`[^0-9]`)
	orders   = map[dataset.Format]DayOrder{dataset.DayFirst: DayFirst, dataset.MonthFirst: MonthFirst}
	formats  = [...]dataset.Format{dataset.AsNumber, dataset.DecimalComma, dataset.DayFirst, dataset.MonthFirst}
)

// Indices of formats.
const (
	asNumber = iota
	decimalComma
	dayFirst
	monthFirst
)

// parseMarked reads a number that is written for readers, in the format f, and returns its unit: the currency or %, or
// both as they are written. A scale, such as the M of 25M or the MB of 25MB, multiplies the number and is no unit. In
// the format AsNumber, all that ParseNumber reads is a number as well, without a unit.
func parseMarked(s string, f dataset.Format) (x float64, unit string, ok bool) {
	if x, form := ParseNumber(s); form != FormText && f == dataset.AsNumber {
		return x, "", true
	}
	m := marked[f].FindStringSubmatch(Trim(s))
	if m == nil {
		return 0, "", false
	}
	sign, lateSign, currency := m[1], m[3], m[2]
	whole, fraction, exponent, after := notDigit.ReplaceAllString(m[4], ""), m[5], m[6], m[7]
	if whole+fraction == "" || sign != "" && lateSign != "" {
		return 0, "", false
	}

	// The only possible error is a number beyond a float64, of which x is then an infinity.
	x, _ = strconv.ParseFloat(sign+lateSign+whole+"."+fraction+exponent, 64)
	if scale, scaled := scales[strings.TrimSuffix(after, "B")]; scaled {
		return x * scale, currency, true
	}
	return x, currency + after, true
}

// ReadAs reads a column of texts in a format: as numbers, or in the format of a date as times in microseconds. t has
// the texts that stand for a missing value; missing numbers are NaN and missing times null. Any other text that is not
// in the format is an error with its row, and the values then mean nothing.
func ReadAs(f dataset.Format, v *dataset.Values, t *Markers) (dataset.Values, *ValueError) {
	order, isTime := orders[f]
	out := dataset.Values{Type: dataset.Float, Float: make([]float64, v.Len())}
	if isTime {
		out = dataset.Values{Type: dataset.Time, Unit: dataset.Micro, Int: make([]int64, v.Len()),
			Null: make([]bool, v.Len())}
	}
	for i, text := range v.Text {
		missing := v.IsNull(i) || t.Has(text)
		marks := f
		if v.Literal != nil && v.Literal[i] { // a number of JSON, which has a point in any format
			marks = dataset.AsNumber
		}
		var ok bool
		if isTime {
			var sec, nsec int64
			sec, nsec, ok = parseTime(text, order)
			out.Int[i], out.Null[i] = sec*1e6+nsec/1e3, missing
		} else {
			out.Float[i], _, ok = parseMarked(text, marks)
			if missing {
				out.Float[i] = math.NaN()
			}
		}
		if !ok && !missing {
			return out, &ValueError{i, fmt.Sprintf("%.40q cannot be read in the column's format, %s", text, f)}
		}
	}
	return out, nil
}

// Recogniser finds out in which format all texts of a column are. Add is called for each text, and then Formats.
type Recogniser struct {
	// Semicolon says that a semicolon divides the columns, where a decimal mark is often a comma. The caller sets it.
	Semicolon bool

	RuledOut bool   // no further text can give the column a format
	Example  string // a text that is in a format, and neither a plain number nor a time that is read in one way

	Agreed int            // texts before Odd
	Odd    string         // the text that ruled out the last format
	Almost dataset.Format // the first of the formats that all texts before Odd were in

	// ShortYears is how many texts there were if all of them look like dates whose years have two digits, else 0.
	ShortYears int

	cannot    [4]bool // the formats that are ruled out, in the order of formats
	bare      bool    // some text has no unit
	short     bool    // some whole number of up to three digits has no mark
	unit      string  // of the last text that has one
	ambiguous string  // a text that is a number in two formats, one with a point if there is any
}

// Add observes a text that does not stand for a missing value. It rules out the formats in which the text cannot be
// read, and notes what tells the remaining ones apart. Once no format is possible any more (RuledOut), it only counts
// ShortYears.
func (r *Recogniser) Add(text string) {
	if r.RuledOut {
		if r.ShortYears > 0 && hasShortYear(Trim(text)) {
			r.ShortYears++
		} else {
			r.ShortYears = 0
		}
		return
	}
	text = Trim(text)
	_, form := ParseNumber(text)
	possible := max(0, slices.Index(r.cannot[:], false)) // the first format that all texts before were in
	unit, numbers := r.ruleOut(text, form)

	// A column has one unit: $ and € together are texts.
	if unit != "" && r.unit != "" && unit != r.unit {
		r.cannot[asNumber], r.cannot[decimalComma] = true, true
	}
	if unit == "" {
		r.bare = true
	} else {
		r.unit = strings.Clone(unit)
	}
	// 12 % and a bare 12 are not known to be the same kind of number. A bare 12 among $12 is taken for dollars.
	r.RuledOut = r.cannot == [4]bool{true, true, true, true} || r.unit == "%" && r.bare
	if r.RuledOut {
		r.Odd, r.Almost = strings.Clone(text), formats[possible]
		if r.Agreed == 0 && hasShortYear(text) { // a date in two digits is in no format, so the first one ends here
			r.ShortYears = 1
		}
		return
	}
	r.Agreed++

	// 1,234 and 1.234 are read either way, with different values. Keep one with a point, if there is one.
	eitherWay := !r.cannot[asNumber] && !r.cannot[decimalComma] && numbers[asNumber] != numbers[decimalComma]
	if eitherWay && (r.ambiguous == "" || strings.Contains(text, ".")) {
		r.ambiguous = strings.Clone(text)
	}
	if form == FormText && r.Example == "" {
		r.exemplify(text)
	}
}

// shortYear matches dates such as 01/31/25, 31.1.25 and 31-Jan-25, perhaps with a time behind them. Numbers alone with
// hyphens, such as 20-30-40, are as often codes, and are not matched.
var shortYear = regexp.MustCompile(`^(\d\d?)[/.](\d\d?)[/.]\d\d([ T]\d\d?:.*)?$|` +
	`^\d\d?[- ][A-Za-z]{3,9}[- ]\d\d([ T].*)?$`)

// hasShortYear reports whether a text looks like a date whose year has two digits: what it would be as a day and a
// month can be ones, in either order.
func hasShortYear(text string) bool {
	if len(text) > 40 {
		return false
	}
	parts := shortYear.FindStringSubmatch(text)
	if parts == nil || parts[1] == "" { // "" if the month is a word
		return parts != nil
	}
	first, _ := strconv.Atoi(parts[1])
	second, _ := strconv.Atoi(parts[2])
	return min(first, second) >= 1 && min(first, second) <= 12 && max(first, second) <= 31
}

// ruleOut rules out the formats that the text is not in. form is what ParseNumber says of the text. It returns the unit
// of the text's number, and the number itself with a point and with a comma as the decimal mark. A number is 0 if its
// format is ruled out, and both are 0 for plain digits, which are the same number in both.
func (r *Recogniser) ruleOut(text string, form Form) (unit string, numbers [2]float64) {
	for i, f := range formats {
		var ok bool
		var counted string
		switch {
		case r.cannot[i]:
			continue
		case i >= dayFirst:
			_, _, ok = parseTime(text, orders[f])
		case form == FormDigits || form == FormBig: // digits that are ids, whatever the mark; ok stays false
		case isDigits(text): // there is no mark
			r.short, ok = r.short || len(text) <= 3, true
		default:
			numbers[i], counted, ok = parseMarked(text, f)
		}
		r.cannot[i], unit = !ok, cmp.Or(unit, counted)
	}
	return unit, numbers
}

// exemplify keeps the text as Example if only a format explains it: it is read as a date with the day or the month
// first, or it has marks of a number that is written for readers. Spaces alone are no such marks: addresses and
// telephone numbers have digits in threes, too. A time that is read in one way only is no example.
func (r *Recogniser) exemplify(text string) {
	isDate := !r.cannot[dayFirst] || !r.cannot[monthFirst]
	if isDate || strings.ContainsAny(text, ",'%$€£¥₹kKMGT") {
		if _, _, ok := ParseTime(text); !ok {
			r.Example = strings.Clone(text)
		}
	}
}

// Formats returns the formats in which all texts can be read. There are none if no format fits, or if none is needed;
// two if the texts do not tell which is meant.
func (r *Recogniser) Formats() (can []dataset.Format) {
	if r.Example == "" || r.RuledOut {
		return nil
	}
	for i, f := range formats {
		if !r.cannot[i] {
			can = append(can, f)
		}
	}
	// 1,234 alone may be 1234 or 1.234. Where there are also whole numbers below 1,000, a comma before three digits
	// divides thousands: decimals would have shown other lengths.
	onlyOneReading := r.ambiguous == "" // every text is the same number with either mark
	dividesThousands := r.short && !r.Semicolon && !strings.Contains(r.ambiguous, ".")
	// Of two formats, AsNumber can only go with DecimalComma: no text is both a number and a date.
	if len(can) == 2 && can[0] == dataset.AsNumber && (onlyOneReading || dividesThousands) {
		return can[:1]
	}
	return can
}
