package show

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"coppice/internal/program"
	"coppice/launcher/internal/stager"
)

// NewBar returns a bar on a terminal; one of unknown length has -1.
func NewBar(on program.Output, length int64, options ...progressbar.Option) *progressbar.ProgressBar {
	const throttle = 100 * time.Millisecond // it need not be drawn more often than is visible
	return progressbar.NewOptions64(length, append(options, progressbar.OptionSetWriter(on.Raw()),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(throttle))...)
}

// StageBar is a progress bar on a terminal, elsewhere a line per step, and how far a long one has come.
type StageBar struct {
	Output          program.Output
	Terminal, Quiet bool // Quiet shows nothing
	Now             func() time.Time
	step            stager.Step
	told            time.Time // when its last line was written
	bar             *progressbar.ProgressBar
}

// tellEvery is how often a step has a line.
const tellEvery = 10 * time.Second

// Report shows how far a step has come.
func (b *StageBar) Report(step stager.Step, done, total int64) {
	if b.Quiet {
		return
	}

	if step != b.step {
		b.Finish()
		b.step = step
		if !b.Terminal {
			fmt.Fprintf(b.Output, "%s ...\n", step)
			b.told = b.Now()
			return
		}
		b.bar = NewBar(b.Output, total, progressbar.OptionSetDescription(fmt.Sprintf("%-8s", step)),
			progressbar.OptionShowBytes(true), progressbar.OptionFullWidth())
	}
	if b.bar != nil {
		b.bar.ChangeMax64(total)
		_ = b.bar.Set64(done) // a bar that cannot be drawn is no reason to stop
	} else if now := b.Now(); !b.Terminal && now.Sub(b.told) >= tellEvery && total > 0 {
		fmt.Fprintf(b.Output, "%s %d %%\n", step, 100*done/total)
		b.told = now
	}
}

// Finish removes the bar.
func (b *StageBar) Finish() {
	if b.bar != nil {
		_ = b.bar.Finish()
		b.bar = nil
	}
}
