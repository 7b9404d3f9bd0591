package cell

import "time"

// ParseTime reads an ISO 8601 date, or date and time: 2017-07-02, 2017-07-02 10:03, 2017-07-02T10:03:20.5Z,
// 2017-07-02T10:03:20+02:00. Month, day and hour may have one digit. The default zone is UTC. It returns the seconds
// since 1970 and the nanoseconds beyond them.
func ParseTime(s string) (sec, nsec int64, ok bool) {
	p := timeText{s: Trim(s), ok: true}

	year := p.digits(4)
	p.expect('-')
	month := p.upTo2()
	p.expect('-')
	day := p.upTo2()
	if !p.ok || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, 0, false
	}

	var hour, minute, second, offset int
	if p.s != "" {
		if !p.skip('T') && !p.skip('t') {
			p.expect(' ')
		}
		hour = p.upTo2()
		p.expect(':')
		minute = p.digits(2)
		if p.skip(':') {
			second = p.digits(2)
			if p.skip('.') || p.skip(',') {
				nsec = p.fraction()
			}
		}
		offset = p.zone()
	}

	if !p.ok || p.s != "" || hour > 23 || minute > 59 || second > 59 {
		return 0, 0, false
	}

	return daysSince1970(year, month, day)*86400 + int64(hour*3600+minute*60+second-offset), nsec, true
}

// timeText is the unread rest of a text.
type timeText struct {
	s  string
	ok bool
}

func (p *timeText) digits(n int) int {
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
		return p.digits(2)
	}
	return p.digits(1)
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

// zone reads nothing, Z, +hh, +hhmm or +hh:mm, as seconds east of UTC.
func (p *timeText) zone() int {
	p.s = Trim(p.s)
	if p.s == "" || p.skip('Z') || p.skip('z') {
		return 0
	}

	sign := 1
	if p.skip('-') {
		sign = -1
	} else {
		p.expect('+')
	}

	hours, minutes := p.digits(2), 0
	if p.s != "" {
		p.skip(':')
		minutes = p.digits(2)
	}

	if hours > 18 || minutes > 59 {
		p.ok = false
	}

	return sign * (hours*3600 + minutes*60)
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

func daysSince1970(year, month, day int) int64 {
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix() / 86400
}
