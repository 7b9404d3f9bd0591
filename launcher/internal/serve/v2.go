package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/launcher/internal/predict"
)

// The Open Inference Protocol, version 2, over HTTP (over gRPC: grpc.go): a column is an input tensor of the shape
// [rows] or [rows, 1], and so is the output (of several classes: classes.go).
// https://github.com/kserve/open-inference-protocol, with Triton's binary extension, which its Python client uses
// unless told otherwise: tensors follow the JSON, whose length is in a header.

const (
	headerLength     = "Inference-Header-Content-Length"
	outputPrediction = predict.ColumnPrediction
)

// inferred is what a request of the protocol asks for beside its rows.
type inferred struct {
	id      string          // as it was written, in JSON or in a message; empty for none
	binary  bool            // the outputs follow the JSON, or are raw in a message
	outputs map[string]bool // names; nil for all
}

// want adds an output that is asked for.
func (q *inferred) want(names []string, name string) error {
	if !slices.Contains(names, name) {
		return fmt.Errorf("there is no output %.60q, only: %s", name, strings.Join(names, ", "))
	}
	if q.outputs == nil {
		q.outputs = map[string]bool{}
	}
	q.outputs[name] = true
	return nil
}

// tensor is an input of a request.
type tensor struct {
	name, datatype string
	shape          []int64
	data           string // as JSON; empty if it is binary
	bytes          int64  // of binary data behind the JSON; -1 if there is none
	own            []byte // binary data, or a message of typed contents
	typed          bool   // own is such a message
}

// mostTensors is how many inputs a request may name; a column is one.
const mostTensors = dataset.MaxFeatures

// readInfer reads a request of the protocol; header is the length of its JSON, -1 if that is all of it.
func readInfer(m *Model, body []byte, header int64, limit int) (*table.Batch, inferred, error) {
	var q inferred
	text := body
	if header >= 0 {
		if header > int64(len(body)) {
			return nil, q, fmt.Errorf("%s is %d in a request of %d bytes", headerLength, header, len(body))
		}
		text = body[:header]
	}
	if !utf8.Valid(text) {
		return nil, q, errors.New("the request is not UTF-8")
	}

	s := &scanner{text: string(text)}
	var inputs []tensor
	err := s.object(func(key string) (err error) {
		switch key {
		case "id":
			if s.peek() != '"' {
				return s.broken("an id in quotes")
			}
			from := s.at
			_, err = s.str()
			q.id = s.text[from:s.at]
		case "inputs":
			if inputs != nil {
				return s.fail("the key \"inputs\" comes twice")
			}
			inputs = []tensor{}
			err = s.each(func() error {
				if len(inputs) == mostTensors {
					return s.fail("more than %d inputs", mostTensors)
				}
				t, err := s.tensor()
				inputs = append(inputs, t)
				return err
			})
		case "outputs":
			names := m.outputNames()
			err = s.each(func() error {
				t, err := s.tensor()
				if err != nil {
					return err
				}
				q.binary = q.binary || t.bytes > 0
				return q.want(names, t.name)
			})
		case "parameters":
			_, q.binary, err = s.parameters(q.binary)
		default:
			err = s.skip()
		}
		return err
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, q, err
	}
	b, err := fromTensors(m, inputs, body[len(text):], limit)
	return b, q, err
}

// each reads a list.
func (s *scanner) each(use func() error) error {
	if s.peek() != '[' {
		return s.broken("a list")
	}
	for s.at++; ; s.at++ {
		if s.peek() == ']' {
			s.at++
			return nil
		}
		if err := use(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
		case ']':
			s.at++
			return nil
		default:
			return s.broken("a comma or ]")
		}
	}
}

// parameters reads those that this server knows: how long binary data is, or whether the output is to be binary.
func (s *scanner) parameters(was bool) (size int64, output bool, err error) {
	size, output = -1, was
	err = s.object(func(key string) error {
		switch key {
		case "binary_data_size":
			s.peek()
			word := s.word()
			if size, err = strconv.ParseInt(word, 10, 64); err != nil || size < 0 {
				return s.fail("binary_data_size is %.20q", word)
			}
			return nil
		case "binary_data", "binary_data_output":
			s.peek()
			output = s.word() == "true"
			return nil
		}
		return s.skip()
	})
	return size, output, err
}

// tensor reads an input or an output. Of an output, bytes is 1 if it is to be binary.
func (s *scanner) tensor() (tensor, error) {
	t := tensor{bytes: -1}
	err := s.object(func(key string) (err error) {
		switch key {
		case "name", "datatype":
			if s.peek() != '"' {
				return s.broken("a text in quotes")
			}
			if key == "name" {
				t.name, err = s.str()
			} else {
				t.datatype, err = s.str()
			}
			return err
		case "shape":
			return s.each(func() error {
				s.peek()
				word := s.word()
				n, err := strconv.ParseInt(word, 10, 64)
				if err != nil || n < 0 || len(t.shape) == 8 {
					return s.fail("a shape of more than 8 dimensions, or with %.20q", word)
				}
				t.shape = append(t.shape, n)
				return nil
			})
		case "data":
			s.peek()
			from := s.at
			err = s.skip()
			t.data = s.text[from:s.at]
			return err
		case "parameters":
			size, output, err := s.parameters(false)
			if t.bytes = size; output {
				t.bytes = 1
			}
			return err
		}
		return s.skip()
	})
	return t, err
}

// fromTensors makes a batch of inputs; rest is the binary data behind the JSON.
func fromTensors(m *Model, inputs []tensor, rest []byte, limit int) (*table.Batch, error) {
	if len(inputs) == 0 {
		return nil, errors.New(`no inputs: send one tensor for each column`)
	}
	c := newColumns(m)
	rows := int64(-1)
	seen := make(map[string]bool, len(inputs))
	for i := range inputs {
		t := &inputs[i]
		switch {
		case seen[t.name]:
			return nil, &table.InputError{Column: t.name, Msg: "two inputs have this name"}
		case len(t.shape) < 1 || len(t.shape) > 2 || len(t.shape) == 2 && t.shape[1] != 1:
			return nil, &table.InputError{Column: t.name, Msg: fmt.Sprintf("has the shape %v; a column is [rows] or "+
				"[rows, 1]", t.shape)}
		case rows >= 0 && t.shape[0] != rows:
			return nil, &table.InputError{Column: t.name, Msg: fmt.Sprintf("has %d rows where others have %d",
				t.shape[0],
				rows)}
		case t.shape[0] == 0:
			return nil, errors.New("no rows: the shape is [0]")
		case t.shape[0] > int64(limit):
			return nil, tooMany(limit)
		}
		seen[t.name] = true
		rows = t.shape[0]

		if t.bytes >= 0 {
			if t.bytes > int64(len(rest)) || t.data != "" {
				return nil, &table.InputError{Column: t.name,
					Msg: fmt.Sprintf("binary_data_size is %d where %d bytes follow",
						t.bytes, len(rest))}
			}
			t.own, rest = rest[:t.bytes], rest[t.bytes:]
		}
		place := c.at(t.name)
		if place < 0 {
			continue
		}
		v, err := t.values(int(rows))
		if err != nil {
			return nil, err
		}
		c.have[place], c.batch.Columns[place] = true, v
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow the inputs' data", len(rest))
	}
	return c.done(int(rows))
}

// widths are the datatypes and their bytes; 0 for texts.
var widths = map[string]int{"BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2,
	"INT32": 4, "INT64": 8, "FP32": 4, "FP64": 8, "BYTES": 0}

// values reads a tensor's data.
func (t *tensor) values(rows int) (dataset.Values, error) {
	var v dataset.Values
	width, known := widths[t.datatype]
	switch {
	case !known:
		return v, t.wrong("has the datatype %.20q; use BYTES, FP64, FP32, INT64 or another whole number, or BOOL",
			t.datatype)
	case t.datatype == "BYTES":
		v.Type = dataset.Text
	case strings.HasPrefix(t.datatype, "FP"):
		v.Type = dataset.Float
	case t.datatype == "BOOL":
		v.Type = dataset.Bool
	default:
		v.Type = dataset.Int
	}
	switch n := min(rows, len(t.own)); v.Type { // own has a byte for each value at least
	case dataset.Text:
		v.Text = make([]string, 0, n)
	case dataset.Float:
		v.Float = make([]float64, 0, n)
	default:
		v.Int = make([]int64, 0, n)
	}
	switch {
	case t.typed:
		return v, t.message(&v, rows, width)
	case t.own != nil:
		return v, t.binary(&v, rows, width)
	}
	return v, t.json(&v, rows)
}

func (t *tensor) wrong(format string, args ...any) error {
	return &table.InputError{Column: t.name, Msg: fmt.Sprintf(format, args...)}
}

// json reads values that are written in JSON, perhaps in lists within the list.
func (t *tensor) json(v *dataset.Values, rows int) error {
	s := &scanner{text: t.data}
	if s.peek() != '[' {
		return t.wrong("has no list of data")
	}
	for {
		switch c := s.peek(); c {
		case 0:
			if v.Len() != rows {
				return t.wrong("%d values in %d rows", v.Len(), rows)
			}
			return nil
		case '[', ']', ',':
			s.at++
			continue
		case '{', ':':
			return t.wrong("is nested (an object), which cannot be a feature; flatten it")
		case '"':
			if v.Type != dataset.Text {
				return t.wrong("row %d is a text where the datatype is %s", v.Len()+1, t.datatype)
			}
			text, err := s.str()
			if err != nil {
				return t.wrong("%v", err)
			}
			v.Text = append(v.Text, text)
		default:
			if err := t.number(v, s.word()); err != nil {
				return err
			}
		}
		if v.Null != nil && len(v.Null) < v.Len() {
			v.Null = append(v.Null, false)
		}
		if v.Len() > rows {
			return t.wrong("more than %d values in %d rows", rows, rows)
		}
	}
}

// number appends a number, a truth value or null.
func (t *tensor) number(v *dataset.Values, word string) error {
	n := v.Len()
	if word == "null" {
		if v.Null == nil {
			v.Null = make([]bool, n)
		}
		v.Null = append(v.Null, true)
		switch v.Type {
		case dataset.Text:
			v.Text = append(v.Text, "")
		case dataset.Float:
			v.Float = append(v.Float, math.NaN())
		default:
			v.Int = append(v.Int, 0)
		}
		return nil
	}

	ok := false
	switch {
	case v.Type == dataset.Float && t.datatype == "FP32":
		x, err := strconv.ParseFloat(word, 32)
		v.Float, ok = append(v.Float, float64(float32(x))), err == nil
	case v.Type == dataset.Float:
		x, err := strconv.ParseFloat(word, 64)
		v.Float, ok = append(v.Float, x), err == nil
	case v.Type == dataset.Bool:
		x := int64(0)
		if word == "true" {
			x = 1
		}
		v.Int, ok = append(v.Int, x), word == "true" || word == "false"
	case v.Type == dataset.Int && strings.HasPrefix(t.datatype, "U"):
		x, err := strconv.ParseUint(word, 10, 8*widths[t.datatype])
		v.Int, ok = append(v.Int, int64(x)), err == nil && x <= math.MaxInt64
	case v.Type == dataset.Int:
		x, err := strconv.ParseInt(word, 10, 8*widths[t.datatype])
		v.Int, ok = append(v.Int, x), err == nil
	}
	if !ok {
		return t.wrong("row %d: %.40q is not of the datatype %s", n+1, word, t.datatype)
	}
	return nil
}

// binary reads values as Triton's clients send them: little-endian, and texts behind their length in four bytes.
func (t *tensor) binary(v *dataset.Values, rows, width int) error {
	own := t.own
	if width == 0 {
		for all := string(own); len(own) > 0; { // one copy for all texts
			if len(own) < 4 || int64(binary.LittleEndian.Uint32(own)) > int64(len(own)-4) {
				return t.wrong("row %d: a text that leaves the data", len(v.Text)+1)
			}
			n := 4 + int(binary.LittleEndian.Uint32(own))
			text := all[len(all)-len(own):][4:n]
			if own = own[n:]; !utf8.ValidString(text) {
				return t.wrong("row %d: a text that is not UTF-8", len(v.Text)+1)
			}
			if v.Text = append(v.Text, text); len(v.Text) > rows {
				return t.wrong("more than %d texts", rows)
			}
		}
		if len(v.Text) != rows {
			return t.wrong("%d texts in %d rows", len(v.Text), rows)
		}
		return nil
	}
	if len(own) != rows*width {
		return t.wrong("%d bytes of data where %d rows of %s have %d", len(own), rows, t.datatype, rows*width)
	}
	for r := range rows {
		var n uint64
		for b := range width {
			n |= uint64(own[r*width+b]) << (8 * b)
		}
		if err := t.bits(v, n, width); err != nil {
			return err
		}
	}
	return nil
}

// bits appends a number, of which the last so many bytes of n have the bits.
func (t *tensor) bits(v *dataset.Values, n uint64, width int) error {
	switch {
	case t.datatype == "FP32":
		v.Float = append(v.Float, float64(math.Float32frombits(uint32(n))))
	case t.datatype == "FP64":
		v.Float = append(v.Float, math.Float64frombits(n))
	case t.datatype == "BOOL":
		v.Int = append(v.Int, int64(min(n, 1)))
	case t.datatype == "UINT64" && n > math.MaxInt64:
		return t.wrong("row %d: %d does not fit a signed number of 64 bits; send it as BYTES", v.Len()+1, n)
	case t.datatype[0] == 'I':
		v.Int = append(v.Int, int64(n<<(64-8*width))>>(64-8*width))
	default:
		v.Int = append(v.Int, int64(n<<(64-8*width)>>(64-8*width)))
	}
	return nil
}
