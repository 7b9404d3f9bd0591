package program_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"syscall"
	"testing"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"

	"coppice/internal/cloud"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/registry"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

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
			t.Errorf("%s: %d, want %d", name, code, tc.want)
		}
	}
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
		t.Errorf("interrupted: %d, %q", code, e)
	}
	if code, out, _ := run(t.Context(), []string{"--version"}, nil); code != 0 || !strings.Contains(out, "v1") {
		t.Errorf("version: %d %q", code, out)
	}
}

// TestErrorsForACollector: what ends a program under COPPICE_LOG=json is a log line, too.
func TestErrorsForACollector(t *testing.T) {
	var e bytes.Buffer
	w := program.World{Args: []string{"fly"}, Err: program.To(&e), Version: "v1",
		Env: envconfig.MapLookuper(map[string]string{"COPPICE_LOG": "json"})}
	if code := program.Execute(t.Context(), w, &cobra.Command{Use: "prog", Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error { return errors.New("no wings") }}); code != sweep.ExitError {
		t.Errorf("code %d", code)
	}
	if line := lines(t, &e)[0]; line["severity"] != "ERROR" || line["message"] != "no wings" ||
		line["exit_code"] != 1.0 {
		t.Errorf(`the log line is %v; want severity ERROR, message "no wings", exit code 1`, line)
	}
}

// TestEnvironmentNamesWhatIsMissing: where all buckets are folders, no project is.
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
		name = strings.TrimSpace(name)
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
