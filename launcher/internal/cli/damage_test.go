package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"
	"unicode/utf8"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/sweepview"
)

// TestPlanRefusesAnAlteredManifest: sweep --dry-run refuses a dataset in whose manifest one number has changed. Before
// that, the same command plans the sweep.
func TestPlanRefusesAnAlteredManifest(t *testing.T) {
	w := newStagedWorld(t)
	spec := w.file("sweep.yaml",
		"name: night\ndataset: clicks\nmodel: ctr\nmetric: auc\ntrials: 1\nsearch: {fixed: [{}]}\nmachine: {type: "+
			"n2-highmem-16}\n")
	w.must("sweep", spec, "--dry-run")
	store := w.buckets["datasets"]
	for attrs, err := range store.List(t.Context(), "datasets/clicks/") {
		must.Do(t, err)
		if filepath.Base(attrs.Name) != "manifest.json" {
			continue
		}
		text, _ := must.Get2(blob.ReadAll(t.Context(), store, attrs.Name, 1<<20))(t)
		bad := bytes.Replace(text, []byte(`"missing_bin":-1`), []byte(`"missing_bin":-2`), 1)
		if bytes.Equal(bad, text) { // every column has a bin of missing values: a number of rows gets one more digit
			bad = bytes.Replace(text, []byte(`"rows":`), []byte(`"rows":1`), 1)
		}
		must.Get(store.Put(t.Context(), attrs.Name, blob.Any, bytes.NewReader(bad)))(t)
	}
	w.refused(sweep.ExitInput, "manifest", "sweep", spec, "--dry-run")
}

// TestFaultsOfEveryObject: what a person sees of a sweep of which one object is damaged or out of reach for good, by
// the table of internal/sweep/WIRE.md. A row is a kind of object, and its columns are blobtest.Faults. A cell has the
// exit codes of `status x`, `leaderboard x` and `status`, which lists all sweeps: 0 if all is shown, 1 for a store that
// does not answer, 3 for a damaged object, 4 for one that is not there, 6 for a missing right. The list always ends
// with 0, since one broken sweep must not hide the others. Claims and heartbeats never matter to these commands: a
// status without one still counts the trials.
func TestFaultsOfEveryObject(t *testing.T) {
	running, ended := newWorld(t), newWorld(t)
	ended.jobs.run = ended.concluded(sweep.OutcomeWinner)
	for _, w := range []*world{running, ended} {
		w.staged()
		w.jobs.status = &engine.JobStatus{State: engine.Running, Began: true}
		w.must("sweep", w.file("sweep.yaml", fallbackYAML), "--id", "x", "--no-wait")
	}
	s, trials := sweepstore.New(running.buckets["sweeps"], "x"), sweepstore.NewTrials(running.buckets["sweeps"],
		running.plan("x"))
	p := running.plan("x")
	for what, create := range map[string]func() (bool, error){
		"claim": func() (bool, error) {
			return trials.CreateClaim(t.Context(), sweep.Claim{Format: 1, Sweep: "x", Trial: 1, At: running.now})
		},
		"heartbeat": func() (bool, error) {
			return true, trials.Beat(t.Context(), 1, 0, sweep.Heartbeat{Format: 1, Trees: 3, At: running.now})
		},
		"result": func() (bool, error) {
			return trials.CreateResult(t.Context(), sweep.Result{Format: 1, Sweep: "x", Trial: 0,
				Status: sweep.StatusFailed, Reason: "no luck"})
		},
		"job": func() (bool, error) {
			return s.CreateJob(t.Context(), sweep.JobRecord{Format: 1, Sweep: "x", Number: 1, Job: p.JobName(1),
				At: running.now})
		},
	} {
		if ok, err := create(); !ok || err != nil {
			t.Fatalf("prepare a %s: created %t, error %v", what, ok, err)
		}
	}
	if ok, err := sweepstore.New(ended.buckets["sweeps"], "x").CreateEnding(t.Context(),
		sweep.Ending{Format: 1, Sweep: "x", Trials: []int{0, 1, 2, 3}}); !ok || err != nil {
		t.Fatalf("prepare an ending: created %t, error %v", ok, err)
	}

	names := sweep.Names("x")
	for _, row := range []struct {
		kind, name string
		of         *world // whose sweep has the object
		// By fault, in the order of blobtest.Faults: a wrong checksum, forbidden, refused, truncated, absent.
		want [5]string
	}{
		{"plan", names.Plan(), running, [5]string{"3 3 0", "6 6 0", "1 1 0", "3 3 0", "4 4 0"}},
		{"claim", names.Claim(1, 0), running, [5]string{"0 0 0", "0 0 0", "0 0 0", "0 0 0", "0 0 0"}},
		{"heartbeat", names.Heartbeat(1, 0), running, [5]string{"0 0 0", "0 0 0", "0 0 0", "0 0 0", "0 0 0"}},
		{"result", names.Result(0), running, [5]string{"0 0 0", "6 6 0", "1 1 0", "0 0 0", "0 0 0"}},
		{"job record", names.JobRecord(1), running, [5]string{"3 0 0", "6 0 0", "1 0 0", "3 0 0", "0 0 0"}},
		{"ending", names.Ending(), ended, [5]string{"0 0 0", "6 6 0", "1 1 0", "0 0 0", "0 0 0"}},
		{"conclusion", names.Conclusion(), ended, [5]string{"3 3 0", "6 6 0", "1 1 0", "3 3 0", "0 0 0"}},
	} {
		for i, fault := range blobtest.Faults {
			got, says := "", ""
			synctest.Test(t, func(t *testing.T) {
				w := *row.of
				bad, err := blobtest.NewFaulty(t.Context(), w.buckets["sweeps"], fault, func(name string) bool {
					return name == row.name
				})
				if err != nil || bad.Struck() != 1 {
					t.Fatalf("%s: %d objects, error %v; want one", row.kind, bad.Struck(), err)
				}
				w.ctx, w.buckets = t.Context(), map[string]blob.Store{"datasets": w.buckets["datasets"],
					"registry": w.buckets["registry"], "sweeps": bad}
				for _, args := range [][]string{{"status", "x"}, {"leaderboard", "x"}, {"status"}} {
					code, _, errOut := w.run(args...)
					got += fmt.Sprint(code, " ")
					says += errOut
				}
			})
			if got != row.want[i]+" " {
				t.Errorf("%s, %s: exit codes %s; want %s\n%s", row.kind, fault, got, row.want[i], says)
			}
		}
	}
}

// TestExitCodes: errors that are not simply of a problem.Kind have the exit codes that docs and scripts rely on,
// wrapped or not.
func TestExitCodes(t *testing.T) {
	conflict := problem.New(problem.Conflict, "x")
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"no winner":             {sweepview.NoWinner(&sweep.Conclusion{}, ""), sweep.ExitNoWinner},
		"not promoted":          {sweepview.NotPromoted(&sweep.Conclusion{}), sweep.ExitNotPromoted},
		"a job failed":          {&cloudjob.FailedError{}, sweep.ExitError}, // its tasks gave no code
		"a job's input":         {&cloudjob.FailedError{Code: sweep.ExitInput}, sweep.ExitInput},
		"a job was interrupted": {&cloudjob.FailedError{Code: sweep.ExitInterrupt}, sweep.ExitInterrupt},
		// Batch retries a task that ends with ExitTransient, and no other. markTransient wants that for what was
		// unexpected or interrupted; wrong usage would be wrong again.
		"a task's failure":       {markTransient(errors.New("x"), sweep.ExitError), sweep.ExitTransient},
		"a task was interrupted": {markTransient(context.Canceled, sweep.ExitInterrupt), sweep.ExitTransient},
		"a task's input":         {markTransient(program.Usagef("x"), sweep.ExitUsage), sweep.ExitUsage},
		// What is of a problem.Kind has the code of that, whatever it is joined with.
		"joined": {errors.Join(conflict, fs.ErrPermission), sweep.ExitConflict},
	} {
		for how, err := range map[string]error{"itself": tc.err, "wrapped": fmt.Errorf("a: %w", tc.err)} {
			if code := program.ExitCode(t.Context(), err); code != tc.want {
				t.Errorf("%s, %s: exit code %d, expected %d", name, how, code, tc.want)
			}
		}
	}
}

// hostile is a text that would clear the screen, ring, colour and reverse what follows: it has control characters of C0
// and C1, bidirectional and invisible ones.
const hostile = "x\x1b[2J\x07\u009b31m\u202e\u2066y\u200b\ufeffz\x7f"

// obeyed returns the characters of text that a terminal would obey, or not show.
func obeyed(text string) []rune {
	var found []rune
	for _, r := range text {
		if r == utf8.RuneError || r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			found = append(found, r)
		}
	}
	return found
}

// TestOutsidersDoNotCommandTheTerminal: the commands below are run on a table, results of tasks, specs and arguments
// that hold the text hostile or parts of it. None of them prints a character that a terminal would obey.
func TestOutsidersDoNotCommandTheTerminal(t *testing.T) {
	w := newWorld(t)
	w.register(1)

	// A table with hostile column names and values.
	text := string(datasettest.Table(datasettest.Options{Rows: 1200}))
	text = strings.ReplaceAll(strings.Replace(text, ",age,", ",a\u202e\u200b\u009b,", 1), "site1", hostile)
	w.file("clicks.csv", text)
	spec := w.file("dataset.yaml", clicksYAML+"categorical: [campaign_id, site]\nencodings: none\n")

	// A task's account writes why its trials failed, and the aggregator why nothing won.
	w.jobs.run = func(p *sweep.Plan) {
		for name, v := range map[string]any{
			sweep.Names(p.Sweep).Result(0): sweep.Result{Format: 1, Sweep: p.Sweep, Trial: 0,
				Status: sweep.StatusFailed, Reason: hostile},
			sweep.Names(p.Sweep).Conclusion(): sweep.Conclusion{Format: 1, Sweep: p.Sweep,
				Outcome: sweep.OutcomeNoWinner, Reason: hostile,
				Rejected: []sweep.Rejected{{Trial: 0, Reason: hostile}}},
		} {
			must.Get(blobtest.CreateJSON(t.Context(), w.buckets["sweeps"], name, v))(t)
		}
	}
	must.Get(blob.Create(t.Context(), w.buckets["sweeps"], sweep.Names("broken").Plan(),
		[]byte(`{"format":1,"sweep":"`+hostile+`"}`)))(t)
	night := w.file("sweep.yaml", sweepYAML)
	in, scored := filepath.Join(w.dir, "clicks.csv"), filepath.Join(w.dir, "out.csv")
	bad := func(name, from, to string) string {
		t.Helper()
		return w.file(name, strings.Replace(sweepYAML, from, to, 1))
	}

	w.must("stage", spec)
	w.run("sweep", night, "--id", "night-1") // ends without a winner, as w.jobs.run says
	for _, line := range [][]string{
		{"stage", spec}, {"stage", spec, "--json"}, {"status"}, {"status", "--json"},
		{"leaderboard", "night-1"}, {"leaderboard", "night-1", "--json"}, {"status", "night-1"}, {"watch", "night-1"},
		{"sweep", night, "--id", "night-1"},
		{"status", "broken"}, {"status", hostile}, {"status", "--" + hostile}, {hostile}, {"registry", hostile},
		{"plan", hostile + ".yaml"}, {"stage", hostile + ".yaml"},
		{"plan", night, "--machines", hostile}, {"sweep", night, "--id", hostile},
		{"plan", bad("a.yaml", "num_leaves", `"num`+`\e[2J\u202e`+`"`)},
		{"plan", bad("b.yaml", "auc", `"a`+`\e[2J\x9b`+`"`)}, {"plan", bad("c.yaml", "trials: 4", hostile+": 4")},
		{"plan", bad("d.yaml", "n2-highmem-2", `"n2`+`\e[2J\u202e`+`"`)},
		{"plan", bad("e.yaml", "dataset: clicks", `dataset: "`+`\e[2J\u202e`+`"`)},
		{"stage", w.file("f.yaml", "name: clicks\nsource: \"no\\0thing\\e[2J.csv\"\nlabel: y\n")},
		{"stage", w.file("g.yaml", "name: clicks\nsource: clicks.csv\nlabel: \"\\e[2J\\u202e\"\n")},
		{"stage", w.file("h.yaml", "name: clicks\nsource: clicks.csv\nlabel: is_click\ndrop: [revenue]\nnumeric: [\"c"+
			`x\e[2J`+"\"]\n")},
		{"predict", "--model", "ctr", "--in", in, "--out", scored, "--keep", hostile},
		{"predict", "--model", "ctr", "--in", in, "--out", scored, "--delimiter", hostile},
		{"predict", "--model", "ctr", "--in", hostile, "--out", scored}, {"predict", "--model", "ctr", "--in", in,
			"--out", "none/" + hostile + ".csv"}, {"predict", "--model", hostile, "--in", in, "--out", scored},
		{"registry", "show", "ctr@" + hostile}, {"registry", "show", "ctr", "--file", hostile},
		{"registry", "promote", "ctr@1", "--why", hostile},
		{"doctor", "--for", hostile}, {"bill", "night-1"}, {"bill", hostile},
		{"cancel", hostile},
	} {
		_, out, errOut := w.run(line...)
		if found := obeyed(out + errOut); len(found) > 0 {
			t.Errorf("%q lets %U through, want no such character:\n%q\n%q", line, found, out, errOut)
		}
		if out+errOut == "" {
			t.Errorf("%q prints nothing, want a result or an error", line)
		}
	}

	// The names and values of the table are still shown, with each such character written as an escape.
	out, columns := w.must("stage", spec), w.must("stage", spec, "--json")
	if !strings.Contains(out, `\u001b[2J`) || !strings.Contains(out, `a\u202e\u200b\u009b`) ||
		!strings.Contains(columns, `"a\u202e\u200b\u009b"`) {
		t.Errorf("want the hostile columns and values shown, escaped:\n%s\n%s", out, columns)
	}
}

// TestLongValuesMakeNoLongErrors: an error shows a value of 5,000 characters by its beginning and end, some 200
// characters (program.Brief). An error may repeat the value and has words of its own, for which 1,200 leave room.
func TestLongValuesMakeNoLongErrors(t *testing.T) {
	w := newStagedWorld(t)
	w.register(1)
	long := strings.Repeat("long_", 1000)
	in := w.rows(50)
	for _, line := range [][]string{
		{"plan", w.file("a.yaml", sweepYAML+long+": 1\n")},
		{"plan", w.file("b.yaml", strings.Replace(sweepYAML, "auc", long, 1))},
		{"plan", w.file("c.yaml", strings.Replace(sweepYAML, "num_leaves", long, 1))},
		{"plan", w.file("d.yaml", strings.Replace(sweepYAML, "trials: 4", "trials: "+long, 1))},
		{"plan", w.file("e.yaml", strings.Replace(sweepYAML, "search: {", "search: {constraints: ['"+long+" < 3'], ",
			1))},
		{"stage", w.file("f.yaml", "name: clicks\nsource: clicks.csv\nlabel: "+long+"\n")},
		{"stage", w.file("g.yaml", "name: clicks\nsource: clicks.csv\nlabel: is_click\ndrop: ['"+
			strings.Repeat("two words ", 500)+"']\n")},
		{"predict", "--model", "ctr", "--in", in, "--out", filepath.Join(w.dir, "o.csv"), "--keep", long},
		{"status", "--" + long}, {long}, {"status", long}, {"plan", long},
	} {
		code, out, errOut := w.run(line...)
		if code == 0 || utf8.RuneCountInString(errOut) > 1200 {
			t.Errorf("%.60q ended with %d and an error of %d characters, want a failure and at most 1200: %.200q ... "+
				"%s", line, code, utf8.RuneCountInString(errOut), errOut, out)
		}
	}
}
