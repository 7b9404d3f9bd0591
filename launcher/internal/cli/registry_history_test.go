package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// threeChampions registers three versions and makes each the champion, an hour apart, from 03:00 on.
func (w *world) threeChampions() *registry.Registry {
	w.t.Helper()
	r := registry.New(w.buckets["registry"])
	for i := range 3 {
		at := w.now.Add(time.Duration(i)*time.Hour + 250*time.Millisecond)
		files := map[string][]byte{"model.txt": []byte("tree " + strconv.Itoa(i))}
		if _, err := r.Register(w.t.Context(), "ctr", "sweep-"+strconv.Itoa(i), files,
			registry.Info{At: at, By: "aggregator"}); err != nil {
			w.t.Fatal(err)
		}
		if _, err := r.Promote(w.t.Context(), "ctr", i+1, registry.Expect{Version: i},
			registry.Act{By: "aggregator", Why: "gain", At: at}); err != nil {
			w.t.Fatal(err)
		}
	}
	return r
}

func TestHistoryAt(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	for at, want := range map[string]string{"2026-11-21T03:30": "1", "2026-11-21 04:00": "2",
		"2026-11-21T05:59+01:00": "2", "2026-11-21": "3", "2026-11-21T23:00:00Z": "3"} {
		var live []registry.Event
		out := w.must("registry", "history", "ctr", "--at", at, "--json")
		if err := json.Unmarshal([]byte(out), &live); err != nil || len(live) != 1 || strconv.Itoa(live[0].To) != want {
			t.Errorf("--at %s: got %s, want version %s", at, out, want)
		}
	}
	// The second is as the history shows it: the promotion of that second counts.
	if out := w.must("registry", "history", "ctr", "--at", "2026-11-21T05:00:00"); !strings.Contains(out,
		"│       3 │") {
		t.Errorf("at the second of a promotion: got\n%s", out)
	}
	if out := w.must("registry", "history", "ctr", "--at", "2026-11-21T04:30"); !strings.Contains(out,
		"champion │       2 │ 2026-11-21 04:00:00") {
		t.Errorf("got\n%s\nwant version 2 since four o'clock", out)
	}
	if out := w.must("registry", "history", "ctr", "--at", "2026-11-20"); !strings.Contains(out, "nothing was live") {
		t.Errorf("the day before: %s", out)
	}
	w.refused(sweep.ExitUsage, "2026-11-18T14:00", "registry", "history", "ctr", "--at", "yesterday")
}

func TestVerify(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	var verified []registry.Verification
	out := w.must("registry", "verify", "--json")
	if err := json.Unmarshal([]byte(out), &verified); err != nil || len(verified) != 1 || verified[0].Moves != 3 {
		t.Fatalf("got %s (%v), want one model with three moves", out, err)
	}
	head := verified[0].Heads[0].SHA256
	if out := w.must("registry", "verify", "ctr", "--head", head); !strings.Contains(out, head) ||
		!strings.Contains(out, "everything is unchanged") {
		t.Errorf("got\n%s", out)
	}
	w.refused(sweep.ExitInput, "rewritten", "registry", "verify", "ctr", "--head", strings.Repeat("ab", 32))
	w.refused(sweep.ExitUsage, "64 digits", "registry", "verify", "ctr", "--head", "abc")
	w.refused(sweep.ExitNotFound, "ctx", "registry", "verify", "ctx")

	if _, err := w.buckets["registry"].Put(t.Context(), "registry/ctr/versions/2/model.txt", blob.Any,
		strings.NewReader("tree 9")); err != nil {
		t.Fatal(err)
	}
	w.refused(sweep.ExitInput, "registry/ctr/versions/2/model.txt is damaged", "registry", "verify", "ctr")
}
