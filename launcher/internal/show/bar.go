package show

import (
	"fmt"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"coppice/internal/program"
	"coppice/launcher/internal/stager"
)

// StatusLine says how far something has come, in one line of a terminal, which it rewrites. Elsewhere it says nothing.
// It is safe for concurrent use.
type StatusLine struct {
	w    program.World
	mu   sync.Mutex
	text string    // what the line shows
	at   time.Time // when it was last drawn
}

// NewStatusLine returns the line of a program's output.
func NewStatusLine(w program.World) *StatusLine { return &StatusLine{w: w} }

const (
	redraw    = 100 * time.Millisecond // it need not be drawn more often than is visible
	tellEvery = 10 * time.Second       // how often something that goes on has a line where there is no terminal
)

// Show writes the first part, cut to the terminal's width, and of the others, in their order, each that still fits
// behind it. It draws nothing without a terminal, if the line is as before, or if it was drawn less than redraw ago;
// what comes in between is never shown.
func (l *StatusLine) Show(parts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.w.Terminal || l.w.Now().Sub(l.at) < redraw {
		return
	}
	width := l.width()
	line := text.Trim(program.Visible(parts[0]), width)
	for _, part := range parts[1:] {
		if longer := line + " · " + program.Visible(part); text.StringWidth(longer) <= width {
			line = longer
		}
	}
	if line != l.text {
		l.at = l.w.Now()
		l.write(line)
	}
}

// Clear removes the line, so that others can be written in its place. The next Show draws at once.
func (l *StatusLine) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text != "" {
		l.write("")
		l.at = time.Time{}
	}
}

// width is how many columns a line may have: one less than the terminal has, since some go on to the next line when one
// is full. A terminal of unknown width is taken to have 80.
func (l *StatusLine) width() int {
	width := l.w.Width
	if l.w.Columns != nil {
		width = l.w.Columns()
	}
	if width <= 1 {
		width = 80
	}
	return width - 1
}

// write replaces the line: blanks over the old text, which every terminal understands, and then the new one.
func (l *StatusLine) write(line string) {
	fmt.Fprintf(l.w.Out.Raw(), "\r%s\r%s", text.Pad("", min(text.StringWidth(l.text), l.width()), ' '), line)
	l.text = line
}

// StageBar shows the steps of a staging: on a terminal in a line that is rewritten, elsewhere in one for each, and how
// far a long one has come.
type StageBar struct {
	World program.World
	Quiet bool // shows nothing
	line  *StatusLine
	step  stager.Step
	told  time.Time // when its last line was written
}

// Report shows that a step has come to done of total. On a terminal that is one line; elsewhere there is a line when a
// step begins, and while it lasts one with its share at most every tellEvery. A step of unknown size (total 0) has only
// the first.
func (b *StageBar) Report(step stager.Step, done, total int64) {
	if b.Quiet {
		return
	}
	if b.line == nil {
		b.line = NewStatusLine(b.World)
	}
	begun, now := step != b.step, b.World.Now()
	b.step = step
	switch share := 100 * done / max(total, 1); {
	case b.World.Terminal:
		b.line.Show(fmt.Sprintf("%s %d %%", step, share))
	case begun:
		fmt.Fprintf(b.World.Err, "%s ...\n", step)
		b.told = now
	case now.Sub(b.told) >= tellEvery && total > 0:
		fmt.Fprintf(b.World.Err, "%s %d %%\n", step, share)
		b.told = now
	}
}

// Finish removes the line.
func (b *StageBar) Finish() {
	if b.line != nil {
		b.line.Clear()
	}
}
