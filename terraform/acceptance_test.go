package terraform

import (
	"bytes"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"coppice/internal/must"
)

// stub stands for every program that the acceptance run calls. It writes down how it was called and answers as the
// cloud would; FAIL, INTERRUPT and SAY change that for calls that match.
//
//go:embed testdata/stub.sh
var stub string

// run is one acceptance run in a copy of what it needs of the project, with stubs for all else.
type run struct {
	t     *testing.T
	dir   string   // holds the copy, the stubs, and what they write
	env   []string // settings of the script
	out   string   // what the script printed
	code  int      // its exit code
	calls []string // the stubs' calls in order, each "PROGRAM ARGUMENTS"
}

// newRun makes the copy and the stubs. Nothing is run yet.
func newRun(t *testing.T) *run {
	t.Helper()
	r := &run{t: t, dir: t.TempDir()}
	for _, tree := range []string{"terraform", "examples/clicks"} {
		must.Do(t, os.CopyFS(filepath.Join(r.dir, tree), os.DirFS(filepath.Join("..", tree))))
	}
	for _, folder := range []string{"stubs", "home"} {
		must.Do(t, os.Mkdir(filepath.Join(r.dir, folder), 0o755))
	}
	for _, name := range []string{"gcloud", "terraform", "curl", "make", "go", "docker", "git", "launcher", "clicks",
		"localemu"} {
		must.Do(t, os.WriteFile(filepath.Join(r.dir, "stubs", name), []byte(stub), 0o755))
	}
	r.write("home/application_default_credentials.json", `{"type":"authorized_user","refresh_token":"1//secret"}`)
	r.env = []string{"PATH=" + filepath.Join(r.dir, "stubs") + ":/usr/bin:/bin", "HOME=" + filepath.Join(r.dir, "home"),
		"CALLS=" + filepath.Join(r.dir, "calls"),
		"CALLERS=" + filepath.Join(r.dir, "callers"), "STATE=" + filepath.Join(r.dir, "state"),
		"BIN=" + filepath.Join(r.dir, "stubs"), "TERRAFORM=terraform", "IMAGE_TOOL=docker",
		"PROJECT=my-project", "NAME=accept-1", "WAIT=0", "YES=1"}
	return r
}

// write makes a file in the run's folder, or replaces it.
func (r *run) write(name, text string) {
	r.t.Helper()
	must.Do(r.t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

// do runs acceptance.sh once more to its end, with word as its argument unless that is "", and with env beside the
// other settings. It keeps the output, exit code and calls. The script is answered "no" if it asks.
func (r *run) do(word string, env ...string) {
	r.t.Helper()
	_ = os.Remove(filepath.Join(r.dir, "calls"))
	args := []string{"terraform/acceptance.sh"}
	if word != "" {
		args = append(args, word)
	}
	cmd := exec.CommandContext(r.t.Context(), "sh", args...)
	cmd.Dir, cmd.Env = r.dir, append(slices.Clone(r.env), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C reaches it and its stub, and not us
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("no\n"), &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatalf("the script could not be run: %v, expected it to end with some exit code", err)
	}
	r.out, r.code, r.calls = out.String(), cmd.ProcessState.ExitCode(), nil
	if text, err := os.ReadFile(filepath.Join(r.dir, "calls")); err == nil {
		r.calls = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// called returns the index of the first call that matches the regular expression, -1 if there is none.
func (r *run) called(pattern string) int {
	r.t.Helper()
	return slices.IndexFunc(r.calls, regexp.MustCompile(pattern).MatchString)
}

// says fails the test for each part that is not in the script's output.
func (r *run) says(parts ...string) {
	r.t.Helper()
	for _, p := range parts {
		if !strings.Contains(r.out, p) {
			r.t.Errorf("got the output\n%s\nwant %q in it", r.out, p)
		}
	}
}

// exists says whether there is such a file or folder in the run's folder.
func (r *run) exists(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

// file returns the text of a file in the run's folder. If there is none, the test fails and goes on with "".
func (r *run) file(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Errorf("cannot read what the run should have written: %v", err)
	}
	return string(text)
}

// leavesNoLogin fails the test if the file with the operator's login is still there, or if the login was printed.
func (r *run) leavesNoLogin() {
	r.t.Helper()
	if r.exists("build/acceptance/accept-1/launcher.json") || strings.Contains(r.out, "secret") {
		r.t.Errorf("login left behind: %t, printed: %t; want neither",
			r.exists("build/acceptance/accept-1/launcher.json"), strings.Contains(r.out, "secret"))
	}
}

// work is the folder that the acceptance run makes for what it writes.
const work = "build/acceptance/accept-1/"

// TestAcceptancePasses plays the whole acceptance run with fake tools: every step is taken, in its order, all 28
// expectations are met, nothing is left, and only the copy's state, under a name of its own, is touched.
func TestAcceptancePasses(t *testing.T) {
	r := newRun(t)
	r.do("")
	if r.code != 0 {
		t.Fatalf("the run ended with exit code %d, want 0:\n%s", r.code, r.out)
	}
	order := []string{"gcloud auth print", "make build", "terraform .* init", "services enable .*pubsub",
		"identity create .*pubsub", "identity create .*run", "identity create .*artifactregistry", "terraform .* apply",
		"terraform .* state list", "make images", "make push", "terraform .*image_tag=v7",
		"terraform .*/production plan .*billing_account=0X0X0X-0X0X0X$", "launcher doctor",
		"gcloud storage cp", "launcher stage .*--batch", "launcher plan", "jobs pause accept-1-reconcile",
		"launcher sweep .*--id accept-1-1", "simulate-maintenance-event accept-1-1-0-x1 --zone us-central1-a ",
		"launcher watch accept-1-1", "gcloud batch tasks list .*--job accept-1-1 ", "jobs resume accept-1-reconcile",
		"launcher registry show", "launcher predict",
		"localemu exec .* predict", "logging read .*machines>1",
		"logging read .*task started", "launcher bill", "gcloud logging read .*task.*trace",
		"gcloud logging read .*aggregator",
		"buckets describe", "jobs run accept-1-refused-nobody", "jobs run accept-1-refused-other",
		"jobs run accept-1-reconcile", "curl .*/push", "curl .*/reconcile",
		"launcher sweep .*/fallback.yaml --id accept-1-2", "launcher status accept-1-2 --json",
		"gcloud scheduler jobs run accept-1-sweep-nightly", "launcher watch nightly-20261121-0200",
		"launcher cancel accept-1-1", "launcher cancel accept-1-2",
		"terraform .* apply .*protect=false", "terraform .* destroy"}
	// called gives the first call that matches, so that what comes several times is named by its first time.
	last := -1
	for _, pattern := range order {
		at := r.called(pattern)
		if at <= last {
			t.Errorf("%s is call %d, the one before it %d; want it later", pattern, at, last)
		}
		last = max(last, at)
	}
	if end := r.calls[len(r.calls)-1]; !strings.HasSuffix(end, "state list") {
		t.Errorf("the last call is %s, expected what is left in the state", end)
	}
	report := r.file(work + "report.md")
	if met := strings.Count(report, "| met |"); met != 28 || strings.Contains(report, "NOT") ||
		!strings.Contains(report, "PASSED") {
		t.Errorf("%d expectations met, want 28, and PASSED:\n%s", met, report)
	}
	// The step "27. schedule" fires the schedule three times, and wants one sweep of it.
	if n := strings.Count(strings.Join(r.calls, "\n"), "scheduler jobs run accept-1-sweep-nightly"); n != 3 {
		t.Errorf("the schedule was fired %d times, want 3", n)
	}
	r.leavesNoLogin()
	// The launcher's account may not read services, images and quotas: the operator may.
	for _, caller := range []string{"launcher doctor of my-project as the operator\n",
		"launcher status of my-project as " + work + "launcher.json\n"} {
		if all := r.file("callers"); !strings.Contains(all, caller) {
			t.Errorf("got the callers\n%s\nwant %q among them", all, caller)
		}
	}
	if strings.Contains(r.file("callers"), "doctor of my-project as "+work) {
		t.Error("doctor is also asked as the launcher, which may not read all it asks for")
	}
	// Everything is done in the copy, under its own name.
	for _, call := range r.calls {
		if strings.HasPrefix(call, "terraform ") && !strings.HasPrefix(call, "terraform -chdir="+work+
			"terraform/examples/minimal ") && !regexp.MustCompile("^terraform -chdir="+work+
			"terraform/examples/production (init|plan) ").MatchString(call) {
			t.Errorf("got the call %q, want Terraform called in the copy alone", call)
		}
	}
	if text := r.file(work + "terraform/examples/minimal/acceptance_override.tf"); !strings.Contains(text,
		`name           = "accept-1"`) || r.exists("terraform/examples/minimal/acceptance_override.tf") {
		t.Errorf("want the name accept-1 in the copy alone, got: %s", text)
	}
}

// TestAcceptanceFails: when a call fails, the run stops in that step, says so and what it has left behind, and destroys
// nothing. The test has a call fail in each step in turn. Steps 1 and 4 make no calls of programs that the stub stands
// for, and steps 21 to 23 only warn.
func TestAcceptanceFails(t *testing.T) {
	t.Parallel()
	for step, fail := range map[string]string{
		"2. login": "projects describe", "3. build": "make build", "5. create": "terraform .* apply",
		"6. images": "make push", "7. deploy": "image_tag=v7",
		"8. production":          "production plan",
		"9. act as the launcher": "launcher status$", "10. doctor": "launcher doctor",
		"11. upload": "storage cp", "12. stage": "launcher stage", "13. quote": "launcher plan",
		"14. sweep": "launcher sweep", "15. preempt": "simulate-maintenance-event",
		"16. watch": "launcher watch accept-1-1", "17. winner": "registry show accept --file",
		"18. same scores": "localemu .* sweep", "19. together": "machines>1", "20. processors": "task started",
		"24. inside": "jobs run accept-1-refused", "25. push": "services describe .*status.url",
		"26. fallback": "launcher status accept-1-2", "27. schedule": "scheduler jobs run accept-1-sweep",
		"28. destroy": "terraform .* destroy",
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := newRun(t)
			r.do("", "FAIL="+fail)
			created := r.called("terraform .* apply") >= 0
			r.says("NOT MET", "stopped in "+step)
			if created {
				r.says("Left behind", "make acceptance-destroy PROJECT=my-project REGION=us-central1 NAME=accept-1")
			} else {
				r.says("Nothing that costs was created")
			}
			if r.code == 0 {
				t.Errorf("%s failed: exit code 0, want another", step)
			}
			for _, pattern := range []string{"terraform .* destroy", "launcher cancel"} {
				if at := r.called(pattern); at >= 0 && step != "28. destroy" {
					t.Errorf("%s failed: call %d is %q, want none that removes or cancels", step, at, r.calls[at])
				}
			}
			if report := r.file(work + "report.md"); strings.Count(report, "**NOT MET**") != 1 ||
				!strings.Contains(report, "NOT PASSED") {
				t.Errorf("want one expectation that is not met, and NOT PASSED, in the report:\n%s", report)
			}
			r.leavesNoLogin()
		})
	}
}

// TestAcceptanceWaitsForMetrics: the run repeats terraform apply for at least 12 minutes before it gives up. Google's
// alerts may not know a new metric for ten minutes. It does not apply at all if a service's account cannot be made.
func TestAcceptanceWaitsForMetrics(t *testing.T) {
	t.Parallel()
	const enough = 12 * 60 // seconds
	r := newRun(t)
	script := must.Get(os.ReadFile("acceptance.sh"))(t)
	wait := regexp.MustCompile(`WAIT=\$\{WAIT:-(\d+)\}`).FindSubmatch(script)
	if wait == nil {
		t.Fatal("the script has no default of WAIT")
	}
	pause := must.Get(strconv.Atoi(string(wait[1])))(t)
	r.do("", "FAIL=terraform .* apply")
	applied := 0
	for _, call := range r.calls {
		if strings.Contains(call, " apply ") {
			applied++
		}
	}
	if (applied-1)*pause < enough { // it pauses between two calls, which themselves take no time here
		t.Errorf("applied %d times, which is %d seconds; want at least %d", applied, (applied-1)*pause, enough)
	}
	r = newRun(t)
	r.do("", "FAIL=identity create .*run")
	r.says("stopped in 5. create", "Nothing that costs was created")
	if r.code == 0 || r.called("terraform .* apply") >= 0 {
		t.Errorf("a step failed before anything costs: exit code %d, calls %q; want another than 0, and no "+
			"apply", r.code, r.calls)
	}
}

// TestAcceptanceSeesWhatIsWrong: the run stops in the right step when a call succeeds with an answer that is not the
// expected one. The key of a case is CALL=>ANSWER.
func TestAcceptanceSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for say, want := range map[string]string{ // by CALL=>ANSWER, the step that stops
		"production plan=>Plan: 3 to add, 1 to change, 0 to destroy":           "8. production",
		"production plan=>No changes":                                          "8. production",
		"jobs describe .*reconcile.*state=>ENABLED":                            "14. sweep",
		"jobs describe .*reconcile.*state=>PAUSED":                             "16. watch",
		"instances list=>one us-central1-a":                                    "15. preempt",
		"batch tasks list=>Task state is updated from RUNNING to SUCCEEDED":    "16. watch",
		"batch tasks list=>from RUNNING to FAILED with exit code 1":            "16. watch",
		"registry show accept$=>accept version 1, library reproduces all 9 it": "17. winner",
		"registry show accept$=>accept version 1 (champion)":                   "17. winner",
		"localemu .* predict=>another score":                                   "18. same scores",
		"launcher predict=>a score that is not new":                            "18. same scores",
		"launcher plan=>machine: {type: n2-highmem-2}":                         "13. quote",
		"logging read .*machines>1=>":                                          "19. together",
		"logging read .*task started=>":                                        "20. processors",
		"logging read .*task started=>8":                                       "20. processors",
		"logging read .*task started=>8 200000 100000":                         "20. processors",
		// Wanted are 16 and 7, of HTTP 401 and 403; 5 is of 404.
		"jobs describe .*refused-nobody=>2026-11-30T02:00:00Z":                "24. inside",
		"jobs describe .*refused-other=>2026-11-30T02:00:00Z":                 "24. inside",
		"jobs describe .*refused-nobody=>2026-11-30T02:00:00Z 5":              "24. inside",
		"jobs describe .*refused-other=>":                                     "24. inside",
		"jobs describe .*reconcile .*lastAttemptTime=>2026-11-30T02:00:00Z 7": "24. inside",
		"curl .*/push=>200":              "25. push",
		"curl .*Bearer.*/reconcile=>204": "25. push",
		"curl .*/reconcile=>500":         "25. push",
		"status accept-1-2=>it was had":  "26. fallback",
		`status accept-1-2=>"name": "accept-1-2-f1", "reason": "it was waiting"`: "26. fallback",
		`status accept-1-2=>"reason": "it was waiting after 5m0s: quota"`:        "26. fallback",
		"launcher status --json=>[]":                                             "27. schedule",
		"get account=>":                                                          "2. login",
		"get account=>ci@my-project.iam.gserviceaccount.com":                     "2. login",
		"projects describe my-.*projectNumber=>1234 DELETE_REQUESTED":            "2. login",
		"launcher --version=>launcher version v6":                                "3. build",
		"localemu --version=>localemu version dev":                               "3. build",
		"state list=>module.coppice.google_storage_bucket.coppice":               "5. create",
		"make push=>us-central1-docker.pkg.dev/p/accept/coppice-task@":           "6. images", // docker knows no digest
		"output -raw env=>export COPPICE_PROJECT='other-project'":                "7. deploy",
		"services describe .*image=>a/coppice-aggregator:v6":                     "7. deploy",
		"jobs describe .*sweep-nightly=>PAUSED":                                  "7. deploy",
		"launcher doctor=>0 ok, 32 not checked":                                  "10. doctor",
		"launcher doctor=>":                                                      "10. doctor",
		"objects describe=>0":                                                    "11. upload",
		"objects describe=>":                                                     "11. upload",
		"launcher stage=>clicks@0123 was staged before: 5.2 MiB":                 "12. stage",
	} {
		t.Run(say, func(t *testing.T) {
			t.Parallel()
			r := newRun(t)
			r.do("", "SAY="+say)
			r.says("stopped in " + want)
			if r.code == 0 {
				t.Errorf("a wrong answer passed, want exit code other than 0:\n%s", r.out)
			}
		})
	}

	// What no answer of one line shows: a tool that is not there, a login that is no person's, a copy that lacks a file
	// or has the user's state, and two sweeps of one time.
	r := newRun(t)
	r.do("", "IMAGE_TOOL=nothing")
	r.says("nothing is not installed", "stopped in 1. tools")
	r = newRun(t)
	r.write("home/application_default_credentials.json", `{"type":"service_account"}`)
	r.do("")
	r.says("log in as yourself", "stopped in 9. act as the launcher")
	// The copy is made by a pipe of two tars, of which the first may fail unseen. A tar in front of it packs another
	// folder than it is told.
	for say, tar := range map[string]string{
		`the copy lacks "./`:           "terraform/examples/minimal",
		`minimal/terraform.tfstate" o`: "terraform",
	} {
		r = newRun(t)
		r.write("terraform/examples/minimal/terraform.tfstate", "{}")
		r.write("stubs/tar", "#!/bin/sh\n[ $1 != cf ] || set -- cf - "+tar+"\nexec /usr/bin/tar \"$@\"\n")
		must.Do(t, os.Chmod(filepath.Join(r.dir, "stubs/tar"), 0o755))
		r.do("")
		r.says(say, "stopped in 4. prepare")
	}
	r = newRun(t)
	r.do("", `SAY=launcher status --json=>"sweep": "nightly-20261121-0200"
"sweep": "nightly-20261121-0201"`)
	if r.code == 0 || !strings.Contains(r.out, "stopped in 27. schedule") {
		t.Errorf("two sweeps of one time passed, want the run stopped at the schedule:\n%s", r.out)
	}
}

// TestAcceptanceGoesOn: after a failure in a step on which no other depends, the run goes on to its end, warns of that
// step in its report and has met all 27 other expectations.
func TestAcceptanceGoesOn(t *testing.T) {
	t.Parallel()
	for say, want := range map[string]string{
		"logging read .*aggregator=>projects/my-project/traces/9999": "22. logs",
		"logging read .*task.*trace:=>":                              "22. logs",
		"buckets describe .*registry=>inherited":                     "23. private",
		"buckets describe .*source=>inherited":                       "23. private",
		"FAIL=launcher bill":                                         "21. bill",
		"launcher bill=>machine-hours 2, no quote":                   "21. bill",
	} {
		t.Run(say, func(t *testing.T) {
			t.Parallel()
			r := newRun(t)
			if !strings.HasPrefix(say, "FAIL=") {
				say = "SAY=" + say
			}
			r.do("", say)
			report := r.file(work + "report.md")
			if r.code != 0 || strings.Count(report, "| met |") != 27 || strings.Count(report, "| **warning** |") != 1 ||
				!strings.Contains(report, "Warnings: "+want+";") {
				t.Errorf("exit code %d, expected 0, 27 expectations met and a warning of %s:\n%s\n%s", r.code, want,
					report, r.out)
			}
		})
	}
}

// TestAcceptanceInterruptedAndRemoved: a run that is interrupted leaves what it made and says how to remove it. No
// other run begins as long as that is there. The script's word destroy removes it, does nothing if it is gone already,
// and never removes what no run has made.
func TestAcceptanceInterruptedAndRemoved(t *testing.T) {
	r := newRun(t)
	r.do("", "INTERRUPT=launcher watch accept-1-1")
	if r.code == 0 || r.called("terraform .* destroy") >= 0 {
		t.Fatalf("interrupted: exit code %d, calls %q; want another than 0, and nothing destroyed", r.code, r.calls)
	}
	r.says("stopped in 16. watch", "accept-1-1", "module.coppice.google_storage_bucket.coppice",
		"make acceptance-destroy")
	r.leavesNoLogin()

	r.do("") // not over what is left
	if r.code == 0 || len(r.calls) > 1 {
		t.Errorf("run again over what is left: exit code %d, calls %q; want a failure after the first call", r.code,
			r.calls)
	}
	r.says("make acceptance-destroy")

	r.do("destroy")
	if r.code != 0 || r.called("launcher cancel accept-1-1") < 0 ||
		r.called("terraform .* destroy") < r.called("launcher cancel") || r.file("state") != "" {
		t.Errorf("destroyed: exit code %d, calls %q; want 0, sweeps cancelled before, and no state "+
			"left:\n%s", r.code, r.calls, r.out)
	}
	r.leavesNoLogin()
	r.do("destroy") // nothing is left, so nothing is done
	if r.code != 0 || r.called("terraform .* destroy") >= 0 {
		t.Errorf("destroyed once more: exit code %d, calls %q; want 0, and nothing done", r.code, r.calls)
	}
	r.do("destroy", "NAME=coppice")
	if r.code == 0 || r.called("terraform") >= 0 {
		t.Errorf("destroying what no run has made: exit code %d, calls %q; want a failure before Terraform is called",
			r.code, r.calls)
	}
}

// TestAcceptanceRemovesWhereItWas: destroy uses the region of the run that it removes, whatever the setting REGION says
// now. With another region Terraform would replace everything before it destroys it.
func TestAcceptanceRemovesWhereItWas(t *testing.T) {
	t.Parallel()
	for _, later := range []string{"REGION=", "REGION=us-central1"} { // make gives the first where nothing is said
		r := newRun(t)
		r.do("", "REGION=europe-west4", "FAIL=launcher plan")
		r.says("stopped in 13. quote")
		r.do("destroy", later)
		if r.code != 0 || r.file("state") != "" {
			t.Errorf("destroyed: exit code %d; want 0, and no state left:\n%s", r.code, r.out)
		}
		planned := 0
		for _, call := range r.calls {
			if strings.Contains(call, "-var location=") {
				planned++
				if !strings.Contains(call, "-var location=europe-west4 ") {
					t.Errorf("want all in europe-west4, got: %s", call)
				}
			}
		}
		if planned != 2 {
			t.Errorf("got %d calls with a location, want 2, of apply and destroy; calls %q", planned, r.calls)
		}
	}
}

// TestAcceptanceAsksFirst: unless the operator agrees to the costs, nothing is called or made. The same is true, also
// of a dry run, if a setting is not a plain name or number: a shell could take it for a command.
func TestAcceptanceAsksFirst(t *testing.T) {
	r := newRun(t)
	r.do("", "YES=")
	if r.code == 0 || len(r.calls) > 0 || r.exists("build") {
		t.Errorf("without a yes: exit code %d, calls %q; want another than 0, and nothing called or "+
			"made", r.code, r.calls)
	}
	r.says("What it costs", "Type the name of the project", "nothing was created")
	for _, setting := range []string{"PROJECT=", "PROJECT=a b", "PROJECT=x;id", "PROJECT=$(id)", "PROJECT=../x",
		"PROJECT=x", "PROJECT=short", "PROJECT=my-project-", "PROJECT=1project", "PROJECT=" + strings.Repeat("a", 31),
		"NAME=../../x", "NAME=-x", "NAME=1x", "NAME=abcdefghijklmnopqr", "REGION=x y", "MACHINE=a;b", "NEVER=a/b",
		"SSDS=0",
		"SSDS=two", "SSDS=1;id"} {
		for _, dry := range []string{"DRY=", "DRY=1"} {
			r.do("", setting, dry)
			if r.code == 0 || len(r.calls) > 0 || r.exists("build") {
				t.Errorf("%s %s: exit code %d, calls %q; want another than 0, and nothing called or "+
					"made:\n%s", setting, dry, r.code, r.calls, r.out)
			}
		}
	}
}

// TestAcceptanceDry: with DRY=1 the script prints every step, expectation and command of a real run, but calls nothing
// and writes nothing.
func TestAcceptanceDry(t *testing.T) {
	r := newRun(t)
	before := r.names()
	r.do("", "DRY=1", "YES=")
	if r.code != 0 || len(r.calls) > 0 || !slices.Equal(before, r.names()) {
		t.Errorf("dry: exit code %d, calls %q; want 0, and nothing called or made", r.code, r.calls)
	}
	wet := newRun(t)
	wet.do("")
	for line := range strings.SplitSeq(wet.out, "\n") {
		if strings.HasPrefix(line, "== ") || strings.HasPrefix(line, "   expected:") {
			r.says(line)
		}
	}
	shown := func(out string) (lines []string) {
		for line := range strings.SplitSeq(out, "\n") {
			if strings.HasPrefix(line, "    $ ") {
				lines = append(lines, strings.Fields(line)[1])
			}
		}
		return lines
	}
	// A real run also cancels its three sweeps (14. sweep, 26. fallback and 27. schedule), of which a dry run has none.
	if dry, all := len(shown(r.out)), len(shown(wet.out)); dry != all-3 {
		t.Errorf("%d commands dry, %d for real; want three fewer", dry, all)
	}
}

// names returns the paths of all files and folders in the run's folder.
func (r *run) names() (names []string) {
	r.t.Helper()
	must.Do(r.t, filepath.WalkDir(r.dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	return names
}
