package ask

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

const space = `
metric: {name: auc, maximize: true}
seed: 7
search:
  random:
    eta: {log_uniform: [0.001, 0.3]}
    depth: {int: [2, 14]}
`

// TestSpecNamesThePlace shows a wrong space, and the line and column that the error names.
func TestSpecNamesThePlace(t *testing.T) {
	for change, want := range map[[2]string]string{
		{"seed: 7", "sed: 7"}:                `s.yaml:3:1: unknown key "sed" (did you mean "seed"?)`,
		{"maximize: true", "maximise: true"}: `s.yaml:2:21: unknown key "maximise" (did you mean "maximize"?)`,
		{", maximize: true",
			""}: `s.yaml:2:10: say whether the metric is to be maximized: metric: {name: "auc", maximize: true}`,
		{"name: auc, ", ""}: `s.yaml:2:10: the metric has no name: ` +
			`metric: {name: auc, maximize: true}`,
		{"search:\n", "search:\n  method: gpp\n"}: `s.yaml:5:11: unknown method "gpp" (did ` +
			`you mean "gp"?)`,
		{"search:\n", "search:\n  method: pbt\n"}: `s.yaml:5:11: method pbt continues ` +
			`models, which takes the trainer of a sweep (launcher sweep): use one of [auto gp tpe halton random]`,
		{"[0.001, 0.3]", "[0, 0.3]"}: `s.yaml:6:11: eta: a logarithmic range ` +
			`has to start above 0, not at 0`,
		{"int: [2, 14]", "int: [14, 2]"}: `s.yaml:7:13: depth: give [low, high] ` +
			`with low < high, not [14 2]`,
		{"int: [2, 14]", "int: [2, 14], when: eta > x"}: `s.yaml:7:33: "eta > x": column 7: ` +
			`unknown name "x" (known: depth, eta)`,
		{"int: [2, 14]", "int: [2, 14], when: {et: 3}"}: `s.yaml:7:34: the condition names ` +
			`"et", which is not a parameter of the search`,
		{"search:\n", "search:\n  constraints: [depth > 3, dept > 1]\n"}: `s.yaml:5:28: "dept > 1": column 1: ` +
			`unknown name "dept" (did you mean "depth"?)`,
		{"search:\n", "search:\n  grid: {depth: [3]}\n"}: `s.yaml:8:13: "depth" is both under grid ` +
			`and under random; leave it in one of them`,
		{"search:\n", "search:\n  grid: {other: []}\n"}: `s.yaml:5:17: the grid has no value for ` +
			`other`,
		{"search:\n", "search:\n  fixed: [{depth: .nan}]\n"}: `s.yaml:5:19: expected a number in ` +
			`decimal digits, found ".nan"`,
		{"int: [2, 14]", "choice: []"}: `s.yaml:7:13: depth: choice is empty`,
		{"int: [2, 14]", "choice: [[1, 2]]"}: `s.yaml:7:22: it is "[1 2]", which is neither a number, text, true, ` +
			`false nor null`,
		{"depth:", strings.Repeat("x", 300) + ":"}: `s.yaml:5:3: the name "` + strings.Repeat("x", 40) +
			`"... has 300 bytes; use 200 at most`,
		{"int: [2, 14]", "choice: [" + strings.Repeat("x", 2000) + "]"}: `s.yaml:7:22: it is a text of 2000 bytes; ` +
			`use 1000 at most`,
	} {
		text := strings.Replace(space, change[0], change[1], 1)
		_, err := parseSpec("s.yaml", []byte(text))
		if err == nil || err.Error() != want {
			t.Errorf("%q for %q:\ngot  %v\nwant %s", change[1], change[0], err, want)
		}
	}
}

// TestSpecTakesOneValue reads ranges whose ends meet.
func TestSpecTakesOneValue(t *testing.T) {
	s, err := parseSpec("s.yaml",
		[]byte(strings.NewReplacer("[0.001, 0.3]", "[0.1, 0.1]", "[2, 14]", "[6, 6]").Replace(space)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := search.Next(t.Context(), s.Ask())
	if err != nil || len(got) != 1 || got[0].Params["eta"] != 0.1 || got[0].Params["depth"] != 6.0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func read(text string) ([]sweep.Seen, error) {
	r := &reader{metric: Metric{"auc", true}}
	return r.read(strings.NewReader(text), "r.jsonl", []string{"eta", "depth"})
}

// TestResults reads what programs write: values that are not finite, a metric under its own name, a trial that ran and
// then ended.
func TestResults(t *testing.T) {
	known, err := read("\ufeff" + `{"trial": 0, "params": {"eta": 0.1, "depth": 6}, "value": 0.81, "status": "done"}

{"trial": 1, "params": {"eta": 0.2, "depth": 3}, "value": NaN, "curve": [0.5, NaN, -Infinity, [30, 0.6]]}
{"trial": 2, "params": {}, "status": "running", "source": "gp", "reason": "a \"NaN\" here"}
{"trial": 2, "params": {}, "status": "stopped", "value": null}
{"trial": 3, "params": {}, "auc": "Infinity", "value": null}
{"trial": 0, "params": {"depth": 6.0, "eta": 1e-1}, "value": 0.81, "status": "done"}
{"trial": 0, "params": {"depth": 6.0, "eta": 1e-1}, "status": "running"}
{"trial": 4, "params": {}, "status": "stopped", "curve": [0.5, NaN, -Infinity, [30, 0.6], 0.4]}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(known) != 5 || *known[0].Score != 0.81 || known[0].Status != "done" || known[1].Score != nil ||
		known[2].Status != "stopped" || known[2].Score != nil || known[3].Score != nil || *known[4].Score != 0.6 {
		t.Errorf("read %+v; want 0.81 of trial 0, the best of its curve of trial 4, and no other score", known)
	}
}

func TestResultsNameThePlace(t *testing.T) {
	const good = `{"trial": 0, "params": {"eta": 0.1}, "value": 1, "status": "done"}` + "\n"
	for line, want := range map[string]string{
		`{"trial": 1,`: `r.jsonl:2: byte 12: not JSON: unexpected end of JSON input`,
		`{"trial": 1, "params": {"eta": NaN}, "value": 1} 2`: `r.jsonl:2: ` +
			`byte 50: not JSON: invalid character '2' ` +
			`after top-level value`,
		"{\"trial\": 1, \"params\": {}, \"value\": 1, \"source\": \"\xff\"}": `r.jsonl:2: not UTF-8`,
		`[1]`: `r.jsonl:2: it is [1]: expected an object such as {"trial": 3, "params": ` +
			`{...}, "value": 0.81, "status": "done"}`,
		`{"Trial": 1, "params": {}, "value": 1}`: `r.jsonl:2: ` +
			`unknown key "Trial" (did you mean "trial"?)`,
		`{"trial": 1, "params": {}, "AUC": 1}`: `r.jsonl:2: ` +
			`unknown key "AUC" (did you mean "auc"?)`,
		`{"trial": 1, "params": {}, "value": 1, "value": 2}`:      `r.jsonl:2: the key "value" is there twice`,
		`{"trial": 1, "params": {}, "value": 1, "tr\u0069al": 2}`: `r.jsonl:2: the key "trial" is there twice`,
		`{"trial": 1, "params": {"eta": 1, "eta": 1}, "value": 1}`: `r.jsonl:2: ` +
			`"params": the key "eta" is there twice`,
		`{"trial": 1, "params": {}, "value": 1, "auc": 0.5}`: `r.jsonl:2: ` +
			`"value" is 1 and "auc" is 0.5, which are the ` +
			`same; leave one of them out`,
		`{"trial": 1, "params": {}, "value": 1, "auc": NaN}`: `r.jsonl:2: "value" is 1 and "auc" is `,
		`{"trial": 1, "params": {}, "value": 1e999}`: `r.jsonl:2: ` +
			`"value" is 1e999: it is beyond the largest number`,
		`{"trial": 1, "params": {"eta": 1e999}, "value": 1}`: `r.jsonl:2: ` +
			`parameter "eta" is 1e999, which is beyond the ` +
			`largest number`,
		`{"trial": 1, "params": {"eta": -Infinity}, "value": 1}`: `r.jsonl:2: ` +
			`parameter "eta" is not a finite number`,
		`{"trial": null, "params": {}, "value": 1}`: `r.jsonl:2: ` +
			`"trial" is null: use the number of the proposal`,
		`{"trial": 1e999, "params": {}, "value": 1}`: `r.jsonl:2: ` +
			`"trial" is 1e999: use the number of the proposal`,
		`{"trial": 1, "params": {"eta": "` + strings.Repeat("x", 2000) +
			`"}, "value": 1}`: `r.jsonl:2: parameter "eta" ` +
			`is a text of 2000 bytes; use 1000 at most`,
		`{"trial": 1, "params": {}, "vale": 1}`: `r.jsonl:2: unknown key "vale" (did you mean "value"?)`,
		`{"trial": 1, "params": {"et": 1}, "value": 1}`: `r.jsonl:2: the space has no ` +
			`parameter "et" (did you mean "eta"?)`,
		`{"trial": 1, "params": {"eta": [1]}, "value": 1}`: `r.jsonl:2: parameter "eta" is ` +
			`"[1]", which is neither a number, text, true, false nor null`,
		`{"trial": 1, "params": 3, "value": 1}`: `r.jsonl:2: "params" is 3: expected ` +
			`an object such as {"eta": 0.1}`,
		`{"trial": 1, "value": 1}`: `r.jsonl:2: it has no "params"`,
		`{"params": {}, "value": 1}`: `r.jsonl:2: it has no "trial", the ` +
			`number of the proposal`,
		`{"trial": -1, "params": {}, "value": 1}`: `r.jsonl:2: "trial" is -1: use the ` +
			`number of the proposal`,
		`{"trial": 1, "params": {}, "value": "much", "status": "done"}`: `r.jsonl:2: "value" is "much": ` +
			`expected a number`,
		`{"trial": 1, "params": {}, "status": "done"}`: `r.jsonl:2: it is done but has no ` +
			`"value"; a trial without one has the status "failed"`,
		`{"trial": 1, "params": {}}`: `r.jsonl:2: it has neither "status" ` +
			`nor "value"; a status is one of [done running failed stopped]`,
		`{"trial": 1, "params": {}, "status": "ended"}`: `r.jsonl:2: "status" is "ended": use ` +
			`one of [done running failed stopped]`,
		`{"trial": 1, "params": {}, "value": 1, "curve": [1, "x"]}`: `r.jsonl:2: "curve"[1] is "x": ` +
			`expected a number`,
		`{"trial": 0, "params": {"eta": 0.1}, "value": 2, "status": "done"}`: `r.jsonl:2: ` +
			`trial 0: another end than ` +
			`line 1 says`,
		`{"trial": 0, "params": {"eta": 0.2}, "value": 1, "status": "done"}`: `r.jsonl:2: ` +
			`trial 0: other params ` +
			`than line 1 says`,
		`{"trial": 1, "params": {}, "value": 1, "x": "` + strings.Repeat("x", maxLine) +
			`"}`: `r.jsonl:2: a line of more than 1048576 bytes`,
	} {
		_, err := read(good + line + "\n")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80s:\ngot  %v\nwant %s", line, err, want)
		}
	}
}

// TestResultsAreBounded: what all files of a search have is counted together.
func TestResultsAreBounded(t *testing.T) {
	const first, second = `{"trial": 0, "params": {"a": 1}, "value": 1}`, `{"trial": 1, "params": {"a": 1}, "value": 1}`
	for want, r := range map[string]reader{
		"f.jsonl:2: more than the 128 MB of results that a search may know; leave out curves, or old trials": {
			bytes: maxBytes - 2*len(first) - 1},
		"f.jsonl:2: more than the 100000 results, or the 2000000 values of parameters, that a search may know; leave " +
			"out old trials": {results: maxResults - 1},
		"f.jsonl:2: more than the 100000 results, or": {values: maxValues - 1},
	} {
		before := r
		_, err := r.read(strings.NewReader(first+"\n"+second+"\n"), "f.jsonl", nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("two results after %+v: %v; expected %s", before, err, want)
		}
		if _, err := before.read(strings.NewReader(first+"\n"), "f.jsonl", nil); err != nil {
			t.Errorf("the last result that fits: %v", err)
		}
	}
}

// TestAFileThatIsTooLargeIsNotRead: its first line is no result, and would be complained about.
func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.jsonl")
	if err := errors.Join(os.WriteFile(file, []byte("x\n"), 0o644), os.Truncate(file, maxBytes+1)); err != nil {
		t.Fatal(err)
	}
	_, err := (&reader{}).open(file, nil)
	if want := file + ": " + tooMuch; err == nil || err.Error() != want {
		t.Errorf("a file of %d bytes: %v, want %s", maxBytes+1, err, want)
	}
	if err := os.Truncate(file, 2); err != nil {
		t.Fatal(err)
	}
	if _, err = (&reader{}).open(file, nil); err == nil || !strings.Contains(err.Error(), ":1: ") {
		t.Errorf("a short file: %v, want its first line to be refused", err)
	}
}

func FuzzResults(f *testing.F) {
	f.Add(`{"trial": 0, "params": {"eta": 0.1}, "value": NaN, "status": "done", "curve": [1, [2, 3]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		known, err := read(text)
		if err != nil {
			return
		}
		s, err := parseSpec("s.yaml", []byte(space))
		if err != nil {
			t.Fatal(err)
		}
		r := s.Ask()
		r.Known = known
		if got, err := search.Next(t.Context(), r); err != nil || len(got) != 1 {
			t.Errorf("after %q: %v, %v", text, got, err)
		}
	})
}
