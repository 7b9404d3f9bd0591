package sweepstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"coppice/internal/sweep"
)

// CreateInput writes an object of the model that the sweep continues, before the plan. Its name is derived from its
// contents, so it does not matter if it exists already.
func (s *Sweep) CreateInput(ctx context.Context, data []byte) (sweep.Object, error) {
	o := InputObject(s.id, data)
	_, err := createBytes(ctx, s.bucket, o.Name, data)
	return o, err
}

// InputObject returns what CreateInput would write.
func InputObject(id sweep.ID, data []byte) sweep.Object {
	sum := sha256.Sum256(data)
	text := hex.EncodeToString(sum[:])
	return sweep.Object{Name: sweep.Names(id).Input(text), Bytes: int64(len(data)), SHA256: text}
}
