package sweep

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Occasion is why a notification is sent.
type Occasion string

// The occasions.
const (
	OccasionConcluded Occasion = "concluded" // the aggregator has concluded a sweep
	OccasionRefused   Occasion = "refused"   // a scheduled sweep was not started, because of its dataset
	OccasionStaged    Occasion = "staged"    // a dataset was staged, and is blocked
)

// VerdictMessage tells people and programs the outcome of a night. The same information is in an object, and the
// message may arrive twice, with the same ID.
type VerdictMessage struct {
	Format   int       `json:"format"`
	ID       string    `json:"id"`
	Occasion Occasion  `json:"occasion"`
	Verdict  Verdict   `json:"verdict"`
	At       time.Time `json:"at"`

	Sweep    ID     `json:"sweep,omitempty"`
	Dataset  string `json:"dataset,omitempty"` // NAME@VERSION
	Model    string `json:"model,omitempty"`
	Version  int    `json:"version,omitempty"`  // the new one; 0 if none was registered
	Champion int    `json:"champion,omitempty"` // that it was compared with; 0 for none

	Standing *Standing `json:"standing,omitempty"` // of a concluded sweep that has not made a champion

	Facts  []string    `json:"facts,omitempty"`  // sentences for people, of a sweep with a winner
	Reason string      `json:"reason"`           // a sentence
	Checks []GateCheck `json:"checks,omitempty"` // failed checks of the gate
	Next   string      `json:"next,omitempty"`   // a command that shows more
}

// Limits on a message.
const (
	maxVerdictReason = 3000 // Slack cuts longer texts
	maxVerdictChecks = 10
)

// Message returns the notification of a conclusion. dataset is NAME@VERSION, "" if unknown, as is when it was planned.
func (c *Conclusion) Message(dataset string, planned time.Time) VerdictMessage {
	m := VerdictMessage{Format: FormatVersion, ID: fmt.Sprintf("sweep/%s/%s", c.Sweep, OccasionConcluded),
		Occasion: OccasionConcluded, Verdict: c.Verdict(), At: c.At,
		Sweep: c.Sweep, Dataset: dataset, Model: c.Model, Version: c.Version, Reason: cut(c.Why(), maxVerdictReason),
		Next: "launcher status " + string(c.Sweep), Standing: c.Standing}
	for _, fact := range c.Facts(planned) {
		m.Facts = append(m.Facts, cut(fact, maxVerdictReason))
	}
	if g := c.Gate; g != nil {
		m.Champion = g.Champion
		for _, check := range g.Checks {
			if !check.Passed && len(m.Checks) < maxVerdictChecks {
				check.Reason = cut(check.Reason, maxVerdictReason)
				m.Checks = append(m.Checks, check)
			}
		}
	}
	return m
}

// RefusedMessage is the notification of a scheduled sweep that was not started because of its dataset.
func RefusedMessage(id ID, model, dataset, reason string, at time.Time) VerdictMessage {
	return VerdictMessage{Format: FormatVersion, ID: fmt.Sprintf("sweep/%s/%s", id, OccasionRefused),
		Occasion: OccasionRefused, Verdict: VerdictBlocked, At: at.UTC(),
		Sweep: id, Dataset: dataset, Model: model, Reason: cut(reason, maxVerdictReason),
		Next: "launcher datasets show " + dataset}
}

// StagedMessage is the notification of a blocked dataset.
func StagedMessage(dataset, reason string, at time.Time) VerdictMessage {
	return VerdictMessage{Format: FormatVersion, ID: fmt.Sprintf("dataset/%s/%s", dataset, OccasionStaged),
		Occasion: OccasionStaged, Verdict: VerdictBlocked, At: at.UTC(),
		Dataset: dataset, Reason: cut(reason, maxVerdictReason), Next: "launcher datasets show " + dataset}
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

// VerdictWords is a verdict in words, on pages, in the terminal and in messages: those of JSON with blanks. It is
// "running" for none.
func VerdictWords(v Verdict) string {
	return cmp.Or(strings.ReplaceAll(string(v), "_", " "), "running")
}

// Title is the outcome in one line.
func (m *VerdictMessage) Title() string {
	var what string
	switch {
	case m.Version != 0:
		what = headline(m.Model, m.Version, m.Verdict)
	case m.Sweep != "":
		what = "sweep " + string(m.Sweep)
	default:
		what = "dataset " + m.Dataset
	}

	if m.Occasion == OccasionRefused {
		return what + ": not started"
	}
	title := what
	if m.Version == 0 {
		title += ": " + VerdictWords(m.Verdict)
	}
	if s := m.Standing; s != nil && s.Nights >= ManyNights {
		title = "URGENT: " + title + fmt.Sprintf(", %d nights in a row", s.Nights)
	}
	return title
}

// Lines returns the rest: the reason, the subject and where to look.
func (m *VerdictMessage) Lines() []string {
	out := []string{strings.Join(m.Facts, " ")}
	if len(m.Facts) == 0 {
		out[0] = m.Reason
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

// Verdicts returns all verdicts.
func Verdicts() []Verdict {
	return []Verdict{VerdictPromoted, VerdictNotPromoted, VerdictNotComparable, VerdictBlocked, VerdictNoWinner,
		VerdictCancelled}
}

// checkVerdicts rejects words that are not verdicts.
func checkVerdicts(words []string) error {
	for _, w := range words {
		if !slices.Contains(Verdicts(), Verdict(w)) {
			return fmt.Errorf("%.40q is not a verdict; use %v", w, Verdicts())
		}
	}
	return nil
}

// Mark records that a notification was sent on one channel. It counts whatever the object's contents.
type Mark struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Channel string    `json:"channel"`
	At      time.Time `json:"at"`

	Written
}
