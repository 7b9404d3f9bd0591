package gbt

// cells are sums of gradients by the coarse bins of two features: the first one's times coarseBins, and the second one's.
type cells [coarseBins * coarseBins]int64

// running are sums up to each coarse bin of a feature; the last are those of all.
type running [coarseBins]sums

// count adds up the sample's rows. The table of 64 words and the two features' bytes stay in the first-level cache; the remainder
// tells the compiler that no index can be outside.
func (l *lookahead) count(first, second int) (c cells) {
	a, b := l.codes[first][:len(l.words)], l.codes[second][:len(l.words)]
	for i, w := range l.words {
		c[(uint(a[i])*coarseBins+uint(b[i]))%(coarseBins*coarseBins)] += w
	}
	return c
}

// lookUp is the coarse bin of one feature in some rows. bins begin with the feature's in row 0, and are width apart from row to
// row. The rows lie anywhere, and their cache lines are on their way side by side; for the row's next feature they are there.
func lookUp(codes []uint8, rows []uint32, bins []byte, width int, coarse *[MaxBins]uint8) {
	for i, r := range rows {
		codes[i] = coarse[bins[int(r)*width]]
	}
}

// turn exchanges the two features.
func (c *cells) turn() {
	for i := range coarseBins {
		for j := range i {
			c[i*coarseBins+j], c[j*coarseBins+i] = c[j*coarseBins+i], c[i*coarseBins+j]
		}
	}
}

// upTo are, for each coarse bin of the first feature, the running sums of the second in rows up to that bin.
func (c *cells) upTo(pack packing) (x [coarseBins]running) {
	var below [coarseBins]int64 // of each of the second feature's bins
	for i := range x {
		var sum int64
		for j := range below {
			below[j] += c[i*coarseBins+j]
			sum += below[j]
			g, h := pack.sums(sum)
			x[i][j] = sums{float64(g), float64(h)}
		}
	}
	return x
}

func (x *running) minus(y *running) *running {
	z := *x
	for i := range z {
		z[i] = z[i].minus(y[i])
	}
	return &z
}
