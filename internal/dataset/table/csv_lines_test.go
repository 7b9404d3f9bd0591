package table

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// checkLines compares lineRecords with csv.Reader, up to the first error.
func checkLines(t *testing.T, text string, comma rune, fields int) (read int, quoted bool) {
	t.Helper()
	want := csv.NewReader(strings.NewReader(text))
	want.Comma, want.FieldsPerRecord = comma, fields
	got := &lineRecords{r: bufio.NewReaderSize(strings.NewReader(text), 16), comma: comma, quoted: true, fields: fields}
	for {
		a, errA := got.Read()
		b, errB := want.Read()
		if (errA == nil) != (errB == nil) || errA != nil && errA.Error() != errB.Error() || !slices.Equal(a, b) {
			t.Fatalf("%q divided by %q: got %q, %v in record %d, want %q, %v", text, comma, a, errA, read, b, errB)
		}
		if errA != nil {
			if !errors.Is(errA, io.EOF) {
				read++
			}
			return read, got.rest != nil
		}
		lineA, _ := got.FieldPos(0)
		lineB, _ := want.FieldPos(0)
		if lineA != lineB || got.InputOffset() != want.InputOffset() {
			t.Fatalf("%q divided by %q: record %d is in line %d and ends at %d, want %d and %d", text, comma, read,
				lineA, got.InputOffset(), lineB, want.InputOffset())
		}
		read++
	}
}

// TestLineRecords: lines without quotes, and what follows the first quote, are what csv.Reader makes of them.
func TestLineRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 3))
	pieces := []string{"a", "bc", "é", ",", ",", "\t", "中", "\n", "\n", "\r\n", "\r", "\"", "\"\"", "x,y\n",
		"\"q,\n\",z\n", "1,2\n", "3,4\r\n"}
	read, whole := 0, 0
	for range 20_000 {
		var text strings.Builder
		of := pieces
		if rng.IntN(2) == 0 {
			of = slices.DeleteFunc(slices.Clone(pieces), func(s string) bool { return strings.Contains(s, `"`) })
		}
		for range rng.IntN(12) {
			text.WriteString(of[rng.IntN(len(of))])
		}
		n, quoted := checkLines(t, text.String(), []rune{',', '\t', '中'}[rng.IntN(3)], rng.IntN(3))
		read += n
		if !quoted && n > 1 {
			whole++
		}
	}
	if read < 20_000 || whole < 2_000 {
		t.Errorf("%d records were read, and %d texts without a quote; want 20,000 and 2,000", read, whole)
	}
}

func FuzzLineRecords(f *testing.F) {
	f.Add("a,b\n1,\"2\n\n3\",4\r\n\r\n5,6", 0)
	f.Add("a\n\"b", 1)
	f.Fuzz(func(t *testing.T, text string, fields int) { checkLines(t, text, ',', fields) })
}
