package registry_test

import (
	"errors"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/registry"
)

// TestAMoveBeginsWhereTheLastOneEnded: an event written by hand, in the form of builds that did not chain moves, claims
// a previous version at which the alias was not.
func TestAMoveBeginsWhereTheLastOneEnded(t *testing.T) {
	const mallory = `{"format":1,"model":"ctr","kind":"promoted","alias":"champion","sequence":%SEQ,"from":%FROM,"to":2,"by":"mallory","why":"x","at":"2026-11-01T00:00:00Z"}`
	for name, tc := range map[string]struct{ sequence, from, says string }{
		"a first move from a version": {"1", "1",
			"it moves the alias away from version 1, where it was not: it was at none"},
		"a good first move": {"1", "0", ""},
	} {
		store := blob.Memory()
		r := registry.New(store)
		register(t, r, "ctr", "one")
		register(t, r, "ctr", "two")
		text := strings.NewReplacer("%SEQ", tc.sequence, "%FROM", tc.from).Replace(mallory)
		if _, err := blob.Create(t.Context(), store, "registry/ctr/history/champion/00000001.json",
			[]byte(text)); err != nil {
			t.Fatal(err)
		}
		_, err := r.History(t.Context(), "ctr")
		var corrupt *registry.CorruptError
		if tc.says == "" && err != nil || tc.says != "" &&
			(!errors.As(err, &corrupt) || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: %v, expected %q", name, err, tc.says)
		}
	}
}
