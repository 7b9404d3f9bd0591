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

// Thresholds for a column that gives away the label. All but the first are of Column.Info, the share of the labels'
// entropy that the column alone explains.
const (
	leakSure    = 0.99 // AUC of the column alone from which a column without a history is reported
	leakRises   = 0.02 // largest rise beyond that of every earlier night
	leakCertain = 0.1  // from here on, it is a leak even if the labels of one of its levels look lost
	leakNew     = 0.02 // a new column may explain twice what any other does, and this much more
)

// checkLeaks looks for columns that give away the label: those that explain more of tonight's labels than on any
// earlier night. It runs after the checks of labels, because wrong labels also change what a column explains: where
// such a fault has been found, columns with a history are not judged. Earlier nights count only if the same class is
// the most frequent one, since rows of that class are the positive ones.
//
// A column that no earlier night had blocks if it explains more than twice what any other does, by a margin. Otherwise
// a column without a history is a warning, if it ranks the label nearly perfectly or explains half of its entropy.
func (c *comparison) checkLeaks() {
	// The most that one of the columns known since last night explains tonight: the measure for a new column.
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
		chance := maxStandardErrors * c.learnColumn(k.Name, func(k *Column) float64 { return k.InfoError }).center
		rises := k.Info > before.hi+before.tolerance()*leakRises+max(2*before.spread, chance)
		// A leak may fill a window of days day by day. Each night then makes the next one usual, by the highest value
		// and the spread. The median and the median deviation follow more slowly.
		grows := k.Info > max(before.hi, before.center+2*before.tolerance()*leakRises+max(4*before.steady, chance))
		wrongLabels := c.foundCode(CodeLabelRate) ||
			c.p.Label.Kind == dataset.Classes && c.foundCode(CodeLabelsLost) ||
			c.fell && c.found(k.Name) && k.Info < leakCertain
		ranks := c.p.describeRanking(k.AUC)
		switch {
		case before.nights > 0 && wrongLabels:
			// Perhaps those of one level. A leak would have left the number of positive labels as it was.
		case before.nights > 0 && (rises || grows):
			c.add(Blocking, CodeLeak, k.Name, "the column alone %s, and explains %s of the labels' entropy, "+
				"compared with %s before: is it known before the label is?", ranks, percent(k.Info),
				percent(before.center))
		case before.nights == 0 && len(c.before) > 0 && // on no earlier night, but there is one to compare others with
			k.Info > 2*best+leakNew+maxStandardErrors*k.InfoError:
			c.add(Blocking, CodeLeak, k.Name, "the column is new, alone %s, and explains %s of the labels' "+
				"entropy, where no other explains more than %s: is it known before the label is?", ranks,
				percent(k.Info), percent(best))
		case (k.AUC > leakSure || k.Info > leakFirst) && before.nights == 0: // nothing to compare it with: only told
			c.add(Warning, CodeLeak, k.Name, "the column alone %s: is it known before the label is? If not, drop: [%s]",
				ranks, k.Name)
		}
	}
}

// Leak says which of the columns that a model uses ranks the label all but perfectly by itself, the first of several.
// It is empty if none does. used reports whether the model uses a column.
func (p *Profile) Leak(used func(column string) bool) string {
	for i := range p.Columns {
		if k := &p.Columns[i]; k.AUC > leakSure && used(k.Name) {
			return fmt.Sprintf("column %.60q alone %s", k.Name, p.describeRanking(k.AUC))
		}
	}
	return ""
}

// describeRanking says in words how well a column alone predicts the label: of numbers, those above the median.
func (p *Profile) describeRanking(auc float64) string {
	if p.Label.Kind == dataset.Regression {
		return fmt.Sprintf("tells large labels from small ones in %s of all pairs", percent(auc))
	}
	return fmt.Sprintf("ranks the label with an AUC of %.4f", auc)
}

// Tolerances of ties, the associations between pairs of columns (Profile.Ties, from 0 to 1).
const (
	tieStrong = 0.08 // a tie is strong if no recent night had a weaker one
	tieLeft   = 0.5  // a strong tie is lost if less than this part of the weakest is left
	tieCount  = 0.6  // share of a column's strong ties that must be lost for a finding
)

// checkTies looks for columns that have lost their ties to the others, although their values are distributed as before:
// shifted by a row against the others, or shuffled. Ties of the label are left to checkLabels.
func (c *comparison) checkTies() {
	lost, strong := map[string]int{}, map[string]int{} // by column, how many strong ties it has lost, of how many
	for i := range min(len(c.p.Ties), len(c.p.Columns)) {
		for j := range i {
			if c.p.Columns[i].constant() || c.p.Columns[j].constant() {
				continue // nothing is tied to a constant; checkValues says whether a column may be one
			}
			a, b := c.p.Columns[i].Name, c.p.Columns[j].Name
			history := c.learnUsual(func(p *Profile) (float64, bool) { return p.tieOf(a, b) })
			// Of few rows, chance makes ties, and takes them away: only those count that cannot be lost by it.
			gone := tieLeft*history.lo - c.noise
			if history.nights == 0 || history.lo < history.tolerance()*tieStrong || gone <= 0 {
				continue
			}
			for _, name := range []string{a, b} {
				strong[name]++
				if c.p.Ties[i][j] < gone {
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

// found reports whether there is already a blocking finding about a column.
func (c *comparison) found(name string) bool {
	return slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Column == name && f.Level == Blocking })
}

// foundCode reports whether there is already a blocking finding with this code that is about the whole table, not about
// one column.
func (c *comparison) foundCode(code Code) bool {
	return slices.ContainsFunc(c.findings,
		func(f Finding) bool { return f.Code == code && f.Column == "" && f.Level == Blocking })
}

// tieOf returns the tie between the columns named a and b, in either order. It is false if one of them is missing or
// not among the first columns, of which ties are measured.
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

// Tolerances of labels. Changes of the mean label are absolute logarithms of ratios; checkRate says what they are
// compared with.
const (
	rateFall   = 0.05 // largest fall below the expected mean, beyond the usual error of the expectation
	rateUnsure = 0.18 // the same while that error is not known
	rateKnown  = 3    // from so many nights on it is known
	rateRise   = 0.2  // largest rise above the expected mean: a sale is no fault
	rateFar    = 0.5  // largest change from the median of recent nights, whatever was expected
	rateNotice = 0.1  // from this change on, there is a warning
	rateUsual  = 2.2  // so many times the usual error are put down to chance
	unlabelled = 0.1  // largest rise of the share of rows without a label
	costBlocks = 0.01 // largest loss, as a share of the labels' entropy, of a model that believes a wrong mean
)

// checkLabels compares tonight's labels with what the nights before suggest: how many rows have one, the labels' mean,
// and their relation to the columns, in all rows and in parts of them. Labels of several classes are compared by the
// shares of the classes alone.
func (c *comparison) checkLabels() {
	missing := c.learnAll(func(p *Profile) float64 { return p.Unlabelled })
	if more := c.p.Unlabelled - missing.hi; more > missing.tolerance()*unlabelled+2*missing.spread {
		c.add(Blocking, CodeRows, "", "%s of the rows have no label, but at most %s had none before",
			percent(c.p.Unlabelled), percent(missing.hi))
	}
	if c.p.Label.Kind == dataset.Classes {
		c.checkClasses()
		// Segments count the class that was the most frequent one on the night before theirs.
		if !slices.ContainsFunc(c.before[max(0, len(c.before)-recent-1):],
			func(p *Profile) bool { return p.Label.Positive != c.last.Label.Positive }) {
			c.checkSegments()
		}
		return
	}
	c.checkExtremes()
	c.checkRate()
	c.checkSegments()

	// Wrong labels would also look as if ids belonged to other rows, so that is checked only if none were found: no
	// blocking finding about labels, whose codes are those after CodeScrambled.
	if i := slices.Index(order, CodeScrambled); !slices.ContainsFunc(c.findings, func(f Finding) bool {
		return f.Level == Blocking && slices.Contains(order[i+1:], f.Code)
	}) {
		c.checkFollows()
	}
}

// leastRepeated is how many sampled labels must be equal for that number to stand for a missing label.
const leastRepeated = 20

// checkExtremes looks for a number that many labels of a regression have and that is below, or above, all labels of
// recent nights, such as -1 for unknown. At least leastRepeated of the sampled labels must have it. Chance explains it
// if the rows of recent nights, had the number been as frequent there, could all have missed it with a probability of
// .001 or more. Other kinds of labels, and nights without any label, have shares of 0 (AtLow), and are left out.
func (c *comparison) checkExtremes() {
	// The smallest and the largest label of recent nights, and on how many rows these are known.
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

// meanIs begins a sentence that ends with the value of Mean.
func (l Label) meanIs() string {
	if l.Kind == dataset.Classes {
		return fmt.Sprintf("the share of the most frequent class, %.60q, is", l.Positive)
	}
	return "the label's mean is"
}

// classRows is how many rows of a class are expected, or there, if its share is judged: of fewer rows, chance decides.
const classRows = 25

// checkClasses compares the share of each class with its shares on recent nights. A class of enough rows that is gone
// blocks, a new one is a warning, and one with another share is either, by how far it has changed. Without a recent
// night of classes it adds nothing.
//
// It does not see that two classes with similar shares were swapped. That shows before promotion, when the model in
// production is tested on the new rows.
func (c *comparison) checkClasses() {
	// All classes, of tonight and of recent nights.
	names := map[string]float64{}
	maps.Copy(names, c.p.Label.Classes)
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

		// excess is the change of the share, as the logarithm of a ratio, beyond that of recent nights and beyond
		// chance.
		expected := history.center * float64(c.p.Rows)
		excess := 0.0
		if share > 0 && history.center > 0 {
			usualRange := 0.0
			if history.lo > 0 {
				usualRange = max(math.Log(history.hi/history.center), math.Log(history.center/history.lo))
			}
			// The logarithm of a share p of n rows has the standard error sqrt((1-p)/(n*p)). 1/sqrt(n*p*(1-p)) is no
			// less, for that share and for the share of all other classes.
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
		case max(expected, share*float64(c.p.Rows)) >= classRows:
			c.addIf(excess > history.tolerance()*rateFar, excess > history.tolerance()*rateRise, CodeLabelRate, "",
				"%s of the rows are of class %.60q, but %s to %s were before", percent(share), name,
				percent(history.lo), percent(history.hi))
		}
	}
}

// checkRate compares the mean label with that of recent nights, and with the mean that the Witness, a model of earlier
// nights, expects of tonight's rows: campaigns with different rates come and go. A doubted night is not used. It also
// sets c.fell, which checkLeaks reads.
//
// Changes are logarithms of ratios. Let m be the median of recent nights, and r the largest change of one of them from
// m. The night is blocked if the change from m is beyond
//
//	doubt x rateFar + max(r + 2 r x r, maxStandardErrors x noise)
//
// or if the change from the expected mean is beyond
//
//	doubt x floor (or rateRise, if it is a rise) + rateUsual x usual error
//
// where doubt is above 1 while few nights are known, the usual error is how far such expectations were off, and floor
// is rateFall, or rateUnsure while that is not known well (expectedRate). It is also blocked if a model that believes a
// wrong mean would lose too much, or if negative rows seem to be missing.
func (c *comparison) checkRate() {
	// Leave out the doubted night, here only.
	if n := len(c.before) - 1; c.Doubted && n > 0 {
		all, last := c.before, c.last
		c.before, c.last = all[:n], all[n-1]
		defer func() { c.before, c.last = all, last }()
	}

	// The change from recent nights, whatever the rows are. noise is the standard error of the rarer label's count,
	// relative to that count.
	mean := c.p.Label.Mean
	history := c.learnAll(func(p *Profile) float64 { return p.Label.Mean })
	doubt := history.tolerance()
	usualRange := max(math.Abs(logRatio(history.lo, history.center)), math.Abs(logRatio(history.hi, history.center)))
	noise := c.rateNoise(history.center)
	limit := doubt*rateFar + max(usualRange+2*usualRange*usualRange, maxStandardErrors*noise)
	tooFar := math.Abs(logRatio(mean, history.center)) > limit

	// The change from what is expected of tonight's rows. A fall is one only if the mean is also below those of all
	// recent nights: the end of a sale is no loss of labels.
	expected, excess, usualError, floor := c.expectedRate(noise)
	c.fell = excess < -rateFall
	fell := excess < -doubt*floor-rateUsual*usualError && logRatio(mean, history.lo) < 0
	rose := excess > doubt*rateRise+rateUsual*usualError
	noticed := math.Abs(excess) > doubt*rateNotice+usualError
	text := fmt.Sprintf("the label's mean is %.5g, but was %.5g to %.5g; ", mean, history.lo, history.hi)
	if math.IsNaN(expected) {
		text += fmt.Sprintf("%.3g times as many labels as expected of tonight's rows are above last night's median",
			math.Exp(excess))
	} else {
		text += fmt.Sprintf("%.5g is expected of tonight's rows", expected)
	}

	// What a model would lose that believes tonight's mean if the expected one is right, less the usual error. And
	// for a rise, whether there are fewer rows, too: then negative ones may have been left out.
	costly, thinned := false, false
	if c.p.Label.Kind == dataset.Binary && expected > 0 && expected < 1 && mean > 0 && mean < 1 {
		text += fmt.Sprintf(". If that is wrong, a model of it predicts %.0f positive rows for every 100",
			100*mean/expected)
		surely := expected * math.Exp(math.Copysign(max(0, math.Abs(excess)-rateUsual*usualError), excess))
		costly = divergence(expected, surely) > costBlocks*entropyOf(expected)
		// Had only negative rows been left out, the rows would be fewer by about the factor exp(excess); half of that
		// fall, as a logarithm, is a sign of it.
		thinned = excess > 0 && noticed && c.fewerRows(excess/2)
		if thinned {
			text += "; there are fewer rows than a week ago, too, as if negative ones had been left out"
		}
	}
	c.addIf(tooFar || fell || rose || costly || thinned, noticed, CodeLabelRate, "", "%s", text)
}

// rateNoise returns by how much the logarithm of tonight's mean label may differ by chance where mean is usual. Of a
// share it is the standard error of the rarer kind of label, as a count. Of a regression it is twice the standard
// error, relative to the size of mean: another night's mean has one, too, and a few large labels may make most of it.
func (c *comparison) rateNoise(mean float64) float64 {
	rows := float64(max(c.p.Rows, 1))
	if c.p.Label.Kind == dataset.Regression {
		return 2 * c.p.Label.Spread / max(math.Abs(mean), 1e-9) / math.Sqrt(rows)
	}
	return 1 / math.Sqrt(max(rows*min(mean, 1-mean), 1))
}

// logRatio returns the logarithm of value / base. Where one of them is not positive, which a regression's mean label
// may be, it returns the relative difference instead, to which the logarithm is equal for small changes.
func logRatio(value, base float64) float64 {
	if value <= 0 || base <= 0 {
		return (value - base) / max(math.Abs(base), 1e-9)
	}
	return math.Log(value / base)
}

// expectedRate returns the mean label that is expected of tonight's rows; excess, by how much tonight's is above it;
// the usual error of such an expectation; and floor, the fall beyond that error from which labels are lost. All but the
// mean are differences of logarithms.
//
// Of a regression, Ratio is not of means: it counts the labels above the median of the night before, by rows. Then mean
// is NaN, excess is of these counts, and floor is rateUnsure, since a small shift moves many labels over the median.
//
// A night's Ratio is its mean label divided by the mean that the Witness expects, so Mean / Ratio is that mean. It is
// multiplied by the median Ratio, the factor by which the Witness usually is off. Without a Ratio of tonight, or with
// fewer than two nights that have one, last night's mean is expected.
//
// The usual error is the root mean square of what such expectations were off by on recent nights, at least noise.
// While fewer than rateKnown nights have a Ratio, the larger of both kinds of error counts, since two Ratios may be
// alike by chance; floor is then rateUnsure, and rateFall later.
func (c *comparison) expectedRate(noise float64) (mean, excess, usualError, floor float64) {
	// Last night's mean, and by how much the mean usually changes from one night to the next.
	ratio := c.learnUsual(func(p *Profile) (float64, bool) { return p.Ratio, p.Ratio > 0 })
	changes := c.learnChange(func(p, before *Profile) (float64, bool) {
		return math.Pow(logRatio(p.Label.Mean, before.Label.Mean), 2), true
	})
	mean, usualError, floor = c.last.Label.Mean, max(noise, math.Sqrt(changes.mean)), rateUnsure
	if ratio.nights >= rateKnown {
		floor = rateFall
	}

	// Or what the Witness expects.
	if c.p.Ratio > 0 && ratio.nights > 1 {
		mean = c.p.Label.Mean / c.p.Ratio * ratio.center
		if c.p.Label.Kind == dataset.Regression {
			mean, floor = math.NaN(), rateUnsure
			noise = math.Sqrt(2 / float64(max(c.p.Rows, 1))) // about half of the rows are above the median
		}
		squares := c.learnUsual(func(p *Profile) (float64, bool) {
			return math.Pow(logRatio(p.Ratio, ratio.center), 2), p.Ratio > 0
		})
		if known := max(noise, math.Sqrt(squares.mean)); ratio.nights >= rateKnown || known > usualError {
			usualError = known
		}
		return mean, logRatio(c.p.Ratio, ratio.center), usualError, floor
	}
	return mean, logRatio(c.p.Label.Mean, mean), usualError, floor
}

// fewerRows reports whether there are fewer rows than usual. It compares the number of rows with that of the same
// weekday a week before, as the logarithm of the ratio: tonight's must be lower than the median of recent nights by
// more than margin. It is false if fewer than three of them, or tonight, have a night of a week before.
func (c *comparison) fewerRows(margin float64) bool {
	weekChange := func(p *Profile) (float64, bool) {
		for _, earlier := range c.before {
			days := p.Newest.Sub(earlier.Newest).Hours() / 24
			if math.Abs(days-7) < 0.5 && min(p.Rows, earlier.Rows) > 0 {
				return math.Log(float64(p.Rows) / float64(earlier.Rows)), true
			}
		}
		return 0, false
	}
	tonight, known := weekChange(c.p)
	usual := c.learnUsual(weekChange)
	return known && usual.nights >= 3 && tonight < usual.center-margin
}

// checkFollows looks for columns of many levels whose label rates of earlier nights say nothing of tonight's any more:
// ids that belong to other rows, or that were numbered anew. It compares the slope of rateSlope with those of recent
// nights, of which three are needed. It blocks if tonight's slope is below all of them and below about a third of their
// median. It must also be below the median by four times the larger of its standard error and their standard deviation.
// Columns that a blocking finding is about already are left out.
func (c *comparison) checkFollows() {
	for i := range c.p.Columns {
		name := c.p.Columns[i].Name
		tonight, luck := rateSlope(c.p, c.before, name)
		var all []float64
		for n := max(2, len(c.before)-recent); n < len(c.before); n++ { // each night by those before it
			if slope, apart := rateSlope(c.before[n], c.before[:n], name); apart > 0 {
				all = append(all, slope)
			}
		}
		slices.Sort(all)
		if len(all) < 3 || luck == 0 || c.found(name) { // luck is 0 if tonight has no slope
			continue
		}

		if middle := all[len(all)/2]; tonight < min(all[0], 0.35*middle, middle-4*max(luck, stat.StdDev(all, nil))) {
			c.add(Blocking, CodeScrambled, name, "the label rates of its values on earlier nights say %.0f %% as much "+
				"of tonight's as they did: do its values belong to other rows, or mean others now?",
				100*max(0, tonight/middle))
		}
	}
}

// rateSlope regresses a night's label rates on those of the last few nights before it, over the levels of the named
// column, weighted by their shares. It returns the slope and its standard error: a slope of 1 says that a level's rate
// is the same as before, 0 that the earlier rates say nothing. Both are 0 if fewer than twenty levels are known, which
// is too few for a line, or if all had the same rate.
func rateSlope(p *Profile, before []*Profile, name string) (slope, standardError float64) {
	// By level, the rows and the positive labels of the nights before.
	rows, sums := map[string]float64{}, map[string]float64{}
	for _, earlier := range before[max(0, len(before)-witnesses):] {
		if k := earlier.column(name); k != nil {
			for _, l := range k.Levels {
				rows[l.Text] += l.Share * earlier.sampled()
				sums[l.Text] += l.Share * earlier.sampled() * l.Rate
			}
		}
	}

	var x, y, weights []float64 // by level: the earlier rate, tonight's, and its share
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
	// A level's rate of tonight varies by chance with mean * (1-mean), that of one label, over the level's rows. So the
	// slope, fitted by rows, has that variance over the sum of the squared distances of x from its mean, over all rows.
	_, slope = stat.LinearRegression(x, y, weights, false)
	mean, apart := stat.Mean(y, weights), stat.MomentAbout(2, x, stat.Mean(x, weights), weights)
	return slope, math.Sqrt(mean * (1 - mean) / (apart * floats.Sum(weights) * p.sampled()))
}
