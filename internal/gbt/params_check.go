package gbt

// check refuses values that contradict each other.
func (p *Params) check() error {
	classes := posBagging
	if p.PosBaggingFraction == 1 {
		classes = negBagging
	}

	switch {
	case p.IsUnbalance && p.ScalePosWeight != 1:
		return &ParamError{"is_unbalance", "cannot be combined with scale_pos_weight; keep one"}
	case p.PathSmooth > 0 && p.MinDataInLeaf < 2:
		return &ParamError{pathSmooth, "needs min_data_in_leaf of 2 or more"}
	case !p.bagsByClass():
	case p.Objective != "binary":
		return &ParamError{classes, "needs objective binary, which has positive and negative rows"}
	case p.BaggingFraction < 1:
		return &ParamError{classes, "cannot be combined with bagging_fraction; keep one"}
	case p.BaggingFreq == 0:
		return &ParamError{classes, "needs bagging_freq of 1 or more, without which no bag is drawn"}
	}
	return nil
}

// bagsByClass reports whether positive and negative rows have separate fractions.
func (p *Params) bagsByClass() bool { return p.PosBaggingFraction < 1 || p.NegBaggingFraction < 1 }

// bags reports whether trees see only some of the rows.
func (p *Params) bags() bool {
	return p.BaggingFreq > 0 && (p.BaggingFraction < 1 || p.bagsByClass())
}

// draws reports whether trees see different rows or features.
func (p *Params) draws() bool {
	return p.FeatureFraction < 1 || p.FeatureFractionByNode < 1 || p.ExtraTrees || p.bags()
}

// ForTable is ForColumns for a table with these features, checking names and kinds; a conflict is a *ParamError.
func (p Params) ForTable(features []Feature) (Params, error) {
	if err := p.check(); err != nil {
		return p, err
	}
	p, err := p.ForColumns(columnNames(features))
	if err == nil {
		err = p.MonotoneConstraints.check(features)
	}
	return p, err
}

// forCopies returns p for a table with that many copies of its rows: the minimum sizes of a leaf and of a group of
// categories apply to original rows. Penalties are unchanged.
func (p Params) forCopies(copies int) Params {
	n := max(copies, 1)
	p.MinDataInLeaf *= n
	p.MinDataPerGroup *= n
	p.MinSumHessian *= float64(n)
	return p
}
