package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/must"
)

// rowsOfSplits returns the number of rows of each split.
func rowsOfSplits(t *testing.T, s *staged) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, split := range s.Splits {
		out[split.Name] = split.Rows
	}
	return out
}

// TestHashSplitKeepsKeysTogether: in a split by hash, all rows of a key are in one split and one fold, and splits have
// about the shares asked for. Folds do not depend on the split. A group has one hash for each of its values. If the key
// is also the group, no hint says that it is not a feature. The manifest says how the rows were split.
func TestHashSplitKeepsKeysTogether(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,x,user\n")
	const users, perUser = 3000, 5
	for i := range users * perUser {
		fmt.Fprintf(&b, "%d,%d,%d\n", i%2, i%users, i%users)
	}
	// x is the user again. As the label of a regression, it tells which user each staged row is of. A feature could
	// not, as it has at most 255 bins.
	s := mustStage(t, "label: {column: x, kind: regression}\ngroup: user\nsplit: {by: hash, key: user, train: 0.6, "+
		"valid: 0.2, test: 0.2}\n", b.String())
	if got := hinted(s, HintKey); len(got) > 0 {
		t.Errorf("got the hint %s of %q, want none: a group is no feature under any split", HintKey, got)
	}

	// Each user is in one split and one fold, and has one hash.
	where := map[float32]string{}
	folds := map[float32]uint8{}
	var perFold [dataset.Folds]int
	inTrain := [dataset.Folds]int{}
	for _, split := range s.Splits {
		for i, user := range split.Label {
			if old, seen := where[user]; seen && (old != split.Name || folds[user] != split.Fold[i]) {
				t.Fatalf("user %v is in %s, fold %d, and in %s, fold %d; want one of each", user, old, folds[user],
					split.Name, split.Fold[i])
			}
			where[user], folds[user] = split.Name, split.Fold[i]
			perFold[split.Fold[i]]++
			if split.Name == "train" {
				inTrain[split.Fold[i]]++
			}
		}
		hashes := map[uint64]float32{}
		for i, h := range split.Group {
			if old, seen := hashes[h]; seen && old != split.Label[i] {
				t.Fatalf("users %v and %v both have the group hash %x, want one each", old, split.Label[i], h)
			}
			hashes[h] = split.Label[i]
		}
	}

	// The shares of the splits, over all rows and within each fold: of 3,000 users they have a standard deviation of at
	// most .009, and of the 300 of a fold of .028.
	rows := rowsOfSplits(t, s)
	for name, share := range map[string]float64{"train": 0.6, "valid": 0.2, "test": 0.2} {
		if got := float64(rows[name]) / (users * perUser); math.Abs(got-share) > 0.03 {
			t.Errorf("%s has %.3f of the rows, want %.1f within 0.03", name, got, share)
		}
	}
	for fold, n := range perFold { // the fold says nothing about the split
		if share := float64(inTrain[fold]) / float64(n); share < 0.5 || share > 0.7 {
			t.Errorf("fold %d: %.2f of its rows are train, want 0.5 to 0.7, as of all rows", fold, share)
		}
	}
	if calib, ok := s.Manifest.FindSplit("calib"); ok {
		t.Errorf("calib, which has no share, is a split of %d rows, want none", calib.Rows)
	}
	if want := (dataset.SplitRule{By: "hash", Column: "user", Shares: map[string]float64{"train": 0.6, "valid": 0.2,
		"test": 0.2}}); !reflect.DeepEqual(s.Manifest.Split, want) {
		t.Errorf("the manifest's split: got %+v, want %+v", s.Manifest.Split, want)
	}
}

// TestKeysAreComparedByMeaning: keys that mean the same are one key in every spelling and type, and different keys stay
// different. Digits that are no quantity, such as 007 or 623049e6, and numbers that a float64 cannot tell apart, are
// compared as texts.
func TestKeysAreComparedByMeaning(t *testing.T) {
	k := cell.Keys{Markers: cell.NewMarkers([]string{"", "-999"})}
	// hash returns the hash of the only value of v. A missing value gets that of its row, which is 5 in all cases here.
	hash := func(v dataset.Values) uint64 { return k.Hash(&v, 0, 5) }
	number := func(x float64) dataset.Values { return dataset.Values{Type: dataset.Float, Float: []float64{x}} }
	whole := func(n int64) dataset.Values { return dataset.Values{Type: dataset.Int, Int: []int64{n}} }
	for _, same := range [][]dataset.Values{ // the values of a line are one key, and another than u5 from the second on
		{text("u5"), text("u5 "), text("\tu5")},
		{text("17"), text("17.0"), text(" +17.00"), number(17), whole(17)},
		{text("-0.5"), text("-.50"), number(-0.5)}, {text("0"), text("-0.0"), number(math.Copysign(0, -1))},
		{text("9007199254740993"), whole(9007199254740993), text("9007199254740993.0"), text("+9007199254740993.000")},
		{text("-12345678901234567890"), text("-12345678901234567890.0")},
		{text("123456789012345.00"), text("123456789012345")},
		{text("9007199254740993.5")}, {text("0123456789012345.0")},
		{text("123456789012345678901234567890")}, {text("123456789012345678901234567891")},
		{text("9007199254740992"), number(9007199254740992)},
		{text("007")}, {text("7")}, {text("623049e6")}, {text("623049000000"), number(623049e6)}, {text("U5")},
		{text("1e-3")}, {text("0.001"), number(0.001)},
		{text("-999"), text("-999.0"), text(""), number(-999), number(math.NaN())}, // no key, so all have that of row 5
	} {
		for _, v := range same {
			must.Equal(t, hash(v), hash(same[0]), "the keys of %q and %q", v.TextOf(0), same[0].TextOf(0))
		}
		if same[0].TextOf(0) != "u5" && hash(same[0]) == hash(text("u5")) {
			t.Errorf("%q is the key u5, want another", same[0].TextOf(0))
		}
	}

	// Keys that must differ from each other.
	seen := map[uint64]string{}
	for _, s := range []string{"7", "007", "9007199254740993", "9007199254740992", "123456789012345678901234567890",
		"123456789012345678901234567891", "0.001", "1e-3"} {
		if other, ok := seen[hash(text(s))]; ok {
			t.Errorf("%s and %s are one key, want two", s, other)
		}
		seen[hash(text(s))] = s
	}
}

// TestGroupsShareAFold: the rows of a group are in one fold, even if the split divides them among its splits by another
// key.
func TestGroupsShareAFold(t *testing.T) {
	// 300 groups of three rows that follow each other; the key repeats after 300 rows, so it divides groups.
	csv := csvOf("g,u,y,x", 900, func(i int) string { return fmt.Sprintf("%d,u%d,%d,%d", i/3, i%300, i/3%2, i%11) })
	s := mustStage(t, "label: y\ngroup: g\nsplit: {by: hash, key: u, train: 0.8, valid: 0.2}\n", csv)
	folds := map[uint64]uint8{}
	for _, split := range s.Splits {
		for i, g := range split.Group {
			if fold, seen := folds[g]; seen && fold != split.Fold[i] {
				t.Fatalf("group %x is in folds %d and %d, want one", g, fold, split.Fold[i])
			}
			folds[g] = split.Fold[i]
		}
	}
	must.Equal(t, len(folds), 300, "groups of all splits")
}

// TestRowsWithoutKeyAreKeysOfTheirOwn: rows without a key are split one by one, not all together as if they had one
// key, and a warning counts them.
func TestRowsWithoutKeyAreKeysOfTheirOwn(t *testing.T) {
	csv := csvOf("y,x,user", 4000, func(i int) string { return fmt.Sprintf("%d,%d,", i%2, i%7) })
	s := mustStage(t, "label: y\nsplit: {by: hash, key: user, train: 0.5, test: 0.5}\n", csv)
	// 2,000 are expected, with a standard deviation of 32.
	if n := rowsOfSplits(t, s)["train"]; n < 1800 || n > 2200 {
		t.Errorf("%d of 4,000 rows without a key are train, want 1,800 to 2,200", n)
	}
	if w := s.Manifest.About.Warnings; len(w) == 0 || w[0].Code != WarnKeyless ||
		!strings.Contains(w[0].Text, "4000 of 4000 rows have no user") {
		t.Errorf("a table without users: got the warnings %+v, expected %s first, that 4000 of 4000 rows have no user",
			w, WarnKeyless)
	}
}

// timeTable returns CSV with the given times and labels of rows, in random order.
func timeTable(rng *rand.Rand, times []string, labels []float64) string {
	var b strings.Builder
	b.WriteString("at,y,x\n")
	for _, i := range rng.Perm(len(times)) {
		fmt.Fprintf(&b, "%s,%v,%d\n", times[i], labels[i], i%5)
	}
	return b.String()
}

// TestTimeSplitIsInOrder: a split by time puts earlier rows into earlier splits, and within a split into earlier folds.
// Rows with the same time stay together. Labels are the hour, so that they tell a staged row's time.
func TestTimeSplitIsInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var times []string
	var labels []float64
	for i := range 3000 {
		day := i / 300 // ten days, of which the rows of an hour share a time
		times = append(times, fmt.Sprintf("2017-07-%02d %02d:00", day+1, i%24))
		labels = append(labels, float64(day*24+i%24))
	}
	s := mustStage(t, "label: {column: y, kind: regression}\nsplit: {by: time, column: at, train: 0.5, valid: 0.2, "+
		"calib: 0.2, test: 0.1}\n", timeTable(rng, times, labels))
	last := float32(-1)
	for _, split := range s.Splits {
		if lo := slices.Min(split.Label); lo <= last {
			t.Errorf("%s begins at hour %v, want it after hour %v, where the split before ends", split.Name, lo, last)
		}
		last = slices.Max(split.Label)

		// Where each fold ends, and that the next one begins later.
		foldEnd := map[uint8]float32{}
		for i, f := range split.Fold {
			foldEnd[f] = max(foldEnd[f], split.Label[i])
		}
		for i, f := range split.Fold {
			if f > 0 && split.Label[i] <= foldEnd[f-1] {
				t.Fatalf("%s: hour %v is in fold %d, want it after fold %d, which goes to hour %v", split.Name,
					split.Label[i], f, f-1, foldEnd[f-1])
			}
		}
		must.Equal(t, len(foldEnd), dataset.Folds, "%s: number of folds", split.Name)
	}
	// Cuts are between times, and 12 or 13 rows share one.
	if got := rowsOfSplits(t, s); math.Abs(float64(got["train"])-1500) > 15 || math.Abs(float64(got["test"])-300) > 15 {
		t.Errorf("rows of each split: got %v; want about 1,500 in train and 300 in test", got)
	}
	if u := s.Manifest.Split.Until; len(u) != 3 || !(u["train"] < u["valid"] && u["valid"] < u["calib"]) {
		t.Errorf("the splits end at %v, want three ascending times", u)
	}
}

// TestTimeSplitOfNumbersAndFewTimes: a split by time takes numbers, too, in any spelling. If there are as many times as
// splits, each split gets one, whatever the shares; if nearly all rows have one time, the cut is as near to the share
// as it can be.
func TestTimeSplitOfNumbersAndFewTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	var times []string
	var labels []float64
	for i := range 1000 {
		step := min(3, i/10) // 0, 1 and 2 have ten rows each, 3 all the rest
		times = append(times, []string{"0100", "0200", "3e2", "1000.5"}[step])
		labels = append(labels, float64(step))
	}
	s := mustStage(t, "label: {column: y, kind: regression}\nsplit: {by: time, column: at, train: 0.25, valid: "+
		"0.25, calib: 0.25, test: 0.25}\n", timeTable(rng, times, labels))
	must.Equal(t, fmt.Sprint(rowsOfSplits(t, s)), "map[calib:10 test:970 train:10 valid:10]", "numbers as times")
	must.Equal(t, fmt.Sprint(s.Manifest.Split.Until), "map[calib:300 train:100 valid:200]", "the times of splits")
	s = mustStage(t, "label: {column: y, kind: regression}\nsplit: {by: time, column: at, train: 0.9, test: 0.1}\n",
		timeTable(rng, times, labels))
	// nearest to 900 that leaves test any row
	must.Equal(t, fmt.Sprint(rowsOfSplits(t, s)), "map[test:970 train:30]", "one time for most rows")
}

// TestColumnSplit: a column can say the split of each row, by the values that the spec lists for each split. It is then
// not a feature.
func TestColumnSplit(t *testing.T) {
	rows := "y,x,part\n" + strings.Repeat("0,1,a\n1,2,b\n0,3,7\n1,1,a\n", 10)
	s := mustStage(t, "label: y\nsplit: {by: column, column: part, train: [a, 7], calib: b}\n", rows)
	must.Equal(t, fmt.Sprint(rowsOfSplits(t, s)), "map[calib:10 train:30]", "a column that names the split")
	if _, err := mustEncode(t, s.Manifest.Encoding(), s.levels(t)).EncodeSample(s.sample(t)); err != nil ||
		len(s.Manifest.Features) != 1 {
		t.Errorf("encoding the sample: got error %v with the features %v, expected none with 1", err,
			s.Manifest.Features)
	}
}

// TestAxis: an axis counts every row, exactly up to the end of each bucket. With room for all times it keeps them
// apart, so it drops no bits of them (shift). With less, it drops some, so that neighbouring times share a bucket, has
// no more buckets than allowed, and they do not depend on the order of rows.
func TestAxis(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	values := make([]float64, 20_000)
	for i := range values {
		values[i] = 1.5e9 + float64(rng.IntN(1e7))/4
	}
	build := func(limit int) *axis {
		a := newAxis(limit)
		for _, x := range values {
			a.add(x)
		}
		return a
	}

	// Room for all.
	exact := build(len(values))
	must.Equal(t, exact.shift, 0, "shift, though there is room")

	// Room for few.
	coarse := build(500)
	rng.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	if again := build(500); !reflect.DeepEqual(coarse, again) {
		t.Error("the same times in another order give another axis, want the same")
	}
	if len(coarse.counts) > 500 || coarse.shift == 0 {
		t.Errorf("with room for 500: %d buckets, shift %d; want no more, and a shift", len(coarse.counts), coarse.shift)
	}

	// Compare each bucket's end with the times themselves.
	before := int64(0)
	for _, g := range coarse.sorted() {
		before += g.rows
		end := coarse.greatest(g.key)
		n := int64(0)
		for _, x := range values {
			if x <= end {
				n++
			}
		}
		if n != before {
			t.Fatalf("%d rows up to %v, counted as %d; want the same", n, end, before)
		}
	}
	must.Equal(t, before, int64(len(values)), "rows of the buckets")
}

// TestHashesAreSpread: hashes of texts fill their range evenly, and hashes of rows become numbers from 0 to 1. One hash
// is known: if it changed, rows of every dataset would move to other splits.
func TestHashesAreSpread(t *testing.T) {
	var parts [16]int
	for i := range 16_000 {
		parts[cell.HashText([]byte(fmt.Sprint(i)))>>60]++
		if u := cell.Unit(cell.HashRow(int64(i))); u < 0 || u >= 1 {
			t.Fatalf("a row's hash as a number is %v; want it in [0, 1)", u)
		}
	}
	for i, n := range parts { // 1,000 expected, standard deviation 31
		if n < 850 || n > 1150 {
			t.Errorf("part %d has %d of 1000 rows, want 850 to 1,150", i, n)
		}
	}
	must.Equal(t, cell.HashText([]byte("user-1")), 0xf16d8d440fbb25d5, "a hash, by which rows of every split move")
}

// TestSplitByRandom: a split at random has about the shares asked for. The same seed gives the same split each time,
// and another seed gives another one.
func TestSplitByRandom(t *testing.T) {
	csv := csvOf("y,x", 6000, func(i int) string { return fmt.Sprintf("%d,%d", i%2, i) })
	// sampled stages the table and returns the rows of test, all of which are in the sample of raw rows.
	sampled := func(seed string) []int64 {
		s := mustStage(t, "label: y\nsplit: {by: random, train: 0.6, valid: 0.2, test: 0.2"+seed+"}\n", csv)
		if n := rowsOfSplits(t, s); n["train"] < 3480 || n["train"] > 3720 || n["test"] < 1100 || n["test"] > 1300 {
			t.Errorf("rows of splits: %v, want 3600, 1200 and 1200 or so", n)
		}
		x := s.sample(t).Column("x")
		var rows []int64
		for i := range x.Len() {
			n := must.Get(strconv.ParseInt(x.TextOf(i), 10, 64))(t)
			rows = append(rows, n)
		}
		return rows
	}
	// Without a seed it is 0.
	first, again, other := sampled(""), sampled(", seed: 0"), sampled(", seed: 2")
	if !slices.Equal(first, again) {
		t.Error("the same seed gives another test split, want the same rows")
	}
	// A fifth of the 1,200 rows, 240, are test again by chance; 400 is far more than that.
	both := 0
	for _, row := range other {
		if slices.Contains(first, row) {
			both++
		}
	}
	if both > 400 {
		t.Errorf("%d of %d rows are test with either seed, want at most 400: by chance it would be a fifth", both,
			len(other))
	}
}

// TestSplitByClasses: each class is divided by the shares, exactly, and has a row in every split if it has enough rows.
// The same seed gives the same rows in each split, and another seed other ones: that is tested where all labels differ
// enough to tell rows apart. For a regression all rows are one class, also if that shows only after the first pass.
func TestSplitByClasses(t *testing.T) {
	const shares = "split: {by: classes, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1%s}\n"
	// staged stages 1,000 rows whose labels a function gives. rare gives n rows yes; classes gives a and b two rows
	// each.
	staged := func(spec, seed string, label func(i int) string) *staged {
		csv := csvOf("y,x", 1000, func(i int) string { return fmt.Sprintf("%s,%d", label(i), i*i%701) })
		return mustStage(t, spec+"encodings: none\n"+fmt.Sprintf(shares, seed), csv)
	}
	// The last of every 1000/n rows is yes.
	rare := func(n int) func(i int) string {
		every := 1000 / n
		return func(i int) string {
			if i%every == every-1 {
				return "yes"
			}
			return "no"
		}
	}
	classes := func(i int) string { return []string{"a", "b", "c", "c"}[min(i/2, 3)] }
	number := func(i int) string { return strconv.Itoa(i * 7 % 97) }
	// Labels that the spec calls binary, classes and numbers, and one that it says nothing of.
	const yes, kinds, reg, open = "label: {column: y, positive: yes}\n", "label: {column: y, kind: classes}\n",
		"label: {column: y, kind: regression}\n", "label: y\n"
	for _, c := range []struct {
		spec  string
		label func(i int) string
		class float32 // of which rows are counted; -1 for all rows
		want  [4]int  // rows of the class by split
	}{
		// As in divideRows: first a row for each split, in the order train, valid, test, calib, as far as there are
		// any. Each further one goes to the split that is furthest below its share. Wanted are train, valid, calib and
		// test. Of five rows, train's share is 3, so it gets the fifth. Of 996 rows (class 2) the shares are 597.6,
		// 199.2, 99.6 and 99.6.
		{yes, rare(4), 1, [4]int{1, 1, 1, 1}},
		{yes, rare(5), 1, [4]int{2, 1, 1, 1}},
		{yes, rare(20), 1, [4]int{12, 4, 2, 2}},
		{yes, rare(20), 0, [4]int{588, 196, 98, 98}},
		{kinds, classes, 0, [4]int{1, 1, 0, 0}},
		{kinds, classes, 2, [4]int{598, 199, 100, 99}},
		{reg, number, -1, [4]int{600, 200, 100, 100}},
		// Of many numbers the spec says nothing, so they are a regression, and 0 and 1 are binary.
		{open, number, -1, [4]int{600, 200, 100, 100}},
		{open, func(i int) string { return strconv.Itoa(i * 7 % 997) }, -1, [4]int{600, 200, 100, 100}},
		{open, func(i int) string { return strconv.Itoa(i * 7 % 2) }, 1, [4]int{300, 100, 50, 50}},
	} {
		var labels [3][]float32
		for i, seed := range []string{"", ", seed: 0", ", seed: 3"} { // without one, the seed is 0
			s, got := staged(c.spec, seed, c.label), [4]int{}
			for _, split := range s.Splits {
				for _, y := range split.Label {
					if y == c.class || c.class < 0 {
						got[slices.Index(dataset.SplitNames(), split.Name)]++
					}
				}
				labels[i] = append(labels[i], split.Label...)
			}
			must.Equal(t, got, c.want, "%s: rows of class %v", c.spec, c.class)
		}
		if !slices.Equal(labels[0], labels[1]) {
			t.Errorf("%s: the same seed divides otherwise, want the same", c.spec)
		}
		if c.class < 0 && slices.Equal(labels[0], labels[2]) {
			t.Errorf("%s: another seed gives the same rows in each split, want others", c.spec)
		}
	}
}

// TestSplitByRandomRefuses: each mistake in split: is an error that says what is wrong with it.
func TestSplitByRandomRefuses(t *testing.T) {
	for split, want := range map[string]string{
		"{by: random, key: x, train: 1}":        "a split by random has neither key nor column",
		"{by: classes, column: y, train: 1}":    "a split by classes has neither key nor column",
		"{by: random, train: 0.5}":              "sum to 0.5",
		"{by: hash, key: x, train: 1, seed: 2}": "seed is for a split by random",
		"{by: random, train: 1, seed: -1}":      "seed is -1",
		"{train: 1}":                            "split needs by: hash, random, classes, time or column",
	} {
		_, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\nlabel: y\nsplit: "+split+"\n"))
		must.Say(t, split, err, want)
	}
}

// TestSmallSplitsInOneLine: several splits of few rows are one warning, which names each of them.
func TestSmallSplitsInOneLine(t *testing.T) {
	s := mustStage(t, "label: y\nsplit: {by: column, column: part}\n", csvOf("y,x,part", 1500, func(i int) string {
		return fmt.Sprintf("%d,%d,%s", i/6%2, i%7, []string{"train", "train", "train", "train", "valid", "test"}[i%6])
	}))
	if w := s.Manifest.About.Warnings; len(w) != 1 || w[0].Text != "valid has only 250 rows, test 250" {
		t.Errorf("got the warnings %+v, want one of both splits", w)
	}
}

// TestAClassThatTrainLacks: a class that only rows of other splits have gets a warning. In the first case the last
// 1,000 rows of test have a class of their own, whose name has a comma. In the second they have class a, as train has.
func TestAClassThatTrainLacks(t *testing.T) {
	for last, want := range map[string][]string{"c, d": {"unlearnt y"}, "a": nil} {
		s := mustStage(t, "label: {column: y, kind: classes}\nsplit: {by: column, column: part}\n",
			csvOf("y,x,part", 6000, func(i int) string {
				part := []string{"train", "valid", "test"}[i/2000]
				if i >= 5000 {
					return fmt.Sprintf("%q,%d,%s", last, i%7, part)
				}
				return fmt.Sprintf("%c,%d,%s", 'a'+i%3%2, i%7, part) // two rows of a, and one of b
			}))
		if got := codes(s); !slices.Equal(got, want) {
			t.Errorf("with the class %q in test: %q, expected %q; %v", last, got, want, s.Manifest.About.Warnings)
		}
	}
}
