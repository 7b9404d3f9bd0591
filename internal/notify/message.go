package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"coppice/internal/sweep"
)

// VerdictMessage tells people and programs the outcome of a night. The same information is in an object, and the
// message may arrive twice, with the same ID.
type VerdictMessage struct {
	Format   int            `json:"format"`
	ID       string         `json:"id"`
	Occasion sweep.Occasion `json:"occasion"`
	Verdict  sweep.Verdict  `json:"verdict"`
	At       time.Time      `json:"at"`

	Sweep    sweep.ID `json:"sweep,omitempty"`
	Dataset  string   `json:"dataset,omitempty"` // NAME@VERSION
	Model    string   `json:"model,omitempty"`
	Version  int      `json:"version,omitempty"`  // the new one; 0 if none was registered
	Champion int      `json:"champion,omitempty"` // that it was compared with; 0 for none

	Standing *sweep.Standing `json:"standing,omitempty"` // of a concluded sweep that has not made a champion

	Facts  []string          `json:"facts,omitempty"`  // sentences for people, of a sweep with a winner
	Reason string            `json:"reason"`           // a sentence
	Todo   string            `json:"todo,omitempty"`   // what needs doing, in a sentence
	Checks []sweep.GateCheck `json:"checks,omitempty"` // failed checks of the gate
	Next   string            `json:"next,omitempty"`   // a command that shows more
}

// Limits on a message.
const (
	maxVerdictReason = 3000 // Slack cuts longer texts
	maxVerdictChecks = 10
)

// ConcludedMessage returns the notification of a sweep's conclusion. metric and dataset, as NAME@VERSION, are the
// sweep's, and planned is when its plan was written. They are empty, or zero, if unknown.
func ConcludedMessage(c *sweep.Conclusion, metric, dataset string, planned time.Time) VerdictMessage {
	m := VerdictMessage{Format: sweep.FormatVersion, ID: fmt.Sprintf("sweep/%s/%s", c.Sweep, sweep.OccasionConcluded),
		Occasion: sweep.OccasionConcluded, Verdict: c.Verdict(), At: c.At,
		Sweep: c.Sweep, Dataset: dataset, Model: c.Model, Version: c.Version,
		Reason: sweep.Cut(c.Why(), maxVerdictReason), Standing: c.Standing,
		Todo: commands.Replace(c.Todo(dataset, 0).String()), Next: "coppice status " + string(c.Sweep)}
	for _, fact := range c.Facts(metric, planned) {
		m.Facts = append(m.Facts, sweep.Cut(fact, maxVerdictReason))
	}
	if g := c.Gate; g != nil {
		m.Champion = g.Champion
		for _, check := range g.Checks {
			if !check.Passed && len(m.Checks) < maxVerdictChecks {
				check.Reason = sweep.Cut(check.Reason, maxVerdictReason)
				m.Checks = append(m.Checks, check)
			}
		}
	}
	return m
}

// RefusedMessage is the notification of a scheduled sweep that was not started because of its dataset.
func RefusedMessage(id sweep.ID, model, dataset, reason string, at time.Time) VerdictMessage {
	return VerdictMessage{Format: sweep.FormatVersion, ID: fmt.Sprintf("sweep/%s/%s", id, sweep.OccasionRefused),
		Occasion: sweep.OccasionRefused, Verdict: sweep.VerdictBlocked, At: at.UTC(),
		Sweep: id, Dataset: dataset, Model: model, Reason: sweep.Cut(reason, maxVerdictReason),
		Todo: commands.Replace(sweep.TodoBlocked(dataset)), Next: "coppice datasets show " + dataset}
}

// commands of a message are typed as people who read it have them.
var commands = strings.NewReplacer("`launcher ", "`coppice ")

// StagedMessage is the notification of a blocked dataset.
func StagedMessage(dataset, reason string, at time.Time) VerdictMessage {
	return VerdictMessage{Format: sweep.FormatVersion, ID: fmt.Sprintf("dataset/%s/%s", dataset, sweep.OccasionStaged),
		Occasion: sweep.OccasionStaged, Verdict: sweep.VerdictBlocked, At: at.UTC(),
		Dataset: dataset, Reason: sweep.Cut(reason, maxVerdictReason),
		Todo: commands.Replace(sweep.TodoBlocked(dataset)), Next: "coppice datasets show " + dataset}
}

// Encode returns the message as sent.
func (m *VerdictMessage) Encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode a verdict: %w", err)
	}
	return data, nil
}

// Attributes returns the message's subject, for subscription filters.
func (m *VerdictMessage) Attributes() map[string]string {
	a := map[string]string{"id": m.ID, "occasion": string(m.Occasion), "verdict": string(m.Verdict)}
	if m.Model != "" {
		a["model"] = m.Model
	}
	if m.Dataset != "" {
		a["dataset"] = m.Dataset
	}
	if m.Sweep != "" {
		a["sweep"], a["traceparent"] = string(m.Sweep), m.Sweep.TraceParent("aggregator")
	}
	return a
}

// Title returns the outcome in one line: of a version, or else of a sweep or a dataset. After sweep.ManyNights in a row
// without a new champion it begins with URGENT.
func (m *VerdictMessage) Title() string {
	var what string
	switch {
	case m.Version != 0:
		what = sweep.Headline(m.Model, m.Version, m.Verdict)
	case m.Sweep != "":
		what = "sweep " + string(m.Sweep)
	default:
		what = "dataset " + m.Dataset
	}

	if m.Occasion == sweep.OccasionRefused { // a message without a standing, so it is never urgent
		return what + ": not started"
	}
	title := what
	if m.Version == 0 {
		title += ": " + sweep.VerdictWords(m.Verdict)
	}
	if s := m.Standing; s != nil && s.Nights >= sweep.ManyNights {
		title = "URGENT: " + title + fmt.Sprintf(", %d nights in a row", s.Nights)
	}
	return title
}

// Lines returns what follows on the title: the facts or else the reason, what to do, how old the champion is, which
// sweep and dataset it is about, and last, if there is one, the command that shows more.
func (m *VerdictMessage) Lines() []string {
	out := []string{strings.Join(m.Facts, " ")}
	if len(m.Facts) == 0 {
		out[0] = m.Reason
	}
	if m.Todo != "" {
		out = append(out, m.Todo)
	}
	if s := m.Standing; s != nil {
		out = append(out, s.Text(m.At))
	}
	var about []string
	if m.Version != 0 {
		about = append(about, "sweep "+string(m.Sweep))
	}
	if m.Dataset != "" && (m.Version != 0 || m.Sweep != "") {
		about = append(about, "dataset "+m.Dataset)
	}
	if len(about) > 0 {
		out = append(out, strings.Join(about, ", "))
	}
	if m.Next != "" {
		out = append(out, m.Next)
	}
	return out
}
