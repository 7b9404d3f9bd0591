package nights

import (
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"gonum.org/v1/gonum/stat/distuv"
)

// The thresholds in this package were chosen by hand, with the tuned kinds of nightstest in view (Kind.Tuned); how they
// do on the held-out kinds and on good nights is measured in docs/nights.md. Where a number has another source, it says
// so.

// Thresholds for a column that gives away the label.
const (
	leakAlways = 0.85 // single-column AUC up to which a rise is not called a leak
	leakNew    = 0.95 // single-column AUC of a new column
	leakRises  = 0.15 // largest rise of a single-column AUC
	leakSure   = 0.99 // single-column AUC that is reported even if it has always been so high
)

// checkLeaks looks for columns that give away the label.
func (c *comparison) checkLeaks() {
	for i := range c.p.Columns {
		k := &c.p.Columns[i]
		before := c.learnColumn(k.Name, func(k *Column) float64 { return k.AUC })
		switch {
		case before.nights > 0 && k.AUC > leakAlways && k.AUC > before.hi+leakRises:
			c.add(Blocking, CodeLeak, k.Name,
				"the column alone predicts the label with an AUC of %.4f, compared with at most %.4f before: is it "+
					"known before the label is?", k.AUC, before.hi)
		case before.nights == 0 && len(c.before) > 0 && k.AUC > leakNew:
			c.add(Blocking, CodeLeak, k.Name,
				"the column is new, and alone predicts the label with an AUC of %.4f: is it known before the label is?",
				k.AUC)
		case k.AUC > leakSure && before.nights == 0:
			c.add(Warning, CodeLeak, k.Name,
				"the column alone predicts the label with an AUC of %.4f: is it known before the label is?", k.AUC)
		}
	}
}

// Tolerances of ties, the associations between columns.
const (
	tieStrong = 0.08 // losing a weaker tie means nothing
	tieLeft   = 0.5  // least remaining part of a tie
	tieCount  = 0.6  // share of a column's strong ties that must be lost
)

// checkTies looks for columns that have lost their ties to the others, although their values are distributed as before:
// shifted by a row against the others, or shuffled. Ties of the label are left to checkLabels.
func (c *comparison) checkTies() {
	lost, strong := map[string]int{}, map[string]int{}
	for i := range min(len(c.p.Ties), len(c.p.Columns)) {
		for j := range i {
			a, b := c.p.Columns[i].Name, c.p.Columns[j].Name
			u := c.learn(func(p *Profile) (float64, bool) { return p.tieOf(a, b) })
			if u.nights == 0 || u.lo < tieStrong {
				continue
			}
			gone := c.p.Ties[i][j] < tieLeft*u.lo-c.noise/2
			for _, name := range []string{a, b} {
				strong[name]++
				if gone {
					lost[name]++
				}
			}
		}
	}

	for i := range c.p.Columns {
		name := c.p.Columns[i].Name
		switch {
		case lost[name] == 0 || c.found(name) || float64(lost[name]) < tieCount*float64(strong[name]):
		case c.otherLost(name, lost, strong):
			// Its only tie was to a column that has lost others as well.
		default:
			c.add(Blocking, CodeScrambled, name,
				"the column has lost its relation to %d of %d other columns: do its values belong to other "+
					"rows?", lost[name], strong[name])
		}
	}
}

// otherLost reports whether a column's lost ties are better explained by another column that has lost more.
func (c *comparison) otherLost(name string, lost, strong map[string]int) bool {
	for other, n := range lost {
		if other != name && n > lost[name] && float64(n) >= tieCount*float64(strong[other]) {
			return true
		}
	}
	return false
}

// found reports whether there is already a finding about a column.
func (c *comparison) found(name string) bool {
	return slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Column == name && f.Level == Blocking })
}

// tieOf returns the tie of two columns by name.
func (p *Profile) tieOf(a, b string) (float64, bool) {
	i, known := p.place(a)
	j, too := p.place(b)
	if i < j {
		i, j = j, i
	}
	if !known || !too || i == j || i >= len(p.Ties) || j >= len(p.Ties[i]) {
		return 0, false
	}
	return p.Ties[i][j], true
}

// Tolerances of labels.
const (
	rateFloor   = 0.18 // largest difference of the mean label from the expected one, as a logarithm
	mixRest     = 0.3  // largest share of rows with levels whose rates are not known
	rateFar     = 0.5  // largest difference from the earlier mean, for any mix of levels
	rateNotice  = 0.1
	cardFloor   = 0.015 // largest fall of the card's AUC, beyond what chance and the nights before explain
	cardParts   = 6     // parts of the table, whose worst is judged, too
	labelChance = 2.5   // standard errors of a mean, or of an AUC, that are put down to chance
	fewNights   = 5     // with fewer, the spread of the nights is itself uncertain
	lostOdds    = 1e-8  // how improbable so few positive labels must be
	lostShare   = 0.15  // of the expected ones: with more, they are not lost
	untied      = 0.4   // of the card's usual AUC above one half: with less, labels no longer belong to their rows
)

// checkLabels compares tonight's labels with what the nights before suggest.
func (c *comparison) checkLabels() {
	c.checkRate()
	c.checkCard()
	c.checkLost()
}

// checkRate compares the mean label with the expected one: first directly, then using last night's rates and tonight's
// mix of levels, since campaigns of different rates come and go. A doubted night is not used.
func (c *comparison) checkRate() {
	if n := len(c.before) - 1; c.Doubted && n > 0 {
		all, last := c.before, c.last
		c.before, c.last = all[:n], all[n-1]
		defer func() { c.before, c.last = all, last }()
	}
	mean := c.p.Label.Mean
	u := c.learn(func(p *Profile) (float64, bool) { return p.Label.Mean, true })
	change := func(x, y float64) float64 {
		if x <= 0 || y <= 0 {
			return math.Abs(x-y) / max(math.Abs(y), 1e-9)
		}
		return math.Abs(math.Log(x / y))
	}

	// With few nights, the larger their deviation, the less reliable it is. Chance depends on the number of labels.
	allowed := func(floor, spread float64) float64 {
		counted := float64(c.p.Rows) * max(min(u.center, 1-u.center), 1e-9)
		return u.doubt()*floor + max(spread+2*spread*spread, labelChance/math.Sqrt(max(counted, 1)))
	}
	far := change(mean, u.center) > allowed(rateFar, max(change(u.lo, u.center), change(u.hi, u.center)))

	expected := c.expectedRate()
	if expected > 0 {
		c.p.Ratio = round5(max(0, mean/expected))
	}
	before := c.learn(func(p *Profile) (float64, bool) { return change(p.Ratio, 1), p.Ratio > 0 })
	off := change(mean, expected)
	c.addIf(far || off > allowed(rateFloor, before.hi), off > allowed(rateNotice, before.hi), CodeLabelRate, "",
		"the label's mean is %.5g, but was %.5g to %.5g; %.5g is expected from last night's rates and tonight's rows",
		mean, u.lo, u.hi, expected)
}

// expectedRate is the mean label if each level of the most informative column had last night's rate.
func (c *comparison) expectedRate() float64 {
	best := 0.0
	expected := c.last.Label.Mean
	for i := range c.last.Columns {
		old := &c.last.Columns[i]
		k := c.p.column(old.Name)
		if k == nil || len(k.Levels) == 0 || len(old.Levels) == 0 || old.Rest+old.Missing > mixRest || old.AUC <= best {
			continue
		}

		best = old.AUC
		sum, known := 0.0, 0.0
		for _, l := range k.Levels {
			if rate, ok := c.last.rateOf(old.Name, l.Text); ok {
				sum += l.Share * rate
				known += l.Share
			}
		}
		expected = sum + (1-known)*c.last.Label.Mean
	}
	return expected
}

// checkLost looks for hours, and for levels of a column, whose labels are all negative although some should be
// positive.
func (c *comparison) checkLost() {
	u := c.learn(func(p *Profile) (float64, bool) { return p.Label.Mean, true })
	if c.p.Label.Kind == "regression" || u.center <= 0 {
		return
	}
	c.lostBuckets(u.lo)
	if c.p.Card-0.5 < untied*(c.usualCard().center-0.5) {
		return // the labels of all levels have changed
	}

	for i := range c.p.Columns {
		if k := &c.p.Columns[i]; c.lostLevels(k, c.last.column(k.Name)) {
			return
		}
	}
}

// lostLevels looks for levels of a column without positive labels.
func (c *comparison) lostLevels(k, old *Column) bool {
	if old == nil || len(k.Levels) == 0 {
		return false
	}

	tonight := c.p.sampled()
	change := min(1, c.p.Label.Mean/max(c.last.Label.Mean, 1e-9))
	var lost []ColumnLevel
	for _, l := range k.Levels {
		if old.level(l.Text) == nil {
			continue
		}
		least := c.learn(func(p *Profile) (float64, bool) { return p.rateOf(k.Name, l.Text) })
		if c.fewer(l.Rate*l.Share*tonight, change*least.lo*l.Share*tonight) {
			lost = append(lost, l)
		}
	}
	if len(lost) == 0 || len(lost) > len(k.Levels)/2 {
		return false
	}

	l := lost[0]
	c.add(Blocking, CodeLabelsLost, k.Name,
		"only %s of the %.0f sampled rows with the value %.60q have a positive label; last night it was %s (%s like "+
			"this)", percent(l.Rate), l.Share*tonight, l.Text, percent(old.level(l.Text).Rate),
		english.Plural(len(lost), "value", ""))
	return true
}

// rateOf returns the mean label in a level of a column, shrunk towards that of all rows.
func (p *Profile) rateOf(column, text string) (float64, bool) {
	k := p.column(column)
	if k == nil {
		return 0, false
	}
	l := k.level(text)
	if l == nil {
		return 0, false
	}
	rows := l.Share * p.sampled()
	return (l.Rate*rows + prior*p.Label.Mean) / (rows + prior), true
}

// fewer reports whether it cannot be chance that there are so few positive labels.
func (c *comparison) fewer(have, expected float64) bool {
	return have <= lostShare*expected && distuv.Poisson{Lambda: expected}.CDF(math.Round(have)) < lostOdds
}

// lostBuckets looks for the longest period without positive labels.
func (c *comparison) lostBuckets(rate float64) {
	b := &c.p.Buckets
	usually := c.learn(func(p *Profile) (float64, bool) {
		_, rows := p.Buckets.barren()
		return float64(rows) * p.Label.Mean, true
	})
	from, rows := b.barren()
	if expected := float64(rows) * rate; !c.fewer(0, expected) || expected < 2*usually.hi {
		return
	}

	where := "a part of the table"
	if b.Width > 0 {
		where = "the time from " + stamp(time.Unix(b.From+int64(from)*b.Width, 0)) + " on"
	}
	c.add(Blocking, CodeLabelsLost, "",
		"%s has %d sampled rows and no positive label; %.0f are expected", where, rows,
		float64(rows)*rate)
}

// barren returns the run of buckets without a positive label that has the most rows.
func (b *Buckets) barren() (from, rows int) {
	start, sum := 0, 0
	for i, n := range b.Rows {
		if b.Label[i] > 0 {
			start, sum = i+1, 0
			continue
		}
		if sum += n; sum > rows {
			from, rows = start, sum
		}
	}
	return from, rows
}

// usualCard is how well label rates of the night before usually rank labels. If only one night is known, its two halves
// stand in for two nights; another night may keep no more than half of that quality.
func (c *comparison) usualCard() usual {
	u := c.learn(func(p *Profile) (float64, bool) { return p.Card, p.Card > 0 })
	if u.nights == 0 {
		x := 0.5 + (c.last.Self-0.5)/2
		u = usual{center: x, lo: x, hi: x}
	}
	return u
}

// cardLimit is the least acceptable AUC of the card. The more nights differ, the lower it is.
func cardLimit(u usual, deviation float64) float64 {
	more := 0.5 // of the spread, below the worst night so far
	if u.nights < fewNights {
		more = 1.2
	}
	return u.lo - u.doubt()*cardFloor - more*u.spread - labelChance*deviation
}

// checkCard ranks tonight's labels by last night's label rates.
func (c *comparison) checkCard() {
	all, parts := judge(c.work, c.p, c.last, c.night, cardParts)
	worst := slices.Index(parts, slices.Min(parts))
	c.p.Card, c.p.Worst = round5(all), round5(parts[worst])

	positive := 0.0
	for _, y := range positives(c.night, c.last.Label) {
		positive += float64(y)
	}
	smaller := max(1, min(positive, float64(len(c.night.Label))-positive))
	deviation := 1 / math.Sqrt(12*smaller) // approximate standard error of an AUC

	u, least := c.usualCard(), c.learn(func(p *Profile) (float64, bool) { return p.Worst, p.Worst > 0 })
	switch {
	case u.lo > 0.5+6*deviation && all < 0.5-3*deviation-u.spread:
		c.add(Blocking, CodeInverted, "",
			"last night's label rates rank tonight's labels with an AUC of %.4f, but usually with %.4f: positive "+
				"and negative look swapped", all, u.center)
	case all < cardLimit(u, deviation):
		c.add(Blocking, CodeShuffled, "",
			"last night's label rates rank tonight's labels with an AUC of %.4f, but usually with %.4f to %.4f: "+
				"labels and columns no longer match", all, u.lo, u.hi)
	case least.nights > 0 && parts[worst] < cardLimit(least, deviation*math.Sqrt(cardParts)):
		c.add(Blocking, CodeShuffled, "",
			"in part %d of %d of the table, last night's label rates rank the labels with an AUC of %.4f, but in no "+
				"part of earlier nights with less than %.4f",
			worst+1, cardParts, parts[worst], least.lo)
	}
}
