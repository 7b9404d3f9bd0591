package page_test

import (
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/page"
)

// TestIdsAreFeatures: in the list of features, all statistics of the same ids share one row, or have a row each if
// statistics are asked for. Ids of two columns are named with a +, one taken in ranges with a ~, and Made explains
// both.
func TestIdsAreFeatures(t *testing.T) {
	user := dataset.LevelTable{Of: []dataset.Part{{Column: "user"}}}
	both := dataset.LevelTable{Of: []dataset.Part{{Column: "user"}, {Column: "age", Bounds: []float64{30}}}}
	m := &dataset.Manifest{Tables: []dataset.LevelTable{user, both}, Features: []dataset.Feature{
		{Name: "price", Kind: dataset.Numeric},
		{Name: "user:rate", Kind: dataset.Numeric, From: &dataset.Derived{What: dataset.DeriveRate}},
		{Name: "user:count", Kind: dataset.Numeric, From: &dataset.Derived{What: dataset.DeriveCount}},
		{Name: "user+age~:rate", Kind: dataset.Numeric, From: &dataset.Derived{What: dataset.DeriveRate, Table: 1}}}}
	for statistics, want := range map[bool]string{
		false: "price numeric; user id, rate and count of it; user+age~ id, rate of it",
		true: "price numeric; user:rate numeric, rate of user; user:count numeric, count of user; " +
			"user+age~:rate numeric, rate of user+age~"} {
		var got []string
		for _, row := range page.Features(m, statistics).Rows {
			text := row[0] + " " + row[1]
			if of := row[len(row)-1]; strings.Contains(of, " of ") {
				text += ", " + of
			}
			got = append(got, text)
		}
		must.Equal(t, strings.Join(got, "; "), want, "each statistic %t", statistics)
	}
	if notes := strings.Join(page.Made(m), "; "); !strings.Contains(notes, "~ is behind one whose numbers") {
		t.Errorf("got the notes %q, want one on what user+age~ is", notes)
	}
}

// TestTheUsualParametersComeFirst: with too few trials to know which parameters matter, a leaderboard shows those that
// usually do. With enough trials, the one that matters in this sweep (p0) comes before them.
func TestTheUsualParametersComeFirst(t *testing.T) {
	s := drawn(1, 12, 7, 0)
	names := []string{"bagging_fraction", "extra_trees", "feature_fraction", "lambda_l2", "learning_rate",
		"min_data_in_leaf", "num_leaves"}
	for i := range s.Params {
		s.Params[i].Name = names[i]
	}
	got := strings.Join(s.Leaderboard(10).Head, " ")
	if want := "auc on valid learning_rate num_leaves min_data_in_leaf feature_fraction trees"; !strings.Contains(got,
		want) {
		t.Errorf("the leaderboard of a dozen trials has %s, expected %s", got, want)
	}

	s = drawn(1, 120, 8, 3)
	s.Params[1].Name = "learning_rate"
	says(t, "the leaderboard where p0 decides", strings.Join(s.Leaderboard(10).Head, " "),
		"auc on valid p0 learning_rate")
}
