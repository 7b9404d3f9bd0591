package ask

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// Limits on the results of a search and of earlier ones together, which bound time and memory. docs/search.md states
// them.
const (
	maxLine    = 1 << 20 // bytes
	maxTrial   = 1 << 40
	maxResults = 100_000     // lines
	maxValues  = 2_000_000   // of parameters
	maxBytes   = 128_000_000 // of all lines
)

const tooMuch = "more than the 128 MB of results that a search may know; leave out curves, or old trials"

// reader reads results, and counts what all files have.
type reader struct {
	metric                 Metric
	results, values, bytes int
}

// ReadResults reads what is known: the results of the space's search so far, from a file or, if that is "", none, and
// those of earlier searches, of which the newest is last in files and first in what is returned. The files are JSON
// Lines, one trial per line. The metric's name is an alternative for "value". An earlier search may have other
// parameters.
func ReadResults(s *Space, file string, files []string) (known []sweep.Seen, earlier []sweep.Earlier, err error) {
	r := &reader{metric: s.Metric}
	if file != "" {
		if known, err = r.open(file, s.Names()); err != nil {
			return nil, nil, err
		}
	}
	for _, file := range slices.Backward(files) {
		trials, err := r.open(file, nil)
		if err != nil {
			return nil, nil, err
		}
		earlier = append(earlier, sweep.Earlier{Sweep: sweep.ID(filepath.Base(file)), Trials: trials})
	}
	return known, earlier, nil
}

func (r *reader) open(file string, names []string) ([]sweep.Seen, error) {
	in, err := strictyaml.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if info, err := in.Stat(); err == nil && info.Size() > maxBytes-int64(r.bytes) { // nothing of it need be read
		return nil, problem.New(problem.Input, "%s: %s", file, tooMuch)
	}
	return r.read(in, file, names)
}

// read reads one file; names are the parameters that it may have, or nil for any.
func (r *reader) read(in io.Reader, file string, names []string) ([]sweep.Seen, error) {
	var known []sweep.Seen
	at, line := map[int]int{}, map[int]int{} // by trial: its index, and its line
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)

	number := 0
	wrong := func(format string, args ...any) error {
		return problem.New(problem.Input, "%s:%d: %s", file, number, fmt.Sprintf(format, args...))
	}
	for lines.Scan() {
		number++
		text := bytes.TrimSpace(lines.Bytes())
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if r.bytes += len(lines.Bytes()) + 1; r.bytes > maxBytes {
			return nil, wrong(tooMuch)
		}
		if len(text) == 0 {
			continue
		}

		k, err := r.parse(text, names)
		if err != nil {
			return nil, wrong("%v", err)
		}
		if i, again := at[k.Trial]; again {
			if known[i], err = joined(known[i], k); err != nil {
				return nil, wrong("trial %d: %v line %d says", k.Trial, err, line[k.Trial])
			}
			continue
		}
		at[k.Trial], line[k.Trial] = len(known), number
		known = append(known, k)
		r.results++
		r.values += len(k.Params)
		if r.results > maxResults || r.values > maxValues {
			return nil, wrong("more than the %d results, or the %d values of parameters, that a search may know; "+
				"leave out old trials", maxResults, maxValues)
		}
	}

	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		number++
		return nil, wrong("a line of more than %d bytes", maxLine)
	}
	return known, lines.Err()
}

// joined merges two lines about one trial: either identical, or a running line and its outcome, in any order.
func joined(a, b sweep.Seen) (sweep.Seen, error) {
	if !reflect.DeepEqual(a.Params, b.Params) {
		return a, errors.New("other params than")
	}
	switch {
	case b.Status == sweep.StatusRunning:
		return a, nil
	case a.Status == sweep.StatusRunning:
		return b, nil
	case a.Status != b.Status || !reflect.DeepEqual(a.Score, b.Score):
		return a, errors.New("another end than")
	}
	return a, nil
}

var statuses = []sweep.Status{sweep.StatusDone, sweep.StatusRunning, sweep.StatusFailed, sweep.StatusStopped}

// keys that a line may have. Source and reason may be copied from the proposal.
var keys = []string{"trial", "params", "value", "status", "curve", "source", "reason"}

func (r *reader) parse(text []byte, names []string) (k sweep.Seen, err error) {
	fields, err := fieldsOf(text)
	if err != nil {
		return k, err
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(keys, key) && key != r.metric.Name {
			return k, fmt.Errorf("unknown key %.60q%s", key,
				strictyaml.Suggest(key, append([]string{r.metric.Name}, keys...)))
		}
	}

	if k.Trial, err = trialOf(fields["trial"]); err != nil {
		return k, err
	}
	if k.Params, err = paramsOf(fields["params"], names); err != nil {
		return k, err
	}
	value, err := valueOf(fields, r.metric.Name)
	if err != nil {
		return k, err
	}
	if value != nil && sweep.Finite(*value) {
		k.Score = value
	}
	best, err := bestOf(fields["curve"], r.metric.Maximize)
	if err != nil {
		return k, err
	}
	if k.Status, err = statusOf(fields["status"], value != nil); k.Status == sweep.StatusStopped && k.Score == nil {
		k.Score = best
	}
	return k, err
}

func trialOf(raw json.RawMessage) (int, error) {
	if raw == nil {
		return 0, errors.New(`it has no "trial", the number of the proposal`)
	}
	n, err := number(raw)
	if err != nil || n != math.Trunc(n) || n < 0 || n > maxTrial {
		return 0, fmt.Errorf(`"trial" is %.40s: use the number of the proposal`, raw)
	}
	return int(n), nil
}

func paramsOf(raw json.RawMessage, names []string) (sweep.Params, error) {
	if raw == nil {
		return nil, errors.New(`it has no "params"`)
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf(`"params" is %.40s: expected an object such as {"eta": 0.1}`, raw)
	}
	fields, err := split(raw)
	if err != nil {
		return nil, fmt.Errorf(`"params": %w`, err)
	}
	if len(fields) > maxParameters {
		return nil, fmt.Errorf("%d parameters; use %d at most", len(fields), maxParameters)
	}

	params := make(sweep.Params, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if names != nil && !slices.Contains(names, name) {
			return nil, fmt.Errorf("the space has no parameter %.60q%s", name, strictyaml.Suggest(name, names))
		}
		if err := checkName(name); err != nil {
			return nil, err
		}
		if params[name], err = paramOf(fields[name]); err != nil {
			return nil, fmt.Errorf("parameter %.60q is %w", name, err)
		}
	}
	return params, nil
}

// paramOf reads a parameter's value.
func paramOf(raw json.RawMessage) (any, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("%.40s, which is beyond the largest number", raw)
	}
	if text, ok := v.(string); ok && strings.HasPrefix(text, notFinite) {
		return nil, errors.New("not a finite number")
	}
	return v, checkValue(v)
}

// valueOf reads the value, possibly under the metric's name; nil if there is none.
func valueOf(fields map[string]json.RawMessage, metric string) (*float64, error) {
	var value *float64
	for _, name := range []string{"value", metric} {
		raw := fields[name]
		if raw == nil || name != "value" && slices.Contains(keys, name) {
			continue
		}
		v, err := number(raw)
		if err != nil {
			return nil, fmt.Errorf("%.60q is %.40s: %w", name, raw, err)
		}
		if value != nil && *value != v && (sweep.Finite(*value) || sweep.Finite(v)) {
			return nil, fmt.Errorf(`"value" is %.40s and %.60q is %.40s, which are the same; leave one of them out`,
				fields["value"], name, raw)
		}
		value = &v
	}
	return value, nil
}

func statusOf(raw json.RawMessage, valued bool) (sweep.Status, error) {
	if raw == nil {
		if !valued {
			return "", fmt.Errorf(`it has neither "status" nor "value"; a status is one of %v`, statuses)
		}
		return sweep.StatusDone, nil
	}
	var status sweep.Status
	if err := json.Unmarshal(raw, &status); err != nil || !slices.Contains(statuses, status) {
		return "", fmt.Errorf(`"status" is %.40s: use one of %v`, raw, statuses)
	}
	if status == sweep.StatusDone && !valued {
		return "", errors.New(`it is done but has no "value"; a trial without one has the status "failed"`)
	}
	return status, nil
}

// bestOf reads a learning curve, numbers or pairs of a step and a number, and returns the best of its finite ones: a
// trial that was stopped may have no other value.
func bestOf(raw json.RawMessage, maximize bool) (best *float64, err error) {
	if raw == nil {
		return nil, nil
	}
	var steps []json.RawMessage
	if err := json.Unmarshal(raw, &steps); err != nil {
		return nil, fmt.Errorf(`"curve" is %.40s: expected a list of numbers`, raw)
	}

	for i, step := range steps {
		var pair []json.RawMessage
		if step[0] == '[' && json.Unmarshal(step, &pair) == nil && len(pair) == 2 {
			step = pair[1]
		}
		v, err := number(step)
		if err != nil {
			return nil, fmt.Errorf(`"curve"[%d] is %.40s: %w`, i, step, err)
		}
		if sweep.Finite(v) && (best == nil || v != *best && maximize == (v > *best)) {
			best = &v
		}
	}
	return best, nil
}

// number reads a number; NaN is none that is finite, which JSON writers turn into null or a text.
func number(raw json.RawMessage) (float64, error) {
	switch raw[0] {
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		v, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return 0, errors.New("it is beyond the largest number, about 1.8e308; write null for what is not finite")
		}
		return v, nil
	case 'n':
		return math.NaN(), nil
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, err
		}
		switch strings.TrimSpace(text) {
		case notFinite, "NaN", "nan", "Infinity", "inf", "+Infinity", "-Infinity", "-inf":
			return math.NaN(), nil
		}
	}
	return 0, errors.New("expected a number")
}

// fieldsOf splits a line of JSON, accepting the NaN and Infinity that Python writes but JSON does not allow.
func fieldsOf(text []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	var whole json.RawMessage
	err := json.Unmarshal(text, &whole)
	if err != nil {
		err = json.Unmarshal(quoted(text), &whole)
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("byte %d: not JSON: %w", syntax.Offset, err)
	case err != nil:
		return nil, err
	case whole[0] != '{':
		return nil, fmt.Errorf("it is %.40s: expected an object such as {\"trial\": 3, \"params\": {...}, "+
			"\"value\": 0.81, \"status\": \"done\"}", whole)
	}
	return split(whole)
}

// split returns the fields of a JSON object, in which no key may be there twice: which of the two is meant?
func split(object json.RawMessage) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil { // the brace
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the key %.60q is there twice", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		fields[name] = value
	}
	return fields, nil
}

// notFinite begins the text that quoted puts in place of NaN and Infinity.
const notFinite = "\x7f"

// quoted replaces NaN and Infinity outside of texts by a text, as long as they are, so that an error's place stays.
func quoted(text []byte) []byte {
	out := bytes.Clone(text)
	inside := false
	for i := 0; i < len(out); i++ {
		switch {
		case inside && out[i] == '\\':
			i++
		case out[i] == '"':
			inside = !inside
		case !inside:
			for _, word := range []string{"NaN", "-Infinity", "Infinity"} {
				if bytes.HasPrefix(out[i:], []byte(word)) {
					last := i + len(word) - 1
					copy(out[i:last], `"`+notFinite+strings.Repeat(" ", len(word)))
					out[last] = '"'
					i = last
					break
				}
			}
		}
	}
	return out
}
