package draft

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestGuessesOfColumns: what is guessed is said with its price, and can be undone.
func TestGuessesOfColumns(t *testing.T) {
	const header = "a,b,Age,userId,ga_id,d,price,y"
	row := func(i int) string {
		return fmt.Sprintf("2024-10-%02d 00:00:00 UTC,2025/01/%d,%d,%d,%d.25,%02d/01/2004,\"%d,5\",%d", i%28+1,
			i%28+1, 18+i%60, i%40, i%40, i%12+1, i%90, i%2)
	}
	users := func(i int) string { return strings.Join(strings.Split(row(i), ",")[2:], ",") }
	asText := Request{Categorical: []string{"d"}}
	for name, tc := range map[string]struct {
		ask        Request
		times      bool
		want, fail string
	}{
		"two times": {times: true, want: "a, b: by which are the rows split? Name it with --time"},
		"no time": {times: true, ask: Request{Time: "Age"},
			fail: "numbers from 18 to 77, which are no times"},
		"open order": {
			fail: `"01/01/2004" are dates with the day first or dates with the month first, which no value tells`},
		"open order of --time": {ask: Request{Time: "d"}, fail: "say dmy or mdy under format: (--format d=dmy)"},
		"order":                {ask: Request{DateFormat: "dmy"}, want: "format: {\"d\":\"dmy\"}\n"},
		"time of an order":     {ask: Request{DateFormat: "mdy"}, want: "by time (d)"},
		"no order":             {ask: Request{DateFormat: "ymd"}, fail: "use dmy, as in 31.12.2026"},
		"key": {ask: asText,
			want: "and it is no feature, which is right if later rows have others; --split random"},
		"no key":              {ask: Request{Parts: "random"}, want: "at random, as asked for"},
		"no key, by its kind": {ask: Request{Categorical: []string{"userId,d"}}, want: "at random, since"},
		"ids with points":     {ask: Request{Parts: "random"}, want: "ga_id: integers named like IDs"},
		"random and a key":    {ask: Request{Parts: "random", Key: "userId"}, fail: "rows are split by one of them"},
		"key and categorical": {ask: Request{Key: "userId", Categorical: []string{"userId"}},
			fail: "--key userId: the column is then no feature; leave it out of --categorical"},
		"drop and categorical": {ask: Request{Parts: "random", Drop: []string{"Age"}, Categorical: []string{"Age"}},
			fail: "--drop Age: leave the column out of --categorical"},
		"missing and formats": {ask: Request{Parts: "random", Missing: []string{"-999"},
			Format: []string{"price=decimal_comma"}},
			want: "\"-\", \"-999\"]\nformat: {\"price\":\"decimal_comma\"}\n"},
		"no format":      {ask: Request{Format: []string{"price"}}, fail: "write COLUMN=FORMAT"},
		"no such column": {ask: Request{Format: []string{"prize=mdy"}}, fail: "--format"},
		"no such format": {ask: Request{Format: []string{"price=euro"}}, fail: "use number, decimal_comma"},
	} {
		t.Run(name, func(t *testing.T) {
			head, rows := header[4:], users
			if tc.times {
				head, rows = header, row
			}
			tc.ask.Label, tc.ask.Trials = "y", 2
			tc.ask.Sources = []string{written(t, head, 1500, rows)}
			d, err := Make(context.Background(), tc.ask)
			if tc.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Errorf("got %v, expected ... %s ...", err, tc.fail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if said := fmt.Sprint(d.Found) + string(d.Dataset); !strings.Contains(said, tc.want) {
				t.Errorf("said is %s\nexpected ... %s ...", said, tc.want)
			}
		})
	}
}

// TestLabelsWithMarks: numbers with marks are numbers as a label, too, and what they are is asked for.
func TestLabelsWithMarks(t *testing.T) {
	for text, want := range map[string]string{"$%d.50": "a number is predicted", "%d,5": "a number is predicted",
		"1%02d,125": "numbers or numbers with a decimal comma, which no value tells"} {
		ask := Request{Label: "y", Trials: 2, Sources: []string{written(t, "x,y", 400, func(i int) string {
			return fmt.Sprintf("%d,%q", i%50, fmt.Sprintf(text, i%90))
		})}}
		d, err := Make(context.Background(), ask)
		if err == nil {
			err = fmt.Errorf("%v", d.Found)
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected ... %s ...", text, err, want)
		}
	}
}

// TestRowsOfTotals: a class of one row is a mistake of the table.
func TestRowsOfTotals(t *testing.T) {
	ask := Request{Label: "y", Trials: 2, Sources: []string{written(t, "x,y", 301, func(i int) string {
		if i == 300 {
			return "4711,TOTAL"
		}
		return fmt.Sprintf("%d,%d", i, i%2)
	})}}
	_, err := Make(context.Background(), ask)
	if want := "TOTAL is the label of one row"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, expected ... %s ...", err, want)
	}
	many := Request{Label: "y", Trials: 2, Sources: []string{written(t, "x,y", 340, func(i int) string {
		if i >= 300 {
			return fmt.Sprintf("%d,once%d", i, i)
		}
		return fmt.Sprintf("%d,c%d", i, i%3)
	})}}
	_, err = Make(context.Background(), many)
	if want := "40 values are the label of one row each"; err == nil ||
		!strings.Contains(err.Error(), want) || strings.Count(err.Error(), "--missing once") != 40 {
		t.Errorf("got %v, expected ... %s ... and --missing for each of 40", err, want)
	}
	ask.Missing = []string{"TOTAL"}
	d, err := Make(context.Background(), ask)
	if err != nil || !strings.Contains(string(d.Sweep), "objective: binary") {
		t.Errorf("with TOTAL as a missing label: %v", err)
	}
}
