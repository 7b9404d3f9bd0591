package backtest

import (
	"reflect"
	"testing"
)

// TestFinal: a night's final model has seen the days that its judged model was checked on, and the judged one is that
// of a backtest without a final training.
func TestFinal(t *testing.T) {
	text := clicks(11, nil)
	without, with := play(t, plain+"final: {rows: train}\n", text), play(t, plain, text)
	gain := 0.0
	for i, n := range with.Nights {
		old := without.Nights[i]
		if n.Judged == nil || *n.Judged != old.Value || n.Model != old.Model || n.Trees != old.Trees {
			t.Errorf("%s: the judged model is %s with %d trees, worth %v; expected %s, %d and %v", n.Night, n.Model,
				n.Trees,
				n.Judged, old.Model, old.Trees, old.Value)
		}
		if n.Value == old.Value {
			t.Errorf("%s: the final model predicts tomorrow as the judged one does", n.Night)
		}
		for name, rule := range n.Rules {
			if !reflect.DeepEqual(rule.Seen, old.Rules[name].Seen) {
				t.Errorf("%s: rule %q has seen %+v, and %+v without a final training", n.Night, name, rule.Seen,
					old.Rules[name].Seen)
			}
		}
		gain += old.Value - n.Value
	}
	if gain <= 0 { // the signal drifts from day to day
		t.Errorf("the final models are worse by %v in all", -gain)
	}
	if again := play(t, plain+"final: {rows: all}\n", text); !reflect.DeepEqual(again, with) {
		t.Error("the same backtest again has other results")
	}
}
