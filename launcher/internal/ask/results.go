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

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// lineError is the error about an invalid line of results.
func lineError(file string, line int, format string, args ...any) error {
	return problem.New(problem.Input, "%s:%d: %s", file, line, fmt.Sprintf(format, args...))
}

// Limits on a file of results.
const (
	maxLine    = 1 << 20 // bytes
	maxResults = 100_000 // lines
	maxTrial   = 1 << 40
	maxCurve   = 100_000 // values
)

// ReadResults reads JSON Lines, one trial per line. The metric's name is an alternative for "value"; names are the
// parameters of the space, or nil for an earlier search, whose space may differ.
func ReadResults(file string, metric Metric, names []string) ([]sweep.Seen, error) {
	in, err := strictyaml.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return readResults(in, file, metric, names)
}

func readResults(in io.Reader, file string, metric Metric, names []string) ([]sweep.Seen, error) {
	var known []sweep.Seen
	at, line := map[int]int{}, map[int]int{} // by trial: its index, and its line
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)

	number := 0
	for lines.Scan() {
		number++
		text := bytes.TrimSpace(lines.Bytes())
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if len(text) == 0 {
			continue
		}
		if len(known) >= maxResults {
			return nil, lineError(file, number, "more than the %d results that a search may have", maxResults)
		}

		k, err := parse(text, metric, names)
		if err != nil {
			return nil, lineError(file, number, "%v", err)
		}
		i, again := at[k.Trial]
		if !again {
			at[k.Trial], line[k.Trial] = len(known), number
			known = append(known, k)
			continue
		}
		if known[i], err = joined(known[i], k); err != nil {
			return nil, lineError(file, number, "trial %d: %v line %d says", k.Trial, err, line[k.Trial])
		}
	}

	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, lineError(file, number+1, "a line of more than %d bytes", maxLine)
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

func parse(text []byte, metric Metric, names []string) (k sweep.Seen, err error) {
	fields := map[string]json.RawMessage{}
	if err := unmarshal(text, &fields); err != nil {
		return k, err
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(keys, key) && key != metric.Name {
			return k, fmt.Errorf("unknown key %.60q%s", key, strictyaml.Suggest(key, keys))
		}
	}

	if k.Trial, err = trialOf(fields["trial"]); err != nil {
		return k, err
	}
	if k.Params, err = paramsOf(fields["params"], names); err != nil {
		return k, err
	}
	if k.Score, err = valueOf(fields, metric.Name); err != nil {
		return k, err
	}
	best, err := bestOf(fields["curve"], metric.Maximize)
	if err != nil {
		return k, err
	}
	if k.Status, err = statusOf(fields, metric.Name); k.Status == sweep.StatusStopped && k.Score == nil {
		k.Score = best
	}
	return k, err
}

func trialOf(raw json.RawMessage) (int, error) {
	if raw == nil {
		return 0, errors.New(`it has no "trial", the number of the proposal`)
	}
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || n != math.Trunc(n) || n < 0 || n > maxTrial {
		return 0, fmt.Errorf(`"trial" is %.40s: use the number of the proposal`, raw)
	}
	return int(n), nil
}

func paramsOf(raw json.RawMessage, names []string) (sweep.Params, error) {
	if raw == nil {
		return nil, errors.New(`it has no "params"`)
	}
	var params sweep.Params
	if err := json.Unmarshal(raw, &params); err != nil || params == nil {
		return nil, fmt.Errorf(`"params" is %.40s: expected an object such as {"eta": 0.1}`, raw)
	}
	if len(params) > maxParameters {
		return nil, fmt.Errorf("%d parameters; use %d at most", len(params), maxParameters)
	}

	for _, name := range slices.Sorted(maps.Keys(params)) {
		if names != nil && !slices.Contains(names, name) {
			return nil, fmt.Errorf("the space has no parameter %.60q%s", name, strictyaml.Suggest(name, names))
		}
		switch params[name].(type) {
		case float64, string, bool, nil:
		default:
			return nil, fmt.Errorf("parameter %.60q is neither a number, text, true nor false", name)
		}
	}

	return params, nil
}

// valueOf reads the value, possibly under the metric's name; nil if it is not a finite number.
func valueOf(fields map[string]json.RawMessage, metric string) (*float64, error) {
	raw := fields["value"]
	if raw == nil && !slices.Contains(keys, metric) {
		raw = fields[metric]
	}
	if raw == nil {
		return nil, nil
	}
	v, err := number(raw)
	if err != nil {
		return nil, fmt.Errorf(`"value" is %.40s: expected a number`, raw)
	}
	if !sweep.Finite(v) {
		return nil, nil
	}
	return &v, nil
}

func statusOf(fields map[string]json.RawMessage, metric string) (sweep.Status, error) {
	_, named := fields[metric]
	_, plain := fields["value"]
	valued := plain || named && !slices.Contains(keys, metric)

	raw := fields["status"]
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
	if len(steps) > maxCurve {
		return nil, fmt.Errorf(`"curve" has %d values; use %d at most`, len(steps), maxCurve)
	}

	for i, step := range steps {
		var pair []json.RawMessage
		if json.Unmarshal(step, &pair) == nil && len(pair) == 2 {
			step = pair[1]
		}
		v, err := number(step)
		if err != nil {
			return nil, fmt.Errorf(`"curve"[%d] is %.40s: expected a number`, i, step)
		}
		if sweep.Finite(v) && (best == nil || v != *best && maximize == (v > *best)) {
			best = &v
		}
	}
	return best, nil
}

// number reads a number; JSON writers turn non-finite ones into null or a text.
func number(raw json.RawMessage) (float64, error) {
	var v *float64
	if err := json.Unmarshal(raw, &v); err == nil {
		if v == nil {
			return math.NaN(), nil
		}
		return *v, nil
	}

	var text string
	if err := json.Unmarshal(raw, &text); err == nil {
		switch text {
		case "NaN", "nan":
			return math.NaN(), nil
		case "Infinity", "inf", "+Infinity":
			return math.Inf(1), nil
		case "-Infinity", "-inf":
			return math.Inf(-1), nil
		}
	}

	return 0, errors.New("no number")
}

// unmarshal reads one JSON value, accepting the NaN and Infinity that Python writes but JSON does not allow.
func unmarshal(text []byte, v any) error {
	err := json.Unmarshal(text, v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		if err = json.Unmarshal(quoted(text), v); errors.As(err, &syntax) {
			return fmt.Errorf("byte %d: not JSON: %w", syntax.Offset, err)
		}
	}
	if err != nil {
		return fmt.Errorf("expected an object such as {\"trial\": 3, \"params\": {...}, \"value\": 0.81, "+
			"\"status\": \"done\"}: %w", err)
	}
	return nil
}

// quoted puts quotes around NaN and Infinity outside of texts.
func quoted(text []byte) []byte {
	var out []byte
	inside := false
	for i := 0; i < len(text); i++ {
		if inside && text[i] == '\\' && i+1 < len(text) {
			out = append(out, text[i], text[i+1])
			i++
			continue
		}
		if text[i] == '"' {
			inside = !inside
		}
		if word := notFinite(text[i:]); !inside && word != "" {
			out = append(append(append(out, '"'), word...), '"')
			i += len(word) - 1
			continue
		}
		out = append(out, text[i])
	}

	return out
}

func notFinite(text []byte) string {
	for _, word := range []string{"NaN", "-Infinity", "Infinity"} {
		if bytes.HasPrefix(text, []byte(word)) {
			return word
		}
	}
	return ""
}

// ReadEarlier reads the files of earlier searches, newest last, and returns the newest first.
func ReadEarlier(files []string, metric Metric) ([]sweep.Earlier, error) {
	var out []sweep.Earlier
	for _, file := range slices.Backward(files) {
		known, err := ReadResults(file, metric, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, sweep.Earlier{Sweep: sweep.ID(filepath.Base(file)), Trials: known})
	}
	return out, nil
}
