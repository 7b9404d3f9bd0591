package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
)

// csvSource is a file of delimited text. Fields may be quoted as in RFC 4180, around the delimiter, a line break or a
// doubled quote, or the file has no quoting. Lines may end in LF or CRLF; empty lines are skipped. If the spec does not
// say what delimits the fields, the first rows tell.
type csvSource struct {
	file      File
	head      string // the first bytes, which tell the compression
	delimiter rune
	header    bool // the first row has the names of the columns
	quoted    bool // fields may be quoted
	given     bool // the delimiter is the spec's
	cols      []Column
}

// openCSV finds out the delimiter, unless the spec gives it, and the columns. All are texts of which the file does not
// say what they mean. Without a header, or where a name is empty, they are called c0, c1 and so on.
func openCSV(f File, head string, spec dataset.CSVSpec) (*csvSource, error) {
	s := &csvSource{file: f, head: head, header: spec.HasHeader(), quoted: spec.Quote != dataset.QuoteNone}
	if spec.Delimiter != "" {
		s.delimiter, _ = utf8.DecodeRuneInString(spec.Delimiter)
		s.given = true
	} else if _, err := s.findDelimiter(); err != nil {
		return nil, err
	}

	r, err := s.open(0)
	if err != nil {
		return nil, err
	}
	defer r.Close()

	// The first row has the names, or at least their number.
	first, err := r.nextRecord()
	if errors.Is(err, io.EOF) {
		return nil, &InputError{File: f.URI, Msg: "the file is empty"}
	}
	if err != nil {
		return nil, s.addDoubt(err)
	}

	for i, name := range first {
		if name = strings.Trim(name, " \t"); !s.header || name == "" {
			name = fmt.Sprintf("c%d", i)
		}
		s.cols = append(s.cols, Column{Name: strings.Clone(name), Type: dataset.Text, Untyped: true,
			Semicolon: s.delimiter == ';'})
	}
	// A first column without a name is pandas' index if its first two rows count from 0 or 1. An error in these rows is
	// ignored here: it comes again when the rows are read.
	if s.header && len(first) > 1 && strings.Trim(first[0], " \t") == "" {
		// from is the first row's first field, or nothing where there is no row. It is kept apart, since the next call
		// reuses the slice.
		one, _ := r.nextRecord()
		from := strings.Join(one[:min(1, len(one))], "")
		two, _ := r.nextRecord()
		s.cols[0].Index = len(two) > 0 && (from == "0" && two[0] == "1" || from == "1" && two[0] == "2")
	}
	return s, nil
}

func (s *csvSource) columns() []Column { return s.cols }

// How much of a file is looked at to find its delimiter: at most so many bytes, and of these so many rows.
const (
	sniffBytes = 64 << 10
	sniffRows  = 20
)

// findDelimiter sets s.delimiter from the first rows of the file. It takes the delimiter that divides all of them into
// the same number of fields, the most if there are several. If none does, because some row is faulty, it takes the one
// that divides the first row into the most fields; then sure is false. If no delimiter divides the first row, the file
// has one column.
func (s *csvSource) findDelimiter() (sure bool, err error) {
	t, err := openText(s.file, s.head)
	if err != nil {
		return false, err
	}
	defer t.Close()

	// A sample of whole lines. An error is ignored here: it comes again when the row is read.
	sample := make([]byte, sniffBytes)
	n, err := io.ReadFull(t.clean, sample)
	sample = sample[:n]
	if i := bytes.LastIndexByte(sample, '\n'); i >= 0 && err == nil {
		sample = sample[:i+1] // whole lines: the file goes on
	}

	// The most usual delimiter comes first, and wins if two do as well.
	candidates := []rune{',', '\t', ';', '|'}
	if ext := Suffix(s.file.URI); ext == ".tsv" || ext == ".tab" {
		candidates = []rune{'\t', ',', ';', '|'}
	}
	s.delimiter = candidates[0]

	// Try each of them on the first rows.
	best := 0
	for _, d := range candidates {
		r := &lineRecords{r: bufio.NewReader(bytes.NewReader(sample)), comma: d, quoted: s.quoted}
		first, same := 0, 1 // fields of the first row; 1 if all rows have as many, else 0
		for range sniffRows {
			// Read itself refuses a row with another number of fields than the first. Any other error says nothing
			// against the delimiter, unless it is in the first row: the sample may end within quotes.
			record, err := r.Read()
			if errors.Is(err, csv.ErrFieldCount) || err != nil && first == 0 {
				same = 0
			}
			if err != nil {
				break
			}
			first = len(record)
		}
		// More fields are better, and the same number in all rows is better than any number of fields.
		if score := first + same*sniffBytes; first > 1 && score > best {
			s.delimiter, best = d, score
		}
	}
	return best > sniffBytes, nil // a row has fewer fields than that, so all rows had as many
}

// addDoubt returns an error about a row of the file. If the spec gives the delimiter, but the file is surely divided by
// another one, it adds that to the message. Other errors are returned as they are.
func (s *csvSource) addDoubt(err error) error {
	var row *InputError
	if !s.given || !errors.As(err, &row) || row.Line == 0 {
		return err
	}
	other := *s
	if sure, failed := other.findDelimiter(); failed == nil && sure && other.delimiter != s.delimiter {
		row.Msg = fmt.Sprintf("the file looks divided by %q, but the delimiter is said to be %q: %s", other.delimiter,
			s.delimiter, row.Msg)
	}
	return err
}

// read reads the rows in batches (see source). A row that repeats a header of several names is an error.
func (s *csvSource) read(ctx context.Context, q request) error {
	r, err := s.open(len(s.cols))
	if err != nil {
		return err
	}
	defer r.Close()

	// Skip the header, and remember it to find it again.
	if s.header {
		names, err := r.nextRecord()
		if err != nil {
			return err
		}
		r.header = slices.Clone(names)
	}

	for first := int64(0); ; {
		b := q.empty()
		if err := r.fillBatch(b, q); err != nil {
			return s.addDoubt(err)
		}

		if b.Rows == 0 {
			return ctx.Err()
		}

		b.First = first
		first += int64(b.Rows)
		if err := q.emit(b, r.raw.n, s.file.Bytes); err != nil {
			return err
		}
	}
}

// fillBatch reads the next rows into b, until it has q.rows rows or batchBytes of text. At the end of the file b has
// fewer rows, or none.
func (r *csvReader) fillBatch(b *Batch, q request) error {
	b.clear(len(q.places))
	for begin := r.csv.InputOffset(); b.Rows < q.rows && r.csv.InputOffset()-begin < batchBytes; {
		record, err := r.nextRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		line, _ := r.csv.FieldPos(0)
		if len(r.header) > 1 && record[0] == r.header[0] && slices.Equal(record, r.header) {
			return &InputError{File: r.uri, Line: line, Msg: "the header again, as in files that were joined: leave " +
				"the line out, or give the files as a list or a folder"}
		}
		for i, p := range q.places {
			b.Columns[i].Text = append(b.Columns[i].Text, record[p])
		}
		b.Lines = append(b.Lines, line)
		b.Rows++
	}
	return nil
}

// maxRecord bounds one row of text. Otherwise an unclosed quote would swallow the file.
const maxRecord = 16 << 20

// textFile is a file of text that may be compressed. Its user reads from clean and calls Close.
type textFile struct {
	uri    string
	clean  *cleanReader   // the text
	raw    *countReader   // the file's bytes, to tell how far it has been read
	closes []func() error // what Close calls, the last first
}

// openText opens a text file and decompresses it if its first bytes, head, say that it is compressed.
func openText(file File, head string) (*textFile, error) {
	f, err := file.open()
	if err != nil {
		return nil, err
	}
	r := &textFile{uri: file.URI, raw: &countReader{r: f}, closes: []func() error{f.Close}}

	var plain io.Reader = r.raw
	switch {
	case strings.HasPrefix(head, magicGzip):
		z, err := newGzipReader(r.raw)
		if err != nil {
			return nil, errors.Join(&InputError{File: r.uri, Msg: "not a gzip file, or truncated", Err: err}, r.Close())
		}
		plain = z
	case strings.HasPrefix(head, magicZstd):
		z, err := zstd.NewReader(r.raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, errors.Join(&InputError{File: r.uri, Msg: "not a zstd file", Err: err}, r.Close())
		}
		r.closes = append(r.closes, func() error { z.Close(); return nil })
		plain = z
	}

	r.clean = &cleanReader{r: plain, uri: r.uri, line: 1, limit: maxRecord}
	return r, nil
}

// csvReader reads the records of a csvSource.
type csvReader struct {
	*textFile
	csv    *lineRecords
	fields int      // in every record; 0 if the first one decides
	header []string // which no row may repeat
}

// open opens the file and returns a reader of its records, which the caller closes. Every record must have so many
// fields; with 0 the first record decides.
func (s *csvSource) open(fields int) (*csvReader, error) {
	t, err := openText(s.file, s.head)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(t.clean, cleanBytes)
	return &csvReader{t, &lineRecords{r: r, comma: s.delimiter, quoted: s.quoted, fields: fields}, fields, nil}, nil
}

// Close closes the file and the decompression.
func (r *textFile) Close() error {
	var errs []error
	for _, fn := range slices.Backward(r.closes) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

// nextRecord returns the next record, io.EOF after the last, or an *InputError that names the line. The slice is valid
// until the next call; its strings stay valid.
func (r *csvReader) nextRecord() ([]string, error) {
	record, err := r.csv.Read()
	if err == nil {
		r.clean.limit = r.clean.n + maxRecord
		return record, nil
	}

	if errors.Is(err, io.EOF) {
		return nil, err
	}

	// Turn errors of the readers below into ones that say what to do.
	var rejected *InputError
	if errors.As(err, &rejected) { // from cleanReader
		return nil, rejected
	}

	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return nil, &InputError{File: r.uri, Msg: "the file cannot be read to its end; it may be truncated", Err: err}
	}
	// A quote may be unclosed only because the text was rejected before its end.
	if errors.As(r.clean.err, &rejected) && parse.Line >= r.clean.line {
		return nil, rejected
	}

	e := &InputError{File: r.uri, Line: parse.Line}
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		e.Line = parse.StartLine
		e.Msg = fmt.Sprintf("%s where the first line has %d", english.Plural(len(record), "field", ""), r.fields)
	case errors.Is(err, csv.ErrQuote), errors.Is(err, csv.ErrBareQuote):
		e.Msg = fmt.Sprintf("a misplaced quote at character %d: quote whole fields, and double the quotes in them, or "+
			"turn quoting off (csv: {quote: none} in a dataset.yaml, --quote none of `launcher predict`)", parse.Column)
		if parse.StartLine != parse.Line {
			e.Msg += fmt.Sprintf("; the row begins in line %d", parse.StartLine)
		}
	default:
		e.Msg, e.Err = "not delimited text", parse.Err
	}
	return nil, e
}

// countReader counts the bytes read from a file, before decompression.
type countReader struct {
	r io.Reader
	n int64
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
