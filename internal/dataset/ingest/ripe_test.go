package ingest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// lateTable is CSV of a row an hour, in the order of time, from 2026-11-01 on; of rows from `from` on the label is
// still 0.
func lateTable(rows, from int) string {
	var b strings.Builder
	b.WriteString("y,site,x,ts\n")
	for i := range rows {
		y := 0
		if i < from && i%3 == 0 {
			y = 1
		}
		at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Hour)
		fmt.Fprintf(&b, "%d,s%d,%d,%s\n", y, i%40, i*7919%101, at.Format(time.RFC3339))
	}
	return b.String()
}

// TestUnripeRowsAreLeftOut: what is staged is what would be of a table that ends where labels are final, to the bit: by
// whatever the rows are split, and with statistics that see no label which was not final then.
func TestUnripeRowsAreLeftOut(t *testing.T) {
	const rows, late = 3000, 24
	for name, tc := range map[string]struct{ label, rest, delayed string }{
		"by time": {"{column: y, matures: 24h}", "split: {by: time, column: ts, train: 0.8, valid: 0.2}\n",
			"encodings: {order: {delay: 24h}}\n"},
		"by hash": {"{column: y, matures: 24h, at: ts}",
			"drop: [ts]\nsplit: {by: hash, key: site, train: 0.8, valid: 0.2}\n", ""},
		"stated": {"{column: y, matures: 2h, at: ts, as_of: 2026-03-05T21:00:00Z}",
			"drop: [ts]\nsplit: {by: hash, key: site, train: 0.8, valid: 0.2}\n", ""},
		"in an order": {"{column: y, matures: 24h, at: ts}",
			"split: {by: hash, key: x, train: 0.8, valid: 0.2}\nencodings: {order: {column: ts}, columns: {site: " +
				"[rate]}}\n", "delay"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "stated" { // 2 hours before it is where 24 hours before the newest row is
				end := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add((rows - 1 - late + 2) * time.Hour)
				tc.label = strings.Replace(tc.label, "2026-03-05T21:00:00Z", end.Format(time.RFC3339), 1)
			}
			all := mustStage(t, "label: "+tc.label+"\n"+tc.rest, lateTable(rows, rows-late))
			plain := tc.rest + tc.delayed
			if tc.delayed == "delay" {
				plain = strings.Replace(tc.rest, "column: ts}", "column: ts, delay: 24h}", 1)
			}
			cut := mustStage(t, "label: y\n"+plain, lateTable(rows-late, rows))

			if all.Manifest.Version != cut.Manifest.Version {
				t.Errorf("version %s, of the table without the last %d rows %s", all.Manifest.Version, late,
					cut.Manifest.Version)
			}
			u := all.Manifest.About.Unripe
			newest := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add((rows - 1) * time.Hour)
			if u == nil || u.Rows != late || u.Column != "ts" || !u.Newest.Equal(newest) ||
				!u.Until.Equal(newest.Add(-late*time.Hour)) {
				t.Errorf("the manifest says %+v; want %d rows left out up to %s, the last %s before", u, late, newest,
					late*time.Hour)
			}
			if cut.Manifest.About.Unripe != nil {
				t.Errorf("without matures it says %+v", cut.Manifest.About.Unripe)
			}
			if n := all.report.Night; n.Table != rows-late || n.TimeColumn != "ts" && name != "by hash" &&
				name != "stated" {
				t.Errorf("the night has %d rows and times of %q", n.Table, n.TimeColumn)
			}
		})
	}
}

// TestUnripeDependsOnNoOrder: shuffled, the same rows are left out.
func TestUnripeDependsOnNoOrder(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(lateTable(1000, 990)), "\n")
	body := lines[1:]
	for i := range body { // a fixed permutation: 7 and 1000 have no divisor in common
		if j := i * 7 % len(body); j > i {
			body[i], body[j] = body[j], body[i]
		}
	}
	s := mustStage(t, "label: {column: y, matures: 10h, at: ts}\ndrop: [ts]\n", strings.Join(lines, "\n")+"\n")
	if u := s.Manifest.About.Unripe; u.Rows != 10 {
		t.Errorf("%d rows left out, want 10", u.Rows)
	}
	if train, n := s.Manifest.Splits[0], s.Manifest.TableRows(dataset.TrainSplit); n != 990 ||
		train.LabelMean*990 != 330 {
		t.Errorf("%d rows with a mean label of %v, want 990 with 330 positive ones", n, train.LabelMean)
	}
}

func TestUnripeRefuses(t *testing.T) {
	text := lateTable(500, 490)
	for name, tc := range map[string]struct{ spec, csv, want string }{
		"a time is missing": {"label: {column: y, matures: 10h, at: ts}\n", text + "1,s1,3,\n",
			"it is not known whether the row's label is final: its time is missing"},
		"numbers": {"label: {column: y, matures: 10h, at: x}\n", text, `is not a time`},
		"none is ripe": {"label: {column: y, matures: 1000h, at: ts}\n", text,
			"no label is final: no row is as old as label.matures, 1000h"},
		"no such column": {"label: {column: y, matures: 10h, at: tz}\n", text, `column "tz" is not in`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryStage(t, tc.spec, []table.File{writeFile(t, "t.csv", tc.csv)}, Options{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestWrongNewestRowIsTold: one row of the future makes all others look old enough, and of few rows none is.
func TestWrongNewestRowIsTold(t *testing.T) {
	for _, at := range []string{"2027-01-30", "9999-12-31"} {
		future := mustStage(t, "label: {column: y, matures: 48h, at: ts}\ndrop: [ts]\n", lateTable(900, 850)+
			"0,s1,3,"+at+"T00:00:00Z\n")
		if w := future.Manifest.About.Warnings; len(w) == 0 || w[0].Code != WarnUnripe ||
			!strings.Contains(w[0].Text, "1 rows are within 48h0m0s of the newest one") {
			t.Errorf("with a row of %s: warnings %+v", at, w)
		}
	}
	if usual := mustStage(t, "label: {column: y, matures: 48h, at: ts}\ndrop: [ts]\n",
		lateTable(900, 850)); len(usual.Manifest.About.Warnings) > 0 &&
		usual.Manifest.About.Warnings[0].Code == WarnUnripe {
		t.Errorf("without: warnings %+v", usual.Manifest.About.Warnings)
	}

	// All that is ripe is of one moment, so that it does not say how many rows come in a time.
	var moment strings.Builder
	moment.WriteString("y,site,x,ts\n")
	for i := range 300 {
		fmt.Fprintf(&moment, "%d,s%d,%d,2026-11-01T00:00:00Z\n", i%3/2, i%40, i)
	}
	moment.WriteString("0,s1,3,2026-11-03T00:00:00Z\n")
	at := mustStage(t, "label: {column: y, matures: 48h, at: ts}\ndrop: [ts]\n", moment.String())
	for _, w := range at.Manifest.About.Warnings {
		if w.Code == WarnUnripe {
			t.Errorf("300 rows of one moment and one 48 hours later: %q; expected no warning, or one with a number",
				w.Text)
		}
	}

	s := mustStage(t, "label: {column: y, matures: 300h, at: ts}\ndrop: [ts]\n", lateTable(500, 500))
	if w := s.Manifest.About.Warnings; len(w) == 0 || w[0].Code != WarnUnripe ||
		!strings.Contains(w[0].Text, "only 200 of 500 rows") {
		t.Errorf("warnings %+v", w)
	}
}
