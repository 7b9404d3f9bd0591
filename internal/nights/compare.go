package nights

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/sweep"
)

// MaxNights is how many accepted nights, the most recent ones, Compare uses.
const MaxNights = 30

// Request is the input of Compare.
type Request struct {
	Night   *ingest.Night
	Tonight *Profile   // of the night
	Before  []*Profile // of the accepted nights, oldest first
	// Doubted says that a person accepted the last of them despite its label rate, and the one before it was not so
	// accepted: one such night does not make its rate usual, the second does.
	Doubted bool
	// Respecified says that the spec differs from last night's: then the same table may legitimately be staged again.
	Respecified bool
	// Declared says that nights are meant to be compared: there is a schedule, or the spec has contract:. Otherwise
	// only the third night can be blocked, because somebody may be trying out a spec on the same table.
	Declared bool
	Spec     *dataset.Spec
	At       time.Time // when tonight's table was staged
}

// Compare reports what a person should know about tonight's table, most serious first. Without earlier nights, only the
// spec's own rules can block. It sets Factor of the columns of tonight's profile, for later nights to compare with. The
// only error is ctx's.
func Compare(ctx context.Context, request Request) ([]Finding, error) {
	rules, tonight, before := request.Spec.Contract, request.Tonight, request.Before
	if rules.Off {
		return nil, ctx.Err()
	}
	before = distinct(tonight, before[max(0, len(before)-MaxNights):], request.Respecified)
	c := &comparison{Request: request, night: request.Night, p: tonight, before: before, rules: rules}

	// Tonight's table by itself, and against the nights before. Later checks read what earlier ones have found.
	copied := c.checkCopies()
	if len(before) == 0 {
		c.checkFirst(copied)
	} else {
		c.last = before[len(before)-1]
		c.noise = maxStandardErrors / math.Sqrt(max(1, min(tonight.sampled(), c.last.sampled())))
		for _, check := range []func(){c.checkColumns, c.checkPrints, c.checkVolume, c.checkTimes, c.checkValues,
			c.checkTies, c.checkWithin, c.checkLabels} {
			if ctx.Err() == nil {
				check()
			}
		}
	}
	c.checkLeaks()

	// The first tables may be attempts at a spec rather than nights: only warn.
	if !request.Declared && len(before) < contractBegins {
		for i := range c.findings {
			if f := &c.findings[i]; f.Level == Blocking {
				f.Level = Warning
				f.Text += "; it blocks from the third night on, or with contract: in the spec"
			}
		}
	}

	// The spec's own rules always block, unless the spec itself lets a finding pass.
	c.checkRules(request.At)
	day := tonight.Newest // what is expected on a day is about its rows, whenever they are staged
	if day.IsZero() {
		day = request.At
	}
	return sortFindings(allowFindings(c.findings, rules, day)), ctx.Err()
}

// contractBegins is how many earlier nights there must be for findings to block although Request.Declared is false.
const contractBegins = 2

// distinct returns the nights without those whose table is that of the next night, staged again with another spec. If
// tonight's spec differs from last night's (respecified), nights with tonight's table are left out, too.
func distinct(tonight *Profile, before []*Profile, respecified bool) []*Profile {
	var out []*Profile
	for i, p := range before {
		stagedAgain := i+1 < len(before) && p.sameTable(before[i+1])
		if !stagedAgain && !(respecified && p.sameTable(tonight)) {
			out = append(out, p)
		}
	}
	return out
}

// sameTable reports whether two profiles are of the same table, perhaps by specs that leave out or read some columns
// otherwise. Either the rows have the same hashes. Or their number, the labels' statistics and the newest time are the
// same, and fewer than half of the columns of numbers that both have tell them apart or, without such columns, none of
// the others.
func (p *Profile) sameTable(other *Profile) bool {
	if len(p.Prints) > 0 && bytes.Equal(p.Prints, other.Prints) {
		return true
	}
	alike := p.Rows == other.Rows && p.Label.Kind == other.Label.Kind && p.Label.Mean == other.Label.Mean &&
		p.Label.Middle == other.Label.Middle && p.Newest.Equal(other.Newest)
	if !alike || p.sampled() != other.sampled() { // of very wide tables fewer rows are sampled, which are other ones
		return alike
	}

	// A table without times may have as many rows of either label every night. Its columns' values differ all the same,
	// above all numbers: other columns may have the same levels every night. One column that differs is not enough: the
	// spec may have got another format for it.
	var numbers, others struct{ both, differ int }
	for _, k := range p.Columns {
		old := other.column(k.Name)
		if old == nil || old.Kind != k.Kind {
			continue
		}
		n := &others
		if len(k.Quantiles) > 0 {
			n = &numbers
		}
		n.both++
		if old.Missing != k.Missing || old.Distinct != k.Distinct || !slices.Equal(old.Quantiles, k.Quantiles) {
			n.differ++
		}
	}
	if numbers.both > 0 {
		return 2*numbers.differ < numbers.both
	}
	return others.differ == 0
}

// comparison compares tonight's profile with those of the nights before. Each check adds findings.
//
// Most limits have one form: a floor, which is what matters at all, times usual.tolerance, plus a multiple of the
// largest change between recent nights, plus what chance explains (noise). Usually there are two, one that warns and
// a higher one that blocks.
type comparison struct {
	Request
	night  *ingest.Night
	p      *Profile   // tonight's
	before []*Profile // the accepted nights that are compared with, oldest first
	last   *Profile   // the last of before
	rules  dataset.ContractSpec
	// noise is maxStandardErrors over the square root of the sampled rows. A share of the rows may differ by chance by
	// noise x sqrt(share).
	noise    float64
	fell     bool // there are fewer positive labels than expected; set by checkRate
	findings []Finding
}

// add adds a finding about a column, or about the whole table if column is empty.
func (c *comparison) add(level Level, code Code, column, format string, args ...any) {
	c.findings = append(c.findings, Finding{code, level, column, fmt.Sprintf(format, args...)})
}

// addIf adds a blocking finding if blocks, or else a warning if warns, or else none. It returns blocks.
func (c *comparison) addIf(blocks, warns bool, code Code, column, format string, args ...any) bool {
	switch {
	case blocks:
		c.add(Blocking, code, column, format, args...)
	case warns:
		c.add(Warning, code, column, format, args...)
	}
	return blocks
}

// maxStandardErrors is by how many standard errors a share or a mean may differ by chance: about one in a hundred that
// have not changed differs by more.
const maxStandardErrors = 2.5

// recent is how many nights define what is usual: a week and a day, so that each weekday is among them.
const recent = 8

// usual is the range of a number over the last few nights.
type usual struct {
	nights int
	center float64 // median
	mean   float64
	spread float64 // largest deviation of a night from center
	steady float64 // median deviation, which a few unusual nights hardly change
	lo, hi float64
}

// learnUsual asks the nights before, newest first, for a number until recent nights have answered, and summarises the
// answers. ask returns false for a night that does not have the number. Without any answer, all fields are 0.
func (c *comparison) learnUsual(ask func(*Profile) (float64, bool)) usual {
	var all []float64
	for _, p := range slices.Backward(c.before) {
		if x, ok := ask(p); ok && len(all) < recent {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return usual{}
	}

	slices.Sort(all)
	u := usual{nights: len(all), center: (all[len(all)/2] + all[(len(all)-1)/2]) / 2, lo: all[0], hi: all[len(all)-1]}
	for i, x := range all {
		u.mean += x / float64(len(all))
		all[i] = math.Abs(x - u.center)
	}
	slices.Sort(all)
	u.spread, u.steady = all[len(all)-1], all[len(all)/2]
	return u
}

// learnAll is learnUsual for a number that every night has.
func (c *comparison) learnAll(ask func(*Profile) float64) usual {
	return c.learnUsual(func(p *Profile) (float64, bool) { return ask(p), true })
}

// learnColumn is learnUsual for a number of one column; a night without the column is left out.
func (c *comparison) learnColumn(name string, ask func(*Column) float64) usual {
	return c.learnUsual(func(p *Profile) (float64, bool) {
		if k := p.column(name); k != nil {
			return ask(k), true
		}
		return 0, false
	})
}

// learnColumnChange is learnUsual for a number that compares a night's column with the same column of the night before
// it. Left out are nights where either column is missing or has returns false for it.
func (c *comparison) learnColumnChange(name string, has func(*Column) bool, ask func(k, before *Column) float64) usual {
	return c.learnChange(func(p, b *Profile) (float64, bool) {
		k, before := p.column(name), b.column(name)
		if k == nil || before == nil || !has(k) || !has(before) {
			return 0, false
		}
		return ask(k, before), true
	})
}

// learnChange is learnUsual for a number that compares a night with the accepted night before it. The oldest night has
// none, and is left out.
func (c *comparison) learnChange(ask func(p, before *Profile) (float64, bool)) usual {
	previous := map[*Profile]*Profile{}
	for i, p := range c.before[min(1, len(c.before)):] {
		previous[p] = c.before[i]
	}
	return c.learnUsual(func(p *Profile) (float64, bool) {
		if b := previous[p]; b != nil {
			return ask(p, b)
		}
		return 0, false
	})
}

// atMost says how large a change has been so far. format has one verb, %s, for the largest share that changed.
func (u usual) atMost(format string) string {
	if u.nights == 0 {
		return "and no earlier change is known to compare with"
	}
	return fmt.Sprintf(format, percent(u.hi))
}

// tolerance returns a factor, at least 1, for limits: they are wider while few nights are known, since the range of a
// few nights is narrower than the usual one. From five nights on they are as they stand at the constants.
func (u usual) tolerance() float64 {
	switch {
	case u.nights >= 5:
		return 1
	case u.nights >= 3:
		return 1.3
	case u.nights == 2:
		return 1.6
	}
	return 2
}

// checkRules checks the night against the rules of the spec's contract, each of which blocks. A rule that the spec does
// not have allows everything. at is the time at which the newest row's age is measured.
func (c *comparison) checkRules(at time.Time) {
	if !c.rules.Rows.Holds(float64(c.p.Rows)) {
		c.add(Blocking, CodeRows, "", "%s rows; contract.rows is %s", humanize.Comma(c.p.Rows), rangeText(c.rules.Rows))
	}
	if l := c.p.Label; !c.rules.Label.Holds(l.Mean) {
		c.add(Blocking, CodeLabelRate, "", "%s %.6g, but contract.label allows %s", l.meanIs(), l.Mean,
			rangeText(c.rules.Label))
	}

	limit := time.Duration(c.rules.MaxAge)
	switch {
	case limit == 0:
	case c.p.TimeColumn == "" && c.rules.Time != "":
		c.add(Blocking, CodeStale, c.rules.Time,
			"contract.max_age is %v, but this column, named under contract.time, has no times tonight", limit)
	case c.p.TimeColumn == "":
		c.add(Blocking, CodeStale, "",
			"contract.max_age is %v, but no column says how old the rows are; name it under contract.time", limit)
	case at.Sub(c.p.Newest) > limit:
		c.add(Blocking, CodeStale, c.p.TimeColumn, "the newest row is from %s, %v old, but contract.max_age is %v",
			stamp(c.p.Newest), at.Sub(c.p.Newest).Round(time.Minute), limit)
	}
}

// rangeText says for people what a range allows. At least one of its ends must be set.
func rangeText(bounds dataset.RangeSpec) string {
	switch {
	case bounds.Max == nil:
		return fmt.Sprintf("no less than %s", humanize.Commaf(*bounds.Min))
	case bounds.Min == nil:
		return fmt.Sprintf("no more than %s", humanize.Commaf(*bounds.Max))
	}
	return fmt.Sprintf("%s to %s", humanize.Commaf(*bounds.Min), humanize.Commaf(*bounds.Max))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// percent formats a share for people.
func percent(value float64) string { return sweep.Percent(value) }
