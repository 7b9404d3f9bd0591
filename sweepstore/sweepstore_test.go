package sweepstore_test

import (
	"testing"

	"coppice/blob"
	"coppice/sweepstore/sweepstoretest"
)

func TestBehaviour(t *testing.T) {
	t.Parallel()
	sweepstoretest.Run(t, func(*testing.T) blob.Store { return blob.Memory() })
}
