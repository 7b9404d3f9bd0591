package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/strictjson"
)

// Names of objects. FORMAT.md says the same in prose.
const (
	root        = "registry/"
	modelsDir   = root + "_models/" // not a valid model name
	claimFile   = "claim.json"
	versionFile = "version.json"
	deletedFile = "deleted.json"
	jsonSuffix  = ".json"
)

func modelObject(model string) string    { return modelsDir + model + jsonSuffix }
func versionsDir(model string) string    { return root + model + "/versions/" }
func keyObject(model, key string) string { return root + model + "/keys/" + key + jsonSuffix }
func aliasesDir(model string) string     { return root + model + "/aliases/" }
func remarksDir(model string) string     { return root + model + "/remarks/" }
func historyDir(model string) string     { return root + model + "/history/" }

func versionDir(model string, number int) string {
	return versionsDir(model) + strconv.Itoa(number) + "/"
}

func aliasObject(model, alias string) string { return aliasesDir(model) + alias + jsonSuffix }

func remarksObject(model string, number int) string {
	return remarksDir(model) + strconv.Itoa(number) + jsonSuffix
}

func deletedObject(model string, number int) string { return versionDir(model, number) + deletedFile }

func eventObject(model, alias string, sequence int) string {
	return fmt.Sprintf("%s%s/%08d%s", historyDir(model), alias, sequence, jsonSuffix)
}

// otherObject is the name of a file's object if its regular name is taken by other bytes, left behind by a failed
// attempt.
func otherObject(model string, number int, name, sha256 string) string {
	return versionDir(model, number) + "other/" + sha256[:16] + "/" + name
}

// parseNumber reads a version number in its canonical spelling.
func parseNumber(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= maxNumber && strconv.Itoa(n) == text
}

// parseVersionObject splits the name of an object under versionsDir into the version's number and the rest of the name.
func parseVersionObject(model, object string) (number int, rest string, ok bool) {
	text, found := strings.CutPrefix(object, versionsDir(model))
	digits, rest, slash := strings.Cut(text, "/")
	number, valid := parseNumber(digits)
	return number, rest, found && slash && valid
}

// parseEventObject splits the name of an object under historyDir into the alias and the number of the move. It is false
// for a name that eventObject would not make.
func parseEventObject(model, object string) (alias string, sequence int, ok bool) {
	text, found := strings.CutPrefix(object, historyDir(model))
	alias, file, slash := strings.Cut(text, "/")
	digits, suffix := strings.CutSuffix(file, jsonSuffix)
	sequence, err := strconv.Atoi(digits)
	if !found || !slash || !suffix || err != nil || sequence < 1 || checkAlias(alias) != nil {
		return "", 0, false
	}
	return alias, sequence, eventObject(model, alias, sequence) == object
}

// parseAliasObject splits the name of an object under aliasesDir.
func parseAliasObject(model, object string) (alias string, ok bool) {
	text, found := strings.CutPrefix(object, aliasesDir(model))
	alias, suffix := strings.CutSuffix(text, jsonSuffix)
	return alias, found && suffix && checkAlias(alias) == nil
}

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

// encode returns a record as the JSON that is stored. The same record always gives the same bytes.
func encode(record any) ([]byte, error) {
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("registry: encode a record: %w", err)
	}
	return append(data, '\n'), nil
}

// Record returns the version as stored in its version.json.
func (v Version) Record() ([]byte, error) { return encode(versionRecord{format, v}) }

// decode decodes a record, and returns an error of kind Damaged if it is of another format or check rejects it.
// object is the name of its object, for the error.
func decode[T any](object string, data []byte, check func(*T) error) (T, error) {
	var head struct {
		Format int `json:"format"`
	}
	var v, none T
	err := strictjson.DecodeKnown(data, &v)
	if err == nil {
		err = json.Unmarshal(data, &head)
	}
	if err == nil && head.Format != format {
		err = fmt.Errorf("format %d; this build reads %d", head.Format, format)
	}
	if err == nil {
		err = check(&v)
	}
	if err != nil {
		return none, Damaged(object, err)
	}
	return v, nil
}

// check returns an error if a record that was read is not that of the version, or if its files are not sorted by name
// or not in objects where they may be.
func (v *versionRecord) check(model string, number int) error {
	if v.Model != model || v.Number != number {
		return fmt.Errorf("it describes version %d of %.60q", v.Number, v.Model)
	}
	if err := cmp.Or(checkKey(v.Key), v.Info.check()); err != nil {
		return err
	}
	if len(v.Files) == 0 || len(v.Files) > MaxFiles {
		return fmt.Errorf("it has %d files", len(v.Files))
	}
	for i, f := range v.Files {
		if err := f.check(model, number); err != nil {
			return err
		}
		if i > 0 && v.Files[i-1].Name >= f.Name {
			return fmt.Errorf("file %.60q is out of order", f.Name)
		}
	}
	return nil
}

// check returns an error unless the file has a valid name, size and checksum, and is in an object of the version
// itself.
func (f File) check(model string, number int) error {
	if err := checkFileName(f.Name); err != nil {
		return err
	}
	if !sumPattern.MatchString(f.SHA256) || f.Bytes < 0 || f.Bytes > mostBytes(f.Name) {
		return fmt.Errorf("file %s: %d bytes, SHA-256 %.80q", f.Name, f.Bytes, f.SHA256)
	}
	if f.Object != versionDir(model, number)+f.Name && f.Object != otherObject(model, number, f.Name, f.SHA256) {
		return fmt.Errorf("file %s is said to be in the object %.200q", f.Name, f.Object)
	}
	return nil
}

// check returns an error for a move of an alias that the package cannot have written. Only a removal may lead to no
// version.
func (e Event) check() error {
	least := 1 // of To
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

// check returns an error if a record that was read is not that of the alias, or not where its last move ended.
func (a *aliasRecord) check(model, alias string) error {
	if a.Model != model || a.Name != alias || a.Last.Alias != alias || a.Last.To != a.Version {
		return fmt.Errorf("it is %.60q of %.60q at version %d", a.Name, a.Model, a.Version)
	}
	if len(a.Past) > MaxPast || slices.ContainsFunc(a.Past, func(n int) bool { return n < 1 || n > maxNumber }) {
		return fmt.Errorf("one of its %d earlier versions is no version number, or they are too many", len(a.Past))
	}
	return a.Last.check()
}

// check returns an error if a record that was read is not that of the alias's move with this number.
func (e *eventRecord) check(model, alias string, sequence int) error {
	if e.Model != model || e.Alias != alias || e.Sequence != sequence {
		return fmt.Errorf("it is event %d of %.60q of %.60q", e.Sequence, e.Alias, e.Model)
	}
	return e.Event.check()
}

// create writes a record if it does not exist; created is false, without an error, if it does.
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

// maxRaces bounds the retries of a change that others' changes have overtaken.
const maxRaces = 20

// replace writes a record if the object's generation is still at. done is false, without an error, if another process
// has changed the object. A retry of the store may find that the first attempt had been written although its answer
// was lost; the object then has the record, and done is true.
func (r *Registry) replace(ctx context.Context, object string, at blob.Generation, data []byte) (done bool, err error) {
	_, err = r.store.Put(ctx, object, at, bytes.NewReader(data))
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, blob.ErrPrecondition) {
		return false, fmt.Errorf("registry: write %s: %w", object, err)
	}
	there, _, err := r.readObject(ctx, object, maxRecord)
	if err != nil && !isAbsent(err) {
		return false, err
	}
	return bytes.Equal(there, data), nil
}

// overtaken returns the error of a change that others have overtaken maxRaces times.
func overtaken(object string) error {
	return fmt.Errorf("registry: write %s: gave up after %d attempts, each overtaken by another change: %w", object,
		maxRaces, blob.ErrPrecondition)
}

// isAbsent reports whether an error means that the object does not exist.
func isAbsent(err error) bool { return errors.Is(err, blob.ErrNotExist) }
