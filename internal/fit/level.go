package fit

import (
	"coppice/internal/calibrate"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// ByTime reports whether the dataset's rows are split by time.
func (t *Table) ByTime() bool { return t.ds.Manifest.ByTime() }

// Level adapts a calibrator to the model m of a final training. judged is the calibrator of the model that was
// evaluated, fitted to held-out rows. m has been trained on these rows, too, so none are left to fit another one. If
// rows are split by time, the result keeps the slope of judged and corrects its mean prediction for m, from m's scores
// of the rows of parts (Calibrator.Level). Otherwise judged is returned as it is. parts are held-out rows in the order
// of time, of which all have weights or none has. p are m's parameters, which say whether the mean prediction is off
// because one class weighs more.
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
