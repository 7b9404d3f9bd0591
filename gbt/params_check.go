package gbt

// forCopies is p for a table of so many copies of its rows: what a leaf or a group of categories needs is meant per original
// row. Penalties are not.
func (p Params) forCopies(copies int) Params {
	n := max(copies, 1)
	p.MinDataInLeaf *= n
	p.MinDataPerGroup *= n
	p.MinSumHessian *= float64(n)
	return p
}
