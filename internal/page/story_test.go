package page_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/page"
	"coppice/internal/sweep"
)

// values are a column of a page's data, by the trials' ranks.
func values(t *testing.T, text, column string) string {
	t.Helper()
	c, ok := dataOf(t, text).Columns[column]
	if !ok {
		t.Fatalf("the page has no column %s", column)
	}
	values, err := json.Marshal(c.V)
	if err != nil {
		t.Fatal(err)
	}
	return string(values)
}

// TestTimesAreExact: a table's times are seconds, not seven digits of them.
func TestTimesAreExact(t *testing.T) {
	s := sample(12)
	ended := dataOf(t, write(t, s)).Columns["ended"].V
	for _, r := range s.Trials {
		if !r.Ended.IsZero() && !slices.Contains(ended, any(float64(r.Ended.Unix()))) {
			t.Errorf("trial %d ended at %d, which the table does not have: %v", r.Number, r.Ended.Unix(), ended)
		}
	}
}

// TestWhyATrialWasTried: it is a column of its own, and only where something decided.
func TestWhyATrialWasTried(t *testing.T) {
	s := sample(4)
	const head = ">why it was tried<"
	if strings.Contains(write(t, s), head) {
		t.Error("where nothing decided there is a column of reasons to try")
	}
	s.Trials[1].Tried = "gp: expected improvement 0.2"
	if text := write(t, s); !strings.Contains(text, head) ||
		!strings.Contains(text, `<td class="r">gp: expected improvement 0.2</tr>`) ||
		!strings.Contains(text, `"tried"`) {
		t.Error("why trial 1 was tried is not on the board and in its table")
	}
}

// TestTooFewToTell: what importance says depends on how many trials have a score.
func TestTooFewToTell(t *testing.T) {
	if got := card(t, sample(12), "importance"); !strings.Contains(got, "24 are needed") {
		t.Errorf("of twelve trials importance says %q, expected how many it takes", got)
	}
}

// TestThePageSaysWhatPredicts: the final training's model, or why the judged one does.
func TestThePageSaysWhatPredicts(t *testing.T) {
	s := sample(1)
	s.Winner.Final = &sweep.FinalModel{Trial: 50, Registered: true, Reason: "trained on all 900 rows with 20 trees"}
	want := "The model that predicts is that of the final training, trial 50, trained on all 900 rows with 20 trees."
	if text := write(t, s); !strings.Contains(text, want) {
		t.Errorf("the page lacks %q", want)
	}
	s.Winner.Final = &sweep.FinalModel{Trial: 50, Reason: "the final training had not ended; the winner is registered"}
	want = "The final training, trial 50, was not used: the final training had not ended"
	if text := write(t, s); !strings.Contains(text, want) {
		t.Errorf("the page lacks %q", want)
	}
}

// TestFront: the leaderboard of a sweep with several objectives has them, and its front.
func TestFront(t *testing.T) {
	if text := write(t, goals(30)); !strings.Contains(text, ">model_bytes</button>") ||
		!strings.Contains(text, "<td>front<") {
		t.Error("the leaderboard has no column of the bytes, or does not say which trials are on the front")
	}
}

// TestWhenASweepEnds: as a clock time with its range, as a day too where that is far off; and it warns where it costs
// more than its budget by then, and says what comes of it.
func TestWhenASweepEnds(t *testing.T) {
	s := sample(10)
	s.State, s.Winner, s.AsOf = "running", nil, s.Planned.Add(10*time.Minute)
	s.Money.Total, s.Money.Hourly = 0.5, 3
	for _, tc := range []struct {
		left sweep.Range
		want string
	}{
		{sweep.Range{Expected: 600}, "It ends about 03:20 UTC ."},
		{sweep.Range{Low: 300, Expected: 600, High: 900}, "It ends about 03:20 UTC ( 03:15 UTC to 03:25 UTC )."},
		{sweep.Range{Expected: 86400}, "Its budget ends it about 03:40 UTC ."},
		{sweep.Range{}, ""},
	} {
		s.Left = tc.left
		text := said(write(t, s))
		ends := regexp.MustCompile(`It ends about|Its budget ends`).MatchString(text)
		if !strings.Contains(text, tc.want) || ends == (tc.want == "") {
			t.Errorf("with %v left: got %.900q, want %q in it", tc.left, text, tc.want)
		}
		const warning = "it would cost about $72.50 and reaches its budget of $2.00 in about 30 min. If nobody " +
			"cancels it, it ends then, with the trials that have ended."
		if got, want := strings.Contains(text, warning), tc.left.Expected == 86400; got != want {
			t.Errorf("with %v left, it warns: %t, want %t: %.900q", tc.left, got, want, text)
		}
	}

	home := tonight()
	const warning = "will reach budget night-ctr-11 : At this pace it would cost about $2.35 and reaches its budget " +
		"of $2.00"
	if text := said(write(t, home)); !strings.Contains(text, warning) {
		t.Errorf("home: got %.900q, want %q in it", text, warning)
	}
}

// TestChosenAndJudged: the gate's reason comes first, and both metrics are named; a winner that was not promoted has
// not "won", and what failed has no rank.
func TestChosenAndJudged(t *testing.T) {
	s := sample(50)
	const judged = "by log_loss on test. Of the trials that may win, trial 14 has the highest average_precision " +
		"on valid."
	const base = "the base rate alone, log_loss"
	for promoted, want := range map[bool][]string{
		true: {"ctr@9 became the champion and went live Better than version 8: log_loss 0.88 % better " +
			"(&#43;0.35 to &#43;1.4 %). Trial 14 won, within noise of trial 44.", "0.1162 4.3 times the base rate",
			"20,000 sampled test rows: log_loss 0.113 against 0.114",
			"chosen by average_precision on valid and promoted " + judged, base, "Why it won"},
		false: {"ctr@9 was not promoted Better than version 8 on 20,000 sampled test rows",
			"Version 8 stayed live", "chosen by average_precision on valid and judged " + judged, base,
			"Why this trial was chosen"}} {
		s.Winner.Gate.Promoted = promoted
		text := said(write(t, s))
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("promoted %t: got %.1500q, want %q in it", promoted, text, part)
			}
		}
		if strings.Contains(text, "Why it won") != promoted {
			t.Errorf("promoted %t: the page says why it won: %t, want %t", promoted, !promoted, promoted)
		}
	}

	text := write(t, allAre(page.StateFailed))
	if !strings.Contains(text, `<td>-</td><th scope="row">`) && !strings.Contains(text, `<td>-<th scope="row">`) ||
		strings.Contains(text, `<td>1<th scope="row">`) {
		t.Error("a failed trial has a rank, want none")
	}
}

// TestWhoseTestRows: a number on test says which version it is of, and where a final training predicts, that the winner
// was judged for it.
func TestWhoseTestRows(t *testing.T) {
	s := sample(20)
	twin := fmt.Sprintf("average_precision on test of trial %d, judged for ctr@9 0.1162", s.Winner.Trial)
	for want, final := range map[string]*sweep.FinalModel{"average_precision on test of ctr@9 0.1162": nil,
		twin: {Registered: true}} {
		s.Winner.Final = final
		if got := said(write(t, s)); !strings.Contains(got, want) {
			t.Errorf("got %.900q, want %q in it", got, want)
		}
	}
}

// TestTheirOwnDates: nights that were made later have the day of their slot, or of their newest row.
func TestTheirOwnDates(t *testing.T) {
	d, m, home := manyNights(2), versions(2), tonight()
	d.Nights[1].Day, m.Nights[0].Night, home.Sweeps[1].Night = "2026-01-02", "2026-01-02", "2026-01-02"
	for name, view := range map[string]writer{"dataset": d, "model": m, "home": home} {
		if text := write(t, view); !strings.Contains(text, ">2026-01-02<") {
			t.Errorf("%s: the night of January 2 has another date", name)
		}
	}
}
