package fit

import (
	"maps"

	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// Complete overlays a trial's own parameters on the common ones and lets the trainer fill in the rest. An error says
// why they cannot be trained on a table with these features.
func Complete(base, own sweep.Params, features []gbt.Feature) (sweep.Params, error) {
	all := maps.Clone(base)
	maps.Copy(all, own)
	p, err := gbt.ParseParams(all)
	if err == nil {
		p, err = p.ForTable(features)
	}
	if err != nil {
		return nil, err
	}
	return p.Map(), nil
}

// Complete is Complete for this table.
func (t *Table) Complete(base, own sweep.Params) (sweep.Params, error) {
	return Complete(base, own, t.features)
}
