//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
)

// demoWinner is the judged model of `make demo`, on any machine. Changes of it are told in internal/gbt/DIVERGENCE.md.
const demoWinner = "88e496ba4b71b7a9433700d9f2ebf55e159252819665cf4c3b4611c8d87be030"

// TestE2EDemo: `make demo`, as a new user types it, succeeds. Its winner has the same bytes on any machine, and the
// tasks on each of its two emulated machines share one copy of the table in memory.
func TestE2EDemo(t *testing.T) {
	cmd := exec.Command("make", "demo")
	cmd.Env = builder
	check := watchMachines(t, "build/demo/cloud")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make demo: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	check()
	judged := must.Get(os.ReadFile("build/demo/cloud/gcs/coppice-registry/registry/ctr/versions/1/judged.txt"))(t)
	sum := sha256.Sum256(judged)
	if got := hex.EncodeToString(sum[:]); got != demoWinner {
		t.Errorf("the sha256 of the demo's winner is %s, expected %s", got, demoWinner)
	}
}

// The most verbs and differently named flags that the four programs may have together. They only fall.
const (
	maxVerbs = 34
	maxFlags = 87
)

var (
	helpVerb = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +[A-Z]`)
	helpFlag = regexp.MustCompile(`(?m)^ +(?:-[a-zA-Z], )?--([a-z][a-z-]*)`)
)

// TestE2EFewVerbsAndFlags: the programs together have at most maxVerbs commands and flags of maxFlags names, as their
// --help shows them. Fewer than 10 and 20 would mean that the test does not see them.
func TestE2EFewVerbsAndFlags(t *testing.T) {
	var verbs []string
	flags, all := map[string]bool{}, 0
	var walk func(words []string) // asks for the help of a command, and of all below it
	walk = func(words []string) {
		r := execute(t, t.TempDir(), nil, binaryOf(t, words[0]), append(words[1:], "--help")...)
		r.ok(t)
		list, options, _ := strings.Cut(r.out, "\nFlags:\n")
		_, list, _ = strings.Cut(list, "Usage:\n")
		below := 0
		for _, m := range helpVerb.FindAllStringSubmatch(list, -1) {
			if m[1] == "help" || m[1] == "completion" {
				continue
			}
			below++
			walk(append(append([]string{}, words...), m[1]))
		}
		if below == 0 {
			verbs = append(verbs, strings.Join(words, " "))
		}
		for _, m := range helpFlag.FindAllStringSubmatch(options, -1) {
			if m[1] != "help" && m[1] != "version" {
				flags[m[1]] = true
				all++
			}
		}
	}
	for _, program := range []string{"launcher", "task", "aggregator", "localemu"} {
		walk([]string{program})
	}

	t.Logf("%d verbs, %d flags of %d names", len(verbs), all, len(flags))
	if len(verbs) > maxVerbs {
		t.Errorf("%d verbs, expected at most %d:\n%s", len(verbs), maxVerbs, strings.Join(verbs, "\n"))
	}
	if len(flags) > maxFlags {
		t.Errorf("flags of %d names, expected at most %d", len(flags), maxFlags)
	}
	if len(verbs) < 10 || len(flags) < 20 {
		t.Errorf("found %d verbs and %d flags, want at least 10 and 20", len(verbs), len(flags))
	}
}

// googleStub stands for the tools that speak to Google, and for those that build. What the sweep needs of them happens
// in the local cloud: the table is uploaded, the scheduler starts a launcher as a Cloud Run job would, and what tasks
// have logged is read from their files.
//
//go:embed testdata/google.sh
var googleStub string

// TestAcceptance: the acceptance script meets all its 28 expectations with the real programs against the local cloud.
// Among them are staging as a Batch job, a sweep that loses a machine, a winner that two machines train together, the
// same scores from another local cloud, the bill, a fallback to another machine type, and a schedule that fires three
// times.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	l := newLocal(t)
	for _, tree := range []string{"terraform", "examples/clicks"} {
		must.Do(t, os.CopyFS(filepath.Join(l.dir, tree), os.DirFS(tree)))
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(l.dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), mode))
	}
	for _, name := range []string{"gcloud", "terraform", "curl", "make", "go", "docker", "git"} {
		write("stubs/"+name, googleStub, 0o755)
	}
	write("home/application_default_credentials.json", `{"type":"authorized_user"}`, 0o600)
	write("bin/localemu", "#!/bin/sh\n[ \"$1\" != --version ] || { echo localemu version v7; exit; }\nexec "+
		binaryOf(t, "localemu")+` "$@"`+"\n", 0o755)
	// A seventh of the rows, which is enough for every expectation.
	write("bin/clicks", "#!/bin/sh\nexec "+binaryOf(t, "clicks")+` "$@" --rows 30000`+"\n", 0o755)
	// What doctor finds in a local cloud is tested where it lives; here it is only called. The local cloud has no
	// bucket for tables but that of the datasets.
	write("bin/launcher", "#!/bin/sh\nset -e\n[ \"$1\" != doctor ] || { echo 20 ok; exit; }\n"+
		"[ \"$1\" != --version ] || { echo launcher version v7; exit; }\n"+
		"[ \"$1 ${3:-}\" != 'stage --batch' ] || sed -i "+
		"'s|gs://my-project-accept-1-source|gs://coppice-datasets/exports|' \"$2\"\n"+
		// Five minutes without a machine are a second here.
		"[ \"$1 ${4:-}\" != 'sweep accept-1-2' ] || sed -i 's/wait: 5m/wait: 1s/' \"$2\"\n"+
		"[ \"$1\" != status ] || { "+binaryOf(t, "launcher")+` "$@" | sed 's/after 1s: /after 5m0s: /'; exit; }`+"\n"+
		"exec "+binaryOf(t, "launcher")+` "$@"`+"\n", 0o755)
	faults := l.file("faults.yaml", "no_capacity: [{type: m3-ultramem-128}]\nat_write: [{match: "+
		"'sweeps/accept-1-1/trials/*/result.json', nth: 2, does: lose_machine, vm: 0, code: 50001}]\n")
	cmd := exec.CommandContext(t.Context(), binaryOf(t, "localemu"), "exec", "--data", l.data, "--faults", faults,
		"--", "sh", "terraform/acceptance.sh")
	cmd.Dir = l.dir
	cmd.Env = []string{"PATH=" + filepath.Join(l.dir, "stubs") + ":/usr/bin:/bin",
		"HOME=" + filepath.Join(l.dir, "home"), "CALLS=" + filepath.Join(l.dir, "calls"),
		"BIN=" + filepath.Join(l.dir, "bin"), "TERRAFORM=terraform", "IMAGE_TOOL=docker", "PROJECT=my-project",
		"NAME=accept-1", "WAIT=1", "YES=1", "DATA=" + l.data}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("run the acceptance script: %v\n%s", err, &out)
	}
	report, err := os.ReadFile(filepath.Join(l.dir, "build/acceptance/accept-1/report.md"))
	if err != nil || strings.Count(string(report), "| met |") != 28 {
		t.Errorf("the report (error %v) says %d times that an expectation is met, want 28:\n%s\n%s", err,
			strings.Count(string(report), "| met |"), report, &out)
	}
	for _, part := range []string{"accept version 1 (champion)", "the leaves library reproduces", "destroy"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the acceptance script prints\n%s\nwant %q in it", &out, part)
		}
	}
}

// mapped is what the tasks of one emulated machine hold of its dataset at one moment.
type mapped struct {
	processes       int
	files, rss, pss int64 // bytes: of the files that any maps, and of what all have in memory of them
}

// watchMachines looks at the tasks of a local cloud, whose data is in that folder, every 20 ms from now on. The
// function that it returns stops that, and fails the test unless at least two machines were seen, each with two tasks
// or more at once that shared one copy of the dataset in memory. The system counts a page of memory in the RSS of every
// process that has touched it, but divides it in their PSS. So with one copy the sum of PSS is no larger than the files
// (2 % are allowed for pages read at different moments), while the sum of RSS is clearly larger than that of PSS.
func watchMachines(t *testing.T, data string) (check func()) {
	t.Helper()
	data = must.Get(filepath.Abs(data))(t)
	quit, ended, best := make(chan struct{}), make(chan struct{}), map[string]mapped{}
	go func() {
		defer close(ended)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-quit:
				tick.Stop()
				return
			case <-tick.C:
			}
			for vm, m := range lookAtMachines(data) {
				// Of as many processes, the one with most of the data in memory; processes are read one after
				// another, so that a sum of PSS can be too high, but not too low.
				old := best[vm]
				if c := cmp.Or(cmp.Compare(m.processes, old.processes), cmp.Compare(m.rss, old.rss),
					cmp.Compare(old.pss, m.pss)); c > 0 {
					best[vm] = m
				}
			}
		}
	}()

	return func() {
		close(quit)
		<-ended
		if len(best) < 2 {
			t.Errorf("tasks were seen on %d machines: %+v; expected two", len(best), best)
		}
		for vm, m := range best {
			t.Logf("%s: %d tasks at once, files of %d bytes, sum RSS %d, sum PSS %d", vm, m.processes, m.files,
				m.rss, m.pss)
			if m.processes < 2 || m.files == 0 || m.pss > m.files+m.files/50 || m.rss < m.pss*3/2 {
				t.Errorf("%s: got %+v; want two or more processes that share one copy of the files", vm, m)
			}
		}
	}
}

var (
	smapsRegion = regexp.MustCompile(`^[0-9a-f]+-[0-9a-f]+ +\S+ +\S+ +\S+ +\d+ *(.*)$`)
	smapsSize   = regexp.MustCompile(`^(Rss|Pss): +(\d+) kB$`)
)

// lookAtMachines returns what the tasks hold in memory that map files below machines/JOB/VM/ssd/ of the data folder, by
// JOB/VM. It reads that from /proc, and works on Linux alone.
func lookAtMachines(data string) map[string]mapped {
	found, seen := map[string]mapped{}, map[string]bool{}
	processes, _ := filepath.Glob("/proc/[0-9]*") // a malformed pattern would be the only error
	for _, p := range processes {
		if exe, err := os.Readlink(p + "/exe"); err != nil || filepath.Base(exe) != "task" {
			continue
		}
		text, err := fs.ReadFile(os.DirFS(p), "smaps")
		if err != nil { // it has ended
			continue
		}
		at, counted := "", false // the machine whose file the lines are about, and whether the process was counted
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if m := smapsRegion.FindStringSubmatch(line); m != nil {
				at = ""
				below, ok := strings.CutPrefix(m[1], data+"/machines/")
				words := strings.SplitN(below, "/", 4)
				if !ok || len(words) < 4 || words[2] != "ssd" {
					continue
				}
				at = words[0] + "/" + words[1]
				now := found[at]
				if !counted {
					now.processes, counted = now.processes+1, true
				}
				if info, err := os.Stat(m[1]); err == nil && !seen[m[1]] {
					now.files, seen[m[1]] = now.files+info.Size(), true
				}
				found[at] = now
			}
			if m := smapsSize.FindStringSubmatch(line); m != nil && at != "" {
				kib, _ := strconv.ParseInt(m[2], 10, 64)
				now := found[at]
				if m[1] == "Rss" {
					now.rss += kib << 10
				} else {
					now.pss += kib << 10
				}
				found[at] = now
			}
		}
	}
	return found
}
