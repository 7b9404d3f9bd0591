package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// MaxCurve is how many scores a learning curve holds at most: about ten kilobytes.
const MaxCurve = 1024

// Curve is the sweep's metric on valid after every tree that one claim's holder has grown. Where there are more than MaxCurve trees
// it has every second, or fourth, and so on. It is written once, when the holder ends or gives up its trial; one that vanishes
// without notice leaves none.
type Curve struct {
	Format int       `json:"format"`
	Sweep  ID        `json:"sweep"`
	Trial  int       `json:"trial"`
	Claim  int       `json:"claim"`
	Metric string    `json:"metric"`
	First  int       `json:"first"`  // number of the tree after which the first score was taken; the model's first tree is 1
	Every  int       `json:"every"`  // trees from one score to the next
	Scores []float64 `json:"scores"` // seven significant digits

	last int // the tree that was added last

	Written
}

// Add notes the score after a tree. The number of a tree that does not follow the one before begins the curve anew, and so does a
// score that is no finite number.
func (c *Curve) Add(tree int, score float64) {
	follows := tree == c.last+1
	c.last = tree
	if math.IsNaN(score) || math.IsInf(score, 0) {
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

// Rounded is a copy with scores of seven significant digits, as they are written: a curve is to be looked at.
func (c *Curve) Rounded() Curve {
	out := *c
	out.Scores = make([]float64, len(c.Scores))
	for i, s := range c.Scores {
		out.Scores[i], _ = strconv.ParseFloat(strconv.FormatFloat(s, 'g', 7, 64), 64) // what was formatted can be parsed
	}
	return out
}

// DecodeCurve reads a claim's learning curve.
func DecodeCurve(data []byte) (*Curve, error) {
	var c Curve
	if err := decode("learning curve", data, &c, func() int { return c.Format }); err != nil {
		return nil, err
	}
	if err := CheckID(string(c.Sweep)); err != nil {
		return nil, &DecodeError{"learning curve", err}
	}
	if c.Trial < 0 || c.Trial >= MaxTrials || c.Claim < 0 || len(c.Scores) > MaxCurve ||
		c.First < 1 || c.First > math.MaxInt32 || c.Every < 1 || c.Every > math.MaxInt32/MaxCurve {
		return nil, &DecodeError{"learning curve", fmt.Errorf("trial %d, claim %d, %d scores from tree %d, one in %d", c.Trial, c.Claim, len(c.Scores), c.First, c.Every)}
	}
	return &c, nil
}

// CurvePoint is one score of a trial.
type CurvePoint struct {
	Tree  int     `json:"tree"`
	Score float64 `json:"score"`
}

// JoinCurves makes one curve, ascending by tree, of those that a trial's claims have left. A claim goes on from a tree or begins
// again: from its first tree on, what it says counts, and nothing of the claims before. Trees of a claim that left no curve are
// missing.
func JoinCurves(curves []Curve) []CurvePoint {
	// From the newest claim back: of each count the trees before those of all newer ones.
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
