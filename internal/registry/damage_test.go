package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// overwrite replaces the contents of an object.
func overwrite(t *testing.T, s blob.Store, object, text string) {
	t.Helper()
	must.Get(s.Put(t.Context(), object, blob.Any, strings.NewReader(text)))(t)
}

// TestDamage: if an object is changed, reading it is an error of kind Damaged that names the object and says what is
// wrong with it. What can still be read is returned.
func TestDamage(t *testing.T) {
	const model, version = "registry/ctr/versions/1/model.txt", "registry/ctr/versions/1/version.json"
	get := func(r *registry.Registry) error { return third(r.Get(t.Context(), "ctr", "1")) }
	read := func(r *registry.Registry) error {
		v, err := r.Get(t.Context(), "ctr", "1")
		if err != nil {
			return err
		}
		return third(r.ReadFile(t.Context(), v, "model.txt"))
	}
	for name, tc := range map[string]struct {
		object, text string                         // which object, and its new contents
		do           func(*registry.Registry) error // reads it
		want         string                         // part of the error
	}{
		"file":        {model, "model A", read, "7 bytes with SHA-256"},
		"longer file": {model, strings.Repeat("x", 1000), read, "object is too long: more than the 7 bytes"},
		"version":     {version, "{", get, "unexpected end of JSON"},
		"format":      {version, `{"format":2}`, get, "format 2; this build reads 1"},
		"huge record": {version, strings.Repeat(" ", 1<<20+1), get, "object is too long: more than the 1048576 bytes"},
		"versions": {version, "{", func(r *registry.Registry) error {
			all, err := r.Versions(t.Context(), "ctr")
			if len(all) != 1 || all[0].Number != 2 {
				return fmt.Errorf("the other version is not there: %+v", all)
			}
			return err
		}, "unexpected end of JSON"},
		"alias": {"registry/ctr/aliases/champion.json", `{"format":1,"model":"ctr","alias":"champion","version":7}`,
			func(r *registry.Registry) error { return third(r.Get(t.Context(), "ctr", "")) },
			"it is \"champion\" of \"ctr\" at version 7"},
		"event": {"registry/ctr/history/champion/00000001.json", "[]", func(r *registry.Registry) error {
			events, err := r.History(t.Context(), "ctr")
			if len(events) != 3 { // two registrations and the second move
				return fmt.Errorf("%d events", len(events))
			}
			return err
		}, "an object belongs here"},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := registered(t, "a", "b")
			for i := range 2 {
				must.Get(r.Promote(t.Context(), "ctr", 1+i, registry.Expect{Any: true}, act(i, "x")))(t)
			}
			overwrite(t, s, tc.object, tc.text)
			err := tc.do(r)
			if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), tc.object) {
				t.Errorf("with other bytes at %s: got error %v; want one of kind damaged that names it and says %q",
					tc.object, err, tc.want)
			}
		})
	}
}

// TestStrangersInTheBucket: objects with names that the registry does not write are ignored. A claim that cannot be
// read takes its number.
func TestStrangersInTheBucket(t *testing.T) {
	s, r := registered(t, "a")
	for _, object := range []string{
		"registry/ctr/versions/README", "registry/ctr/versions/02/version.json", "registry/ctr/versions/-3/claim.json",
		"registry/ctr/versions/x/claim.json",
		"registry/ctr/versions/9/model.txt", "registry/ctr/versions/99999999999999999999/claim.json",
		"registry/_models/README", "registry/_models/Bad Name.json",
		"registry/_models/empty.json", "registry/ctr/aliases/notes.txt", "registry/ctr/aliases/a/b.json",
		"registry/ctr/history/champion/1.json", "registry/ctr/history/x",
	} {
		overwrite(t, s, object, "not ours")
	}
	if v := register(t, r, "ctr", "b"); v.Number != 2 {
		t.Errorf("registered as number %d, want 2", v.Number)
	}
	if models, err := r.Models(t.Context()); err != nil || !slices.Equal(models, []string{"ctr"}) {
		t.Errorf("the models beside a stray object: got %v, %v; want ctr", models, err)
	}
	if all, err := r.Aliases(t.Context(), "ctr"); err != nil || len(all) != 0 {
		t.Errorf("the aliases beside a stray object: got %v, %v; want none", all, err)
	}
	if n := len(history(t, r, "ctr")); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	overwrite(t, s, "registry/ctr/versions/3/claim.json", "a claim that cannot be read takes the number")
	if v := register(t, r, "ctr", "c"); v.Number != 4 {
		t.Errorf("registered as number %d, want 4", v.Number)
	}
}

// TestDeletedEventIsNoticed: if a move is missing from the history, History returns the other events, with an error of
// kind Damaged that names the object.
func TestDeletedEventIsNoticed(t *testing.T) {
	s, r := registered(t, "a", "b")
	for i := range 4 {
		must.Get(r.Promote(t.Context(), "ctr", 1+i%2, registry.Expect{Any: true}, act(i, "x")))(t)
	}
	const object = "registry/ctr/history/champion/00000002.json"
	deleted := &blobtest.Hooked{Store: s, Hides: func(name string) bool { return name == object }}
	events, err := registry.New(deleted).History(t.Context(), "ctr")
	if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), object) || len(events) != 5 {
		t.Errorf("%d events, error %v; want 5 and one of kind damaged that names the missing one", len(events), err)
	}
}

var errCut = errors.New("the connection was cut")

// TestBrokenReadIsNoDamage: a read that breaks off is an error of the store, not of kind Damaged.
func TestBrokenReadIsNoDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	s := blob.Memory()
	register(t, registry.New(s), "ctr", "a")
	r := registry.New(&blobtest.Hooked{Store: s, Reads: func(name string, data []byte) ([]byte, error) {
		if name == "registry/ctr/versions/1/version.json" {
			return data[:1], errCut
		}
		return data, nil
	}})
	_, err := r.Get(t.Context(), "ctr", "1")
	if !errors.Is(err, errCut) || problem.Is(err, problem.Damaged) {
		t.Errorf("a read that breaks off: got error %v; want errCut, and no word of damage", err)
	}
}

// TestCancelled: each operation returns context.Canceled if its context is cancelled.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := registry.New(blob.Memory())
	for name, err := range map[string]error{
		"register": third(r.Register(ctx, "ctr", "k", files("k"), info(0))),
		"get":      third(r.Get(ctx, "ctr", "")),
		"models":   third(r.Models(ctx)),
		"versions": third(r.Versions(ctx, "ctr")),
		"history":  third(r.History(ctx, "ctr")),
		"promote":  third(r.Promote(ctx, "ctr", 1, registry.Expect{}, act(0, "x"))),
		"rollback": third(r.Rollback(ctx, "ctr", "champion", 0, registry.Expect{}, act(0, "x"))),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v; want context.Canceled", name, err)
		}
	}
}

// TestFindWhateverIsDamaged: what was registered under a key is found by any of the records that say so, and
// registering it again is still harmless.
func TestFindWhateverIsDamaged(t *testing.T) {
	const (
		key, claim, version = "registry/ctr/keys/a.json", "registry/ctr/versions/1/claim.json",
			"registry/ctr/versions/1/version.json"
		others = `{"format":1,"model":"ctr","key":"b","version":1}`
	)
	for name, tc := range map[string]struct {
		spoil     map[string]string // new contents, by object
		number    int               // that Find returns; 0 for none
		corrupt   bool              // Find returns an error of kind Damaged
		registers bool              // registering again returns version 1, or else such an error
	}{
		"nothing":            {nil, 1, false, true},
		"key":                {map[string]string{key: "{"}, 1, false, true},
		"key, another's":     {map[string]string{key: others}, 1, false, true},
		"claim":              {map[string]string{claim: "{"}, 1, false, true},
		"key and claim":      {map[string]string{key: "{", claim: "{"}, 1, false, true},
		"version":            {map[string]string{version: "{"}, 1, true, false},
		"key and version":    {map[string]string{key: "{", version: "{"}, 1, true, false},
		"all that say whose": {map[string]string{key: "{", claim: "{", version: "{"}, 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := registered(t, "a", "b")
			for object, text := range tc.spoil {
				overwrite(t, s, object, text)
			}

			v, err := r.Find(t.Context(), "ctr", "a")
			if v.Number != tc.number || problem.Is(err, problem.Damaged) != tc.corrupt || err != nil && !tc.corrupt {
				t.Errorf("Find gives version %d and %v; want version %d, damaged: %t", v.Number, err, tc.number,
					tc.corrupt)
			}
			if v, err := r.Register(t.Context(), "ctr", "a", files("a"), info(5)); tc.registers &&
				(err != nil || v.Number != 1) || !tc.registers && !problem.Is(err, problem.Damaged) {
				t.Errorf("registering again gives version %d and %v; want version 1: %t, else an error of kind Damaged",
					v.Number, err, tc.registers)
			}
		})
	}

	r := registry.New(blob.Memory())
	if _, err := r.Find(t.Context(), "ctr", "a"); !problem.Is(err, problem.NotFound) {
		t.Errorf("Find in an empty registry: got error %v, want one of kind NotFound", err)
	}
}

// TestHostileInput: names that could lead to another object, and texts, times or numbers that are too long, too many or
// not valid, are errors of kind Input, and nothing is written.
func TestHostileInput(t *testing.T) {
	s := blob.Memory()
	r := registry.New(s)
	ctx := t.Context()
	good := files("x")
	long := strings.Repeat("x", 5000)
	var many = map[string][]byte{}
	for i := range 65 {
		many[fmt.Sprint("f", i)] = nil
	}
	for name, tc := range map[string]struct {
		model, key string
		files      map[string][]byte
		info       func(*registry.Info)
	}{
		"model":      {"../x", "k", good, nil},
		"no model":   {"", "k", good, nil},
		"marker":     {"_models", "k", good, nil},
		"key":        {"ctr", "../../k", good, nil},
		"dotted key": {"ctr", "..", good, nil},
		"no key":     {"ctr", "", good, nil},
		"no files":   {"ctr", "k", nil, nil},
		"many files": {"ctr", "k", many, nil},
		"path":       {"ctr", "k", map[string][]byte{"../model.txt": nil}, nil},
		"folder":     {"ctr", "k", map[string][]byte{"a/b": nil}, nil},
		"dots":       {"ctr", "k", map[string][]byte{"..": nil}, nil},
		"claim":      {"ctr", "k", map[string][]byte{"claim.json": nil}, nil},
		"version":    {"ctr", "k", map[string][]byte{"version.json": nil}, nil},
		"no name":    {"ctr", "k", map[string][]byte{"": nil}, nil},
		"no time":    {"ctr", "k", good, func(i *registry.Info) { i.At = time.Time{} }},
		"odd time": {"ctr", "k", good,
			func(i *registry.Info) { i.At = time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC) }},
		"nobody":    {"ctr", "k", good, func(i *registry.Info) { i.By = " " }},
		"long":      {"ctr", "k", good, func(i *registry.Info) { i.Why = long }},
		"escape":    {"ctr", "k", good, func(i *registry.Info) { i.Why = "\x1b[2J" }},
		"not utf-8": {"ctr", "k", good, func(i *registry.Info) { i.By = "\xff" }},
		"nan": {"ctr", "k", good,
			func(i *registry.Info) { i.Metrics = map[string]float64{"auc": math.NaN()} }},
		"unnamed metric": {"ctr", "k", good, func(i *registry.Info) { i.Metrics = map[string]float64{"": 1} }},
		"label":          {"ctr", "k", good, func(i *registry.Info) { i.Labels = map[string]string{"a": "\x00"} }},
		"unnamed label":  {"ctr", "k", good, func(i *registry.Info) { i.Labels = map[string]string{"": "a"} }},
		"many facts": {"ctr", "k", good, func(i *registry.Info) {
			i.Labels = map[string]string{}
			for j := range 1001 {
				i.Labels[strconv.Itoa(j)] = ""
			}
		}},
	} {
		in := info(0)
		if tc.info != nil {
			tc.info(&in)
		}
		_, err := r.Register(ctx, tc.model, tc.key, tc.files, in)
		if !problem.Is(err, problem.Input) {
			t.Errorf("register, %s: got error %v (%T); want one of kind Input", name, err, err)
		}
	}
	if n := len(snapshot(t, s)); n != 0 {
		t.Fatalf("%d objects were written, want none", n)
	}
	register(t, r, "ctr", "k")
	before := snapshot(t, s)
	for name, err := range map[string]error{
		"alias":     third(r.SetAlias(ctx, "ctr", "../x", 1, registry.Expect{}, act(0, "x"))),
		"number":    third(r.SetAlias(ctx, "ctr", "7", 1, registry.Expect{}, act(0, "x"))),
		"no reason": third(r.Promote(ctx, "ctr", 1, registry.Expect{}, act(0, ""))),
		"no name":   third(r.Promote(ctx, "ctr", 1, registry.Expect{}, registry.Act{Why: "x", At: day(0)})),
		"no time":   third(r.Promote(ctx, "ctr", 1, registry.Expect{}, registry.Act{Why: "x", By: "x"})),
		"model":     third(r.Promote(ctx, "..", 1, registry.Expect{}, act(0, "x"))),
		"rollback":  third(r.Rollback(ctx, "ctr", "..", 0, registry.Expect{}, act(0, "x"))),
		"get":       third(r.Get(ctx, "../ctr", "")),
		"get alias": third(r.Get(ctx, "ctr", "../1")),
		"get zero":  third(r.Get(ctx, "ctr", "0")),
		"get plus":  third(r.Get(ctx, "ctr", "+1")),
		"versions":  third(r.Versions(ctx, "a/b")),
		"history":   third(r.History(ctx, "a/b")),
		"aliases":   third(r.Aliases(ctx, "a/b")),
		"one alias": third(r.Alias(ctx, "a/b", "x")),
		"forged path": third(r.ReadFile(ctx, registry.Version{Model: "ctr", Number: 1,
			Files: []registry.File{{Name: "x", Object: "registry/secret", SHA256: strings.Repeat("a", 64)}}}, "x")),
	} {
		if !problem.Is(err, problem.Input) {
			t.Errorf("%s: got error %v (%T); want one of kind Input", name, err, err)
		}
	}
	if !maps.Equal(before, snapshot(t, s)) {
		t.Error("something was written, want nothing")
	}
}

// third returns the error of a call, and drops its other result.
func third[T any](_ T, err error) error { return err }

// TestExport: Export writes the version's record and files into a new folder, with the registry's bytes. It refuses a
// folder with files in it, and leaves nothing behind if a file of the version is damaged.
func TestExport(t *testing.T) {
	s, r := chained(t)
	ctx := t.Context()
	v := must.Get(r.Get(ctx, "ctr", "3"))(t)
	folder := filepath.Join(t.TempDir(), "new", "version")
	must.Do(t, r.Export(ctx, v, folder))
	record := must.Get(v.Record())(t)
	want := map[string]string{"version.json": string(record)}
	for _, f := range v.Files {
		data := must.Get(r.ReadFile(ctx, v, f.Name))(t)
		want[f.Name] = string(data)
	}
	for name, text := range want {
		if data, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(data) != text {
			t.Errorf("%s has %d bytes (%v), want the registry's %d", name, len(data), err, len(text))
		}
	}
	if err := r.Export(ctx, v, folder); err == nil {
		t.Error("a version was written into a folder with files in it; want an error")
	}

	overwrite(t, s, "registry/ctr/versions/3/model.txt", "model x")
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := r.Export(ctx, v, damaged); !problem.Is(err, problem.Damaged) {
		t.Errorf("of a damaged version: got %v, want an error of kind Damaged", err)
	}
	if left, err := os.ReadDir(filepath.Dir(damaged)); err != nil || len(left) > 0 {
		t.Errorf("%v is left of a damaged version (%v); want nothing", left, err)
	}
}

// TestExported: Exported opens a folder that Export has written as a registry of one version. A file or record that was
// altered is an error of kind Damaged, when it is opened or read, and an empty folder one of kind NotFound.
func TestExported(t *testing.T) {
	_, r := chained(t)
	ctx := t.Context()
	v := must.Get(r.Get(ctx, "ctr", "3"))(t)
	folder := filepath.Join(t.TempDir(), "version")
	must.Do(t, r.Export(ctx, v, folder))
	again, found, err := registry.Exported(ctx, folder)
	if err != nil || found.Model != "ctr" || found.Number != 3 {
		t.Fatalf("got %s@%d, %v, want ctr@3", found.Model, found.Number, err)
	}
	for _, f := range v.Files {
		want, err1 := r.ReadFile(ctx, v, f.Name)
		got, err2 := again.ReadFile(ctx, found, f.Name)
		if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes, %v, want %d, %v", f.Name, len(got), err2, len(want), err1)
		}
	}

	name := filepath.Join(folder, v.Files[0].Name)
	text := must.Get(os.ReadFile(name))(t)
	altered := append([]byte{text[0] ^ 1}, text[1:]...)
	for what, data := range map[string][]byte{"a byte changed": altered, "a byte missing": text[1:]} {
		must.Do(t, os.WriteFile(name, data, 0o644))
		again, found, err := registry.Exported(ctx, folder)
		if err == nil {
			_, err = again.ReadFile(ctx, found, v.Files[0].Name)
		}
		if !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: got %v, want an error of kind Damaged", what, err)
		}
	}
	for what, record := range map[string]string{"half a record": "{", "no number": `{"format":1,"model":"ctr"}`} {
		must.Do(t, os.WriteFile(filepath.Join(folder, "version.json"), []byte(record), 0o644))
		if _, _, err := registry.Exported(ctx, folder); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: got %v, want an error of kind Damaged", what, err)
		}
	}
	if _, _, err := registry.Exported(ctx, t.TempDir()); !problem.Is(err, problem.NotFound) {
		t.Errorf("an empty folder: got %v, want an error of kind NotFound", err)
	}
}
