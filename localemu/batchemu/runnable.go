//go:build unix

package batchemu

import (
	"slices"
	"strings"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// script is a runnable that runs on the machine itself, before the container.
type script struct {
	text string
	env  []string // NAME=VALUE, with mount paths as in the job
}

// readRunnables reads what a task executes: scripts, if any, and then one container.
func (p *plan) readRunnables(image func(string) (string, bool), spec *batchpb.TaskSpec) error {
	all := spec.GetRunnables()
	if len(all) == 0 {
		return invalid("runnables is empty")
	}

	for _, r := range all {
		if r.GetBackground() || r.GetAlwaysRun() || r.GetIgnoreExitStatus() || r.GetTimeout() != nil {
			return unimitated("runnables in the background, that always run, whose failure is ignored or that have " +
				"a time limit")
		}
		for _, e := range []*batchpb.Environment{spec.GetEnvironment(), r.GetEnvironment()} {
			if err := checkEnvironment(e); err != nil {
				return err
			}
		}
	}

	last := len(all) - 1
	for _, r := range all[:last] {
		if err := p.readScript(r.GetScript()); err != nil {
			return err
		}
		p.scripts[len(p.scripts)-1].env = environment(spec.GetEnvironment(), r.GetEnvironment())
	}

	p.env = environment(spec.GetEnvironment(), all[last].GetEnvironment())
	return p.readContainer(image, all[last].GetContainer())
}

func checkEnvironment(e *batchpb.Environment) error {
	if len(e.GetSecretVariables()) > 0 || e.GetEncryptedVariables() != nil {
		return unimitated("secret and encrypted variables")
	}
	for name, value := range e.GetVariables() {
		if !variablePattern.MatchString(name) || strings.ContainsRune(value, 0) {
			return invalid("environment variable %.80q: use letters, digits and '_', and no zero byte in the value",
				name)
		}
	}
	return nil
}

func (p *plan) readScript(s *batchpb.Runnable_Script) error {
	text := s.GetText()
	switch {
	case s == nil:
		return unimitated("runnables other than scripts before one plain container")
	case s.GetPath() != "":
		return unimitated("scripts that are files of the machine")
	case text == "":
		return invalid("the text of a script is empty")
	case strings.ContainsRune(text, 0):
		return invalid("the text of a script holds a zero byte")
	case strings.HasPrefix(text, "#!") && !strings.HasPrefix(text, "#!/bin/sh\n"):
		return unimitated("scripts for another interpreter than /bin/sh")
	}

	p.scripts = append(p.scripts, script{text: text})
	return nil
}

func (p *plan) readContainer(image func(string) (string, bool), c *batchpb.Runnable_Container) error {
	switch {
	case c == nil:
		return unimitated("runnables other than scripts before one plain container")
	case c.GetEntrypoint() != "" || c.GetOptions() != "" || len(c.GetVolumes()) > 0 || c.GetUsername() != "" ||
		c.GetBlockExternalNetwork():
		return unimitated("a container's entrypoint, options, volumes, user name or network block")
	case c.GetImageUri() == "":
		return invalid("image_uri is empty")
	case slices.ContainsFunc(c.GetCommands(), func(arg string) bool { return strings.ContainsRune(arg, 0) }):
		return invalid("a command holds a zero byte")
	}

	program, ok := image(c.GetImageUri())
	if !ok {
		return status.Errorf(codes.FailedPrecondition,
			"localemu has no program for the image %.200q; start it with --image NAME=PATH", c.GetImageUri())
	}
	p.program = program
	p.args = c.GetCommands()
	return nil
}
