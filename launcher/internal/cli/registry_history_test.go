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

func TestVerify(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	var verified registry.Verification
	out := w.must("registry", "show", "ctr", "--verify", "--json")
	if err := json.Unmarshal([]byte(out), &verified); err != nil || len(verified.Moves) != 3 ||
		verified.Heads[0].SHA256 != verified.Moves[2] {
		t.Fatalf("got %s (%v), want three moves, the last of which is the head", out, err)
	}
	if out := w.must("registry", "show", "ctr", "--verify"); !strings.Contains(out, verified.Moves[2]) ||
		!strings.Contains(out, "everything is unchanged") {
		t.Errorf("got\n%s", out)
	}
	w.refused(sweep.ExitNotFound, "ctx", "registry", "show", "ctx", "--verify")
	w.refused(sweep.ExitUsage, "verify", "registry", "show", "ctr", "--verify", "--history")
	if code, out, errOut := w.run("registry", "show", "ctr@1", "--verify"); code != sweep.ExitUsage || out != "" ||
		!strings.Contains(errOut, "--verify checks the whole model: launcher registry show ctr --verify") {
		t.Errorf("a version alone: %d, %s%s", code, out, errOut)
	}

	if _, err := w.buckets["registry"].Put(t.Context(), "registry/ctr/versions/2/model.txt", blob.Any,
		strings.NewReader("tree 9")); err != nil {
		t.Fatal(err)
	}
	w.refused(sweep.ExitInput, "registry/ctr/versions/2/model.txt is damaged", "registry", "show", "ctr", "--verify")
}
