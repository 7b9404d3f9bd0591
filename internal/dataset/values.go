package dataset

import (
	"math"
	"strconv"
	"time"
)

// Type is the type in which the raw values of a column are stored.
type Type string

// The types of raw values.
const (
	Text  Type = "text"
	Float Type = "float"
	Int   Type = "int"
	Bool  Type = "bool"
	Time  Type = "time"
)

// Unit is the unit in which a value of type Time counts from 1970-01-01 00:00 UTC.
type Unit string

// The units of time, as in Parquet.
const (
	Day   Unit = "day"
	Milli Unit = "ms"
	Micro Unit = "us"
	Nano  Unit = "ns"
)

// PerSecond returns how many of the unit make a second; 0 for Day.
func (u Unit) PerSecond() int64 {
	switch u {
	case Milli:
		return 1e3
	case Micro:
		return 1e6
	case Nano:
		return 1e9
	}
	return 0
}

// MaxExact is 2^53: every whole number up to it is exact in a float64.
const MaxExact = 1 << 53

const secondsPerDay = 86400

// Values holds raw values of one column, as in the table. One of Text, Float and Int is set, depending on Type.
type Values struct {
	Type    Type
	Unit    Unit      // for Time
	Text    []string  // for Text
	Float   []float64 // for Float; NaN if null
	Int     []int64   // for Int, Bool (0 and 1) and Time
	Null    []bool    // nil if the table has no nulls
	Literal []bool    // which texts were numbers of JSON, whose decimal mark is a point; nil if none was
}

// Len returns the number of values.
func (v *Values) Len() int {
	switch v.Type {
	case Text:
		return len(v.Text)
	case Float:
		return len(v.Float)
	default:
		return len(v.Int)
	}
}

// Slice returns values first up to end, exclusive, in the same memory.
func (v *Values) Slice(first, end int) Values {
	out := Values{Type: v.Type, Unit: v.Unit}
	switch v.Type {
	case Text: // Literal is as long as Text, or nil, of which nothing is taken
		out.Text, out.Literal = v.Text[first:end], v.Literal[min(first, len(v.Literal)):min(end, len(v.Literal))]
	case Float:
		out.Float = v.Float[first:end]
	default:
		out.Int = v.Int[first:end]
	}
	if v.Null != nil {
		out.Null = v.Null[first:end]
	}
	return out
}

// IsNull reports whether value i is null in the table. Whether a present value counts as missing (a NaN, or text such
// as NA) is decided by the encoder.
func (v *Values) IsNull(i int) bool { return v.Null != nil && v.Null[i] }

// TextOf returns value i, which is not null, as a categorical column has it: texts as they are, whole numbers in
// decimal digits, other numbers in the shortest form that reads back the same, truth values as true and false, times in
// ISO 8601.
func (v *Values) TextOf(i int) string {
	if v.Type == Text {
		return v.Text[i]
	}
	return string(v.AppendText(nil, i))
}

// AppendText appends TextOf(i) to dst and returns the result.
func (v *Values) AppendText(dst []byte, i int) []byte {
	switch v.Type {
	case Text:
		return append(dst, v.Text[i]...)
	case Float:
		return AppendNumber(dst, v.Float[i])
	case Bool:
		return strconv.AppendBool(dst, v.Int[i] != 0)
	case Time:
		sec, nsec := v.Unit.Split(v.Int[i])
		layout := "2006-01-02T15:04:05.999999999Z"
		if v.Unit == Day {
			layout = time.DateOnly
		}
		return time.Unix(sec, nsec).UTC().AppendFormat(dst, layout)
	default:
		return strconv.AppendInt(dst, v.Int[i], 10)
	}
}

// AppendNumber appends a number to dst as text: whole numbers up to 2^53 in decimal digits, others in the shortest form
// that reads back the same.
func AppendNumber(dst []byte, x float64) []byte {
	if x == math.Trunc(x) && math.Abs(x) <= MaxExact {
		return strconv.AppendInt(dst, int64(x), 10)
	}
	return strconv.AppendFloat(dst, x, 'g', -1, 64)
}

// Split converts a count of the unit to whole seconds, rounded down, and the remaining nanoseconds.
func (u Unit) Split(count int64) (sec, nsec int64) {
	per := u.PerSecond()
	if per == 0 {
		return count * secondsPerDay, 0
	}
	sec, rest := count/per, count%per
	if rest < 0 {
		sec, rest = sec-1, rest+per
	}
	return sec, rest * (1e9 / per)
}

// Seconds returns a time in the form that models use: seconds since 1970-01-01 00:00 UTC.
func Seconds(sec, nsec int64) float64 {
	if nsec == 0 {
		return float64(sec)
	}
	return float64(sec) + float64(nsec)/1e9
}
