package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// datasetYAML is a dataset's spec, in which TestStrictIsStrict makes one value wrong at a time.
const datasetYAML = "name: clicks\nsource: clicks.csv\nlabel: is_click\ndrop: [revenue]\nmax_bin: 255\nsample: " +
	"100\nsplit: {by: hash, key: user_id, train: 0.6, valid: 0.4}\ncsv: {delimiter: ','}\n"

// TestStrictIsStrict: a value that would silently become another, or the default, is refused, and so is one that cannot
// be meant. These are the keys with types or rules of their own; what a plain number, text or flag may look like is
// package strictyaml's part. Each case replaces one text of a spec that is accepted as it is. The error has to contain
// the case's words, which begin with :line:column: where that is asserted.
func TestStrictIsStrict(t *testing.T) {
	full := strings.NewReplacer("machine: {", "machine: {vms: 2, ", "search: {",
		"search: {constraints: [num_leaves < 99], ").Replace(sweepYAML) + "\nseed: 7\n"
	w := newWorld(t)
	w.staged()
	w.must("plan", w.file("good.yaml", full))

	for _, tc := range []struct{ from, to, says string }{
		{"trials: 4", "trials: 1.5", `:6:9: expected a whole number, found "1.5"`},
		{"vms: 2", "vms: 0", "machine.vms is 0: use a number above 0, or leave it out for the default"},
		{"vms: 2", "local_ssd: 0", "machine.local_ssd is 0: use a number above 0, or auto"},
		{"vms: 2", "local_ssd: 1.5", `found "1.5"`},
		{"vms: 2", "tasks_per_vm: 0", "machine.tasks_per_vm is 0: use a number above 0, or auto"},
		{"vms: 2", "tasks_per_vm: '2'", "leave the quotes out"},
		{"vms: 2", "fallback: [{type: n2-highmem-4, local_ssd: 1}]", "unknown key \"local_ssd\""},
		{"vms: 2", "wait: 0s, fallback: [{type: n2-highmem-4}]", "machine.wait is 0s"},
		{"threads_per_task: 1", "threads_per_task: 0", "machine.threads_per_task is 0"},
		{"trial: 1m", "trial: 0s", "limits.trial is 0s"},
		{"sweep: 5m", "sweep: 0s", "limits.sweep is 0s"},
		{"sweep: 5m", "sweep: 5m, quorum: 0", "limits.quorum is 0"},
		{"log_int: [4, 40]", "log_int: [4.5, 40]", `found "4.5"`},
		{"log_int: [4, 40]", "choice: [0x10, 31]", `found "0x10"`},
		{"log_int: [4, 40]", "choice: ['16', 31]", "num_leaves"},
		{"log_int: [4, 40]", "uniform: [4, .inf]", `found ".inf"`},
		{"num_leaves < 99", "num_leaves < 1/0", "this is +Inf"},
		{"num_leaves < 99", "num_leaves + 1", "expected bool, but got float64"},
		{"seed: 7", "seed: 7\nparams: {learning_rate: .nan}", `found ".nan"`},
	} {
		text := strings.Replace(full, tc.from, tc.to, 1)
		if text == full {
			t.Fatalf("%q is not in the spec, want it there to be replaced", tc.from)
		}
		for _, command := range []string{"plan", "sweep"} { // both read the spec
			w.refused(sweep.ExitInput, tc.says, command, w.file("sweep.yaml", text))
		}
	}

	for _, tc := range []struct{ from, to, says string }{
		{"max_bin: 255", "max_bin: 63.5", `:5:10: expected a whole number, found "63.5"`},
		{"sample: 100", "sample: {rows: 100.5}", `found "100.5"`},
		{"sample: 100", "sample: '100'", "leave the quotes out"},
		{"delimiter: ','", "quote: ''", "quote has no value"},
		{"sample: 100", "encodings: {order: {copies: 0}}", "copies is 0"},
		{"label: is_click", "label: {column: is_click, above: .nan}", `found ".nan"`},
		{"source: clicks.csv", `source: "a\0b.csv"`, "holds a NUL"},
		{"source: clicks.csv", "source: gs://../x", "is not a bucket's address"},
	} {
		text := strings.Replace(datasetYAML, tc.from, tc.to, 1)
		w.refused(sweep.ExitInput, tc.says, "stage", w.file("strict.yaml", text))
	}
	w.must("stage", w.file("strict.yaml", datasetYAML))
}

// TestColumnsAreCalledAsWritten: a column's name or a label's value that looks like a number in dataset.yaml stays the
// text that is written there.
func TestColumnsAreCalledAsWritten(t *testing.T) {
	w := newWorld(t)
	var b strings.Builder
	b.WriteString("010,1.50,y\n")
	for i := range 400 {
		b.WriteString([]string{"1,a,1.50\n", "2,b,010\n", "3,c,010\n"}[i%3])
	}
	w.file("t.csv", b.String())
	out := w.must("stage",
		w.file("d.yaml", "name: odd\nsource: t.csv\nlabel: {column: y, positive: 1.50, negative: 010}\ndrop: "+
			"[010]\ncategorical: [1.50]\n"))
	// The label is 1.50 in the first of every three rows: 134 of 400, or 34 %.
	if strings.Contains(out, "│ 010") || !strings.Contains(out, "│ 1.50") || !strings.Contains(out, "34 % positive") {
		t.Errorf("want 010 dropped, 1.50 as a feature, and 34 %% of the rows positive:\n%s", out)
	}
}

// TestFlagsGivenNothing: the flags below are refused with an empty value, 0 or a number out of their range. So a shell
// variable that is not set does not select the default.
func TestFlagsGivenNothing(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.register(1)
	night, in := w.spec(), w.rows(50)
	predict := []string{"predict", "--model", "ctr", "--in", in, "--out", filepath.Join(w.dir, "o.csv")}
	for says, line := range map[string][]string{
		"--delimiter is empty": append(predict, "--delimiter", ""), "--quote is empty": append(predict, "--quote="),
		"--keep is empty":     append(predict, "--keep", ""),
		"--id is empty":       {"sweep", night, "--id", ""},
		"--machines is empty": {"plan", night, "--machines", ""},
		"--out is empty":      {"stage", w.file("d.yaml", datasetYAML), "--out", ""},
		"--why is missing":    {"registry", "promote", "ctr@1", "--why", ""},
		"--budget is 0":       {"sweep", night, "--budget", "0"}, "--vms is 0": {"plan", night, "--vms", "0"},
		"--within is 0s":    {"plan", night, "--within", "0s"},
		"--rows is 0":       {"plan", night, "--rows", "0"},
		"--threads is -1":   {"registry", "reproduce", "ctr@1", "--threads", "-1"},
		"--threads is -2":   {"registry", "explain", "ctr@1", "--threads", "-2"},
		"--threads is -3":   {"stage", "d.yaml", "--threads", "-3"},
		"--threads is 2000": {"stage", "d.yaml", "--threads", "2000"},
	} {
		w.refused(sweep.ExitUsage, says, line...)
	}
}

// TestOnlyFilesAreRead: pipes, devices, folders and loops are rejected at once, as unusable input.
func TestOnlyFilesAreRead(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.register(1)
	pipe, loop, scored := filepath.Join(w.dir, "pipe"), filepath.Join(w.dir, "loop"), filepath.Join(w.dir, "o.csv")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	must.Do(t, os.Symlink(loop, loop))
	// 17 bytes, 2^17 times, are more than the MiB that a spec may have.
	long := w.file("long.yaml", strings.Repeat("# a long comment\n", 1<<17))

	for file, says := range map[string]string{"/dev/zero": "a device", w.dir: "a folder", pipe: "a pipe",
		loop: "symbolic links", "a\x00b": "invalid argument", long: "more than the 1048576 bytes"} {
		for _, line := range [][]string{{"plan", file}, {"sweep", file}, {"stage", file}} {
			start := time.Now()
			w.refused(sweep.ExitInput, says, line...)
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("%q took %s, want less than 30 s", line, took)
			}
		}
		if file == w.dir || file == long {
			continue // a table may be a folder or long
		}
		source := strings.ReplaceAll(file, "\x00", `\0`)
		w.refused(sweep.ExitInput, "", "stage",
			w.file("d.yaml", strings.Replace(datasetYAML, "clicks.csv", `"`+source+`"`, 1)))
		w.refused(sweep.ExitInput, "", "predict", "--model", "ctr", "--in", file, "--out", scored)
	}
	w.refused(sweep.ExitNotFound, "nowhere.yaml", "plan", "nowhere.yaml")
}

// TestOnlyFilesAreReplaced: an --out that is a folder, a pipe or a loop of links is refused before the work, and left
// as it was; the output is renamed into its place, which would make a file even of /dev/null. A file is replaced.
func TestOnlyFilesAreReplaced(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.register(1)
	w.must("sweep", w.spec(), "--id", "night-1", "--no-wait")
	in := w.rows(50)
	folder, pipe, loop := filepath.Join(w.dir, "folder.csv"), filepath.Join(w.dir, "pipe.csv"),
		filepath.Join(w.dir, "loop.csv")
	for _, err := range []error{os.Mkdir(folder, 0o700), syscall.Mkfifo(pipe, 0o600), os.Symlink(loop, loop)} {
		must.Do(t, err)
	}

	for path, says := range map[string]string{folder: "a folder", pipe: "a pipe", loop: "symbolic links"} {
		for _, line := range [][]string{
			{"predict", "--model", "ctr", "--in", in, "--out", path}, {"report", "night-1", "--out", path},
		} {
			before := must.Get(os.Lstat(path))(t)
			w.refused(sweep.ExitUsage, says, line...)
			if after, err := os.Lstat(path); err != nil || after.Mode() != before.Mode() {
				t.Errorf("%q made another thing of %s (%v), want it to stay %s", line, path, err, before.Mode())
			}
		}
	}
	scored := w.file("o.csv", "what was there")
	w.must("predict", "--model", "ctr", "--in", in, "--out", scored)
	if text, err := os.ReadFile(scored); err != nil || string(text) == "what was there" {
		t.Errorf("predict --out of a file that exists left %q, %v; want it replaced", text, err)
	}
}

// TestADamagedCalibratorIsInput: predict calls a damaged calibrator in the registry an unusable input, and not an
// unexpected error.
func TestADamagedCalibratorIsInput(t *testing.T) {
	w := newWorld(t)
	w.grow(2).changed(scorer.FileCalibrator, func(string) string { return `{"format":1,"method":"platt"` })
	w.refused(sweep.ExitInput, "calibrator", "predict", "--model", "ctr@2", "--in", w.rows(50), "--out",
		filepath.Join(w.dir, "o.csv"))
}
