package sweepstore_test

import (
	"testing"

	"coppice/internal/blob"
	"coppice/internal/sweepstore/sweepstoretest"
)

func TestBehaviour(t *testing.T) {
	t.Parallel()
	sweepstoretest.Run(t, func(*testing.T) blob.Store { return blob.Memory() })
}
