package dataset_test

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
)

func TestMaturityOfLabels(t *testing.T) {
	byTime := "split: {by: time, column: ts, train: 0.8, valid: 0.2}\n"
	for name, tc := range map[string]struct {
		label, rest, at string
		delay           time.Duration
		want            string
	}{
		"a bare name":       {"y", byTime, "", 0, ""},
		"the split's time":  {"{column: y, matures: 24h}", byTime, "ts", 24 * time.Hour, ""},
		"a time of its own": {"{column: y, matures: 24h, at: seen}", byTime, "seen", 0, ""},
		"a longer delay": {"{column: y, matures: 24h}", byTime + "encodings: {order: {delay: 48h}}\n", "ts",
			48 * time.Hour, ""},
		"a shorter delay": {"{column: y, matures: 24h}", byTime + "encodings: {order: {delay: 1h}}\n", "", 0,
			"statistics would see labels that were not yet known"},
		"no time":            {"{column: y, matures: 24h}", "", "", 0, "at is missing"},
		"nothing":            {"{column: y, matures: 0s, at: ts}", "", "", 0, "matures is 0s"},
		"before it was":      {"{column: y, matures: -1h, at: ts}", "", "", 0, "matures is -1h"},
		"no duration":        {"{column: y, matures: 1d, at: ts}", "", "", 0, "is not a duration such as 24h"},
		"at without matures": {"{column: y, at: ts}", "", "", 0, "it has no effect without matures"},
		"as_of without matures": {"{column: y, as_of: 2026-11-20T03:00:00Z}", "", "", 0,
			"it has no effect without matures"},
		"the label itself": {"{column: y, matures: 24h, at: y}", "", "", 0, "cannot be the rows' time"},
		"a time without a zone": {"{column: y, matures: 24h, at: ts, as_of: 2026-11-20}", "", "", 0,
			"use a time with a zone"},
		"a time with a zone": {"{column: y, matures: 24h, at: ts, as_of: 2026-11-20T03:00:00+01:00}", "", "ts", 0, ""},
	} {
		s, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\nlabel: "+tc.label+"\n"+tc.rest))
		switch {
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)), tc.want == "" && err != nil:
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		case tc.want == "" && (s.Label.At != tc.at || time.Duration(s.Encodings.Order.Delay) != tc.delay ||
			s.Label.Column != "y"):
			t.Errorf("%s: at %q with a delay of %v; want %q and %v", name, s.Label.At,
				time.Duration(s.Encodings.Order.Delay), tc.at, tc.delay)
		}
	}
}
