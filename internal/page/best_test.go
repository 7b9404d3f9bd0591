package page_test

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

// TestTheBestAreDrawn: of 1,200 trials the best 100 have rows in the page and the best 500 have marks in the drawings,
// which a note says; the data for the script have all of them.
func TestTheBestAreDrawn(t *testing.T) {
	text := write(t, sample(1200))
	rows := strings.Count(text, `<tr data-t=`)
	lines := len(regexp.MustCompile(`<path class="curve[^"]*" data-t=`).FindAllString(text, -1))
	if rows != 100 || lines != 500 {
		t.Errorf("of 1,200 trials %d have rows and %d lines, want 100 and 500", rows, lines)
	}
	if n := strings.Count(values(t, text, "trial"), ","); n != 1199 {
		t.Errorf("the data have %d trials, want 1,200", n+1)
	}
	if want := "The drawings show the best 500 of 1200 trials"; !strings.Contains(text, want) {
		t.Errorf("got %.900q, want %q in it", said(text), want)
	}

	// With a final training beside them, 500 trials are all drawn, and there is no note.
	s := sample(501)
	s.Trials[500].Final, s.Trials[500].Score = true, math.NaN()
	if text := said(write(t, s)); strings.Contains(text, "The drawings show") {
		t.Errorf("of 500 trials and a final training: got %.900q, want no note of trials that are not drawn", text)
	}
}
