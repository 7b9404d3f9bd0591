//go:build unix

package world

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/blob"
)

// TestAnObjectIsDamagedAtAWrite: writing the second plan damages the first one, once, as another object with its own
// checksums; the report at the end counts it, and the foreign messages.
func TestAnObjectIsDamagedAtAWrite(t *testing.T) {
	spec, err := ParseFaults("f",
		[]byte("foreign_messages: 9\nat_write:\n  - {match: \"plans/*\", nth: 2, does: damage_object, target: "+
			"\"plans/a*\", how: cut}\n"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Start(t.Context(), Options{Data: t.TempDir(), Faults: spec, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	s := w.bucket(t, "owner", "coppice-sweeps")
	for i, name := range []string{"plans/a.json", "plans/b.json", "plans/c.json"} {
		if _, err := s.Put(t.Context(), name, blob.Absent, strings.NewReader("abcdef")); err != nil {
			t.Fatal(err)
		}
		want := "abcdef"
		if i >= 1 {
			want = "abc"
		}
		if text, _, err := blob.ReadAll(t.Context(), s, "plans/a.json", 100); err != nil || string(text) != want {
			t.Errorf("after %d plans the first one is %q, %v; want %q", i+1, text, err, want)
		}
	}
	w.Close()

	var counts map[string]int
	text, err := os.ReadFile(filepath.Join(w.Data(), FaultsFile))
	if err == nil {
		err = json.Unmarshal(text, &counts)
	}
	if err != nil || counts["object damaged"] != 1 || counts["foreign message"] != 9 {
		t.Errorf("%s says %v, %v; want one object damaged and 9 foreign messages", FaultsFile, counts, err)
	}
}
