package table

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"coppice/internal/dataset"
)

// kind says how the values of a Parquet column are read: what they are in the file, and what they become in a Batch.
type kind struct {
	typ        dataset.Type
	unit       dataset.Unit // of times
	untyped    bool         // the values become texts, but are numbers that may not fit a 64-bit integer
	unreadable string       // why they cannot be read; empty if they can

	meaning  meaning
	scale    int32 // of decimals: digits after the point
	physical parquet.Type
	width    int // bytes of a value; 0 if each has a length of its own
}

// meaning is what a value's bytes mean, beyond their physical type.
type meaning uint8

const (
	direct        meaning = iota // what the physical type says
	unsigned                     // an unsigned integer
	decimalNumber                // an integer that is to be divided by a power of ten
	uuid                         // 16 bytes
	float16                      // a half-precision number in two bytes
)

// maxIntDigits is how many decimal digits always fit an int64.
const maxIntDigits = 18

// kindOf derives the kind of a column from its physical and its logical type.
func kindOf(c *schema.Column) kind {
	k := logicalKind(c)
	k.physical = c.PhysicalType()
	switch k.physical {
	case parquet.Types.Int32, parquet.Types.Float:
		k.width = 4
	case parquet.Types.Int64, parquet.Types.Double:
		k.width = 8
	case parquet.Types.Int96:
		k.width = 12
	case parquet.Types.FixedLenByteArray:
		k.width = c.TypeLength()
		if k.width <= 0 {
			k.unreadable = fmt.Sprintf("of texts of %d bytes", k.width)
		}
	}
	return k
}

// logicalKind returns what a column's values become. The physical type says enough for numbers, except that whole
// numbers may be dates or times; bytes are text unless the logical type says otherwise.
func logicalKind(c *schema.Column) kind {
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

// integerKind returns what whole numbers become: dates, times or numbers. Unsigned numbers of 64 bits may not fit an
// int64, so they become texts that staging may take for numbers.
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

// decimalKind returns what decimals become. Those with digits after the point become floats and those without become
// integers; integers that may not fit an int64 become texts that staging may take for numbers.
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

// makeRoom gives out the kind's type and n values, none of them null, in out's own memory if that is large enough.
func (k kind) makeRoom(out *dataset.Values, n int) {
	out.Type, out.Unit, out.Null = k.typ, k.unit, nil
	switch k.typ {
	case dataset.Text:
		out.Text = dataset.Resize(out.Text, n)
	case dataset.Float:
		out.Float = dataset.Resize(out.Float, n)
	default:
		out.Int = dataset.Resize(out.Int, n)
	}
}

// valuesBetween returns the values of v from index from up to, but not including, to. They share v's memory.
func (k kind) valuesBetween(v *dataset.Values, from, to int) *dataset.Values {
	out := &dataset.Values{Type: k.typ}
	switch k.typ {
	case dataset.Text:
		out.Text = v.Text[from:to]
	case dataset.Float:
		out.Float = v.Float[from:to]
	default:
		out.Int = v.Int[from:to]
	}
	return out
}

// measurePlain returns how many bytes of data the first n plain values occupy. A value longer than maxRecord is a
// *valueError; too little data is another error.
func (k kind) measurePlain(data []byte, n int) (int, error) {
	if k.width > maxRecord {
		return 0, &valueError{0, tooLong(k.width)}
	}
	if k.width > 0 {
		if have := len(data) / k.width; have < n {
			return 0, fmt.Errorf("a page that ends %d values early", n-have)
		}
		return n * k.width, nil
	}

	at := 0
	for i := range n {
		if len(data)-at < 4 || int(binary.LittleEndian.Uint32(data[at:])) > len(data)-at-4 {
			return 0, fmt.Errorf("a page that ends %d values early", n-i)
		}
		size := int(binary.LittleEndian.Uint32(data[at:]))
		if size > maxRecord {
			return 0, &valueError{i, tooLong(size)}
		}
		at += 4 + size
	}
	return at, nil
}

func tooLong(bytes int) string {
	return fmt.Sprintf("a text of %d bytes, where at most %d are read", bytes, maxRecord)
}

// convert converts plain values to out, which has as many values as data. A *valueError says which of them cannot be
// used.
func (k kind) convert(data []byte, out *dataset.Values) error {
	switch {
	case k.physical == parquet.Types.Float:
		for i := range out.Float {
			out.Float[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
		}
	case k.physical == parquet.Types.Double:
		for i := range out.Float {
			out.Float[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
	case k.physical == parquet.Types.Int32 && k.meaning == direct:
		for i := range out.Int {
			out.Int[i] = int64(int32(binary.LittleEndian.Uint32(data[4*i:])))
		}
	case k.physical == parquet.Types.Int64 && k.meaning == direct:
		for i := range out.Int {
			out.Int[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
		}
	case k.typ == dataset.Text && k.meaning == direct:
		return k.readTexts(data, out.Text)
	default:
		for i := range out.Len() {
			v := k.takeFirst(&data)
			if msg := k.convertValue(v, i, out); msg != "" {
				return &valueError{i, msg}
			}
		}
	}
	return nil
}

// takeFirst removes the first plain value from data and returns it, without the four bytes of its length if it has
// them. data must have all of the value, as measurePlain makes sure.
func (k kind) takeFirst(data *[]byte) []byte {
	size, all := k.width, *data
	if size == 0 {
		size, all = int(binary.LittleEndian.Uint32(all)), all[4:]
	}
	*data = all[size:]
	return all[:size]
}

// readTexts converts plain texts to out. All are parts of one copy of data, since the page's memory will be used again.
// data must have all of them, as measurePlain makes sure. Text that is not UTF-8 is a *valueError.
func (k kind) readTexts(data []byte, out []string) error {
	all := string(data)
	at := 0
	for i := range out {
		size := k.width
		if size == 0 {
			size = int(binary.LittleEndian.Uint32(data[at:]))
			at += 4
		}
		out[i] = all[at : at+size]
		at += size
		if !utf8.ValidString(out[i]) {
			return &valueError{i, fmt.Sprintf("%.40q is not UTF-8; drop the column or convert it", out[i])}
		}
	}
	return nil
}

// convertValue converts one value v, whose meaning is not direct or whose type is Int96, to value i of out. msg says
// why it cannot be used; it is empty if it can.
func (k kind) convertValue(v []byte, i int, out *dataset.Values) (msg string) {
	switch {
	case k.physical == parquet.Types.Int96:
		out.Int[i], msg = readInt96(v)
		return msg
	case k.physical == parquet.Types.Int32 && k.meaning == unsigned:
		out.Int[i] = int64(binary.LittleEndian.Uint32(v))
	case k.physical == parquet.Types.Int64 && k.meaning == unsigned:
		out.Text[i] = strconv.FormatUint(binary.LittleEndian.Uint64(v), 10)
	case k.physical == parquet.Types.Int32: // a decimal, as is the next: convert has taken numbers that are direct
		k.storeNumber(int64(int32(binary.LittleEndian.Uint32(v))), i, out)
	case k.physical == parquet.Types.Int64:
		k.storeNumber(int64(binary.LittleEndian.Uint64(v)), i, out)

	case k.meaning == decimalNumber:
		return k.decimal(v, i, out)
	case k.meaning == uuid:
		h := hex.EncodeToString(v)
		if len(h) != 32 {
			return fmt.Sprintf("a UUID of %d bytes", len(v))
		}
		out.Text[i] = strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
	case k.meaning == float16:
		if len(v) != 2 {
			return fmt.Sprintf("a half-precision number of %d bytes", len(v))
		}
		out.Float[i] = readHalf(binary.LittleEndian.Uint16(v))
	}
	return ""
}

// readInt96 converts a time as Impala and Spark once wrote it: eight bytes with the nanoseconds of a day, and four with
// the number of the day, counted as Julian days. It returns whole microseconds since 1970, the finest that a float64 of
// seconds resolves. Nanoseconds in an int64 would end in the year 2262, and many tables write 9999-12-31 for never. msg
// says why the time cannot be used; it is empty if it can.
func readInt96(v []byte) (micros int64, msg string) {
	const (
		julian1970  = 2440588
		microsOfDay = 86400 * 1e6
		maxDays     = 106_000_000 // fit an int64 of microseconds, whatever the nanoseconds
	)
	nanos := int64(binary.LittleEndian.Uint64(v))
	days := int64(binary.LittleEndian.Uint32(v[8:])) - julian1970
	if days > maxDays {
		return 0, fmt.Sprintf("a timestamp %d days after 1970 is more than microseconds can count", days)
	}

	micros = nanos / 1000
	if nanos%1000 < 0 { // round down; division rounds towards zero
		micros--
	}
	return days*microsOfDay + micros, ""
}

// readHalf returns the value of an IEEE 754 half-precision number: a sign bit, five bits of exponent and ten of
// fraction.
func readHalf(b uint16) float64 {
	sign := 1.0
	if b>>15 == 1 {
		sign = -1
	}

	exponent, fraction := int(b>>10&0x1f), float64(b&0x3ff)

	switch exponent {
	case 0: // no leading one: the fraction counts in units of 2^-24
		return sign * math.Ldexp(fraction, -24)
	case 0x1f:
		if fraction != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+fraction, exponent-25) // (1 + fraction/2^10) times 2^(exponent-15)
}

// decimal converts a decimal, a big-endian two's complement number, to value i of out. Digits that a float64 does not
// have are rounded. msg says why it cannot be used; it is empty if it can.
func (k kind) decimal(v []byte, i int, out *dataset.Values) (msg string) {
	if len(v) > 64 {
		return fmt.Sprintf("a decimal of %d bytes", len(v))
	}

	// Nearly all decimals fit an int64. The first bit is the sign.
	if len(v) <= 8 {
		x := int64(0)
		if len(v) > 0 && v[0] >= 0x80 {
			x = -1
		}
		for _, b := range v {
			x = x<<8 | int64(b)
		}
		k.storeNumber(x, i, out)
		return ""
	}

	// Longer ones are computed with big integers.
	x := new(big.Int).SetBytes(v)
	if v[0] >= 0x80 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}

	switch {
	case k.typ == dataset.Text:
		out.Text[i] = x.String()
	case x.IsInt64():
		k.storeNumber(x.Int64(), i, out)
	case k.typ == dataset.Int:
		return fmt.Sprintf("%s has more digits than its type allows", x)
	default:
		out.Float[i], _ = strconv.ParseFloat(x.String()+"e-"+strconv.Itoa(int(k.scale)), 64)
	}
	return ""
}

// storeNumber stores a number as value i of out. x is a whole number, or the digits of a decimal without its point.
// Only decimals with digits after the point become floats (see decimalKind), so only there the scale matters.
func (k kind) storeNumber(x int64, i int, out *dataset.Values) {
	switch k.typ {
	case dataset.Text:
		out.Text[i] = strconv.FormatInt(x, 10)
	case dataset.Float:
		out.Float[i] = scaled(x, k.scale)
	default:
		out.Int[i] = x
	}
}

// scaled returns the float64 that is nearest to x / 10^scale.
func scaled(x int64, scale int32) float64 {
	// A float64 holds these x, and powers of ten up to 10^22, exactly. So the division rounds once.
	if max(x, -x) <= dataset.MaxExact && scale <= 22 {
		return float64(x) / math.Pow10(int(scale))
	}
	f, _ := strconv.ParseFloat(strconv.FormatInt(x, 10)+"e-"+strconv.Itoa(int(scale)), 64)
	return f
}
