package dataset

import (
	"math"
	"strconv"
	"time"
)

// Type says how the raw values of a column are held.
type Type string

// The types of raw values.
const (
	Text  Type = "text"
	Float Type = "float"
	Int   Type = "int"
	Bool  Type = "bool"
	Time  Type = "time"
)

// Unit is what a value of type Time counts since 1970-01-01 00:00 UTC.
type Unit string

// The units of time, as Parquet has them.
const (
	Day   Unit = "day"
	Milli Unit = "ms"
	Micro Unit = "us"
	Nano  Unit = "ns"
)

// PerSecond is how many of the unit make a second; 0 for Day, of which a second has none.
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

const secondsPerDay = 86400

// Values are raw values of one column, as a table holds them. One of Text, Float and Int is set, by Type.
type Values struct {
	Type  Type
	Unit  Unit      // of Time
	Text  []string  // of Text
	Float []float64 // of Float; NaN where Null
	Int   []int64   // of Int, Bool (0 and 1) and Time
	Null  []bool    // nil when the table says of no value that it is absent
}

// Len is the number of values.
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

// IsNull reports whether the table itself says that value i is absent. Whether a value that is there counts as missing
// (a NaN, or text such as NA) is for the encoder to say.
func (v *Values) IsNull(i int) bool { return v.Null != nil && v.Null[i] }

// TextOf is value i as the text that stands for it where a column is categorical: text as it is, whole numbers in
// decimal digits, other numbers in the shortest form that reads back the same, times in ISO 8601.
func (v *Values) TextOf(i int) string {
	if v.Type == Text {
		return v.Text[i]
	}
	return string(v.AppendText(nil, i))
}

// AppendText appends TextOf(i) to dst.
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

// AppendNumber appends the text of a number: of whole ones decimal digits, of others the shortest form that reads back the
// same.
func AppendNumber(dst []byte, x float64) []byte {
	if x == math.Trunc(x) && math.Abs(x) <= 1<<53 {
		return strconv.AppendInt(dst, int64(x), 10)
	}
	return strconv.AppendFloat(dst, x, 'g', -1, 64)
}

// Split takes a count of the unit apart into whole seconds, rounded down, and the nanoseconds above them.
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

// Seconds is a point in time as models see it: seconds since 1970-01-01 00:00 UTC.
func Seconds(sec, nsec int64) float64 {
	if nsec == 0 {
		return float64(sec)
	}
	return float64(sec) + float64(nsec)/1e9
}
