package nights

import "math"

// checkPeaks looks for a number that many rows suddenly have, such as a zero for unknown. If it finds none, it looks
// for one that far more rows have than had any number before (checkCode). It reports whether a blocking finding was
// added.
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

// checkCode looks for a number that far more rows have than had any number of the column so far. It blocks if people
// use such a number for a missing value: a whole number that is negative, 0 or made of three or more nines. Any other
// number is a warning. It needs two earlier nights, all of which know the share of the most frequent number. Tonight's
// share must be above 1 % and three times the largest earlier one, by more than chance; where there is no such number,
// one outside of all earlier nights suffices (checkNewCode).
func (c *comparison) checkCode(column *Column) bool {
	at, top := column.Top, c.learnColumn(column.Name, func(k *Column) float64 { return k.Top.Share })
	if top.nights < 2 || top.lo == 0 {
		return false
	}
	if at.Share <= max(0.01, 3*top.hi+c.noise*math.Sqrt(top.hi)) {
		return c.checkNewCode(column)
	}
	return c.addIf(at.isCode(), true, CodeLevel, column.Name, "%s of the rows have the number %g, but none had more "+
		"than %s: does it stand for a missing value?", percent(at.Share), at.Number, percent(top.hi))
}

// isCode reports whether people use the number for a missing value.
func (p Peak) isCode() bool {
	nines := math.Log10(math.Abs(p.Number) + 1) // the number of its nines, if it has no other digit
	return p.Number == math.Trunc(p.Number) && (p.Number <= 0 || nines == math.Trunc(nines) && nines >= 3)
}

// checkNewCode looks for a peak that people use for a missing value and that is outside of the range of all earlier
// nights, where at most a tenth as many rows have other numbers outside of it. It blocks, but for a whole number next
// to that range, such as 0 where all were 1 or more, which may have begun to occur.
func (c *comparison) checkNewCode(column *Column) bool {
	low := c.learnColumn(column.Name, func(k *Column) float64 { return k.quantile(0) }).lo
	high := c.learnColumn(column.Name, func(k *Column) float64 { return k.quantile(steps) }).hi
	numbers, _ := c.night.Numbers(c.night.Sample.Column(column.Name))
	for _, p := range column.Peaks {
		same, others := 0, 0
		for _, x := range numbers {
			if x == p.Number {
				same++
			} else if x < low || x > high {
				others++
			}
		}
		if p.isCode() && (p.Number < low || p.Number > high) && 10*others <= same {
			begun := column.Whole && p.Number >= low-1 && p.Number <= high+1
			return c.addIf(!begun, true, CodeLevel, column.Name, "%s of the rows have the number %g, but all "+
				"earlier ones were %.6g to %.6g: does it stand for a missing value?",
				percent(p.Share), p.Number, low, high)
		}
	}
	return false
}

// peakRise returns the peak whose share has risen most from old to column, and by how much. A number that was no peak
// of old counts as if no row had had it, and one that has taken the place of another counts as that one (inPlace). Both
// results are zero if no peak has risen.
func peakRise(column, old *Column) (rise float64, highest Peak) {
	for _, peak := range column.Peaks {
		if was := old.peakShare(peak.Number) + inPlace(peak, column, old); peak.Share-was > rise {
			rise, highest = peak.Share-was, peak
		}
	}
	return rise, highest
}

// inPlace returns the share of the rows that have the number of a peak of column in place of others of old, from which
// it differs by a factor of less than scaleLeast: a frequent price may rise as all of them may.
func inPlace(peak Peak, column, old *Column) (share float64) {
	for _, p := range old.Peaks {
		if p.Number != peak.Number && math.Abs(math.Log(peak.Number/p.Number)) < scaleLeast {
			share += max(0, p.Share-column.peakShare(p.Number))
		}
	}
	return min(share, max(0, peak.Share-old.peakShare(peak.Number)))
}

// peakShare returns the share of a number that is a peak; of any other it is 0.
func (c *Column) peakShare(number float64) float64 {
	for _, p := range c.Peaks {
		if p.Number == number {
			return p.Share
		}
	}
	return 0
}
