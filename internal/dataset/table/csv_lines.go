package table

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"strings"
)

// lineRecords reads delimited text as long as every line is a row: to the end if a quote is an ordinary character, and
// else up to the first quote, from whose line on csv.Reader reads, in twice the time. Empty lines are skipped; lines
// may end in LF or CRLF. Records, places and errors are those of csv.Reader.
type lineRecords struct {
	r      *bufio.Reader
	comma  rune
	quoted bool
	fields int // in every record, as csv.Reader's FieldsPerRecord
	record []string
	line   int   // of the last record; with rest, of the one before its first
	offset int64 // after it
	rest   *csv.Reader
}

// Read returns the next record. Lines without quotes are divided here, which is fast; from the first quote on,
// encoding/csv does it.
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

	record, err := p.rest.Read()
	var wrong *csv.ParseError
	if errors.As(err, &wrong) {
		wrong.StartLine += p.line
		wrong.Line += p.line
	}
	return record, err
}

// nextLine returns the next line with its end, in memory of its own, which is all that a record takes.
func (p *lineRecords) nextLine() (string, error) {
	text, err := p.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return string(text), err
	}
	first := string(text)
	more, err := p.r.ReadString('\n')
	return first + more, err
}

// splitLine divides a line into the fields of record.
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

// FieldPos returns the line of the last record.
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
