package dataset

import (
	"strings"
	"testing"
)

func TestDivided(t *testing.T) {
	var whole, some Divided
	for group := range uint64(30) {
		for range 3 {
			whole.Add(group, uint8(group%3))
			some.Add(group, uint8(group%3))
		}
		if group%10 == 0 {
			some.Add(group, 3)
		}
	}
	if got := whole.Warnings("q"); got != nil {
		t.Errorf("each group in one split: got %v, want none", got)
	}
	got := some.Warnings("q")
	if len(got) != 1 || got[0].Code != HintDivided || got[0].Column != "q" ||
		!strings.Contains(got[0].Text, "3 of its 30 values") {
		t.Errorf("three of 30 groups in two splits: got %v, want one warning that counts them", got)
	}
}
