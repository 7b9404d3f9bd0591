package page_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/metric"
	"coppice/internal/page"
)

// ofClasses is a sweep over a label of k classes. The last class is rare and never predicted; of the others three in
// four rows are recognised, and most of the rest are taken for the class before.
func ofClasses(k int, name string) *page.Sweep {
	s := sample(30)
	s.Objective, s.Metric, s.Winner.Tested = "multiclass", "multi_logloss", &metric.Tested{}
	for i := range k {
		rows := 40 * (1 + (i*5)%k)
		c := metric.Class{Name: fmt.Sprint(name, i), Rows: rows, Weight: float64(rows), Sum: float64(rows) + 3,
			Taken: make([]float64, k)}
		c.Taken[i] = 0.75 * c.Weight
		c.Taken[(i+k-1)%k] += 0.25*c.Weight - 5
		c.Taken[(i+1)%k] += 5
		s.Winner.Tested.Classes = append(s.Winner.Tested.Classes, c)
	}
	for i := range s.Winner.Tested.Classes {
		c := &s.Winner.Tested.Classes[i]
		c.Taken[0], c.Taken[k-1] = c.Taken[0]+c.Taken[k-1], 0
	}
	return s
}

// TestClassesAreDrawnAsTheyWere: the table of classes has the bytes of its golden file, with few classes, and with many
// that have long names with markup in them.
func TestClassesAreDrawnAsTheyWere(t *testing.T) {
	for name, s := range map[string]*page.Sweep{"few": ofClasses(5, "class "),
		"many": ofClasses(14, "late by more than an hour <b>, ")} {
		for _, f := range figure.FindAllStringSubmatch(write(t, s), -1) {
			if id := strings.TrimSuffix(f[1], "-card"); id == "classes" {
				isAsItWas(t, id+"-"+name+".html", []byte(strings.ReplaceAll(f[0], "><", ">\n<")+"\n"))
			}
		}
		card(t, s, "classes") // fails if the page has no such table
	}
}

// TestConfusion: recall and precision of three classes are those worked out by hand. Of 1,000 rows of a, 996 are
// recognised, and of 10 of b, 6; c has no rows. That is 99 % of all rows, and a mean recall of (99.6 + 60) / 2 %. Where
// rows have weights (2), no interval is shown, because the number of rows that they stand for is not known.
func TestConfusion(t *testing.T) {
	for _, w := range []float64{1, 2} {
		s := sample(2)
		s.Winner.Tested = &metric.Tested{Classes: []metric.Class{
			{Name: "a", Rows: 1000, Weight: 1000 * w, Sum: 900 * w, Taken: []float64{996 * w, 4 * w, 0}},
			{Name: "b", Rows: 10, Weight: 10 * w, Sum: 100 * w, Taken: []float64{4 * w, 6 * w, 0}},
			{Name: "c", Taken: []float64{0, 0, 0}}}}
		words := map[float64]string{1: "99 % of 1,010 test rows have",
			2: "99 % of 1,010 test rows, by their weights, have"}
		within := map[float64]string{1: "99 % to 99.8 %", 2: ""}[w]
		by := card(t, s, "classes")
		says(t, fmt.Sprintf("weight %v", w), by, words[w], "mean recall of 2 classes is 80 %",
			"1 class is never predicted",
			within, "a 1,000 99.6 % ", "b 10 60 % ", " a 40 %")
		if w == 2 && strings.Contains(by, " to 9") {
			t.Errorf("got %q, want intervals only where rows count alike", by)
		}
	}
}

// TestPageOfAHundredClasses: the page of a sweep over 100 classes whose names have 197 characters takes at most 300 kB,
// gives their mean recall, and cuts long names in the middle.
func TestPageOfAHundredClasses(t *testing.T) {
	s := sample(50)
	s.Winner.Tested = ofClasses(100, strings.Repeat("n", 197)).Winner.Tested
	text := write(t, s)
	t.Logf("%d bytes", len(text))
	if len(text) > 300_000 {
		t.Errorf("got a page of %d bytes, want at most 300,000", len(text))
	}
	says(t, "a hundred classes", card(t, s, "classes"), "The mean recall of 100 classes")
	if n := len(regexp.MustCompile(`n…n+99<`).FindAllString(text, -1)); n == 0 {
		t.Error("a long name does not keep its end, want it cut in the middle")
	}
}

// TestNightsOfClassesOnAPage: the page of a dataset whose label is a class follows the share of one class, by its name,
// from night to night. It shows no label rate, which would be a mean of class numbers, and no calibration ratio, which
// only labels of two classes have.
func TestNightsOfClassesOnAPage(t *testing.T) {
	d := manyNights(12)
	d.Table.Label = dataset.LabelInfo{Column: "outcome", Kind: dataset.Classes,
		Classes: []string{"buy", "cart", "view"}}
	for i := range d.Nights {
		d.Nights[i].Positive, d.Nights[i].Ratio = "view", math.NaN()
	}
	text := write(t, d)
	for _, not := range []string{"label rate", "label in train", "alibration ratio", "label 0.02"} {
		if strings.Contains(text, not) {
			i := strings.Index(text, not)
			t.Errorf("the page of classes says %q, want nothing of a label that is a quantity: %q", not,
				text[i-80:i+40])
		}
	}
	says(t, "classes", text, "share of view", "alone say most about view",
		">classes<")
}
