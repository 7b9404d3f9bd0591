package ingest

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"strings"
)

// records is what csvReader asks of a reader of delimited text: that of encoding/csv, or plainRecords.
type records interface {
	Read() ([]string, error)
	FieldPos(field int) (line, column int)
	InputOffset() int64
}

// plainRecords reads delimited text in which nothing is quoted: every line is a row, and a quote is a character like others.
// Empty lines are no rows; lines may end in LF or CRLF. Its errors are those of csv.Reader.
type plainRecords struct {
	r      *bufio.Reader
	comma  string
	fields int // in every record, when greater than 0
	record []string
	line   int
	offset int64
}

func (p *plainRecords) Read() ([]string, error) {
	for {
		text, err := p.r.ReadString('\n')
		p.offset += int64(len(text))
		if err != nil && (!errors.Is(err, io.EOF) || text == "") {
			return nil, err
		}

		p.line++
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		if text == "" {
			continue
		}

		p.record = p.record[:0]
		for field := range strings.SplitSeq(text, p.comma) {
			p.record = append(p.record, field)
		}

		if p.fields > 0 && len(p.record) != p.fields {
			return p.record, &csv.ParseError{StartLine: p.line, Line: p.line, Column: 1, Err: csv.ErrFieldCount}
		}
		return p.record, nil
	}
}

// FieldPos is the line of the last record.
func (p *plainRecords) FieldPos(int) (line, column int) { return p.line, 1 }

// InputOffset is the place behind the last record.
func (p *plainRecords) InputOffset() int64 { return p.offset }
