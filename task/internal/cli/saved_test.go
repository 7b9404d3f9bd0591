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
	files, err := filepath.Glob(filepath.Join(dir, keep.FolderPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTrainGoesOnFromItsCheckpoint(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 2000})
	p := params(t, "num_iterations: 60\nnum_leaves: 7\nbagging_fraction: 0.5\nbagging_freq: 1\n")
	out := t.TempDir()
	calm, model, saved := filepath.Join(out, "calm.txt"), filepath.Join(out, "model.txt"), filepath.Join(out, "saved")
	if code, _, errOut := run(t, nil, "train", "--dataset", dir, "--params", p, "--out", calm); code != 0 {
		t.Fatalf(`run(t, nil, "train", "--dataset", dir, "--params", p, "--out", calm): got %v; want code = 0`, errOut)
	}
	command := []string{"train", "--dataset", dir, "--params", p, "--out", model, "--checkpoint", saved}

	code, errOut := interrupted(t, "tree    21", command...)
	if code != sweep.ExitInterrupt || !strings.Contains(errOut, saved) ||
		!strings.Contains(errOut, "the same command resumes") || len(checkpointFiles(t, saved)) != 1 {
		t.Fatalf(`interrupted(t, "tree 21", command...): got %d %s: %v; want code = sweep.ExitInterrupt, errOut `+
			`with saved, errOut with "the same command resumes", len(checkpointFiles(t, saved)) = 1`, code, errOut,
			checkpointFiles(t, saved))
	}
	code, errOut = interrupted(t, "tree    42", append(command, "--checkpoint-every", "0")...)
	if code != sweep.ExitInterrupt || len(checkpointFiles(t, saved)) != 2 {
		t.Fatalf("interrupted(...): got %d %s: %v; want code = sweep.ExitInterrupt, len(checkpointFiles(t, saved)) = 2",
			code, errOut, checkpointFiles(t, saved))
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
	folder, err := keep.OpenFolder(saved)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := run(t, nil, command...); code != sweep.ExitConflict ||
		!strings.Contains(errOut, "another training") {
		t.Errorf("a folder in use: %d %s", code, errOut)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}

	code, text, errOut := run(t, nil, append(command, "--json", "--threads", "2")...)
	var got trained
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != 0 || got.Resumed < 42 || got.TreesGrown != 60 {
		t.Fatalf("train again: exit code %d, %v, %+v, expected 0, resumed at tree 42 or later, and 60 trees grown\n%s",
			code, err, got, errOut)
	}
	want, err := os.ReadFile(calm)
	if err != nil {
		t.Fatal(err)
	}
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
		t.Fatalf(`interrupted(t, "tree 20", command...): got %v, %v; want code = sweep.ExitInterrupt`, code, errOut)
	}
	files := checkpointFiles(t, saved)
	if len(files) != 1 {
		t.Fatalf("checkpointFiles(t, saved): got %v; want len(files) = 1", files)
	}
	if err := os.Truncate(files[0], 500); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := run(t, nil, command...)
	if code != 0 || !strings.Contains(errOut, "damaged") || !strings.Contains(errOut, filepath.Base(files[0])) ||
		strings.Contains(out, "resuming") {
		t.Errorf("run(t, nil, command...): got %d; want code = 0, errOut with \"damaged\", errOut with "+
			"filepath.Base(files[0]), not out with \"going on\"\n%s\n%s", code, out, errOut)
	}
	if code, errOut := interrupted(t, "tree    20", command...); code != sweep.ExitInterrupt {
		t.Fatalf(`interrupted(t, "tree 20", command...): got %v, %v; want code = sweep.ExitInterrupt`, code, errOut)
	}
	if code, out, errOut := run(t, nil, command...); code != 0 ||
		!strings.Contains(out, "resuming from the checkpoint after tree 2") ||
		!strings.Contains(out, "of them before a checkpoint") {
		t.Errorf("run(t, nil, command...): got %d; want code = 0, out with \"resuming from the checkpoint after "+
			"tree 2\", out with \"of them before a checkpoint\"\n%s\n%s", code, out, errOut)
	}
	for flags, says := range map[string]string{"--checkpoint-every -1s": "--checkpoint-every is -1s", "--checkpoint " +
		p: "not a usable folder"} {
		if code, _, errOut := run(t, nil, append([]string{"train", "--dataset", dir},
			strings.Fields(flags)...)...); code != sweep.ExitUsage || !strings.Contains(errOut, says) {
			t.Errorf("run(...): got %s: %d %s; want code = sweep.ExitUsage, errOut with says", flags, code, errOut)
		}
	}
}
