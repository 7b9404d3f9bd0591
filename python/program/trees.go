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

// trees scores rows for the Python package, whose numpy takes several times as long for the same bits. in is the length
// of a model's text (uint64), the text, and until the end rows of Features() float64 each, all little endian; out gets
// Outputs() float64 for each row, in their order.
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

	// A part is read while the one before is scored. Scores do not depend on where parts end.
	width := 8 * m.Features()
	rows := max(threads, min(threads*rowsOfThread, partBytes/width))
	read, free := make(chan part, 2), make(chan part, 2)
	defer close(free)
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

// part is consecutive rows, or why there are none.
type part struct {
	values []float64
	rows   int
	last   bool
	err    error
}

// fill reads as many rows of width bytes as text has room for.
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
