package show

import (
	"fmt"
	"math"
	"strings"

	"coppice/internal/sweep"
)

// curveWidth is the width of a learning curve in characters, sparkWidth that on the line of a trial that has just
// ended.
const (
	curveWidth = 40
	sparkWidth = 16
)

// Spark draws a trial's learning curve on its own scale, preceded by a blank; empty if there is none.
func Spark(points []sweep.CurvePoint, maximize bool) string {
	if len(points) < 2 {
		return ""
	}
	low, high := span(map[int][]sweep.CurvePoint{0: points})
	return " " + bars(points, sparkWidth, low, high, maximize)
}

// Curves writes the board's trials with their learning curves, given by trial.
func (w Printer) Curves(p *sweep.Plan, b sweep.Board, curves map[int][]sweep.CurvePoint) {
	low, high := span(curves)
	scale := interval(low, high)
	if low > high {
		scale = "none"
		w.printf("no trial of sweep %s has a learning curve yet: trees are scored only with early stopping "+
			"(early_stopping_rounds), and a curve is written when its trial ends\n", p.Sweep)
	}
	t := w.Table("rank", "trial", p.Spec.Metric, "trees", "best",
		fmt.Sprintf("%s on valid, %s", p.Spec.Metric, scale))
	for i, row := range b.Rows {
		rank, score, trees, best := any(""), "-", any(""), any("")
		if r := row.Result; r != nil {
			score, trees = r.State(), r.TreesGrown
			if r.Status == sweep.StatusDone {
				rank, score, best = i+1, Number(r.Score), r.BestIteration
			}
		}
		if b.Configurations != nil { // scores of different folds are not comparable
			rank = FoldOf(row.Trial)
		}
		n := row.Trial.Number
		t.Row(rank, n, score, trees, best, bars(curves[n], curveWidth, low, high, p.Maximize))
	}
	t.Print()
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
