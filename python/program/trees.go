package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"coppice/internal/gbt"
)

// Rows that are scored in one call: enough for each thread to have a piece (gbt gives out 4,096 rows), and little
// enough for two such parts to stay small beside a model where threads or features are many.
const (
	rowsOfThread = 4096
	partBytes    = 32 << 20
)

// trees scores rows for the Python package, whose numpy takes several times as long for the same bits. It reads from in
// the length of a model's text (uint64), the text, and then rows until the end, each of as many float64 as the model
// has features. It writes to out the scores of each row, in the order of the rows and as many float64 each as the model
// has outputs. All numbers are little endian. Scores that were written before an error stay.
func trees(in io.Reader, out io.Writer, threads int) error {
	var length uint64
	if err := binary.Read(in, binary.LittleEndian, &length); err != nil {
		return fmt.Errorf("the length of the model's text: %w", err)
	}
	if length > gbt.MaxModelBytes {
		return fmt.Errorf("a model of %d bytes; at most %d are possible", length, int64(gbt.MaxModelBytes))
	}
	m, err := gbt.ReadModel(io.LimitReader(in, int64(length)))
	if err != nil {
		return err
	}

	// Two parts go around between a reader and this function, so that one is read while the other is scored. Scores do
	// not depend on where parts end.
	width := 8 * m.Features() // bytes of a row
	rows := max(threads, min(threads*rowsOfThread, partBytes/width))
	read, free := make(chan part, 2), make(chan part, 2)
	defer close(free) // ends the reader after an error here
	go func() {
		defer close(read)
		text := make([]byte, rows*width)
		for p := range free {
			p.fill(in, text, width)
			read <- p // there is room for all parts
			if p.last {
				return
			}
		}
	}()
	for range 2 {
		free <- part{values: make([]float64, rows*m.Features())}
	}

	scores, text := make([]float64, rows*m.Outputs()), make([]byte, 0, 8*rows*m.Outputs())
	for p := range read {
		if p.err != nil {
			return p.err
		}
		scored := scores[:p.rows*m.Outputs()]
		if err := m.PredictAll(p.values[:p.rows*m.Features()], scored, threads); err != nil {
			return err
		}
		text, _ = binary.Append(text[:0], binary.LittleEndian, scored) // of numbers it does not fail
		if _, err := out.Write(text); err != nil {
			return err
		}
		free <- p
	}
	return nil
}

// part is consecutive rows of the input, or why there are none.
type part struct {
	values []float64 // room for a whole part, of which the first rows are filled
	rows   int
	last   bool // the input ends with this part
	err    error
}

// fill reads rows of width bytes from in until text is full or the input ends, and puts their values into p. text
// serves to hold the bytes. An error of in, or an end within a row, is put into p.err.
func (p *part) fill(in io.Reader, text []byte, width int) {
	n, err := io.ReadFull(in, text)
	p.rows, p.last = n/width, err != nil
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		p.err = err
	case n%width != 0:
		p.err = fmt.Errorf("the rows end %d bytes into one of %d", n%width, width)
	default:
		_, p.err = binary.Decode(text[:n], binary.LittleEndian, p.values[:n/8])
	}
}
