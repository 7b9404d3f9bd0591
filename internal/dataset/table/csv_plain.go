package table

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"strings"
)

// records is the part of encoding/csv's Reader that csvReader uses; plainRecords has it, too.
type records interface {
	Read() ([]string, error)
	FieldPos(field int) (line, column int)
	InputOffset() int64
}

// plainRecords reads delimited text without quoting: every line is a row, and a quote is an ordinary character. Empty
// lines are skipped; lines may end in LF or CRLF. Its errors are those of csv.Reader.
type plainRecords struct {
	r      *bufio.Reader
	comma  string
	fields int // in every record, if greater than 0
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

// FieldPos returns the line of the last record.
func (p *plainRecords) FieldPos(int) (line, column int) { return p.line, 1 }

// InputOffset is the position after the last record.
func (p *plainRecords) InputOffset() int64 { return p.offset }
