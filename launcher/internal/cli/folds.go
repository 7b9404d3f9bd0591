package cli

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"coppice/internal/sweep"
)

// folded describes a sweep's cross-validated configurations in a snapshot.
type folded struct {
	Done    int          `json:"done"`
	Open    int          `json:"open"`
	Dropped int          `json:"dropped"`
	Failed  int          `json:"failed"`
	Best    *sweep.Rated `json:"best,omitempty"` // among those that are done
}

func newFolded(b sweep.Board) *folded {
	if b.Configurations == nil {
		return nil
	}

	f := &folded{}
	for _, c := range b.Configurations {
		switch c.State {
		case sweep.ConfigurationDone:
			f.Done++
		case sweep.ConfigurationDropped:
			f.Dropped++
		case sweep.ConfigurationFailed:
			f.Failed++
		default:
			f.Open++
		}
	}

	if f.Done > 0 {
		f.Best = &b.Configurations[0]
	}
	return f
}

func (f *folded) String() string {
	return fmt.Sprintf("%d done, %d dropped, %d failed, %d open", f.Done, f.Dropped, f.Failed, f.Open)
}

// estimate formats a configuration's mean with its standard error.
func estimate(c *sweep.Rated) string {
	switch {
	case c.Mean == nil:
		return "-"
	case c.SE == nil:
		return number(*c.Mean)
	}
	return fmt.Sprintf("%s ± %.2g", number(*c.Mean), *c.SE)
}

// foldsOverhead is the width of the other columns of a board of configurations.
const foldsOverhead = 84

// showConfigurations prints the board of a cross-validated sweep.
func (w *World) showConfigurations(p *sweep.Plan, b sweep.Board, top int) {
	t := w.newTable("rank", "configuration", p.Spec.Metric+" (mean ± SE)", "folds", "trees", "trials", "parameters")
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 7, WidthMax: w.textWidth(foldsOverhead),
		WidthMaxEnforcer: text.WrapSoft}})
	differ := differing(p)
	for i := range b.Configurations {
		if top > 0 && i >= top {
			break
		}

		c := &b.Configurations[i]
		rank, what := any(""), differ.of(c.Shown())
		switch c.State {
		case sweep.ConfigurationDone:
			rank = i + 1
		case sweep.ConfigurationOpen:
		default:
			what = c.State + ": " + shorten(firstLine(c.Reason)) + "  " + what
		}
		t.AppendRow(table.Row{rank, c.Configuration, estimate(c), fmt.Sprintf("%d of %d", c.Folds, c.Of), c.Trees,
			numbers(c.Trials), what})
	}
	t.Render()
	if r := b.Rows[0].Result; b.Rows[0].Trial.Refit && r != nil {
		how := fmt.Sprintf("%d trees on %d rows", r.Trees, r.TrainRows)
		if r.Status != sweep.StatusDone {
			how = fmt.Sprintf("%s: %s", r.Status, firstLine(r.Reason))
		}
		fmt.Fprintf(w.Out, "refit: trial %d, %s\n", r.Trial, how)
	}
}

// numbers lists numbers of trials.
func numbers(trials []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(trials), " ", ", "), "[]")
}

// ofFold says which fold of which configuration a trial is, as a prefix to its outcome.
func ofFold(t sweep.Trial) string {
	switch {
	case t.Refit:
		return "refit: "
	case t.Fold > 0:
		return fmt.Sprintf("configuration %d, fold %d: ", t.Configuration, t.Fold)
	}
	return ""
}
