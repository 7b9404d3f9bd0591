package serve

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"coppice/launcher/internal/predict"
)

// Answers of models of several classes have the columns of `launcher predict`: the likeliest class, and a probability
// for each. In the Open Inference Protocol, whose parameters hold no lists, the probabilities are one tensor and the
// names of its columns another.
const (
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

// describeClasses prepares answers.
func (m *Model) describeClasses() {
	if len(m.classes) == 0 {
		return
	}
	longest := 0
	for _, class := range m.classes {
		key := jsonText(predict.ColumnPrediction + ":" + class)
		m.keys = append(m.keys, key)
		m.answer += len(key) + len(",:-1.2345678901234567e-308")
		longest = max(longest, len(key))
	}
	m.answer += len(`{"prediction":},`) + longest
}

func jsonText(text string) string {
	out, _ := json.Marshal(text) // a text can be written
	return string(out)
}

// otherClasses says in what a version's answers are unlike another's; empty if they have the same classes.
func (m *Model) otherClasses(than *Model) string {
	if slices.Equal(m.classes, than.classes) {
		return ""
	}
	return fmt.Sprintf("%s answers with %s, and %s with %s", m.Name, m.form(), than.Name, than.form())
}

// form names what comes back for a row.
func (m *Model) form() string {
	if len(m.classes) == 0 {
		return "one number"
	}
	return fmt.Sprintf("probabilities of %d classes (%.300s)", len(m.classes), strings.Join(m.classes, ", "))
}

// watched returns one number a row, by which hours and versions are compared: the prediction, or the probability of the
// likeliest class.
func (m *Model) watched(predictions []float64) []float64 {
	if len(m.classes) == 0 {
		return predictions
	}
	var out []float64
	for row := range slices.Chunk(predictions, len(m.classes)) {
		out = append(out, slices.Max(row))
	}
	return out
}

// appendRows appends a list with an object for each row.
func (a *scored) appendRows(out []byte) []byte {
	k := len(a.m.classes)
	out = append(out, '[')
	for r, class := range predict.Likeliest(a.predictions, a.m.classes) {
		if r > 0 {
			out = append(out, ',')
		}
		out = append(append(out, `{"prediction":`...), jsonText(class)...)
		for i, p := range a.predictions[r*k:][:k] {
			out = append(append(append(out, ','), a.m.keys[i]...), ':')
			out = appendNumber(out, p)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}

// outputs passes the tensors that are asked for, with their data: texts, or the predictions if there are none.
func (a *scored) outputs(use func(o described, texts []string)) {
	for _, o := range a.m.outputs(len(a.predictions) / max(1, len(a.m.classes))) {
		switch {
		case a.asked.outputs != nil && !a.asked.outputs[o.Name]:
		case o.Name == outputClass:
			use(o, a.m.classes)
		case o.Datatype == "BYTES":
			use(o, predict.Likeliest(a.predictions, a.m.classes))
		default:
			use(o, nil)
		}
	}
}

// appendBinary appends a tensor's data as Triton's clients read them.
func (a *scored) appendBinary(out []byte, texts []string) []byte {
	for _, text := range texts {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(text))), text...)
	}
	for i := 0; texts == nil && i < len(a.predictions); i++ {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(a.predictions[i]))
	}
	return out
}

// appendOutputs appends a list of the tensors that are asked for; rest is their data if they are to be binary.
func (a *scored) appendOutputs(out []byte) (header, rest []byte) {
	sep := byte('[')
	a.outputs(func(o described, texts []string) {
		out = append(out, sep)
		sep = ','
		text, _ := json.Marshal(o) // names and numbers can be written
		out = append(out, text[:len(text)-1]...)

		if a.asked.binary {
			before := len(rest)
			rest = a.appendBinary(rest, texts)
			out = fmt.Appendf(out, `,"parameters":{"binary_data_size":%d}}`, len(rest)-before)
			return
		}
		out = append(out, `,"data":`...)
		if texts != nil {
			list, _ := json.Marshal(texts)
			out = append(out, list...)
		} else {
			out = appendNumbers(out, a.predictions)
		}
		out = append(out, '}')
	})
	return append(out, ']'), rest
}
