// Package registry stores the versions of models, the aliases that point at them and the history of both, as objects of
// a blob.Store. FORMAT.md in this folder describes the objects, who writes them, and why every step may be repeated.
//
// It uses only create-only writes and compare-and-swap, so any number of processes may work at once and any of them may
// die at any point: a version either exists with all its files, or does not exist. The package uses no clock and no
// randomness; times are the caller's.
package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Champion is the alias of the version that is in production.
const Champion = "champion"

// Limits on what is written and accepted.
const (
	MaxFiles     = 64
	MaxFileBytes = 1 << 30
	maxJSONBytes = 64 << 20 // of a file that is JSON: reading it takes several times its size
	maxRecord    = 1 << 20  // of an object that is JSON of this package
	maxNumber    = 1_000_000_000
	maxText      = 4096
	maxFacts     = 1000
	MaxPast      = 100 // versions to which an alias can be rolled back
)

// mostBytes returns how many bytes a version's file of that name may have.
func mostBytes(name string) int64 {
	if strings.HasSuffix(name, ".json") {
		return maxJSONBytes
	}
	return MaxFileBytes
}

// Registry is safe for concurrent use.
type Registry struct{ store blob.Store }

// New returns the registry in a store. Nothing is written before the first Register.
func New(store blob.Store) *Registry { return &Registry{store} }

// Info describes a version beside its files. Register ignores it when it compares a version with one that exists under
// the same key.
type Info struct {
	At      time.Time          `json:"at"` // when it was registered, by the caller's clock
	By      string             `json:"by"` // the person or program that registered it
	Why     string             `json:"why,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Labels  map[string]string  `json:"labels,omitempty"` // such as sweep, trial, dataset
}

// File is one file of a version.
type File struct {
	Name   string `json:"name"`
	Object string `json:"object"` // its name in the store
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hexadecimal
}

// Version is one version of a model; it is immutable.
type Version struct {
	Model  string `json:"model"`
	Number int    `json:"version"` // 1, 2, 3 ...
	Key    string `json:"key"`     // what it is the result of, such as a sweep's id; see Register
	Info   Info   `json:"info"`
	Files  []File `json:"files"` // by name
}

// Called is what people read of a version, who type MODEL@3 for it.
func (v Version) Called() string { return fmt.Sprintf("%s version %d", v.Model, v.Number) }

// File returns the file of that name; ok is false if there is none.
func (v Version) File(name string) (f File, ok bool) {
	i := slices.IndexFunc(v.Files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return File{}, false
	}
	return v.Files[i], true
}

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	Registered EventKind = "registered"
	Promoted   EventKind = "promoted"
	RolledBack EventKind = "rolled_back"
	Removed    EventKind = "removed" // the alias no longer exists; To is 0

	MarkedBad EventKind = "marked_bad"
	Cleared   EventKind = "cleared" // is no longer marked bad
	Deleted   EventKind = "deleted"
)

// Event is an entry of the history: a registration, a mark, or a move of an alias.
type Event struct {
	Kind     EventKind `json:"kind"`
	Alias    string    `json:"alias,omitempty"` // empty for events of a version
	Sequence int       `json:"sequence"`        // of the alias's moves, from 1; 0 for events of a version
	From     int       `json:"from"`            // version; 0 for none
	To       int       `json:"to"`
	By       string    `json:"by"`
	Why      string    `json:"why"`
	At       time.Time `json:"at"` // by the caller's clock

	// Previous is the SHA-256 of the record of the alias's previous move, or of the start of its history; Record is
	// that of To's version.json, empty if To is 0.
	Previous string `json:"previous,omitempty"`
	Record   string `json:"record,omitempty"`
}

// Alias is a name for a version, with its last move.
type Alias struct {
	Model   string `json:"model"`
	Name    string `json:"alias"`
	Version int    `json:"version"`
	Last    Event  `json:"last"`
	Past    []int  `json:"past,omitempty"` // where Rollback leads, the next one last
}

// ByGate is whose moves of the champion the gate's are; all others are by hand.
const ByGate = "aggregator"

// Act says who acts, why, and when.
type Act struct {
	By  string
	Why string
	At  time.Time
}

var (
	keyPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	filePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	sumPattern  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func checkModel(name string) error { return sweep.CheckName("model", name) }
func checkAlias(name string) error { return sweep.CheckName("alias", name) }

// checkFileName rejects names that could leave the version's folder or hide one of its own records.
func checkFileName(name string) error {
	if !filePattern.MatchString(name) || name == claimFile || name == versionFile || name == deletedFile {
		const want = "%.60q: use 1 to 100 of A-Z, a-z, 0-9, '.', '_' and '-', beginning with a letter or digit, and " +
			"none of %s, %s and %s"
		return wrong("file name", want, name, claimFile, versionFile, deletedFile)
	}
	return nil
}

func checkKey(key string) error {
	if !keyPattern.MatchString(key) {
		const want = "%.60q: use 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
		return wrong("key", want, key)
	}
	return nil
}

// checkFiles checks names, number and sizes of a version's files.
func checkFiles(files map[string][]byte) error {
	if len(files) == 0 || len(files) > MaxFiles {
		return wrong("files", "%d; a version has 1 to %d", len(files), MaxFiles)
	}
	for name, data := range files {
		if err := checkFileName(name); err != nil {
			return err
		}
		if int64(len(data)) > mostBytes(name) {
			return wrong("file "+name, "%d bytes, more than the %d that it may have", len(data), mostBytes(name))
		}
	}
	return nil
}

// checkText returns an error unless a text is UTF-8 of at most maxText bytes. It may not have control characters other
// than newline and tab and, if it is required, not be empty or white space alone: people read it later. what names the
// text in the error.
func checkText(what, text string, required bool) error {
	if required && strings.TrimSpace(text) == "" {
		return wrong(what, "empty; later readers of the history need it")
	}
	if len(text) > maxText || !utf8.ValidString(text) {
		return wrong(what, "use up to %d bytes of UTF-8", maxText)
	}
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if i := strings.IndexFunc(text, control); i >= 0 {
		return wrong(what, "a control character at byte %d", i)
	}
	return nil
}

// checkTime returns an error for a time that is not set, or that JSON cannot represent.
func checkTime(at time.Time) error {
	if at.IsZero() || at.UTC().Year() < 1 || at.UTC().Year() > 9999 {
		return wrong("time", "%v; use the time of the event", at)
	}
	return nil
}

// check returns an error unless there are a name, a reason and a time: people who were not there read the history.
func (a Act) check() error {
	return cmp.Or(checkText("by", a.By, true), checkText("why", a.Why, true), checkTime(a.At))
}

// check returns an error unless there are a name and a time. The reason, and what a label says, may be empty. Metrics
// must be finite, texts as checkText says, and metrics and labels together no more than maxFacts.
func (i Info) check() error {
	if err := cmp.Or(checkText("by", i.By, true), checkText("why", i.Why, false)); err != nil {
		return err
	}
	if len(i.Metrics)+len(i.Labels) > maxFacts {
		return wrong("info", "%d metrics and labels; at most %d are allowed", len(i.Metrics)+len(i.Labels), maxFacts)
	}
	for name, v := range i.Metrics {
		if err := checkText("metric name", name, true); err != nil {
			return err
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return wrong("metric "+name, "%v is not a finite number", v)
		}
	}

	for name, v := range i.Labels {
		if err := cmp.Or(checkText("label name", name, true), checkText("label "+name, v, false)); err != nil {
			return err
		}
	}
	return checkTime(i.At)
}

// utc returns a time as it comes back from JSON: in UTC, without a reading of the monotonic clock.
func utc(t time.Time) time.Time { return t.UTC().Round(0) }

// sum returns the SHA-256 in hexadecimal.
func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// wrong returns an error of kind Input about an argument that is not valid. what names the argument; the formatted text
// says what is wrong with it and what would be right.
func wrong(what, format string, args ...any) error {
	return problem.New(problem.Input, "registry: %s: %s", what, fmt.Sprintf(format, args...))
}

// missing returns an error of kind NotFound about a model, version, alias or file. The hint, which may be empty, begins
// with a space and says what exists.
func missing(kind, name, hint string) error {
	return problem.New(problem.NotFound, "registry: there is no %s %.80q%s", kind, name, hint)
}

// Damaged returns an error of kind problem.Damaged about an object that is not as the registry wrote it; err says what
// is wrong.
func Damaged(object string, err error) error {
	return problem.Wrap(problem.Damaged, err, "registry: %s is damaged", object)
}

// ConflictError says that another party was first, so that the caller has to look and decide again: the version with
// the same key has other files, or an alias is not in the expected state.
type ConflictError struct{ msg string }

// Error says what exists and what to do.
func (e *ConflictError) Error() string { return e.msg }

// Kind is problem.Conflict.
func (*ConflictError) Kind() problem.Kind { return problem.Conflict }

// movedError returns a *ConflictError about an alias that is not in the state that the caller expects.
func movedError(now Alias, expect Expect) error {
	return &ConflictError{fmt.Sprintf("registry: %s of %s points at %s (expected: %s): somebody has moved it "+
		"meanwhile; look at the history and decide again",
		now.Name, now.Model, versionName(now.Version), versionName(expect.Version))}
}

// versionName names a version for people; 0 is none.
func versionName(n int) string {
	if n == 0 {
		return "no version"
	}
	return fmt.Sprintf("version %d", n)
}

// DeletedError is a version that was deleted.
type DeletedError struct {
	Model   string
	Version int
	Act     Act
}

// Error says by whose act.
func (e *DeletedError) Error() string {
	return fmt.Sprintf("registry: version %d of %s was deleted by %s on %s: %s", e.Version, e.Model, e.Act.By,
		e.Act.At.Format(time.DateTime), e.Act.Why)
}

// Kind is problem.NotFound.
func (*DeletedError) Kind() problem.Kind { return problem.NotFound }
