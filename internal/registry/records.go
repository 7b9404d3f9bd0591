package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/strictjson"
)

const format = 1

// The records as JSON. A reader rejects other formats and ignores unknown keys.
type (
	modelRecord struct {
		Format int    `json:"format"`
		Model  string `json:"model"`
	}
	// claimRecord contains nothing that could differ in a second attempt.
	claimRecord struct {
		Format int    `json:"format"`
		Model  string `json:"model"`
		Number int    `json:"version"`
		Key    string `json:"key"`
	}
	versionRecord struct {
		Format int `json:"format"`
		Version
	}
	aliasRecord struct {
		Format int `json:"format"`
		Alias
	}
	eventRecord struct {
		Format int    `json:"format"`
		Model  string `json:"model"`
		Event
	}
)

func encode(record any) ([]byte, error) {
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("registry: encode a record: %w", err)
	}
	return append(data, '\n'), nil
}

// Record returns the version as stored in its version.json.
func (v Version) Record() ([]byte, error) { return encode(versionRecord{format, v}) }

func decode(data []byte, record any, format0 *int) error {
	if err := strictjson.DecodeKnown(data, record); err != nil {
		return err
	}
	if *format0 != format {
		return fmt.Errorf("format %d; this build reads %d", *format0, format)
	}
	return nil
}

func decodeClaim(data []byte, model string, number int) (claimRecord, error) {
	var c claimRecord
	if err := decode(data, &c, &c.Format); err != nil {
		return c, err
	}
	if c.Model != model || c.Number != number {
		return c, fmt.Errorf("it claims version %d of %.60q", c.Number, c.Model)
	}
	return c, checkKey(c.Key)
}

func decodeVersion(data []byte, model string, number int) (Version, error) {
	var r versionRecord
	if err := decode(data, &r, &r.Format); err != nil {
		return Version{}, err
	}

	v := r.Version
	if v.Model != model || v.Number != number {
		return Version{}, fmt.Errorf("it describes version %d of %.60q", v.Number, v.Model)
	}

	if err := checkKey(v.Key); err != nil {
		return Version{}, err
	}
	if err := v.Info.check(); err != nil {
		return Version{}, err
	}
	if len(v.Files) == 0 || len(v.Files) > MaxFiles {
		return Version{}, fmt.Errorf("it has %d files", len(v.Files))
	}

	for i, f := range v.Files {
		if err := f.check(model, number); err != nil {
			return Version{}, err
		}
		if i > 0 && v.Files[i-1].Name >= f.Name {
			return Version{}, fmt.Errorf("file %.60q is out of order", f.Name)
		}
	}
	return v, nil
}

func (f File) check(model string, number int) error {
	if err := checkFileName(f.Name); err != nil {
		return err
	}
	if !sumPattern.MatchString(f.SHA256) || f.Bytes < 0 || f.Bytes > MaxFileBytes {
		return fmt.Errorf("file %s: %d bytes, SHA-256 %.80q", f.Name, f.Bytes, f.SHA256)
	}
	if f.Object != versionDir(model, number)+f.Name && f.Object != otherObject(model, number, f.Name, f.SHA256) {
		return fmt.Errorf("file %s lies at %.200q", f.Name, f.Object)
	}
	return nil
}

func (e Event) check() error {
	least := 1
	switch e.Kind {
	case Promoted, RolledBack:
	case Removed:
		least = 0
	default:
		return fmt.Errorf("an event of kind %.40q", e.Kind)
	}

	if e.Sequence < 1 || e.From < 0 || e.From > maxNumber || e.To < least || e.To > maxNumber {
		return fmt.Errorf("event %d from version %d to %d", e.Sequence, e.From, e.To)
	}

	for _, s := range []string{e.Previous, e.Record} {
		if s != "" && !sumPattern.MatchString(s) {
			return fmt.Errorf("event %d has %.80q for a SHA-256", e.Sequence, s)
		}
	}

	return Act{By: e.By, Why: e.Why, At: e.At}.check()
}

func decodeAlias(data []byte, model, alias string) (Alias, error) {
	var r aliasRecord
	if err := decode(data, &r, &r.Format); err != nil {
		return Alias{}, err
	}
	a := r.Alias
	if a.Model != model || a.Name != alias || a.Last.Alias != alias || a.Last.To != a.Version {
		return Alias{}, fmt.Errorf("it is %.60q of %.60q at version %d", a.Name, a.Model, a.Version)
	}
	if len(a.Past) > maxPast || slices.ContainsFunc(a.Past, func(n int) bool { return n < 1 || n > maxNumber }) {
		return Alias{}, fmt.Errorf("its past is %d versions, one of which cannot be", len(a.Past))
	}
	return a, a.Last.check()
}

func decodeEvent(data []byte, model, alias string, sequence int) (Event, error) {
	var r eventRecord
	if err := decode(data, &r, &r.Format); err != nil {
		return Event{}, err
	}
	if r.Model != model || r.Alias != alias || r.Sequence != sequence {
		return Event{}, fmt.Errorf("it is event %d of %.60q of %.60q", r.Sequence, r.Alias, r.Model)
	}
	return r.Event, r.check()
}

func decodeKey(data []byte, model, key string) (int, error) {
	var c claimRecord
	if err := decode(data, &c, &c.Format); err != nil {
		return 0, err
	}
	if c.Model != model || c.Key != key || c.Number < 1 || c.Number > maxNumber {
		return 0, fmt.Errorf("it says version %d of %.60q for %.60q", c.Number, c.Model, c.Key)
	}
	return c.Number, nil
}

// read returns the whole object, which is damaged if it is longer than limit.
func (r *Registry) read(ctx context.Context, object string, limit int64) ([]byte, blob.Generation, error) {
	rc, attrs, err := r.store.Open(ctx, object, blob.Range{})
	if err != nil {
		return nil, 0, fmt.Errorf("registry: read %s: %w", object, err)
	}
	defer rc.Close()

	data, err := io.ReadAll(io.LimitReader(rc, limit+1))
	if err != nil {
		return nil, 0, fmt.Errorf("registry: read %s: %w", object, err)
	}
	if int64(len(data)) > limit {
		return nil, 0, Damaged(object, fmt.Errorf("it is longer than %d bytes", limit))
	}
	return data, attrs.Generation, nil
}

// create writes a record if it does not exist.
func (r *Registry) create(ctx context.Context, object string, record any) (created bool, err error) {
	data, err := encode(record)
	if err != nil {
		return false, err
	}
	created, err = blob.Create(ctx, r.store, object, data)
	if err != nil {
		return false, fmt.Errorf("registry: write %s: %w", object, err)
	}
	return created, nil
}

// isAbsent reports whether an error means that the object does not exist.
func isAbsent(err error) bool { return errors.Is(err, blob.ErrNotExist) }

// list calls each with the names under a prefix, ascending, until it returns false.
func (r *Registry) list(ctx context.Context, prefix string, each func(object string) (more bool)) error {
	for attrs, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("registry: list %s: %w", strings.TrimSuffix(prefix, "/"), err)
		}
		if !each(attrs.Name) {
			return nil
		}
	}
	return nil
}
