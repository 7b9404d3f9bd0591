package registry_test

import (
	"io"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// contents returns an object's text.
func contents(t *testing.T, s blob.Store, object string) string {
	t.Helper()
	rc, _ := must.Get2(s.Open(t.Context(), object, blob.Range{}))(t)
	defer rc.Close()
	text := must.Get(io.ReadAll(rc))(t)
	return string(text)
}

// chained is a model with three versions, each of which became the champion.
func chained(t *testing.T) (blob.Store, *registry.Registry) {
	t.Helper()
	s := blob.Memory()
	r := registry.New(s)
	for i, key := range []string{"a", "b", "c"} {
		register(t, r, "ctr", key)
		must.Get(r.Promote(t.Context(), "ctr", i+1, registry.Expect{Version: i}, act(i, "better")))(t)
	}
	return s, r
}

func TestVerifyWholeHistory(t *testing.T) {
	_, r := chained(t)
	must.Get(r.Rollback(t.Context(), "ctr", registry.Champion, registry.Expect{Version: 3},
		act(4, "alarm")))(t)
	v, err := r.Verify(t.Context(), "ctr")
	if err != nil {
		t.Fatalf("verify of an untouched history: %v", err)
	}
	h := v.Heads[0]
	if v.Versions != 3 || v.Files != 9 || len(v.Moves) != 4 || h.Version != 2 || h.Sequence != 4 ||
		v.Moves[3] != h.SHA256 {
		t.Errorf("verified %+v, want 3 versions, 9 files, 4 chained moves that end at version 2", v)
	}
}

// If anything is changed in a history, a version's record or a file, Verify names the object.
func TestVerifyNoticesEveryChange(t *testing.T) {
	const history, champion = "registry/ctr/history/champion/", "registry/ctr/aliases/champion.json"
	for name, tc := range map[string]struct{ object, old, fresh, named string }{
		"reason of the first move": {history + "00000001.json", `"why": "better"`, `"why": "worse"`,
			history + "00000002.json"},
		"time of the second move": {history + "00000002.json", "2026-11-02", "2026-10-02", history + "00000003.json"},
		"version of a move":       {history + "00000002.json", `"to": 2`, `"to": 3`, history + "00000003.json"},
		"link of a move": {history + "00000002.json", `"previous": "`, `"previous_": "`,
			history + "00000002.json"},
		"who made the last": {champion, `"by": "ada"`, `"by": "bob"`, history + "00000003.json"},
		"a version's record": {"registry/ctr/versions/2/version.json", "winner of a sweep", "winner of a race",
			"registry/ctr/versions/2/version.json"},
		"a file": {"registry/ctr/versions/2/model.txt", "model b", "model x",
			"registry/ctr/versions/2/model.txt"},
		"where a file is looked up": {"registry/ctr/versions/1/version.json", `"model": "ctr"`, `"model": "other"`,
			"registry/ctr/versions/1/version.json"},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := chained(t)
			before := contents(t, s, tc.object)
			after := strings.Replace(before, tc.old, tc.fresh, 1)
			if after == before {
				t.Fatalf("%s has no %q", tc.object, tc.old)
			}
			overwrite(t, s, tc.object, after)

			_, err := r.Verify(t.Context(), "ctr")
			if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), tc.named) {
				t.Errorf("after %s was changed: got %v, want an error that names %s", tc.object, err, tc.named)
			}
		})
	}
}

// A consistent history that belongs to another alias, or was cut and continued, does not verify either.
func TestVerifyNoticesAnotherHistory(t *testing.T) {
	s, r := chained(t)
	must.Get(r.SetAlias(t.Context(), "ctr", "canary", 2, registry.Expect{}, act(5, "watch")))(t)
	stolen := strings.ReplaceAll(contents(t, s, "registry/ctr/history/canary/00000001.json"), `"canary"`, `"champion"`)
	overwrite(t, s, "registry/ctr/history/champion/00000001.json", stolen)
	if _, err := r.Verify(t.Context(), "ctr"); err == nil || !strings.Contains(err.Error(), "champion/00000001.json") {
		t.Errorf("another alias's first move: got %v, want an error about champion/00000001.json", err)
	}
}
