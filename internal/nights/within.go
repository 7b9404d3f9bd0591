package nights

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
)

// The encoding of Column.Within. A ratio is one character: its logarithm, in units of 1/ratioUnits, is the distance
// from ratioZero. So a text of seven characters holds seven ratios, which keeps the record short.
const (
	octiles    = 7
	ratioUnits = 200
	ratioZero  = 0x2800 // in the middle of characters that JSON does not escape
)

// measureWithin sets Within of the numeric columns among the first ones. It compares the numbers in the rows with one
// level of another column, inside, with those in all other rows, outside. A key is the name of the other column, a
// new line, and the level; the value is the seven ratios of the octiles inside to those outside, encoded as above.
// Pairs with an octile that is not positive are left out. So are those with too few rows to measure octiles: a level
// with 4 % of the rows or less, or at most 200 numbers inside or outside. values are [columns], codes [columns][rows].
// The other columns are the first ten of at most 40 levels.
func (p *Profile) measureWithin(w *worker, n *ingest.Night, values []*dataset.Values, codes [][]uint8) {
	var groups []int // the other columns
	for j := range p.Ties {
		if k := &p.Columns[j]; k.byLevels() && k.Distinct <= 40 && len(groups) < 10 {
			groups = append(groups, j)
		}
	}
	dataset.Parallel(w.threads, len(p.Ties), func(i int) {
		k := &p.Columns[i]
		if k.Kind != Number || k.byLevels() || k.constant() || w.ctx.Err() != nil { // no quantity
			return
		}

		// Sort the rows by their numbers once, so that those inside and outside are sorted, too.
		x, _ := n.Numbers(values[i])
		var rows []int
		for row := range x {
			if !math.IsNaN(x[row]) {
				rows = append(rows, row)
			}
		}
		slices.SortFunc(rows, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
		k.Within = map[string]string{}
		var inside, outside []float64
		for _, j := range groups {
			for l, level := range p.Columns[j].Levels {
				inside, outside = inside[:0], outside[:0]
				for _, row := range rows {
					if codes[j][row] == uint8(l+2) { // the code of a level, as newColumnEncoder says
						inside = append(inside, x[row])
					} else {
						outside = append(outside, x[row])
					}
				}
				if level.Share <= 0.04 || min(len(inside), len(outside)) <= 200 {
					continue
				}

				// The logarithms of seven ratios, each kept within +-5 (1000 units), a factor of about 150.
				var text []rune
				for q := 1; q <= octiles; q++ {
					a, b := inside[q*len(inside)/(octiles+1)], outside[q*len(outside)/(octiles+1)]
					if a > 0 && b > 0 {
						text = append(text, ratioZero+rune(max(-1000, min(1000, ratioUnits*math.Log(a/b)))))
					}
				}
				if len(text) == octiles {
					k.Within[p.Columns[j].Name+"\n"+level.Text] = string(text)
				}
			}
		}
	})
}

// checkWithin looks for numbers that are multiplied by a factor in the rows with one level of another column alone,
// such as gross prices of one channel. It reports, for each column, the level with the largest factor. It blocks if a
// week and a day of nights (recent) are there to compare with and the numbers are higher, or lower by a third
// (exp(-0.4) is 0.67): lower prices may be a sale. Else it warns. Levels of columns that come and go, or that are
// reported already, are left out.
func (c *comparison) checkWithin() {
	for i := range c.p.Columns {
		column, most, other, level := &c.p.Columns[i], 0.0, "", ""
		for _, key := range slices.Sorted(maps.Keys(column.Within)) {
			name, text, _ := strings.Cut(key, "\n")
			log := c.factorWithin(column, key, c.p.column(name), text)
			if math.Abs(log) > math.Abs(most) && !c.found(name) && !c.movesAlong(name) {
				most, other, level = log, name, text
			}
		}
		if most != 0 && !c.found(column.Name) {
			// With fewer nights, all of them may have had a sale, which has ended.
			blocks := (most > 0 || most < -0.4) && len(c.before) >= recent
			c.addIf(blocks, true, CodeScaled, column.Name, "where %s is %.60q, the numbers are %.4g times what they "+
				"were, compared with all other rows: are they in another unit or currency?", other, level,
				math.Exp(most))
		}
	}
}

// factorWithin returns the logarithm of the factor by which the ratios of column.Within under key have changed since
// earlier nights: above 0 if the numbers inside are higher than they were. other, which may be nil, and level are what
// the key names.
//
// It is 0, for no change, if fewer than three nights have the key, if the seven ratios have not changed alike
// (scaleAgree), or if the range of earlier nights explains the change. It is also 0 for a change of less than
// scaleLeast, which is more while few nights are known, and for one that chance explains.
func (c *comparison) factorWithin(column *Column, key string, other *Column, level string) float64 {
	var all [octiles][]float64   // by octile, the logarithms of earlier nights
	for _, p := range c.before { // all of them: a sale may last for weeks
		if k := p.column(column.Name); k != nil && len([]rune(k.Within[key])) == octiles {
			for q, x := range []rune(k.Within[key]) {
				all[q] = append(all[q], float64(x-ratioZero)/ratioUnits)
			}
		}
	}
	nights := len(all[0])
	if nights < 3 || other == nil { // a name with a line break in it is cut there, and names no column
		return 0
	}

	// By octile: the change from the median of earlier nights, and how far tonight is outside of their range.
	var logs, over []float64
	for q, x := range []rune(column.Within[key]) {
		slices.Sort(all[q])
		tonight := float64(x-ratioZero) / ratioUnits
		logs = append(logs, tonight-(all[q][nights/2]+all[q][(nights-1)/2])/2)
		over = append(over, max(tonight-all[q][nights-1], all[q][0]-tonight))
	}
	slices.Sort(logs)
	slices.Sort(over)

	// The change is the median of the seven. luck estimates its standard error by that of the median inside: the
	// interquartile range over the root of the rows, which for normal numbers is 1.08 times as much. Four of these are
	// asked for, since there are hundreds of ratios.
	log, tolerance := logs[octiles/2], usual{nights: nights}.tolerance()
	rows := c.p.sampled() * (1 - column.Missing) * other.shareOf(level)
	luck := math.Log(column.quantile(3*steps/4)/column.quantile(steps/4)) / math.Sqrt(max(rows, 1))
	agree := logs[octiles-1]-logs[0] <= scaleAgree*math.Abs(log)
	beyondRange := over[octiles/2] > tolerance*scaleFloor+luck
	if agree && beyondRange && math.Abs(log) > max(tolerance*scaleLeast, 4*luck) {
		return log
	}
	return 0
}

// movesAlong reports whether the levels of a column, or of one to which it is tied, come and go. Then numbers by level
// change, too, without a fault: an advertiser's prices are those of its campaigns.
func (c *comparison) movesAlong(name string) bool {
	return c.comesAndGoes(name) || slices.ContainsFunc(c.p.Columns, func(k Column) bool {
		tie, _ := c.p.tieOf(name, k.Name)
		return tie > 0.2 && k.byLevels() && c.comesAndGoes(k.Name)
	})
}
