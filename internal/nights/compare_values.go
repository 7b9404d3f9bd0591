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

// checkValues compares the values of each column with earlier ones.
func (c *comparison) checkValues() {
	for i := range c.p.Columns {
		k := &c.p.Columns[i]
		old := c.last.column(k.Name)
		if old == nil || k.Name == c.p.TimeColumn {
			continue
		}

		missing := c.learnColumn(k.Name, func(k *Column) float64 { return k.Missing })
		more := k.Missing - missing.hi
		switch {
		case k.Kind == None && old.Kind != None:
			c.add(Blocking, CodeEmpty, k.Name, "every value is missing; before, %s were", percent(missing.center))
			continue
		case k.Kind != old.Kind:
			continue // already reported
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

		if k.Distinct == 1 && old.Distinct > 1 {
			luck := c.luckOfOneValue(k)
			if c.addIf(luck < 0.001, luck < 0.05, CodeConstant, k.Name,
				"all rows have the same value, but there were %d different ones", old.Distinct) {
				continue
			}
		}
		if c.changesNightly(k, old) {
			c.checkScale(k, old)
			continue
		}
		if k.byLevels() && old.byLevels() {
			c.checkLevels(k)
		} else if !c.runsOn(k, old) && !c.checkPeaks(k, old) && !c.checkScale(k, old) && !c.checkFar(k, old) &&
			!c.checkLevels(k) {
			c.checkDrift(k, old)
		}
	}
}

// luckOfOneValue is how likely it is that all of tonight's rows have a column's only value, if tonight is one of the
// recent nights: rare values may come by the day, so that a night without them says more than the mean of all.
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

// missingMore is how many more of a column's values may be missing.
const missingMore = 0.045

// changesNightly reports whether a column has one number for each level of another, a new one each night: an aggregate.
// Then the share of a number is that of the level, and last night's numbers are stale.
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

// Numbers far outside of all earlier ones.
const (
	farTimes = 2 // as far from the median as the farthest earlier number
	farShare = 0.02
)

// checkFar looks for numbers far beyond all earlier ones, such as those of one source in another unit.
func (c *comparison) checkFar(column, old *Column) bool {
	lowest := c.learnColumn(column.Name, func(k *Column) float64 { return k.quantile(0) })
	highest := c.learnColumn(column.Name, func(k *Column) float64 { return k.quantile(steps) })
	middle := c.learnColumn(column.Name, func(k *Column) float64 { return k.quantile(steps / 2) })
	v := c.night.Sample.Column(column.Name)
	of := c.learnColumn(column.Name, func(k *Column) float64 { return float64(len(k.Quantiles)) }) // a text has none
	if column.Kind != Number || v == nil || of.lo == 0 {
		return false
	}
	low, high := middle.center-farTimes*(middle.center-lowest.lo), middle.center+farTimes*(highest.hi-middle.center)
	if column.Quantiles[0] >= low && column.Quantiles[steps] <= high {
		return false
	}
	x, _ := c.night.Numbers(v)
	far := 0
	for _, x := range x {
		if x < low || x > high {
			far++
		}
	}
	share := float64(far) / float64(max(len(x), 1))
	return c.addIf(share > middle.tolerance()*farShare+c.noise*math.Sqrt(share)+old.news(), share > farShare/4,
		CodeScaled, column.Name, "%s of the numbers are far outside of all earlier ones, which were %.6g to %.6g "+
			"(tonight %.6g to %.6g): are they in another unit?", percent(share), lowest.lo, highest.hi,
		column.Quantiles[0], column.Quantiles[steps])
}

// runsOn reports whether different whole numbers go on where last night's ended, or moved on with a window, as they do
// each night: numbers of orders, or times in milliseconds. Amounts times a factor have not moved before.
func (c *comparison) runsOn(a, b *Column) bool {
	width := func(k *Column) float64 { return k.quantile(steps) - k.quantile(0) }
	step := func(k, before *Column) float64 { return k.quantile(steps/2) - before.quantile(steps/2) }
	moved := step(a, b)
	apart := max(math.Abs(a.quantile(0)-b.quantile(0)-moved), math.Abs(a.quantile(steps)-b.quantile(steps)-moved))
	unique := a.Whole && b.Whole && float64(a.Distinct) > 0.98*c.p.sampled()*(1-a.Missing)
	if !unique || moved <= 0.02*width(b) || apart >= 0.2*width(b) {
		return false
	}
	usual := c.learnColumnChange(a.Name, func(k *Column) bool { return k.Kind == Number && len(k.Quantiles) > 0 }, step)
	return usual.nights == 0 && a.quantile(0) > b.quantile(steps)-0.05*width(b) || usual.lo > moved/8
}

// checkPeaks looks for a number that many rows suddenly have, such as a zero for unknown.
func (c *comparison) checkPeaks(column, old *Column) bool {
	rise, at := peakRise(column, old)
	seen := c.learnColumnChange(column.Name, func(*Column) bool { return true }, func(k, before *Column) float64 {
		rise, _ := peakRise(k, before)
		return rise
	})
	return c.addIf(rise > seen.tolerance()*levelFloor+3*seen.hi+c.noise*math.Sqrt(rise), false, CodeLevel, column.Name,
		"%s of the rows have the number %g, but only %s had it before", percent(at.Share), at.Number,
		percent(at.Share-rise)) || c.checkCode(column)
}

// checkCode looks for a number such as -1, 0 or 999 that far more rows have than had any number of the column so far.
func (c *comparison) checkCode(column *Column) bool {
	at, top := column.Top, c.learnColumn(column.Name, func(k *Column) float64 { return k.Top.Share })
	if top.nights < 2 || top.lo == 0 || at.Share <= max(0.01, 3*top.hi+c.noise*math.Sqrt(top.hi)) { // 0: not known
		return false
	}
	nines := math.Log10(math.Abs(at.Number) + 1)
	code := at.Number == math.Trunc(at.Number) && (at.Number <= 0 || nines == math.Trunc(nines) && nines >= 3)
	return c.addIf(code, true, CodeLevel, column.Name, "%s of the rows have the number %g, but none had more than %s: "+
		"does it stand for a missing value?", percent(at.Share), at.Number, percent(top.hi))
}

// peakRise returns the largest rise of a number's share, and the number.
func peakRise(a, b *Column) (rise float64, at Peak) {
	for _, p := range a.Peaks {
		was := 0.0
		for _, o := range b.Peaks {
			if o.Number == p.Number {
				was = o.Share
			}
		}
		if p.Share-was > rise {
			rise, at = p.Share-was, p
		}
	}
	return rise, at
}

// Tolerances of a factor on all numbers of a column.
const (
	scaleFloor = 0.05 // least distance of the factor from 1, as a logarithm, beyond the usual
	scaleLeast = 0.12 // the same in all: prices may rise by a tenth
	scaleAgree = 0.5  // largest disagreement of the levels' or quantiles' factors, relative to the distance
)

// checkScale looks for numbers that are all multiplied by the same factor, as by a change of currency or unit.
func (c *comparison) checkScale(column, old *Column) bool {
	factors := c.levelFactors(column, old)
	if len(factors) < 3 {
		factors = quantileFactors(column, old)
	}
	if len(factors) < 3 {
		return false
	}

	slices.Sort(factors)
	factor := factors[len(factors)/2]
	column.Factor = round5(factor)
	size, apart := math.Abs(math.Log(factor)), math.Log(factors[len(factors)*3/4]/factors[len(factors)/4])

	// Numbers may grow naturally, and medians of few rows differ by chance.
	seen := c.learnColumn(column.Name, func(k *Column) float64 {
		if k.Factor <= 0 {
			return 0
		}
		return math.Abs(math.Log(k.Factor))
	})
	luck := 3 * apart / math.Sqrt(float64(len(factors)))
	usually := 2.5*seen.hi + luck
	if apart > scaleAgree*size {
		return false
	}
	limit := seen.tolerance()*scaleFloor + usually
	return c.addIf(size > max(limit, scaleLeast), size > limit, CodeScaled, column.Name,
		"the numbers are %.4g times what they were: median %.6g, before %.6g",
		factor, column.Quantiles[steps/2], old.Quantiles[steps/2])
}

// levelFactors returns the ratios of the medians by level to last night's.
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

// quantileFactors divides the quantiles of a by those of b, without the outermost, where outliers are, and each value
// of b once. It is nil unless both are numbers; factors that are not above 0 and finite are left out.
func quantileFactors(a, b *Column) []float64 {
	if a.Kind != Number || len(b.Quantiles) != len(a.Quantiles) {
		return nil
	}
	var factors []float64
	for i := 2; i <= steps-2; i++ {
		if f := a.Quantiles[i] / b.Quantiles[i]; f > 0 && !math.IsInf(f, 0) &&
			(i == 2 || b.Quantiles[i] != b.Quantiles[i-1]) {
			factors = append(factors, f)
		}
	}
	return factors
}

// Tolerances of levels.
const (
	levelFloor = 0.06 // largest rise of a level's share
	churnFloor = 0.15 // largest share of rows with levels that were absent last night
	newsLevels = 3    // new levels that may be news
)

// checkLevels looks for a level that takes over, for levels that are written differently, and for a complete change of
// levels.
func (c *comparison) checkLevels(column *Column) bool {
	old := c.last.column(column.Name)
	if !column.hasLevels() || !old.hasLevels() {
		return false
	}
	history := func(ask func(k, before *Column) float64) usual {
		return c.learnColumnChange(column.Name, (*Column).hasLevels, ask)
	}

	// Levels that hardly occurred last night, though on other nights many did.
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

	// A level under another name, where none has come or gone for two nights: one that ends and one that begins are
	// news elsewhere.
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

	changes, churned := churn(column, old), history(churn)
	spread := c.noise * math.Sqrt(float64(len(column.Levels)+1)) / 2
	return c.addIf(changes > churned.tolerance()*churnFloor+3*churned.hi+spread,
		changes > 0.1+1.5*churned.hi+spread,
		CodeDrift, column.Name, "%s of the rows have other values than last night's, %s", percent(changes),
		churned.atMost("but usually at most %s have"))
}

// renamed returns a level that no night had, and one that is gone tonight, with which as many rows were every night.
func (c *comparison) renamed(column, old *Column) (text, was string) {
	for _, l := range column.Levels {
		luck := 3 * math.Sqrt(l.Share/max(c.p.sampled(), 1))
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

// comesAndGoes reports whether levels of the column come and go on most nights.
func (c *comparison) comesAndGoes(name string) bool {
	u := c.learnColumnChange(name, (*Column).hasLevels,
		func(k, before *Column) float64 { return max(turnover(k, before), turnover(before, k)) })
	return u.nights > 0 && u.center > 0.005
}

// farAbove is how many times as many rows as any level ever had a new one may have.
const farAbove = 4

// greatestChange returns the largest change of a level's share, and the level.
func greatestChange(a, b *Column) (change float64, text string) {
	for _, pair := range [][2]*Column{{a, b}, {b, a}} {
		for _, l := range pair[0].Levels {
			if x := a.shareOf(l.Text) - b.shareOf(l.Text); math.Abs(x) > math.Abs(change) {
				change, text = x, l.Text
			}
		}
	}
	return change, text
}

func (c *Column) hasLevels() bool { return len(c.Levels) > 0 }

// turnover is the share of a's rows with a level that b does not have. Where b tells of at least half of those that it
// did not keep, the rest is taken to be alike.
func turnover(a, b *Column) float64 {
	came, told, open, unknown := 0.0, 0.0, 0.0, 0.0
	for _, l := range a.Levels {
		switch most, certain := b.occurs(l.Text); {
		case !certain:
			open += l.Share
			unknown += max(0, l.Share-most)
		case most == 0:
			came += l.Share
			told += l.Share
		case b.findLevel(l.Text) == nil:
			told += l.Share
		}
	}
	if told > 0 && told >= open {
		unknown = open * came / told
	}
	return came + unknown
}

// occurs returns the largest share that a level may have, and whether it is certain that it occurs, or does not. Of
// many levels a column keeps the most frequent, and the prints of some: others may be as frequent as the last one kept.
func (c *Column) occurs(text string) (most float64, certain bool) {
	if l := c.findLevel(text); l != nil {
		return l.Share, true
	}
	if c.Rest == 0 || len(c.Levels) == 0 {
		return 0, true
	}
	least := c.Levels[len(c.Levels)-1].Share
	hash := binary.BigEndian.AppendUint64(nil, xxhash.Sum64String(text))
	switch last := c.Prints[max(0, len(c.Prints)-len(hash)):]; { // prints ascend
	case sharedPrints(hash, c.Prints) > 0:
		return least, true
	case bytes.Compare(hash, last) < 0, len(c.Prints) == c.Distinct*len(hash):
		return 0, true
	}
	return least, false
}

// churn is levelDistance without what may be due to other levels being the most frequent, of many alike.
func churn(a, b *Column) float64 {
	unsure := 0.0
	for _, pair := range [][2]*Column{{a, b}, {b, a}} {
		for _, l := range pair[0].Levels {
			if pair[1].findLevel(l.Text) == nil {
				most, _ := pair[1].occurs(l.Text)
				unsure += min(l.Share, most)
			}
		}
	}
	return max(0, levelDistance(a, b)-unsure/2)
}

// shareOf is 0 for a level that was not kept.
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

// checkDrift compares the distribution of numbers with last night's. It blocks if more rows have moved to other ranges
// than driftFloor and three times the largest usual change, and warns at half of that. While few nights are known, the
// floor of what blocks is higher, as it is for new names.
func (c *comparison) checkDrift(column, old *Column) {
	if column.Kind != Number {
		return
	}

	moved := Distance(column, old)
	usual := c.learnColumnChange(column.Name, func(k *Column) bool { return k.Kind == Number }, Distance)
	blocksAt := usual.tolerance()*driftFloor + 3*usual.hi + c.noise + old.news()
	warnsAt := driftFloor/2 + 1.5*usual.hi + c.noise

	median, was := fmt.Sprintf("%.6g", column.Quantiles[steps/2]), fmt.Sprintf("%.6g", old.Quantiles[steps/2])
	if was == median {
		median += " as before"
	} else {
		median += ", and was " + was
	}
	c.addIf(moved > blocksAt, moved > warnsAt, CodeDrift, column.Name,
		"the distribution of the numbers has changed: the median is %s; %s of the rows have moved to other ranges, %s",
		median, percent(moved), usual.atMost("but at most %s were before"))
}
