//go:build unix && !race

package cli

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// writtenFile makes a file of what write writes, and returns its size in bytes.
func writtenFile(t *testing.T, path string, write func(io.Writer) error) int64 {
	t.Helper()
	f := must.Get(os.Create(path))(t)
	w := bufio.NewWriter(f)
	must.Do(t, write(w))
	must.Do(t, w.Flush())
	info := must.Get(f.Stat())(t)
	must.Do(t, f.Close())
	return info.Size()
}

// repeat returns a function that writes begin, then text so many times, then end.
func repeat(begin, text string, times int, end string) func(io.Writer) error {
	return func(w io.Writer) error {
		if _, err := io.WriteString(w, begin); err != nil {
			return err
		}
		for range times {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
		}
		_, err := io.WriteString(w, end)
		return err
	}
}

// packed returns a function that writes, compressed as open does it, what write writes.
func packed[W io.WriteCloser](open func(io.Writer) (W, error), write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		z, err := open(w)
		if err != nil {
			return err
		}
		if err := write(z); err != nil {
			return err
		}
		return z.Close()
	}
}

func openGzip(w io.Writer) (*gzip.Writer, error) { return gzip.NewWriter(w), nil }

func openZstd(w io.Writer) (*zstd.Encoder, error) { return zstd.NewWriter(w) }

// parquetOf returns a function that writes a Parquet file of a label and a long text in each row. The texts differ only
// in their beginning, so the file is much smaller than what it unpacks to.
func parquetOf(text string, rows int) func(io.Writer) error {
	return func(w io.Writer) error {
		p, err := table.NewParquetWriter(w, []table.Column{{Name: "y", Type: dataset.Int}, {Name: "a",
			Type: dataset.Text}}, table.Zstd)
		if err != nil {
			return err
		}
		b := &table.Batch{Names: []string{"y", "a"}, Rows: rows, Columns: []dataset.Values{{Type: dataset.Int},
			{Type: dataset.Text}}}
		for i := range rows {
			b.Columns[0].Int = append(b.Columns[0].Int, int64(i%2))
			// another first byte, so that no dictionary has each text once
			b.Columns[1].Text = append(b.Columns[1].Text, fmt.Sprint(i)+text)
		}
		if err := p.Write(b); err != nil {
			return err
		}
		return p.Close()
	}
}

// peakOf returns the processor time that run takes, and how far the bytes of objects on the heap rose meanwhile.
// Objects that are not collected yet count, so the rise is more than what run needs.
func peakOf(t *testing.T, run func()) (took time.Duration, peak int64) {
	t.Helper()
	objects := func() int64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	used := func() time.Duration {
		var r syscall.Rusage
		must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	runtime.GC()
	before, began := objects(), used()
	done, most := make(chan struct{}), make(chan int64)
	go func() {
		highest := before
		for {
			select {
			case <-done:
				most <- highest
				return
			case <-time.After(time.Millisecond):
				highest = max(highest, objects())
			}
		}
	}()
	run()
	took = used() - began
	close(done)
	return took, max(<-most, objects()) - before
}

// TestHostileInputs: inputs that are made to exhaust memory or time are refused with an error of at most 2,000 bytes.
// It takes at most 30 s of processor time and, for each case, so many MiB on the heap (most). Specs of sweeps (.yaml)
// are given to plan, and tables to stage. With -v and COPPICE_FULL set, it prints the table of docs/LAB.md.
func TestHostileInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: its files have hundreds of MiB, unpacked")
	}
	const (
		mega  = 1 << 20
		table = "name: t\nlabel: y\nsplit: {by: random, train: 0.8, test: 0.2}\nsource: "
	)
	x, unpacked := strings.Repeat("x", mega), 256 // unpacked is what the compressed lines have, in MiB
	if os.Getenv("COPPICE_FULL") != "" {
		unpacked = 1024
	}
	for _, c := range []struct {
		name, file string
		write      func(io.Writer) error
		says       string
		most       int64 // MiB on the heap: what was measured, with room for garbage that is not collected yet
	}{
		{"a line without end, 256 MiB", "line.csv", repeat("y,a\n1,", x, 256, ""), "no end of a line", 100},
		{fmt.Sprint("the same, ", unpacked, " MiB in gzip"), "line.csv.gz",
			packed(openGzip, repeat("y,a\n1,", x, unpacked, "")), "a row of more than", 150},
		{fmt.Sprint("the same, ", unpacked, " MiB in zstd"), "line.csv.zst",
			packed(openZstd, repeat("y,a\n1,", x, unpacked, "")), "a row of more than", 150},
		{"a header without end, 256 MiB", "head.csv", repeat("y,", "a,", 128*mega, "\n"), "no end of a line", 100},
		{"a quote that is never closed, 256 MiB", "quote.csv", repeat("y,a\n1,\"", x+"\n", 256, ""),
			"a row of more than", 200},
		{"40,000 columns", "wide.csv", func(w io.Writer) error {
			names, values := []string{"y"}, []string{"1"}
			for i := range 40_000 {
				names, values = append(names, fmt.Sprint("c", i)), append(values, fmt.Sprint(i%7))
			}
			rows := strings.Repeat(strings.Join(values, ",")+"\n0"+strings.Join(values, ",")[1:]+"\n", 20)
			_, err := io.WriteString(w, strings.Join(names, ",")+"\n"+rows)
			return err
		}, "at most 32768", 300},
		{"NUL bytes, 64 MiB", "nul.csv", repeat("y,a\n", strings.Repeat("\x00", mega), 64, ""), "is NUL", 100},
		{"JSONL of brackets, 8 MiB", "deep.jsonl", repeat(`{"y":`, strings.Repeat("[", mega), 8, "\n"),
			"nested more than", 150},
		{"a JSONL line without end, 256 MiB", "line.jsonl", repeat(`{"y":"`, x, 256, ""), "no end of a line", 100},
		{"Parquet, texts of 17 MiB", "text.parquet", parquetOf(strings.Repeat(x, 17), 4), "where at most", 600},
		{"Parquet, a page of 400 MiB", "page.parquet", parquetOf(x, 400), "unpacks to", 600},
		{"Parquet, a footer of 4 GiB", "foot.parquet", func(w io.Writer) error {
			// A file ends with its footer's length and PAR1: here the length is that of 4 GiB, and there is no footer.
			_, err := w.Write(append(binary.LittleEndian.AppendUint32([]byte("PAR1    "), 0xffffffff), "PAR1"...))
			return err
		}, "not a complete Parquet file", 100},

		{"a spec of 64 MiB", "long.yaml", repeat("name: ", x, 64, "\n"), "more than the", 50},
		{"a spec of 100,000 brackets", "deep.yaml", repeat("name: ", "[", 100_000, ""), "brackets are open", 50},
		{"a spec of dashes", "dashes.yaml", repeat("name: ", "-", 1_000_000, ""), "sweep name", 50},
		{"a spec of 32,000 keys", "many.yaml", func(w io.Writer) error {
			for i := range 32_000 {
				if _, err := fmt.Fprintf(w, "k%d: 1\n", i); err != nil {
					return err
				}
			}
			return nil
		}, `unknown key "k0"`, 200},
		{"a spec of 1,000 nested keys", "keys.yaml", func(w io.Writer) error {
			for i := range 1000 {
				if _, err := fmt.Fprintf(w, "%sa:\n", strings.Repeat(" ", i)); err != nil {
					return err
				}
			}
			return nil
		}, "unknown key", 50},
		{"a spec of aliases of aliases", "alias.yaml", func(w io.Writer) error {
			// Each alias stands for ten of the one before, so the last would be a list of 10^30.
			fmt.Fprint(w, "a0: &a0 [x]\n")
			for i := range 30 {
				fmt.Fprintf(w, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 10))
			}
			return nil
		}, "anchors, aliases", 50},
	} {
		w := newWorld(t)
		path := filepath.Join(w.dir, c.file)
		size := writtenFile(t, path, c.write)
		args := []string{"stage", w.file("d.yaml", table+path+"\n"), "--out", filepath.Join(w.dir, "out")}
		if filepath.Ext(c.file) == ".yaml" {
			args = []string{"plan", path, "--rows", "1000", "--features", "5"}
		}
		var code int
		var errOut string
		took, peak := peakOf(t, func() { code, _, errOut = w.run(args...) })
		t.Logf("| %s | %d KiB | %.1f s | %d MiB |", c.name, size>>10, took.Seconds(), peak>>20)
		errOut = strings.TrimSpace(errOut)
		if code == 0 || !strings.Contains(errOut, c.says) || len(errOut) > 2000 {
			t.Errorf("%s: exit code %d and %.300q; want it to be refused and %q", c.name, code, errOut, c.says)
		}
		if took > 30*time.Second || peak > c.most<<20 {
			t.Errorf("%s: %v of processor time and %d MiB; want at most 30 s and %d MiB", c.name, took, peak>>20,
				c.most)
		}
		must.Do(t, os.RemoveAll(w.dir))
	}
}
