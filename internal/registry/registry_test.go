package registry_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// day returns a time n days after the first.
func day(n int) time.Time { return time.Date(2026, 11, 1+n, 12, 0, 0, 500, time.UTC) }

// info returns what describes a version that is registered on day n.
func info(n int) registry.Info {
	return registry.Info{At: day(n), By: "aggregator", Why: "winner of a sweep",
		Metrics: map[string]float64{"log_loss": 0.25}, Labels: map[string]string{"sweep": "s"}}
}

// act returns an act of ada's on day n.
func act(n int, why string) registry.Act { return registry.Act{By: "ada", Why: why, At: day(n)} }

// files returns a version's three files, of which model.txt contains the text.
func files(text string) map[string][]byte {
	return map[string][]byte{"model.txt": []byte("model " + text), "calibrator.json": []byte("{}"), "empty": {}}
}

// register registers files that contain the key under it.
func register(t *testing.T, r *registry.Registry, model, key string) registry.Version {
	t.Helper()
	return must.Get(r.Register(t.Context(), model, key, files(key), info(0)))(t)
}

// registered returns a registry, and its store, of the model ctr with a version for each key.
func registered(t *testing.T, keys ...string) (blob.Store, *registry.Registry) {
	t.Helper()
	s := blob.Memory()
	r := registry.New(s)
	for _, key := range keys {
		register(t, r, "ctr", key)
	}
	return s, r
}

// snapshot returns the contents of every object, by name.
func snapshot(t *testing.T, s blob.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for a, err := range s.List(t.Context(), "") {
		must.Do(t, err)
		data, _ := must.Get2(blob.ReadAll(t.Context(), s, a.Name, 1<<20))(t)
		out[a.Name] = string(data)
	}
	return out
}

// TestRegisterAndRead: versions are numbered from 1 and read as they were registered; a key that is registered again
// with the same files changes nothing.
func TestRegisterAndRead(t *testing.T) {
	s := blob.Memory()
	r := registry.New(s)
	for i, key := range []string{"sweep-a", "sweep-b", "sweep-c"} {
		v := must.Get(r.Register(t.Context(), "ctr", key, files(key), info(i)))(t)
		if v.Number != i+1 || v.Key != key || !reflect.DeepEqual(v.Info, info(i)) || len(v.Files) != 3 ||
			v.Files[0].Name != "calibrator.json" {
			t.Errorf("registered under %s: got %+v; want version %d with what was given, and three files by name", key,
				v, i+1)
		}
		for name, want := range files(key) {
			if got, err := r.ReadFile(t.Context(), v, name); err != nil || string(got) != string(want) {
				t.Errorf("%s of version %d: got %q, %v; want %q", name, v.Number, got, err, want)
			}
		}
		got, err := r.Get(t.Context(), "ctr", strconv.Itoa(i+1))
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("version %d is read as %+v, %v, expected %+v", i+1, got, err, v)
		}
		if newest, err := r.Get(t.Context(), "ctr", ""); err != nil || newest.Number != i+1 {
			t.Errorf("newest is %d, %v; want the one just registered", newest.Number, err)
		}
	}
	before := snapshot(t, s)
	again, err := r.Register(t.Context(), "ctr", "sweep-b", files("sweep-b"), info(9))
	if err != nil || again.Number != 2 || !again.Info.At.Equal(day(1)) {
		t.Errorf("registering sweep-b again: %+v, %v, expected version 2 with its first time", again, err)
	}
	if !maps.Equal(before, snapshot(t, s)) {
		t.Error("registering again changed some object, want none changed")
	}
	if _, ok := before["registry/ctr/versions/2/model.txt"]; !ok {
		t.Error("there is no object registry/ctr/versions/2/model.txt, where people look for it; want one")
	}
	register(t, r, "another", "sweep-a")
	if models, err := r.Models(t.Context()); err != nil || !slices.Equal(models, []string{"another", "ctr"}) {
		t.Errorf("the models are %v, error %v; want another and ctr", models, err)
	}
	all, err := r.Versions(t.Context(), "ctr")
	if err != nil || len(all) != 3 || all[2].Number != 3 {
		t.Errorf("the versions of ctr are %+v, error %v; want 1 to 3", all, err)
	}
}

// TestManyVersionsKeepTheirOrder: versions are listed by number, and the newest is the highest, also beyond the ninth,
// where the names of their objects sort otherwise.
func TestManyVersionsKeepTheirOrder(t *testing.T) {
	r := registry.New(blob.Memory())
	for i := range 23 {
		if v := register(t, r, "ctr", fmt.Sprint("k", i)); v.Number != i+1 {
			t.Fatalf("version %d is number %d, want the next", i+1, v.Number)
		}
	}
	all := must.Get(r.Versions(t.Context(), "ctr"))(t)
	for i, v := range all {
		if v.Number != i+1 {
			t.Errorf("version %d is listed at place %d; want version %d", v.Number, i, i+1)
		}
	}
	if v, err := r.Get(t.Context(), "ctr", ""); err != nil || v.Number != 23 {
		t.Errorf("newest is %d, %v; want 23", v.Number, err)
	}
}

// TestSameKeyOtherBytes: other files under a key that is taken are a conflict that names one of them.
func TestSameKeyOtherBytes(t *testing.T) {
	s, r := registered(t, "k")
	before := snapshot(t, s)
	for name, tc := range map[string]struct {
		change func(map[string][]byte)
		file   string
	}{
		"changed": {func(f map[string][]byte) { f["model.txt"] = []byte("other") }, "model.txt"},
		"missing": {func(f map[string][]byte) { delete(f, "empty") }, "empty"},
		"more":    {func(f map[string][]byte) { f["features.json"] = nil }, "features.json"},
	} {
		t.Run(name, func(t *testing.T) {
			f := files("k")
			tc.change(f)
			_, err := r.Register(t.Context(), "ctr", "k", f, info(0))
			if !errors.As(err, new(*registry.ConflictError)) {
				t.Fatalf("registered other files under the key of version 1: error %v, expected a conflict", err)
			}
			want := "registry: version 1 of ctr is already registered under the key k, with a different " + tc.file +
				"; use another key"
			if err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
	if !maps.Equal(before, snapshot(t, s)) {
		t.Error("a conflict wrote something, want nothing")
	}
}

// TestAliases: an alias is promoted, rolled back and set only from where the caller expects it to be, and keeps the
// versions that it can be rolled back to. Repeating a call changes nothing. The history has all moves.
func TestAliases(t *testing.T) {
	_, r := registered(t, "a", "b", "c")
	ctx := t.Context()
	promote := func(to int, from registry.Expect, day int, why string) func() error {
		return func() error { return third(r.Promote(ctx, "ctr", to, from, act(day, why))) }
	}
	rollback := func(from registry.Expect, day int) func() error {
		return func() error { return third(r.Rollback(ctx, "ctr", "champion", 0, from, act(day, "alarm"))) }
	}
	none, anywhere := registry.Expect{}, registry.Expect{Any: true}
	at := func(version int) registry.Expect { return registry.Expect{Version: version} }
	steps := []struct {
		what string
		do   func() error
		at   int    // the champion's version after the step
		past []int  // to which it can be rolled back
		err  string // of the step; empty for none
	}{
		{"promote 1", promote(1, none, 1, "first"), 1, nil, ""},
		{"promote 1 again", promote(1, none, 2, "first"), 1, nil, ""},
		{"promote 3, believing that there is none", promote(3, none, 2, "no"), 1, nil, "registry: champion of ctr " +
			"points at version 1 (expected: no version): somebody has moved it meanwhile; look at the history and " +
			"decide again"},
		{"promote 2", promote(2, at(1), 3, "better"), 2, []int{1}, ""},
		{"promote 3", promote(3, anywhere, 4, "better still"), 3, []int{1, 2}, ""},
		{"promote 4", promote(4, anywhere, 5, "no"), 3, []int{1, 2},
			`registry: there is no version "4" of ctr (its versions are 1-3)`},
		{"roll back from 2", rollback(at(2), 6), 3, []int{1, 2}, "registry: champion of ctr points at version 3 " +
			"(expected: version 2): somebody has moved it meanwhile; look at the history and decide again"},
		{"roll back", rollback(at(3), 6), 2, []int{1}, ""},
		{"roll back again from 3", rollback(at(3), 6), 2, []int{1}, ""},
		{"roll back further", rollback(anywhere, 7), 1, []int{}, ""},
		{"roll back too far", rollback(anywhere, 8), 1, []int{},
			"registry: champion of ctr has no earlier version to return to; promote another one"},
		{"another alias", func() error {
			return third(r.SetAlias(ctx, "ctr", "canary", 3, none, act(5, "try it")))
		}, 1, []int{}, ""},
	}
	for _, step := range steps {
		err := step.do()
		if got := fmt.Sprint(err); err != nil && got != step.err || err == nil && step.err != "" {
			t.Fatalf("%s: got  %v\nwant %s", step.what, err, step.err)
		}
		a, err := r.Alias(ctx, "ctr", "champion")
		if err != nil || a.Version != step.at || len(a.Past) != len(step.past) || len(a.Past) > 0 &&
			!slices.Equal(a.Past, step.past) {
			t.Fatalf("%s: the champion is %+v, error %v; want version %d, and %v before it", step.what, a, err, step.at,
				step.past)
		}
	}
	if v, err := r.Get(ctx, "ctr", ""); err != nil || v.Number != 1 {
		t.Errorf("the champion is %d, %v; want 1", v.Number, err)
	}
	if v, err := r.Get(ctx, "ctr", "canary"); err != nil || v.Number != 3 {
		t.Errorf("the canary is %d, %v; want 3", v.Number, err)
	}
	if all, err := r.Aliases(ctx, "ctr"); err != nil || len(all) != 2 || all[0].Name != "canary" ||
		all[1].Version != 1 {
		t.Errorf("the aliases are %+v, error %v; want the canary, and the champion at version 1", all, err)
	}
	got := describe(history(t, r, "ctr"))
	want := []string{
		"registered  0: 0 to 1 by aggregator: winner of a sweep",
		"registered  0: 0 to 2 by aggregator: winner of a sweep",
		"registered  0: 0 to 3 by aggregator: winner of a sweep",
		"promoted champion 1: 0 to 1 by ada: first", "promoted champion 2: 1 to 2 by ada: better",
		"promoted champion 3: 2 to 3 by ada: better still",
		"promoted canary 1: 0 to 3 by ada: try it", "rolled_back champion 4: 3 to 2 by ada: alarm",
		"rolled_back champion 5: 2 to 1 by ada: alarm",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// history returns a model's history, which must be intact.
func history(t *testing.T, r *registry.Registry, model string) []registry.Event {
	t.Helper()
	return must.Get(r.History(t.Context(), model))(t)
}

// describe returns events as text, without times and checksums.
func describe(events []registry.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprintf("%s %s %d: %d to %d by %s: %s", e.Kind, e.Alias, e.Sequence, e.From, e.To, e.By,
			e.Why))
	}
	return out
}

// TestHistoryTrustsSequencesMoreThanClocks: in the history, the moves of an alias stay in their sequence, and after the
// registration of their version, although the clocks of those who made them say otherwise. Version 1 was registered on
// day 0 and version 2 on day 5; the champion was moved to them in turn, by clocks that said day 3, 1, 7 and -9.
func TestHistoryTrustsSequencesMoreThanClocks(t *testing.T) {
	r := registry.New(blob.Memory())
	ctx := t.Context()
	for i, key := range []string{"a", "b"} {
		must.Get(r.Register(ctx, "ctr", key, files(key), info(5*i)))(t)
	}
	for i, at := range []int{3, 1, 7, -9} {
		must.Get(r.Promote(ctx, "ctr", 1+i%2, registry.Expect{Any: true}, act(at, strconv.Itoa(i))))(t)
	}
	got := describe(history(t, r, "ctr"))
	want := []string{
		"registered  0: 0 to 1 by aggregator: winner of a sweep", "promoted champion 1: 0 to 1 by ada: 0",
		"registered  0: 0 to 2 by aggregator: winner of a sweep",
		"promoted champion 2: 1 to 2 by ada: 1", "promoted champion 3: 2 to 1 by ada: 2",
		"promoted champion 4: 1 to 2 by ada: 3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestPastIsBounded: an alias's record has the last 100 versions; its history has all moves. There are 130, to versions
// 1 and 2 in turn, and two registrations.
func TestPastIsBounded(t *testing.T) {
	_, r := registered(t, "a", "b")
	for i := range 130 {
		must.Get(r.Promote(t.Context(), "ctr", 1+i%2, registry.Expect{Any: true}, act(i, "swing")))(t)
	}
	a, err := r.Alias(t.Context(), "ctr", "champion")
	if err != nil || len(a.Past) != 100 || a.Past[99] != 1 || a.Version != 2 || a.Last.Sequence != 130 {
		t.Errorf("the champion after 130 moves is %+v, error %v; want version 2, and a past of 100 that ends with 1", a,
			err)
	}
	if n := len(history(t, r, "ctr")); n != 132 {
		t.Errorf("%d events, want 132", n)
	}
}

// TestNotFound: the error for a model, version, alias or file that does not exist is of kind NotFound, and says what
// exists or what may have been meant.
func TestNotFound(t *testing.T) {
	r := registry.New(blob.Memory())
	ctx := t.Context()
	check := func(what string, err error, want string) {
		t.Helper()
		if !problem.Is(err, problem.NotFound) || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", what, err, want)
		}
	}
	const noModel = `registry: there is no model "click" (did you mean "clicks"?)`
	check("empty", third(r.Get(ctx, "ctr", "")), `registry: there is no model "ctr" (the registry is empty)`)
	if models, err := r.Models(ctx); err != nil || len(models) != 0 {
		t.Errorf("the models of an empty registry are %v, error %v; want none", models, err)
	}
	v := register(t, r, "clicks", "a")
	register(t, r, "clicks", "b")
	check("model", third(r.Get(ctx, "click", "")), noModel)
	check("versions", third(r.Versions(ctx, "click")), noModel)
	check("history", third(r.History(ctx, "click")), noModel)
	check("model by alias", third(r.Get(ctx, "click", "champion")), noModel)
	check("model by number", third(r.Get(ctx, "click", "3")), noModel)
	check("version", third(r.Get(ctx, "clicks", "3")),
		`registry: there is no version "3" of clicks (its versions are 1-2)`)
	check("no alias", third(r.Get(ctx, "clicks", "champion")), `registry: there is no alias "champion" of clicks`)
	must.Get(r.Promote(ctx, "clicks", 2, registry.Expect{}, act(0, "x")))(t)
	check("alias", third(r.Get(ctx, "clicks", "champ")),
		`registry: there is no alias "champ" of clicks (did you mean "champion"?)`)
	check("rollback", third(r.Rollback(ctx, "clicks", "canary", 0, registry.Expect{Any: true}, act(0, "x"))),
		`registry: there is no alias "canary" of clicks (known: champion)`)
	check("file", third(r.ReadFile(ctx, v, "model.text")),
		`registry: there is no file "model.text" in version 1 of clicks (did you mean "model.txt"?)`)
}

// contents returns an object's text.
func contents(t *testing.T, s blob.Store, object string) string {
	t.Helper()
	text, _ := must.Get2(blob.ReadAll(t.Context(), s, object, 1<<20))(t)
	return string(text)
}

// chained returns a registry, and its store, of a model with three versions, each of which became the champion.
func chained(t *testing.T) (blob.Store, *registry.Registry) {
	t.Helper()
	s := blob.Memory()
	r := registry.New(s)
	for i, key := range []string{"a", "b", "c"} {
		register(t, r, "ctr", key)
		must.Get(r.Promote(t.Context(), "ctr", i+1, registry.Expect{Version: i}, act(i, "better")))(t)
	}
	return s, r
}

// TestVerifyWholeHistory: Verify of an intact model counts its versions, files and moves, and returns the last move
// of the champion.
func TestVerifyWholeHistory(t *testing.T) {
	_, r := chained(t)
	must.Get(r.Rollback(t.Context(), "ctr", registry.Champion, 0, registry.Expect{Version: 3}, act(4, "alarm")))(t)
	v := must.Get(r.Verify(t.Context(), "ctr"))(t)
	h := v.Heads[0]
	if v.Versions != 3 || v.Files != 9 || len(v.Moves) != 4 || h.Version != 2 || h.Sequence != 4 ||
		v.Moves[3] != h.SHA256 {
		t.Errorf("verified %+v, want 3 versions, 9 files, 4 chained moves that end at version 2", v)
	}
}

// TestVerifyNoticesEveryChange: if a move, an alias, a version's record or a file is changed, Verify returns an error
// of kind Damaged that names the object, or the next move, whose checksum of it is wrong.
func TestVerifyNoticesEveryChange(t *testing.T) {
	const history, champion = "registry/ctr/history/champion/", "registry/ctr/aliases/champion.json"
	for name, tc := range map[string]struct{ object, old, fresh, named string }{
		"reason of the first move": {history + "00000001.json", `"why": "better"`, `"why": "worse"`,
			history + "00000002.json"},
		"time of the second move": {history + "00000002.json", "2026-11-02", "2026-10-02", history + "00000003.json"},
		"version of a move":       {history + "00000002.json", `"to": 2`, `"to": 3`, history + "00000003.json"},
		"link of a move": {history + "00000002.json", `"previous": "`, `"previous_": "`,
			history + "00000002.json"},
		"who made the last": {champion, `"by": "ada"`, `"by": "bob"`, history + "00000003.json"},
		"a version's record": {"registry/ctr/versions/2/version.json", "winner of a sweep", "winner of a race",
			"registry/ctr/versions/2/version.json"},
		"a file": {"registry/ctr/versions/2/model.txt", "model b", "model x",
			"registry/ctr/versions/2/model.txt"},
		"where a file is looked up": {"registry/ctr/versions/1/version.json", `"model": "ctr"`, `"model": "other"`,
			"registry/ctr/versions/1/version.json"},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := chained(t)
			before := contents(t, s, tc.object)
			after := strings.Replace(before, tc.old, tc.fresh, 1)
			if after == before {
				t.Fatalf("%s has no %q", tc.object, tc.old)
			}
			overwrite(t, s, tc.object, after)

			_, err := r.Verify(t.Context(), "ctr")
			if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), tc.named) {
				t.Errorf("after %s was changed: got %v, want an error that names %s", tc.object, err, tc.named)
			}
		})
	}
}

// TestVerifyNoticesAnotherHistory: Verify notices a first move that was copied from another alias's history, with the
// alias's name replaced.
func TestVerifyNoticesAnotherHistory(t *testing.T) {
	s, r := chained(t)
	must.Get(r.SetAlias(t.Context(), "ctr", "canary", 2, registry.Expect{}, act(5, "watch")))(t)
	stolen := strings.ReplaceAll(contents(t, s, "registry/ctr/history/canary/00000001.json"), `"canary"`, `"champion"`)
	overwrite(t, s, "registry/ctr/history/champion/00000001.json", stolen)
	if _, err := r.Verify(t.Context(), "ctr"); err == nil || !strings.Contains(err.Error(), "champion/00000001.json") {
		t.Errorf("another alias's first move: got %v, want an error about champion/00000001.json", err)
	}
}

// TestAMoveBeginsWhereTheLastOneEnded: a first move that was written by hand is damaged if it starts from a version,
// where the alias was not, or if it does not have the SHA-256 with which a history begins.
func TestAMoveBeginsWhereTheLastOneEnded(t *testing.T) {
	const mallory = `{"format":1,"model":"ctr","kind":"promoted","alias":"champion","sequence":1,"from":%FROM,` +
		`"to":2,"by":"mallory","why":"x","at":"2026-11-01T00:00:00Z","previous":"%PREVIOUS"}`
	start := sha256.Sum256([]byte("registry/ctr/history/champion"))
	for name, tc := range map[string]struct{ from, previous, says string }{
		"a first move from a version": {"1", hex.EncodeToString(start[:]),
			"it moves the alias from version 1, but the alias was at no version"},
		"a first move without a link": {"0", "", "one of them was changed"},
		"a good first move":           {"0", hex.EncodeToString(start[:]), ""},
	} {
		store, r := registered(t, "one", "two")
		text := strings.NewReplacer("%FROM", tc.from, "%PREVIOUS", tc.previous).Replace(mallory)
		must.Get(blob.Create(t.Context(), store, "registry/ctr/history/champion/00000001.json", []byte(text)))(t)
		_, err := r.History(t.Context(), "ctr")
		if tc.says == "" && err != nil || tc.says != "" &&
			(!problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: read with error %v, expected %q", name, err, tc.says)
		}
	}
}
