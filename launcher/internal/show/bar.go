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

// Show writes the first part, cut to the terminal's width, and as many of the others as fit. It draws at most every
// redraw, and leaves out what comes in between.
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

// Clear removes the line.
func (l *StatusLine) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text != "" {
		l.write("")
		l.at = time.Time{}
	}
}

// width is how many columns a line may have. It is one less than the terminal has, since some go on to the next line
// when one is full.
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
// step begins, and one every tellEvery while it lasts.
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
