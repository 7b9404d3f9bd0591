package encode

import (
	"context"
	"math"
)

const (
	// staleStretches is the number of periods in each of which a model is compared with another.
	staleStretches = 8
	staleBetter    = 6     // periods in which a delay has to be better
	staleGain      = 0.002 // least gain of a delay, as a share of the loss
)

// Staleness measures the loss caused by training rows seeing yesterday's labels while the model is used with older
// statistics: up to horizon after the last training row, in the unit of the times. It tries delays, which let training
// rows see only older labels, on the latest rows of the sample, as far as the horizon reaches, and returns the best
// delay and its gain as a share of the loss; 0 if none is better in total and in nearly all periods. The model has only
// Keys.
func (s *Search) Staleness(ctx context.Context, horizon float64) (delay, gain float64, err error) {
	if len(s.Label) < 2*minHold || len(s.Keys) == 0 || s.Time == nil || !(horizon > 0) {
		return 0, 0, nil
	}
	r := newRun(s)
	if len(r.folds) != 1 || !r.learnable() {
		return 0, 0, nil
	}
	judged, reach := r.within(horizon)
	if len(judged) < minHold {
		return 0, 0, nil
	}

	before, err := s.lossesOf(ctx, judged, s.Delay)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range []float64{reach / 4, reach / 2} {
		if d <= s.Delay {
			continue
		}
		after, err := s.lossesOf(ctx, judged, d)
		if err != nil {
			return 0, 0, err
		}
		if g := gained(before, after); g > gain {
			delay, gain = d, g
		}
	}
	return delay, gain, nil
}

// within returns the held-out rows, by time, that come within the horizon, and how far they reach.
func (r *run) within(horizon float64) (rows []uint32, reach float64) {
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

// lossesOf trains a model with the delay, and returns the losses of held-out rows.
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

// gained is the relative reduction of the rows' losses; 0 if it is too small, or is not found in nearly all periods.
func gained(before, after []float64) float64 {
	better := 0
	for k := range staleStretches {
		from, to := k*len(before)/staleStretches, (k+1)*len(before)/staleStretches
		if sum(after[from:to]) < sum(before[from:to]) {
			better++
		}
	}
	gain := 1 - sum(after)/max(sum(before), 1e-300)
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

// lossHasFallen reports whether the losses of rows, by time, have fallen by more than so many standard errors over
// stretches of time. Rows of one day share its weather: each of them is not one more proof.
func lossHasFallen(before, after []float64, errors float64) bool {
	var by [staleStretches]float64
	for k := range by {
		from, to := k*len(before)/staleStretches, (k+1)*len(before)/staleStretches
		by[k] = sum(before[from:to]) - sum(after[from:to])
	}
	total, squares := sum(by[:]), 0.0
	for _, b := range by {
		squares += (b - total/staleStretches) * (b - total/staleStretches)
	}
	return total > errors*math.Sqrt(squares*staleStretches/(staleStretches-1))
}
