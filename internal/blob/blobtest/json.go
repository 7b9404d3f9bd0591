package blobtest

import (
	"context"
	"encoding/json"
	"fmt"

	"coppice/internal/blob"
)

// CreateJSON writes v, indented for people, under name if nothing is there.
func CreateJSON(ctx context.Context, s blob.Store, name string, v any) (created bool, err error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return false, fmt.Errorf("write %s: %w", name, err)
	}
	return blob.Create(ctx, s, name, append(data, '\n'))
}
