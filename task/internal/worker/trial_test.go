package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/protocol"
)

// TestClassify: why a training ended early, by its error, that of its task's context, and the cause for which the
// trial's context was cancelled. Where several hold, the first of the table's order decides.
func TestClassify(t *testing.T) {
	store := problem.As(problem.Transient, errors.New("the store is gone"))
	damaged, paused := fmt.Errorf("%w: found late", errCopy), &pausedError{3}
	told, stopped := context.Canceled, &stoppedError{3, .5, "others are better"}
	bad := errors.New("num_leaves is wrong")

	for _, tc := range []struct {
		name             string
		err, told, cause error
		why              protocol.Why
		reason           error
	}{
		{"trained", nil, nil, nil, protocol.Unknown, nil},
		{"trained, though told to go", nil, told, told, protocol.Unknown, nil},
		{"trained, though superseded", nil, nil, errSuperseded, protocol.Unknown, nil},

		{"told to go", told, told, told, protocol.ToldToGo, told},
		{"told to go, and superseded", told, told, errSuperseded, protocol.ToldToGo, told},
		{"told to go, and the sweep is over", told, told, errCancelled, protocol.ToldToGo, told},
		{"told to go, and paused", paused, told, told, protocol.ToldToGo, told},
		{"told to go, and wrong", bad, told, told, protocol.ToldToGo, told},

		{"superseded", told, nil, errSuperseded, protocol.Superseded, errSuperseded},
		{"superseded, without a store", store, nil, errSuperseded, protocol.Superseded, errSuperseded},
		{"ended elsewhere", told, nil, errEndedElsewhere, protocol.EndedElsewhere, errEndedElsewhere},
		{"ended elsewhere, on a damaged copy", damaged, nil, errEndedElsewhere, protocol.EndedElsewhere,
			errEndedElsewhere},

		{"without a store", store, nil, nil, protocol.Broken, store},
		{"without a store, the sweep cancelled", store, nil, errCancelled, protocol.Unknown, nil},
		{"without a store, the sweep concluded", store, nil, errEnded, protocol.Unknown, nil},
		{"on a damaged copy", damaged, nil, nil, protocol.Broken, damaged},
		{"on a damaged copy, the sweep cancelled", damaged, nil, errCancelled, protocol.Unknown, nil},

		{"paused", paused, nil, nil, protocol.Paused, paused},
		{"paused, the sweep cancelled", paused, nil, errCancelled, protocol.Paused, paused},

		{"behind others", stopped, nil, nil, protocol.Unknown, nil},
		{"at its limit", gbt.ErrLimit, nil, nil, protocol.Unknown, nil},
		{"wrong", bad, nil, nil, protocol.Unknown, nil},
		{"the sweep cancelled", told, nil, errCancelled, protocol.Unknown, nil},
	} {
		if why, reason := classify(tc.err, tc.told, tc.cause); why != tc.why || !errors.Is(reason, tc.reason) {
			t.Errorf("%s: got %d (%v), want %d (%v)", tc.name, why, reason, tc.why, tc.reason)
		}
	}
}
