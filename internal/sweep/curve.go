package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// MaxCurve is the most scores in a learning curve: about ten kilobytes.
const MaxCurve = 1024

// Curve is the sweep's metric on valid after every tree grown by one claim's holder. With more than MaxCurve trees it
// has every second one, or fourth, and so on. It is written once, when the holder ends or releases its trial; a holder
// that vanishes without notice leaves none.
type Curve struct {
	Format int       `json:"format"`
	Sweep  ID        `json:"sweep"`
	Trial  int       `json:"trial"`
	Claim  int       `json:"claim"`
	Metric string    `json:"metric"`
	First  int       `json:"first"`  // number of the tree of the first score; the model's first tree is 1
	Every  int       `json:"every"`  // trees between scores
	Scores []float64 `json:"scores"` // seven significant digits

	last int // number of the last tree added

	Written
}

// Add adds the score after a tree. If the tree does not follow the previous one, or the score is not finite, the curve
// starts over.
func (c *Curve) Add(tree int, score float64) {
	follows := tree == c.last+1
	c.last = tree
	if !Finite(score) {
		c.Scores = nil
		return
	}
	if !follows || len(c.Scores) == 0 {
		c.First, c.Every, c.Scores = tree, 1, c.Scores[:0]
	}
	if (tree-c.First)%c.Every != 0 {
		return
	}

	if len(c.Scores) == MaxCurve {
		for i := range MaxCurve / 2 {
			c.Scores[i] = c.Scores[2*i]
		}
		c.Scores, c.Every = c.Scores[:MaxCurve/2], 2*c.Every
	}
	c.Scores = append(c.Scores, score)
}

// Rounded returns a copy with scores of seven significant digits, as written: a curve is for display.
func (c *Curve) Rounded() Curve {
	out := *c
	out.Scores = make([]float64, len(c.Scores))
	for i, s := range c.Scores {
		out.Scores[i], _ = strconv.ParseFloat(strconv.FormatFloat(s, 'g', 7, 64), 64) // cannot fail
	}
	return out
}

// DecodeCurve reads a claim's learning curve.
func DecodeCurve(data []byte) (*Curve, error) {
	return decode("learning curve", data, func(c *Curve) error {
		if err := CheckID(string(c.Sweep)); err != nil {
			return err
		}
		if c.Trial < 0 || c.Trial >= MaxTrials || c.Claim < 0 || len(c.Scores) > MaxCurve ||
			c.First < 1 || c.First > math.MaxInt32 || c.Every < 1 || c.Every > math.MaxInt32/MaxCurve {
			return fmt.Errorf("trial %d, claim %d, %d scores from tree %d, one in %d",
				c.Trial, c.Claim, len(c.Scores), c.First, c.Every)
		}
		return nil
	})
}

// CurvePoint is one score of a trial.
type CurvePoint struct {
	Tree  int     `json:"tree"`
	Score float64 `json:"score"`
}

// JoinCurves joins the curves of a trial's claims, ascending by tree. A claim resumes from a tree or starts over: from
// its first tree on, its curve replaces those of earlier claims. Trees of a claim without a curve are missing.
func JoinCurves(curves []Curve) []CurvePoint {
	// From the newest claim back: of each, only trees before those of newer claims count.
	curves = slices.Clone(curves)
	slices.SortFunc(curves, func(a, b Curve) int { return cmp.Compare(b.Claim, a.Claim) })

	var points []CurvePoint
	before := math.MaxInt
	for _, c := range curves {
		for i, score := range c.Scores {
			if tree := c.First + i*c.Every; tree < before {
				points = append(points, CurvePoint{tree, score})
			}
		}

		if len(c.Scores) > 0 {
			before = min(before, c.First)
		}
	}

	slices.SortFunc(points, func(a, b CurvePoint) int { return cmp.Compare(a.Tree, b.Tree) })
	return points
}
