package terraform

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/must"
)

// ones are files that a user's own deployment of an example has beside its main.tf. With any of them, a copy that is
// made to try something is not the project's: it would deploy their images, change their names, or act on what they
// have in the cloud.
var ones = []string{
	".terraform/environment", ".terraform.lock.hcl", "terraform.tfstate", "terraform.tfstate.backup",
	"terraform.tfstate.d/other/terraform.tfstate", "terraform.tfvars",
	"terraform.tfvars.json", "mine.auto.tfvars", "my_override.tf", "my_override.tf.json", "override.tf",
}

// own puts them beside the minimal example.
func (r *run) own() {
	r.t.Helper()
	for _, name := range ones {
		path := filepath.Join("terraform/examples/minimal", name)
		must.Do(r.t, os.MkdirAll(filepath.Join(r.dir, filepath.Dir(path)), 0o755))
		r.write(path, "somebody's own")
	}
}

// checkNothingOfTheUsers checks that none of them is in a folder or below, and that the example's own files are.
func (r *run) checkNothingOfTheUsers(folder string) {
	r.t.Helper()
	seen := false
	err := filepath.WalkDir(filepath.Join(r.dir, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen = seen || d.Name() == "main.tf"
		if text, err := os.ReadFile(path); err != nil || string(text) == "somebody's own" {
			r.t.Errorf("%s is in the copy (%v)", path, err)
		}
		return nil
	})
	if err != nil || !seen {
		r.t.Errorf("%s was not copied: %v", folder, err)
	}
}

func TestAcceptanceTakesNothingAlong(t *testing.T) {
	t.Parallel()
	r := newRun(t)
	r.own()
	r.do("")
	if r.code != 0 {
		t.Fatalf("exit code %d:\n%s", r.code, r.out)
	}
	r.checkNothingOfTheUsers(work + "terraform")
}

// keeping stands for Terraform and keeps a copy of every folder for which it is called.
const keeping = `#!/bin/sh
set -e
at=.
for a; do case $a in -chdir=*) at=${a#-chdir=} ;; esac; done
echo "terraform $* with ${TF_CLI_CONFIG_FILE:-no stand-in}" >>"$CALLS"
case $1 in version | fmt) exit 0 ;; esac # asked from anywhere
mkdir -p "$KEPT"
cp -R "$at/." "$KEPT"
`

// walking is a run with the stand-in that docs/run.md tells of, which installs itself as said, and a tool that keeps
// what it is given.
func walking(t *testing.T, install string) *run {
	t.Helper()
	r := newRun(t)
	r.own()
	for _, folder := range []string{"standin", "docs"} {
		must.Do(t, os.Mkdir(filepath.Join(r.dir, folder), 0o755))
	}
	for name, text := range map[string]string{
		"stubs/terraform": keeping, "standin/install": "#!/bin/sh\n" + install + "\n",
		"standin/cli":   "#!/bin/sh\necho " + filepath.Join(r.dir, "stubs/terraform") + "\n",
		"stubs/coppice": "#!/bin/sh\necho COPPICE_PROJECT=local-project\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o755))
	}
	for _, name := range []string{"Makefile", "docs/run.md"} {
		text := must.Get(os.ReadFile(filepath.Join("..", name)))(t)
		r.write(name, string(text))
	}
	r.env = append(r.env, "KEPT="+filepath.Join(r.dir, "kept"), "STANDIN="+filepath.Join(r.dir, "standin"))
	return r
}

// shell runs a program in the run's folder as do does the acceptance run.
func (r *run) shell(program string, args ...string) {
	r.t.Helper()
	path := must.Get(exec.LookPath(program))(r.t)
	cmd := exec.CommandContext(r.t.Context(), path, args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		r.t.Fatalf("got %v; want cmd.ProcessState other than nil", err)
	}
	r.out, r.code, r.calls = string(out), cmd.ProcessState.ExitCode(), nil
	if text, err := os.ReadFile(filepath.Join(r.dir, "calls")); err == nil {
		r.calls = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// TestDeployWalk: make deploy-walk, which runs the commands of docs/run.md's "Without a cloud", runs Terraform only in
// build/deploy, a copy without the user's state, and only with the stand-in of the provider.
func TestDeployWalk(t *testing.T) {
	t.Parallel()
	r := walking(t, "echo the-stand-in.rc")
	r.shell("make", "deploy-walk")
	if r.code != 0 {
		t.Fatalf("make deploy-walk: exit code %d, want 0:\n%s", r.code, r.out)
	}
	for _, word := range []string{"init", "apply .*image_tag=v1", "destroy"} {
		if r.called("^terraform .*"+word) < 0 {
			t.Errorf("make deploy-walk: got calls %q, want %s among them", r.calls, word)
		}
	}
	for _, call := range r.calls {
		if !strings.HasPrefix(call, "terraform ") {
			continue
		}
		if !strings.HasPrefix(call, "terraform -chdir=build/deploy/") ||
			!strings.HasSuffix(call, " with the-stand-in.rc") {
			t.Errorf("make deploy-walk calls %q; want -chdir=build/deploy/..., with the-stand-in.rc", call)
		}
	}
	r.checkNothingOfTheUsers("kept")
}

// TestDeployWalkNeedsTheStandIn: without it, nothing may reach a real cloud.
func TestDeployWalkNeedsTheStandIn(t *testing.T) {
	t.Parallel()
	r := walking(t, "exit 1")
	r.shell("make", "deploy-walk")
	if r.code == 0 || r.called("^terraform") >= 0 {
		t.Errorf("make deploy-walk without a stand-in: exit code %d, calls %q; want a failure before any of terraform",
			r.code, r.calls)
	}
}

// TestCheckTakesNothingAlong: a deployment's own variables are not those that the module's tests set.
func TestCheckTakesNothingAlong(t *testing.T) {
	t.Parallel()
	r := walking(t, "echo the-stand-in.rc")
	r.shell("sh", "terraform/check.sh")
	if r.code != 0 || r.called("^terraform test") < 0 {
		t.Fatalf("exit code %d, %q:\n%s", r.code, r.calls, r.out)
	}
	r.checkNothingOfTheUsers("kept")
}

// TestCheckSaysWhichVersion: a tool that is too old is named with its version and the one that is needed, and not with
// a provider that could not be had.
func TestCheckSaysWhichVersion(t *testing.T) {
	t.Parallel()
	for version, says := range map[string]string{
		"Terraform v1.8.5": "is version 1.8.5, and terraform/versions.tf asks for 1.9 or later",
		"OpenTofu v1.7.10": "is version 1.7.10", "Terraform v1.9.0": "", "Terraform v1.11.4": "", "OpenTofu v2.0.0": "",
	} {
		r := walking(t, "echo the-stand-in.rc")
		answering := strings.Replace(keeping, "case $1 in version", "[ \"$1\" != version ] || echo \""+version+
			"\"\ncase $1 in version", 1)
		must.Do(t, os.WriteFile(filepath.Join(r.dir, "stubs/terraform"), []byte(answering), 0o755))
		r.shell("sh", "terraform/check.sh")
		if (r.code == 0) != (says == "") || !strings.Contains(r.out, says) || says != "" &&
			r.called("^terraform (init|test)") >= 0 {
			t.Errorf("with %s it ended with %d, expected %q:\n%s", version, r.code, says, r.out)
		}
	}
}

// TestDeployWalkNeedsAStandIn: in a clone without one, the walk says what it needs before it does anything.
func TestDeployWalkNeedsAStandIn(t *testing.T) {
	t.Parallel()
	r := walking(t, "echo the-stand-in.rc")
	r.env = append(r.env, "STANDIN="+filepath.Join(r.dir, "nowhere"))
	r.shell("make", "deploy-walk")
	if r.code == 0 || r.called("^(terraform|go|make|localemu) ") >= 0 || r.exists("build") {
		t.Errorf("without a stand-in it ended with %d and calls %q", r.code, r.calls)
	}
	r.says("deploy-walk: nothing was done", "STANDIN=FOLDER")
}
