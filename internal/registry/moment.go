package registry

import (
	"time"

	"coppice/internal/problem"
)

// moments are the accepted forms of a time; without a zone it is UTC.
var moments = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime,
	"2006-01-02 15:04"}

// ParseMoment parses a time of a history, which flags call --at. A day alone means its end.
func ParseMoment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range moments {
		if t, err := time.Parse(layout, text); err == nil {
			if t.Nanosecond() == 0 {
				t = t.Add(time.Second - time.Nanosecond) // all of that second, as a history shows no smaller unit
			}
			return t.UTC(), nil
		}
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t.AddDate(0, 0, 1).Add(-time.Nanosecond), nil
	}
	return time.Time{}, problem.New(problem.Usage, "--at %q: give a time such as 2026-11-18T14:00 (UTC), "+
		"2026-11-18T14:00:00+01:00, or a day", text)
}
