package stager_test

import (
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/nights/nightstest"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// TestFetch: what was staged into a bucket is listed, and comes out of it whole; damaged, it is an error.
func TestFetch(t *testing.T) {
	store, dir := blob.Memory(), t.TempDir()
	s := &stager.Stager{Scratch: t.TempDir()}
	dst := stager.Destination{Store: store, URL: "gs://d"}
	stream := nightstest.Stream{Seed: 2, Rows: 1000}
	first := night(t, s, stream.Night(0), dst, "")
	second := night(t, s, stream.Night(1), dst, "")

	all, err := stager.List(t.Context(), store, "")
	if err != nil || len(all) != 2 {
		t.Fatalf("listed %d versions, %v; want 2", len(all), err)
	}
	for _, v := range all {
		if want := v.Manifest.Version == second.Manifest.Version; v.Latest != want || v.Damaged != nil {
			t.Errorf("version %s: latest %t, damaged %v; want %t and nil", v.Manifest.Version, v.Latest, v.Damaged,
				want)
		}
	}
	if none, err := stager.List(t.Context(), store, "click"); err != nil || len(none) != 0 {
		t.Errorf("of dataset click, %d versions are listed, %v; want none", len(none), err)
	}

	must.Do(t, stager.FetchTo(t.Context(), store, first.Manifest, dir))
	if m, err := dataset.Check(t.Context(), dir, nil); err != nil || m.Version != first.Manifest.Version {
		t.Errorf("what was fetched is %v, %v", m, err)
	}

	must.Get(store.Put(t.Context(), sweep.DatasetDir("clicks", second.Manifest.Version)+"train/rows.arrow",
		blob.Any, strings.NewReader("no rows")))(t)
	if err := stager.FetchTo(t.Context(), store, second.Manifest, t.TempDir()); !problem.Is(err, problem.Damaged) {
		t.Errorf("of a damaged version, the error is %v", err)
	}
}
