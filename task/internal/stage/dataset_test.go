package stage

import "context"

// Dataset provides the dataset without opening it and releases the lock, for tests that inspect the folder.
func Dataset(ctx context.Context, q Request) (string, error) {
	dir, unlock, err := q.provide(ctx)
	if err != nil {
		return "", err
	}
	return dir, unlock()
}
