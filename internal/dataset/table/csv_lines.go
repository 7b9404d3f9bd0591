package table

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"strings"
)

// lineRecords reads delimited text. As long as every line is a row, it divides lines itself: to the end if a quote is
// an ordinary character, else up to the line with the first quote. From that line on csv.Reader reads, which takes
// twice the time. Empty lines are skipped; lines may end in LF or CRLF. Records, positions and errors are those of
// csv.Reader.
type lineRecords struct {
	r      *bufio.Reader
	comma  rune
	quoted bool        // fields may be quoted
	fields int         // in every record, as csv.Reader's FieldsPerRecord: 0 lets the first record decide
	record []string    // the last one, whose memory is used again
	line   int         // lines read here, before rest
	offset int64       // bytes read here, before rest
	rest   *csv.Reader // reads everything from the first quote on; nil before
}

// Read returns the next record, which is valid until the next call, or io.EOF after the last. A record with another
// number of fields is returned with csv.ErrFieldCount.
func (p *lineRecords) Read() ([]string, error) {
	for p.rest == nil {
		text, err := p.nextLine()
		if err != nil && (!errors.Is(err, io.EOF) || text == "") {
			return nil, err
		}
		if p.quoted && strings.IndexByte(text, '"') >= 0 {
			p.rest = csv.NewReader(bufio.NewReaderSize(io.MultiReader(strings.NewReader(text), p.r), p.r.Size()))
			p.rest.Comma, p.rest.FieldsPerRecord, p.rest.ReuseRecord = p.comma, p.fields, true
			break
		}

		p.offset += int64(len(text))
		p.line++
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		if text == "" {
			continue
		}
		p.splitLine(text)
		if p.fields == 0 {
			p.fields = len(p.record)
		}
		if p.fields > 0 && len(p.record) != p.fields {
			return p.record, &csv.ParseError{StartLine: p.line, Line: p.line, Column: 1, Err: csv.ErrFieldCount}
		}
		return p.record, nil
	}

	// Lines in errors of csv.Reader count from its first one.
	record, err := p.rest.Read()
	var wrong *csv.ParseError
	if errors.As(err, &wrong) {
		wrong.StartLine += p.line
		wrong.Line += p.line
	}
	return record, err
}

// nextLine returns the next line with its end, in memory of its own, which the fields of a record then share. Most
// lines fit the reader's buffer, so they are copied once.
func (p *lineRecords) nextLine() (string, error) {
	text, err := p.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return string(text), err
	}
	first := string(text)
	more, err := p.r.ReadString('\n')
	return first + more, err
}

// splitLine divides a line, without its end, into the fields of p.record.
func (p *lineRecords) splitLine(text string) {
	p.record = p.record[:0]
	comma := string(p.comma)
	for {
		at := strings.Index(text, comma)
		if at < 0 {
			p.record = append(p.record, text)
			return
		}
		p.record = append(p.record, text[:at])
		text = text[at+len(comma):]
	}
}

// FieldPos returns the line of the last record; it is the counterpart of csv.Reader's FieldPos. column is right only
// for records that csv.Reader read.
func (p *lineRecords) FieldPos(field int) (line, column int) {
	if p.rest == nil {
		return p.line, 1
	}
	line, column = p.rest.FieldPos(field)
	return p.line + line, column
}

// InputOffset is the position after the last record.
func (p *lineRecords) InputOffset() int64 {
	if p.rest == nil {
		return p.offset
	}
	return p.offset + p.rest.InputOffset()
}
