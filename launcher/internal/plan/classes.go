package plan

import (
	"coppice/internal/dataset"
	"coppice/internal/sweep"
)

// checkClasses rejects held-out rows of a single class: hours later, nothing could be selected or calibrated with them.
// For rows carved out of a split, the whole split is checked.
func checkClasses(s *sweep.Spec, m *dataset.Manifest, h sweep.Holdout) error {
	if s.Objective != "binary" {
		return nil
	}

	for _, part := range []struct{ split, purpose string }{{h.Valid.Split, "to select by"},
		{h.Calib.Split, "to calibrate by"}} {
		rows, ok := m.FindSplit(part.split)
		if !ok || rows.LabelMean > 0 && rows.LabelMean < 1 {
			continue
		}
		class := "positive"
		if rows.LabelMean >= 1 {
			class = "negative"
		}
		return errorf("none of the %d rows of %s in dataset %s@%s is %s, so there is nothing %s; give %s more or "+
			"other rows under split: in its dataset.yaml and stage it again",
			rows.Rows, part.split, m.Name, m.Version, class, part.purpose, part.split)
	}
	return nil
}
