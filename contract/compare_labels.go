package contract

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// Limits of a column that tells the label.
const (
	leakNew   = 0.95 // AUC alone of a column without a past
	leakRises = 0.15 // by how much an AUC alone may rise
	leakSure  = 0.99 // AUC alone that is worth a word even where it has always been so
)

// checkLeaks looks for columns that tell the label.
func (c *comparison) checkLeaks() {
	for i := range c.p.Columns {
		k := &c.p.Columns[i]
		before := c.learnColumn(k.Name, func(k *Column) float64 { return k.AUC })
		switch {
		case before.nights > 0 && k.AUC > 0.85 && k.AUC > before.hi+leakRises:
			c.add(Blocking, CodeLeak, k.Name, "the column alone ranks the labels with an AUC of %.4f, and at most with %.4f before: is it known before the label is?", k.AUC, before.hi)
		case before.nights == 0 && len(c.before) > 0 && k.AUC > leakNew:
			c.add(Blocking, CodeLeak, k.Name, "the column is new, and alone ranks the labels with an AUC of %.4f: is it known before the label is?", k.AUC)
		case k.AUC > leakSure && before.nights == 0:
			c.add(Warning, CodeLeak, k.Name, "the column alone ranks the labels with an AUC of %.4f: is it known before the label is?", k.AUC)
		}
	}
}

// Tolerances of ties.
const (
	tieStrong = 0.08 // a tie below says nothing when it goes
	tieLeft   = 0.5  // of a tie: what must be left of it
	tieCount  = 0.6  // of a column's strong ties: so many must be lost
)

// checkTies looks for columns that have lost their ties to the others, though their values are distributed as ever: shifted by a row
// against the others, or shuffled. The ties of the label are for checkLabels.
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
		case c.found(name) || lost[name] == 0 || float64(lost[name]) < tieCount*float64(strong[name]):
		case c.otherLost(name, lost, strong):
			// Its only tie was to a column that has lost others, too.
		default:
			c.add(Blocking, CodeScrambled, name, "the column has lost its ties to %d of %d other columns: have its values moved against the rows?", lost[name], strong[name])
		}
	}
}

// otherLost reports whether what a column has lost is better explained by another column, which has lost more.
func (c *comparison) otherLost(name string, lost, strong map[string]int) bool {
	for other, n := range lost {
		if other != name && n > lost[name] && float64(n) >= tieCount*float64(strong[other]) {
			return true
		}
	}
	return false
}

// found reports whether something was found out about a column already.
func (c *comparison) found(name string) bool {
	return slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Column == name && f.Level == Blocking })
}

// tieOf is the tie of two columns by name.
func (p *Profile) tieOf(a, b string) (float64, bool) {
	i := slices.IndexFunc(p.Columns, func(k Column) bool { return k.Name == a })
	j := slices.IndexFunc(p.Columns, func(k Column) bool { return k.Name == b })
	if i < j {
		i, j = j, i
	}
	if j < 0 || i == j || i >= len(p.Ties) || j >= len(p.Ties[i]) {
		return 0, false
	}
	return p.Ties[i][j], true
}

// Tolerances of labels.
const (
	rateFloor  = 0.18 // by how much the label's mean may differ from what is expected, as a logarithm
	mixRest    = 0.3  // share of the rows that may have none of the levels whose rates let expect something
	rateFar    = 0.5  // and from what it was, whatever the mix of levels
	rateNotice = 0.1
	cardFloor  = 0.015 // by how much the AUC of the card may fall, beyond what chance and the nights before explain
	cardParts  = 6
	lostOdds   = 1e-8 // how improbable so few positive labels must be
	lostShare  = 0.15 // of the expected ones: with more, they are not lost
	untied     = 0.4  // of the card's usual AUC above one half: with less left, labels belong to nothing
)

// checkLabels asks whether tonight's labels are what the nights before let expect.
func (c *comparison) checkLabels() {
	c.checkRate()
	c.checkCard()
	c.checkLost()
}

// checkRate compares the label's mean with what the nights before let expect: first as it is, then with the rates of last night and
// tonight's mix of levels, since campaigns of different rates come and go. A doubted night is no witness.
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

	// Of a few nights, the greatest deviation says the less of what may come, the greater it is. Chance is that of so many labels.
	allowed := func(floor, spread float64) float64 {
		counted := float64(c.p.Rows) * max(min(u.center, 1-u.center), 1e-9)
		return u.doubt()*floor + max(spread+2*spread*spread, 2.5/math.Sqrt(max(counted, 1)))
	}
	far := change(mean, u.center) > allowed(rateFar, max(change(u.lo, u.center), change(u.hi, u.center)))

	expected := c.expectedRate()
	if expected > 0 {
		c.p.Ratio = round5(max(0, mean/expected))
	}
	before := c.learn(func(p *Profile) (float64, bool) { return change(p.Ratio, 1), p.Ratio > 0 })
	switch off := change(mean, expected); {
	case far || off > allowed(rateFloor, before.hi):
		c.add(Blocking, CodeLabelRate, "", "the label's mean is %.5g, and was %.5g to %.5g; last night's rates and tonight's rows let expect %.5g", mean, u.lo, u.hi, expected)
	case off > allowed(rateNotice, before.hi):
		c.add(Warning, CodeLabelRate, "", "the label's mean is %.5g, and was %.5g to %.5g; last night's rates and tonight's rows let expect %.5g", mean, u.lo, u.hi, expected)
	}
}

// expectedRate is the label's mean if each level of the column that tells the label best had last night's rate.
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

// checkLost looks for hours, and for levels of a column, whose labels are all negative though some should be positive.
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
	c.add(Blocking, CodeLabelsLost, k.Name, "hardly any of the %.0f sampled rows with the value %.60q has a positive label (%s), and last night %s had; %d values are like that",
		l.Share*tonight, l.Text, percent(l.Rate), percent(old.level(l.Text).Rate), len(lost))
	return true
}

// rateOf is the label's mean in a level of a column, drawn towards that of all rows.
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

// fewer reports whether so few positive labels are no chance where more were expected.
func (c *comparison) fewer(have, expected float64) bool {
	return have <= lostShare*expected && distuv.Poisson{Lambda: expected}.CDF(math.Round(have)) < lostOdds
}

// lostBuckets looks for the longest stretch of time without positive labels.
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
	c.add(Blocking, CodeLabelsLost, "", "%s has %d sampled rows and not one positive label, where %.0f were to be expected", where, rows, float64(rows)*rate)
}

// barren is the stretch of buckets without a positive label that has the most rows.
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

// usualCard is how well label rates of the night before rank labels. Where only one night is known, those of one half of it and the
// other must do, of which another night may well keep no more than a half.
func (c *comparison) usualCard() usual {
	u := c.learn(func(p *Profile) (float64, bool) { return p.Card, p.Card > 0 })
	if u.nights == 0 {
		x := 0.5 + (c.last.Self-0.5)/2
		u = usual{center: x, lo: x, hi: x}
	}
	return u
}

// cardLimit is what an AUC of the card must not fall below. Where nights differ much, another one may differ more.
func cardLimit(u usual, deviation float64) float64 {
	more := 0.5
	if u.nights < 5 {
		more = 1.2
	}
	return u.lo - u.doubt()*cardFloor - more*u.spread - 2.5*deviation
}

// checkCard ranks tonight's labels by last night's label rates.
func (c *comparison) checkCard() {
	all, parts := judge(c.p, c.last, c.night, cardParts)
	worst := slices.Index(parts, slices.Min(parts))
	c.p.Card, c.p.Worst = round5(all), round5(parts[worst])

	positive := 0.0
	for _, y := range positives(c.night, c.last.Label) {
		positive += float64(y)
	}
	smaller := max(1, min(positive, float64(len(c.night.Label))-positive))
	deviation := 1 / math.Sqrt(12*smaller) // the standard error of an AUC, about

	u, least := c.usualCard(), c.learn(func(p *Profile) (float64, bool) { return p.Worst, p.Worst > 0 })
	switch {
	case u.lo > 0.5+6*deviation && all < 0.5-3*deviation-u.spread:
		c.add(Blocking, CodeInverted, "", "last night's label rates rank tonight's labels with an AUC of %.4f, and usually with %.4f: positive and negative look exchanged", all, u.center)
	case all < cardLimit(u, deviation):
		c.add(Blocking, CodeShuffled, "", "last night's label rates rank tonight's labels with an AUC of %.4f, and usually with %.4f to %.4f: labels and columns do not belong together as they did", all, u.lo, u.hi)
	case least.nights > 0 && parts[worst] < cardLimit(least, deviation*math.Sqrt(cardParts)):
		c.add(Blocking, CodeShuffled, "", "in part %d of %d of the table, last night's label rates rank the labels with an AUC of %.4f, and in no part of the nights before with less than %.4f",
			worst+1, cardParts, parts[worst], least.lo)
	}
}
