package cell

import (
	"regexp"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // an image has no other files
)

// DayOrder is the order of the numbers of a date that does not begin with the year.
type DayOrder uint8

// The orders of a date's numbers.
const (
	YearFirst  DayOrder = iota // only dates that can be read in one way
	DayFirst                   // 30.09.1990
	MonthFirst                 // 9/30/1990
)

// ParseTime reads a date, or a date and a time, that can be read in one way only: 2017-07-02, 2017/7/2 10:03,
// 2017-07-02T10:03:20.5Z, 20170702T100320+0200, July 2, 2017 10:03 PM, 2 Jul 2017, 02/Jul/2017:10:03:20, Sun, 02 Jul
// 2017 10:03:20 GMT. Month, day and hour may have one digit. A zone may follow the time: Z, UTC, GMT, +02:00,
// Europe/Berlin, +02:00[Europe/Berlin]; the default is UTC. The result is the seconds since 1970 and the nanoseconds
// beyond them. ok is false for anything else, such as a date that does not exist.
func ParseTime(s string) (sec, nsec int64, ok bool) { return parseTime(s, YearFirst) }

// parseTime is ParseTime for a column whose dates may also be in the given order, such as 30.09.1990.
func parseTime(s string, order DayOrder) (sec, nsec int64, ok bool) {
	// The methods of p take what they read off p.s. One that does not find it clears p.ok, which is checked at the end.
	p := timeText{s: Trim(s), ok: true}
	year, month, day := p.parseDate(order)
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if _, m, d := date.Date(); !p.ok || int(m) != month || d != day { // 31 April would be 1 May
		return 0, 0, false
	}
	local := date.Unix()
	if p.s == "" {
		return local, 0, true
	}

	// Between date and time is a T, a space (after a month's name perhaps with a comma), or a colon as in log files.
	if !p.skip('T') && !p.skip('t') && !(p.named && p.skip(':')) {
		if p.named {
			p.skip(',')
		}
		p.expect(' ')
	}

	// The time, with or without seconds and a fraction.
	hour := p.parseUpTo2()
	if !p.compact {
		p.expect(':')
	}
	minute, second := p.parseDigits(2), 0
	if p.compact || p.skip(':') {
		second = p.parseDigits(2)
		if p.skip('.') || p.skip(',') {
			nsec = p.parseFraction()
		}
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, 0, false
	}
	local += int64(p.readAMPM(hour)*3600 + minute*60 + second)
	offset := p.readZone(local)
	return local - int64(offset), nsec, p.ok && p.s == ""
}

// parseDate reads a date with the year first, with the month by name, or in the given order. p.ok is false afterwards
// if it is none of these. The caller checks that there is such a day.
func (p *timeText) parseDate(order DayOrder) (year, month, day int) {
	// What comes next tells the kind of date: how many digits, and the character after them.
	digits := 0
	for digits < len(p.s) && isDigit(p.s[digits]) {
		digits++
	}
	next := byte(0)
	if digits < len(p.s) {
		next = p.s[digits]
	}
	switch {
	case digits == 4 && (next == '-' || next == '/'):
		year = p.parseDigits(4)
		p.skip(next)
		month = p.parseUpTo2()
		p.expect(next)
		day = p.parseUpTo2()
	case digits == 8 && (next == 'T' || next == 't'):
		p.compact = true
		year, month, day = p.parseDigits(4), p.parseDigits(2), p.parseDigits(2)
	case digits == 0: // a month's name, or a weekday's
		day, month = p.parseMonthFirst()
		p.skip(',')
		p.expect(' ')
		year = p.parseDigits(4)
	case digits <= 2 && strings.IndexByte("/.- ", next) >= 0 && digits+1 < len(p.s):
		// Day, month and year, or month, day and year. Without a month's name, only a given order tells which, and a
		// space is no separator. By the condition above, there is a character after the first separator.
		day = p.parseUpTo2()
		p.skip(next)
		p.named = !isDigit(p.s[0])
		if p.named {
			month = p.parseMonth()
		} else {
			month = p.parseUpTo2()
			if order == MonthFirst {
				day, month = month, day
			}
		}
		p.expect(next)
		year = p.parseDigits(4)
		p.ok = p.ok && (p.named || order != YearFirst && next != ' ')
	default:
		p.ok = false
	}
	return year, month, day
}

// parseMonthFirst reads July 2. After the name of a day of the week, which need not be the right one, it also reads 2
// July.
func (p *timeText) parseMonthFirst() (day, month int) {
	p.named = true
	if weekday := p.readLetters(); p.findName(weekday, weekdays) > 0 {
		p.skip(',')
		p.expect(' ')
		if p.s != "" && isDigit(p.s[0]) {
			day = p.parseUpTo2()
			p.expect(' ')
			return day, p.parseMonth()
		}
	} else {
		p.s = p.whole // it is the month
	}
	month = p.parseMonth()
	p.expect(' ')
	return p.parseUpTo2(), month
}

const (
	months   = "january february march april may june july august september october november december "
	weekdays = "monday tuesday wednesday thursday friday saturday sunday "
)

// readLetters reads ASCII letters, perhaps none, and sets p.whole to the text with them, so that they can be put back.
func (p *timeText) readLetters() string {
	n := 0
	for n < len(p.s) && (p.s[n]|0x20)-'a' < 26 {
		n++
	}
	word := p.s[:n]
	p.whole, p.s = p.s, p.s[n:]
	return word
}

// parseMonth reads a month's name, whole or in three letters with or without a point, and returns its number.
func (p *timeText) parseMonth() int {
	month := p.findName(p.readLetters(), months)
	p.ok = p.ok && month > 0
	p.skip('.') // of Jul.
	return month
}

// findName returns the place, from 1, of a word or of its first three letters in a list of lower-case words; 0 if the
// list does not have it. The case of the word does not matter.
func (p *timeText) findName(word, list string) int {
	for place := 1; list != "" && len(word) >= 3; place++ {
		name, rest, _ := strings.Cut(list, " ")
		if strings.EqualFold(word, name) || strings.EqualFold(word, name[:3]) {
			return place
		}
		list = rest
	}
	return 0
}

// readAMPM reads AM or PM in any case, perhaps after a space, and returns the hour of the day that is meant by hour.
// With one of them, hour must be 1 to 12, and 12 AM is midnight. If neither is next, it reads nothing and returns hour.
func (p *timeText) readAMPM(hour int) int {
	s := strings.TrimPrefix(p.s, " ")
	if len(s) < 2 || s[1]|0x20 != 'm' || s[0]|0x20 != 'a' && s[0]|0x20 != 'p' || len(s) > 2 && s[2] != ' ' {
		return hour
	}
	p.s, p.ok = s[2:], p.ok && hour >= 1 && hour <= 12
	hour %= 12
	if s[0]|0x20 == 'p' {
		hour += 12
	}
	return hour
}

// timeText is a text that is being read as a time. Its methods take what they read off s and set ok to false if they do
// not find it.
type timeText struct {
	s       string // what has not been read yet
	whole   string // s before the last readLetters
	ok      bool
	compact bool // digits without marks between them
	named   bool // the month has a name
}

// parseDigits reads exactly n digits.
func (p *timeText) parseDigits(n int) int {
	if len(p.s) < n {
		p.ok = false
		return 0
	}

	v := 0
	for i := range n {
		if !isDigit(p.s[i]) {
			p.ok = false
			return 0
		}
		v = v*10 + int(p.s[i]-'0')
	}

	p.s = p.s[n:]
	return v
}

// parseUpTo2 reads one or two digits: many tables write months, days and hours without a leading zero.
func (p *timeText) parseUpTo2() int {
	if len(p.s) > 1 && isDigit(p.s[1]) {
		return p.parseDigits(2)
	}
	return p.parseDigits(1)
}

// skip reads the character c if it is next, and reports whether it was.
func (p *timeText) skip(c byte) bool {
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

// expect reads the character c, which must be next.
func (p *timeText) expect(c byte) {
	if !p.skip(c) {
		p.ok = false
	}
}

// parseFraction reads the digits of a fraction of a second, at least one, and returns nanoseconds. Digits after the
// ninth are ignored.
func (p *timeText) parseFraction() int64 {
	v, n := int64(0), 0
	for ; p.s != "" && isDigit(p.s[0]); p.s = p.s[1:] {
		if n < 9 {
			v = v*10 + int64(p.s[0]-'0')
		}
		n++
	}

	if n == 0 {
		p.ok = false
	}

	for ; n < 9; n++ {
		v *= 10
	}

	return v
}

// readZone reads a zone, if there is one, and returns its offset in seconds east of UTC at the given local time.
func (p *timeText) readZone(local int64) (offset int) {
	p.s = Trim(p.s)
	switch {
	case p.s == "":
		return 0
	case p.skip('Z'), p.skip('z'):
	case strings.HasPrefix(p.s, "UTC"), strings.HasPrefix(p.s, "GMT"):
		p.s = p.s[3:]
	case p.s[0] == '+', p.s[0] == '-':
		offset = p.parseOffset()
	default:
		return p.readRegion(local)
	}
	if strings.HasPrefix(p.s, "[") && strings.HasSuffix(p.s, "]") { // the region's name, which adds nothing
		p.s = ""
	}
	return offset
}

// parseOffset reads +hh, +hhmm or +hh:mm, or the same with -, and returns seconds east of UTC. It accepts up to 18
// hours (and 59 minutes), though no zone is farther than 14 from UTC.
func (p *timeText) parseOffset() int {
	sign := 1
	if p.s[0] == '-' {
		sign = -1
	}
	p.s = p.s[1:]
	hours, minutes := p.parseDigits(2), 0
	if p.s != "" && p.s[0] != '[' {
		p.skip(':')
		minutes = p.parseDigits(2)
	}
	p.ok = p.ok && hours <= 18 && minutes <= 59
	return sign * (hours*3600 + minutes*60)
}

// zones has the regions that were met, by name. There are no more than exist, since a name is written in one way.
var zones sync.Map

// regionName matches names such as Europe/Berlin. It excludes abbreviations such as CET, which mean several things.
var regionName = regexp.MustCompile(`^[A-Z][\w+-]*(/[\w+-]+)+$`)

// readRegion reads the name of a region, such as Europe/Berlin, and returns its offset in seconds east of UTC at the
// given local time. It first takes the local time for UTC to find an offset, and then corrects the time by that to find
// the right one; where clocks are changed, this second result decides.
func (p *timeText) readRegion(local int64) int {
	name := p.s
	p.s = ""
	known, _ := zones.Load(name)
	if known == nil && p.ok && regionName.MatchString(name) {
		if zone, err := time.LoadLocation(name); err == nil {
			known, _ = zones.LoadOrStore(name, zone)
		}
	}
	p.ok = p.ok && known != nil
	if !p.ok {
		return 0
	}
	offset := 0
	for range 2 {
		_, offset = time.Unix(local-int64(offset), 0).In(known.(*time.Location)).Zone()
	}
	return offset
}
