package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/task/internal/keep"
)

// stopAt is an output that interrupts the program when it has printed a given text.
type stopAt struct {
	bytes.Buffer
	text string
	stop func()
}

func (s *stopAt) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if strings.Contains(s.String(), s.text) {
		s.stop()
	}
	return n, err
}

// interrupted runs a command and interrupts it when it prints a text, as Ctrl-C would.
func interrupted(t *testing.T, text string, args ...string) (code int, errOut string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var e bytes.Buffer
	code = Run(ctx, Setup{World: program.World{Args: args, Out: program.To(&stopAt{text: text, stop: stop}),
		Err: program.To(&e), Version: "v1"}})
	return code, e.String()
}

func checkpointFiles(t *testing.T, dir string) []string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(dir, keep.FolderPrefix+"*")))(t)
	return files
}

func TestTrainGoesOnFromItsCheckpoint(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 2000})
	p := params(t, "num_iterations: 60\nnum_leaves: 7\nbagging_fraction: 0.5\nbagging_freq: 1\n")
	out := t.TempDir()
	calm, model, saved := filepath.Join(out, "calm.txt"), filepath.Join(out, "model.txt"), filepath.Join(out, "saved")
	if code, _, errOut := run(t, nil, "train", "--dataset", dir, "--params", p, "--out", calm); code != 0 {
		t.Fatalf("trained undisturbed: error output %s; want exit code 0", errOut)
	}
	command := []string{"train", "--dataset", dir, "--params", p, "--out", model, "--checkpoint", saved}

	code, errOut := interrupted(t, "tree    21", command...)
	if code != sweep.ExitInterrupt || !strings.Contains(errOut, saved) ||
		!strings.Contains(errOut, "the same command resumes") || len(checkpointFiles(t, saved)) != 1 {
		t.Fatalf("interrupted after tree 21: exit code %d, error output %s, files %v; want one checkpoint, its "+
			"place, and how to resume", code, errOut, checkpointFiles(t, saved))
	}
	code, errOut = interrupted(t, "tree    42", append(command, "--checkpoint-every", "0")...)
	if code != sweep.ExitInterrupt || len(checkpointFiles(t, saved)) != 2 {
		t.Fatalf("interrupted again: exit code %d, error output %s, files %v; want two checkpoints", code, errOut,
			checkpointFiles(t, saved))
	}
	if _, err := os.Stat(model); !os.IsNotExist(err) {
		t.Fatalf("half a training left a model: %v", err)
	}

	code, _, errOut = run(t, nil, append(command, "--params", params(t, "num_iterations: 60\nnum_leaves: 8\n"))...)
	for _, part := range []string{saved, "num_leaves: 7", "num_leaves: 8", "another folder"} {
		if code != sweep.ExitConflict || !strings.Contains(errOut, part) {
			t.Errorf("other parameters: %d, want %q in %s", code, part, errOut)
		}
	}
	folder := must.Get(keep.OpenFolder(saved))(t)
	if code, _, errOut := run(t, nil, command...); code != sweep.ExitConflict ||
		!strings.Contains(errOut, "another training") {
		t.Errorf("a folder in use: %d %s", code, errOut)
	}
	must.Do(t, folder.Close())

	code, text, errOut := run(t, nil, append(command, "--json", "--threads", "2")...)
	var got trained
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != 0 || got.Resumed < 42 || got.TreesGrown != 60 {
		t.Fatalf("train again: exit code %d, %v, %+v, expected 0, resumed at tree 42 or later, and 60 trees grown\n%s",
			code, err, got, errOut)
	}
	want := must.Get(os.ReadFile(calm))(t)
	if have, err := os.ReadFile(model); err != nil || !bytes.Equal(have, want) {
		t.Errorf("interrupted and gone on, another model: %v", err)
	}
	if files := checkpointFiles(t, saved); len(files) != 0 {
		t.Errorf("the training has ended, and left %v", files)
	}
}

func TestTrainPassesOverDamage(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 1000})
	p := params(t, "num_iterations: 40\nnum_leaves: 4\n")
	saved := t.TempDir()
	command := []string{"train", "--dataset", dir, "--params", p, "--checkpoint", saved}
	if code, errOut := interrupted(t, "tree    20", command...); code != sweep.ExitInterrupt {
		t.Fatalf("interrupted after tree 20: exit code %d, error output %s; want the code for an interruption", code,
			errOut)
	}
	files := checkpointFiles(t, saved)
	if len(files) != 1 {
		t.Fatalf("checkpoints after the interruption: got %v, want one", files)
	}
	must.Do(t, os.Truncate(files[0], 500))
	code, out, errOut := run(t, nil, command...)
	if code != 0 || !strings.Contains(errOut, "damaged") || !strings.Contains(errOut, filepath.Base(files[0])) ||
		strings.Contains(out, "resuming") {
		t.Errorf("resumed with a damaged checkpoint: exit code %d, output %s%s; want 0, the damaged file named, and "+
			"a new beginning", code, out, errOut)
	}
	if code, errOut := interrupted(t, "tree    20", command...); code != sweep.ExitInterrupt {
		t.Fatalf("interrupted after tree 20: exit code %d, error output %s; want the code for an interruption", code,
			errOut)
	}
	if code, out, errOut := run(t, nil, command...); code != 0 ||
		!strings.Contains(out, "resuming from the checkpoint after tree 2") ||
		!strings.Contains(out, "of them before a checkpoint") {
		t.Errorf("resumed: exit code %d, output %s%s; want 0, and which trees come from the checkpoint", code, out,
			errOut)
	}
	for flags, says := range map[string]string{"--checkpoint-every -1s": "--checkpoint-every is -1s", "--checkpoint " +
		p: "not a usable folder"} {
		if code, _, errOut := run(t, nil, append([]string{"train", "--dataset", dir},
			strings.Fields(flags)...)...); code != sweep.ExitUsage || !strings.Contains(errOut, says) {
			t.Errorf("%s: exit code %d, error output %s; want wrong usage with %q", flags, code, errOut, says)
		}
	}
}
