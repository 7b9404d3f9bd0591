package judge

import (
	"fmt"
	"math"

	"coppice/internal/metric"
)

// Tonight's labels are not trusted if the champion, which cannot have been influenced by them, predicts them far worse
// than those of earlier nights: they were shuffled, inverted, lost or made up. Nights differ naturally, so the evidence
// must be far beyond chance.
const (
	labelsLevel = 0.999 // confidence of the intervals
	labelsKept  = 0.6   // least remaining share of the champion's ranking quality above chance
	labelsRatio = 1.6   // largest factor by which its calibration ratio may have changed
)

// WrongLabels describes what the champion's predictions show to be wrong with tonight's labels.
func WrongLabels(e Evidence) []string {
	reference := joined(e.Earlier)
	witness := latest(&e.Tonight)
	if !e.Binary || e.NotTonight != "" || e.NotReference != "" || witness == nil || reference.Old == nil {
		return nil
	}

	var found []string
	for _, look := range []struct {
		name  string
		wrong func(tonight metric.Interval, before float64) string
	}{{"auc", ranking}, {"calibration_ratio", calibrated}} {
		m, err := metric.Lookup(look.name)
		if err != nil {
			continue
		}
		tonight, err := m.Interval(e.Tonight.input(witness), metric.Confidence{Level: labelsLevel, Seed: e.Seed})
		if err != nil {
			continue // labels of a single class: the new model's calibration check reports that
		}
		before, err := m.Eval(reference.input(reference.Old))
		if err != nil {
			continue
		}
		if text := look.wrong(tonight, before); text != "" {
			found = append(found, fmt.Sprintf("version %d %s", e.measure(), text))
		}
	}
	return found
}

func ranking(tonight metric.Interval, before float64) string {
	if tonight.High >= 0.5+labelsKept*(before-0.5) {
		return ""
	}
	return fmt.Sprintf("ranks tonight's labels with an AUC of %.4f (%.4f to %.4f), and those of earlier nights with "+
		"%.4f: tonight's labels are not like theirs",
		tonight.Value, tonight.Low, tonight.High, before)
}

func calibrated(tonight metric.Interval, before float64) string {
	nearest := max(tonight.Low, min(tonight.High, before)) // the point of the interval closest to the earlier value
	if !(before > 0) || !(nearest > 0) || math.Abs(math.Log(nearest/before)) <= math.Log(labelsRatio) {
		return ""
	}
	// After a change that lasts, the latest version is right tonight, and wrong on nights before the change.
	if right := max(tonight.Low, min(tonight.High, 1)); math.Abs(math.Log(right)) <= math.Log(labelsRatio) {
		return ""
	}
	return fmt.Sprintf("predicts %.3g times tonight's mean label (%.3g to %.3g), and %.3g times that of earlier "+
		"nights: tonight's label rate is not like theirs",
		tonight.Value, tonight.Low, tonight.High, before)
}
