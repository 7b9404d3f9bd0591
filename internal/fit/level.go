package fit

import (
	"coppice/internal/calibrate"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// ByTime says that rows are divided by time.
func (t *Table) ByTime() bool { return t.ds.Manifest.ByTime() }

// Level returns the judged model's calibrator for the model of a final training, which has been trained on the rows: at
// that model's own level, where rows are split by time, and elsewhere as it is. p are its parameters.
func (t *Table) Level(m *gbt.Model, p *gbt.Params, judged *calibrate.Calibrator, threads int, parts ...sweep.Rows) (
	*calibrate.Calibrator, error) {
	if !t.ByTime() {
		return judged, nil
	}
	var raw []float64
	var label, weight []float32
	for _, part := range parts {
		rows, err := t.Select(part)
		if err != nil {
			return nil, err
		}
		scores, err := m.PredictBinned(&rows.Data, threads)
		if err != nil {
			return nil, err
		}
		raw, label, weight = append(raw, scores...), append(label, rows.Label...), append(weight, rows.Weight...)
	}
	return judged.Level(raw, label, weight, p.ShiftsLevel())
}
