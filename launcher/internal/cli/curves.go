package cli

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

// curveWidth is the width of a learning curve in characters, sparkWidth that on the line of a trial that has just
// ended.
const (
	curveWidth = 40
	sparkWidth = 16
)

// spark is a trial's learning curve on its own scale, preceded by a blank; empty if there is none.
func spark(points []sweep.CurvePoint, maximize bool) string {
	if len(points) < 2 {
		return ""
	}
	low, high := span(map[int][]sweep.CurvePoint{0: points})
	return " " + bars(points, sparkWidth, low, high, maximize)
}

// boardWithCurves is the --json output of a leaderboard with curves.
type boardWithCurves struct {
	sweep.Board
	Curves map[int][]sweep.CurvePoint `json:"curves"` // by trial
}

// leaderboardWithCurves shows the board's trials with their learning curves.
func (w *World) leaderboardWithCurves(ctx context.Context, s *sweepview.Sweep, b sweep.Board, asJSON bool) error {
	numbers := make([]int, len(b.Rows))
	for i, row := range b.Rows {
		numbers[i] = row.Trial.Number
	}
	curves, err := s.Curves(ctx, numbers)
	if err != nil {
		return err
	}
	if asJSON {
		return w.printJSON(boardWithCurves{b, curves})
	}

	low, high := span(curves)
	if low > high {
		fmt.Fprintf(w.Out, "no trial of sweep %s has a learning curve yet: trees are scored only with early "+
			"stopping (early_stopping_rounds), and a curve is written when its trial ends\n", s.Plan.Sweep)
	}
	t := w.newTable("rank", "trial", s.Plan.Spec.Metric, "trees", "best",
		fmt.Sprintf("%s on valid, %s to %s", s.Plan.Spec.Metric, number(low), number(high)))
	for i, row := range b.Rows {
		line := table.Row{"", row.Trial.Number, "-", "", "", bars(curves[row.Trial.Number], curveWidth, low, high,
			s.Plan.Maximize)}
		if r := row.Result; r != nil {
			line[2], line[3] = r.State(), r.TreesGrown
			if r.Status == sweep.StatusDone {
				line[0], line[2], line[4] = i+1, number(r.Score), r.BestIteration
			}
		}
		if b.Configurations != nil { // scores of different folds are not comparable
			line[0] = strings.TrimSuffix(ofFold(row.Trial), ": ")
		}
		t.AppendRow(line)
	}
	t.Render()
	return nil
}

// span is the lowest and the highest score of all curves; if there are none, low > high.
func span(curves map[int][]sweep.CurvePoint) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, points := range curves {
		for _, p := range points {
			low, high = min(low, p.Score), max(high, p.Score)
		}
	}
	return low, high
}

// heights are the eight bars of a curve.
var heights = []rune("▁▂▃▄▅▆▇█")

// bars draws a curve from its first tree to its last: each character is the last score of its share of the trees, and
// up is better.
func bars(points []sweep.CurvePoint, width int, low, high float64, maximize bool) string {
	var out strings.Builder
	n := min(width, len(points))
	for i := range n {
		score := points[(i+1)*len(points)/n-1].Score

		// If all scores are equal, the curve is a line in the middle.
		height := 0.5
		if high > low {
			height = (score - low) / (high - low)
		}
		if !maximize {
			height = 1 - height
		}
		out.WriteRune(heights[int(math.Round(height*float64(len(heights)-1)))])
	}
	return out.String()
}
