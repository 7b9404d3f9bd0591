package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/launcher/internal/predict"
)

// The Open Inference Protocol, version 2, in JSON over HTTP: a column is an input tensor of the shape [rows] or
// [rows, 1], and so is the output. Models of several classes have three, since the protocol's parameters hold no lists:
// the likeliest class, a probability for each, and the names of the probabilities' columns.
// https://github.com/kserve/open-inference-protocol
const (
	outputPrediction  = predict.ColumnPrediction
	outputProbability = "probability"
	outputClass       = "class"
)

// described is a tensor's description; -1 is as many as there are rows.
type described struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"`
}

// outputs describes the answer to so many rows.
func (m *Model) outputs(rows int) []described {
	if len(m.classes) == 0 {
		return []described{{outputPrediction, "FP64", []int{rows}}}
	}
	return []described{{outputPrediction, "BYTES", []int{rows}},
		{outputProbability, "FP64", []int{rows, len(m.classes)}},
		{outputClass, "BYTES", []int{len(m.classes)}}}
}

// outputNames are the names of the outputs.
func (m *Model) outputNames() []string {
	var names []string
	for _, o := range m.outputs(-1) {
		names = append(names, o.Name)
	}
	return names
}

// inputs describes the columns. Either is read of either kind, and the spelling of numbers may matter (an id, a time).
func (m *Model) inputs() []described {
	inputs := []described{}
	for i, name := range m.columns {
		datatype := "BYTES"
		if m.numbers[i] {
			datatype = "FP64"
		}
		inputs = append(inputs, described{name, datatype, []int{-1}})
	}
	return inputs
}

func (s *Server) serveServer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", typeJSON)
	_ = json.NewEncoder(w).Encode(map[string]any{"name": "coppice", "extensions": []string{}})
}

func (s *Server) serveModelReady(w http.ResponseWriter, r *http.Request) {
	if s.checkName(w, r) {
		fmt.Fprintln(w, "ready")
	}
}

// serveModel describes the model's tensors.
func (s *Server) serveModel(w http.ResponseWriter, r *http.Request) {
	if !s.checkName(w, r) {
		return
	}
	m := s.model()
	if m == nil {
		refuse(w, http.StatusServiceUnavailable, "no version is ready to answer")
		return
	}
	defer m.Release()
	w.Header().Set(headerVersion, m.Name)
	w.Header().Set("Content-Type", typeJSON)
	_ = json.NewEncoder(w).Encode(map[string]any{"name": m.Version.Model, "platform": "coppice",
		"versions": []string{strconv.Itoa(m.Version.Number)}, "inputs": m.inputs(), "outputs": m.outputs(-1)})
}

// checkName reports whether a request's path names the model that is served, and answers if it does not.
func (s *Server) checkName(w http.ResponseWriter, r *http.Request) bool {
	m := s.current.Load()
	switch model, version := r.PathValue("model"), r.PathValue("version"); {
	case model != s.c.Model:
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no model %.80q here; this server answers for %s", model,
			s.c.Model))
	case m == nil:
		refuse(w, http.StatusServiceUnavailable, "no version is ready to answer")
	case version != "" && version != strconv.Itoa(m.Version.Number):
		refuse(w, http.StatusNotFound, fmt.Sprintf("version %.20q does not answer; %s does", version, m.Name))
	default:
		return true
	}
	return false
}

// refuseMoved reports whether another version has answered than the one that the path names, because the alias has
// moved meanwhile, and says so.
func refuseMoved(w http.ResponseWriter, r *http.Request, m *Model) bool {
	v := r.PathValue("version")
	if v == "" || v == strconv.Itoa(m.Version.Number) {
		return false
	}
	refuse(w, http.StatusNotFound, fmt.Sprintf("version %.20s does not answer any more; %s does", v, m.Name))
	return true
}

// inferred is what a request of the protocol asks for beside its rows.
type inferred struct {
	id      string          // as it was written, in quotes; empty for none
	outputs map[string]bool // names; nil for all
}

// serveInfer answers a request of the Open Inference Protocol.
func (s *Server) serveInfer(w http.ResponseWriter, r *http.Request) {
	if !s.checkName(w, r) {
		return
	}
	if r.Header.Get("Inference-Header-Content-Length") != "" { // Triton's clients send it unless told otherwise
		refuse(w, http.StatusBadRequest, "binary tensors; send the values as JSON (binary_data=False)")
		return
	}
	read := func(m *Model, body []byte) (*table.Batch, inferred, error) { return readInfer(m, body, s.rows(m)) }
	s.answer(w, r, read, func(a scored) {
		if refuseMoved(w, r, a.m) {
			return
		}
		out := append([]byte(nil), `{"model_name":`...)
		out = strconv.AppendQuote(out, a.m.Version.Model)
		out = append(out, `,"model_version":"`...)
		out = strconv.AppendInt(out, int64(a.m.Version.Number), 10)
		out = append(out, '"')
		if a.asked.id != "" {
			out = append(append(out, `,"id":`...), a.asked.id...)
		}
		out = a.appendOutputs(append(out, `,"outputs":`...))
		w.Header().Set("Content-Type", typeJSON)
		_, _ = w.Write(append(out, "}\n"...))
	})
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
	err := s.eachKey(func(key string) (err error) {
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
			err = s.eachElement(func() error {
				if len(inputs) == mostTensors {
					return s.fail("more than %d inputs", mostTensors)
				}
				t, err := s.tensor()
				inputs = append(inputs, t)
				return err
			})
		case "outputs":
			names := m.outputNames()
			err = s.eachElement(func() error {
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
		err = s.expectEnd()
	}
	if err != nil {
		return nil, q, err
	}
	b, err := fromTensors(m, inputs, limit)
	return b, q, err
}

// eachElement reads a list.
func (s *scanner) eachElement(use func() error) error {
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
	err := s.eachKey(func(key string) (err error) {
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
			return s.eachElement(func() error {
				s.peek()
				word := s.skipWord()
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
		v, err := t.readValues(int(rows))
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

// readValues reads a tensor's data.
func (t *tensor) readValues(rows int) (dataset.Values, error) {
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
			if err := t.number(v, s.skipWord()); err != nil {
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

// appendOutputs appends a list of the tensors that are asked for.
func (a *scored) appendOutputs(out []byte) []byte {
	sep := byte('[')
	for _, o := range a.m.outputs(len(a.predictions) / max(1, len(a.m.classes))) {
		if a.asked.outputs != nil && !a.asked.outputs[o.Name] {
			continue
		}
		out = append(out, sep)
		sep = ','
		text, _ := json.Marshal(o) // names and numbers can be written
		out = append(append(out, text[:len(text)-1]...), `,"data":`...)
		switch {
		case o.Name == outputClass:
			text, _ = json.Marshal(a.m.classes)
			out = append(out, text...)
		case o.Datatype == "BYTES":
			text, _ = json.Marshal(predict.Likeliest(a.predictions, a.m.classes))
			out = append(out, text...)
		default:
			out = appendNumbers(out, a.predictions)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}
