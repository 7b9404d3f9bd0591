package registry

import (
	"context"
	"fmt"
	"maps"
)

// LabelCopied is the label of a version that came from another registry: where it was, as MODEL@VERSION, and the SHA-256 of its record there.
const LabelCopied = "copied_from"

// Copy registers a version of another registry in r, under the same model and key: every file is read and held against its checksum, and has the
// same one here. The version gets the next number of r; its label says which it was. Who copies and why is act's. Repeating it is
// harmless; another version under the key is a *ConflictError. Aliases, remarks and the history stay where they are.
func (r *Registry) Copy(ctx context.Context, from *Registry, v Version, act Act) (Version, error) {
	if err := act.check(); err != nil {
		return Version{}, err
	}
	record, err := from.recordSum(ctx, v.Model, v.Number)
	if err != nil {
		return Version{}, err
	}

	files := make(map[string][]byte, len(v.Files))
	for _, f := range v.Files {
		if files[f.Name], err = from.ReadFile(ctx, v, f.Name); err != nil {
			return Version{}, err
		}
	}

	info := Info{At: act.At, By: act.By, Why: v.Info.Why, Metrics: v.Info.Metrics, Labels: map[string]string{}}
	maps.Copy(info.Labels, v.Info.Labels)
	info.Labels[LabelCopied] = fmt.Sprintf("%s@%d, record %s", v.Model, v.Number, record)
	out, err := r.Register(ctx, v.Model, v.Key, files, info)
	if err != nil {
		return Version{}, err
	}

	// What was written is read once more: a copy that nobody can use is found here, and not at night.
	for _, f := range out.Files {
		if _, err := r.ReadFile(ctx, out, f.Name); err != nil {
			return Version{}, err
		}
	}
	return out, nil
}
