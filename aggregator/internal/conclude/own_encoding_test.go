package conclude

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// columnAge is a numeric column of the click table.
const columnAge = 4

// TestEachModelScoresThroughItsOwnEncoding: if tonight's dataset lacks a column of the champion's, the gate compares
// what each version, opened from the registry with its own features and calibrator, predicts for the raw rows of the
// earlier night.
func TestEachModelScoresThroughItsOwnEncoding(t *testing.T) {
	first := champion(t, datasettestOptions(20_000, 5))
	dropping := func(_ *rand.Rand, _ bool, row []string) []string {
		return slices.Delete(row, columnHour, columnHour+1)
	}
	c := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{15}, trees: 60, table: edited(20_000, 8,
		dropping)}).mustConclude(t)
	g := c.Gate
	if len(g.Checks) == 0 || g.Checks[0].Name != "reference" || g.Champion != 1 {
		t.Fatalf("compared as %+v; want rows of earlier nights, against version 1", g)
	}

	reg := registry.New(first.models)
	v := must.Get(reg.Get(t.Context(), "ctr", "1"))(t)
	data := must.Get(reg.ReadFile(t.Context(), v, scorer.FileReference))(t)
	rows := must.Get(decodeReference(data))(t)
	loss := must.Get(metric.Lookup("log_loss"))(t)

	for number, want := range map[string]float64{"1": g.Old, "2": g.New} {
		v := must.Get(reg.Get(t.Context(), "ctr", number))(t)
		s := must.Get(scorer.Open(t.Context(), reg, v))(t)
		defer s.Close()
		pred := must.Get(s.Sample(rows.sample, 1))(t)
		got, err := loss.Eval(metric.Input{Label: rows.targets.Label, Weight: rows.targets.Weight, Pred: pred})
		if err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("version %s has log loss %.15g (%v) on the raw rows of version 1, the gate says %.15g", number,
				got, err, want)
		}
	}
	if needs, err := reg.ReadFile(t.Context(), v, scorer.FileFeatures); err != nil || !strings.Contains(string(needs),
		`"hour"`) {
		t.Errorf("version 1 does not need the hour (%v), so it shows nothing", err)
	}
}

// TestColumnOfAnotherKind: the champion cannot score a column that held numbers and has words tonight; the sentence
// names the column and a value, and the rows of the earlier night decide.
func TestColumnOfAnotherKind(t *testing.T) {
	first := champion(t, datasettestOptions(20_000, 5))
	worded := func(_ *rand.Rand, header bool, row []string) []string {
		if !header {
			row[columnAge] = map[bool]string{true: "young", false: "old"}[strings.HasPrefix(row[columnAge], "1")]
		}
		return row
	}
	c := newWorld(t, options{into: first, sweep: "night-2", leaves: []int{15}, trees: 60, table: edited(20_000, 8,
		worded)}).mustConclude(t)
	if c.Gate.Promoted || c.Gate.Verdict == sweep.VerdictPromoted {
		t.Errorf("promoted: %+v", c.Gate)
	}
	contains(t, c.Gate.Reason, "version 1 cannot score them")
	contains(t, c.Gate.Reason, `column "age"`)
}
