package conclude

import (
	"fmt"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/metric"
	"coppice/internal/sweep"
)

// segment adjusts the calibrator by segment. A row's segment is derived from raw values, which only the sample has. The
// adjustment is fitted to the sample's calib rows or, if it has none (a sample is drawn from one split), to every other
// one of its test rows. Those are no longer test rows: neither the gate nor a later night compares on them.
func (w *winner) segment(p *sweep.Plan, h *holdout) error {
	by := p.Spec.Calibrate.By
	encoder, err := cell.NewEncoder(h.manifest.Encoding(), h.levels)
	if err != nil {
		return &dataError{fmt.Errorf("calibrate by segment: %w", err)}
	}
	keys, err := encoder.SampleSegments(h.sample, by)
	if err != nil {
		return &dataError{fmt.Errorf("calibrate by segment: %w", err)}
	}

	fit, targets, raw := h.calibRows, h.calib, w.calib
	if len(fit) == 0 {
		var rest []place
		for i, at := range h.testRows {
			if i%2 == 0 {
				fit = append(fit, at)
			} else {
				rest = append(rest, at)
			}
		}
		h.testRows, targets, raw = rest, h.test, w.testRaw
	}

	s := rowsOf(fit, targets, raw, keys)
	adjusted, err := calibrate.FitSegments(w.calibrator, by, s.raw, s.label, s.weight, s.keys)
	if err != nil {
		return &dataError{fmt.Errorf("calibrate by segment: %w", err)}
	}

	// Measured on sampled test rows that it was not fitted to.
	t := rowsOf(h.testRows, h.test, w.testRaw, keys)
	report := &sweep.SegmentCalibration{By: by, Rows: len(s.raw), Segments: adjusted.SegmentCount(),
		TestRows: len(t.raw)}
	if report.Before, err = t.measure(w.calibrator.PredictAll(nil, t.raw)); err != nil {
		return err
	}
	if report.After, err = t.measure(adjusted.PredictSegments(nil, t.raw, t.keys)); err != nil {
		return err
	}
	w.calibrator, w.calibration.Segments = adjusted, report
	return nil
}

// segmented holds sampled rows with their segments.
type segmented struct {
	raw           []float64
	label, weight []float32
	keys          []uint64
}

func rowsOf(places []place, t dataset.Targets, raw []float64, keys []uint64) segmented {
	var s segmented
	for _, p := range places {
		s.raw, s.label, s.keys = append(s.raw, raw[p.part]), append(s.label, t.Label[p.part]), append(s.keys,
			keys[p.sample])
		if t.Weight != nil {
			s.weight = append(s.weight, t.Weight[p.part])
		}
	}
	return s
}

func (s *segmented) measure(pred []float64) (map[string]float64, error) {
	if len(pred) == 0 {
		return map[string]float64{}, nil
	}
	return evaluate(metric.Input{Label: s.label, Weight: s.weight, Pred: pred}, "calibration_ratio", "log_loss",
		"normalized_entropy")
}
