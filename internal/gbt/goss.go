package gbt

import (
	"fmt"
	"math"
	"math/bits"
)

// goss draws the rows of a tree by their gradients (Ke et al., NeurIPS 2017, algorithm 2): all of the largest, and some
// of the others, whose weight grows by as much as there are fewer of them. What a row counts is |g h|, as in LightGBM,
// which also lets the first 1/learning_rate trees see all rows.
type goss struct {
	objective // of the table with these weights
	link      *link
	weight    []float32 // by row
	own       []float32 // the table's; nil if all are 1
	top, rest int       // how many rows are drawn for the size of their gradients, and of the others
	begin     int       // the first tree
	size      []float64 // |g h| of the rows in use, in their order
	ranked    []residual
}

// newGOSS returns nil if rows are not drawn like this.
func newGOSS(p *Params, d *Data) (*goss, error) {
	if p.DataSampleStrategy != byGradient {
		return nil, nil
	}
	n := d.total()
	s := &goss{link: d.link, own: d.Weight, weight: make([]float32, d.Rows), size: make([]float64, d.Used()),
		ranked: make([]residual, d.Used()),
		top:    max(1, int(float64(n)*p.TopRate)), rest: max(1, int(float64(n)*p.OtherRate)),
		begin: int(1 / p.LearningRate)}

	// The grid has to hold the heaviest that a row can become.
	for r := range s.weight {
		s.weight[r] = s.of(uint32(r)) * float32(max(1, float64(n-s.top)/float64(s.rest)))
	}
	weighted := *d
	weighted.Weight = s.weight
	of, err := newObjective(p, &weighted)
	if err != nil {
		return nil, err
	}
	s.objective = of[0]
	return s, nil
}

// of is a row's own weight.
func (s *goss) of(r uint32) float32 {
	if s.own == nil {
		return 1
	}
	return s.own[r]
}

// draw orders rows, which are ascending, so that the bag comes first, both parts ascending, gives the bag's rows their
// weights, and returns its size. In a team, each worker goes on with the draw where the one before it stopped.
func (s *goss) draw(k key, obj objective, raw []float64, rows, spare []uint32, pool *pool) int {
	pool.parallel(len(rows), grain, func(_, lo, hi int) {
		i := lo
		for b := newGradientBlock(obj, raw, rowSet{subset: rows}, lo, hi); b.next(); {
			for j, g := range b.g {
				s.size[i] = math.Abs(float64(g * b.h[j]))
				s.ranked[i] = residual{keyOf(s.size[i]), 1}
				i++
			}
		}
	})
	keys, _ := s.link.choose([][]residual{s.ranked}, pool, func(n int64) int64 { return max(n-int64(s.top), 0) })
	least := numberOf(keys[0])
	left := 0
	for _, x := range s.size {
		if x < least {
			left++
		}
	}
	left = s.link.count(left)

	want := min(s.rest, left)
	factor := float32(float64(left) / float64(max(want, 1)))
	in, out := 0, 0
	state := []int64{0, int64(left), int64(want)} // rows visited, others to come, and how many of them are to be drawn
	_ = s.link.inTurn(state, func() error {       // the link keeps its error
		k, others, want := k.from(uint64(state[0])), uint64(state[1]), uint64(state[2])
		for i, r := range rows {
			s.weight[r] = s.of(r)
			taken := s.size[i] >= least
			if !taken { // as in key.choose
				hi, _ := bits.Mul64(k.at(uint64(i)), others)
				others--
				if taken = hi < want; taken {
					want--
					s.weight[r] *= factor
				}
			}
			if taken {
				rows[in] = r
				in++
			} else {
				spare[out] = r
				out++
			}
		}
		state[0], state[1], state[2] = state[0]+int64(len(rows)), int64(others), int64(want)
		return nil
	})
	copy(rows[in:], spare[:out])
	return in
}

const byGradient = "goss"

func canonicalStrategy(name string) (string, error) {
	switch name {
	case "bagging", byGradient:
		return name, nil
	}
	return "", fmt.Errorf("there is no data_sample_strategy %.40q; use bagging or goss", name)
}

// checkGOSS refuses what cannot be combined with it, and its rates without it.
func (p *Params) checkGOSS() error {
	defaults := Defaults()
	switch {
	case p.DataSampleStrategy != byGradient && p.TopRate != defaults.TopRate:
		return &ParamError{topRate, "has no effect without data_sample_strategy: goss"}
	case p.DataSampleStrategy != byGradient && p.OtherRate != defaults.OtherRate:
		return &ParamError{otherRate, "has no effect without data_sample_strategy: goss"}
	case p.DataSampleStrategy != byGradient:
	case p.bags():
		return &ParamError{sampleStrategy, "goss draws the rows, and bagging would draw others; keep one"}
	case p.TopRate+p.OtherRate > 1:
		return &ParamError{
			sampleStrategy,
			fmt.Sprintf("top_rate %v and other_rate %v are more than all rows", p.TopRate, p.OtherRate),
		}
	case p.Boosting == averagedTrees:
		return &ParamError{sampleStrategy, "goss needs gradients that change, and those of rf do not"}
	case findObjective(p.Objective).renews:
		return &ParamError{
			sampleStrategy,
			fmt.Sprintf("goss has nothing to choose by with objective %s, whose gradients "+
				"do not depend on the size of the error", p.Objective),
		}
	}
	return nil
}
