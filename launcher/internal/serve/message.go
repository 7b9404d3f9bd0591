package serve

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// The messages of the Open Inference Protocol that requests and answers are made of, by hand: generated, they would be
// 4,000 lines, and would copy each value before it is read. The numbers of fields are those of
// https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/open_inference_grpc.proto

// field is a field of a message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  []byte // a text, a message, or numbers as they are on the wire
	at     int    // where the value begins in the message
}

var errMessage = errors.New("the request is not a message of the protocol")

// text is the field's text.
func (f *field) text() (string, error) {
	if !utf8.Valid(f.value) {
		return "", fmt.Errorf("%w: field %d is not UTF-8", errMessage, f.number)
	}
	return string(f.value), nil
}

// eachField passes the fields of a message as they come. A field may come several times; who wants one takes the last.
func eachField(all []byte, use func(f field) error) error {
	for msg := all; len(msg) > 0; {
		number, kind, n := protowire.ConsumeTag(msg)
		if n >= 0 {
			msg = msg[n:]
			n = protowire.ConsumeFieldValue(number, kind, msg)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", errMessage, number, protowire.ParseError(n))
		}
		f := field{number: number, kind: kind, value: msg[:n]}
		if kind == protowire.BytesType {
			f.value, _ = protowire.ConsumeBytes(msg)
		}
		f.at = len(all) - len(msg) + n - len(f.value)
		if err := use(f); err != nil {
			return err
		}
		msg = msg[n:]
	}
	return nil
}

// numbers passes the numbers of a field of a kind, packed or not. A field of another kind has none, like one that is
// not known.
func (f *field) numbers(kind protowire.Type, use func(bits uint64) error) error {
	if f.kind != kind && f.kind != protowire.BytesType {
		return nil
	}
	for from := f.value; len(from) > 0; {
		var bits uint64
		var n int
		switch kind {
		case protowire.Fixed32Type:
			var half uint32
			half, n = protowire.ConsumeFixed32(from)
			bits = uint64(half)
		case protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(from)
		default:
			bits, n = protowire.ConsumeVarint(from)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", errMessage, f.number, protowire.ParseError(n))
		}
		if err := use(bits); err != nil {
			return err
		}
		from = from[n:]
	}
	return nil
}

// readMessage reads a ModelInferRequest, as readInfer reads it in JSON.
func readMessage(m *Model, msg []byte, limit int) (*table.Batch, inferred, error) {
	var q inferred
	var inputs []tensor
	var raw [][]byte
	names := m.outputNames()
	err := eachField(msg, func(f field) (err error) {
		if f.kind != protowire.BytesType {
			return nil
		}
		switch f.number {
		case 3:
			q.id, err = f.text()
		case 5:
			if len(inputs) == mostTensors {
				return fmt.Errorf("more than %d inputs", mostTensors)
			}
			var t tensor
			t, err = readTensor(f.value)
			inputs = append(inputs, t)
		case 6:
			var t tensor
			if t, err = readTensor(f.value); err == nil {
				err = q.want(names, t.name)
			}
		case 7:
			if len(raw) == mostTensors {
				return fmt.Errorf("more than %d raw_input_contents", mostTensors)
			}
			raw = append(raw, f.value)
		}
		return err
	})
	if err != nil {
		return nil, q, err
	}

	q.binary = len(raw) > 0
	if q.binary && len(raw) != len(inputs) {
		return nil, q, fmt.Errorf("%d raw_input_contents of %d inputs", len(raw), len(inputs))
	}
	for i := range inputs {
		t := &inputs[i]
		if t.typed = !q.binary; t.typed {
			continue
		}
		if t.own != nil {
			return nil, q, t.wrong("has contents beside raw_input_contents")
		}
		t.own = raw[i]
	}
	b, err := fromTensors(m, inputs, nil, limit)
	return b, q, err
}

// readTensor reads an InferInputTensor, or the name of an InferRequestedOutputTensor.
func readTensor(msg []byte) (tensor, error) {
	t := tensor{bytes: -1}
	err := eachField(msg, func(f field) (err error) {
		switch {
		case f.number == 3:
			return f.numbers(protowire.VarintType, func(bits uint64) error {
				if len(t.shape) == 8 || bits > math.MaxInt64 {
					return t.wrong("a shape of more than 8 dimensions, or with %d", int64(bits))
				}
				t.shape = append(t.shape, int64(bits))
				return nil
			})
		case f.kind != protowire.BytesType:
		case f.number == 1:
			t.name, err = f.text()
		case f.number == 2:
			t.datatype, err = f.text()
		case f.number == 5 && t.own != nil:
			return t.wrong("has contents twice")
		case f.number == 5:
			t.own = f.value
		}
		return err
	})
	return t, err
}

// contents is the field of InferTensorContents that has the datatype's values, and their kind.
func (t *tensor) contents() (protowire.Number, protowire.Type) {
	switch t.datatype {
	case "BOOL":
		return 1, protowire.VarintType
	case "INT64":
		return 3, protowire.VarintType
	case "UINT64":
		return 5, protowire.VarintType
	case "FP32":
		return 6, protowire.Fixed32Type
	case "FP64":
		return 7, protowire.Fixed64Type
	case "BYTES":
		return 8, protowire.BytesType
	}
	if t.datatype[0] == 'I' {
		return 2, protowire.VarintType
	}
	return 4, protowire.VarintType
}

// message reads values from InferTensorContents.
func (t *tensor) message(v *dataset.Values, rows, width int) error {
	number, kind := t.contents()
	texts := "" // one copy for all
	if kind == protowire.BytesType {
		texts = string(t.own)
	}
	add := func(bits uint64) error {
		switch {
		case v.Len() == rows:
			return t.wrong("more than %d values in %d rows", rows, rows)
		case number == 2: // a negative number is sent with 64 bits
			bits = uint64(int64(int32(bits)))
		case number == 4:
			bits = uint64(uint32(bits))
		}
		if err := t.bits(v, bits, width); err != nil {
			return err
		}
		if last := v.Len() - 1; (number == 2 || number == 4) && v.Int[last] != int64(bits) {
			return t.wrong("row %d: %d is not of the datatype %s", last+1, int64(bits), t.datatype)
		}
		return nil
	}
	err := eachField(t.own, func(f field) error {
		switch {
		case f.number != number && f.number <= 8 && len(f.value) > 0:
			return t.wrong("has values of another datatype than %s (field %d of its contents)", t.datatype, f.number)
		case f.number != number:
			return nil
		case kind != protowire.BytesType:
			return f.numbers(kind, add)
		case f.kind != kind:
			return nil
		case v.Len() == rows:
			return t.wrong("more than %d texts", rows)
		case !utf8.Valid(f.value):
			return t.wrong("row %d: a text that is not UTF-8", v.Len()+1)
		}
		v.Text = append(v.Text, texts[f.at:][:len(f.value)])
		return nil
	})
	if err == nil && v.Len() != rows {
		err = t.wrong("%d values in %d rows", v.Len(), rows)
	}
	return err
}

// appendMessage appends a ModelInferResponse, whose outputs are raw if the inputs were.
func (a *scored) appendMessage(out []byte) []byte {
	out = appendText(out, 1, a.m.Version.Model)
	out = appendText(out, 2, strconv.Itoa(a.m.Version.Number))
	out = appendText(out, 3, a.asked.id)
	var raw []byte
	a.outputs(func(o described, texts []string) {
		t := o.appendMessage(nil)
		if a.asked.binary {
			raw = appendBytes(raw, 6, a.appendBinary(nil, texts))
		} else {
			t = appendBytes(t, 5, a.appendContents(nil, texts))
		}
		out = appendBytes(out, 5, t)
	})
	return append(out, raw...)
}

// appendContents appends InferTensorContents.
func (a *scored) appendContents(out []byte, texts []string) []byte {
	if texts == nil {
		return appendBytes(out, 7, a.appendBinary(nil, nil)) // packed numbers are little-endian, too
	}
	for _, text := range texts {
		out = appendText(out, 8, text)
	}
	return out
}

// appendMetadata appends a ModelMetadataResponse.
func (m *Model) appendMetadata(out []byte) []byte {
	out = appendText(out, 1, m.Version.Model)
	out = appendText(out, 2, strconv.Itoa(m.Version.Number))
	out = appendText(out, 3, "coppice")
	for number, all := range [][]described{4: m.inputs(), 5: m.outputs(-1)} {
		for _, t := range all {
			out = appendBytes(out, protowire.Number(number), t.appendMessage(nil))
		}
	}
	return out
}

// appendMessage appends a TensorMetadata, or what an InferOutputTensor has in common with it.
func (d described) appendMessage(out []byte) []byte {
	out = appendText(appendText(out, 1, d.Name), 2, d.Datatype)
	var shape []byte
	for _, n := range d.Shape {
		shape = protowire.AppendVarint(shape, uint64(n))
	}
	return appendBytes(out, 3, shape)
}

func appendVarint(out []byte, number protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(out, number, protowire.VarintType), n)
}

func appendText(out []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(out, number, protowire.BytesType), text)
}

func appendBytes(out []byte, number protowire.Number, bytes []byte) []byte {
	out = slices.Grow(out, len(bytes)+12)
	return protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), bytes)
}
