package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	"coppice/internal/program"
	"coppice/internal/sweep"
)

func TestBadVersions(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	w.must("registry", "promote", "ctr@2", "--alias", "canary", "--why", "5 %")
	w.must("registry", "bad", "ctr@2", "--why", "broken labels")
	out := w.must("registry", "show", "ctr@canary")
	for _, part := range []string{"canary", "broken labels"} {
		if !strings.Contains(out, part) {
			t.Errorf("show has no %q:\n%s", part, out)
		}
	}
	if out := w.must("registry", "rollback", "ctr", "--why", "a test"); !strings.Contains(out, "3 -> 1") {
		t.Errorf("rollback over the bad version: %s", out)
	}
	w.refused(sweep.ExitConflict, "broken labels", "registry", "promote", "ctr@2", "--why", "a test")
	w.must("registry", "bad", "ctr@2", "--undo", "--why", "they were right")
	w.must("registry", "promote", "ctr@2", "--why", "a test")
	if out := w.must("registry", "bad", "ctr@2", "--why", "x"); !strings.Contains(out, "still the champion") ||
		!strings.Contains(out, "canary still") {
		t.Errorf("marking the champion bad says nothing of the champion: %s", out)
	}
	out = w.must("registry", "show", "ctr", "--history")
	for _, part := range []string{"marked_bad", "cleared", "promoted canary"} {
		if !strings.Contains(out, part) {
			t.Errorf("the history has no %q:\n%s", part, out)
		}
	}
	w.refused(sweep.ExitUsage, "number", "registry", "promote", "ctr@1", "--alias", "7", "--why", "a test")
	w.must("registry", "promote", "ctr@1", "--alias", "canary", "--why", "a test")
	w.refused(sweep.ExitNotFound, "marked bad", "registry", "rollback", "ctr", "--alias", "canary", "--why", "a test")
	if out := w.must("registry", "rollback", "ctr", "--alias", "canary", "--to", "0", "--why",
		"it is over"); !strings.Contains(out, "canary of ctr: version 1 -> -") {
		t.Errorf("the alias is removed: %s", out)
	}
	w.refused(sweep.ExitNotFound, "canary", "registry", "show", "ctr@canary")
	w.refused(sweep.ExitUsage, "--why", "registry", "bad", "ctr@1")
	w.refused(sweep.ExitUsage, "which version", "registry", "bad", "ctr", "--why", "x")
}

func TestDeleteAsks(t *testing.T) {
	w := newWorld(t)
	w.threeChampions()
	w.refused(sweep.ExitUsage, "--yes", "registry", "delete", "ctr@1", "--why", "room")
	w.refused(sweep.ExitConflict, "champion", "registry", "delete", "ctr@3", "--why", "room", "--yes")
	w.refused(sweep.ExitUsage, "ctr@3", "registry", "delete", "ctr@champion", "--why", "room", "--yes")

	answer := func(text string) (int, string) {
		var out, errOut bytes.Buffer
		env := envconfig.MapLookuper(map[string]string{"COPPICE_PROJECT": "p", "COPPICE_DATASETS_BUCKET": "datasets",
			"COPPICE_SWEEPS_BUCKET": "sweeps", "COPPICE_REGISTRY_BUCKET": "registry"})
		code := Run(t.Context(), Setup{
			World: program.World{Args: []string{"registry", "delete", "ctr@1", "--why", "room"},
				In: strings.NewReader(text), Out: program.To(&out), Err: program.To(&errOut),
				Now: func() time.Time { return w.now }, Env: env},
			Connect: func(context.Context, Env) (*Backends, error) {
				return &Backends{Bucket: func(name string) blob.Store { return w.buckets[name] },
					Close: func() error { return nil }}, nil
			},
		})
		return code, out.String() + errOut.String()
	}
	if code, out := answer("y\n"); code != sweep.ExitUsage || !strings.Contains(out, "nothing was changed") {
		t.Errorf("the answer y: ended with %d\n%s", code, out)
	}
	w.must("registry", "show", "ctr@1")
	if code, out := answer("ctr@1\n"); code != 0 {
		t.Errorf("the version's name: ended with %d\n%s", code, out)
	}
	w.refused(sweep.ExitNotFound, "was deleted", "registry", "show", "ctr@1")
	if out := w.must("registry", "show", "ctr", "--history"); !strings.Contains(out, "deleted") {
		t.Errorf("the history has no deletion:\n%s", out)
	}
	w.must("registry", "delete", "ctr@2", "--why", "room", "--yes")
}
