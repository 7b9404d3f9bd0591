package serve

import (
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

// The Open Inference Protocol, version 2, in JSON over HTTP: a column is an input tensor of the shape [rows] or
// [rows, 1], and so is the output (of several classes: classes.go). https://github.com/kserve/open-inference-protocol

const outputPrediction = predict.ColumnPrediction

// inferred is what a request of the protocol asks for beside its rows.
type inferred struct {
	id      string          // as it was written, in quotes; empty for none
	outputs map[string]bool // names; nil for all
}

// tensor is an input of a request.
type tensor struct {
	name, datatype string
	shape          []int64
	data           string // as JSON
}

// mostTensors is how many inputs a request may name; a column is one.
const mostTensors = dataset.MaxFeatures

// readInfer reads a request of the protocol.
func readInfer(m *Model, body []byte, limit int) (*table.Batch, inferred, error) {
	var q inferred
	if !utf8.Valid(body) {
		return nil, q, errors.New("the request is not UTF-8")
	}

	s := &scanner{text: string(body)}
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
				if !slices.Contains(names, t.name) {
					return fmt.Errorf("there is no output %.60q, only: %s", t.name, strings.Join(names, ", "))
				}
				if q.outputs == nil {
					q.outputs = map[string]bool{}
				}
				q.outputs[t.name] = true
				return nil
			})
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
	b, err := fromTensors(m, inputs, limit)
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

// tensor reads an input or an output.
func (s *scanner) tensor() (tensor, error) {
	var t tensor
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
		}
		return s.skip()
	})
	return t, err
}

// fromTensors makes a batch of inputs.
func fromTensors(m *Model, inputs []tensor, limit int) (*table.Batch, error) {
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
	return c.done(int(rows))
}

// datatypes are those of the protocol, the type of their values and how many bits a number has.
var datatypes = map[string]struct {
	values dataset.Type
	bits   int
}{"BOOL": {dataset.Bool, 0}, "BYTES": {dataset.Text, 0}, "FP32": {dataset.Float, 32}, "FP64": {dataset.Float, 64},
	"INT8": {dataset.Int, 8}, "INT16": {dataset.Int, 16}, "INT32": {dataset.Int, 32}, "INT64": {dataset.Int, 64},
	"UINT8": {dataset.Int, 8}, "UINT16": {dataset.Int, 16}, "UINT32": {dataset.Int, 32}, "UINT64": {dataset.Int, 64}}

// values reads a tensor's data.
func (t *tensor) values(rows int) (dataset.Values, error) {
	kind, known := datatypes[t.datatype]
	v := dataset.Values{Type: kind.values}
	if !known {
		return v, t.wrong("has the datatype %.20q; use BYTES, FP64, FP32, INT64 or another whole number, or BOOL",
			t.datatype)
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

	bits, ok := datatypes[t.datatype].bits, false
	switch {
	case v.Type == dataset.Float:
		x, err := strconv.ParseFloat(word, bits)
		v.Float, ok = append(v.Float, x), err == nil
	case v.Type == dataset.Bool:
		x := int64(0)
		if word == "true" {
			x = 1
		}
		v.Int, ok = append(v.Int, x), word == "true" || word == "false"
	case v.Type == dataset.Int && strings.HasPrefix(t.datatype, "U"):
		x, err := strconv.ParseUint(word, 10, bits)
		v.Int, ok = append(v.Int, int64(x)), err == nil && x <= math.MaxInt64
	case v.Type == dataset.Int:
		x, err := strconv.ParseInt(word, 10, bits)
		v.Int, ok = append(v.Int, x), err == nil
	}
	if !ok {
		return t.wrong("row %d: %.40q is not of the datatype %s", n+1, word, t.datatype)
	}
	return nil
}
