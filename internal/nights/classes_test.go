package nights_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coppice/internal/nights"
)

// kindsNight stages a night whose rows are red in a half, green in a third, or else blue, mostly as x says; bad changes
// a row's class.
func kindsNight(t *testing.T, seed uint64, bad func(class string) string) night {
	t.Helper()
	var b strings.Builder
	b.WriteString("x,site,y\n")
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		u := rng.Float64()
		class := map[bool]string{true: "red", false: map[bool]string{true: "green", false: "blue"}[u < 0.83]}[u < 0.5]
		if class = bad(class); class != "" {
			fmt.Fprintf(&b, "%.7f,s%d,%s\n", u+0.2*rng.NormFloat64(), rng.IntN(9), class)
		}
	}
	r := stageCSV(t, b.String(), "label: {column: y, kind: classes}\nsplit: {by: random, train: 0.8, test: 0.2}\n")
	p := measured(t, r.Night, r.Manifest)
	r.Night.Weight = make([]float32, len(r.Night.Label)) // blue is number 0
	for i, class := range r.Night.Label {
		r.Night.Weight[i] = 1e-6 + class
	}
	light := measured(t, r.Night, r.Manifest)
	if !(light.Label.Classes["blue"] > 0) == (p.Label.Classes["blue"] > 0) {
		t.Errorf("with next to no weight: got %+v, want a share of blue that is 0 only if it has no row", light.Label)
	}
	r.Night.Weight = nil
	return night{r.Night, p}
}

// TestNightsOfClasses: ten quiet nights of three classes pass. A class that is gone, or two that are swapped, block a
// night; a new one is warned of. Every sentence names the class, since the mean of their numbers says nothing.
func TestNightsOfClasses(t *testing.T) {
	same := func(class string) string { return class }
	var before []*nights.Profile
	for seed := range uint64(10) {
		n := kindsNight(t, seed, same)
		if found := compare(t, n, before); len(found) > 0 {
			t.Errorf("quiet night %d: got %v, want nothing", seed, found)
		}
		before = append(before, n.profile)
	}
	if l := before[9].Label; l.Positive != "red" || math.Abs(l.Classes["red"]-l.Mean) > 1e-5 ||
		!(l.Mean > 0.45 && l.Mean < 0.55) {
		t.Errorf("got %+v, want a half of the rows of class red", l)
	}
	turn := 0
	for name, tc := range map[string]struct {
		bad  func(string) string
		code nights.Code
		says string
	}{
		"lost": {func(c string) string { return strings.TrimPrefix(c, "green") }, nights.CodeLabelsLost,
			`no row is of class "green", but 3`},
		"two for one": {func(c string) string { return strings.ReplaceAll(c, "green", "blue") }, nights.CodeLabelsLost,
			`no row is of class "green", but 3`},
		"swapped": {func(c string) string {
			return map[string]string{"red": "blue", "blue": "red", "green": "green"}[c]
		}, nights.CodeLabelRate, `of the rows are of class "blue", but 1`},
		"new": {func(c string) string {
			if turn++; turn%20 == 0 {
				return "rose"
			}
			return c
		}, nights.CodeLabelRate, `class "rose" is new`},
	} {
		found := compare(t, kindsNight(t, 11, tc.bad), before)
		if len(found) == 0 || found[0].Code != tc.code || !strings.Contains(fmt.Sprint(found), tc.says) ||
			nights.Blocked(found) != (name != "new") {
			t.Errorf("%s: got %v, want %s first, with %q, which blocks unless new", name, found, tc.code, tc.says)
		}
	}
}
