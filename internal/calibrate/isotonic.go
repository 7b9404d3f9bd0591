package calibrate

// block is a run of rows whose values were pooled.
type block struct {
	first, last float64 // raw scores
	weight, pos float64
}

func (b block) mean() float64 { return b.pos / b.weight }

// maxBlocks bounds a calibrator. Real data stay far below: the number of blocks grows with the cube root of the number
// of rows.
const maxBlocks = 1 << 15

// fitIsotonic is least-squares isotonic regression by pooling adjacent violators (Ayer et al. 1955; Zadrozny and Elkan
// 2002 for calibration). Rows with equal scores are one point. One imaginary positive is added at the lowest score and
// one imaginary negative at the highest: Laplace's rule at the two ends, where pooling would otherwise give a
// probability of exactly 0 or 1. Elsewhere they have no effect.
func fitIsotonic(d *data, without int) *Calibrator {
	var blocks []block
	push := func(b block) {
		for n := len(blocks); n > 0 && blocks[n-1].pos*b.weight >= b.pos*blocks[n-1].weight; n-- {
			p := blocks[n-1]
			b = block{first: p.first, last: b.last, weight: p.weight + b.weight, pos: p.pos + b.pos}
			blocks = blocks[:n-1]
		}
		blocks = append(blocks, b)
	}

	point := block{weight: 1, pos: 1} // the imaginary positive, pooled with real rows of the lowest score
	begun := false

	// Rows are ascending: those with the same score become one point.
	for i, raw := range d.raw {
		if !d.in(i, without) {
			continue
		}
		if !begun {
			begun = true
			point.first, point.last = raw, raw
		}

		if raw != point.last {
			push(point)
			point = block{first: raw, last: raw}
		}

		w := d.weightOf(i)
		point.weight += w
		point.pos += float64(w * float64(d.label[i]))
	}

	point.weight++ // the imaginary negative
	push(point)
	return isotonicFrom(thin(blocks, maxBlocks))
}

// thin pools neighbours in pairs until there are at most limit blocks.
func thin(blocks []block, limit int) []block {
	for len(blocks) > limit {
		half := blocks[:0]
		for i := 0; i < len(blocks); i += 2 {
			b := blocks[i]
			if i+1 < len(blocks) {
				next := blocks[i+1]
				b = block{first: b.first, last: next.last, weight: b.weight + next.weight, pos: b.pos + next.pos}
			}
			half = append(half, b)
		}

		blocks = half
	}
	return blocks
}

func isotonicFrom(blocks []block) *Calibrator {
	c := &Calibrator{method: Isotonic}
	floor := edge
	for _, b := range blocks {
		value := min(max(b.mean(), floor), 1-edge) // equal means may be rounded to a decrease
		floor = value
		c.x = append(c.x, b.first)
		c.y = append(c.y, value)
		if b.last > b.first {
			c.x = append(c.x, b.last)
			c.y = append(c.y, value)
		}
	}

	return c
}
