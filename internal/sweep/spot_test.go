package sweep_test

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// TestSpotIsTrueFalseOrAuto: each value is parsed as written, and survives the JSON of a plan.
func TestSpotIsTrueFalseOrAuto(t *testing.T) {
	for text, want := range map[string]sweep.SpotChoice{
		"{spot: true}": {Spot: true}, "{spot: false}": {}, "{spot: auto}": {Spot: true, Auto: true},
		`{spot: "auto"}`: {Spot: true, Auto: true}, "{vms: 1}": {Spot: true},
	} {
		s, err := sweep.ParseSpec("sweep.yaml", []byte(withMachine(text)), words())
		if err != nil {
			t.Errorf("parsed a sweep with the machine %s: error %v", text, err)
			continue
		}
		if m := s.Machine; *m.Spot != want.Spot || m.SpotAuto != want.Auto || m.Asked != nil {
			t.Errorf("%s: spot %t, auto %t, expected %+v", text, *m.Spot, m.SpotAuto, want)
		}
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back sweep.Spec
		if err := json.Unmarshal(data, &back); err != nil || *back.Machine.Spot != want.Spot ||
			back.Machine.SpotAuto != want.Auto {
			t.Errorf("%s: back from JSON it is %+v, %v", text, back.Machine, err)
		}
		if strings.Contains(string(data), "spot_auto") != want.Auto {
			t.Errorf("%s: a spec that does not say auto has the JSON that it had: %s", text, data)
		}
	}
	for _, text := range []string{"{spot: maybe}", "{spot: 1}", "{spot: [auto]}", "{fallback: [{spot: auto}]}"} {
		if _, err := sweep.ParseSpec("sweep.yaml", []byte(withMachine(text)), words()); err == nil ||
			!strings.HasPrefix(err.Error(), "sweep.yaml:") {
			t.Errorf("%s was taken, or refused without its place: %v", text, err)
		}
	}
}

// TestWhatAutoDecidedIsNoOtherSweep: prices may change between two starts of the same sweep.
func TestWhatAutoDecidedIsNoOtherSweep(t *testing.T) {
	plan := func(auto, spot bool) *sweep.Plan {
		p := &sweep.Plan{Sweep: "j"}
		p.Spec.Machine = sweep.Machine{Type: "n2-highmem-2", Spot: &spot, SpotAuto: auto}
		return p
	}
	if plan(true, true).Fingerprint() != plan(true, false).Fingerprint() {
		t.Error("with spot: auto, on Spot and on demand are two sweeps; expected one")
	}
	if plan(false, true).Fingerprint() == plan(false, false).Fingerprint() ||
		plan(true, true).Fingerprint() == plan(false, true).Fingerprint() {
		t.Error("specs that say different things about Spot have one fingerprint")
	}
}
