package encode

import (
	"cmp"
	"context"
	"math"
	"slices"
)

const (
	// stalePeriods is the number of periods, with equally many rows, in each of which two models are compared.
	stalePeriods = 8
	staleBetter  = 6     // periods of the eight in which a delay has to be better: by chance in one case of seven
	staleGain    = 0.002 // least gain of a delay, as a share of the loss
)

// Staleness looks for a Delay that prepares a model for old statistics. In training, a row sees the labels of the rows
// just before it. In use, statistics are of rows up to horizon older, in the unit of the times. If a level's labels
// change within that time, a model trained with fresh statistics relies on them too much. With a delay, training rows
// see only older labels, too.
//
// Two delays are tried: half and a quarter of the horizon, or of the time that the held-out rows reach if that is less.
// The result is the better one, and its gain as a share of the loss on the held-out rows within the horizon. It is 0
// and 0, without an error, if neither is better (stableGain) and longer than s.Delay. So it is if there are too few
// rows, also of those to judge by, no different times, no s.Keys or no positive horizon, or if the training rows have
// equal labels. The model of this comparison has only the statistics of s.Keys and the columns of s.Base.
func (s *Search) Staleness(ctx context.Context, horizon float64) (delay, gain float64, err error) {
	if len(s.Label) < 2*minHold || len(s.Keys) == 0 || s.Time == nil || !(horizon > 0) {
		return 0, 0, nil
	}
	r := newRun(s)
	if len(r.folds) != 1 || !r.learnable() { // there are several, random folds where all times are equal
		return 0, 0, nil
	}
	// Judge by the held-out rows that follow the training rows within the horizon.
	judged, reach := r.rowsWithinHorizon(horizon)
	if len(judged) < minHold {
		return 0, 0, nil
	}

	// Compare models with two longer delays with one that has the present delay.
	before, err := s.lossesOf(ctx, judged, s.Delay)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range []float64{reach / 4, reach / 2} {
		if d <= s.Delay { // only a longer delay than the present one is worth a comparison
			continue
		}
		after, err := s.lossesOf(ctx, judged, d)
		if err != nil {
			return 0, 0, err
		}
		if g := stableGain(before, after); g > gain {
			delay, gain = d, g
		}
	}
	return delay, gain, nil
}

// LaterLosses returns the losses of later rows, by time: of each of the last four of eight periods of the sample, as a
// model of s.Base and s.Keys predicts it that has learnt from all rows before it. labels has one or more labels by row,
// in place of s.Label; their losses are added up. A period without rows before it, or with only equal labels before it,
// adds losses of 0.
func (s *Search) LaterLosses(ctx context.Context, labels [][]float32) ([]float64, error) {
	order := make([]uint32, len(s.Time))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(s.Time[a], s.Time[b]) })

	// A period starts with the first row of its time. So rows of one time are in one period, and a period may be empty.
	startOf := func(period int) int {
		at := period * len(order) / stalePeriods
		for at > 0 && at < len(order) && s.Time[order[at]] == s.Time[order[at-1]] {
			at--
		}
		return at
	}

	var losses []float64
	for period := stalePeriods / 2; period < stalePeriods; period++ {
		start, end := startOf(period), startOf(period+1)
		later := make([]float64, end-start)
		for _, label := range labels {
			if start == 0 || start == end {
				continue
			}
			one := *s
			one.Label, one.holdFrom = label, &s.Time[order[start]]
			r := newRun(&one)
			if !r.learnable() {
				continue
			}
			if err := r.retrain(ctx, nil, false); err != nil {
				return nil, err
			}
			for i, row := range order[start:end] {
				later[i] += one.lossOf(int(row), r.score[row])
			}
		}
		losses = append(losses, later...)
	}
	return losses, nil
}

// rowsWithinHorizon returns the held-out rows, by time, that are at most horizon later than the first of them. reach is
// the time from the first to the last one returned.
func (r *run) rowsWithinHorizon(horizon float64) (rows []uint32, reach float64) {
	hold := r.folds[0].hold
	for _, i := range r.order {
		if !hold[i] {
			continue
		}
		if len(rows) > 0 && r.s.Time[i]-r.s.Time[rows[0]] > horizon {
			break
		}
		rows = append(rows, i)
	}
	if len(rows) > 0 {
		reach = r.s.Time[rows[len(rows)-1]] - r.s.Time[rows[0]]
	}
	return rows, reach
}

// lossesOf trains a model with the delay, on the training rows, and returns the losses of the given held-out rows.
func (s *Search) lossesOf(ctx context.Context, rows []uint32, delay float64) ([]float64, error) {
	with := *s
	with.Delay = delay
	r := newRun(&with)
	if err := r.retrain(ctx, nil, false); err != nil {
		return nil, err
	}
	out := make([]float64, len(rows))
	for i, row := range rows {
		out[i] = s.lossOf(int(row), r.score[row])
	}
	return out, nil
}

// stableGain returns by which share the losses of rows, by time, are lower in after than in before. It is 0 if the
// share is less than staleGain, or if after is better in fewer than staleBetter of the periods.
func stableGain(before, after []float64) float64 {
	better := 0
	for k := range stalePeriods {
		from, to := k*len(before)/stalePeriods, (k+1)*len(before)/stalePeriods
		if sum(after[from:to]) < sum(before[from:to]) {
			better++
		}
	}
	gain := 1 - sum(after)/max(sum(before), 1e-300) // never divides by zero
	if better < staleBetter || gain < staleGain {
		return 0
	}
	return gain
}

func sum(losses []float64) (total float64) {
	for _, l := range losses {
		total += l
	}
	return total
}

// LossHasFallen reports whether the sum of the losses is lower in after than in before by more than so many standard
// errors. Both are of the same rows, by time. The standard error is computed from the differences of whole periods of
// time, because the rows of one day err together and are no independent observations.
func LossHasFallen(before, after []float64, errors float64) bool {
	var falls [stalePeriods]float64 // of the loss, by period
	for k := range falls {
		from, to := k*len(before)/stalePeriods, (k+1)*len(before)/stalePeriods
		falls[k] = sum(before[from:to]) - sum(after[from:to])
	}

	// The variance of a sum of n independent values is n times their sample variance, squares/(n-1).
	total, squares := sum(falls[:]), 0.0
	for _, fall := range falls {
		squares += (fall - total/stalePeriods) * (fall - total/stalePeriods)
	}
	return total > errors*math.Sqrt(squares*stalePeriods/(stalePeriods-1))
}
