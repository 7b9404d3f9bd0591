//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// demoWinner is the judged model of `make demo`, on any machine. Changes of it are told in internal/gbt/DIVERGENCE.md.
const demoWinner = "88e496ba4b71b7a9433700d9f2ebf55e159252819665cf4c3b4611c8d87be030"

// TestE2EDemo runs `make demo` as a new user does. On each of its two pretend machines the table is in memory once.
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

// goneIn are the files in which a key that is gone may have stood, with %s for the key.
var goneIn = []struct {
	text string
	spec func() any
}{
	{"%s: 1", func() any { return &sweep.Spec{} }},
	{"search: {random: {num_leaves: {%s: 1}}}", func() any { return &sweep.Spec{} }},
	{"%s: 1", func() any { return &dataset.Spec{} }},
	{"gate: {%s: 1", func() any { return &sweep.Spec{} }},
	{"search: {%s: 1", func() any { return &sweep.Spec{} }},
	{"limits: {%s: 1", func() any { return &sweep.Spec{} }},
}

// TestE2EGone types each word that earlier versions knew.
func TestE2EGone(t *testing.T) {
	l := newLocal(t)
	for _, name := range problem.AllGone() {
		want := problem.Gone(name)
		var said []string
		switch key, isKey := strings.CutSuffix(name, ":"); {
		case isKey:
			if parent, child, ok := strings.Cut(key, "."); ok {
				key = parent + ": {" + child
			}
			for _, in := range goneIn {
				text := fmt.Sprintf(in.text, key)
				text += strings.Repeat("}", strings.Count(text, "{")-strings.Count(text, "}"))
				if _, err := strictyaml.Decode("x.yaml", []byte(text), in.spec()); err != nil {
					said = append(said, err.Error())
				}
			}
		case strings.Contains(name, ": "): // a value: by whoever reads the value
			continue
		default:
			words := strings.Fields(name)
			if program := words[0]; program != "task" && program != "aggregator" && program != "localemu" {
				words = append([]string{"launcher"}, words...)
			}
			r := execute(t, l.dir, nil, binaryOf(t, words[0]), words[1:]...)
			if r.code != sweep.ExitUsage {
				t.Errorf("%q ended with exit code %d, expected %d", words, r.code, sweep.ExitUsage)
			}
			said = append(said, r.errOut)
		}
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("%s: expected %q, but what is said is\n%s", name, want, strings.Join(said, "\n"))
		}
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

// TestE2EFewVerbsAndFlags counts what --help shows.
func TestE2EFewVerbsAndFlags(t *testing.T) {
	var verbs []string
	flags, all := map[string]bool{}, 0
	var walk func(words []string)
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
		t.Errorf("only %d verbs and %d flags were seen", len(verbs), len(flags))
	}
}
