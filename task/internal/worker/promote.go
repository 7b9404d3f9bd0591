package worker

import (
	"context"
	"time"

	"coppice/internal/protocol"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// verdict finds a paused trial of which can be said what becomes of it. last says that every trial has ended or is
// paused.
func (l *looking) verdict(ctx context.Context, last bool) (protocol.Answer, error) {
	var paused []sweep.Reached
	for _, t := range l.list.Trials {
		if t.Paused {
			paused = append(paused, sweep.Reached{Step: t.PausedAt(), Trial: t.Number})
		}
	}
	due, err := l.resumable(ctx, paused, last)
	if err != nil || due == nil {
		return protocol.Answer{}, err
	}
	l.due = *due
	return protocol.Answer{Yes: true, Trial: l.due.Trial}, nil
}

// turn picks one of the verdicts that are due: not all tasks want the same trial next.
func turn[T any](w *Worker, due []T) T { return due[w.Task%len(due)] }

// resumable returns one of the verdicts that are due on paused trials; nil if none is.
func (l *looking) resumable(ctx context.Context, paused []sweep.Reached, last bool) (*sweep.Promotion, error) {
	w, q := l.w, search.Ladder{Coming: map[int]int{}, Last: last}
	halving := w.plan.Spec.Search.Stop.Rule == sweep.StopHalving
	var unread []*sweep.Promotion
	known := map[int]bool{} // the rungs about which all is known
	for _, p := range paused {
		if !known[p.Step] {
			if halving {
				q.Coming[p.Step] = l.coming(p.Step)
			}
			if q.Coming[p.Step] == 0 {
				if err := w.trials.GatherRungs(ctx, l.list, -1, p.Step, p.Step, w.rungs); err != nil {
					return nil, err
				}
			}
			known[p.Step] = true
		}
		if q.Coming[p.Step] > 0 {
			continue
		}
		own, read := w.rungs[sweepstore.RungKey{Step: p.Step, Trial: p.Trial}]
		if !read { // a damaged record: the trial passes the rung
			passes := w.promotion(p, true, "its score at the rung cannot be read")
			passes.Unread = true
			unread = append(unread, passes)
			continue
		}
		q.Paused = append(q.Paused, own)
	}
	if len(unread) > 0 {
		return turn(w, unread), nil
	}
	lost, err := l.lost(ctx, last && !halving)
	if err != nil {
		return nil, err
	}
	for _, r := range w.rungs {
		if !lost[r.Trial] {
			q.Reached = append(q.Reached, r)
		}
	}

	found := search.Resumable(w.plan, q)
	if len(found) == 0 {
		return nil, nil
	}
	r := turn(w, found)
	p := w.promotion(r.Reached, r.Action == search.GoOn, r.Reason)
	p.Seen, p.Last = r.Seen(), r.Last
	return p, nil
}

// lost returns the trials that have ended without a model for another reason than that others were better. When nothing
// is left to train, they count no more at their rungs: the next best goes on in their place, so that a sweep whose best
// trials fail has a model nevertheless. With halving this would depend on how soon a trial fails.
func (l *looking) lost(ctx context.Context, asked bool) (map[int]bool, error) {
	out := map[int]bool{}
	if !asked {
		return out, nil
	}
	if err := l.w.trials.Results(ctx, l.list, l.w.results, nil); err != nil {
		return nil, err
	}
	for trial, r := range l.w.results {
		out[trial] = r.Status != sweep.StatusDone && r.Status != sweep.StatusStopped
	}
	return out, nil
}

// coming counts the trials that may still come to a rung.
func (l *looking) coming(step int) (n int) {
	for _, t := range l.list.Trials {
		come := t.Ended || l.w.plan.Trials[t.Number].Refit // which has no rungs
		for at := range t.Rungs {
			come = come || at >= step
		}
		come = come || t.PausedAt() >= step // though its score there is lost
		if !come {
			n++
		}
	}
	return n
}

// promotion returns what becomes of a paused trial.
func (w *Worker) promotion(of sweep.Reached, promoted bool, reason string) *sweep.Promotion {
	return &sweep.Promotion{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: of.Trial, Step: of.Step,
		Score: of.Score, Promoted: promoted, Reason: reason,
		Seen: []sweep.Reached{}, Task: w.Task, Attempt: w.Attempt, At: time.Now().UTC()}
}

// decide writes the verdict that was found last. If another task was faster, its verdict is the one that the holder
// reads.
func (l *looking) decide(ctx context.Context) error {
	created, err := l.w.trials.CreatePromotion(ctx, l.due)
	if created {
		l.w.Log.Info("what becomes of a paused trial", "trial", l.due.Trial, "trees", l.due.Step, "promoted",
			l.due.Promoted, "reason", l.due.Reason)
	}
	return err
}
