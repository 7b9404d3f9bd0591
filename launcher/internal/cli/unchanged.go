package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"coppice/internal/sweep"
	"coppice/launcher/internal/sweepview"
)

// slotEnd matches the suffix of a scheduled sweep's id.
var slotEnd = regexp.MustCompile(`^-\d{8}-\d{4}$`)

// unchanged finds the previous slot's sweep, if it has trained the same spec on the same dataset and has ended with a
// winner: training that again would register the same model as a new version. If the slot's own sweep exists already,
// the result is empty.
func (c *cloud) unchanged(ctx context.Context, p *sweep.Plan) (sweep.ID, error) {
	ids, err := sweepview.List(ctx, c.sweeps)
	if err != nil {
		return "", err
	}

	last := sweep.ID("")
	for _, id := range ids {
		if id == p.Sweep {
			return "", nil
		}
		name := p.Spec.Name
		if len(id) > len(name) && string(id[:len(name)]) == name && slotEnd.MatchString(string(id[len(name):])) &&
			id < p.Sweep && id > last {
			last = id
		}
	}
	if last == "" {
		return "", nil
	}

	// An unreadable sweep is no reason to skip a night.
	s, err := sweepview.Open(ctx, c.sweeps, last)
	var damaged *sweep.DecodeError
	if errors.As(err, &damaged) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if s.Plan.Dataset.Name != p.Dataset.Name || s.Plan.Dataset.Version != p.Dataset.Version ||
		!sameSpec(&s.Plan.Spec, &p.Spec) {
		return "", nil
	}

	end, err := sweepview.Conclusion(ctx, c.sweeps, last)
	if errors.As(err, &damaged) {
		return "", nil
	}
	if err != nil || end == nil || end.Outcome != sweep.OutcomeWinner {
		return "", err
	}
	return last, nil
}

// sameSpec compares what two sweeps train; it ignores what they may cost, what earlier sweeps had found by then, and
// what prices decided about Spot if the spec leaves it to them.
func sameSpec(a, b *sweep.Spec) bool {
	x, y := *a, *b
	x.Budget, y.Budget = 0, 0
	x.ForgetHistory()
	y.ForgetHistory()
	for _, s := range []*sweep.Spec{&x, &y} {
		if s.Machine.SpotAuto {
			s.Machine.Spot = nil
		}
	}
	one, err1 := json.Marshal(x)
	other, err2 := json.Marshal(y)
	return err1 == nil && err2 == nil && bytes.Equal(one, other)
}

// nothingNew reports that a scheduled night has nothing to train.
func (w *World) nothingNew(c *cloud, p *sweep.Plan, before sweep.ID, asJSON bool) error {
	ref := p.Dataset.Name + "@" + p.Dataset.Version
	w.log(c).Info("nothing new", "sweep", p.Sweep, "before", before, "model", p.Spec.Model, "dataset", ref)
	if asJSON {
		return w.printJSON(map[string]any{"sweep": p.Sweep, "nothing_new": true, "before": before, "dataset": ref})
	}
	fmt.Fprintf(w.Out, "nothing new: dataset %s is still the latest, and sweep %s has trained the same spec on it; "+
		"no machine is started\n", ref, before)
	return nil
}
