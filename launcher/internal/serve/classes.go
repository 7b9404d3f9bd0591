package serve

import (
	"encoding/json"
	"fmt"
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

// watched returns one number a row, by which versions are compared: the prediction, or the probability of the
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
