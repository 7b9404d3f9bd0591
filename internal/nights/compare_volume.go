package nights

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// checkPrints looks for repeated rows: within tonight's table, in train and test, or from the night before. Shares are
// estimated from the kept hashes of rows, 8 bytes each.
func (c *comparison) checkPrints() {
	// beyond reports whether a share exceeds that of all recent nights by more than floor, twice their spread, and four
	// standard errors of a share among the kept hashes: for a small share s of n rows, sqrt(s/n).
	rows := float64(max(len(c.p.Prints)/8, 1))
	beyond := func(share float64, u usual, floor float64) bool {
		return share > u.hi+u.tolerance()*(floor+2*u.spread)+4*math.Sqrt(max(u.hi, 1e-4)/rows)
	}

	// Rows of the night before. again returns the share of them among the rows that should be new: whole rows, or
	// their contents alone, since an export may have new dates or ids. It is known only if both nights' contents
	// leave out the same columns as tonight's, and if it is known what their windows have in common. The overlap is
	// made of the rows that two windows have in common, and of the share again of all others:
	// overlap = common + (1-common)*again.
	windows := func(p, b *Profile) bool { return p.TimeColumn == b.TimeColumn || c.Spec.Source.Last > 0 }
	again := func(p, b *Profile) (float64, bool) {
		overlap := max(sharedPrints(p.Prints, b.Prints), sharedPrints(p.Bare, b.Bare))
		same := slices.Equal(p.Outside, c.p.Outside) && slices.Equal(b.Outside, c.p.Outside)
		return 1 - (1-overlap)/(1-c.expectedOverlap(p, b)),
			same && windows(p, b) && len(p.Bare) > 0 && len(b.Bare) > 0
	}
	stale, _ := again(c.p, c.last)
	before, common := c.learnChange(again), c.expectedOverlap(c.p, c.last)
	overlap := percent(1 - (1-stale)*(1-common))
	expected := "other nights: at most " + percent(max(0, before.hi))
	if common > 0 {
		expected = percent(common) + " are expected of this window"
	}
	switch {
	case c.Respecified && stale > 0.9:
		// With a changed spec, the same table is staged again on purpose.
	case stale > 0.99 && before.hi < 0.99: // all rows, which no recent night repeated
		c.add(Blocking, CodeSameRows, "", "%s of the rows are last night's, perhaps with new dates: it is the same "+
			"table again", overlap)
	// The floor has four standard errors of again: that of the share common, sqrt(common*(1-common)/rows), divided by
	// 1-common.
	case before.nights > 0 && windows(c.p, c.last) && beyond(stale, before, 0.03+4*math.Sqrt(common/(1-common)/rows)):
		c.add(Blocking, CodeOldRows, "", "%s of the rows are last night's (%s)", overlap, expected)
	}

	// Rows that tonight's table repeats. If mostly test rows repeat rows of train, at more than twice the rate of all
	// rows, only that is told, below. Contents are compared with nights that left out the same columns.
	repeated := c.learnAll(func(p *Profile) float64 { return p.Repeated })
	alike := func(p *Profile) bool { return slices.Equal(p.Outside, c.p.Outside) }
	twice := c.learnUsual(func(p *Profile) (float64, bool) { return p.Again, len(p.Bare) > 0 && alike(p) })
	shared := c.learnUsual(func(p *Profile) (float64, bool) { return p.Shared, p.Split == c.p.Split && alike(p) })
	sharedToo := shared.nights > 0 && beyond(c.p.Shared, shared, 0.005)
	explained := sharedToo && c.p.Shared > 2*c.p.Repeated
	switch {
	case beyond(c.p.Repeated, repeated, 0.0007) && !explained:
		c.add(Blocking, CodeRepeatedRows, "", "%s of the rows occur more than once (other nights: at most %s)",
			percent(c.p.Repeated), percent(repeated.hi))
	case twice.nights > 0 && beyond(c.p.Again, twice, 0.01) && !(sharedToo && c.p.Shared > 2*c.p.Again):
		c.add(Blocking, CodeRepeatedRows, "",
			"%s of the rows occur more than once but for their times and ids (other nights: at most %s)",
			percent(c.p.Again), percent(twice.hi))
	}
	if sharedToo {
		c.add(Blocking, CodeSharedRows, "", "%s of the test rows also occur in train (other nights: at most %s)",
			percent(c.p.Shared), percent(shared.hi))
	}
}

// expectedOverlap returns the share of a night's rows that the night before should have, too. Tables are windows of
// time. A night's window is assumed to begin later than that of the night before by as much as it ends later. The rows
// of the night before that are newer than this beginning are common to both; they are counted by its buckets. If the
// newest row is no newer than the night before's, nothing is known to be common, and the result is 0.
//
// Without times, or with another time column, the spec says how many days a window has (source.last), of which each
// night replaces one. If it does not say so, 0 stands for what is not known. The result is below 1, as callers divide
// by the rest.
func (c *comparison) expectedOverlap(profile, before *Profile) float64 {
	const most = 1 - 1./4000 // as if one day in ten years were new
	b, step := &before.Buckets, profile.Newest.Sub(before.Newest)
	switch {
	case profile.TimeColumn == "" || profile.TimeColumn != before.TimeColumn || b.Width <= 0:
		return min(most, 1-1/float64(max(1, c.Spec.Source.Last)))
	case step <= 0:
		return 0
	}
	rows, left := 0.0, 0.0 // sampled rows of the night before, and those that are left tonight
	first := before.Oldest.Add(step).Unix()
	for i, n := range b.Rows {
		rows += float64(n)
		// Of the bucket in which tonight's window begins, a part is left.
		left += float64(n) * max(0, min(1, float64(b.From+int64(i+1)*b.Width-first)/float64(b.Width)))
	}
	return max(0, min(most, left/max(1, rows)*float64(before.Rows)/float64(max(1, profile.Rows))))
}

// Overlap estimates the share of the rows that another night's table has as well. It is 1 if either profile has no
// hashes of rows.
func (p *Profile) Overlap(other *Profile) float64 {
	if len(p.Prints) == 0 || len(other.Prints) == 0 {
		return 1
	}
	return sharedPrints(p.Prints, other.Prints)
}

// sharedPrints estimates the share of a's rows, or values, that are also in b. Both are the lowest hashes of a table:
// 8 bytes each, big-endian and ascending. Only hashes up to the smaller of the two highest are compared: beyond that,
// one of them may have left out hashes that its table has. It is 0 if either is empty.
func sharedPrints(a, b []byte) float64 {
	if len(a) < 8 || len(b) < 8 {
		return 0
	}
	limit := a[len(a)-8:]
	if other := b[len(b)-8:]; bytes.Compare(other, limit) < 0 {
		limit = other
	}

	// Merge the two, i and j being the offsets in a and b.
	both, all := 0, 0
	for i, j := 0, 0; i < len(a) && bytes.Compare(a[i:i+8], limit) <= 0; i += 8 {
		for j < len(b) && bytes.Compare(b[j:j+8], a[i:i+8]) < 0 {
			j += 8
		}
		all++
		if j < len(b) && bytes.Equal(b[j:j+8], a[i:i+8]) {
			both++
		}
	}
	return float64(both) / float64(max(all, 1))
}

// checkVolume compares the number of rows with those of recent nights. It blocks below a quarter of the least and above
// four times the most. A holiday may halve the volume: from 0.8 and 1.25 times on that is only told, and what it does
// to a model shows when the model is tested.
func (c *comparison) checkVolume() {
	u := c.learnAll(func(p *Profile) float64 { return float64(p.Rows) })
	rows := float64(c.p.Rows)

	usual := slices.Compact([]string{humanize.Comma(int64(u.lo)), humanize.Comma(int64(u.hi))})
	c.addIf(rows < fewest*u.lo || rows > most*u.hi, rows < 0.8*u.lo || rows > 1.25*u.hi, CodeRows, "",
		"%s rows; earlier nights had %s", humanize.Comma(c.p.Rows), strings.Join(usual, " to "))
}

// Limits of the number of rows: relative to the least, and to the most, of recent nights.
const fewest, most = 0.25, 4

// Tolerances of times.
const (
	clockStep = 25 * time.Minute // less than the smallest difference between time zones
	quiet     = 0.15             // of an hour's usual rows: with fewer, the hour counts as lost
)

// checkTimes compares the times of the oldest and the newest row with what earlier nights lead to expect: usually both
// move on by the same step, such as a day. It needs the same time column as last night. If the spec has changed, which
// may choose other rows, it looks for odd times alone. Steps are compared, and hours without rows looked for
// (checkGaps), once two earlier steps are known.
func (c *comparison) checkTimes() {
	if c.p.TimeColumn == "" || c.last.TimeColumn != c.p.TimeColumn {
		return
	}

	odd := c.learnAll(func(p *Profile) float64 { return p.Odd })
	if c.p.Odd > odd.hi { // more than on any recent night; 0 if none has odd times
		c.add(Warning, CodeOddTimes, c.p.TimeColumn, "%s of the rows have a time far from all others, such as %s",
			percent(c.p.Odd), stamp(c.p.OddAt))
	}

	if c.Respecified {
		return
	}

	// newest and oldest are by how much later than expected these rows are.
	newest, moves := c.learnStep(func(p *Profile) time.Time { return p.Newest })
	oldest, _ := c.learnStep(func(p *Profile) time.Time { return p.Oldest })
	usually := seconds(moves.center)
	if !c.p.Newest.After(c.last.Newest) && moves.nights > 0 && usually > 0 {
		c.add(Blocking, CodeStale, c.p.TimeColumn, "the newest row is from %s, and last night's was from %s",
			stamp(c.p.Newest), stamp(c.last.Newest))
		return
	}
	if moves.nights < 2 || usually <= 0 {
		return
	}

	// whole reports whether the newest row is off by a multiple of unit, within slack.
	slack := max(clockStep, seconds(2*moves.spread))
	whole := func(unit time.Duration) bool { return (newest.Abs()+slack)%unit < 2*slack }
	intact := (newest - oldest).Abs() <= slack // the window is as long as before
	const day = 24 * time.Hour
	nightsOff := whole(usually) || intact && whole(day) // some nights were skipped or blocked, tonight or before
	switch {
	case newest < 0 && intact && nightsOff: // a window as long as usual, and older by whole nights: no fault
	case newest.Abs() > slack && intact && !nightsOff && newest.Abs() < usually*3/4: // less than a step: a time zone
		c.add(Blocking, CodeClock, c.p.TimeColumn, "all times are %s than expected: the newest row is from %s",
			describeShift(newest), stamp(c.p.Newest))
	case newest > slack && nightsOff:
		c.add(Warning, CodeFuture, c.p.TimeColumn,
			"the newest row is from %s, %v after last night's, but usually it is %v: was a night left out?",
			stamp(c.p.Newest), c.p.Newest.Sub(c.last.Newest), usually)
	case newest > slack:
		c.add(Blocking, CodeFuture, c.p.TimeColumn, "the newest row is from %s, %v later than expected",
			stamp(c.p.Newest), newest.Round(time.Minute))
	case newest < -slack:
		c.add(Blocking, CodeStale, c.p.TimeColumn, "the newest row is from %s, %v older than expected",
			stamp(c.p.Newest), -newest.Round(time.Minute))
	case oldest < -max(slack, 2*usually):
		c.add(Blocking, CodeClock, c.p.TimeColumn, "the oldest row is from %s, %v older than expected",
			stamp(c.p.Oldest), -oldest.Round(time.Minute))
	case oldest > max(slack, usually/20):
		c.add(Blocking, CodeStale, c.p.TimeColumn,
			"the oldest row is from %s, %v newer than expected: the beginning is missing", stamp(c.p.Oldest),
			oldest.Round(time.Minute))
	}
	c.checkGaps()
}

// learnStep returns by how much later than expected a row of tonight is, the newest or the oldest as timeOf says, if it
// moves on by the usual step. It also returns the steps between earlier nights with tonight's time column, in seconds.
func (c *comparison) learnStep(timeOf func(*Profile) time.Time) (off time.Duration, steps usual) {
	steps = c.learnChange(func(p, before *Profile) (float64, bool) {
		return timeOf(p).Sub(timeOf(before)).Seconds(),
			p.TimeColumn == c.p.TimeColumn && before.TimeColumn == c.p.TimeColumn
	})
	return timeOf(c.p).Sub(timeOf(c.last)) - seconds(steps.center), steps
}

// describeShift says by how much, to the minute, and in which direction times have shifted: later if off is above 0.
func describeShift(off time.Duration) string {
	text := off.Abs().Round(time.Minute).String()
	if off > 0 {
		return text + " later"
	}
	return text + " earlier"
}

// seconds returns so many seconds as a duration.
func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

// gapRows is how many sampled rows an hour must usually have for their absence to mean something.
const gapRows = 60

// checkGaps looks for hours with hardly any rows. What is expected of an hour of the day is its usual share of a day's
// rows, times the rows of an average day of tonight's table. Tables whose buckets are longer than an hour, and hours
// with few rows, are not judged.
func (c *comparison) checkGaps() {
	b := &c.p.Buckets
	const hour = 3600
	if b.Width != hour {
		return
	}

	usual := c.usualHourlyShares()
	total := 0
	for _, n := range b.Rows {
		total += n
	}
	days := float64(len(b.Rows)) / 24

	first, lost := int64(0), 0
	for i := 1; i+1 < len(b.Rows); i++ { // the first and the last hour may be incomplete
		at := b.From + int64(i)*hour
		expected := usual[((at/hour)%24+24)%24] * float64(total) / max(days, 1) // also of negative times, before 1970
		if expected < gapRows || float64(b.Rows[i]) > quiet*expected {
			continue
		}
		if lost == 0 {
			first = at
		}
		lost++
	}
	if lost > 0 {
		c.add(Blocking, CodeGap, c.p.TimeColumn, "%d hours, beginning with %s, have hardly any rows", lost,
			stamp(time.Unix(first, 0)))
	}
}

// usualHourlyShares returns, for each hour of the day in UTC, its least share of a night's rows on recent nights. An
// hour that once had none is thus never missed. Only nights counted by hours of tonight's time column are used.
func (c *comparison) usualHourlyShares() [24]float64 {
	var out [24]float64
	for h := range out {
		u := c.learnUsual(func(p *Profile) (float64, bool) {
			b := &p.Buckets
			if b.Width != 3600 || p.TimeColumn != c.p.TimeColumn {
				return 0, false
			}
			rows, all := 0, 0
			for i, n := range b.Rows {
				all += n
				if int(((b.From/3600+int64(i))%24+24)%24) == h { // times before 1970 are negative
					rows += n
				}
			}
			return float64(rows) / float64(max(all, 1)), all > 0
		})
		out[h] = u.lo
	}
	return out
}
