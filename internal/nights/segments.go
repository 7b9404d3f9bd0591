package nights

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"coppice/internal/dataset"
	"coppice/internal/dataset/segment"
)

// SegmentCounts is a segment: the rows that have one level, or a range of numbers, in one column, or that are one part
// of the table in its order. It tells how many of their labels are positive, and how many were expected by the Witness,
// the model of earlier nights.
type SegmentCounts struct {
	Column   string  `json:"column"` // empty for parts of the table
	Level    string  `json:"level"`  // its name among the segments of the column
	Rows     float64 `json:"rows"`
	Positive float64 `json:"positive"`
	Expected float64 `json:"expected"`
	// Slope / Info is by how much the labels follow the witness's scores within the segment more closely than expected:
	// 0 as expected, -1 not at all, -2 the wrong way round. Info is the inverse of the variance of this ratio.
	Slope float64 `json:"slope"`
	Info  float64 `json:"info"`
	// Noise is the variance of Slope that the labels themselves show. It is near Info where the expected rates are
	// right. Where labels are all but certain, a few rows that are otherwise make it far larger.
	Noise float64 `json:"noise,omitempty"`
}

const (
	keptSegments = 60 // of a column, those with the most expected positives
	leastCount   = 8  // expected positive rows, or negative ones, from which a segment is judged
	numberParts  = 10 // equal parts of a number's values
	allRows      = "all rows"
)

// scoreCounts counts a part of the rows and its positive labels by the witness's score, in steps.
type scoreCounts [segment.ScoreSteps]segment.Cell

// add adds the counts of other rows, by the same steps.
func (s *scoreCounts) add(cells []segment.Cell) {
	for i := range s {
		s[i] += cells[i]
	}
}

// segment summarises a part of the rows as the segment of that column and level. The expected probability of a positive
// label is the sigmoid of base plus the row's score. Slope, Info and Noise are 0 if no positive row is expected, or if
// none is there.
func (s *scoreCounts) segment(column, level string, base float64) SegmentCounts {
	out := SegmentCounts{Column: column, Level: level}
	info, score := 0.0, 0.0 // sums of the variances p(1-p), and of the scores weighted by them
	for i, c := range s {
		p := sigmoid(base + segment.ScoreAt(i))
		out.Rows += c.Rows()
		out.Positive += c.Positive()
		out.Expected += c.Rows() * p
		info += c.Rows() * p * (1 - p)
		score += c.Rows() * p * (1 - p) * segment.ScoreAt(i)
	}
	if info == 0 || out.Expected == 0 {
		return out
	}

	// Slope is the score statistic of a logistic regression of the labels on the centred scores, and Info its
	// information. Probabilities are scaled so that they add up to the positive labels: whether these are too many or
	// too few is told by Positive and Expected alone.
	mean, factor := score/info, out.Positive/out.Expected
	for i, c := range s {
		p, z := sigmoid(base+segment.ScoreAt(i)), segment.ScoreAt(i)-mean
		out.Slope += (c.Positive() - factor*c.Rows()*p) * z
		out.Info += factor * c.Rows() * p * (1 - p) * z * z
		// The squared residuals. Scaled, a probability near 1 may exceed it.
		q := min(1, factor*p)
		out.Noise += (c.Positive()*(1-q)*(1-q) + (c.Rows()-c.Positive())*q*q) * z * z
	}
	return out
}

// baseOf returns the log odds of a score of 0 for which the expected positive labels add up to the observed ones. It is
// found by Newton's method, in at most 60 steps. Steps are cut to 2 and the result to +-30, since no finite base exists
// if all labels are the same.
func (s *scoreCounts) baseOf() float64 {
	base := 0.0
	for range 60 {
		expected, positive, info := 0.0, 0.0, 1e-9
		for i, c := range s {
			p := sigmoid(base + segment.ScoreAt(i))
			expected += c.Rows() * p
			positive += c.Positive()
			info += c.Rows() * p * (1 - p)
		}
		step := (positive - expected) / info
		base = max(-30, min(30, base+max(-2, min(2, step))))
		if math.Abs(step) < 1e-9 {
			break
		}
	}
	return base
}

// slopeVariance is the variance of Slope by chance: what the expected rates give, or the labels if they show more.
func (s *SegmentCounts) slopeVariance() float64 { return max(s.Info, s.Noise) }

// segmentsOf returns the segments of a night: first all rows, then the parts of the table in its order, then those of
// each column. Expected counts are scaled to the night's own number of positive labels, so that segments are compared
// with each other. counts is nil on the first night, which no earlier one judges; then there are none.
func segmentsOf(counts *segment.Counts) []SegmentCounts {
	if counts == nil {
		return nil
	}
	var all scoreCounts
	for i := range counts.Parts {
		all.add(counts.Parts[i][:])
	}
	base := all.baseOf()
	out := []SegmentCounts{all.segment("", allRows, base)}
	for i := range counts.Parts {
		var s scoreCounts
		s.add(counts.Parts[i][:])
		out = append(out, s.segment("", fmt.Sprintf("part %d of %d", i+1, segment.TableParts), base))
	}
	for i := range counts.Columns {
		out = append(out, columnSegments(&counts.Columns[i], base)...)
	}
	for i := range out {
		s := &out[i]
		s.Expected, s.Slope, s.Info, s.Noise = round3(s.Expected), round3(s.Slope), round3(s.Info), round3(s.Noise)
	}
	return out
}

// ratioOf returns the number of positive rows divided by that expected by the witness. It is 0 if counts is nil, as
// without a witness.
func ratioOf(counts *segment.Counts) float64 {
	if counts == nil {
		return 0
	}
	expected, positive := 0.0, 0.0
	for i := range counts.Parts {
		for step, n := range counts.Parts[i] {
			expected += n.Rows() * sigmoid(counts.Base+segment.ScoreAt(step))
			positive += n.Positive()
		}
	}
	return round5(positive / max(expected, 1e-9))
}

func round3(value float64) float64 { return math.Round(1e3*value) / 1e3 }

// columnSegments returns the segments of a column, those with the most expected positive labels first. A categorical
// column has one for each level. Other columns have one for each bin if these are few or those of a derived feature, or
// else about numberParts with equally many rows. Left out are segments with fewer than leastCount expected labels of
// either kind, and all after the first keptSegments.
func columnSegments(axis *segment.Axis, base float64) []SegmentCounts {
	cellsOf := func(code int) []segment.Cell {
		return axis.Cells[code*segment.ScoreSteps : (code+1)*segment.ScoreSteps]
	}
	var out []SegmentCounts
	judge := func(level string, codes ...int) {
		var s scoreCounts
		for _, code := range codes {
			s.add(cellsOf(code))
		}
		if one := s.segment(axis.Name, level, base); one.Expected >= leastCount && one.Rows-one.Expected >= leastCount {
			out = append(out, one)
		}
	}

	if axis.Levels != nil {
		judge("(missing)", segment.CodeMissing)
		judge("(others)", segment.CodeOther)
		for i, text := range axis.Levels {
			judge(text, segment.CodeLevels+i)
		}
	} else {
		missing, values := axis.Feature.MissingBin, len(axis.Feature.Bounds)+1
		if missing >= 0 && axis.Feature.Bins < 2 { // no row has a value
			return nil
		}
		if missing >= 0 {
			judge("(missing)", missing)
		}
		if derived := axis.Feature.From != nil; derived || values <= 2*numberParts {
			for bin := range values {
				judge(fmt.Sprintf("bin %d of %d", bin+1, values), bin)
			}
		} else {
			for _, part := range equalParts(cellsOf, values) {
				judge(fmt.Sprintf("tenth %d", part.tenth), part.bins...)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b SegmentCounts) int { return cmp.Compare(b.Expected, a.Expected) })
	return out[:min(len(out), keptSegments)]
}

// binRun is a run of consecutive bins.
type binRun struct {
	bins  []int
	tenth int // the last tenth of all rows, from 1 to 10, that is complete at its end
}

// equalParts divides the first bins bins into at most numberParts runs with about equally many rows; cellsOf returns
// the counts of a bin. Bins are not divided: a run ends with the bin that reaches the next tenth of all rows. If one
// bin reaches several tenths, the run has the number of the last. Bins without rows behind the last run belong to it.
// Without rows there is no run.
func equalParts(cellsOf func(bin int) []segment.Cell, bins int) []binRun {
	total := 0.0
	for bin := range bins {
		for _, n := range cellsOf(bin) {
			total += n.Rows()
		}
	}
	if total == 0 {
		return nil
	}

	var runs []binRun
	var run binRun
	seen := 0.0
	for bin := range bins {
		run.bins = append(run.bins, bin)
		for _, n := range cellsOf(bin) {
			seen += n.Rows()
		}
		if run.tenth == numberParts { // all rows are in runs
			runs[len(runs)-1].bins = append(runs[len(runs)-1].bins, run.bins...)
			run.bins = nil
			continue
		}
		// run.tenth is still that of the run before.
		if seen >= total*float64(run.tenth+1)/numberParts || bin == bins-1 {
			run.tenth = max(run.tenth+1, int(seen/total*numberParts))
			runs = append(runs, run)
			run.bins = nil
		}
	}
	return runs
}

// Thresholds of segments. A loss is what a model would lose that believes the labels, as a share of their entropy.
const (
	falseAlarms = 1e-2  // false-discovery rate of all tests of a night (Benjamini and Hochberg, 1995)
	lossBlocks  = 0.002 // loss that blocks
	lossWarns   = 0.001 // loss that is told
	chanceOf    = 1.5   // standard errors that are put down to chance when a loss is estimated
	riseBlocks  = 0.02  // loss that blocks if there are more positive labels: a campaign may have become better
	leastSpread = 0.06  // least standard deviation of a segment's rate from night to night, as a logarithm
	newSpread   = 0.15  // the same, and that of its slope, while it cannot be measured
	leastTilt   = 0.06  // least standard deviation of its slope
)

// segmentKey identifies a segment across nights.
type segmentKey struct{ column, level string }

// usualSegment is a segment's sums over recent nights; the fields are those of SegmentCounts.
type usualSegment struct {
	nights             int     // on which the segment was judged
	positive, expected float64 // sums, as all below
	share              float64 // of each night's rows; divided by nights, the mean share
	slope, info, noise float64
}

// spread is by how much a column's segments vary from night to night beyond chance, as variances: of the logarithm of
// positive to expected labels, and of the slope.
type spread struct{ rate, slope float64 }

// suspect is one test of a segment: of how many of its labels are positive, or, if isSlope, of how closely they follow
// the witness.
type suspect struct {
	segment  SegmentCounts
	expected float64 // positive rows, as usual in this segment
	slope    float64 // beyond the usual one
	isSlope  bool
	thinned  bool    // there are fewer rows, but as many positive ones, as if negative ones had been left out
	z        float64 // the deviation in standard errors
	loss     float64 // if a model believes the labels, as a share of their entropy, less what chance explains
}

// checkSegments looks for segments whose labels are not what earlier nights lead to expect, and adds findings. Of a
// regression, labels above the median count as positive, of several classes those of the most frequent one.
func (c *comparison) checkSegments() {
	segments := c.p.Segments
	if len(segments) == 0 { // no night before has a model of its labels
		return
	}
	usual, spreads := c.usualSegments()
	all := segments[0] // all rows
	entropy := all.Rows * entropyOf(all.Positive/max(all.Rows, 1))
	if entropy <= 0 { // all labels are the same, which checkRate tells
		return
	}

	var found []suspect
	for _, s := range segments {
		u, ok := usual[segmentKey{s.Column, s.Level}]
		if !ok { // no recent night has the segment
			continue
		}

		// Ranges of numbers are compared only if they hold about as many rows as usual. If not, a number that many rows
		// have has moved to the next range.
		usualShare := u.share / float64(u.nights)
		more := s.Rows / max(all.Rows, 1) / usualShare
		if strings.HasPrefix(s.Level, "tenth ") && !(more < 1.25 && more > 0.8) {
			continue
		}

		// The number of positive labels, except of all rows, which checkRate judges. Then how labels follow the
		// witness.
		apart := spreads[s.Column]
		if s.Level != allRows {
			one := rateSuspect(s, u, apart.rate, entropy)
			rate := s.Positive / max(1, one.expected)
			// Had only negative rows been left out, the segment's share would have fallen by about the factor by which
			// its rate has risen. Half of that fall, on a logarithmic scale, is a sign of it: hence the square root.
			one.thinned = s.Column != "" && rate > 1 && !c.comesAndGoes(s.Column) &&
				s.Rows/all.Rows < usualShare/math.Sqrt(rate)
			found = append(found, one)
		}
		if s.Info > 0 && u.info > 0 {
			found = append(found, slopeSuspect(s, u, apart.slope, entropy))
		}
	}
	c.report(addTotals(dropChance(found)))
}

// addTotals puts in front, for each column of which several levels have lost labels, a suspect with their sum: each may
// have lost too little to block, but not all together. The parts of the table count as levels of one column, too. The
// sum's level names them all.
//
// A suspect's loss has been multiplied by shareBeyondChance(z), the reduction for chance. The division takes that back,
// and the sum is reduced once, by the z of the sum. Suspects without a loss are left out: shareBeyondChance(z) may be 0
// there.
func addTotals(found []suspect) []suspect {
	var sums []suspect
	count := map[string]int{}
	for _, s := range found {
		if s.isSlope || s.segment.Positive >= s.expected || s.loss == 0 {
			continue
		}
		i := slices.IndexFunc(sums, func(sum suspect) bool { return sum.segment.Column == s.segment.Column })
		if i < 0 {
			i, sums = len(sums), append(sums, suspect{segment: SegmentCounts{Column: s.segment.Column}})
		}
		sum := &sums[i]
		count[s.segment.Column]++
		if count[s.segment.Column] > 1 {
			sum.segment.Level += ", "
		}
		sum.segment.Level += s.segment.Level
		sum.segment.Rows += s.segment.Rows
		sum.segment.Positive += s.segment.Positive
		// Deviations are added as those of independent levels. z is negative, since labels are lost.
		sum.z = -math.Hypot(sum.z, s.z)
		sum.expected, sum.loss = sum.expected+s.expected, sum.loss+s.loss/shareBeyondChance(s.z)
	}
	sums = slices.DeleteFunc(sums, func(s suspect) bool { return count[s.segment.Column] < 2 })
	for i := range sums {
		sums[i].loss *= shareBeyondChance(sums[i].z)
	}
	return append(sums, found...)
}

// usualSegments sums each segment over the recent nights that have segments, and estimates by column how much these
// usually vary.
func (c *comparison) usualSegments() (map[segmentKey]usualSegment, map[string]spread) {
	usual := map[segmentKey]usualSegment{}
	var nights []*Profile
	for _, p := range slices.Backward(c.before) {
		if len(p.Segments) > 0 && len(nights) < recent {
			nights = append(nights, p)
		}
	}
	for _, p := range nights {
		for _, s := range p.Segments {
			key := segmentKey{s.Column, s.Level}
			u := usual[key]
			u.nights++
			u.positive, u.expected = u.positive+s.Positive, u.expected+s.Expected
			u.slope, u.info, u.noise = u.slope+s.Slope, u.info+s.Info, u.noise+s.slopeVariance()
			u.share += s.Rows / max(1, p.Segments[0].Rows) // the first segment has all rows, as segmentsOf says
			usual[key] = u
		}
	}
	return usual, spreadsOf(nights, usual)
}

// spreadsOf estimates by column how much its segments vary between the nights, of which usual has the sums. The
// variances are at least those of leastSpread and leastTilt. With fewer than three nights, or without a segment that
// occurs on two of them, they are those of newSpread.
//
// It is an estimate by moments: the squared deviation of each night from the segment's sum, less the variance that
// chance explains, relative to the squared size. Large segments weigh most.
func spreadsOf(nights []*Profile, usual map[segmentKey]usualSegment) map[string]spread {
	type moments struct{ rate, rateWeight, slope, slopeWeight float64 }
	sums := map[string]*moments{}
	for _, p := range nights {
		for _, s := range p.Segments {
			u := usual[segmentKey{s.Column, s.Level}]
			m := sums[s.Column]
			if m == nil {
				m = &moments{}
				sums[s.Column] = m
			}
			if u.nights < 2 { // nothing to compare it with
				continue
			}

			// As a night is part of its own sum, squared deviations are too small by this factor.
			left := 1 - 1/float64(u.nights)
			// e is the positive rows as usual in this segment; half a row is added, as both sums may be 0. By chance,
			// a count has the variance e.
			e := s.Expected * (u.positive + 0.5) / (u.expected + 0.5)
			m.rate += ((s.Positive-e)*(s.Positive-e) - e) / left
			m.rateWeight += e * e
			if u.info > 0 {
				d := s.Slope - s.Info*u.slope/u.info
				m.slope += (d*d - s.slopeVariance()) / left
				m.slopeWeight += s.Info * s.Info
			}
		}
	}

	spreads := map[string]spread{}
	for column, m := range sums {
		s := spread{rate: newSpread * newSpread, slope: newSpread * newSpread}
		if len(nights) >= 3 && m.rateWeight > 0 {
			s.rate = max(leastSpread*leastSpread, m.rate/m.rateWeight)
			s.slope = max(leastTilt*leastTilt, m.slope/max(m.slopeWeight, 1e-9))
		}
		spreads[column] = s
	}
	return spreads
}

// entropyOf returns the entropy, in nats, of a label that is positive with probability p.
func entropyOf(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log(p) - (1-p)*math.Log(1-p)
}

// divergence returns by how much the log loss of a row grows, in nats, if its label is positive with probability p
// and a model predicts q (Kullback and Leibler). Both are kept away from 0 and 1, where it is infinite.
func divergence(p, q float64) float64 {
	p, q = max(1e-6, min(1-1e-6, p)), max(1e-6, min(1-1e-6, q))
	return p*math.Log(p/q) + (1-p)*math.Log((1-p)/(1-q))
}

// rateSuspect compares a segment's positive rows with the expected ones, corrected by how the segment usually differs
// from the witness. apart is the variance of the logarithm of that from night to night, entropy that of all labels in
// nats.
func rateSuspect(counts SegmentCounts, usual usualSegment, apart, entropy float64) suspect {
	expected := counts.Expected * (usual.positive + 0.5) / (usual.expected + 0.5) // half a row, as both may be 0
	// The relative variance of expected: from night to night, and by chance in the usual count.
	variance := apart + 1/(usual.positive+0.5)
	// The square root of a count plus 3/8 has a variance of about 1/4, whatever the count (Anscombe, 1948). That of
	// expected adds expected*variance/4, since the derivative of a square root is 1 over twice the root.
	z := (math.Sqrt(counts.Positive+0.375) - math.Sqrt(expected+0.375)) / math.Sqrt(0.25+expected*variance/4)
	observed := (counts.Positive + 0.5) / (counts.Rows + 1) // half a row of either label, so that it is not 0 or 1
	loss := shareBeyondChance(z) * counts.Rows * divergence(expected/counts.Rows, observed) / entropy
	return suspect{segment: counts, expected: expected, z: z, loss: loss}
}

// slopeSuspect compares how closely a segment's labels follow the witness with how closely they usually do. apart is
// the variance of the slope from night to night, entropy that of all labels in nats. Info of both must be above 0.
func slopeSuspect(counts SegmentCounts, usual usualSegment, apart, entropy float64) suspect {
	excess := counts.Slope/counts.Info - usual.slope/usual.info
	// Both ratios vary by chance: the variance of Slope is divided by the square of what Slope is divided by.
	chance := counts.slopeVariance()/(counts.Info*counts.Info) + usual.noise/(usual.info*usual.info)
	z := excess / math.Sqrt(chance+apart)
	// The log-likelihood is quadratic near its maximum.
	loss := shareBeyondChance(z) * counts.Info * excess * excess / 2 / entropy
	return suspect{segment: counts, slope: excess, isSlope: true, z: z, loss: loss}
}

// shareBeyondChance returns the part of a loss that remains if the deviation z, in standard errors, is reduced by
// chanceOf: losses grow with the square of a deviation.
func shareBeyondChance(z float64) float64 {
	part := max(0, 1-chanceOf/math.Max(math.Abs(z), chanceOf))
	return part * part
}

// dropChance returns the suspects that chance does not explain, those with the largest deviations first, by the
// procedure of Benjamini and Hochberg: with all sorted by their two-sided p-values, it keeps everything up to the last
// of which the p-value is at most falseAlarms times its rank over the number of tests. It sorts all in place.
func dropChance(all []suspect) []suspect {
	slices.SortStableFunc(all, func(a, b suspect) int { return cmp.Compare(math.Abs(b.z), math.Abs(a.z)) })
	last := 0
	for i, s := range all {
		if 2*distuv.UnitNormal.CDF(-math.Abs(s.z)) <= falseAlarms*float64(i+1)/float64(len(all)) {
			last = i + 1
		}
	}
	return all[:last]
}

// report adds one finding for each code, about the first suspect with it. Swapped and shuffled labels share one
// finding. found has the totals of columns first, then the surest suspects.
//
// Losses below lossWarns are not told. If the labels of all rows are wrong, those of segments are, too, and are left
// out. A finding blocks above lossBlocks. Too many positive labels block above riseBlocks only, unless negative rows
// seem to be left out (thinned).
func (c *comparison) report(found []suspect) {
	said := map[Code]bool{}
	rose := c.foundCode(CodeLabelRate) && c.p.Ratio > 1       // all rows have too many positive labels
	tilt := slices.ContainsFunc(found, func(s suspect) bool { // all rows' labels follow the witness less than usual
		return s.isSlope && s.segment.Level == allRows && s.slope < 0 && s.loss > lossBlocks
	})
	for _, s := range found {
		code, text := s.describe(c.last.Label)
		blocks := s.loss > lossBlocks
		if !s.isSlope && s.segment.Positive > s.expected {
			blocks = s.loss > riseBlocks || s.thinned && s.loss > lossBlocks
		}
		switch {
		case s.loss < lossWarns || said[code]: // too small to be told, or a surer suspect has been
		case s.isSlope && s.slope > 0: // labels follow the witness more closely than usual: no harm
		case tilt && s.segment.Level != allRows || rose && !s.isSlope: // told of all rows already
		default:
			said[code] = true
			if s.isSlope {
				said[CodeInverted], said[CodeShuffled] = true, true
			}
			c.addIf(blocks, true, code, s.segment.Column, "%s; believing it would cost %s of the labels' entropy", text,
				percent(s.loss))
		}
	}
}

// describe returns the code of a finding about the suspect, and a sentence without its end: its labels are swapped, no
// longer match the columns, are lost, or are too many.
func (s suspect) describe(label Label) (Code, string) {
	where, positive, both := s.segment.nameSegment(), "have a positive label", "positive and negative labels"
	switch label.Kind {
	case dataset.Regression:
		positive, both = "have a label above the median of last night's", "high and low labels"
	case dataset.Classes:
		positive, both = fmt.Sprintf("are of class %.60q", label.Positive), "labels"
	}
	switch {
	case s.isSlope && s.segment.inverted():
		return CodeInverted, where + both + " look swapped: what earlier nights know of the rows ranks them the " +
			"wrong way round"
	case s.isSlope:
		return CodeShuffled, fmt.Sprintf("%swhat earlier nights know of the rows explains the labels only %.0f %% as "+
			"well as usual: labels and columns no longer match", where, 100*max(0, 1+s.slope))
	}
	text := fmt.Sprintf("%s%.0f of %.0f rows %s, but %.0f are expected from earlier nights", where,
		s.segment.Positive, s.segment.Rows, positive, s.expected)
	switch {
	case s.segment.Positive < s.expected:
		return CodeLabelsLost, text
	case s.thinned:
		text += ", as if negative rows had been left out"
	}
	return CodeLabelRate, text
}

// inverted reports whether labels follow the witness the wrong way round, a ratio of -2, rather than not at all, one of
// -1: the ratio must be nearer to -2, and below -1 by more than four standard errors.
func (s *SegmentCounts) inverted() bool {
	b := s.Slope / s.Info
	return b < -1.5 && (b+1)*s.Info/math.Sqrt(s.slopeVariance()) < -4
}

// nameSegment returns the beginning of a sentence that says which rows the segment has; empty if it is all rows.
func (s *SegmentCounts) nameSegment() string {
	switch {
	case s.Level == allRows:
		return ""
	case s.Column == "":
		// Parts of the table. addTotals joins several, the surest first; they are named in the order of the table.
		var parts []int
		of := 1
		for level := range strings.SplitSeq(s.Level, ", ") {
			part := 0
			_, _ = fmt.Sscanf(level, "part %d of %d", &part, &of) // as segmentsOf names it
			parts = append(parts, part)
		}
		slices.Sort(parts)
		var ranges []string
		for _, part := range parts {
			ranges = append(ranges, fmt.Sprintf("from %d to %d %%", 100*(part-1)/of, 100*part/of))
		}
		return fmt.Sprintf("in the rows %s of the table, ", strings.Join(ranges, " and "))
	}
	return fmt.Sprintf("where it is %.60q, ", s.Level)
}
