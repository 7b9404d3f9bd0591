package gbt

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const twoForced = `{"feature":"numb","threshold":30,"left":{"feature":"numa","threshold":50}}`

// TestEveryTreeBeginsWithForcedSplits: in their order, whatever is drawn; what is impossible is left out alone.
func TestEveryTreeBeginsWithForcedSplits(t *testing.T) {
	d := randomTable(tableSpec{rows: 6000, numerical: 4, categorical: 1, bins: 60, missing: 0.1, seed: 3})
	p := small()
	p.NumIterations, p.NumLeaves, p.FeatureFraction, p.MinDataInLeaf = 5, 12, 0.3, 1
	p.ForcedSplits = `{"feature":"numb","threshold":30,"left":{"feature":"numb","threshold":1e9,"left":` +
		`{"feature":0,"threshold":50}},"right":{"feature":"numc","threshold":20}}`
	m := mustTrain(t, &d.Data, p, Options{Threads: 2}).Model
	for i, tree := range m.Trees {
		bounds := d.Features[1].Bounds
		at := tree.Threshold[0]
		if tree.Feature[0] != 1 || !(at >= 30) || !(at < 30+2*(bounds[1]-bounds[0])+10) || tree.Decision[0]&2 == 0 {
			t.Errorf("tree %d begins with column %d at %v, missing values on the left %t; want 1 at 30 or the next "+
				"bound, true", i, tree.Feature[0], at, tree.Decision[0]&2 > 0)
		}
		if right := tree.Right[0]; right != 1 || tree.Feature[1] != 2 {
			t.Errorf("tree %d: node %d is on the right, and the second split is of column %d; want 1, and 2", i, right,
				tree.Feature[1])
		}
	}
	if len(m.Trees) != 5 {
		t.Errorf("got %d trees, want 5", len(m.Trees))
	}
	line := "[forcedsplits_filename: {feature:1,threshold:30,left:{feature:1,threshold:1000000000,left:{feature:0,"
	if !bytes.Contains(text(t, m), []byte(line)) {
		t.Errorf("the model has no line %s", line)
	}
}

// TestForcedSplitsAreRefused says what is wrong with each.
func TestForcedSplitsAreRefused(t *testing.T) {
	deep := strings.Repeat(`{"feature":0,"threshold":1,"left":`, 40) + `{"feature":0,"threshold":1}` +
		strings.Repeat("}", 40)
	for want, value := range map[string]any{
		`found "splits.json"; a file would not travel`: "splits.json",
		"found 3": 3,
		"right: {...}}: left.threshold is a string": `{"feature":1,"threshold":3,
			"left":{"feature":1,"threshold":"x"}}`,
		`unknown key "treshold"`:                         map[string]any{"feature": "age", "treshold": 3},
		"threshold":                                      map[string]any{"feature": "age"},
		"1.5 is not a column number":                     `{"feature":1.5,"threshold":3}`,
		"a feature is a column's name or number":         `{"feature":[1],"threshold":3}`,
		"values are nested more than 32 deep":            deep,
		fmt.Sprintf("splits; at most %d", maxColumnList): `{"feature":"` + strings.Repeat("a", maxColumnList) + `"}`,
		`there is no column "age"`:                       `{"feature":"age","threshold":3}`,
		"there is no column 7":                           `{"feature":7,"threshold":3}`,
		`column "cat e" is categorical and has no order`: `{"feature":4,"threshold":3}`,
		`column "numd" is one of ignore_column`: `{"feature":0,"threshold":3,` +
			`"right":{"feature":3,"threshold":1}}`,
	} {
		d := randomTable(tableSpec{rows: 50, numerical: 4, categorical: 1, bins: 10, seed: 3})
		p, err := ParseParams(map[string]any{"forced_splits": value, "ignore_column": "3"})
		if err == nil {
			_, err = p.ForTable(d.Features)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60v: got error %v, want %s", value, err, want)
		}
	}
}

// TestForcedSplitsAreCanonical: equal splits are the same configuration, however they are written.
func TestForcedSplitsAreCanonical(t *testing.T) {
	columns := []string{"numa", "numb", "twice", "twice"}
	for in, want := range map[string]string{
		"":        "",
		twoForced: twoForced,
		` {"threshold": 3e1, "left": {"feature": 0, "threshold": 50.0}, "feature": 1 } `: twoForced,
		`{"feature":3,"threshold":1}`:       `{"feature":3,"threshold":1}`,
		`{"feature":"twice","threshold":1}`: "error",
	} {
		checkCanonical(t, forcedSplits, in, columns, want)
	}
	checkCanonical(t, forcedSplits, map[string]any{"feature": "numb", "threshold": 30,
		"left": map[string]any{"feature": 0.0, "threshold": 50}}, columns, twoForced)
}

// FuzzForcedSplits: whatever is accepted is canonical after one reading.
func FuzzForcedSplits(f *testing.F) {
	f.Add(twoForced)
	f.Add(`{"feature":"a\u2028\"","threshold":-1e300,"right":{"feature":2,"threshold":0}}`)
	f.Fuzz(func(t *testing.T, in string) {
		once, err := parseForced(in)
		if err != nil {
			return
		}
		if again, err := parseForced(string(once)); err != nil || again != once {
			t.Errorf("%q is %q, and read again %q, %v", in, once, again, err)
		}
	})
}
