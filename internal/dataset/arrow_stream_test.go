package dataset

import (
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"coppice/internal/problem"
)

const streams = "../../launcher/internal/serve/testdata/arrow/"

// TestStreamsOfPyarrow reads every type, in one batch and in several; make.py beside the files has written them.
func TestStreamsOfPyarrow(t *testing.T) {
	names := []string{"int8", "uint16", "int64", "float", "double", "text", "large", "bool", "date", "seconds", "nanos",
		"nothing", "absent"}
	second := []bool{false, true, false}
	third := []bool{false, false, true}
	nan := math.NaN()
	want := []*Values{
		{Type: Int, Int: []int64{1, 0, -128}, Null: second},
		{Type: Int, Int: []int64{1, 65535, 0}, Null: third},
		{Type: Int, Int: []int64{1 << 62, 0, -1}, Null: second},
		{Type: Float, Float: []float64{1.5, nan, nan}, Null: third},
		{Type: Float, Float: []float64{1e300, nan, math.Copysign(0, -1)}, Null: second},
		{Type: Text, Text: []string{"a", "", "ü"}, Null: second},
		{Type: Text, Text: []string{"", "b", ""}, Null: third},
		{Type: Bool, Int: []int64{1, 0, 0}, Null: second},
		{Type: Time, Unit: Day, Int: []int64{20783, 0, 20783}, Null: second},
		{Type: Time, Unit: Milli, Int: []int64{1795696215000, 0, 1795696215000}, Null: second},
		{Type: Time, Unit: Nano, Int: []int64{1795696215250000000, 0, 1795696215250000000}, Null: second},
		{Type: Text, Text: []string{"", "", ""}, Null: []bool{true, true, true}},
		nil,
	}
	for _, file := range []string{"types", "batches"} {
		data, err := os.ReadFile(streams + file + ".arrows")
		if err != nil {
			t.Fatal(err)
		}
		got, other, rows, err := ReadStream(data, names, 3)
		if err != nil || rows != 3 || len(other) != 0 {
			t.Fatalf("%s: got %d rows, other columns %v, %v; want 3 and none", file, rows, other, err)
		}
		for i, name := range names {
			if !sameValues(got[i], want[i]) {
				t.Errorf("%s: column %s: got %+v, want %+v", file, name, got[i], want[i])
			}
		}
		if _, _, _, err := ReadStream(data, names, 2); !problem.Is(err, problem.Input) ||
			!strings.Contains(err.Error(), "more than 2 rows") {
			t.Errorf("%s: got %v for a limit of 2 rows, want that there are more", file, err)
		}
	}
}

// sameValues compares; a NaN is a NaN, and -0 is not 0.
func sameValues(a, b *Values) bool {
	if a == nil || b == nil {
		return a == b
	}
	bits := func(v *Values) []uint64 {
		var out []uint64
		for _, x := range v.Float {
			out = append(out, math.Float64bits(x))
			if x != x {
				out[len(out)-1] = 1
			}
		}
		return out
	}
	return a.Type == b.Type && a.Unit == b.Unit && reflect.DeepEqual(a.Text, b.Text) && reflect.DeepEqual(a.Int,
		b.Int) &&
		reflect.DeepEqual(a.Null, b.Null) && reflect.DeepEqual(bits(a), bits(b))
}

// TestDamagedStreamsAreRefused: compressed and dictionary-encoded ones say what to do, one cut short is damaged, and no
// flipped byte does more than give other values.
func TestDamagedStreamsAreRefused(t *testing.T) {
	for file, want := range map[string]string{"compressed": "without compression", "categories": "dictionary-encoded"} {
		data, err := os.ReadFile(streams + file + ".arrows")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := ReadStream(data, []string{"a", "b"}, 100); !problem.Is(err, problem.Input) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want ... %s ...", file, err, want)
		}
	}
	data, err := os.ReadFile(streams + "types.arrows")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"int8", "text", "double", "nothing", "bool"}
	for n := range len(data) - 8 { // the end of the stream may be missing
		if _, _, rows, err := ReadStream(data[:n], names, 3); err == nil && rows != 0 {
			t.Fatalf("cut off at byte %d of %d: got %d rows, want an error", n, len(data), rows)
		}
	}
	for i := range data {
		for _, flip := range []byte{1, 0x80, 0xff} {
			changed := append([]byte(nil), data...)
			changed[i] ^= flip
			if columns, _, rows, err := ReadStream(changed, names, 3); err == nil {
				for _, v := range columns {
					if v != nil && (v.Len() != rows || v.Null != nil && len(v.Null) != rows) {
						t.Fatalf("byte %d changed by %x: got %d values and %d nulls in %d rows", i, flip, v.Len(),
							len(v.Null), rows)
					}
				}
			} else if !problem.Is(err, problem.Input) {
				t.Fatalf("byte %d changed by %x: untyped error %T: %v", i, flip, err, err)
			}
		}
	}
}
