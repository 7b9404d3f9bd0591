package table

import (
	"fmt"
	"math"
	"math/big"
	"strconv"

	"coppice/internal/dataset"
)

// decimal reads a big-endian two's complement number.
func (k kind) decimal(i int, v []byte, out *dataset.Values) error {
	if len(v) > 64 {
		return &valueError{i, fmt.Sprintf("a decimal of %d bytes", len(v))}
	}

	if len(v) <= 8 {
		x := int64(0)
		if len(v) > 0 && v[0] >= 0x80 {
			x = -1
		}
		for _, b := range v {
			x = x<<8 | int64(b)
		}
		return k.store(i, x, out)
	}

	x := new(big.Int).SetBytes(v)
	if v[0] >= 0x80 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}

	switch {
	case k.typ == dataset.Text:
		out.Text[i] = x.String()
	case x.IsInt64():
		return k.store(i, x.Int64(), out)
	case k.typ == dataset.Int:
		return &valueError{i, fmt.Sprintf("%s has more digits than its type allows", x)}
	default:
		out.Float[i], _ = strconv.ParseFloat(x.String()+"e-"+strconv.Itoa(int(k.scale)), 64)
	}

	return nil
}

// store sets a value from a decimal whose digits fit an int64.
func (k kind) store(i int, x int64, out *dataset.Values) error {
	switch k.typ {
	case dataset.Text:
		out.Text[i] = strconv.FormatInt(x, 10)
	case dataset.Float:
		out.Float[i] = scaled(x, k.scale)
	default:
		out.Int[i] = x
	}
	return nil
}

// scaled is the float64 nearest to x / 10^scale.
func scaled(x int64, scale int32) float64 {
	if max(x, -x) <= dataset.MaxExact && scale <= 22 {
		return float64(x) / math.Pow10(int(scale)) // both are exact
	}
	f, _ := strconv.ParseFloat(strconv.FormatInt(x, 10)+"e-"+strconv.Itoa(int(scale)), 64)
	return f
}
