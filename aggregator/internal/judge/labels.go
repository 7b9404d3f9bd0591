package judge

import (
	"fmt"
	"math"

	"coppice/metric"
)

// Tonight's labels are not trusted where the champion, which they cannot have moved, knows them less than those of earlier nights: they were
// shuffled, turned round, lost or made up. Nights differ honestly, so what is asked for is far beyond chance.
const (
	labelsLevel = 0.999 // of the intervals
	labelsKept  = 0.6   // of the champion's ranking above chance: what must be left of it
	labelsRatio = 1.6   // by what factor its calibration may have changed
)

// labels says what the champion's predictions find wrong with tonight's labels.
func labels(e Evidence) []string {
	if !e.Binary || e.NotTonight != "" || e.NotReference != "" || e.Tonight.Old == nil || e.Reference.Old == nil {
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
		tonight, err := m.Interval(e.Tonight.input(e.Tonight.Old), metric.Confidence{Level: labelsLevel, Seed: e.Seed})
		if err != nil {
			continue // labels of one class: the calibration of the new model says so
		}
		before, err := m.Eval(e.Reference.input(e.Reference.Old))
		if err != nil {
			continue
		}
		if text := look.wrong(tonight, before); text != "" {
			found = append(found, fmt.Sprintf("version %d %s", e.Champion, text))
		}
	}
	return found
}

func ranking(tonight metric.Interval, before float64) string {
	if tonight.High >= 0.5+labelsKept*(before-0.5) {
		return ""
	}
	return fmt.Sprintf("ranks tonight's labels with an AUC of %.4f (%.4f to %.4f), and those of earlier nights with %.4f: tonight's labels are not like theirs",
		tonight.Value, tonight.Low, tonight.High, before)
}

func calibrated(tonight metric.Interval, before float64) string {
	nearest := max(tonight.Low, min(tonight.High, before)) // of the interval to what it was
	if !(before > 0) || !(nearest > 0) || math.Abs(math.Log(nearest/before)) <= math.Log(labelsRatio) {
		return ""
	}
	return fmt.Sprintf("predicts %.3g times tonight's mean label (%.3g to %.3g), and %.3g times that of earlier nights: tonight's label rate is not like theirs",
		tonight.Value, tonight.Low, tonight.High, before)
}
