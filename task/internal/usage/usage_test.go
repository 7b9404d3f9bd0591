package usage

import (
	"runtime"
	"testing"
)

func TestCPUGrows(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: the processor time is not asked for there")
	}
	before, sum := CPU(), 0
	for i := 0; CPU() == before; i++ {
		sum += i
	}
	if before < 0 || CPU() < before {
		t.Errorf("from %v to %v (%d)", before, CPU(), sum)
	}
}

func TestSelf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux tells")
	}
	if m := Self(); m.Private <= 0 || m.PSS < m.Private || m.Shared <= 0 {
		t.Errorf("this process: got %+v; want private and shared memory, and no less PSS than private", m)
	}
	if Available() <= 0 {
		t.Error("no memory left?")
	}
}
