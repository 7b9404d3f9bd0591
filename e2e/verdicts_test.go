//go:build e2e

package e2e

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/notify"
	"coppice/internal/sweep"
)

// hook is a webhook of this machine, which everything that is started afterwards posts to.
type hook struct {
	t     *testing.T
	heard chan notify.VerdictMessage
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{t, make(chan notify.VerdictMessage, 1000)}
	first := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/hush" {
			t.Errorf("a webhook at %s, read with %v; expected /hush", r.URL.Path, err)
		}
		if first { // it is tried again
			first = false
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var m notify.VerdictMessage
		if err := json.Unmarshal(text, &m); err != nil {
			t.Errorf("a message that is no verdict: %v: %s", err, text)
			return
		}
		h.heard <- m
	}))
	t.Cleanup(s.Close)
	t.Setenv("COPPICE_WEBHOOK", s.URL+"/hush")
	t.Setenv("COPPICE_WEBHOOK_FORMAT", "json")
	return h
}

// told are the verdicts of each occasion once the last one has come, "VERDICT ID", ascending. Each may come once.
func (h *hook) told(last string) map[sweep.Occasion][]string {
	h.t.Helper()
	out, ids := map[sweep.Occasion][]string{}, map[string]bool{}
	end := time.After(time.Minute)
	for !ids[last] {
		select {
		case m := <-h.heard:
			if ids[m.ID] {
				h.t.Errorf("told twice: %+v", m)
			}
			ids[m.ID] = true
			out[m.Occasion] = append(out[m.Occasion], string(m.Verdict)+" "+m.ID)
		case <-end:
			h.t.Fatalf("%q was not told within a minute; told was %q", last, slices.Sorted(maps.Keys(ids)))
		}
	}
	for o := range out {
		slices.Sort(out[o])
	}
	return out
}

// checkWeek is what people hear of TestE2EWeekWithBadDays: each blocked table once, the sweep that was not started
// once, and how the two others ended.
func (h *hook) checkWeek(blocked int, slot1, slot2, slot3 string) {
	h.t.Helper()
	got := h.told("sweep/" + slot3 + "/concluded")
	staged := slices.Compact(got[sweep.OccasionStaged])
	if len(staged) != blocked ||
		slices.ContainsFunc(staged, func(s string) bool { return !strings.HasPrefix(s, "blocked dataset/clicks@") }) {
		h.t.Errorf("told of staged tables: %q; want %d that are blocked", staged, blocked)
	}
	if want := []string{"blocked sweep/" + slot2 + "/refused"}; !slices.Equal(got[sweep.OccasionRefused], want) {
		h.t.Errorf("told of refused sweeps: %q, want %q", got[sweep.OccasionRefused], want)
	}
	if c := got[sweep.OccasionConcluded]; len(c) != 2 || !slices.Contains(c, "promoted sweep/"+slot1+"/concluded") {
		h.t.Errorf("told of concluded sweeps: %q; want %s promoted, and %s", c, slot1, slot3)
	}
}
