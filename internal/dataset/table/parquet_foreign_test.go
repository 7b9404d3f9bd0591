package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// foreign is the folder of files that other programs wrote; make.py there says how each was made.
const foreign = "testdata/foreign"

// TestForeignParquet: the same table is read the same, to the bit, as pyarrow, DuckDB and Polars write it, with their
// defaults and with their encodings.
func TestForeignParquet(t *testing.T) {
	checkForeign(t, foreign, 10)
}

// checkForeign compares every file of a folder with want.json there, to the bit, in small and in large batches.
// Encrypted files are left out. There must be at least so many files.
func checkForeign(t *testing.T, folder string, least int) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(folder, "want.json")))(t)
	var want map[string][]*string
	must.Do(t, json.Unmarshal(text, &want))
	files, err := filepath.Glob(filepath.Join(folder, "*.parquet"))
	if err != nil || len(files) < least {
		t.Fatalf("%d files in %s (%v), expected %d or more", len(files), folder, err, least)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "encrypted") {
			continue
		}
		for _, batch := range []int{7, 100_000} {
			if err := sameTable(file, want, batch); err != nil {
				t.Errorf("%s in batches of %d: %v", filepath.Base(file), batch, err)
			}
		}
	}
}

// sameTable returns an error that says where a file's values are not the wanted ones, which are by column and row. It
// reads batches of so many rows.
func sameTable(file string, want map[string][]*string, rows int) error {
	table, err := Open([]File{{URI: file, Path: file}}, Options{Threads: 2})
	if err != nil {
		return err
	}
	var names []string
	for _, c := range table.Columns() {
		names = append(names, c.Name)
	}
	if len(names) < 10 {
		return fmt.Errorf("only the columns %q, expected at least 10", names)
	}

	next := 0
	err = table.Read(context.Background(), names, rows, func(b *Batch) error {
		for j := range b.Columns {
			for i := range b.Rows {
				if got, want := exactly(&b.Columns[j], i), want[b.Names[j]][next+i]; !same(got, want) {
					return fmt.Errorf("row %d of %s is %s, expected %s", next+i+1, b.Names[j], shownText(got),
						shownText(want))
				}
			}
		}
		next += b.Rows
		return nil
	})
	if err == nil && next != len(want[names[0]]) {
		err = fmt.Errorf("%d rows, expected %d", next, len(want[names[0]]))
	}
	return err
}

// exactly returns a value as want.json writes it: a float by its bits; nil for a null.
func exactly(v *dataset.Values, i int) *string {
	if v.IsNull(i) {
		return nil
	}
	text := ""
	switch v.Type {
	case dataset.Text:
		text = v.Text[i]
	case dataset.Float:
		text = strconv.FormatUint(math.Float64bits(v.Float[i]), 16)
	default:
		text = strconv.FormatInt(v.Int[i], 10)
	}
	return &text
}

// same reports whether two values are equal. want.json may also write a float as a hexadecimal number or an infinity.
func same(got, want *string) bool {
	if got == nil || want == nil {
		return got == want
	}
	if *got == *want {
		return true
	}
	if !strings.Contains(*want, "0x") && !strings.Contains(*want, "inf") {
		return false
	}
	x, err := strconv.ParseFloat(*want, 64)
	return err == nil && *got == strconv.FormatUint(math.Float64bits(x), 16)
}

func shownText(s *string) string {
	if s == nil {
		return "nothing"
	}
	return *s
}

// TestEncryptedParquetIsCalledSo: the error about an encrypted file, or an encrypted column, says so. A CSV file that
// begins with the same four letters as an encrypted one is read.
func TestEncryptedParquetIsCalledSo(t *testing.T) {
	for file, want := range map[string]string{
		"encrypted.parquet": "encrypted.parquet: an encrypted Parquet file, which cannot be read; write it " +
			"without encryption",
		"encrypted-columns.parquet": "it is encrypted",
	} {
		path := filepath.Join(foreign, file)
		table, err := Open([]File{{URI: path, Path: path}}, Options{})
		if err == nil {
			err = table.Read(context.Background(), []string{"steps"}, 100, func(*Batch) error { return nil })
		}
		must.SayAs[*InputError](t, file, err, want)
	}

	// A CSV file whose first column begins with the same letters is one.
	path := writeFile(t, "t.csv", "PARENT,b\n1,2\n").Path
	if _, err := Open([]File{{URI: path, Path: path}}, Options{}); err != nil {
		t.Errorf("opening CSV with a column PARENT: got error %v, want none", err)
	}
}

// packDeltas encodes numbers as DELTA_BINARY_PACKED, in blocks of 128 and miniblocks of 32, with 64 bits for each
// difference.
func packDeltas(values []int64) []byte {
	out := binary.AppendUvarint(nil, 128)
	out = binary.AppendUvarint(out, 4)
	out = binary.AppendUvarint(out, uint64(len(values)))
	if len(values) == 0 {
		return binary.AppendVarint(out, 0)
	}
	out = binary.AppendVarint(out, values[0])
	for at := 1; at < len(values); at += 128 {
		block := values[at:min(at+128, len(values))]
		least := int64(math.MaxInt64)
		for i := range block {
			least = min(least, block[i]-values[at+i-1])
		}
		out = binary.AppendVarint(out, least)
		out = append(out, 64, 64, 64, 64)
		for i := range (len(block) + 31) / 32 * 32 {
			delta := int64(0)
			if i < len(block) {
				delta = block[i] - values[at+i-1] - least
			}
			out = binary.LittleEndian.AppendUint64(out, uint64(delta))
		}
	}
	return out
}

// TestReadDeltas: numbers of any value, in any quantity, come back from DELTA_BINARY_PACKED, and the data after them is
// left. Damaged data is an error.
func TestReadDeltas(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 400 {
		values := make([]int64, n)
		for i := range values {
			values[i] = int64(rng.Uint64()) // differences wrap around, as the format has it
		}
		got, rest, err := readDeltas(append(packDeltas(values), "rest"...), ample)
		if err != nil || !slices.Equal(got, values) || string(rest) != "rest" {
			t.Fatalf("%d numbers: got %d numbers, equal: %t, then %q, error %v; want the same ones, then \"rest\"", n,
				len(got), slices.Equal(got, values), rest, err)
		}
	}

	// Damaged data. It begins with the numbers of a block (128 takes two bytes), the miniblocks of a block, the number
	// of all numbers, and the first of them.
	for name, data := range map[string][]byte{
		"nothing": nil, "a head": {128, 1, 4}, "no parts": {128, 1, 0, 9, 0}, "parts of 31": {31, 1, 9, 0},
		"many in nothing": {128, 1, 4, 0xff, 0xff, 0xff, 0x7f, 0},
		"65 bits":         append([]byte{32, 1, 9, 0, 0, 65}, make([]byte, 400)...),
		"cut off":         packDeltas([]int64{1, 2, 3})[:20],
	} {
		if got, _, err := readDeltas(data, ample); err == nil {
			t.Errorf("%s: %v, expected an error", name, got)
		}
	}
}

// ample is a bound on memory that has room for what a test packs, and no more.
func ample(bytes int64) error {
	if bytes > 1<<20 {
		return errors.New("too much")
	}
	return nil
}

// TestPlainTexts: texts in the two delta encodings become plain texts. Lengths that cannot be, and texts that together
// are too large, are errors.
func TestPlainTexts(t *testing.T) {
	// texts encodes texts by the lengths of the prefixes that they share with the text before, and of the rest of each.
	texts := func(prefixes, suffixes []int64, data string) []byte {
		return append(append(packDeltas(prefixes), packDeltas(suffixes)...), data...)
	}
	good := texts([]int64{0, 2, 4, 0}, []int64{4, 2, 0, 4}, "abcdXYefgh") // abcd, ab and XY, abXY, efgh
	must.Equal(t, string(must.Get(plainTexts(good, 4, true, ample))(t)), "abcdabXYabXYefgh", "shared prefixes")
	got, err := plainTexts(good, 0, true, ample)
	if n, spanErr := (kind{}).measurePlain(got, 4); err != nil || spanErr != nil || n != len(got) || n != 16+4*4 {
		t.Errorf("shared prefixes: %q, %v, %v, expected 4 texts of 4 bytes behind their lengths", got, err, spanErr)
	}
	if got, err := plainTexts(append(packDeltas([]int64{1, 0, 2}), "abc"...), 0, false, ample); err != nil ||
		string(got) != "\x01\x00\x00\x00a\x00\x00\x00\x00\x02\x00\x00\x00bc" {
		t.Errorf("lengths first: %q, %v, expected a, nothing, bc", got, err)
	}

	// Lengths that cannot be.
	for name, data := range map[string][]byte{
		"a first prefix": texts([]int64{1}, []int64{3}, "abcd"), "too short": texts([]int64{0}, []int64{3}, "abcd"),
		"negative": texts([]int64{0, -1}, []int64{4, 5}, "abcdefghi"),
		"cut off":  texts([]int64{0}, []int64{4}, "abc"), "other lengths": texts([]int64{0}, []int64{4, 4}, "abcdefgh"),
		"overflow": texts([]int64{0, math.MaxInt64}, []int64{4, math.MinInt64}, "abcd"),
	} {
		if got, err := plainTexts(data, 4, true, ample); err == nil {
			t.Errorf("%s: %q, expected an error", name, got)
		}
	}

	// A text of 10,000 bytes, which 999 others share, needs more than ample has.
	prefixes := make([]int64, 1000)
	for i := range prefixes[1:] {
		prefixes[i+1] = 10_000
	}
	suffixes := make([]int64, 1000)
	suffixes[0] = 10_000
	if got, err := plainTexts(texts(prefixes, suffixes, strings.Repeat("a", 10_000)), 0, true, ample); err == nil {
		t.Errorf("%d bytes of texts were unpacked, expected an error", len(got))
	}
}

// TestJoinStreams: values that are split into a stream for each byte come back, for every width.
func TestJoinStreams(t *testing.T) {
	for _, width := range []int{1, 2, 4, 5, 8, 16} {
		values := make([]byte, 37*width)
		for i := range values {
			values[i] = byte(i * 7)
		}
		split := make([]byte, 0, len(values))
		for stream := range width {
			for at := stream; at < len(values); at += width {
				split = append(split, values[at])
			}
		}
		if got := joinStreams(split, width); !bytes.Equal(got, values) {
			t.Errorf("%d streams: %v, expected %v", width, got, values)
		}
	}
}

// FuzzDeltas: whatever the bytes, reading deltas does not panic and takes no more memory than ample allows. Numbers
// that were read come back when they are packed again.
func FuzzDeltas(f *testing.F) {
	f.Add(packDeltas([]int64{1, 5, -3, math.MaxInt64, math.MinInt64}), 4)
	f.Add(append(append(packDeltas([]int64{0, 2}), packDeltas([]int64{4, 2})...), "abcdXY"...), 4)
	f.Add([]byte{128, 1, 4, 0xff, 0xff, 0xff, 0x7f, 0}, 1)
	f.Fuzz(func(t *testing.T, data []byte, width int) {
		if values, rest, err := readDeltas(data, ample); err == nil {
			again, none, err := readDeltas(packDeltas(values), ample)
			if err != nil || !slices.Equal(again, values) || len(none) > 0 || len(rest) > len(data) {
				t.Fatalf("the numbers %v, packed again, are read as %v, error %v; want the same", values, again, err)
			}
		}
		width &= 0xff
		for _, shared := range []bool{false, true} {
			if texts, err := plainTexts(data, width, shared, ample); err == nil && width > 0 && len(texts)%width != 0 {
				t.Fatalf("%d bytes in texts of %d, want whole texts", len(texts), width)
			}
		}
		if width > 0 {
			joinStreams(data[:len(data)/width*width], width)
		}
	})
}

// TestDictionariesOfDamagedMetadata: damaged metadata names no categorical columns, and reading it ends.
func TestDictionariesOfDamagedMetadata(t *testing.T) {
	for _, text := range []string{"", "AAAA", "!", "/////w==", "//////////8=", "/////xAAAAD/////////////////////",
		strings.Repeat("A", 1000)} {
		out := map[string]bool{}
		_ = recoverPanics(func() error { return arrowDictionaries(text, out) })
		if len(out) > 0 {
			t.Errorf("metadata %.20q: got the dictionaries %v; want none", text, out)
		}
		_ = recoverPanics(func() error { return pandasCategories(text, out) })
	}
}
