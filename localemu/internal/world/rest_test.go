//go:build unix

package world

import (
	"errors"
	"io"
	"slices"
	"testing"

	"coppice/internal/cloud"
	"coppice/internal/cloud/inspect"
	"coppice/internal/must"
)

// TestInspect: the doctor's adapter reads what exists in the local cloud.
func TestInspect(t *testing.T) {
	w := must.Get(Start(t.Context(), Options{Data: t.TempDir(), Stderr: io.Discard}))(t)
	defer w.Close()
	ctx := t.Context()
	c := must.Get(inspect.New(ctx, inspect.Options{Project: project, Location: location, Endpoint: w.rest.Addr()}))(t)
	if email, err := c.Caller(ctx); err != nil || email == "" {
		t.Errorf("the caller is told that it is %q, %v; expected an account", email, err)
	}
	wanted := []string{"storage.objects.create", "storage.objects.list"}
	for _, r := range []cloud.Resource{{Kind: "project", Name: project}, {Kind: "bucket", Name: "coppice-sweeps"},
		{Kind: "account", Name: account("task")}} {
		if held, err := c.Held(ctx, r, wanted); err != nil || !slices.Equal(held, wanted) {
			t.Errorf("on %s the caller holds %q, %v; expected all of %q", r, held, err, wanted)
		}
	}
	if _, err := c.Held(ctx, cloud.Resource{Kind: "bucket", Name: "coppice-none"}, wanted); !errors.Is(err,
		cloud.ErrNotThere) {
		t.Errorf("a bucket that does not exist: got %v, expected %v", err, cloud.ErrNotThere)
	}
	if err := c.Topic(ctx, topic(scoresTopic)); err != nil {
		t.Errorf("the topic of scores: got %v, expected that it exists", err)
	}
	if err := c.Topic(ctx, topic("none")); !errors.Is(err, cloud.ErrNotThere) {
		t.Errorf("a topic that does not exist: got %v, expected %v", err, cloud.ErrNotThere)
	}
	if _, err := c.Enabled(ctx, []string{"batch.googleapis.com"}); !errors.Is(err, cloud.ErrNotImitated) {
		t.Errorf("the enabled services: got %v, expected %v", err, cloud.ErrNotImitated)
	}
	if _, err := c.Region(ctx); !errors.Is(err, cloud.ErrNotImitated) {
		t.Errorf("quotas that no fault sets: got %v, expected %v", err, cloud.ErrNotImitated)
	}
}

// TestQuotaOfTheProject: the quota that jobs run into is the one that the doctor reads.
func TestQuotaOfTheProject(t *testing.T) {
	w := must.Get(Start(t.Context(), Options{Data: t.TempDir(), Stderr: io.Discard, Faults: &FaultSpec{CPUs: 12}}))(t)
	defer w.Close()
	c := must.Get(inspect.New(t.Context(),
		inspect.Options{Project: project, Location: location, Endpoint: w.rest.Addr()}))(t)
	if r, err := c.Region(t.Context()); err != nil || r.Quotas[cloud.CPUsAllRegions].Limit != 12 || len(r.Zones) != 1 {
		t.Errorf("the region and its project: %+v, %v, want a zone and 12 vCPUs", r, err)
	}
}
