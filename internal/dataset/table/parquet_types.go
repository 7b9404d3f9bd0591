package table

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"coppice/internal/dataset"
)

// kind says how the values of a Parquet column are read.
type kind struct {
	typ        dataset.Type
	unit       dataset.Unit
	untyped    bool // text made from numbers that do not fit a 64-bit integer
	unreadable string
	meaning    meaning
	scale      int32
}

// meaning is what a value's bytes mean, beyond their physical type.
type meaning uint8

const (
	plain meaning = iota
	unsigned
	decimalNumber
	uuid
	float16
)

// maxIntDigits is how many decimal digits always fit an int64.
const maxIntDigits = 18

// kindOf derives the kind from physical and logical type.
func kindOf(c *schema.Column) kind {
	logical := c.LogicalType()
	if l, ok := logical.(*schema.DecimalLogicalType); ok {
		return decimalKind(l)
	}

	switch c.PhysicalType() {
	case parquet.Types.Boolean:
		return kind{typ: dataset.Bool}
	case parquet.Types.Float, parquet.Types.Double:
		return kind{typ: dataset.Float}
	case parquet.Types.Int96:
		return kind{typ: dataset.Time, unit: dataset.Micro}
	case parquet.Types.Int32, parquet.Types.Int64:
		return integerKind(c.PhysicalType(), logical)
	}

	switch logical.(type) {
	case schema.UUIDLogicalType:
		return kind{typ: dataset.Text, meaning: uuid}
	case schema.Float16LogicalType:
		return kind{typ: dataset.Float, meaning: float16}
	case schema.IntervalLogicalType:
		return kind{unreadable: "an interval"}
	case schema.BSONLogicalType:
		return kind{unreadable: "BSON"}
	}

	return kind{typ: dataset.Text}
}

func integerKind(physical parquet.Type, logical schema.LogicalType) kind {
	switch l := logical.(type) {
	case schema.DateLogicalType:
		return kind{typ: dataset.Time, unit: dataset.Day}

	case *schema.TimestampLogicalType:
		units := map[schema.TimeUnitType]dataset.Unit{schema.TimeUnitMillis: dataset.Milli,
			schema.TimeUnitMicros: dataset.Micro, schema.TimeUnitNanos: dataset.Nano}
		if unit, ok := units[l.TimeUnit()]; ok {
			return kind{typ: dataset.Time, unit: unit}
		}

		return kind{unreadable: "a timestamp of an unknown unit"}

	case *schema.IntLogicalType:
		if l.IsSigned() {
			return kind{typ: dataset.Int}
		}
		// The upper half of the 64-bit unsigned numbers does not fit an int64.
		if physical == parquet.Types.Int64 {
			return kind{typ: dataset.Text, untyped: true, meaning: unsigned}
		}

		return kind{typ: dataset.Int, meaning: unsigned}
	}

	return kind{typ: dataset.Int}
}

func decimalKind(l *schema.DecimalLogicalType) kind {
	k := kind{meaning: decimalNumber, scale: l.Scale()}
	switch {
	case l.Scale() > 0:
		k.typ = dataset.Float
	case l.Precision() <= maxIntDigits:
		k.typ = dataset.Int
	default:
		k.typ, k.untyped = dataset.Text, true
	}
	return k
}

func (k kind) bools(values []bool, out *dataset.Values) error {
	for i, v := range values {
		out.Int[i] = 0
		if v {
			out.Int[i] = 1
		}
	}
	return nil
}

func (k kind) int32s(values []int32, out *dataset.Values) error {
	for i, v := range values {
		switch {
		case k.meaning == unsigned:
			out.Int[i] = int64(uint32(v))
		case k.typ == dataset.Float:
			out.Float[i] = scaled(int64(v), k.scale)
		case k.typ == dataset.Text:
			out.Text[i] = strconv.FormatInt(int64(v), 10)
		default:
			out.Int[i] = int64(v)
		}
	}
	return nil
}

func (k kind) int64s(values []int64, out *dataset.Values) error {
	switch {
	case k.meaning == unsigned:
		for i, v := range values {
			out.Text[i] = strconv.FormatUint(uint64(v), 10)
		}

	case k.typ == dataset.Float:
		for i, v := range values {
			out.Float[i] = scaled(v, k.scale)
		}

	case k.typ == dataset.Text:
		for i, v := range values {
			out.Text[i] = strconv.FormatInt(v, 10)
		}

	default:
		copy(out.Int, values)
	}

	return nil
}

// int96s reads nanoseconds of a day and a Julian day number, as written by Impala and Spark. It returns whole
// microseconds, the finest that a float64 of seconds resolves: int64 nanoseconds would end in the year 2262, and many
// tables write 9999-12-31 for never.
func (k kind) int96s(values []parquet.Int96, out *dataset.Values) error {
	const (
		julian1970  = 2440588
		microsOfDay = 86400 * 1e6
		maxDays     = 106_000_000 // fit an int64 of microseconds, whatever the nanoseconds
	)

	for i, v := range values {
		nanos := int64(binary.LittleEndian.Uint64(v[:8]))
		days := int64(binary.LittleEndian.Uint32(v[8:])) - julian1970
		if days > maxDays {
			return &valueError{i, fmt.Sprintf("a timestamp %d days after 1970 is more than microseconds can count",
				days)}
		}

		micros := nanos / 1000
		if nanos%1000 < 0 {
			micros--
		}
		out.Int[i] = days*microsOfDay + micros
	}
	return nil
}

func floats[T float32 | float64](values []T, out *dataset.Values) error {
	for i, v := range values {
		out.Float[i] = float64(v)
	}
	return nil
}

// byteArrays reads values of varying length.
func byteArrays[T ~[]byte](k kind) func([]T, *dataset.Values) error {
	switch k.meaning {
	case decimalNumber:
		return func(values []T, out *dataset.Values) error {
			for i, v := range values {
				if err := k.decimal(i, v, out); err != nil {
					return err
				}
			}
			return nil
		}

	case uuid:
		return func(values []T, out *dataset.Values) error {
			for i, v := range values {
				h := hex.EncodeToString(v)
				if len(h) != 32 {
					return &valueError{i, fmt.Sprintf("a UUID of %d bytes", len(v))}
				}
				out.Text[i] = strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
			}
			return nil
		}

	case float16:
		return func(values []T, out *dataset.Values) error {
			for i, v := range values {
				if len(v) != 2 {
					return &valueError{i, fmt.Sprintf("a half-precision number of %d bytes", len(v))}
				}
				out.Float[i] = half(binary.LittleEndian.Uint16(v))
			}
			return nil
		}
	}

	// The rest is text: strings, enumerations and JSON.
	return texts[T]
}

// texts copies the values into one string shared by all of them, because the memory of the page will be reused.
func texts[T ~[]byte](values []T, out *dataset.Values) error {
	n := 0
	for _, v := range values {
		n += len(v)
	}
	if n > batchBytes {
		return repeatedTexts(values, out)
	}

	var b strings.Builder
	b.Grow(n)
	for _, v := range values {
		b.Write(v)
	}

	all := b.String()
	valid := utf8.ValidString(all)

	from := 0
	for i, v := range values {
		out.Text[i] = all[from : from+len(v)]
		from += len(v)
		if len(v) > 0 && (!valid || !utf8.RuneStart(v[0])) && !utf8.ValidString(out.Text[i]) {
			return notUTF8(i, out.Text[i])
		}
	}
	return nil
}

// repeatedTexts copies each distinct value of a dictionary once, however many rows have it: a file of a few kilobytes
// can expand to gigabytes of text. Rows with the same value share its copy.
func repeatedTexts[T ~[]byte](values []T, out *dataset.Values) error {
	type place struct {
		first *byte
		n     int
	}

	copies := map[place]string{}
	for i, v := range values {
		if len(v) == 0 {
			out.Text[i] = ""
			continue
		}

		at := place{&v[0], len(v)}
		text, ok := copies[at]
		if !ok {
			if text = string(v); !utf8.ValidString(text) {
				return notUTF8(i, text)
			}
			copies[at] = text
		}

		out.Text[i] = text
	}
	return nil
}

func notUTF8(i int, text string) error {
	return &valueError{i, fmt.Sprintf("%.40q is not UTF-8; drop the column or convert it", text)}
}

// half is an IEEE 754 half-precision number.
func half(b uint16) float64 {
	sign := 1.0
	if b>>15 == 1 {
		sign = -1
	}

	exponent, fraction := int(b>>10&0x1f), float64(b&0x3ff)

	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 0x1f:
		if fraction != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}
