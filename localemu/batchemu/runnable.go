//go:build unix

package batchemu

import (
	"slices"
	"strings"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// readRunnable takes over what a task executes.
func (p *plan) readRunnable(image func(string) (string, bool), spec *batchpb.TaskSpec) error {
	if len(spec.GetRunnables()) == 0 {
		return invalid("runnables is empty")
	}
	r := spec.Runnables[0]
	c := r.GetContainer()
	switch {
	case len(spec.Runnables) > 1 || c == nil || r.GetBackground() || r.GetAlwaysRun() || r.GetIgnoreExitStatus() || r.GetTimeout() != nil:
		return unimitated("runnables other than one plain container")
	case c.GetEntrypoint() != "" || c.GetOptions() != "" || len(c.GetVolumes()) > 0 || c.GetUsername() != "" || c.GetBlockExternalNetwork():
		return unimitated("a container's entrypoint, options, volumes, user name or network block")
	case c.GetImageUri() == "":
		return invalid("image_uri is empty")
	}
	for _, e := range []*batchpb.Environment{spec.GetEnvironment(), r.GetEnvironment()} {
		if len(e.GetSecretVariables()) > 0 || e.GetEncryptedVariables() != nil {
			return unimitated("secret and encrypted variables")
		}
		for name, value := range e.GetVariables() {
			if !variablePattern.MatchString(name) || strings.ContainsRune(value, 0) {
				return invalid("environment variable %.80q: use letters, digits and '_', and no zero byte in the value", name)
			}
		}
	}
	if slices.ContainsFunc(c.GetCommands(), func(arg string) bool { return strings.ContainsRune(arg, 0) }) {
		return invalid("a command holds a zero byte")
	}
	program, ok := image(c.GetImageUri())
	if !ok {
		return status.Errorf(codes.FailedPrecondition,
			"localemu has no program for the image %.200q; start it with --image NAME=PATH", c.GetImageUri())
	}
	p.program, p.args = program, c.GetCommands()
	p.env = environment(spec.GetEnvironment(), r.GetEnvironment())
	return nil
}
