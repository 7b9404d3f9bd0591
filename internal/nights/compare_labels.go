package nights

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

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
	// The most that one of last night's columns explains, with which a new one is compared.
	best := 0.0
	for i := range c.p.Columns {
		if k := &c.p.Columns[i]; c.last != nil && c.last.column(k.Name) != nil {
			best = max(best, k.Info)
		}
	}

	for i := range c.p.Columns {
		k := &c.p.Columns[i]
		before := c.learnUsual(func(p *Profile) (float64, bool) {
			old := p.column(k.Name)
			if old == nil || p.Label.Positive != c.p.Label.Positive {
				return 0, false
			}
			return old.Info, true
		})
		switch {
		case before.nights > 0 && (c.foundCode(CodeLabelRate) ||
			c.p.Label.Kind == dataset.Classes && c.foundCode(CodeLabelsLost) ||
			c.fell && c.found(k.Name) && k.Info < leakCertain):
			// The labels of one level are wrong: a column that leaks leaves the number of positive labels as it was.
		case before.nights > 0 && (k.Info > before.hi+before.tolerance()*leakRises+2*before.spread ||
			k.Info > before.center+2*before.tolerance()*leakRises+4*before.steady): // a window that fills day by day
			c.add(Blocking, CodeLeak, k.Name, "the column alone %s, and explains %s of the labels' entropy, "+
				"compared with %s before: is it known before the label is?", c.p.ranks(k.AUC), percent(k.Info),
				percent(before.center))
		case before.nights == 0 && len(c.before) > 0 && k.Info > 2*best+leakNew: // it was on no earlier night
			c.add(Blocking, CodeLeak, k.Name, "the column is new, alone %s, and explains %s of the labels' "+
				"entropy, where no other explains more than %s: is it known before the label is?", c.p.ranks(k.AUC),
				percent(k.Info), percent(best))
		case (k.AUC > leakSure || k.Info > leakFirst) && before.nights == 0: // nothing to compare it with: only told
			c.add(Warning, CodeLeak, k.Name, "the column alone %s: is it known before the label is? If not, drop: [%s]",
				c.p.ranks(k.AUC), k.Name)
		}
	}
}

// Leak says which of the columns that a model uses ranks the label all but perfectly by itself; it is empty if none
// does.
func (p *Profile) Leak(used func(column string) bool) string {
	for i := range p.Columns {
		if k := &p.Columns[i]; k.AUC > leakSure && used(k.Name) {
			return fmt.Sprintf("column %.60q alone %s", k.Name, p.ranks(k.AUC))
		}
	}
	return ""
}

// ranks says in words how well a column alone predicts the label: of numbers, those above the median.
func (p *Profile) ranks(auc float64) string {
	if p.Label.Kind == dataset.Regression {
		return fmt.Sprintf("tells large labels from small ones in %s of all pairs", percent(auc))
	}
	return fmt.Sprintf("ranks the label with an AUC of %.4f", auc)
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
			if c.p.Columns[i].constant() || c.p.Columns[j].constant() {
				continue // nothing is tied to one value; whether that may be is checkValues' matter
			}
			a, b := c.p.Columns[i].Name, c.p.Columns[j].Name
			u := c.learnUsual(func(p *Profile) (float64, bool) { return p.tieOf(a, b) })
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

	// A column has lost its relation if most of its strong ties are gone. But a tie has two ends: if another column has
	// lost more of them, that one explains the loss.
	mostLost := func(name string) bool { return float64(lost[name]) >= tieCount*float64(strong[name]) }
	explainedByOther := func(name string) bool {
		return slices.ContainsFunc(c.p.Columns, func(other Column) bool {
			return lost[other.Name] > lost[name] && mostLost(other.Name)
		})
	}
	for i := range c.p.Columns {
		name := c.p.Columns[i].Name
		if lost[name] > 0 && mostLost(name) && !c.found(name) && !explainedByOther(name) {
			c.add(Blocking, CodeScrambled, name,
				"the column has lost its relation to %d of %d other columns: do its values belong to other "+
					"rows?", lost[name], strong[name])
		}
	}
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
	i, known := p.columnIndex(a)
	j, too := p.columnIndex(b)
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
	rateFall   = 0.05 // largest fall of the mean label against the expected one, as a logarithm, beyond the usual
	rateUnsure = 0.18 // the same while it is not known how well the mean is expected
	rateKnown  = 3    // nights after which it is
	rateRise   = 0.2  // largest rise: a sale is no fault
	rateFar    = 0.5  // largest difference from the earlier mean, whatever was expected
	rateNotice = 0.1
	rateUsual  = 2.2  // usual deviations that are put down to chance
	unlabelled = 0.1  // largest rise of the share of rows without a label
	costBlocks = 0.01 // of the labels' entropy, if a model believes tonight's mean and the expected one is right
)

// checkLabels compares tonight's labels with what the nights before suggest.
func (c *comparison) checkLabels() {
	missing := c.learnAll(func(p *Profile) float64 { return p.Unlabelled })
	if more := c.p.Unlabelled - missing.hi; more > missing.tolerance()*unlabelled+2*missing.spread {
		c.add(Blocking, CodeRows, "", "%s of the rows have no label, but at most %s had none before",
			percent(c.p.Unlabelled), percent(missing.hi))
	}
	if c.p.Label.Kind == dataset.Classes {
		c.checkClasses()
		return
	}
	c.checkExtremes()
	c.checkRate()
	c.checkSegments()
	if i := slices.Index(order, CodeScrambled); !slices.ContainsFunc(c.findings, func(f Finding) bool {
		return f.Level == Blocking && slices.Contains(order[i+1:], f.Code)
	}) {
		c.checkFollows()
	}
}

// leastRepeated is how many sampled labels must be the same number to be one that stands for something.
const leastRepeated = 20

// checkExtremes looks for one number that many labels of a regression have, beyond all earlier ones: -1 for unknown.
// Chance does not explain it if nights like tonight would have had it, too.
func (c *comparison) checkExtremes() {
	low, high, rows := math.Inf(1), math.Inf(-1), 0.0
	for _, p := range c.before[max(0, len(c.before)-recent):] {
		if p.Label.AtLow > 0 {
			low, high, rows = min(low, p.Label.Low), max(high, p.Label.High), rows+p.sampled()
		}
	}
	tell := func(number, share float64, beyond bool, word string, was float64) {
		if beyond && share*c.p.sampled() >= leastRepeated && math.Pow(1-share, rows) < 0.001 {
			c.add(Blocking, CodeLevel, "", "%s of the labels are %.6g; before, none was %s %.6g: does it stand for a "+
				"missing label?", percent(share), number, word, was)
		}
	}
	l := c.p.Label
	tell(l.Low, l.AtLow, l.Low < low, "below", low)
	tell(l.High, l.AtHigh, l.High > high, "above", high)
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
		history := c.learnUsual(func(p *Profile) (float64, bool) {
			return p.Label.Classes[name], p.Label.Kind == dataset.Classes
		})
		if history.nights == 0 {
			return
		}
		expected := history.center * float64(c.p.Rows)
		excess := 0.0 // of the change, as a logarithm, over how far recent nights were apart, and noise
		if share > 0 && history.center > 0 {
			usualRange := 0.0
			if history.lo > 0 {
				usualRange = max(math.Log(history.hi/history.center), math.Log(history.center/history.lo))
			}
			noise := maxStandardErrors / math.Sqrt(max(1, expected*(1-history.center)))
			excess = math.Abs(math.Log(share/history.center)) - usualRange - noise
		}
		switch {
		case share == 0 && history.lo > 0 && expected >= classRows:
			c.add(Blocking, CodeLabelsLost, "", "no row is of class %.60q, but %s to %s were before", name,
				percent(history.lo), percent(history.hi))
		case share > 0 && history.hi == 0:
			c.add(Warning, CodeLabelRate, "", "class %.60q is new, with %s of the rows: versions that do not know it "+
				"cannot be compared with new ones", name, percent(share))
		case max(expected, share*float64(c.p.Rows)) >= classRows: // of fewer, chance has the last word
			c.addIf(excess > history.tolerance()*rateFar, excess > history.tolerance()*rateRise, CodeLabelRate, "",
				"%s of the rows are of class %.60q, but %s to %s were before", percent(share), name,
				percent(history.lo), percent(history.hi))
		}
	}
}

// checkRate compares the mean label with earlier ones, and with the one that the witness expects of tonight's rows,
// since campaigns of different rates come and go. A doubted night is not used.
//
// Changes are logarithms of ratios. With m the median of recent nights and r the largest change of one of them from m,
// the mean is too far off where its change from m is beyond
//
//	doubt x rateFar + max(r + 2 r x r, maxStandardErrors x noise)
//
// and where that from what is expected is beyond doubt x (rateFall, rateRise) + rateUsual x the usual error of that.
func (c *comparison) checkRate() {
	if n := len(c.before) - 1; c.Doubted && n > 0 {
		all, last := c.before, c.last
		c.before, c.last = all[:n], all[n-1]
		defer func() { c.before, c.last = all, last }()
	}

	// From the level of recent nights, whatever the rows are.
	mean := c.p.Label.Mean
	history := c.learnAll(func(p *Profile) float64 { return p.Label.Mean })
	doubt := history.tolerance()
	usualRange := max(math.Abs(logRatio(history.lo, history.center)), math.Abs(logRatio(history.hi, history.center)))
	positives := float64(c.p.Rows) * max(min(history.center, 1-history.center), 1e-9)
	noise := 1 / math.Sqrt(max(positives, 1))
	limit := doubt*rateFar + max(usualRange+2*usualRange*usualRange, maxStandardErrors*noise)
	tooFar := math.Abs(logRatio(mean, history.center)) > limit

	// By the rows of tonight, and from the level of recent nights: the end of a sale is no loss of labels.
	expected, usualError, floor := c.expectedRate(noise)
	excess := logRatio(mean, expected)
	c.fell = excess < -rateFall
	fell := excess < -doubt*floor-rateUsual*usualError && logRatio(mean, history.lo) < 0
	rose := excess > doubt*rateRise+rateUsual*usualError
	noticed := math.Abs(excess) > doubt*rateNotice+usualError
	text := fmt.Sprintf("the label's mean is %.5g, but was %.5g to %.5g; %.5g is expected of tonight's rows", mean,
		history.lo, history.hi, expected)

	// What a model would lose that believes it, and whether rows are missing that would explain it.
	costly, thinned := false, false
	if c.p.Label.Kind == dataset.Binary && expected > 0 && expected < 1 && mean > 0 && mean < 1 {
		text += fmt.Sprintf(". If that is wrong, a model of it predicts %.0f positive rows for every 100",
			100*mean/expected)
		surely := expected * math.Exp(math.Copysign(max(0, math.Abs(excess)-usualError), excess))
		costly = divergence(expected, surely) > costBlocks*entropyOf(expected)
		if thinned = excess > 0 && noticed && c.fewerRows(excess/2); thinned {
			text += "; there are fewer rows than a week ago, too, as if negative ones had been left out"
		}
	}
	c.addIf(tooFar || fell || rose || costly || thinned, noticed, CodeLabelRate, "", "%s", text)
}

// logRatio is the logarithm of a ratio, as far as there is one.
func logRatio(value, y float64) float64 {
	if value <= 0 || y <= 0 {
		return (value - y) / max(math.Abs(y), 1e-9)
	}
	return math.Log(value / y)
}

// expectedRate is the mean label that is expected of tonight's rows, how far such an expectation usually was off, at
// least by noise, and from which fall on, beyond that, labels are lost.
func (c *comparison) expectedRate(noise float64) (mean, usualError, floor float64) {
	ratio := c.learnUsual(func(p *Profile) (float64, bool) { return p.Ratio, p.Ratio > 0 })
	mean, usualError, floor = c.last.Label.Mean, noise, rateUnsure
	if ratio.nights >= rateKnown {
		floor = rateFall
	}
	if c.p.Ratio > 0 && ratio.nights > 1 {
		mean = c.p.Label.Mean / c.p.Ratio * ratio.center
		squares := c.learnUsual(func(p *Profile) (float64, bool) {
			return math.Pow(logRatio(p.Ratio, ratio.center), 2), p.Ratio > 0
		})
		usualError = max(noise, math.Sqrt(squares.mean))
	}
	return mean, usualError, floor
}

// fewerRows reports whether the logarithm of tonight's rows relative to those of a week ago is lower than usual by more
// than by. Usual is the median of the same for recent nights, of which three are needed.
func (c *comparison) fewerRows(by float64) bool {
	weekChange := func(p *Profile) (float64, bool) {
		for _, q := range c.before {
			if days := p.Newest.Sub(q.Newest).Hours() / 24; math.Abs(days-7) < 0.5 && p.Rows > 0 && q.Rows > 0 {
				return math.Log(float64(p.Rows) / float64(q.Rows)), true
			}
		}
		return 0, false
	}
	tonight, known := weekChange(c.p)
	usual := c.learnUsual(weekChange)
	return known && usual.nights >= 3 && tonight < usual.center-by
}

// checkFollows looks for columns of many levels whose label rates of earlier nights say nothing of tonight's any more:
// ids that belong to other rows, or that were numbered anew.
func (c *comparison) checkFollows() {
	for i := range c.p.Columns {
		name := c.p.Columns[i].Name
		tonight, luck := follows(c.p, c.before, name)
		var all []float64
		for n := max(2, len(c.before)-recent); n < len(c.before); n++ { // each night by those before it
			if slope, apart := follows(c.before[n], c.before[:n], name); apart > 0 {
				all = append(all, slope)
			}
		}
		if slices.Sort(all); len(all) < 3 || luck == 0 || c.found(name) {
			continue
		}
		if middle := all[len(all)/2]; tonight < min(all[0], 0.35*middle, middle-4*max(luck, stat.StdDev(all, nil))) {
			c.add(Blocking, CodeScrambled, name, "the label rates of its values on earlier nights say %.0f %% as much "+
				"of tonight's as they did: do its values belong to other rows, or mean others now?",
				100*max(0, tonight/middle))
		}
	}
}

// follows is the slope of a night's label rates by level over those of the last nights before it, and its standard
// error; 0 if fewer than twenty levels are known.
func follows(p *Profile, before []*Profile, name string) (slope, luck float64) {
	rows, sums := map[string]float64{}, map[string]float64{}
	for _, q := range before[max(0, len(before)-witnesses):] {
		if k := q.column(name); k != nil {
			for _, l := range k.Levels {
				rows[l.Text] += l.Share * q.sampled()
				sums[l.Text] += l.Share * q.sampled() * l.Rate
			}
		}
	}
	var x, y, weights []float64
	if k := p.column(name); k != nil {
		for _, l := range k.Levels {
			if n := rows[l.Text]; n > 0 {
				x, y, weights = append(x, sums[l.Text]/n), append(y, l.Rate), append(weights, l.Share)
			}
		}
	}
	if len(x) < 20 || slices.Max(x) == slices.Min(x) {
		return 0, 0
	}
	_, slope = stat.LinearRegression(x, y, weights, false)
	mean, apart := stat.Mean(y, weights), stat.MomentAbout(2, x, stat.Mean(x, weights), weights)
	return slope, math.Sqrt(mean * (1 - mean) / (apart * floats.Sum(weights) * p.sampled()))
}
