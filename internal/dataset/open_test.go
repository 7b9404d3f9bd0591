package dataset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestOpenGivesWhatWasWritten writes a dataset and opens it. Manifest, bins in both layouts, targets and sample must be
// those that were written, and targets that are read instead of mapped must be the same.
func TestOpenGivesWhatWasWritten(t *testing.T) {
	f := newFixture(1, smallRows())
	dir := filepath.Join(t.TempDir(), "d")
	m := f.write(t, dir, 7, 2) // in pieces of 7 rows, with the checksums on two threads
	d := must.Get(Open(dir))(t)
	if err := d.Verify(context.Background(), nil); err != nil {
		t.Errorf("verify: got error %v, want none", err)
	}
	if !reflect.DeepEqual(d.Manifest, m) {
		t.Errorf("manifest\n%+v\nwant\n%+v", d.Manifest, m)
	}
	if len(d.Splits) != 4 || d.Split("absent") != nil {
		t.Fatalf("%d splits, want four, and none called absent", len(d.Splits))
	}
	for _, s := range d.Splits {
		if !bytes.Equal(s.RowMajor, f.rows[s.Name]) {
			t.Errorf("%s: rows have bins %v, want %v", s.Name, s.RowMajor, f.rows[s.Name])
		}
		for j, column := range s.Columns {
			for r, bin := range column {
				if bin != s.RowMajor[r*len(s.Columns)+j] {
					t.Fatalf("%s: row %d, feature %d has bin %d in its column, want %d as in its row", s.Name, r, j,
						bin, s.RowMajor[r*len(s.Columns)+j])
				}
			}
		}
		if !reflect.DeepEqual(s.Targets, f.targets[s.Name]) {
			t.Errorf("%s: targets\n%+v\nwant\n%+v", s.Name, s.Targets, f.targets[s.Name])
		}
		fetched, err := ReadTargets(mustRead(t, dir, TargetsFile(s.Name)))
		if err != nil || !reflect.DeepEqual(fetched, s.Targets) {
			t.Errorf("%s: read targets\n%+v (error %v)\nwant\n%+v", s.Name, fetched, err, s.Targets)
		}
	}
	sample := must.Get(ReadSample(mustRead(t, dir, SampleFile)))(t)
	if got, want := describe(sample), describe(&f.sample); got != want {
		t.Errorf("sample\n%s\nwant\n%s", got, want)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Errorf("closed twice: got error %v, want none", err)
	}
}

// describe returns all of a sample as a text: its split, row numbers, names, types and values. Unlike the values, texts
// with NaN can be compared.
func describe(s *Sample) string {
	var b strings.Builder
	fmt.Fprint(&b, s.Split, s.Row)
	for i := range s.Columns {
		v := &s.Columns[i]
		b.WriteString("\n" + s.Names[i] + " " + string(v.Type) + string(v.Unit))
		for j := range v.Len() {
			if v.IsNull(j) {
				b.WriteString(" <null>")
			} else {
				b.WriteString(" " + v.TextOf(j))
			}
		}
	}
	return b.String()
}

// TestSameBytesWhateverTheThreads writes a dataset at once on one thread and in pieces on four, and expects the same
// bytes. The version must not depend on where the source is, but on the rest of the manifest, here max_bin.
func TestSameBytesWhateverTheThreads(t *testing.T) {
	f := newFixture(2, smallRows())
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	m := f.write(t, a, 1000, 1) // no split has 1,000 rows, so each is one piece
	f.write(t, b, 3, 4)         // in pieces of 3 rows
	for _, name := range append(m.fileNames(), ManifestFile) {
		if !bytes.Equal(mustRead(t, a, name), mustRead(t, b, name)) {
			t.Errorf("%s differs between one thread and four, want the same bytes", name)
		}
	}
	other := *m
	other.About = About{Sources: []Source{{URI: "gs://elsewhere/x.csv", Generation: 3}}}
	if v, _ := other.ContentVersion(); v != m.Version {
		t.Errorf("with another source: version %s, want %s", v, m.Version)
	}
	other.MaxBin--
	if v, _ := other.ContentVersion(); v == m.Version {
		t.Errorf("with another max_bin: version %s, want another one", v)
	}
}

// TestOpenCostsNothing opens a dataset with 5 GB of bins by row and as many by column, whose files are holes, in less
// time than touching each byte would take.
func TestOpenCostsNothing(t *testing.T) {
	// Make the files without writing values, and a manifest with any checksums.
	const rows = 1 << 30 // of five features
	f := newFixture(3, map[string]int{"train": 1})
	m := f.manifest
	m.Splits[0].Rows = rows
	dir := filepath.Join(t.TempDir(), "d")
	w := must.Get(NewWriter(dir, &m))(t)
	must.Do(t, w.WriteSample(t.Context(), &f.sample))
	must.Do(t, w.Close())
	m.Format, m.Files = FormatVersion, w.files
	for i := range m.Files {
		m.Files[i].Blocks = slices.Repeat([]string{strings.Repeat("0", 64)}, int((m.Files[i].Bytes-1)/BlockBytes+1))
	}
	m.Version, _ = m.ContentVersion()
	data := must.Get(m.Encode())(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, ManifestFile), data, 0o666))
	var d *Dataset
	took := time.Hour
	for range 5 { // the machine may be busy with other things
		start := time.Now()
		d = must.Get(Open(dir))(t)
		defer d.Close()
		took = min(took, time.Since(start))
	}
	must.Equal(t, len(d.Split("train").RowMajor), 5*rows, "number of values")

	// Touching each of the bytes takes more than a second. Under the race detector the manifest alone takes a tenth of
	// one.
	if took > 500*time.Millisecond {
		t.Errorf("Open of 5 GB took %s; want 500ms at most", took)
	}
}

// TestVerifyNamesThePlace flips a bit in the second block of a file, and expects Verify and Check to name that block,
// and VerifyBlock to refuse it. Before that, Verify must report progress until all bytes are read, and stop if it is
// cancelled.
func TestVerifyNamesThePlace(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	f := newFixture(4, map[string]int{"train": 2_000_000}) // of 5 bytes: more than one block, 8 MiB, of rows
	dir := filepath.Join(t.TempDir(), "d")
	f.sample.Row = []uint32{1, 2, 3}
	m := f.write(t, dir, 500_000, 2)
	d := must.Get(Open(dir))(t)
	defer d.Close()
	var total atomic.Int64
	var reached atomic.Bool // all bytes were done in some call
	must.Do(t, d.Verify(context.Background(), func(done, of int64) {
		total.Store(of)
		if done == of {
			reached.Store(true)
		}
	}))
	if total.Load() != m.Bytes() || !reached.Load() {
		t.Errorf("progress of %d bytes, to the end: %t; want %d bytes, to the end", total.Load(), reached.Load(),
			m.Bytes())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.Verify(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got error %v, want %v", err, context.Canceled)
	}

	// Damage the second block, which is the last.
	path := filepath.Join(dir, "train", "rows.arrow")
	const at = BlockBytes + 12345
	flip(t, path, at)
	want := CorruptError{"train/rows.arrow", BlockBytes, m.Files[0].Bytes, // from the block's first byte to the end
		"the contents differ from the manifest's checksum"}
	var corrupt *CorruptError
	if err := d.Verify(context.Background(), nil); !errors.As(err, &corrupt) || *corrupt != want {
		t.Errorf("verify: got error %v, want %v", err, &want)
	}
	if _, err := Check(context.Background(), dir, nil); !errors.As(err, &corrupt) || *corrupt != want {
		t.Errorf("check: got error %v, want %v", err, &want)
	}

	// The first block is whole. The second is damaged; the others are too short, or there is no such block.
	data := mustRead(t, path)
	if err := m.Files[0].VerifyBlock(0, data[:BlockBytes]); err != nil {
		t.Errorf("block 0: got error %v, want none", err)
	}
	for _, bad := range []error{
		m.Files[0].VerifyBlock(1, data[BlockBytes:]),
		m.Files[0].VerifyBlock(0, data[:100]),
		m.Files[0].VerifyBlock(99, nil),
		m.Files[0].VerifyBlock(-1, nil),
	} {
		if !errors.As(bad, &corrupt) {
			t.Errorf("got %v, want *CorruptError", bad)
		}
	}
}

// flip inverts one bit of the byte at an offset of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	b := make([]byte, 1)
	must.Get(f.ReadAt(b, at))(t)
	b[0] ^= 0x10
	must.Get(f.WriteAt(b, at))(t)
}

// TestOpenRefuses breaks one file of a dataset at a time, and expects Open to refuse it with the name of the file.
func TestOpenRefuses(t *testing.T) {
	// These return functions that cut bytes off a file in a folder, replace bytes of it, or remove it.
	truncate := func(name string, by int64) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()-by)
		}
	}
	replace := func(name, old, with string) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if !bytes.Contains(data, []byte(old)) {
				return errors.New("nothing to replace")
			}
			return os.WriteFile(path, bytes.ReplaceAll(data, []byte(old), []byte(with)), 0o666)
		}
	}
	remove := func(name string) func(string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"truncated rows": {truncate("train/rows.arrow", 1),
			"train/rows.arrow: byte 569: the file has 569 bytes where the manifest says 570"},
		"truncated sample": {truncate("sample.arrow", 1), "sample.arrow: the file is missing or does not have"},
		"missing file":     {remove("test/columns.arrow"), "test/columns.arrow: the file is missing"},
		"missing manifest": {remove(ManifestFile), "no dataset in"},
		"altered manifest": {replace(ManifestFile, `"max_bin":255`, `"max_bin":254`), "it was altered"},
		"unknown key":      {replace(ManifestFile, `"max_bin"`, `"max_bins"`), `unknown key "max_bins"`},
		"cut manifest":     {truncate(ManifestFile, 3), "unexpected end of JSON"},
		"two manifests":    {replace(ManifestFile, "\n", "\n{}"), "after top-level value"},
		"other magic": {replace("valid/rows.arrow", "ARROW1\x00", "ARROW2\x00"),
			"valid/rows.arrow: byte 0: an Arrow file begins with ARROW1"},
		"other end": {replace("valid/rows.arrow", "\x00ARROW1", "\x00ARROW2"), "an Arrow file ends with ARROW1"},
		"renamed column": {replace("test/columns.arrow", "city", "town"),
			"test/columns.arrow: its columns are not those that the manifest says"},
		"other target name": {replace("test/targets.arrow", "weight", "height"),
			"test/targets.arrow: its columns are not those"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			newFixture(5, smallRows()).write(t, dir, 100, 1)
			must.Do(t, tc.spoil(dir))
			d, err := Open(dir)
			if err == nil {
				t.Fatalf("opened %s without an error, want ... %s ...", d.Dir(), tc.want)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %s\nwant ... %s ...", err, tc.want)
			}
			if !problem.Is(err, problem.Damaged) && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("untyped error %T, want one of kind damaged or not found", err)
			}
		})
	}
}

// TestOpenSurvivesEveryFlippedByte flips bits in every byte of the files. Reading must never panic, errors must be of
// kind Damaged, and files that are still accepted must have the same number of rows. At least a thirtieth of the flips
// must be refused, one for every ten bytes, each of which is flipped in three ways. Most of the others change values,
// which only checksums protect.
func TestOpenSurvivesEveryFlippedByte(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	f := newFixture(6, map[string]int{"train": 9})
	f.sample.Row = []uint32{0, 1, 2}
	dir := filepath.Join(t.TempDir(), "d")
	f.write(t, dir, 100, 1)

	for _, name := range []string{"train/rows.arrow", "train/columns.arrow", "train/targets.arrow", SampleFile} {
		good := mustRead(t, dir, name)
		want := must.Get(parseArrow(name, good))(t)
		refused := 0
		for at := range good {
			for _, mask := range []byte{0x01, 0x80, 0xff} {
				data := bytes.Clone(good)
				data[at] ^= mask
				got, err := parseArrow(name, data)
				switch {
				case err == nil && got.rows != want.rows:
					t.Fatalf("%s: byte %d flipped by %#x: got %d rows without an error, want %d or an error", name, at,
						mask, got.rows, want.rows)
				case err != nil && !problem.Is(err, problem.Damaged):
					t.Fatalf("%s: byte %d flipped by %#x: got error %v, want one of kind Damaged", name, at, mask, err)
				case err != nil:
					refused++
				}
				_, _ = ReadSample(data) // these must not panic, either
				_, _ = ReadTargets(data)
			}
		}
		if refused < len(good)/10 {
			t.Errorf("%s: %d of %d flips were refused, want at least %d", name, refused, 3*len(good), len(good)/10)
		}
	}
}

// TestDamageUnderTheMapping changes or cuts a file after it was mapped. VerifyMapped must return a *CorruptError, and
// the process must survive. If nothing is changed, there is no such error.
func TestDamageUnderTheMapping(t *testing.T) {
	for name, tc := range map[string]struct {
		file    string
		spoil   func(*os.File, int64) error
		noticed bool
	}{
		"nothing": {TargetsFile(TrainSplit), func(*os.File, int64) error { return nil }, false},
		"a label": {TargetsFile(TrainSplit), func(f *os.File, size int64) error {
			_, err := f.WriteAt([]byte{0xff}, size/2)
			return err
		}, true},
		"a bin": {TrainSplit + "/rows.arrow", func(f *os.File, size int64) error {
			_, err := f.WriteAt([]byte{0xff}, size/2)
			return err
		}, true},
		"cut labels": {TargetsFile(TrainSplit), func(f *os.File, _ int64) error { return f.Truncate(0) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			// Map a dataset.
			dir := filepath.Join(t.TempDir(), "d")
			newFixture(1, smallRows()).write(t, dir, 7, 2)
			d := must.Get(Open(dir))(t)
			defer d.Close()

			// Spoil the file under the mapping.
			f := must.Get(os.OpenFile(filepath.Join(dir, filepath.FromSlash(tc.file)), os.O_RDWR, 0))(t)
			defer f.Close()
			info, err := f.Stat()
			if err == nil {
				err = tc.spoil(f, info.Size())
			}
			must.Do(t, err)

			var corrupt *CorruptError
			if err := d.VerifyMapped(t.Context(), 2); errors.As(err, &corrupt) != tc.noticed {
				t.Errorf("VerifyMapped after damage to %s says %v; want damage noticed: %t", tc.file, err, tc.noticed)
			}
		})
	}
}

// TestAFolderThatIsNone gives ReadManifest places that are no dataset's folder: a symbolic link to itself, a file, a
// folder whose manifest is a pipe, a device, and a folder that does not exist.
func TestAFolderThatIsNone(t *testing.T) {
	dir := t.TempDir()
	loop, file := filepath.Join(dir, "loop"), filepath.Join(dir, "file")
	for _, err := range []error{os.Symlink(loop, loop), os.WriteFile(file, nil, 0o600),
		syscall.Mkfifo(filepath.Join(dir, ManifestFile), 0o600)} {
		must.Do(t, err)
	}

	for path, says := range map[string]string{loop: "symbolic links", file: "not a directory", dir: "a pipe",
		"/dev/zero": "not a directory"} {
		_, err := ReadManifest(path)
		if !problem.Is(err, problem.Input) || !strings.Contains(err.Error(), says) {
			t.Errorf("reading the manifest in %s: %v, expected an error of the input with %q", path, err, says)
		}
	}
	if _, err := ReadManifest(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading the manifest of a folder that is not there: %v, expected fs.ErrNotExist", err)
	}
}

// hashedParts writes random bytes to a hashedFile of size bytes, in parts that are ranges from p[0] up to p[1]. It
// returns the checksums of the file's blocks, and its contents.
func hashedParts(t *testing.T, size int64, parts [][2]int64, rng *rand.Rand) (sums []string, data []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	file := must.Get(os.Create(path))(t)
	f := newHashedFile(file, size)
	defer f.Close()
	must.Do(t, f.Truncate(size))
	for _, p := range parts {
		part := make([]byte, p[1]-p[0])
		for i := range part {
			part[i] = byte(rng.Uint32())
		}
		if n, err := f.WriteAt(part, p[0]); err != nil || n != len(part) {
			t.Fatalf("writing %d bytes at %d: got %d written, error %v", len(part), p[0], n, err)
		}
	}
	data = must.Get(os.ReadFile(path))(t)
	return f.blockSums(), data
}

// TestHashedFile writes a file in parts. The checksum of a block must be known if its parts were written from front to
// back, and otherwise be "", as for blocks with holes or bytes that were written twice.
func TestHashedFile(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	rng := rand.New(rand.NewPCG(4, 2))
	const b, size = BlockBytes, 2*BlockBytes + 1000
	for name, tc := range map[string]struct {
		parts [][2]int64
		known []bool
	}{
		"at once": {[][2]int64{{0, size}}, []bool{true, true, true}},
		"in parts": {[][2]int64{{0, 5}, {5, b + 7}, {b + 7, 2*b + 1}, {2*b + 1, size}},
			[]bool{true, true, true}},
		"blocks in any order": {[][2]int64{{2 * b, size}, {0, b}, {b, 2 * b}}, []bool{true, true, true}},
		"a hole":              {[][2]int64{{0, b - 1}, {b, size}}, []bool{false, true, true}},
		"the end first":       {[][2]int64{{size - 1, size}, {0, size - 1}}, []bool{true, true, false}},
		"back to front": {[][2]int64{{b, 2*b - 9}, {2*b - 5, 2 * b}, {2*b - 9, 2*b - 5}, {0, b}, {2 * b, size}},
			[]bool{true, false, true}},
		"written again": {[][2]int64{{0, size}, {b + 5, b + 6}}, []bool{true, false, true}},
		"again in between": {[][2]int64{{0, b + 100}, {3, 4}, {b + 50, b + 60}, {b + 100, size}},
			[]bool{false, false, true}},
		"nothing": {nil, []bool{false, false, false}},
	} {
		sums, data := hashedParts(t, size, tc.parts, rng)
		for i, known := range tc.known {
			sum := sha256.Sum256(data[i*b : min(size, (i+1)*b)])
			want := ""
			if known {
				want = hex.EncodeToString(sum[:])
			}
			must.Equal(t, sums[i], want, "%s: block %d has the checksum", name, i)
		}
	}
}

// TestHashedFileAtOnce writes a file from three goroutines, whose ranges meet within blocks. Checksums that are known
// must be right, and those of blocks with one writer, who began at the front, must be known. Of the blocks in which two
// writers meet, at least one has none, since they write at the same time.
func TestHashedFileAtOnce(t *testing.T) {
	const size, writers = 4*BlockBytes + 17, 3
	data := make([]byte, size)
	rng := rand.New(rand.NewPCG(7, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "f")))(t)
	f := newHashedFile(file, size)
	defer f.Close()

	// Each goroutine writes a third of the file from front to back, in parts of 100,000 bytes.
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			to := (w + 1) * size / writers
			for at := w * size / writers; at < to; at += 100_000 {
				part := data[at:min(to, at+100_000)]
				if _, err := f.WriteAt(part, int64(at)); err != nil {
					t.Errorf("write %d bytes at %d: got error %v, want none", len(part), at, err)
				}
			}
		})
	}
	wg.Wait()

	// There are five blocks, the last of 17 bytes. Thirds, of 1⅓ blocks each, meet within blocks 1 and 2.
	sums := f.blockSums()
	for i, got := range sums {
		sum := sha256.Sum256(data[i*BlockBytes : min(size, (i+1)*BlockBytes)])
		if got != "" && got != hex.EncodeToString(sum[:]) {
			t.Errorf("block %d has checksum %s, want %x", i, got, sum)
		}
	}
	if sums[0] == "" || sums[3] == "" || sums[4] == "" || !slices.Contains(sums, "") {
		t.Errorf("checksums %q; want those of blocks 0, 3 and 4, which have one writer each, and none for a block in "+
			"which two writers meet", sums)
	}
}
