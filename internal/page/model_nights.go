package page

import (
	"fmt"
	"slices"
	"time"

	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// Month is what became of a model's nights, newest first.
type Month struct {
	Standing sweep.Standing `json:"standing"` // now; without a champion, that is 0
	Nights   []ModelNight   `json:"nights"`
	Move     registry.Event `json:"move,omitzero"` // the last one of the champion
	Todo     string         `json:"todo,omitempty"`
	Unread   []string       `json:"-"` // what cannot be read of them
}

// Last is the newest night that counts (see Counts); nil if there is none.
func (m *Month) Last() *ModelNight {
	if i := slices.IndexFunc(m.Nights, ModelNight.Counts); i >= 0 {
		return &m.Nights[i]
	}
	return nil
}

// Asks returns what the model's nights ask of a person, in words. champion is the version that is live now.
//
// Two nights may ask: the newest one that runs and needs somebody, and the newest one that has ended and counts. If
// both do, the texts of both are returned. If there is neither, the text is that of the newest night that can be read,
// and without any night it is empty.
func (m *Month) Asks(champion int) string {
	todo := func(i int) sweep.Todo { return m.Nights[i].Todo(champion, m.InARow(champion)) }
	ended := slices.IndexFunc(m.Nights, ModelNight.Counts)
	running := slices.IndexFunc(m.Nights, func(n ModelNight) bool { return n.Verdict == "" && n.Asks.Due() })
	night := ended
	switch {
	case running >= 0 && ended >= 0 && todo(ended).Due():
		return todo(running).String() + " " + todo(ended).String()
	case running >= 0:
		night = running
	case ended < 0:
		night = slices.IndexFunc(m.Nights, func(n ModelNight) bool { return n.State != Unreadable })
	}
	if night < 0 {
		return ""
	}
	return todo(night).String()
}

// ModelNight is one night of a model: a sweep of it, or a table that was blocked before one, which has no ID. Its Night
// is the day of the sweep's slot, or else of its newest row, and Data the day of its newest row. Neither depends on
// when it ran.
type ModelNight struct {
	IndexSweep
	Data string    `json:"data,omitempty"`
	At   time.Time `json:"at"` // when the sweep was planned, or the table staged
	// Live is the version that was live after the night, and Age its age then, in days; 0 for none.
	Live int    `json:"champion,omitempty"`
	Age  int    `json:"age,omitempty"`
	Slot string `json:"-"` // the day by which nights are ordered: of its slot, or else of At
	// Clock follows Night where another night has the same one: when it was made, in UTC.
	Clock string `json:"-"`
	// Manual says that a person promoted what the night did not.
	Manual bool `json:"manual,omitempty"`

	Found string `json:"-"` // what staging found in the table, without notes
	// The gate's metric on tonight's test rows: of the version that was live before, and of the new one; NaN unless
	// they were compared.
	Judged              string  `json:"-"`
	LiveValue, NewValue float64 `json:"-"`
}

// InARow counts the nights since the one that made the champion that have ended without one (see Held). Nights that
// still run or were cancelled are passed over.
func (m *Month) InARow(champion int) (nights int) {
	for _, n := range m.Nights {
		if n.IndexSweep.Live(champion) {
			break
		}
		if n.Held() {
			nights++
		}
	}
	return nights
}

// Held reports whether the night has ended without promoting a version.
func (n ModelNight) Held() bool {
	return n.Counts() && n.Verdict != sweep.VerdictPromoted
}

// Word is the night's state as IndexSweep.Word has it, or that a person promoted its version.
func (n ModelNight) Word() string {
	if n.Manual {
		return "promoted by hand"
	}
	return n.IndexSweep.Word()
}

// Counts reports whether the night has ended by itself, neither running nor cancelled, so that it says how the model
// does.
func (n ModelNight) Counts() bool { return n.Verdict != "" && n.Verdict != sweep.VerdictCancelled }

// nights fills what the page says above the nights: Promoted, how many of them made the champion; Since and Became,
// when and how the present champion became it, which stay empty without one; and Answer.
func (p *modelPage) nights() {
	for _, n := range p.Nights {
		if n.Verdict == sweep.VerdictPromoted {
			p.Promoted++
		}
	}
	for _, m := range p.Moves { // oldest first, so the last one stays
		if m.Alias == registry.Champion && p.Champion > 0 {
			p.Since, p.Became = m.At, "promoted"
			if m.Kind == registry.RolledBack {
				p.Became = "restored by a rollback"
			}
		}
	}
	p.Answer = p.answer()
}

// answer returns what the page begins with: its title says which version is live, and its class how the last night
// went, if there was one.
func (p *modelPage) answer() answer {
	v := answer{answerOpen, "Nothing is live: no version was promoted"}
	if p.Champion > 0 {
		v.Title = fmt.Sprintf("Version %d is live", p.Champion)
	}
	if last := p.Last(); last != nil {
		v.Class = standing(last.IndexSweep, p.Champion)
	}
	return v
}
