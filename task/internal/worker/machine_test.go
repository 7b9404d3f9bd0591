package worker

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"coppice/internal/must"
)

// TestTasksOfAMachineAgreeOnItsName: all tasks use the name that the first wrote, even if all start at once; another
// machine's tasks use another.
func TestTasksOfAMachineAgreeOnItsName(t *testing.T) {
	scratch := filepath.Join(t.TempDir(), "not-there-yet")
	names := make([]string, 8)
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() { names[i] = MachineName(scratch, "container-"+string(rune('a'+i)), string(rune('a'+i))) })
	}
	all.Wait()
	for i, name := range names {
		if name != names[0] || len(name) != len("container-a") {
			t.Errorf("task %d calls the machine %q, task 0 calls it %q; expected one of the tasks' host names for all",
				i, name, names[0])
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 1 {
		t.Errorf("in the folder there are %v, %v; expected the machine's name alone", left, err)
	}
	if name := MachineName(t.TempDir(), "elsewhere", "n"); name != "elsewhere" {
		t.Errorf("the other machine is called %q, expected its own host name", name)
	}
}

// TestMachineWithoutAName: if nothing can be read or written, a task uses its own host name.
func TestMachineWithoutAName(t *testing.T) {
	for what, create := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"nothing":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"two lines": func(path string) error {
			return os.WriteFile(path, []byte("vm\nvm\n"), 0o600)
		},
	} {
		scratch := t.TempDir()
		must.Do(t, create(filepath.Join(scratch, machineFile)))
		if name := MachineName(scratch, "own", "n"); name != "own" {
			t.Errorf("with %s in the name's place the machine is called %q, expected the task's host name", what, name)
		}
	}
	if name := MachineName("/dev/null/x", "own", "n"); name != "own" {
		t.Errorf("without a folder the machine is called %q, expected the task's host name", name)
	}
}
