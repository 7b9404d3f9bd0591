package batchemu

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"coppice/localemu/internal/proc"
)

// ContainerTools are the programs that can run images (Options.Containers).
func ContainerTools() []string { return []string{"buildah", "podman", "docker"} }

// container.sh is run by sh in a mount namespace of its own.
//
//go:embed container.sh
var buildahScript string

// removeLimit is how long a tool may take to remove a container.
const removeLimit = time.Minute

// image returns what a job's image name stands for here: a local program, or with Options.Containers the tool's name of
// an image. It is false if no program is known for the image.
func (s *Server) image(name string) (string, bool) {
	found, ok := s.opts.Images[name]
	if !ok && s.opts.Containers != "" {
		return name, true // as in the cloud: running it will show whether it exists
	}
	return found, ok
}

// container returns the name of the attempt's container. It has localemu's process id in it, so that two local clouds
// on one machine can have jobs of the same id.
func (a *attempt) container() string {
	return fmt.Sprintf("localemu-%d-%s-%d-%d", os.Getpid(), a.job.id, a.task.index, a.number)
}

// contained returns the command that runs the attempt in a container of its image, with a read-only root, the network
// of this machine and the image's own user. Its environment is the addresses of the emulators, the job's variables and
// Batch's own. podman and docker do that by themselves; buildah cannot, so container.sh runs its image (see there).
func (a *attempt) contained() proc.Command {
	o, p := &a.job.srv.opts, a.job.plan

	var volumes []string
	for _, m := range a.vm.mounts {
		volumes = append(volumes, m.folder+":"+m.path)
	}
	env := slices.Concat(o.TaskEnv, p.env, a.indexes())

	var args []string
	program := o.Containers
	if program == "buildah" {
		program = "unshare"
		args = slices.Concat([]string{"--mount", "sh", "-c", buildahScript, "sh", a.container(), p.program}, volumes,
			[]string{"--"}, env, []string{"--"}, p.args)
	} else {
		args = []string{"run", "--rm", "--name", a.container(), "--pull=never", "--network=host", "--read-only"}
		for _, v := range volumes {
			args = append(args, "--volume", v)
		}
		for _, v := range env {
			args = append(args, "--env", v)
		}
		args = slices.Concat(args, []string{p.program}, p.args)
	}

	return proc.Command{Path: lookUp(program), Args: args, Env: o.Environ, Dir: a.vm.dir}
}

// lookUp returns the program's path; a name that cannot be found is returned unchanged, and starting it will fail with
// the reason.
func lookUp(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	return program
}

// removeContainer makes the tool stop and remove the attempt's container. The tool's process that ran it may have been
// killed, which leaves the container behind. Without a container tool it does nothing.
func (a *attempt) removeContainer() {
	o := &a.job.srv.opts
	if o.Containers == "" {
		return
	}

	args := []string{"rm", "--force", a.container()}
	if o.Containers == "buildah" {
		args = []string{"rm", a.container()}
	}

	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, lookUp(o.Containers), args...)
	cmd.Env = o.Environ
	out, err := cmd.CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil && !gone(text) {
		o.Log.Error("remove a container", "container", a.container(), "error", err, "output", text)
	}
}

// gone reports whether a tool's message says that a container does not exist: it was never created, or --rm has removed
// it already.
func gone(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "no such container") || strings.Contains(text, "not known") ||
		strings.Contains(text, "no container with name")
}
