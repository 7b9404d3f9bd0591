package team

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob/folder"
	"coppice/internal/gbt"
	"coppice/internal/must"
)

// Environment of a test program that is a worker of another one's training, and of the other one: how to start this
// program on another processor (qemu-aarch64 FILE).
const (
	joinVariable  = "COPPICE_TEST_JOIN" // the folder
	idVariable    = "COPPICE_TEST_ID"   // the worker's
	otherVariable = "COPPICE_TEST_OTHER"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(joinVariable); dir != "" {
		if err := joinTraining(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// folderBoard is where processes meet in a folder.
func folderBoard(dir string) Board {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	return Bucket(folder.Bucket(dir), "")
}

func joinTraining(dir string) error {
	w, err := New(Options{Board: folderBoard(dir), Training: "a", ID: os.Getenv(idVariable), Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = w.Train(context.Background(), table(5000, 9, 7), params(20), gbt.Options{Threads: 1})
	return err
}

// TestProcessesOfTwoProcessors: another process, on another kind of processor if the environment says how to start one,
// trains its part, and the model is that of one worker.
func TestProcessesOfTwoProcessors(t *testing.T) {
	command := []string{os.Args[0]}
	if other := os.Getenv(otherVariable); other != "" {
		command = strings.Fields(other)
	}
	d := table(5000, 9, 7)
	alone := must.Get(gbt.Train(t.Context(), d, params(20), gbt.Options{Threads: 1}))(t)

	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), joinVariable+"="+dir, idVariable+"=001")
	cmd.Stderr = os.Stderr
	must.Do(t, cmd.Start())
	w, err := New(Options{Board: folderBoard(dir), Training: "a", ID: "000", Leads: true, Listen: "127.0.0.1:0",
		Workers: 2, Silence: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	res := must.Get(w.Train(t.Context(), d, params(20), gbt.Options{Threads: 2}))(t)
	if got, want := text(t, res), text(t, alone); got != want || w.Epochs() != 1 {
		t.Errorf("with a process of %v: another model than alone (%t), %d teams; want the same and one", command,
			got != want, w.Epochs())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
}
