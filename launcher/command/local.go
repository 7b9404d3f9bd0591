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

// runInLocalCloud continues with a command line in the local cloud on a folder: in the one that `localemu up` keeps
// there, or else in one of its own, which ends with the command and waits for another command's. It becomes that
// process, so that signals and exit code are the command's. own says that this program is the local cloud as well, by
// the name of localemu; called is how it was called.
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
	env := append(withoutCloud(os.Environ()), "COPPICE_LOCAL="+folder, calledEnv+"="+called)
	if up := settings(folder); up != nil {
		return program.Become(self, append([]string{self}, args...), append(env, up...))
	}

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

// withoutCloud leaves out what names another cloud, such as production's webhook and images.
func withoutCloud(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "COPPICE_") || strings.HasSuffix(name, "_EMULATOR_HOST")
	})
}

// settings are those of the local cloud that `localemu up` keeps on a folder; nil if there is none. That of a command
// writes none: it would end under the feet of whoever used it.
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

// unquote undoes the quotes that localemu writes for a shell.
func unquote(text string) string {
	if len(text) < 2 || text[0] != '\'' {
		return text
	}
	return strings.ReplaceAll(text[1:len(text)-1], `'\''`, "'")
}
