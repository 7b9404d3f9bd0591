package registry

import (
	"context"
	"fmt"
	"maps"
)

// LabelCopied is the label of a version copied from another registry: its origin as MODEL@VERSION, and the SHA-256 of
// its record there.
const LabelCopied = "copied_from"

// Copy registers a version of another registry in r, under the same model and key: every file is read and verified, and
// has the same checksum here. The version gets r's next number; its label names the original. act says who copies, and
// why. Repeating the call is harmless; a different version under the key is a conflict. Aliases, remarks and
// history are not copied.
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

	// Read back what was written: an unusable copy is found now, and not at night.
	for _, f := range out.Files {
		if _, err := r.ReadFile(ctx, out, f.Name); err != nil {
			return Version{}, err
		}
	}
	return out, nil
}
