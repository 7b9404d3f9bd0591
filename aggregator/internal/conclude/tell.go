package conclude

import (
	"context"
	"time"

	"coppice/sweep"
)

const (
	// tellOthers is how long whoever has written a conclusion is left to tell it. After that, others think that it was not able to.
	tellOthers = 3 * time.Minute
	// tellFor is how long it is tried to tell a conclusion; later, it is no news.
	tellFor = 6 * time.Hour
	// tellAgain is how long after a failure it is not tried again.
	tellAgain = 5 * time.Minute
)

// tell tells what became of a sweep that has ended, on the channels on which nobody has told it. Whatever comes of that, the sweep has
// ended; what has failed is tried again with a later look at the sweep.
func (a *Aggregator) tell(ctx context.Context, id sweep.ID) {
	k := a.remember(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.ended
	age := a.Now().Sub(c.At)
	switch {
	case k.told:
		return
	case a.Notify.Silent() || age > tellFor:
		k.told = true
		return
	case !k.wrote && age < tellOthers:
		return
	case a.Now().Before(k.tellNext):
		return
	}

	if k.told = a.Notify.Tell(ctx, c.Message(a.datasetOf(ctx, c.Sweep, k)), a.sweep(c.Sweep).Told(sweep.OccasionConcluded)); !k.told {
		k.tellNext = a.Now().Add(tellAgain) // after the try, which may have taken long
	}
}

// datasetOf is the dataset that a sweep was trained on; "" where its plan cannot be read any more.
func (a *Aggregator) datasetOf(ctx context.Context, id sweep.ID, k *known) string {
	if k.dataset != "" {
		return k.dataset
	}
	p, _, err := a.sweep(id).Plan(ctx)
	if err != nil {
		return ""
	}
	return p.Dataset.Name + "@" + p.Dataset.Version
}
