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

// Last is the newest night that has ended, and not by hand; nil without one.
func (m *Month) Last() *ModelNight {
	if i := slices.IndexFunc(m.Nights, ModelNight.Counts); i >= 0 {
		return &m.Nights[i]
	}
	return nil
}

// Asks is what the newest night that has not ended and the last one that has ask of a person, with the version that is
// live; of nights that all run or were cancelled it is the newest. Empty without any.
func (m *Month) Asks(champion int) string {
	todo := func(i int) sweep.Todo { return m.Nights[i].Todo(champion, m.InARow(champion)) }
	i := slices.IndexFunc(m.Nights, ModelNight.Counts)
	asks := slices.IndexFunc(m.Nights, func(n ModelNight) bool { return n.Verdict == "" && n.Asks.Due() })
	switch {
	case asks >= 0 && i >= 0 && todo(i).Due():
		return todo(asks).String() + " " + todo(i).String()
	case asks >= 0:
		i = asks
	case i < 0:
		i = slices.IndexFunc(m.Nights, func(n ModelNight) bool { return n.State != Unreadable })
	}
	if i < 0 {
		return ""
	}
	return todo(i).String()
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

// InARow is how many of the last nights have not made the champion, one after the other.
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

// Held says that the night has ended and what it made, if anything, is not live.
func (n ModelNight) Held() bool {
	return n.Counts() && n.Verdict != sweep.VerdictPromoted
}

// Word is as of IndexSweep, or that a person promoted its version.
func (n ModelNight) Word() string {
	if n.Manual {
		return "promoted by hand"
	}
	return n.IndexSweep.Word()
}

// Counts says that the night has ended, and not by hand: it is one that a model's colour may be about.
func (n ModelNight) Counts() bool { return n.Verdict != "" && n.Verdict != sweep.VerdictCancelled }

// nights counts how often the champion changed.
func (p *modelPage) nights() {
	for _, n := range p.Nights {
		if n.Verdict == sweep.VerdictPromoted {
			p.Promoted++
		}
	}
	for _, m := range p.Moves {
		if m.Alias == registry.Champion && p.Champion > 0 {
			p.Since, p.Became = m.At, "promoted"
			if m.Kind == registry.RolledBack {
				p.Became = "restored by a rollback"
			}
		}
	}
	p.Answer = p.answer()
}

// answer says which version is live, and how the last night went.
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
