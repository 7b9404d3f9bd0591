package nights

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// The thresholds in this package were chosen by hand, with the tuned kinds of nightstest in view (Kind.Tuned); how they
// do on the held-out kinds and on good nights is measured in docs/LAB.md. Where a number has another source, it says
// so.

// Thresholds for a column that gives away the label, of Column.Info: the share of the labels' entropy that it explains.
const (
	leakSure  = 0.99 // single-column AUC that is reported even if it has always been so high
	leakRises = 0.02 // largest rise
	// share from which it is no wrong labels of one level
	leakCertain = 0.1
	leakNew     = 0.02 // largest share of a new column, beyond twice that of any other
)

// checkLeaks looks for columns that give away the label: those whose relation to tonight's labels is beyond what it had
// on earlier nights.
func (c *comparison) checkLeaks() {
	best := 0.0
	for i := range c.p.Columns {
		if k := &c.p.Columns[i]; c.last != nil && c.last.column(k.Name) != nil {
			best = max(best, k.Info)
		}
	}

	for i := range c.p.Columns {
		k := &c.p.Columns[i]
		before := c.learn(func(p *Profile) (float64, bool) { // older records have no Info
			old := p.column(k.Name)
			if old == nil || p.Split == "" || p.Label.Positive != c.p.Label.Positive {
				return 0, false
			}
			return old.Info, true
		})
		switch {
		case before.nights > 0 && (c.foundCode(CodeLabelRate) ||
			c.p.Label.Kind == dataset.Classes && c.foundCode(CodeLabelsLost) ||
			c.fell && c.found(k.Name) && k.Info < leakCertain):
			// The labels of one level are wrong: a column that leaks leaves the number of positive labels as it was.
		case before.nights > 0 && k.Info > before.hi+before.doubt()*leakRises+2*before.spread:
			c.add(Blocking, CodeLeak, k.Name, "the column alone explains %s of the labels' entropy (AUC %.4f), "+
				"compared with at most %s before: is it known before the label is?", percent(k.Info), k.AUC,
				percent(before.hi))
		case before.nights == 0 && len(c.before) > 0 && k.Info > 2*best+leakNew:
			c.add(Blocking, CodeLeak, k.Name, "the column is new, and alone explains %s of the labels' entropy (AUC "+
				"%.4f), where no other explains more than %s: is it known before the label is?", percent(k.Info), k.AUC,
				percent(best))
		case (k.AUC > leakSure || k.Info > leakFirst) && before.nights == 0:
			c.add(Warning, CodeLeak, k.Name,
				"the column alone predicts the label with an AUC of %.4f: is it known before the label is? If not, "+
					"drop: [%s]", k.AUC, k.Name)
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

// foundCode reports whether there is already a finding that blocks, of all rows.
func (c *comparison) foundCode(code Code) bool {
	return slices.ContainsFunc(c.findings,
		func(f Finding) bool { return f.Code == code && f.Column == "" && f.Level == Blocking })
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
	rateFall    = 0.05 // largest fall of the mean label against the expected one, as a logarithm, beyond the usual
	rateUnsure  = 0.18 // the same while it is not known how well the mean is expected
	rateKnown   = 3    // nights after which it is
	rateRise    = 0.2  // largest rise: a sale is no fault
	rateFar     = 0.5  // largest difference from the earlier mean, whatever was expected
	rateNotice  = 0.1
	rateUsual   = 2.2  // usual deviations that are put down to chance
	unlabelled  = 0.1  // largest rise of the share of rows without a label
	labelChance = 2.5  // standard errors of a mean that are put down to chance
	costBlocks  = 0.01 // of the labels' entropy, if a model believes tonight's mean and the expected one is right
)

// checkLabels compares tonight's labels with what the nights before suggest.
func (c *comparison) checkLabels() {
	missing := c.learn(func(p *Profile) (float64, bool) { return p.Unlabelled, true })
	if more := c.p.Unlabelled - missing.hi; more > missing.doubt()*unlabelled+2*missing.spread {
		c.add(Blocking, CodeRows, "", "%s of the rows have no label, but at most %s had none before",
			percent(c.p.Unlabelled), percent(missing.hi))
	}
	if c.p.Label.Kind == dataset.Classes {
		c.checkClasses()
		return
	}
	c.checkRate()
	c.checkSegments()
}

// meanIs begins a sentence about Mean.
func (l Label) meanIs() string {
	if l.Kind == dataset.Classes {
		return fmt.Sprintf("the share of the most frequent class, %.60q, is", l.Positive)
	}
	return "the label's mean is"
}

// classRows is how many rows of a class are expected if its absence is noticed.
const classRows = 25

// checkClasses compares the shares of several classes with earlier ones. That two of similar shares were swapped does
// not show here, but in the gate: the champion no longer tells them from the others.
func (c *comparison) checkClasses() {
	names := maps.Clone(c.p.Label.Classes)
	for _, p := range c.before[max(0, len(c.before)-recent):] {
		maps.Copy(names, p.Label.Classes)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		share := c.p.Label.Classes[name]
		u := c.learn(func(p *Profile) (float64, bool) { return p.Label.Classes[name], p.Label.Kind == dataset.Classes })
		if u.nights == 0 {
			return
		}
		expected := u.center * float64(c.p.Rows)
		far := 0.0
		if share > 0 && u.center > 0 {
			usually := 0.0
			if u.lo > 0 {
				usually = max(math.Log(u.hi/u.center), math.Log(u.center/u.lo))
			}
			chance := labelChance / math.Sqrt(max(1, expected*(1-u.center)))
			far = math.Abs(math.Log(share/u.center)) - usually - chance
		}
		switch {
		case share == 0 && u.lo > 0 && expected >= classRows:
			c.add(Blocking, CodeLabelsLost, "", "no row is of class %.60q, but %s to %s were before", name,
				percent(u.lo), percent(u.hi))
		case share > 0 && u.hi == 0:
			c.add(Warning, CodeLabelRate, "", "class %.60q is new, with %s of the rows: versions that do not know it "+
				"cannot be compared with new ones", name, percent(share))
		case max(expected, share*float64(c.p.Rows)) >= classRows: // of fewer, chance has the last word
			c.addIf(far > u.doubt()*rateFar, far > u.doubt()*rateRise, CodeLabelRate, "",
				"%s of the rows are of class %.60q, but %s to %s were before", percent(share), name, percent(u.lo),
				percent(u.hi))
		}
	}
}

// checkRate compares the mean label with earlier ones, and with the one that the witness expects of tonight's rows,
// since campaigns of different rates come and go. A doubted night is not used.
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
			return (x - y) / max(math.Abs(y), 1e-9)
		}
		return math.Log(x / y)
	}
	usually := max(math.Abs(change(u.lo, u.center)), math.Abs(change(u.hi, u.center)))
	counted := float64(c.p.Rows) * max(min(u.center, 1-u.center), 1e-9)
	chance := 1 / math.Sqrt(max(counted, 1))
	far := math.Abs(change(mean, u.center)) > u.doubt()*rateFar+max(usually+2*usually*usually, labelChance*chance)

	// By the rows of tonight, and from the level of recent nights: the end of a sale is no loss of labels.
	expected, size := c.last.Label.Mean, chance
	ratio := c.learn(func(p *Profile) (float64, bool) { return p.Ratio, p.Ratio > 0 })
	if c.p.Ratio > 0 && ratio.nights > 1 {
		expected = mean / c.p.Ratio * ratio.center
		squares := c.learn(func(p *Profile) (float64, bool) {
			return math.Pow(change(p.Ratio, ratio.center), 2), p.Ratio > 0
		})
		size = max(chance, math.Sqrt(squares.mean))
	}
	off := change(mean, expected)
	c.fell = off < -rateFall
	fall := rateUnsure
	if ratio.nights >= rateKnown {
		fall = rateFall
	}
	fell := off < -u.doubt()*fall-rateUsual*size && change(mean, u.lo) < 0
	rose := off > u.doubt()*rateRise+rateUsual*size
	text := fmt.Sprintf("the label's mean is %.5g, but was %.5g to %.5g; %.5g is expected of tonight's rows", mean,
		u.lo, u.hi, expected)
	costly, thinned := false, false
	if c.p.Label.Kind == dataset.Binary && expected > 0 && expected < 1 && mean > 0 && mean < 1 {
		text += fmt.Sprintf(". If that is wrong, a model of it predicts %.0f positive rows for every 100",
			100*mean/expected)
		surely := expected * math.Exp(math.Copysign(max(0, math.Abs(off)-size), off))
		costly = divergence(expected, surely) > costBlocks*entropyOf(expected)
		if thinned = off > u.doubt()*rateNotice+size && c.fewerRows(off/2); thinned {
			text += "; there are fewer rows than a week ago, too, as if negative ones had been left out"
		}
	}
	blocks := far || fell || rose || costly || thinned
	c.addIf(blocks, math.Abs(off) > u.doubt()*rateNotice+size, CodeLabelRate, "", "%s", text)
}

// fewerRows reports whether there are fewer rows than a week ago by that much, as a logarithm, beyond how weeks grow.
func (c *comparison) fewerRows(by float64) bool {
	change := func(p *Profile) (float64, bool) {
		for _, q := range c.before {
			if days := p.Newest.Sub(q.Newest).Hours() / 24; math.Abs(days-7) < 0.5 && p.Rows > 0 && q.Rows > 0 {
				return math.Log(float64(p.Rows) / float64(q.Rows)), true
			}
		}
		return 0, false
	}
	tonight, known := change(c.p)
	usual := c.learn(change)
	return known && usual.nights >= 3 && tonight < usual.center-by
}
