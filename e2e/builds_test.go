//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/cloud/gcs"
	"coppice/internal/must"
)

// TestE2EOldLocalCloud: a folder of the first localemu (e2e/testdata/cloud-1 is what its commit f886c52c47c5 left of
// one upload) and one of a later one are refused by all that would write into them, and stay as they are; a folder of
// this build is used again.
func TestE2EOldLocalCloud(t *testing.T) {
	for format, reads := range map[string]string{
		"format is 1 and this build reads 2": "localemu f886c52c47c5",
		"format is 3 and this build reads 2": "localemu v9",
	} {
		l := newLocal(t)
		must.Do(t, os.CopyFS(l.data, os.DirFS("e2e/testdata/cloud-1")))
		if strings.Contains(format, "3") {
			must.Do(t, os.WriteFile(filepath.Join(l.data, "gcs", ".format"), []byte(`{"format":3,"build":"v9"}`),
				0o644))
		}
		before := l.objects()
		for name, r := range map[string]ran{
			"exec": l.run("launcher", "registry", "list"),
			"fit": execute(t, l.dir, nil, binaryOf(t, "launcher"), "fit", l.file("t.csv", "a,b\n1,0\n"), "--label", "b",
				"--data", l.data),
		} {
			if r.code != 5 || !strings.Contains(r.errOut, format) || !strings.Contains(r.errOut, reads) {
				t.Errorf("%s ended with %d, expected 5, and said\n%s\nexpected %q and %q", name, r.code, r.errOut,
					format, reads)
			}
		}
		if after := l.objects(); !maps.Equal(before, after) {
			t.Errorf("%s: the folder has changed: %v, before %v", format, after, before)
		}
	}

	l := newLocal(t)
	for range 2 {
		l.must("launcher", "registry", "list")
	}
}

// TestE2ETwoBuilds: one build's launcher leaves a plan that the other's programs would misunderstand. Launcher and task
// refuse to train it in words that name its build, whichever is newer, and it can still be trained once that build is
// there. Meanwhile it can be read, unless its format is another.
func TestE2ETwoBuilds(t *testing.T) {
	e := &export{local: newLocal(t)}
	file := e.smallSweep(2)
	e.up()
	launcher := func(args ...string) ran {
		return execute(t, e.dir, e.env, binaryOf(t, "launcher"), args...)
	}
	dry := launcher("sweep", file, "--dry-run", "--json")
	dry.ok(t)
	var out struct{ Plan json.RawMessage }
	decode(t, dry.out, &out)
	var compact bytes.Buffer
	must.Do(t, json.Compact(&compact, out.Plan))
	ours := compact.String()
	var named struct{ Sweep, Coppice string }
	decode(t, ours, &named)
	client := must.Get(gcs.New(t.Context()))(t)
	defer client.Close()
	bucket, object := client.Bucket("coppice-sweeps"), "plans/"+named.Sweep+".json"

	theirs := strings.Replace(ours, `"coppice":"`+named.Coppice+`"`, `"coppice":"v0.9"`, 1)
	at := blob.Absent
	for name, edit := range map[string][2]string{
		"an older build, whose key is gone": {`"spec":{`, `"spec":{"when":[],`},
		"a newer build, with a new key":     {`"trials":[{`, `"trials":[{"moon":1,`},
		"a newer build's format":            {`"format":1`, `"format":2`},
	} {
		plan := strings.Replace(theirs, edit[0], edit[1], 1)
		if plan == theirs || theirs == ours {
			t.Fatalf("%s: the plan does not have %s:\n%s", name, edit[0], theirs)
		}
		attrs := must.Get(bucket.Put(t.Context(), object, at, strings.NewReader(plan)))(t)
		at = attrs.Generation
		task := execute(t, e.dir, append(e.env, "COPPICE_SWEEP="+named.Sweep, "COPPICE_JOB="+named.Sweep,
			"COPPICE_SCRATCH="+t.TempDir(), "COPPICE_TASK=0", "COPPICE_ATTEMPT=0"), binaryOf(t, "task"), "run")
		refuse := map[string]ran{"launcher sweep": launcher("sweep", file), "task": task}
		if shown := launcher("bill", named.Sweep); strings.Contains(name, "format") {
			refuse["launcher bill"] = shown
		} else {
			shown.ok(t)
		}
		for who, r := range refuse {
			if said := r.errOut + r.out; r.code != 3 || !strings.Contains(said, "coppice v0.9 wrote it") {
				t.Errorf("%s: %s ended with %d, expected 3, and said\n%s", name, who, r.code, said)
			}
		}
	}
	must.Get(bucket.Put(t.Context(), object, at, strings.NewReader(ours)))(t)
	launcher("sweep", file).ok(t)
	checkFormats(t, client, file, string(named.Sweep), launcher)
}

var formatNumber = regexp.MustCompile(`"format": ?\d+\b`)

// checkFormats plants what a newer build would write in the place of each object that lasts and that a launcher reads
// before it acts: the command names the format, and leaves the object as it is.
func checkFormats(t *testing.T, client *gcs.Client, file, id string, launcher func(...string) ran) {
	t.Helper()
	for _, tc := range []struct {
		bucket, ends string
		command      []string
	}{
		{"registry", "/versions/1/version.json", []string{"registry", "show", "ctr@1"}},
		{"registry", "/aliases/champion.json", []string{"registry", "promote", "ctr@1", "--why", "known"}},
		{"datasets", "/latest.json", []string{"sweep", file, "--id", "later"}},
		{"datasets", "/manifest.json", []string{"sweep", file, "--id", "later"}},
		{"sweeps", "/conclusion.json", []string{"watch", id}},
	} {
		bucket, found := client.Bucket("coppice-"+tc.bucket), 0
		for attrs, err := range bucket.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(attrs.Name, tc.ends) {
				continue
			}
			found++
			text, _, err := blob.ReadAll(t.Context(), bucket, attrs.Name, 1<<24)
			newer := formatNumber.ReplaceAllString(string(text), `"format":99`)
			if err != nil || newer == string(text) {
				t.Fatalf("%s: %v, and no format in %.200s", attrs.Name, err, text)
			}
			for _, content := range []string{newer, string(text)} {
				put := must.Get(bucket.Put(t.Context(), attrs.Name, blob.Any, strings.NewReader(content)))(t)
				if content != newer {
					continue
				}
				r := launcher(tc.command...)
				now, err := bucket.Stat(t.Context(), attrs.Name)
				if r.code == 0 || !strings.Contains(r.errOut, "format") || err != nil ||
					now.Generation != put.Generation {
					t.Errorf("%s of a newer build: %v ended with %d, error %v, and said\n%s", attrs.Name, tc.command,
						r.code, err, r.errOut)
				}
			}
		}
		if found == 0 {
			t.Errorf("no object ends in %s", tc.ends)
		}
	}
}
