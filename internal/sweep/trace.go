package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A sweep has one trace id everywhere: in the log lines of launcher, tasks and aggregator, in the attributes of its
// messages, on the version in the registry. It is derived from the sweep's own id, so it need not be passed on, and a
// line written by a task that only knows its sweep has it, too.

// Trace is the sweep's trace id: 32 hexadecimal digits, as W3C Trace Context wants it.
// Source: https://www.w3.org/TR/trace-context/#trace-id
func (id ID) Trace() string { return digest("trace", string(id))[:32] }

// Span is the id of one piece of work within the trace, such as Span("trial", "7"): 16 hexadecimal digits. All claims
// of a trial are the same piece of work.
func (id ID) Span(work ...string) string {
	return digest("span", string(id), strings.Join(work, "\x00"))[:16]
}

// TraceParent is trace and span in one, as the attribute traceparent of a message. The last two digits say that nothing
// is recorded elsewhere.
// Source: https://www.w3.org/TR/trace-context/#traceparent-header
func (id ID) TraceParent(work ...string) string {
	return "00-" + id.Trace() + "-" + id.Span(work...) + "-00"
}

// digest cannot begin with enough zeros to make an id invalid: that would be a preimage.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte("coppice\x00" + strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}
