package registry_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

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
		"nobody":         {"ctr", "k", good, func(i *registry.Info) { i.By = " " }},
		"long":           {"ctr", "k", good, func(i *registry.Info) { i.Why = long }},
		"escape":         {"ctr", "k", good, func(i *registry.Info) { i.Why = "\x1b[2J" }},
		"not utf-8":      {"ctr", "k", good, func(i *registry.Info) { i.By = "\xff" }},
		"nan":            {"ctr", "k", good, func(i *registry.Info) { i.Metrics = map[string]float64{"auc": nan()} }},
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
			t.Errorf("got %s: %v (%T); want one of kind input", name, err, err)
		}
	}
	if n := len(snapshot(t, s)); n != 0 {
		t.Fatalf("%d objects were written", n)
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
		"rollback":  third(r.Rollback(ctx, "ctr", "..", registry.Expect{}, act(0, "x"))),
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
			t.Errorf("got %s: %v (%T); want one of kind input", name, err, err)
		}
	}
	if !maps.Equal(before, snapshot(t, s)) {
		t.Error("something was written")
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

func third[T any](_ T, err error) error { return err }
