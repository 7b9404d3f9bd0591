package dataset

import "testing"

func TestDivided(t *testing.T) {
	whole, some, many := SplitsOfGroups{}, SplitsOfGroups{}, SplitsOfGroups{}
	for group := range uint64(30) {
		for range 3 {
			whole.Add(group, uint8(group%4))
			some.Add(group, uint8(group%4))
		}
		whole.Add(group, max(2, uint8(group%4))) // no split that models are selected on
		if group%10 == 0 {
			some.Add(group, uint8(group%4)^1)
		}
	}
	if got := whole.Divided(); got != nil {
		t.Errorf("no group in both train and valid: got %v, want none", got)
	}
	// 0, 10 and 20 have the remainders 0, 2 and 0.
	if got := some.Divided(); got == nil || *got != (Divided{2, 30}) || got.String() != "2 of 30" {
		t.Errorf("two of 30 groups in train and valid: got %v, want 2 of 30", got)
	}
	for group := range uint64(mostGroups + 1) {
		many.Add(group, 0)
		many.Add(group, 1)
	}
	if got, want := many.Divided(), "1048576 of the first 1048576"; got == nil || got.String() != want {
		t.Errorf("more groups than are remembered: got %v, want %s", got, want)
	}
}
