package registry

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
)

// FuzzRecords: any bytes are refused as a record, or decoded into one that refers only to objects of its own version
// and is the same after it was written and read again.
func FuzzRecords(f *testing.F) {
	at := time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC)
	v := Version{Model: "ctr", Number: 3, Key: "k",
		Info:  Info{At: at, By: "x", Metrics: map[string]float64{"auc": 0.7}},
		Files: []File{{"model.txt", "registry/ctr/versions/3/model.txt", 5, strings.Repeat("ab", 32)}}}
	e := Event{Kind: Promoted, Alias: "champion", Sequence: 3, From: 1, To: 3, By: "x", Why: "y", At: at}
	for _, record := range []any{
		versionRecord{format, v}, aliasRecord{format, Alias{"ctr", "champion", 3, e, []int{1}}},
		eventRecord{format, "ctr", e}, claimRecord{format, "ctr", 3, "k"},
		map[string]any{"format": 1, "model": "ctr", "version": 3, "key": "k",
			"files": []File{{"model.txt", "registry/../secret", 5, strings.Repeat("ab", 32)}}},
	} {
		data := must.Get(encode(record))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		survives(t, data, func(v *versionRecord) error { return v.check("ctr", 3) }, func(v versionRecord) {
			for _, file := range v.Files {
				if !strings.HasPrefix(file.Object, "registry/ctr/versions/3/") || strings.Contains(file.Object, "..") &&
					!strings.Contains(file.Name, "..") {
					t.Errorf("read from %q: got a file at %q, want it inside its version", data, file.Object)
				}
			}
		})
		survives(t, data, func(a *aliasRecord) error { return a.check("ctr", "champion") }, nil)
		survives(t, data, func(e *eventRecord) error { return e.check("ctr", "champion", 3) }, nil)
	})
}

// survives decodes data as a record of type T, passes it to look, which may be nil, and checks that writing it and
// reading it again gives the same bytes. Data that cannot be decoded are fine.
func survives[T any](t *testing.T, data []byte, check func(*T) error, look func(T)) {
	t.Helper()
	record, err := decode("object", data, check)
	if err != nil {
		return
	}
	if look != nil {
		look(record)
	}
	data, err = encode(record)
	if err != nil {
		t.Fatalf("%+v was read: writing it gives error %v, want none", record, err)
	}
	back, err := decode("object", data, check)
	if err != nil {
		t.Fatalf("%s was written: reading it gives error %v, want none", data, err)
	}
	if again, err := encode(back); err != nil || !bytes.Equal(data, again) {
		t.Fatalf("%s, read and written again: got %s, error %v; want the same", data, again, err)
	}
}

// TestObjectNames: the name of a version's object is split into number and file if it is spelled as the registry
// does, and is not valid otherwise. The name of an event is read back as it was made.
func TestObjectNames(t *testing.T) {
	for object, want := range map[string]struct {
		number int
		rest   string
		ok     bool
	}{
		"registry/ctr/versions/12/model.txt":     {12, "model.txt", true},
		"registry/ctr/versions/1/other/ab/m":     {1, "other/ab/m", true},
		"registry/ctr/versions/012/model.txt":    {ok: false},
		"registry/ctr/versions/+1/model.txt":     {ok: false},
		"registry/ctr/versions/0/model.txt":      {ok: false},
		"registry/ctr/versions/1":                {ok: false},
		"registry/other/versions/1/model.txt":    {ok: false},
		"registry/ctr/versions/2000000000/claim": {ok: false},
	} {
		number, rest, ok := parseVersionObject("ctr", object)
		if ok != want.ok || ok && (number != want.number || rest != want.rest) {
			t.Errorf("%s: got version %d, the rest %q, valid %t; want %+v", object, number, rest, ok, want)
		}
	}
	if alias, sequence, ok := parseEventObject("ctr", eventObject("ctr", "champion", 123456789)); !ok ||
		alias != "champion" || sequence != 123456789 {
		t.Errorf("the name of event 123456789 of champion, read back: got event %d of %q, valid %t; want the same",
			sequence, alias, ok)
	}
}
