package registry_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// TestAMoveBeginsWhereTheLastOneEnded: an event written by hand claims a previous version at which the alias was not,
// or does not hold the SHA-256 of what was before it.
func TestAMoveBeginsWhereTheLastOneEnded(t *testing.T) {
	const mallory = `{"format":1,"model":"ctr","kind":"promoted","alias":"champion","sequence":1,"from":%FROM,"to":2,"by":"mallory","why":"x","at":"2026-11-01T00:00:00Z","previous":"%PREVIOUS"}`
	start := sha256.Sum256([]byte("registry/ctr/history/champion"))
	for name, tc := range map[string]struct{ from, previous, says string }{
		"a first move from a version": {"1", hex.EncodeToString(start[:]),
			"it moves the alias from version 1, but the alias was at no version"},
		"a first move without a link": {"0", "", "one of them was changed"},
		"a good first move":           {"0", hex.EncodeToString(start[:]), ""},
	} {
		store := blob.Memory()
		r := registry.New(store)
		register(t, r, "ctr", "one")
		register(t, r, "ctr", "two")
		text := strings.NewReplacer("%FROM", tc.from, "%PREVIOUS", tc.previous).Replace(mallory)
		must.Get(blob.Create(t.Context(), store, "registry/ctr/history/champion/00000001.json", []byte(text)))(t)
		_, err := r.History(t.Context(), "ctr")
		if tc.says == "" && err != nil || tc.says != "" &&
			(!problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: read with error %v, expected %q", name, err, tc.says)
		}
	}
}
