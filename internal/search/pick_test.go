package search_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// finished is a sweep whose trials have ended.
type finished struct {
	plan  *sweep.Plan
	board sweep.Board
}

func (f finished) pick(require []*search.Condition, exclude map[int]string) search.Selection {
	return search.Pick(f.plan, f.board, "auc", require, exclude)
}

// board folds trials of which only scores and trees matter; a score of -1 is a failed trial, -2 one that has not ended.
func board(maximize bool, scores []float64, trees []int) finished {
	p := &sweep.Plan{Sweep: "s", Maximize: maximize}
	var results []sweep.Result
	for i, score := range scores {
		p.Trials = append(p.Trials, sweep.Trial{Number: i})
		r := sweep.Result{Sweep: "s", Trial: i, Status: sweep.StatusDone, Score: score, Trees: trees[i],
			Metrics: map[string]float64{"log_loss": 0.1 * float64(i)}}
		switch score {
		case -1:
			r.Status = sweep.StatusFailed
		case -2:
			continue
		}
		results = append(results, r)
	}
	return finished{p, sweep.Fold(p, results)}
}

// TestTheDefaultMayWin: then the reason says so, and what that means.
func TestTheDefaultMayWin(t *testing.T) {
	f := board(true, []float64{0.8, 0.75}, []int{10, 20})
	f.plan.Trials[0].Source = search.SourceDefault
	want := "trial 0 has the highest auc on valid, 0.8; it is the default configuration, and nothing else that may " +
		"win is better; the runner-up is trial 1 with 0.75, behind by 0.05 (6.3 %)"
	if s := f.pick(nil, nil); s.Reason != want {
		t.Errorf("the default wins: %q; want %q", s.Reason, want)
	}
}

func TestPick(t *testing.T) {
	require := func(text string) []*search.Condition {
		if text == "" {
			return nil
		}
		c := must.Get(search.CompileRequire(text, known([]string{"log_loss", "recall@1%"})))(t)
		return []*search.Condition{c}
	}
	five := board(true, []float64{0.7, 0.75, -1, 0.75, -2}, []int{10, 20, 0, 30, 0})
	for name, tc := range map[string]struct {
		of         finished
		require    string
		exclude    map[int]string
		candidates []int
		rejected   []sweep.Rejected
		reason     string
	}{
		"tie by trees": {five, "", nil, []int{1, 3, 0}, nil,
			"trial 1 has the highest auc on valid, 0.75; trial 3 has the same, and 30 trees instead of 20"},
		"tie by number": {board(false, []float64{0.3, 0.2, 0.2}, []int{9, 9, 9}), "", nil,
			[]int{1, 2, 0}, nil,
			"trial 1 has the lowest auc on valid, 0.2; trial 2 has the same with as many trees; the lower number wins"},
		"require": {five, "trees <= 25 && log_loss < 0.25", nil,
			[]int{1, 0}, nil,
			"trial 1 has the highest auc on valid, 0.75; the runner-up is trial 0 with 0.7, behind by 0.05 (6.7 %)"},
		"passed over": {five, "trees <= 15 && log_loss < 0.5", nil, []int{0},
			[]sweep.Rejected{
				{Trial: 1, Reason: "does not meet the requirement trees <= 15 && log_loss < 0.5: log_loss is 0.1 " +
					"trees is 20"},
				{Trial: 3, Reason: "does not meet the requirement trees <= 15 && log_loss < 0.5: log_loss is 0.3 " +
					"trees is 30"},
			},
			"trial 0 has the highest auc on valid, 0.7; it is the only one that may win; 2 that ranked higher may " +
				"not win"},
		"excluded": {five, "", map[int]string{1: "its model could not be verified"}, []int{3, 0},
			[]sweep.Rejected{{Trial: 1, Reason: "its model could not be verified"}},
			"trial 3 has the highest auc on valid, 0.75; the runner-up is trial 0 with 0.7, behind by 0.05 (6.7 %); " +
				"1 that ranked higher may not win"},
		"unknown value": {board(true, []float64{0.7}, []int{1}), "recall@1% > 0", nil, nil,
			[]sweep.Rejected{{Trial: 0,
				Reason: `whether it meets a requirement is not known: "recall@1% > 0": recall@1% is not known`}},
			"no trial can win: 1 done, of which 1 passed over; 0 ended without a model; 0 have not ended"},
		"nothing done": {board(true, []float64{-1, -2, -2}, []int{0, 0, 0}), "", nil, nil, nil,
			"no trial can win: 0 done, of which 0 passed over; 1 ended without a model; 2 have not ended"},
		"alone": {board(true, []float64{0.7}, []int{1}), "", nil, []int{0}, nil,
			"trial 0 has the highest auc on valid, 0.7; it is the only one that is done"},
		"from zero": {board(false, []float64{0, 0.5}, []int{1, 1}), "", nil, []int{0, 1}, nil,
			"trial 0 has the lowest auc on valid, 0; the runner-up is trial 1 with 0.5, behind by 0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.of.pick(require(tc.require), tc.exclude)
			if !reflect.DeepEqual(s.Candidates, tc.candidates) || !reflect.DeepEqual(s.Rejected, tc.rejected) {
				t.Errorf("picked %+v; want candidates %v, rejected %v", s, tc.candidates, tc.rejected)
			}
			if s.Reason != tc.reason {
				t.Errorf("got  %s\nwant %s", s.Reason, tc.reason)
			}
			winner, ok := s.Winner()
			if ok != (len(tc.candidates) > 0) || ok && winner != tc.candidates[0] {
				t.Errorf("winner %d, %v", winner, ok)
			}
		})
	}
}

// TestPickUntilOneCanBeUsed is how a caller asks: exclude the winner and ask again, until it can be used or none is
// left.
func TestPickUntilOneCanBeUsed(t *testing.T) {
	of, exclude := board(true, []float64{0.5, 0.9, 0.7}, []int{1, 1, 1}), map[int]string{}
	var order []int
	for {
		winner, ok := of.pick(nil, exclude).Winner()
		if !ok {
			break
		}
		order = append(order, winner)
		exclude[winner] = fmt.Sprintf("excluded %d", winner)
	}
	s := of.pick(nil, exclude)
	if !reflect.DeepEqual(order, []int{1, 2, 0}) || len(s.Rejected) != 3 ||
		!strings.HasPrefix(s.Reason, "no trial can win: 3 done, of which 3 passed over") {
		t.Errorf("%v, then %+v", order, s)
	}
}
