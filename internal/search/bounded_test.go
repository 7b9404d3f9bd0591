package search_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// surveyed is a search with so many random results.
func surveyed(t *testing.T, s sweep.Search, results int) search.Ask {
	t.Helper()
	r := search.Ask{Search: s, Method: sweep.MethodRandom, Maximize: true}
	for len(r.Known) < results {
		r.Number = min(1000, results-len(r.Known))
		for _, one := range next(t, r) {
			r.Known = append(r.Known, scored(one.Trial, one.Params, quality(one.Params)))
		}
	}
	return r
}

// processor returns the processor time of asking. One that is over a limit is measured again.
func processor(t *testing.T, r search.Ask, limit time.Duration) (took time.Duration) {
	t.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for range 3 {
		runtime.GC() // what was there before is not this search's
		start := used()
		next(t, r)
		if took = used() - start; took <= limit {
			break
		}
	}
	return took
}

// TestAskTakesTimeInProportion: twice the proposals take twice the time, and four times the results hardly more, since
// what the model sees is bounded. With a process that grew by every running trial twice the proposals took four times
// as long.
func TestAskTakesTimeInProportion(t *testing.T) {
	if os.Getenv("COPPICE_FULL") == "" {
		t.Skip("with COPPICE_FULL=1: it searches among 10,000 results")
	}
	few, many := surveyed(t, spaces()["mixed"], 2_000), surveyed(t, spaces()["mixed"], 8_000)
	few.Method, few.Number = sweep.MethodAuto, 100
	many.Method, many.Number = sweep.MethodAuto, 100
	once := processor(t, few, math.MaxInt64)
	if all := processor(t, many, 2*once); all > 2*once {
		t.Errorf("100 proposals took %v after 2,000 results and %v after 8,000; expected at most twice as much", once,
			all)
	}
	few.Number = 200
	if twice := processor(t, few, 3*once); twice > 3*once {
		t.Errorf("after 2,000 results 100 proposals took %v and 200 took %v; expected at most 3 times as much", once,
			twice)
	}
}

// TestAskWithManyRunning: the process sees a part of the running trials, and the same whether they were asked for at
// once or one after the other.
func TestAskWithManyRunning(t *testing.T) {
	r := surveyed(t, spaces()["numbers"], 260)
	for i := range r.Known[20:] {
		r.Known[20+i].Status, r.Known[20+i].Score = sweep.StatusRunning, nil
	}
	r.Method, r.Number = sweep.MethodAuto, 4
	got := next(t, r)
	checkSame(t, r, got)
	if want := "20 results and 100 running"; !strings.Contains(got[0].Reason, want) {
		t.Errorf("after 20 results and with 240 running the reason is %q; expected %q in it", got[0].Reason, want)
	}
}

// TestAskOfManyLevels: a choice takes no more memory in the process than a number, however many levels it has.
func TestAskOfManyLevels(t *testing.T) {
	s := sweep.Search{Random: map[string]sweep.Distribution{}}
	for j := range 10 {
		var levels []any
		for i := range 5_000 {
			levels = append(levels, fmt.Sprint("level ", i))
		}
		s.Random[fmt.Sprint("choice", j)] = sweep.Distribution{Choice: levels}
	}
	r := surveyed(t, s, 200)
	r.Method, r.Number = sweep.MethodGP, 1
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	next(t, r)
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 150 {
		t.Errorf("one proposal in a space of ten choices with 5,000 levels each took %d MB; expected at most 150", mb)
	}
}
