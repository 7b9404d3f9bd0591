package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/slogtest"

	"github.com/google/go-cmp/cmp"
	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"

	"coppice/internal/cloud"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/registry"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// run executes a program with the arguments args. The program has one command, "do NAME", with the flags --n and
// --must, which ends with err. run returns the program's exit code, what it prints, and its error output.
func run(ctx context.Context, args []string, err error) (code int, out, errOut string) {
	var o, e bytes.Buffer
	root := &cobra.Command{Use: "prog"}
	child := &cobra.Command{Use: "do NAME", Args: cobra.ExactArgs(1),
		RunE: func(*cobra.Command, []string) error { return err }}
	child.Flags().Int("n", 1, "")
	child.Flags().String("must", "", "")
	_ = child.MarkFlagRequired("must")
	root.AddCommand(child)
	code = program.Execute(ctx, program.World{Args: args, Out: program.To(&o), Err: program.To(&e), Version: "v1"},
		root)
	return code, o.String(), e.String()
}

// TestExitCodes: a program's exit code follows from its error's kind, and is that of usage for wrong arguments, which
// are printed with the program's name. An interruption has a code of its own, and --version ends with 0.
func TestExitCodes(t *testing.T) {
	fine := []string{"do", "x", "--must", "y"}
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"none":       {nil, sweep.ExitOK},
		"unexpected": {errors.New("x"), sweep.ExitError},
		"usage":      {program.Usagef("x"), sweep.ExitUsage},
		"spec":       {fmt.Errorf("a: %w", &strictyaml.Error{File: "f"}), sweep.ExitInput},
		"table":      {&table.InputError{Msg: "x"}, sweep.ExitInput},
		"param":      {&gbt.ParamError{}, sweep.ExitInput},
		"name":       {sweep.CheckName("sweep", "X"), sweep.ExitInput},
		"absent":     {fmt.Errorf("a: %w", fs.ErrNotExist), sweep.ExitNotFound},
		"version":    {&registry.DeletedError{}, sweep.ExitNotFound},
		"conflict":   {&registry.ConflictError{}, sweep.ExitConflict},
		"permission": {&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, sweep.ExitSetup},
		"read only":  {&fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}, sweep.ExitSetup},
		"full disk":  {&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, sweep.ExitSetup},
		"full quota": {&fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}, sweep.ExitSetup},
		"setup":      {fmt.Errorf("a: %w", &cloud.SetupError{Err: fs.ErrNotExist}), sweep.ExitSetup},
	} {
		if code, _, _ := run(t.Context(), fine, tc.err); code != tc.want {
			t.Errorf("%s: exit code %d, want %d", name, code, tc.want)
		}
	}
	// An unknown command, no NAME, no --must, a number that is none, and an unknown flag.
	for _, args := range [][]string{{"fly"}, {"do"}, {"do", "x"}, {"do", "x", "--must", "y", "--n", "z"},
		{"do", "x", "--what"}} {
		if code, _, e := run(t.Context(), args, nil); code != sweep.ExitUsage || !strings.HasPrefix(e, "prog: ") {
			t.Errorf("run with %q: exit code %d, error output %q; want the code for wrong usage, and the program named",
				args, code, e)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, e := run(ctx, fine, ctx.Err()); code != sweep.ExitInterrupt || e != "prog: interrupted\n" {
		t.Errorf("interrupted: exit code %d, error output %q; want %d and %q", code, e, sweep.ExitInterrupt,
			"prog: interrupted\n")
	}
	if code, out, _ := run(t.Context(), []string{"--version"}, nil); code != 0 || !strings.Contains(out, "v1") {
		t.Errorf("--version: exit code %d, output %q; want 0 and v1", code, out)
	}
}

// TestErrorsForACollector: with COPPICE_LOG=json the error that ends a program is printed as a line of the log, in
// JSON, for a program that collects logs. Args names nothing that exists, but this program takes any arguments.
func TestErrorsForACollector(t *testing.T) {
	var e bytes.Buffer
	w := program.World{Args: []string{"fly"}, Err: program.To(&e), Version: "v1",
		Env: envconfig.MapLookuper(map[string]string{"COPPICE_LOG": "json"})}
	if code := program.Execute(t.Context(), w, &cobra.Command{Use: "prog", Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error { return errors.New("no wings") }}); code != sweep.ExitError {
		t.Errorf("a command that fails ended with %d, want %d", code, sweep.ExitError)
	}
	if line := lines(t, &e)[0]; line["severity"] != "ERROR" || line["message"] != "no wings" ||
		line["exit_code"] != 1.0 {
		t.Errorf(`the log line is %v; want severity ERROR, message "no wings", exit code 1`, line)
	}
}

// TestEnvironmentNamesWhatIsMissing: an environment that lacks variables is a *cloud.SetupError that names them and
// gives the hint. COPPICE_PROJECT is needed unless the engine is Slurm and all buckets are folders. An empty variable
// is as good as none. Each case changes a complete environment; its name is what the error says, and nothing but spaces
// if there is no error.
func TestEnvironmentNamesWhatIsMissing(t *testing.T) {
	folder := t.TempDir()
	full := map[string]string{"COPPICE_PROJECT": "p", "COPPICE_DATASETS_BUCKET": "d", "COPPICE_SWEEPS_BUCKET": "s",
		"COPPICE_REGISTRY_BUCKET": "r"}
	for name, drop := range map[string]func(map[string]string){
		"":                func(map[string]string) {},
		"COPPICE_PROJECT": func(m map[string]string) { delete(m, "COPPICE_PROJECT") },
		"value: COPPICE_DATASETS_BUCKET, COPPICE_PROJECT, COPPICE_REGISTRY_BUCKET, COPPICE_SWEEPS_BUCKET": func(
			m map[string]string) {
			clear(m)
		},
		"COPPICE_REGISTRY_BUCKET": func(m map[string]string) { m["COPPICE_REGISTRY_BUCKET"] = "" },
		"SWEEPS_BUCKET":           func(m map[string]string) { delete(m, "COPPICE_SWEEPS_BUCKET") },
		"value: COPPICE_PROJECT": func(m map[string]string) {
			maps.Copy(m, map[string]string{"COPPICE_PROJECT": "", "COPPICE_ENGINE": "slurm",
				"COPPICE_DATASETS_BUCKET": folder})
		},
		" ": func(m map[string]string) {
			maps.Copy(m, map[string]string{"COPPICE_ENGINE": "slurm", "COPPICE_DATASETS_BUCKET": folder,
				"COPPICE_SWEEPS_BUCKET":   folder,
				"COPPICE_REGISTRY_BUCKET": folder})
			delete(m, "COPPICE_PROJECT")
		},
	} {
		env := maps.Clone(full)
		drop(env)
		name = strings.TrimSpace(name) // a map can have one key "", so a second case without an error is called " "
		w := program.World{Env: envconfig.MapLookuper(env)}
		var d environment.Deployment
		err := w.Environment(t.Context(), &d, "run it inside `localemu exec`")
		var s *cloud.SetupError
		if name == "" && err != nil || name != "" && (!errors.As(err, &s) || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "localemu")) {
			t.Errorf("without %q: got error %v; want a *cloud.SetupError that names it, and none where nothing is "+
				"missing", name, err)
		}
	}
}

// TestKindsHaveExitCodes pins exit codes, which are an interface: of each kind of error by itself, wrapped, and joined
// to an error without a kind. What kind an error has is for the tests of the package that makes it.
func TestKindsHaveExitCodes(t *testing.T) {
	cause := errors.New("the cause")
	for kind, want := range map[problem.Kind]int{
		problem.Other:       sweep.ExitError,
		problem.Environment: sweep.ExitSetup,
		problem.Usage:       sweep.ExitUsage,
		problem.Damaged:     sweep.ExitInput,
		problem.Input:       sweep.ExitInput,
		problem.Conflict:    sweep.ExitConflict,
		problem.NotFound:    sweep.ExitNotFound,
		problem.Transient:   sweep.ExitTransient,
	} {
		made := problem.New(kind, "made")
		for how, err := range map[string]error{
			"itself":  made,
			"wrapped": fmt.Errorf("a: %w", made),
			"joined":  errors.Join(cause, made),
		} {
			must.Equal(t, program.ExitCode(context.Background(), err), want, "kind %v, %s: exit code", kind, how)
		}
	}

	input := problem.New(problem.Input, "a spec")
	for err, want := range map[error]int{
		cause:          sweep.ExitError,
		fs.ErrNotExist: sweep.ExitNotFound,
		problem.Wrap(problem.Environment, fs.ErrNotExist, "x"): sweep.ExitSetup,
		problem.Wrap(problem.Damaged, fs.ErrNotExist, "x"):     sweep.ExitInput,
		// Of joined errors, the kind that comes first in package problem counts.
		errors.Join(problem.New(problem.NotFound, "x"), input):              sweep.ExitInput,
		errors.Join(input, program.Usagef("--n"), errors.New("and others")): sweep.ExitUsage,
	} {
		must.Equal(t, program.ExitCode(context.Background(), err), want, "%v: exit code", err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for err, want := range map[error]int{cause: sweep.ExitInterrupt, input: sweep.ExitInput} {
		must.Equal(t, program.ExitCode(ctx, err), want, "%v, interrupted: exit code", err)
	}
}

// TestHelpFitsTheTerminal: the paragraphs and flags of a help text are folded to the width of the terminal, but to 80
// columns if it does not tell its width, and to 100 if it is wider. A paragraph with an indented line, such as a part
// of a file, stays as it is.
func TestHelpFitsTheTerminal(t *testing.T) {
	verbatim := "seed: 7\nlist:\n  key: " + strings.Repeat("x", 100) + "\nmore: 1\n"
	long := strings.Repeat("Many words of a help text, ", 12) + "\nand the end.\n\n" + verbatim
	for width, most := range map[int]int{0: 80, 75: 75, 120: 100, 300: 100} {
		var out bytes.Buffer
		root := &cobra.Command{Use: "tool", Long: long, RunE: func(*cobra.Command, []string) error { return nil }}
		root.Flags().String("name", "", strings.Repeat("words of a flag ", 20))
		w := program.World{Args: []string{"--help"}, Out: program.To(&out), Err: program.To(&out), Width: width}
		if code := program.Execute(t.Context(), w, root); code != 0 {
			t.Fatalf("tool --help on a terminal of %d columns: exit code %d, want 0", width, code)
		}
		longest := 0
		for line := range strings.SplitSeq(out.String(), "\n") {
			if !strings.HasPrefix(line, "  key:") {
				longest = max(longest, len(line))
			}
		}
		if longest > most || longest < most-15 { // a line may end before a long word
			t.Errorf("on a terminal of %d columns the longest line has %d characters, want at most %d and at least "+
				"15 less:\n%s", width, longest, most, out.String())
		}
		if !strings.Contains(out.String(), "\n"+verbatim) {
			t.Errorf("on a terminal of %d columns a part of a file is folded, want it as it is:\n%s", width,
				out.String())
		}
	}
}

// lines decodes what was logged: one JSON object a line.
func lines(t *testing.T, b *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("the log line %q is not a JSON object: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

// TestLoggerSpeaksCloudLogging: a line has the fields that Cloud Logging gives a meaning to: severity, place, trace and
// labels.
func TestLoggerSpeaksCloudLogging(t *testing.T) {
	var b bytes.Buffer
	log := program.Logger(&b, program.LogOrigin{Program: "task", Version: "v1", Project: "p"})
	log.With("sweep", sweep.ID("s-1")).Warn("careful", "trial", 3)
	line := lines(t, &b)[0]
	source, ok := line["logging.googleapis.com/sourceLocation"].(map[string]any)
	if !ok || !strings.HasSuffix(source["file"].(string), "program/program_test.go") ||
		!strings.HasSuffix(source["function"].(string), "TestLoggerSpeaksCloudLogging") {
		t.Errorf("the source is %v, want this test's file and name", source)
	}
	if _, ok := source["line"].(string); !ok {
		t.Errorf("the source's line is %v, want a string, as Cloud Logging's JSON writes 64-bit integers",
			source["line"])
	}
	if time, ok := line["time"].(string); !ok || !strings.Contains(time, "T") {
		t.Errorf("the time is %v, want a timestamp", line["time"])
	}
	delete(line, "time")
	delete(line, "logging.googleapis.com/sourceLocation")
	want := map[string]any{
		"severity": "WARNING", "message": "careful", "sweep": "s-1", "trial": 3.0,
		"logging.googleapis.com/trace":  "projects/p/traces/" + sweep.ID("s-1").Trace(),
		"logging.googleapis.com/spanId": sweep.ID("s-1").Span("trial", "3"),
		"logging.googleapis.com/labels": map[string]any{"coppice_program": "task", "coppice_version": "v1",
			"coppice_sweep": "s-1"},
	}
	if d := cmp.Diff(want, line); d != "" {
		t.Errorf("the log line differs from what Cloud Logging expects (-want +got):\n%s", d)
	}
}

// TestLoggerOutsideOfASweep: only a line about a valid sweep has a trace.
func TestLoggerOutsideOfASweep(t *testing.T) {
	var b bytes.Buffer
	log := program.Logger(&b, program.LogOrigin{Program: "aggregator", Version: "v1"})
	log.Error("none")
	log.Info("no id", "sweep", "../x")
	log.Info("no project", "sweep", "s-1")
	log.WithGroup("g").With("sweep", "s-1").Info("inside of a group it is something else")
	all := lines(t, &b)
	for _, i := range []int{0, 1, 3} { // no sweep, an id that is none, and a key g.sweep
		if _, ok := all[i]["logging.googleapis.com/trace"]; ok {
			t.Errorf("line %d has a trace: %v; want none, as it is not about a valid sweep", i, all[i])
		}
	}
	if all[0]["severity"] != "ERROR" || all[2]["logging.googleapis.com/trace"] != sweep.ID("s-1").Trace() ||
		all[2]["logging.googleapis.com/spanId"] != sweep.ID("s-1").Span("aggregator") {
		t.Errorf("got %v; want the first line with ERROR, the third with trace and span of the sweep", all)
	}
}

// TestSeverities: levels are Cloud Logging's severities, rounded down; what is below INFO is not written.
func TestSeverities(t *testing.T) {
	var b bytes.Buffer
	log := program.Logger(&b, program.LogOrigin{})
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelInfo + 1, slog.LevelWarn, slog.LevelError,
		slog.LevelError + 4} {
		log.Log(t.Context(), l, "x")
	}
	var got []string
	for _, line := range lines(t, &b) {
		got = append(got, line["severity"].(string))
	}
	// DEBUG is not written, one above INFO is rounded down to it, and four above ERROR to ERROR, the highest that is
	// used.
	if d := cmp.Diff([]string{"INFO", "INFO", "WARNING", "ERROR", "ERROR"}, got); d != "" {
		t.Errorf("the severities differ (-want +got):\n%s", d)
	}
}

// TestHandler: the handler does what package slog asks of handlers. slogtest.TestHandler is that package's own test; it
// looks for the keys level and msg, so the test first renames Cloud Logging's keys and drops those that slog does not
// know.
func TestHandler(t *testing.T) {
	var b bytes.Buffer
	err := slogtest.TestHandler(program.Logger(&b, program.LogOrigin{}).Handler(), func() []map[string]any {
		all := lines(t, &b)
		for _, line := range all {
			for ours, theirs := range map[string]string{"severity": slog.LevelKey, "message": slog.MessageKey} {
				line[theirs] = line[ours]
				delete(line, ours)
			}
			delete(line, "logging.googleapis.com/labels")
			delete(line, "logging.googleapis.com/sourceLocation")
		}
		return all
	})
	if err != nil {
		t.Errorf("slog's test of handlers: got %v, want no error", err)
	}
}

// TestPathsOfOutputs: output may go to a file that is replaced, to a folder that is filled, or to a name that does not
// exist yet. The folder of a new file has to exist, that of a new folder need not. Devices, pipes and links in a loop
// are refused.
func TestPathsOfOutputs(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), nil, 0o600), os.Mkdir(at("folder"), 0o700), syscall.Mkfifo(at("pipe"), 0o600),
		os.Symlink(at("loop"), at("loop")), os.Symlink(at("file"), at("link")),
	} {
		must.Do(t, err)
	}

	for path, says := range map[string][2]string{ // what is said of it as a file, and as a folder
		at("file"): {"", "is a file; give a folder"}, at("link"): {"", "is a file; give a folder"},
		at("folder"): {"is a folder; give the file's name, too", ""},
		at("pipe"):   {"is a pipe; give the name of a file", "is a pipe; give a folder"},
		"/dev/null":  {"is a device; give the name of a file", "is a device; give a folder"},
		at("loop"):   {"too many levels of symbolic links", "too many levels of symbolic links"}, at("new"): {"", ""},
		at("no/new"):   {"no does not exist", ""},
		at("file/new"): {"not a directory", "not a directory"}, "a\x00b": {"invalid argument", "invalid argument"},
	} {
		for i, check := range []func(string, string) error{program.CheckOutFile, program.CheckOutFolder} {
			err := check("--out", path)
			if says[i] == "" && err != nil || says[i] != "" &&
				(err == nil || !strings.Contains(err.Error(), "--out "+path) ||
					!strings.Contains(err.Error(), says[i])) {
				t.Errorf("%q as a %s: got error %v, expected one with %q, or none if that is empty", path,
					[]string{"file", "folder"}[i], err, says[i])
			}
		}
	}
}

// TestUsageNamesWhatToType: the message about a wrong command line says what to type: arguments that are missing by
// their names in the Use line, what a flag's value has to be, and for a mistyped command or flag the nearest one that
// there is, or all that are not hidden if none is near. For --folder that is --out, as package strictyaml knows words
// that mean the same.
func TestUsageNamesWhatToType(t *testing.T) {
	for line, want := range map[string]string{
		"sweep":           "prog: give SWEEP.yaml: prog sweep SWEEP.yaml\n",
		"sweep --dry-run": "prog: give SWEEP.yaml: prog sweep SWEEP.yaml\n",
		"sweep a b":       "prog: expected 1 argument, got 2: prog sweep SWEEP.yaml\n",
		"registry move a": "prog: give TO: prog registry move FROM TO\n",
		"registry move":   "prog: give FROM TO: prog registry move FROM TO\n",
		"registry mark": "prog: give MODEL@VERSION [NAME=VALUE ...]: prog registry mark MODEL@VERSION " +
			"[NAME=VALUE ...]\n",
		"registry join":     "prog: give FILE...: prog registry join FILE...\n",
		"registry list a b": "prog: expected at most 1 argument, got 2: prog registry list [MODEL]\n",
		"predict x":         "prog: unexpected argument \"x\": prog predict takes flags only\n",
		"registry lst":      "prog: unknown command \"lst\" for \"prog registry\" (did you mean \"list\"?)\n",
		"registry bogus": "prog: unknown command \"bogus\" for \"prog registry\" (known: join, list, mark, " +
			"move)\n",
		"swep --help":              "prog: unknown command \"swep\" for \"prog\" (did you mean \"sweep\"?)\n",
		"swep a":                   "prog: unknown command \"swep\" for \"prog\" (did you mean \"sweep\"?)\n",
		"sweep a --dryrun":         "prog: unknown flag: --dryrun (did you mean \"--dry-run\"?)\n",
		"sweep a --prise=2":        "prog: unknown flag: --prise (did you mean \"--price\"?)\n",
		"sweep a --qqqqqqqq":       "prog: unknown flag: --qqqqqqqq (known: --dry-run, --help, --price)\n",
		"predict --target y":       "prog: unknown flag: --target (known: --help, --in, --out)\n",
		"predict --folder y":       "prog: unknown flag: --folder (did you mean \"--out\"?)\n",
		"sweep a -x":               "prog: unknown shorthand flag: 'x' in -x\n",
		"registry move x y 1":      "prog: expected 2 arguments, got 3: prog registry move FROM TO\n",
		"sweep a --price x":        "prog: --price \"x\": expected a whole number\n",
		"sweep a --dry-run=maybe":  "prog: --dry-run \"maybe\": expected true or false\n",
		"sweep a --price":          "prog: flag needs an argument: --price\n",
		"predict":                  "prog: give --in and --out: prog predict --in FILE --out FILE\n",
		"predict --in x":           "prog: give --out: prog predict --in FILE --out FILE\n",
		"registry move a b --quit": "prog: unknown flag: --quit (did you mean \"--quiet\"?)\n",
	} {
		root := &cobra.Command{Use: "prog"}
		done := func(*cobra.Command, []string) error { return nil }
		swp := &cobra.Command{Use: "sweep SWEEP.yaml", RunE: done}
		swp.Flags().Bool("dry-run", false, "")
		swp.Flags().Int("price", 0, "")
		swp.Flags().Bool("hidden", false, "")
		_ = swp.Flags().MarkHidden("hidden")
		group := program.Group(&cobra.Command{Use: "registry"})
		group.PersistentFlags().Bool("quiet", false, "")
		group.AddCommand(&cobra.Command{Use: "move FROM TO", RunE: done},
			&cobra.Command{Use: "join FILE...", RunE: done}, &cobra.Command{Use: "list [MODEL]", RunE: done},
			&cobra.Command{Use: "mark MODEL@VERSION [NAME=VALUE ...]", RunE: done})
		predict := &cobra.Command{Use: "predict --in FILE --out FILE", RunE: done}
		for _, name := range []string{"in", "out"} {
			predict.Flags().String(name, "", "")
			_ = predict.MarkFlagRequired(name)
		}
		root.AddCommand(swp, group, predict)
		var errOut bytes.Buffer
		code := program.Execute(t.Context(), program.World{Args: strings.Fields(line), Out: program.To(&errOut),
			Err: program.To(&errOut)}, root)
		if code != sweep.ExitUsage || errOut.String() != want {
			t.Errorf("%s: exit code %d, want %d\n got %q\nwant %q", line, code, sweep.ExitUsage, errOut.String(), want)
		}
	}
}

// TestVersion: `launcher version --json` prints for a script which build it is: a JSON object with the version, the
// program, and the Go release and platform that it was built with.
func TestVersion(t *testing.T) {
	var out bytes.Buffer
	code := program.Execute(t.Context(), program.World{Args: []string{"version", "--json"}, Out: program.To(&out),
		Err: program.To(&out), Version: "1.2.3"}, &cobra.Command{Use: "launcher"})
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || code != 0 || got["version"] != "1.2.3" ||
		got["program"] != "launcher" || got["go"] == "" || got["platform"] == "" {
		t.Errorf("version --json ended with %d and says %s; want version 1.2.3 of launcher", code, out.String())
	}
}

// TestWrap: Wrap breaks lines between words, within a word only if it is longer than a line, and never where no
// terminal tells a width. WrapCode breaks a command so that it can still be copied into a shell: it ends a line with a
// backslash and indents the next. Neither breaks what is quoted.
func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"short":                                "short",
		"a line of training rows":              "a line of\ntraining rows",
		"on   one two three four":              "on   one two\n     three four",
		"two lines\nof which one is too long":  "two lines\nof which one is\ntoo long",
		"it is about 123456 %, of all":         "it is about\n123456 %, of all",
		"give launcher plan FILE":              "give\nlauncher plan\nFILE",
		"see (`launcher a b`) for it":          "see\n(`launcher a b`)\nfor it",
		"abcdefghijklmnopqrstuvwxyz and after": "abcdefghijklmnop\nqrstuvwxyz and\nafter",
		"an abcdefghijklmnopqrstuvwxyz":        "an\nabcdefghijklmnop\nqrstuvwxyz",
	} {
		if got := program.Wrap(text, 16); got != want {
			t.Errorf("%q at 16 columns is\n%s\nexpected\n%s", text, got, want)
		}
		must.Equal(t, program.Wrap(text, 0), text, "%q where there is no terminal", text)
	}
	command := `launcher registry promote ctr@3 --why "checked by hand"`
	want := "launcher registry promote \\\n    ctr@3 --why \\\n    \"checked by hand\""
	if got := program.WrapCode(command, 28, ` \`); got != want {
		t.Errorf("the command at 28 columns is\n%s\nexpected\n%s", got, want)
	}
	folder := `COPPICE_LOCAL='/home/Ann'\''s own folder' launcher registry show ctr@3`
	want = `COPPICE_LOCAL='/home/Ann'\''s own folder'` + " \\\n    launcher registry \\\n    show ctr@3"
	if got := program.WrapCode(folder, 24, ` \`); got != want {
		t.Errorf("a folder wider than a line is\n%s\nexpected\n%s", got, want)
	}
	want = "drop:\n    [a_column_with_a_long_name,\n    b]"
	if got := program.WrapCode("drop: [a_column_with_a_long_name, b]", 16, ""); got != want {
		t.Errorf("a list with a name wider than a line is\n%s\nexpected it broken between names only:\n%s", got, want)
	}
}

// TestShellQuote: ShellQuote makes a text a single word of a shell, and leaves plain words as they are.
func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{"": "''", "127.0.0.1:9": "127.0.0.1:9", "a b": "'a b'", "it's": `'it'\''s'`,
		"$x": "'$x'"} {
		must.Equal(t, program.ShellQuote(in), want, "%q is quoted as", in)
	}
}
