package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/registry"
)

// TestListAcrossNights: the newest version comes first, with the day of its slot, if it has one, and its aliases.
func TestListAcrossNights(t *testing.T) {
	w := newWorld(t)
	g := w.grow(2, 3)
	r := registry.New(g.buckets["registry"])
	v := must.Get(r.Get(t.Context(), "ctr", "2"))(t)
	files := map[string][]byte{"model.txt": []byte("x")}
	v.Info.Labels = map[string]string{"sweep": "nightly-20261119-2300", "dataset": "clicks@0123456789abcdef"}
	must.Get(r.Register(t.Context(), "ctr", "nightly", files, v.Info))(t)
	w.must("registry", "promote", "ctr@2", "--why", "better")
	w.must("registry", "promote", "ctr@2", "--alias", "canary", "--why", "5 %")

	var got []struct {
		Version int
		Night   string
		Aliases []string
	}
	must.Do(t, json.Unmarshal([]byte(w.must("registry", "list", "ctr", "--json")), &got))
	if len(got) != 3 || got[0].Version != 3 || got[0].Night != "2026-11-19" || got[2].Version != 1 ||
		got[2].Night != "" ||
		!slices.Equal(got[1].Aliases, []string{"canary", "champion"}) || got[0].Aliases == nil {
		t.Errorf("got %+v", got)
	}
	out := w.must("registry", "list", "ctr")
	if at := strings.Index(out, "2026-11-19"); at < 0 || at > strings.Index(out, "canary champion") {
		t.Errorf("the newest night is not first:\n%s", out)
	}
}
