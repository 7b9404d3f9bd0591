package stage

import "context"

// Dataset provides the dataset and lets go of it, unopened: its tests look at the folder.
func Dataset(ctx context.Context, q Request) (string, error) {
	dir, unlock, err := q.provide(ctx)
	if err != nil {
		return "", err
	}
	return dir, unlock()
}
