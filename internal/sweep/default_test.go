package sweep_test

import (
	"reflect"
	"testing"

	"coppice/internal/sweep"
)

// TestMethodAutoAlone is as good as no search at all; what says more is not filled up.
func TestMethodAutoAlone(t *testing.T) {
	const head = "name: n\ndataset: d\nmetric: auc\ntrials: 9\n"
	read := func(text string) sweep.Search {
		s, err := sweep.ParseSpec("sweep.yaml", []byte(head+text), words())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return s.Search
	}
	if got, want := read("search: {method: auto}\n"), read(""); !reflect.DeepEqual(got, want) {
		t.Errorf("with method: auto alone the search is %+v, without search: %+v", got, want)
	}
	if got := read("search: {method: auto, random: {num_leaves: {int: [2, 9]}}}\n"); len(got.Random) != 1 {
		t.Errorf("beside a space of one parameter are %v", got.Random)
	}
}
