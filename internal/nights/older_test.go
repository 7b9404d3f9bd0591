package nights

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// numberColumn returns a column of 1,000 numbers of which a third are 7, with odds of 1 of its ranges, and of 2 of its
// peak unless it is of an older record.
func numberColumn(older bool) Column {
	c := Column{Name: "x", Kind: Number, Peaks: []Peak{{7, 0.34}}, Rates: make([]float64, steps),
		Shares: make([]float64, steps)}
	for s := range steps + 1 {
		c.Quantiles = append(c.Quantiles, float64(s))
	}
	c.Odds = make([]float64, newColumnEncoder(&c).size)
	for s := range steps {
		c.Odds[1+s] = 1
	}
	c.Odds[steps+1] = 2 // of the peak, whose code follows those of the ranges
	if older {
		c.Odds = c.Odds[:steps+1]
	}
	return c
}

// TestOddsWithoutPeaks: the statistics of a column from before peaks had odds of their own are read, and its numbers
// have the odds of their range; odds of fewer codes than there are ranges are refused.
func TestOddsWithoutPeaks(t *testing.T) {
	for older, want := range map[bool]float32{true: 1, false: 2} {
		c := numberColumn(older)
		if err := c.check(); err != nil {
			t.Errorf("older %t: got error %v, want none", older, err)
		}
		w := &Witness{nights: []*Profile{{Columns: []Column{c}}}, levels: map[string]known{}}
		odds := w.Odds(&dataset.Feature{Name: "x", Kind: dataset.Numeric, Bins: 2, Bounds: []float64{6.5},
			MissingBin: -1, Range: &dataset.Range{Min: 0, Max: 20}})
		must.Equal(t, odds[1], want, "older %t: the bin with the peak has odds", older)
	}
	c := numberColumn(false)
	c.Odds = c.Odds[:steps]
	if c.check() == nil {
		t.Error("odds of fewer codes than there are ranges: want an error, got none")
	}
}

// TestAColumnThatIsTheLabel: where a column is the label, what it explains has no error by rounding that is NaN, which
// no record could hold. It is tried with many numbers of rows, since each rounds otherwise.
func TestAColumnThatIsTheLabel(t *testing.T) {
	for rows := 1000; rows < 24_000; rows += 998 {
		codes, labels := make([]uint8, rows), make([]float32, rows)
		for i := range rows {
			codes[i], labels[i] = uint8(1+i%2), float32(i%2)
		}
		c := Column{Kind: Text}
		c.AUC, c.Info, c.InfoError = c.predictAlone(codes, labels)
		if _, err := json.Marshal(c); err != nil || c.Info < 0.9 || math.IsNaN(c.InfoError) {
			t.Errorf("%d rows: explains %v with error %v, and as JSON: %v; want nearly all, and no error", rows, c.Info,
				c.InfoError, err)
		}
	}
}

// TestClassesWithoutWeight: a night of several classes whose rows all have weight 0 has no shares, which is compared.
func TestClassesWithoutWeight(t *testing.T) {
	before := &Profile{Rows: 1000, Label: Label{Kind: dataset.Classes, Classes: map[string]float64{"a": 0.6, "b": 0.4}}}
	tonight := &Profile{Rows: 1000, Label: Label{Kind: dataset.Classes}}
	c := &comparison{p: tonight, before: []*Profile{before}, last: before}
	c.checkClasses()
	if len(c.findings) != 2 || c.findings[0].Code != CodeLabelsLost {
		t.Errorf("found %v, want both classes to be lost", c.findings)
	}
}

// TestLostInTwoParts: labels that were lost in two parts of the table are told as one finding about both. It names the
// rows of both, in the order of the table, since its counts are sums: 2 of 12 parts with 200 rows each, of which 5 and
// 6 are positive instead of 20.
func TestLostInTwoParts(t *testing.T) {
	lost := func(level string, positive float64) suspect {
		s := SegmentCounts{Level: level, Rows: 200, Positive: positive, Expected: 20}
		return suspect{segment: s, expected: 20, z: -4, loss: 0.01}
	}
	found := addTotals([]suspect{lost("part 10 of 12", 5), lost("part 3 of 12", 6)})
	code, text := found[0].describe(Label{})
	const want = "in the rows from 16 to 25 % and from 75 to 83 % of the table, 11 of 400 rows have a positive " +
		"label, but 40 are expected"
	if code != CodeLabelsLost || !strings.HasPrefix(text, want) {
		t.Errorf("got %s: %q, want labels_lost: %q", code, text, want)
	}
}

// TestNightsThatAreNotTheSameTable: two nights without times that have as many rows of either label are two tables, if
// their numbers differ. A spec that leaves a column out, or reads one of three columns of numbers in another format,
// does not make another table of a night.
func TestNightsThatAreNotTheSameTable(t *testing.T) {
	night := func(highest float64) *Profile {
		x := numberColumn(false)
		x.Quantiles[steps] = highest
		return &Profile{Rows: 1000, Label: Label{Mean: 0.5}, Prints: []byte("12345678"),
			Buckets: Buckets{Rows: []int{1000}}, Columns: []Column{x, {Name: "y", Kind: Text, Distinct: 3}}}
	}
	first, second, again := night(30), night(31), night(30)
	again.Columns = again.Columns[:1]
	first.Prints = []byte("87654321") // the hashes of rows by another spec
	if first.sameTable(second) || !first.sameTable(again) {
		t.Errorf("another night is the same table: %t, the same night with fewer columns: %t; want false and true",
			first.sameTable(second), first.sameTable(again))
	}

	// Of three columns of numbers, so many differ.
	for differ, want := range []bool{true, true, false, false} {
		one, other := night(30), night(30)
		one.Columns, other.Columns, one.Prints = nil, nil, []byte("87654321")
		for i, name := range []string{"u", "v", "w"} {
			x, y := numberColumn(false), numberColumn(false)
			x.Name, y.Name = name, name
			x.Quantiles[steps], y.Quantiles[steps] = 30, 30
			if i < differ {
				y.Quantiles[steps] = 31
			}
			one.Columns, other.Columns = append(one.Columns, x), append(other.Columns, y)
		}
		must.Equal(t, one.sameTable(other), want, "%d of 3 columns of numbers differ: the same table", differ)
	}
}

// TestStepsOfOneTimeColumn: how far times usually move on is learnt from nights of tonight's time column alone. Here
// the first of four nights has times of another column, five days before those of the second. From then on nights are a
// day apart, and tonight all times are six hours later than that.
func TestStepsOfOneTimeColumn(t *testing.T) {
	night := func(column string, hours int) *Profile {
		newest := time.Unix(0, 0).Add(time.Duration(hours) * time.Hour)
		return &Profile{TimeColumn: column, Newest: newest, Oldest: newest.Add(-24 * time.Hour)}
	}
	before := []*Profile{night("created", 24), night("ts", 144), night("ts", 168), night("ts", 192)}
	c := &comparison{p: night("ts", 222), before: before, last: before[3]}
	c.checkTimes()
	if len(c.findings) != 1 || c.findings[0].Code != CodeClock ||
		!strings.Contains(c.findings[0].Text, "6h0m0s later") {
		t.Errorf("found %v, want that all times are 6h0m0s later", c.findings)
	}
}

// TestHoursLostBefore1970: hours without rows are reported with the first of them, also where times are negative. The
// night is 1960-01-02, and has lost two hours from 05:00 on, and the three nights before it none.
func TestHoursLostBefore1970(t *testing.T) {
	night := func(day int, lost ...int) *Profile {
		b := Buckets{From: time.Date(1960, 1, day, 0, 0, 0, 0, time.UTC).Unix(), Width: 3600, Rows: make([]int, 24)}
		for hour := range b.Rows {
			if !slices.Contains(lost, hour) {
				b.Rows[hour] = 100
			}
		}
		return &Profile{TimeColumn: "ts", Buckets: b}
	}
	c := &comparison{p: night(2, 5, 6), before: []*Profile{night(-1), night(0), night(1)}}
	c.checkGaps()
	const want = "2 hours, beginning with 1960-01-02 05:00 UTC, have hardly any rows"
	if len(c.findings) != 1 || c.findings[0].Text != want {
		t.Errorf("found %v, want %q", c.findings, want)
	}
}
