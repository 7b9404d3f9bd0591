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
// 2017 10:03:20 GMT. Month, day and hour may have one digit. Behind the time may be a zone: Z, UTC, GMT, +02:00,
// Europe/Berlin, +02:00[Europe/Berlin]; the default is UTC. It returns the seconds since 1970 and the nanoseconds
// beyond them.
func ParseTime(s string) (sec, nsec int64, ok bool) { return parseTime(s, YearFirst) }

// parseTime reads a date, with or without a time of day and a zone (default UTC), as seconds since 1970 and
// nanoseconds. ok is false if anything in s is left over, missing or out of range.
func parseTime(s string, order DayOrder) (sec, nsec int64, ok bool) {
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

	if !p.skip('T') && !p.skip('t') && !(p.named && p.skip(':')) {
		if p.named {
			p.skip(',')
		}
		p.expect(' ')
	}
	hour := p.upTo2()
	if !p.compact {
		p.expect(':')
	}
	minute, second := p.parseDigits(2), 0
	if p.compact || p.skip(':') {
		second = p.parseDigits(2)
		if p.skip('.') || p.skip(',') {
			nsec = p.fraction()
		}
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, 0, false
	}
	local += int64(p.readAMPM(hour)*3600 + minute*60 + second)
	offset := p.readZone(local)
	return local - int64(offset), nsec, p.ok && p.s == ""
}

// parseDate reads a date with the year first, the month by name, or in the given order; p is not ok if it is none of
// these.
func (p *timeText) parseDate(order DayOrder) (year, month, day int) {
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
		month = p.upTo2()
		p.expect(next)
		day = p.upTo2()
	case digits == 8 && (next == 'T' || next == 't'):
		p.compact = true
		year, month, day = p.parseDigits(4), p.parseDigits(2), p.parseDigits(2)
	case digits == 0:
		day, month = p.monthFirst()
		p.skip(',')
		p.expect(' ')
		year = p.parseDigits(4)
	case digits <= 2 && strings.IndexByte("/.- ", next) >= 0 && digits+1 < len(p.s):
		day = p.upTo2()
		p.skip(next)
		if p.named = !isDigit(p.s[0]); p.named {
			month = p.month()
		} else if month = p.upTo2(); order == MonthFirst {
			day, month = month, day
		}
		p.expect(next)
		year = p.parseDigits(4)
		p.ok = p.ok && (p.named || order != YearFirst && next != ' ')
	default:
		p.ok = false
	}
	return year, month, day
}

// monthFirst reads July 2 and, behind the name of a day of the week, also 2 July.
func (p *timeText) monthFirst() (day, month int) {
	p.named = true
	if weekday := p.readLetters(); len(weekday) >= 3 && p.nameOf(weekday, weekdays) > 0 {
		p.skip(',')
		p.expect(' ')
		if p.s != "" && isDigit(p.s[0]) {
			day = p.upTo2()
			p.expect(' ')
			return day, p.month()
		}
	} else {
		p.s = p.whole
	}
	month = p.month()
	p.expect(' ')
	return p.upTo2(), month
}

const (
	months   = "january february march april may june july august september october november december "
	weekdays = "monday tuesday wednesday thursday friday saturday sunday "
)

// readLetters reads letters; whole is then where they began.
func (p *timeText) readLetters() string {
	n := 0
	for n < len(p.s) && (p.s[n]|0x20)-'a' < 26 {
		n++
	}
	word := p.s[:n]
	p.whole, p.s = p.s, p.s[n:]
	return word
}

func (p *timeText) month() int {
	month := p.nameOf(p.readLetters(), months)
	p.ok = p.ok && month > 0
	p.skip('.') // of Jul.
	return month
}

// nameOf is the place of a word, or of its first three letters, in a list of lower-case words, from 1; 0 for none.
func (p *timeText) nameOf(word, list string) int {
	for place := 1; list != "" && len(word) >= 3; place++ {
		name, rest, _ := strings.Cut(list, " ")
		if strings.EqualFold(word, name) || strings.EqualFold(word, name[:3]) {
			return place
		}
		list = rest
	}
	return 0
}

// readAMPM reads AM or PM, if there is one, and returns the hour of the day.
func (p *timeText) readAMPM(hour int) int {
	s := strings.TrimPrefix(p.s, " ")
	if len(s) < 2 || s[1]|0x20 != 'm' || s[0]|0x20 != 'a' && s[0]|0x20 != 'p' || len(s) > 2 && s[2] != ' ' {
		return hour
	}
	p.s, p.ok = s[2:], p.ok && hour >= 1 && hour <= 12
	if hour %= 12; s[0]|0x20 == 'p' {
		hour += 12
	}
	return hour
}

// timeText is the unread rest of a text.
type timeText struct {
	s       string
	whole   string // before the last word
	ok      bool
	compact bool // digits without marks between them
	named   bool // the month has a name
}

// parseDigits takes exactly n digits; p is not ok if there are fewer.
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

// upTo2 reads one or two digits: many tables write months, days and hours without the leading zero.
func (p *timeText) upTo2() int {
	if len(p.s) > 1 && isDigit(p.s[1]) {
		return p.parseDigits(2)
	}
	return p.parseDigits(1)
}

func (p *timeText) skip(c byte) bool {
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *timeText) expect(c byte) {
	if !p.skip(c) {
		p.ok = false
	}
}

// fraction reads one to nine digits of a second as nanoseconds; further digits are ignored.
func (p *timeText) fraction() int64 {
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

// readZone reads a zone, if there is one, and returns the seconds east of UTC of a local time.
func (p *timeText) readZone(local int64) (offset int) {
	p.s = Trim(p.s)
	switch {
	case p.s == "":
		return 0
	case p.skip('Z'), p.skip('z'):
	case strings.HasPrefix(p.s, "UTC"), strings.HasPrefix(p.s, "GMT"):
		p.s = p.s[3:]
	case p.s[0] == '+', p.s[0] == '-':
		offset = p.offset()
	default:
		return p.readRegion(local)
	}
	if strings.HasPrefix(p.s, "[") && strings.HasSuffix(p.s, "]") { // the zone's name, beside what it was
		p.s = ""
	}
	return offset
}

// offset reads +hh, +hhmm or +hh:mm.
func (p *timeText) offset() int {
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

// zones are the regions that were met, by name: no more than there are, since a name is written in one way.
var zones sync.Map
var regionName = regexp.MustCompile(`^[A-Z][\w+-]*(/[\w+-]+)+$`) // no CET, which is many things

// readRegion reads a name such as Europe/Berlin. Where clocks are put back, or forward, its second lookup decides.
func (p *timeText) readRegion(local int64) int {
	name := p.s
	p.s = ""
	known, _ := zones.Load(name)
	if known == nil && p.ok && regionName.MatchString(name) {
		if zone, err := time.LoadLocation(name); err == nil {
			known, _ = zones.LoadOrStore(name, zone)
		}
	}
	if p.ok = p.ok && known != nil; !p.ok {
		return 0
	}
	offset := 0
	for range 2 {
		_, offset = time.Unix(local-int64(offset), 0).In(known.(*time.Location)).Zone()
	}
	return offset
}
