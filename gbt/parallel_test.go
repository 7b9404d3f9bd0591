package gbt

import (
	"strings"
	"testing"
)

// TestPanicReachesTheCaller: in a goroutine of its own it would end the process, and with it a whole Batch job.
func TestPanicReachesTheCaller(t *testing.T) {
	for _, at := range []int{0, 99} {
		func() {
			defer func() {
				if v := recover(); v == nil || at == 99 && !strings.Contains(v.(string), "index out of range") {
					t.Errorf("row %d: recovered %v", at, v)
				}
			}()
			parallel(4, 100, 1, func(_, lo, hi int) {
				if lo <= at && at < hi {
					_ = []int{}[at]
				}
			})
		}()
	}
}
