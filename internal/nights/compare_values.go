package nights

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// checkValues compares the values of each column with those of earlier nights. Columns that last night did not have and
// the time column are left out: checkColumns and checkTimes look at them.
//
// The checks of a column run from the most specific fault to the vaguest. The first that reports a blocking one ends
// them, because the same fault would show in the vaguer ones, too.
func (c *comparison) checkValues() {
	for i := range c.p.Columns {
		k := &c.p.Columns[i]
		old := c.last.column(k.Name)
		if old == nil || k.Name == c.p.TimeColumn {
			continue
		}

		// Values that are missing tonight and were there before, or the reverse.
		missing := c.learnColumn(k.Name, func(k *Column) float64 { return k.Missing })
		more := k.Missing - missing.hi
		switch {
		case k.Kind == None && old.Kind != None:
			c.add(Blocking, CodeEmpty, k.Name, "every value is missing; before, %s were", percent(missing.center))
			continue
		case k.Kind != old.Kind:
			continue // checkColumns has reported it
		case more > missingMore/2+missing.spread+c.noise*math.Sqrt(k.Missing):
			far := more > missing.tolerance()*(missingMore+2*missing.spread)+c.noise*math.Sqrt(k.Missing)
			if c.addIf(far, true, CodeMissingValues, k.Name, "%s of the values are missing, but at most %s were before",
				percent(k.Missing), percent(missing.hi)) {
				continue
			}
		case missing.lo-k.Missing > missing.tolerance()*(0.1+2*missing.spread)+c.noise:
			c.add(Warning, CodeMissingValues, k.Name,
				"%s of the values are missing, but at least %s were before: were the gaps filled?",
				percent(k.Missing), percent(missing.lo))
		}

		// One value in all rows, unless that happens by chance: in 1 of 1,000 nights it blocks, in 1 of 20 it is told.
		if k.constant() && old.constant() {
			c.checkOnlyValue(k, old)
			continue
		}
		if k.Distinct == 1 && old.Distinct > 1 {
			luck := c.luckOfOneValue(k)
			if c.addIf(luck < 0.001, luck < 0.05, CodeConstant, k.Name,
				"all rows have the same value, but there were %d different ones", old.Distinct) {
				continue
			}
		}

		// An aggregate that is computed anew each night has other numbers every time: only a common factor is a fault.
		if c.changesNightly(k, old) {
			c.checkScale(k, old)
			continue
		}

		// Names are compared by their levels, quantities by their numbers.
		if k.byLevels() && old.byLevels() {
			c.checkLevels(k)
		} else if !c.runsOn(k, old) && !c.checkPeaks(k, old) && !c.checkScale(k, old) && !c.checkFar(k, old) &&
			!c.checkLevels(k) {
			c.checkDrift(k, old)
		}
	}
}

// checkOnlyValue compares the only value of a column with last night's. Another one is only told: a model of tonight's
// rows learns nothing from it. A column that has changed before, such as the day of the month, is not told again.
func (c *comparison) checkOnlyValue(column, old *Column) {
	changes := c.learnColumnChange(column.Name, (*Column).constant, func(k, before *Column) float64 {
		if k.onlyValue() != before.onlyValue() {
			return 1
		}
		return 0
	})
	if now, was := column.onlyValue(), old.onlyValue(); now != was && changes.hi == 0 {
		c.add(Warning, CodeLevel, column.Name, "all rows have the value %.60q, and last night all had %.60q", now, was)
	}
}

// luckOfOneValue returns the probability that all of tonight's rows with a value have the only value of column by
// chance. For each recent night it takes the share s of that value on that night, and computes s to the power of
// tonight's rows; the result is the mean of these. A mean of the shares would not do: where rare values occur on some
// days only, one earlier night without them already shows that a constant column is nothing new.
func (c *comparison) luckOfOneValue(column *Column) float64 {
	rows := c.p.sampled() * (1 - column.Missing)
	return c.learnUsual(func(p *Profile) (float64, bool) {
		k := p.column(column.Name)
		if k == nil || k.Kind != column.Kind || k.Missing == 1 {
			return 0, false
		}
		if k.Kind != Number {
			return math.Pow(k.shareOf(column.Levels[0].Text)/(1-k.Missing), rows), true
		}
		i := slices.IndexFunc(k.Peaks, func(p Peak) bool { return p.Number == column.Quantiles[0] })
		if i < 0 {
			return 0, true
		}
		return math.Pow(k.Peaks[i].Share/(1-k.Missing), rows), true
	}).mean
}

// missingMore is by how much the share of a column's missing values may exceed that of every earlier night.
const missingMore = 0.045

// changesNightly reports whether column is an aggregate that is computed anew each night: it has one number for each
// level of another column (Column.Of), and at most half of these numbers are last night's, tonight and usually. A
// number's share then says only how frequent its level is, so that shares need not be compared.
//
// If the numbers of such an aggregate are last night's after all, it adds a blocking finding: they were not computed
// again.
func (c *comparison) changesNightly(column, old *Column) bool {
	if column.Kind != Number || column.Of == "" || column.Of != old.Of || len(column.Prints) == 0 {
		return false
	}
	stays := c.learnColumnChange(column.Name, func(k *Column) bool { return len(k.Prints) > 0 },
		func(k, before *Column) float64 { return sharedPrints(k.Prints, before.Prints) })
	same := sharedPrints(column.Prints, old.Prints)
	if same > 0.5 && stays.nights > 1 && stays.hi < 0.5 {
		c.add(Blocking, CodeStale, column.Name,
			"%s of the column's numbers are last night's, but usually at most %s are", percent(same), percent(stays.hi))
	}
	return same <= 0.5 && (stays.nights == 0 || stays.center < 0.5)
}

// Limits of checkFar.
const (
	farTimes = 2    // a number is far from the median if it is this many times as far as the farthest earlier one
	farShare = 0.02 // largest share of such numbers
)

// checkFar looks for numbers far beyond all earlier ones, such as those of one source in another unit. It reports
// whether it has added a blocking finding; from a quarter of farShare on there is a warning. If numbers are ids that
// are given one after the other, the share that new ones may have (newIDShare) does not block. Nothing is looked for if
// a recent night had no numbers in this column.
func (c *comparison) checkFar(column, old *Column) bool {
	lowest := c.learnColumn(column.Name, func(k *Column) float64 { return k.quantile(0) })
	highest := c.learnColumn(column.Name, func(k *Column) float64 { return k.quantile(steps) })
	middle := c.learnColumn(column.Name, func(k *Column) float64 { return k.quantile(steps / 2) })
	v := c.night.Sample.Column(column.Name)
	quantiles := c.learnColumn(column.Name, func(k *Column) float64 { return float64(len(k.Quantiles)) })
	if column.Kind != Number || v == nil || quantiles.lo == 0 { // a column of texts has none
		return false
	}
	low, high := middle.center-farTimes*(middle.center-lowest.lo), middle.center+farTimes*(highest.hi-middle.center)
	if column.Quantiles[0] >= low && column.Quantiles[steps] <= high { // the least and the greatest are not far
		return false
	}

	// The profile keeps quantiles only, so the far ones are counted in the sampled rows themselves.
	numbers, _ := c.night.Numbers(v)
	far := 0
	for _, x := range numbers {
		if x < low || x > high {
			far++
		}
	}
	share := float64(far) / float64(max(len(numbers), 1))
	return c.addIf(share > middle.tolerance()*farShare+c.noise*math.Sqrt(share)+old.newIDShare(), share > farShare/4,
		CodeScaled, column.Name, "%s of the numbers are far outside of all earlier ones, which were %.6g to %.6g "+
			"(tonight %.6g to %.6g): are they in another unit?", percent(share), lowest.lo, highest.hi,
		column.Quantiles[0], column.Quantiles[steps])
}

// runsOn reports whether the column holds running numbers, such as order numbers or times in milliseconds: nearly every
// row has its own whole number, and the whole range has moved up since last night. That is no fault, however far the
// distribution has moved.
//
// The range must have moved on earlier nights, too, by at least an eighth of tonight's step. This tells running numbers
// from amounts that are multiplied by a factor tonight. On the second night nothing is known of earlier steps; then the
// numbers must begin where last night's ended.
func (c *comparison) runsOn(column, old *Column) bool {
	width := func(k *Column) float64 { return k.quantile(steps) - k.quantile(0) }
	step := func(k, before *Column) float64 { return k.quantile(steps/2) - before.quantile(steps/2) }

	// By how much the median has moved, and how far the two ends have moved differently from it.
	moved := step(column, old)
	apart := max(math.Abs(column.quantile(0)-old.quantile(0)-moved),
		math.Abs(column.quantile(steps)-old.quantile(steps)-moved))
	unique := column.Whole && old.Whole && float64(column.Distinct) > 0.98*c.p.sampled()*(1-column.Missing)
	if !unique || moved <= 0.02*width(old) || apart >= 0.2*width(old) {
		return false
	}

	hasNumbers := func(k *Column) bool { return k.Kind == Number && len(k.Quantiles) > 0 }
	usual := c.learnColumnChange(column.Name, hasNumbers, step)
	return usual.nights == 0 && column.quantile(0) > old.quantile(steps)-0.05*width(old) || usual.lo > moved/8
}

// Tolerances of a factor on all numbers of a column. Sizes are absolute logarithms: 0 is a factor of 1.
const (
	scaleFloor = 0.05 // from this size on, beyond the usual one, a factor is told
	scaleLeast = 0.12 // from this size on it blocks, since prices may rise by a tenth; within a level it is told
	scaleAgree = 0.5  // by this part of the size the factors of different levels or quantiles may differ
)

// checkScale looks for numbers that are all multiplied by the same factor, as by a change of currency or unit. It
// reports whether it has added a blocking finding.
//
// The factor is the median of the ratios to last night's: of the medians by level of another column, or of the
// quantiles where fewer than three levels are known. It is kept in column.Factor, so that later nights know how much
// the numbers usually grow. Ratios that disagree are no common factor, and left to checkDrift.
func (c *comparison) checkScale(column, old *Column) bool {
	factors := c.levelFactors(column, old)
	if len(factors) < 3 {
		factors = quantileFactors(column, old)
	}
	if len(factors) < 3 { // too few to agree on a common one; column.Factor stays 0
		return false
	}

	slices.Sort(factors)
	factor := factors[len(factors)/2]
	column.Factor = round5(factor)
	// apart is the interquartile range of the factors' logarithms.
	size, apart := math.Abs(math.Log(factor)), math.Log(factors[len(factors)*3/4]/factors[len(factors)/4])

	// Numbers may grow naturally, by what earlier nights' factors show; a night without one counts as no change. And
	// the median of few factors differs by chance: luck is about three of its standard errors, each of which for normal
	// values is 0.93 times their interquartile range over the root of their number.
	seen := c.learnColumn(column.Name, func(k *Column) float64 {
		if k.Factor <= 0 {
			return 0
		}
		return math.Abs(math.Log(k.Factor))
	})
	luck := 3 * apart / math.Sqrt(float64(len(factors)))
	usually := 2.5*seen.hi + luck
	if apart > scaleAgree*size || !column.scaledFrom(old, factor) {
		return false
	}
	limit := seen.tolerance()*scaleFloor + usually
	return c.addIf(size > max(limit, scaleLeast), size > limit, CodeScaled, column.Name,
		"the numbers are %.4g times what they were: median %.6g, before %.6g",
		factor, column.Quantiles[steps/2], old.Quantiles[steps/2])
}

// scaledFrom reports whether the column's quantiles are nearer to old's times factor than to old's. Of few different
// numbers a median that meets one and then the next is chance, and no factor of all. Of many it is not asked, as the
// mix of levels moves their quantiles.
func (c *Column) scaledFrom(old *Column, factor float64) bool {
	same, scaled := 0.0, 0.0
	for i, q := range old.Quantiles {
		same += math.Abs(c.quantile(i) - q)
		scaled += math.Abs(c.quantile(i) - factor*q)
	}
	return c.Distinct > 5*steps || scaled < same
}

// levelFactors returns, for each level of the column old.Beside, the median of tonight's numbers in its rows divided by
// last night's. Levels with too few rows, and ratios that are not positive and finite, are left out. It is nil if last
// night has no such medians or a column is missing tonight.
func (c *comparison) levelFactors(column, old *Column) []float64 {
	if column.Kind != Number || len(old.Middles) == 0 {
		return nil
	}

	numbers, other := c.night.Sample.Column(column.Name), c.night.Sample.Column(old.Beside)
	if numbers == nil || other == nil {
		return nil
	}
	was := map[string]float64{}
	var levels []ColumnLevel
	for _, m := range old.Middles {
		was[m.Text] = m.Median
		levels = append(levels, ColumnLevel{Text: m.Text})
	}

	var factors []float64
	for _, m := range middles(c.night, numbers, other, levels) {
		if f := m.Median / was[m.Text]; f > 0 && !math.IsInf(f, 0) {
			factors = append(factors, f)
		}
	}
	return factors
}

// quantileFactors divides each of column's quantiles by the same quantile of old. The two outermost on either side are
// left out, because outliers move them. Where quantiles of old are equal, one of them is used. Factors that are not
// positive and finite are left out. It is nil unless both columns hold numbers.
func quantileFactors(column, old *Column) []float64 {
	if column.Kind != Number || len(old.Quantiles) != len(column.Quantiles) {
		return nil
	}
	var factors []float64
	for i := 2; i <= steps-2; i++ {
		if f := column.Quantiles[i] / old.Quantiles[i]; f > 0 && !math.IsInf(f, 0) &&
			(i == 2 || old.Quantiles[i] != old.Quantiles[i-1]) {
			factors = append(factors, f)
		}
	}
	return factors
}

// Tolerances of levels.
const (
	levelFloor = 0.06 // largest change of a level's share
	churnFloor = 0.15 // largest share of the rows that have moved to other levels (churn)
	newsLevels = 3    // up to so many new levels are news, such as new releases; more are written differently
)

// checkLevels compares the levels of a column with last night's. In this order it looks for levels that are all written
// differently, one level that takes over or vanishes, one that has another name, several that are new, and for a
// distribution that has changed. It reports whether it has added a blocking finding; only the first is reported.
//
// Each of these changes is compared with the same change between earlier nights, each with the night before it.
func (c *comparison) checkLevels(column *Column) bool {
	old := c.last.column(column.Name)
	if !column.hasLevels() || !old.hasLevels() { // fractions have none
		return false
	}
	history := func(ask func(k, before *Column) float64) usual {
		return c.learnColumnChange(column.Name, (*Column).hasLevels, ask)
	}

	// All levels are written differently: hardly one occurred last night, though on other nights many did. On the
	// second night there is no such comparison; then last night must have had many levels, and several rows for most
	// of them.
	known := sharedPrints(column.Prints, old.Prints)
	usuallyKnown := history(func(k, before *Column) float64 { return sharedPrints(k.Prints, before.Prints) })
	strange := usuallyKnown.nights > 0 && usuallyKnown.lo > 0.08 && known < 0.35*usuallyKnown.lo
	strange = strange || usuallyKnown.nights == 0 && known < 0.02 && old.Distinct >= 50 &&
		float64(old.Distinct) < 0.5*c.last.sampled()
	if strange {
		c.add(Blocking, CodeUnseen, column.Name,
			"only %s of the column's values occurred last night: are they written differently?", percent(known))
		return true
	}

	// A level that takes over, or one that is gone. In a column whose levels come and go, such as campaigns, that is a
	// fault only if the level has far more rows than any had before.
	change, text := greatestChange(column, old)
	changed := history(func(k, before *Column) float64 { x, _ := greatestChange(k, before); return math.Abs(x) })
	top := c.learnColumn(column.Name, (*Column).topShare)
	now, was := column.shareOf(text), old.shareOf(text)
	floor := changed.tolerance() * levelFloor
	limit := floor + 3*changed.hi + c.noise*math.Sqrt(math.Abs(change))
	comes := history(turnover)
	restless := c.comesAndGoes(column.Name) || column.Of != "" && c.comesAndGoes(column.Of)
	beyond := math.Abs(change) > limit
	if restless {
		beyond = now > farAbove*top.hi && now > floor+c.noise*math.Sqrt(now)
	}
	if beyond {
		c.add(Blocking, CodeLevel, column.Name, "%s of the rows have the value %.60q, but %s had it before",
			percent(now), text, percent(was))
		return true
	}

	// A level under another name. This is judged only if no level has come or gone for two nights: in other columns,
	// one level that ends and one that begins on the same day are news.
	goes := history(func(k, before *Column) float64 { return turnover(before, k) })
	if text, was := c.renamed(column, old); text != "" && comes.nights > 1 && max(comes.hi, goes.hi) < 0.005 {
		return c.addIf(true, true, CodeUnseen, column.Name, "%s of the rows have the new value %.60q, and none has "+
			"%.60q, which as many had before: has it another name?", percent(column.shareOf(text)), text, was)
	}

	// Levels that are new: one or two are news, such as an exchange or a release; many are values written differently.
	came := turnover(column, old)
	if !restless && came > comes.tolerance()*levelFloor+3*comes.hi+c.noise*math.Sqrt(came) {
		var values []string
		for _, l := range column.Levels {
			if most, certain := old.occurs(l.Text); certain && most == 0 {
				values = append(values, fmt.Sprintf("%.40q", l.Text))
			}
		}
		return c.addIf(len(values) > max(newsLevels, len(old.Levels)/4), true, CodeUnseen, column.Name,
			"%s of the rows have values that did not occur last night (%s): are they new, or written differently?",
			percent(came), strings.Join(values[:min(len(values), newsLevels)], ", "))
	}

	// Many rows have other values, and no single level explains it. Chance moves each level a little, so that its part
	// grows with the square root of their number.
	changes, churned := churn(column, old), history(churn)
	spread := c.noise * math.Sqrt(float64(len(column.Levels)+1)) / 2
	return c.addIf(changes > churned.tolerance()*churnFloor+3*churned.hi+spread,
		changes > 0.1+1.5*churned.hi+spread,
		CodeDrift, column.Name, "%s of the rows have other values than last night's, %s", percent(changes),
		churned.atMost("but usually at most %s have"))
}

// renamed looks for a level with another name. It returns text, a level that no recent night had, and was, one that is
// gone tonight and whose share on recent nights was that of text, within chance and twice its spread. Both are empty if
// there is no such pair; of several, the first is returned. Levels with less than one percent of the rows are left out:
// among small shares, many are equal by chance. So are levels that on a recent night had less than a quarter of the
// share of text.
func (c *comparison) renamed(column, old *Column) (text, was string) {
	for _, l := range column.Levels {
		luck := 3 * math.Sqrt(l.Share/max(c.p.sampled(), 1)) // three standard errors of the share
		occurs := func(k *Column) float64 { most, _ := k.occurs(l.Text); return most }
		if l.Share < 0.01 || c.learnColumn(column.Name, occurs).hi > 0 {
			continue
		}
		for _, gone := range old.Levels {
			before := c.learnColumn(column.Name, func(k *Column) float64 { return k.shareOf(gone.Text) })
			most, certain := column.occurs(gone.Text)
			if certain && most == 0 && before.lo > l.Share/4 && math.Abs(l.Share-before.center) < 2*before.spread+luck {
				return l.Text, gone.Text
			}
		}
	}
	return "", ""
}

// comesAndGoes reports whether levels of the column come and go from night to night, as campaigns do: on half of the
// recent nights or more, more than .5 % of the rows had a level that the night before, or after, did not have.
func (c *comparison) comesAndGoes(name string) bool {
	u := c.learnColumnChange(name, (*Column).hasLevels,
		func(k, before *Column) float64 { return max(turnover(k, before), turnover(before, k)) })
	return u.nights > 0 && u.center > 0.005
}

// farAbove bounds the share of a level in a column whose levels come and go: this many times the largest share that any
// level had on recent nights.
const farAbove = 4

// greatestChange returns the level whose share differs most between the two columns, and the difference: positive if it
// is larger in column than in old.
func greatestChange(column, old *Column) (change float64, text string) {
	for _, k := range []*Column{column, old} {
		for _, l := range k.Levels {
			if x := column.shareOf(l.Text) - old.shareOf(l.Text); math.Abs(x) > math.Abs(change) {
				change, text = x, l.Text
			}
		}
	}
	return change, text
}

func (c *Column) hasLevels() bool { return len(c.Levels) > 0 }

// turnover estimates the share of column's rows with a level that other does not have.
//
// Of many levels, other keeps only the most frequent, and hashes of some more. So there are levels of which it is
// open whether other has them. Their rows are taken to be new in the same proportion as those of the levels that
// other did not keep but can tell about. If it can tell about fewer rows than are open, the open ones count as new as
// far as their share exceeds that of the rarest level that other kept.
func turnover(column, other *Column) float64 {
	// Shares of column's rows. came: those with levels that other certainly does not have. told: those with levels that
	// other did not keep, but of which it is certain. open: those with levels of which it is not certain. unknown: the
	// ones among open that are taken to be new.
	came, told, open, unknown := 0.0, 0.0, 0.0, 0.0
	for _, l := range column.Levels {
		switch most, certain := other.occurs(l.Text); {
		case !certain:
			open += l.Share
			unknown += max(0, l.Share-most) // if other had the level, it was no more frequent than most
		case most == 0:
			came += l.Share
			told += l.Share
		case other.findLevel(l.Text) == nil:
			told += l.Share
		}
	}
	if told > 0 && told >= open {
		unknown = open * came / told
	}
	return came + unknown
}

// occurs looks up a level of which the column may have kept nothing: of many levels it keeps the most frequent, and the
// lowest hashes of all. most is the largest share that the level can have. certain says that the column tells whether
// the level occurs: it does if most is above 0, and does not if most is 0.
func (c *Column) occurs(text string) (most float64, certain bool) {
	if l := c.findLevel(text); l != nil {
		return l.Share, true
	}
	if c.Rest == 0 || len(c.Levels) == 0 {
		return 0, true
	}

	// A level that was not kept is no more frequent than the last one kept. Its hash was kept if it is one of the
	// lowest.
	least := c.Levels[len(c.Levels)-1].Share
	hash := binary.BigEndian.AppendUint64(nil, xxhash.Sum64String(text))
	switch last := c.Prints[max(0, len(c.Prints)-len(hash)):]; { // prints ascend
	case sharedPrints(hash, c.Prints) > 0:
		return least, true
	case bytes.Compare(hash, last) < 0, len(c.Prints) == c.Distinct*len(hash): // all hashes up to this one are kept
		return 0, true
	}
	return least, false
}

// churn estimates the share of rows that have moved to other levels from old to column. It is levelDistance, less what
// may be due to the limit on kept levels: among many levels of like frequency, others may be kept each night, although
// all of them still occur.
func churn(column, old *Column) float64 {
	unsure := 0.0
	for _, pair := range [][2]*Column{{column, old}, {old, column}} {
		kept, other := pair[0].Levels, pair[1]
		for _, l := range kept {
			if other.findLevel(l.Text) == nil {
				most, _ := other.occurs(l.Text)
				unsure += min(l.Share, most)
			}
		}
	}
	return max(0, levelDistance(column, old)-unsure/2) // half, as levelDistance counts a move at both of its ends
}

// shareOf returns the share of the rows with a level; 0 for a level that was not kept.
func (c *Column) shareOf(text string) float64 {
	if l := c.findLevel(text); l != nil {
		return l.Share
	}
	return 0
}

// topShare is the share of the most frequent level.
func (c *Column) topShare() float64 {
	if len(c.Levels) == 0 {
		return 0
	}
	return c.Levels[0].Share
}

// driftFloor is how far the distribution of numbers may move in a night, as numberDistance.
const driftFloor = 0.12

// checkDrift compares the distribution of a column's numbers with last night's; other columns are passed over. What
// counts is the share of the rows that have moved to other ranges. Above these sums it blocks, or warns:
//
//   - blocks: driftFloor, more while few nights are known; three times the largest usual change; chance; and for ids
//     that are given one after the other, the share that new ones may have (newIDShare)
//   - warns: half of driftFloor; one and a half times the largest usual change; chance
//
// Rows whose number is a peak in place of another one near it only warn.
func (c *comparison) checkDrift(column, old *Column) {
	if column.Kind != Number {
		return
	}

	moved, near := Distance(column, old), 0.0
	for _, p := range column.Peaks {
		near += inPlace(p, column, old)
	}
	usual := c.learnColumnChange(column.Name, func(k *Column) bool { return k.Kind == Number }, Distance)
	blocksAt := usual.tolerance()*driftFloor + 3*usual.hi + c.noise + old.newIDShare()
	warnsAt := driftFloor/2 + 1.5*usual.hi + c.noise

	median, was := fmt.Sprintf("%.6g", column.Quantiles[steps/2]), fmt.Sprintf("%.6g", old.Quantiles[steps/2])
	if was == median {
		median += " as before"
	} else {
		median += ", and was " + was
	}
	c.addIf(moved-near > blocksAt, moved > warnsAt, CodeDrift, column.Name,
		"the distribution of the numbers has changed: the median is %s; %s of the rows have moved to other ranges, %s",
		median, percent(moved), usual.atMost("but at most %s were before"))
}
