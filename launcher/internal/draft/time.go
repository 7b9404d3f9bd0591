package draft

import (
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/problem"
)

// byTime returns the column with the time of each row: the one asked for, else the only one that is named like it, else
// the only one that holds times. It returns nil if there is none; if there are several, they are named. If rows are
// kept together by a key or a group, no time is looked for.
//
// Unless it was asked for, the column must have a time in every row and at least minTimes different ones; it must not
// be the label, dropped, categorical or named like a property of the row's subject (ofSubject). If there is none, but a
// column of dates whose order of day and month is open, that is an error: only the caller can say how to read it.
func (s *seen) byTime(q Request) (c *column, several []string, err error) {
	if q.Time != "" {
		return s.column(q.Time), nil, s.checkTime(q.Time)
	}
	if q.Key != "" || q.Group != "" {
		return nil, nil, nil
	}

	// times are the columns that hold times, named those of them with the name of a row's time. open is the error about
	// a column of dates whose order of day and month is not known.
	var times, named []*column
	open := ""
	for _, c := range s.columns {
		if c.Name == q.Label || c.Unreadable != "" || ofSubject(c.Name) || slices.Contains(q.Drop, c.Name) {
			continue
		}
		if text := s.reading.Open[c.Name]; strings.Contains(text, dataset.FormatWords[dataset.DayFirst]) {
			open = c.Name + ": " + text + " or --date-format; --split random splits the rows by none"
		}
		if c.isTime() && c.missing == 0 && c.distinct.n() >= minTimes && !slices.Contains(q.Categorical, c.Name) {
			times, several = append(times, c), append(several, c.Name)
			if namedTime(c.Name) {
				named = append(named, c)
			}
		}
	}
	if len(named) == 1 {
		return named[0], nil, nil
	}
	if len(times) == 1 {
		return times[0], nil, nil
	}
	if open != "" && len(several) == 0 {
		return nil, nil, problem.New(problem.Input, "%s", open)
	}
	return nil, several, nil
}

// checkTime returns an error if a column that was asked for as the time does not hold times. Numbers are accepted if
// they may be times, or if the column is named like a time.
func (s *seen) checkTime(name string) error {
	c := s.column(name)
	switch {
	case c.isTime() || c.present == 0: // that no row has a time, chooseSplit reports
		return nil
	case s.reading.Open[name] != "":
		return problem.New(problem.Input, "--time %s: %s", name, s.reading.Open[name])
	case c.texts:
		return problem.New(problem.Input, "--time %s: the column holds texts that are no times", name)
	}
	if c.mayCountTime() {
		return nil
	}
	lower := strings.ToLower(name)
	if slices.ContainsFunc(timeWords, func(w string) bool { return strings.Contains(lower, w) }) {
		return nil
	}
	return problem.New(problem.Input, "--time %s: the column holds numbers from %v to %v, which are no times; "+
		"to split by numbers, write --save-specs and edit split: in the dataset.yaml", name, c.lo, c.hi)
}

// mayCountTime reports whether the column holds numbers that may be times, by their range.
func (c *column) mayCountTime() bool {
	return !c.texts && c.present > 0 && slices.ContainsFunc(timeRanges, func(of [2]float64) bool {
		return c.lo >= of[0] && c.hi <= of[1]
	})
}

// timeRanges are ranges of numbers that may be times: seconds, milliseconds, microseconds or nanoseconds since 1970, of
// times after 1980; years; months such as 202612; and days such as 20261231. timeWords are parts of the names of
// columns that count time in some other way.
var (
	timeRanges = [][2]float64{{3.1e8, 5e9}, {3.1e11, 5e12}, {3.1e14, 5e15}, {3.1e17, 5e18}, {1900, 2200},
		{190001, 220012}, {19000101, 22001231}}
	timeWords = []string{"time", "date", "day", "hour", "minute", "second", "week", "month", "year", "step", "epoch",
		"ts", "when", "night", "period", "quarter", "seq", "order"}
)

// namedTime reports whether a column is named like the time of its row.
func namedTime(name string) bool {
	return slices.Contains([]string{"ts", "time", "timestamp", "datetime", "date_time", "date", "day", "event_time",
		"event_date", "created_at", "created", "occurred_at"}, strings.ToLower(name))
}

// namedPeriod reports whether a column is named like a year or a numbered date, which may be the time of its row.
func namedPeriod(name string) bool {
	name = strings.ToLower(name)
	named := name == "year" || name == "yr" || strings.HasSuffix(name, "_year") || strings.HasSuffix(name, "_date")
	return named && !ofSubject(name)
}

// ofSubject reports whether a column is named like a time that is a property of what the row is about, such as a
// birthday, and not the time of the row.
func ofSubject(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"birth", "dob", "signup", "sign_up", "registered", "joined", "expir", "due_"},
		func(w string) bool { return strings.Contains(name, w) })
}

// checkSplit returns an error if a column that was asked for is not there or has two roles, or if there is more than
// one way to split. random says that --split random was given; otherwise --split names a column, q.Parts, which has the
// split of each row.
func (s *seen) checkSplit(q Request, random bool) error {
	for _, role := range [][2]string{{"--label", q.Label}, {"--time", q.Time}, {"--key", q.Key}, {"--weight", q.Weight},
		{"--split", q.Parts}, {"--group", q.Group}} {
		flag, name := role[0], role[1]
		switch {
		case name == "":
		case s.column(name) == nil || flag != "--label" && name == q.Label:
			return problem.New(problem.Input, "%s %s: no such column besides the label%s", flag, name,
				s.suggestColumn(name, q.Label))
		case slices.Contains(q.Categorical, name):
			return problem.New(problem.Usage, "%s %s: the column is then no feature; leave it out of --categorical",
				flag, name)
		}
	}
	for _, name := range q.Drop {
		if slices.Contains(q.Categorical, name) {
			return problem.New(problem.Usage, "--drop %s: leave the column out of --categorical", name)
		}
	}
	both := q.Time != "" && q.Key != ""
	besideSplit := (random || q.Parts != "") && q.Time+q.Key != ""
	if both || besideSplit || random && q.Group != "" {
		return problem.New(problem.Usage, "give --time, --key or --split: rows are split by one of them")
	}
	return s.checkOrder(q)
}
