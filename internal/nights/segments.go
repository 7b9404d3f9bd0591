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

// SegmentCounts is a part of the rows, judged by the witness: how many of its labels are positive, and how many were
// expected from what earlier nights knew of its rows.
type SegmentCounts struct {
	Column   string  `json:"column"` // empty for parts of the table
	Level    string  `json:"level"`
	Rows     float64 `json:"rows"`
	Positive float64 `json:"positive"`
	Expected float64 `json:"expected"`
	// Slope / Info is by how much the labels follow the witness's scores within the segment too closely: 0 as expected,
	// -1 not at all, -2 the wrong way round. Info is the inverse of its variance.
	Slope float64 `json:"slope"`
	Info  float64 `json:"info"`
}

const (
	keptSegments = 60 // of a column, those with the most expected positives
	leastCount   = 8  // expected positive rows, or negative ones, from which a segment is judged
	numberParts  = 10 // equal parts of a number's values
	allRows      = "all rows"
)

// scoreCounts is the counts of a part of the rows, by score.
type scoreCounts [segment.ScoreSteps]segment.Cell

func (s *scoreCounts) add(cells []segment.Cell) {
	for i := range s {
		s[i] += cells[i]
	}
}

// segment judges a part of the rows; base is the log odds of a score of 0.
func (s *scoreCounts) segment(column, level string, base float64) SegmentCounts {
	out := SegmentCounts{Column: column, Level: level}
	info, score := 0.0, 0.0
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

	// Within the segment, as if its expected number were right.
	mean, factor := score/info, out.Positive/out.Expected
	for i, c := range s {
		p, z := sigmoid(base+segment.ScoreAt(i)), segment.ScoreAt(i)-mean
		out.Slope += (c.Positive() - factor*c.Rows()*p) * z
		out.Info += factor * c.Rows() * p * (1 - p) * z * z
	}
	return out
}

// baseOf is the log odds of a score of 0 for which the expected positives add up to the observed ones.
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

// segmentsOf summarises the counts of all rows: the first segment is all of them.
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
		s.Expected, s.Slope, s.Info = round3(s.Expected), round3(s.Slope), round3(s.Info)
	}
	return out
}

// ratioOf is the number of positive rows relative to that expected by the witness; 0 without one.
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

// columnSegments judges the segments of a column: its levels, its bins if they are few or derived, or else about
// numberParts parts with equally many rows. Left out are segments with few expected labels of a kind and, beyond
// keptSegments, those with the fewest expected positives.
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

// binRun is a run of bins, and the last tenth of the rows that it reaches.
type binRun struct {
	bins  []int
	tenth int
}

// equalParts divides bins into at most numberParts runs with about equally many rows. A bin with many rows reaches
// several tenths.
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
		if seen >= total*float64(run.tenth+1)/numberParts || bin == bins-1 {
			run.tenth = max(run.tenth+1, int(seen/total*numberParts))
			runs = append(runs, run)
			run.bins = nil
		}
	}
	return runs
}

// Thresholds of segments: what must be lost, as a share of the labels' entropy, if a model believes them tomorrow.
const (
	falseAlarms = 1e-2 // false-discovery rate of all tests of a night (Benjamini and Hochberg, 1995)
	lossBlocks  = 0.002
	lossWarns   = 0.001
	chanceOf    = 1.5  // standard errors that are put down to chance when a loss is estimated
	riseBlocks  = 0.02 // more positive labels than expected: a campaign may have become better
	leastSpread = 0.06 // least spread of a segment's logarithm from night to night
	newSpread   = 0.15 // the same while it cannot be measured
	leastTilt   = 0.06 // least spread of its slope
)

// segmentKey names a segment in every night.
type segmentKey struct{ column, level string }

// usualSegment is what is usual of a segment.
type usualSegment struct {
	nights             int
	positive, expected float64
	share              float64 // of the rows, summed over nights
	slope, info        float64
}

// spread is the variance of a column's segments from night to night, beyond chance.
type spread struct{ rate, slope float64 }

// suspect is a segment whose labels are not as usual.
type suspect struct {
	segment  SegmentCounts
	expected float64 // positive rows
	slope    float64 // beyond the usual one
	isSlope  bool
	thinned  bool    // there are fewer rows, and as many positive ones, as if negative ones had been left out
	z        float64 // standard errors
	loss     float64 // share of the labels' entropy that is lost almost surely
}

// checkSegments looks for segments whose labels are not what earlier nights lead to expect.
func (c *comparison) checkSegments() {
	segments := c.p.Segments
	if len(segments) == 0 || c.p.Label.Kind != dataset.Binary {
		return
	}
	usual, spreads := c.usualSegments()
	all := segments[0]
	entropy := all.Rows * entropyOf(all.Positive/max(all.Rows, 1))
	if entropy <= 0 {
		return
	}

	var found []suspect
	for _, s := range segments {
		u, ok := usual[segmentKey{s.Column, s.Level}]
		if !ok {
			continue
		}
		more := s.Rows / max(all.Rows, 1) / (u.share / float64(u.nights))
		if strings.HasPrefix(s.Level, "tenth ") && !(more < 1.25 && more > 0.8) {
			continue // a number of many rows belongs to the next part tonight, or did before
		}
		apart := spreads[s.Column]
		if s.Level != allRows {
			one := rateSuspect(s, u, apart.rate, entropy)
			rate := s.Positive / max(1, one.expected)
			one.thinned = s.Column != "" && rate > 1 && !c.comesAndGoes(s.Column) &&
				s.Rows/all.Rows < u.share/float64(u.nights)/math.Sqrt(rate)
			found = append(found, one)
		}
		if s.Info > 0 && u.info > 0 {
			found = append(found, slopeSuspect(s, u, apart.slope, entropy))
		}
	}
	c.report(addTotals(dropChance(found)))
}

// addTotals adds, for each column of which several levels have lost labels, what they have lost in all.
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
		if count[s.segment.Column]++; count[s.segment.Column] > 1 {
			sum.segment.Level += ", "
		}
		sum.segment.Level += s.segment.Level
		sum.segment.Rows += s.segment.Rows
		sum.segment.Positive += s.segment.Positive
		sum.expected, sum.z, sum.loss = sum.expected+s.expected, -math.Hypot(sum.z, s.z), sum.loss+s.loss/sure(s.z)
	}
	sums = slices.DeleteFunc(sums, func(s suspect) bool { return count[s.segment.Column] < 2 })
	for i := range sums {
		sums[i].loss *= sure(sums[i].z)
	}
	return append(sums, found...)
}

// usualSegments pools the segments of the last nights, and says how much those of each column usually vary. With fewer
// than three nights, a column varies as a new one is assumed to.
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
			u.slope, u.info = u.slope+s.Slope, u.info+s.Info
			u.share += s.Rows / max(1, p.Segments[0].Rows)
			usual[key] = u
		}
	}

	// The spread of a column's segments: by moments, beyond chance, dominated by the largest.
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
			if u.nights < 2 {
				continue
			}
			left := 1 - 1/float64(u.nights)
			e := s.Expected * (u.positive + 0.5) / (u.expected + 0.5)
			m.rate += ((s.Positive-e)*(s.Positive-e) - e) / left
			m.rateWeight += e * e
			if u.info > 0 {
				d := s.Slope - s.Info*u.slope/u.info
				m.slope += (d*d - s.Info) / left
				m.slopeWeight += s.Info * s.Info
			}
		}
	}
	spreads := map[string]spread{}
	for column, m := range sums {
		s := spread{newSpread * newSpread, newSpread * newSpread}
		if len(nights) >= 3 && m.rateWeight > 0 {
			s = spread{max(leastSpread*leastSpread, m.rate/m.rateWeight),
				max(leastTilt*leastTilt, m.slope/max(m.slopeWeight, 1e-9))}
		}
		spreads[column] = s
	}
	return usual, spreads
}

func entropyOf(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log(p) - (1-p)*math.Log(1-p)
}

// divergence is what a row costs if its positive rate is p and a model believes q.
func divergence(p, q float64) float64 {
	p, q = max(1e-6, min(1-1e-6, p)), max(1e-6, min(1-1e-6, q))
	return p*math.Log(p/q) + (1-p)*math.Log((1-p)/(1-q))
}

// rateSuspect compares the positive rows with the expected ones.
func rateSuspect(counts SegmentCounts, usual usualSegment, apart, entropy float64) suspect {
	expected := counts.Expected * (usual.positive + 0.5) / (usual.expected + 0.5)
	variance := apart + 1/(usual.positive+0.5)
	// The square root stabilises the variance of a count (Anscombe, 1948).
	z := (math.Sqrt(counts.Positive+0.375) - math.Sqrt(expected+0.375)) / math.Sqrt(0.25+expected*variance/4)
	return suspect{segment: counts, expected: expected, z: z,
		loss: sure(z) * counts.Rows * divergence(expected/counts.Rows, (counts.Positive+0.5)/(counts.Rows+1)) / entropy}
}

// slopeSuspect compares how the labels follow the witness.
func slopeSuspect(counts SegmentCounts, usual usualSegment, apart, entropy float64) suspect {
	b := counts.Slope/counts.Info - usual.slope/usual.info
	z := b / math.Sqrt(1/counts.Info+1/usual.info+apart)
	return suspect{segment: counts, slope: b, isSlope: true, z: z, loss: sure(z) * counts.Info * b * b / 2 / entropy}
}

// sure is the part of a loss that chance does not explain: a loss grows with the square of a deviation.
func sure(logit float64) float64 {
	part := max(0, 1-chanceOf/math.Max(math.Abs(logit), chanceOf))
	return part * part
}

// dropChance returns those that are not chance, by Benjamini and Hochberg, the surest first.
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

// report adds a finding for the surest segment of each code. If the labels of all rows are wrong, those of segments
// are, too, and are left out.
func (c *comparison) report(found []suspect) {
	said := map[Code]bool{}
	rose := c.foundCode(CodeLabelRate) && c.p.Ratio > 1
	tilt := slices.ContainsFunc(found, func(s suspect) bool {
		return s.isSlope && s.segment.Level == allRows && s.slope < 0 && s.loss > lossBlocks
	})
	for _, s := range found {
		code, text := s.describe()
		blocks := s.loss > lossBlocks
		if !s.isSlope && s.segment.Positive > s.expected {
			blocks = s.loss > riseBlocks || s.thinned && s.loss > lossBlocks
		}
		switch {
		case s.loss < lossWarns || said[code]:
		case s.isSlope && s.slope > 0: // labels follow the witness more closely than usual: no harm
		case tilt && s.segment.Level != allRows || rose && !s.isSlope:
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

// describe is the code and the sentence of a suspect, by what is wrong with it: labels that are swapped, that no longer
// match, that are lost, or that are too many.
func (s suspect) describe() (Code, string) {
	where := s.segment.nameSegment()
	switch {
	case s.isSlope && s.segment.inverted():
		return CodeInverted, where + "positive and negative labels look swapped: what earlier nights know of the " +
			"rows ranks them the wrong way round"
	case s.isSlope:
		return CodeShuffled, fmt.Sprintf("%swhat earlier nights know of the rows explains the labels only %.0f %% as "+
			"well as usual: labels and columns no longer match", where, 100*max(0, 1+s.slope))
	}
	text := fmt.Sprintf("%s%.0f of %.0f rows have a positive label, but %.0f are expected from earlier nights", where,
		s.segment.Positive, s.segment.Rows, s.expected)
	switch {
	case s.segment.Positive < s.expected:
		return CodeLabelsLost, text
	case s.thinned:
		text += ", as if negative rows had been left out"
	}
	return CodeLabelRate, text
}

// inverted reports whether labels follow the witness the wrong way round, rather than not at all.
func (s *SegmentCounts) inverted() bool {
	b := s.Slope / s.Info
	return b < -1.5 && (b+1)*math.Sqrt(s.Info) < -4
}

// nameSegment names the segment for people.
func (s *SegmentCounts) nameSegment() string {
	switch {
	case s.Level == allRows:
		return ""
	case s.Column == "":
		part, of := 0, 1
		_, _ = fmt.Sscanf(s.Level, "part %d of %d", &part, &of) // as segmentsOf names it
		return fmt.Sprintf("in the rows from %d to %d %% of the table, ", 100*(part-1)/of, 100*part/of)
	}
	return fmt.Sprintf("where it is %.60q, ", s.Level)
}
