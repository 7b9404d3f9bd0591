package program

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"

	"coppice/internal/sweep"
)

// LogOrigin says where a process's log lines come from.
type LogOrigin struct {
	Program string // task, aggregator, launcher
	Version string
	Project string // the project of the traces; "" for none
}

// The fields that Cloud Logging extracts from a JSON line; all others stay in the entry's payload. Source:
// https://cloud.google.com/logging/docs/structured-logging#structured_logging_special_fields
const (
	fieldSeverity = "severity"
	fieldMessage  = "message"
	fieldSource   = "logging.googleapis.com/sourceLocation"
	fieldTrace    = "logging.googleapis.com/trace"
	fieldSpan     = "logging.googleapis.com/spanId"
	fieldLabels   = "logging.googleapis.com/labels"
)

// Logger writes one JSON object per line with the field names that Cloud Logging understands. A line with an attribute
// "sweep", from With or its own, carries that sweep's trace, and with "trial" in addition the trial's span, so that the
// code that logs need not know about traces. Secrets are removed (see Redact).
func Logger(w io.Writer, o LogOrigin) *slog.Logger {
	return slog.New(&handler{
		origin: o,
		json:   slog.NewJSONHandler(redacting{w}, &slog.HandlerOptions{AddSource: true, ReplaceAttr: rename}),
	})
}

// rename gives slog's own fields Cloud Logging's names; "time" already has the right name and form.
func rename(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 { // within a group, an attribute of the same name is the caller's
		return a
	}

	switch a.Key {
	case slog.LevelKey:
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.String(fieldSeverity, severity(level))
		}
	case slog.MessageKey:
		a.Key = fieldMessage
	case slog.SourceKey:
		if s, ok := a.Value.Any().(*slog.Source); ok {
			return slog.Group(fieldSource, "file", s.File, "line", strconv.Itoa(s.Line), "function", s.Function)
		}
	}

	return a
}

// severity is the name that Cloud Logging has for a level.
// Source: https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogSeverity
func severity(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "ERROR"
	case l >= slog.LevelWarn:
		return "WARNING"
	case l >= slog.LevelInfo:
		return "INFO"
	}
	return "DEBUG"
}

// handler collects the arguments of With and WithGroup, since the trace's fields have to be outside all groups.
type handler struct {
	origin LogOrigin
	json   slog.Handler
	given  []given
}

// given is one call of With or WithGroup.
type given struct {
	group string
	attrs []slog.Attr
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.json.Enabled(ctx, l) }

// with returns a copy of the handler with one more call. The slice is clipped, so that two copies do not share its end.
func (h *handler) with(g given) slog.Handler {
	c := *h
	c.given = append(slices.Clip(h.given), g)
	return &c
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	return h.with(given{attrs: attrs})
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(given{group: name})
}

// Handle writes a record. It puts the groups that were collected around the record's own attributes, innermost first,
// and adds the fields for Cloud Logging outside of all groups.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	attrs := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	for _, g := range slices.Backward(h.given) { // the last call is the innermost
		if g.group != "" {
			attrs = []slog.Attr{{Key: g.group, Value: slog.GroupValue(attrs...)}}
		} else {
			attrs = append(slices.Clip(g.attrs), attrs...)
		}
	}

	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	out.AddAttrs(attrs...)
	out.AddAttrs(h.special(attrs)...)
	return h.json.Handle(ctx, out)
}

// special returns the fields for Cloud Logging: labels with the program and version, and, if the line's attributes name
// a sweep, the sweep's trace and the span of the trial or else of the program. A text that cannot be a sweep's id
// counts as none.
func (h *handler) special(attrs []slog.Attr) []slog.Attr {
	labels := []any{"coppice_program", h.origin.Program, "coppice_version", h.origin.Version}
	var id sweep.ID
	work := []string{h.origin.Program} // what the span is of, from which id.Span makes its number
	for _, a := range attrs {
		switch v := a.Value.Resolve().String(); a.Key {
		case "sweep":
			if sweep.CheckID(v) == nil {
				id = sweep.ID(v)
			}
		case "trial":
			work = []string{"trial", v}
		}
	}

	if id == "" {
		return []slog.Attr{slog.Group(fieldLabels, labels...)}
	}
	trace := id.Trace()
	if h.origin.Project != "" {
		trace = "projects/" + h.origin.Project + "/traces/" + trace
	}
	return []slog.Attr{
		slog.Group(fieldLabels, append(labels, "coppice_sweep", string(id))...),
		slog.String(fieldTrace, trace), slog.String(fieldSpan, id.Span(work...)),
	}
}
