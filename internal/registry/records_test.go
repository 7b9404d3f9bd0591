package registry

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// FuzzRecords checks that a decoded record refers only to valid names, and survives being written again.
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
		data, err := encode(record)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := decodeVersion(data, "ctr", 3); err == nil {
			for _, file := range v.Files {
				if !strings.HasPrefix(file.Object, "registry/ctr/versions/3/") || strings.Contains(file.Object, "..") &&
					!strings.Contains(file.Name, "..") {
					t.Errorf("a file at %q", file.Object)
				}
			}
			survives(t, versionRecord{format, v}, func(data []byte) (any, error) {
				v, err := decodeVersion(data, "ctr", 3)
				return versionRecord{format, v}, err
			})
		}
		if a, err := decodeAlias(data, "ctr", "champion"); err == nil {
			survives(t, aliasRecord{format, a}, func(data []byte) (any, error) {
				a, err := decodeAlias(data, "ctr", "champion")
				return aliasRecord{format, a}, err
			})
		}
		if e, err := decodeEvent(data, "ctr", "champion", 3); err == nil {
			survives(t, eventRecord{format, "ctr", e}, func(data []byte) (any, error) {
				e, err := decodeEvent(data, "ctr", "champion", 3)
				return eventRecord{format, "ctr", e}, err
			})
		}
		if c, err := decodeClaim(data, "ctr", 3); err == nil && checkKey(c.Key) != nil {
			t.Errorf("key %q", c.Key)
		}
		if n, err := decodeKey(data, "ctr", "k"); err == nil && (n < 1 || n > maxNumber) {
			t.Errorf("number %d", n)
		}
	})
}

func survives(t *testing.T, record any, again func([]byte) (any, error)) {
	t.Helper()
	data, err := encode(record)
	if err != nil {
		t.Fatalf("%+v cannot be written: %v", record, err)
	}
	back, err := again(data)
	if err != nil {
		t.Fatalf("%s cannot be read: %v", data, err)
	}
	data2, err := encode(back)
	if err != nil || !reflect.DeepEqual(data, data2) {
		t.Fatalf("%s became %s, %v", data, data2, err)
	}
}

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
			t.Errorf(`parseVersionObject("ctr", object): got %s: %d, %q, %v; want ok = want.ok, not (ok and (number `+
				`!= want.number || rest != want.rest))`, object, number, rest, ok)
		}
	}
	if alias, sequence, ok := parseEventObject("ctr", eventObject("ctr", "champion", 123456789)); !ok ||
		alias != "champion" || sequence != 123456789 {
		t.Errorf(`parseEventObject("ctr", eventObject("ctr", "champion", 123456789)): got %q, %d, %v; want ok, `+
			`alias = "champion", sequence = 123456789`, alias, sequence, ok)
	}
}
