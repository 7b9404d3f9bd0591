package sweep

import (
	"regexp"
	"testing"
)

// TestTrace: a sweep's trace id follows from its id, and a span's id from that and the piece of work. They are always
// the same, and different for different sweeps and pieces of work.
func TestTrace(t *testing.T) {
	const id = ID("nightly-ctr-20261120")
	// The ids are in logs and registries that outlive any build.
	if got := id.TraceParent("trial", "7"); got != "00-152c37352ece24cb025f6460a368379c-ded18aa1c13701cb-00" {
		t.Errorf("the traceparent is %s, want the one that was always written", got)
	}
	if !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-00$`).MatchString(id.TraceParent()) {
		t.Errorf("the traceparent %s has not the form of one", id.TraceParent())
	}
	seen := map[string]bool{}
	for _, span := range []string{id.Span(), id.Span("trial", "7"), id.Span("trial", "17"), id.Span("trial7"),
		ID("nightly-ctr-20261121").Span("trial", "7")} {
		if seen[span] {
			t.Errorf("two pieces of work have the span %s, want different ones", span)
		}
		seen[span] = true
	}
	if id.Trace() == ID("nightly-ctr-20261121").Trace() {
		t.Error("two sweeps have one trace, want two")
	}
}
