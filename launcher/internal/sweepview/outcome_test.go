package sweepview_test

import (
	"strings"
	"testing"

	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

// TestNotPromoted: if the winner is not promoted, the launcher ends with an exit code and a sentence of its own.
func TestNotPromoted(t *testing.T) {
	for verdict, says := range map[sweep.Verdict][2]string{
		sweep.VerdictNotPromoted:   {"", "log_loss 0.3 is not shown to be better"},
		sweep.VerdictNotComparable: {" (it cannot be compared)", `it needs the column "price"`},
		sweep.VerdictBlocked:       {" (blocked)", "blocked: a third of the labels is missing"},
	} {
		reason := says[1]
		c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeWinner, Model: "ctr", Version: 7,
			Gate: &sweep.GateDecision{Verdict: verdict, Reason: reason}}
		err := sweepview.NotPromoted(c)
		code := map[bool]int{true: sweep.ExitBlocked, false: sweep.ExitNotPromoted}[verdict == sweep.VerdictBlocked]
		got := program.ExitCode(t.Context(), err)
		if got != code ||
			!strings.Contains(err.Error(), "version 7 of ctr is registered and was not promoted"+says[0]+": "+reason) {
			t.Errorf("%s: %v, exit code %d", verdict, err, got)
		}
	}
}

// TestWhereLogsAre: on each engine, a sweep without a winner says where its tasks' logs are.
func TestWhereLogsAre(t *testing.T) {
	err := sweepview.NoWinner(&sweep.Conclusion{Sweep: "night-1", Reason: "x"}, "task 0 failed")
	for _, place := range []string{"Cloud Logging", "local cloud", "COPPICE_SLURM_FOLDER"} {
		if !strings.Contains(err.Error(), place) {
			t.Errorf("%v: want %s named", err, place)
		}
	}
}
