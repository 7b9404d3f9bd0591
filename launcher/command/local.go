package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"coppice/internal/cloud"
	"coppice/internal/program"
	"coppice/internal/strictyaml"
)

// localemu is the name of the program that is the cloud on one machine.
const localemu = "localemu"

// runInLocalCloud runs the command line args again in the local cloud on a folder. If `localemu up` keeps one there, it
// is that; else `localemu exec` starts one that ends with the command, and waits while another command has one. This
// process becomes the new one, so that signals and the exit code are the command's: it returns only if that fails. own
// says that this program contains localemu; called is how it was called, for its messages.
func runInLocalCloud(folder string, args []string, own bool, called string) error {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self) // the other programs are beside the file, not beside its link
	}
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return fmt.Errorf("the local cloud's folder: %w", err)
	}

	// In the cloud of `localemu up`.
	env := append(withoutCloud(os.Environ()), "COPPICE_LOCAL="+folder, calledEnv+"="+called)
	if up := settings(folder); up != nil {
		return program.Become(self, append([]string{self}, args...), append(env, up...))
	}

	// In one of its own: by this program, the localemu beside it, or that of the search path.
	within := []string{"exec", "--wait", "--data", folder, "--", self}
	if own {
		return program.Become(self, slices.Concat([]string{localemu}, within, args), env)
	}
	emulator := filepath.Join(filepath.Dir(self), localemu)
	if runtime.GOOS == "windows" {
		emulator += ".exe"
	}
	if _, err := os.Stat(emulator); err != nil {
		if emulator, err = exec.LookPath(localemu); err != nil {
			return &cloud.SetupError{What: "there is no cloud in the environment, and no localemu beside " + self,
				Hint: "install it there: it is the cloud on one machine"}
		}
	}
	return program.Become(emulator, slices.Concat([]string{emulator}, within, args), env)
}

// withoutCloud returns the environment without variables that name another cloud, such as production's webhook and
// images.
func withoutCloud(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "COPPICE_") || strings.HasSuffix(name, "_EMULATOR_HOST")
	})
}

// settings returns the environment variables of the local cloud that `localemu up` keeps on a folder; nil if none runs.
// It runs if the folder's lock is held. The cloud of a single command also holds the lock, but writes no settings,
// since it ends with its command.
func settings(folder string) []string {
	lock := flock.New(filepath.Join(folder, "lock"), flock.SetFlag(os.O_RDWR))
	free, err := lock.TryLock()
	if err != nil || free {
		_ = lock.Unlock() // nothing else was locked
		return nil
	}
	text, err := strictyaml.ReadFile(filepath.Join(folder, "env"))
	if err != nil {
		return nil
	}
	var env []string
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok {
			env = append(env, name+"="+unquote(value))
		}
	}
	return env
}

// unquote returns a value without the single quotes that localemu writes around it for a shell.
func unquote(text string) string {
	if len(text) < 2 || text[0] != '\'' {
		return text
	}
	return strings.ReplaceAll(text[1:len(text)-1], `'\''`, "'")
}
