package registry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
)

// TestMarks: marking a version as bad adds one event to the history, also if it is repeated. A mark without a reason,
// or on a version that does not exist, is an error, and a remark of an unknown kind is damage.
func TestMarks(t *testing.T) {
	s, r := chained(t)
	ctx := t.Context()
	before := history(t, r, "ctr")
	for range 2 { // the second changes nothing
		must.Do(t, r.MarkBad(ctx, "ctr", 2, act(4, "broken labels")))
	}
	if got := history(t, r, "ctr"); len(got) != len(before)+1 || !slices.ContainsFunc(got, func(e registry.Event) bool {
		return e.Kind == registry.MarkedBad && e.To == 2 && e.Why == "broken labels"
	}) {
		t.Errorf("the history is %q, and before %q; want the mark beside it", describe(got), describe(before))
	}
	if _, err := r.Verify(ctx, "ctr"); err != nil {
		t.Errorf("verified beside a mark: %v; want no error", err)
	}
	for name, why := range map[string]string{"no reason": " ", "a control": "\x1b[2J"} {
		if err := r.MarkBad(ctx, "ctr", 1, act(7, why)); !problem.Is(err, problem.Input) {
			t.Errorf("%s: got %v, want an error of kind Input", name, err)
		}
	}
	overwrite(t, s, "registry/ctr/remarks/2.json", `{"format":1,"model":"ctr","version":2,"remarks":[`+
		`{"kind":"praised","by":"ada","why":"half a table","at":"2026-11-03T00:00:00Z"}]}`)
	if _, err := r.Remarks(ctx, "ctr", 2); !problem.Is(err, problem.Damaged) {
		t.Errorf("a remark of no known kind: got %v, want an error of kind Damaged", err)
	}
	if err := r.MarkBad(ctx, "ctr", 9, act(7, "x")); !problem.Is(err, problem.NotFound) {
		t.Errorf("a mark on a version that is not there: got error %v, want one of kind NotFound", err)
	}
}

// TestRollbackPassesOverBadVersions: a version that is marked bad cannot be promoted, and rolling back skips it. Once
// the mark is cleared, it can be promoted. If all earlier versions are bad, rolling back is an error that names them.
func TestRollbackPassesOverBadVersions(t *testing.T) {
	_, r := chained(t)
	ctx := t.Context()
	must.Do(t, r.MarkBad(ctx, "ctr", 2, act(3, "broken labels")))
	a, err := r.Rollback(ctx, "ctr", registry.Champion, 0, registry.Expect{Version: 3}, act(4, "alarm"))
	if err != nil || a.Version != 1 || len(a.Past) != 0 {
		t.Errorf("rolled back from 3 over the bad 2: got %+v, %v, want version 1 with nothing before it", a, err)
	}
	if _, err := r.Promote(ctx, "ctr", 2, registry.Expect{Version: 1}, act(5, "again")); !problem.Is(err,
		problem.Conflict) || !strings.Contains(err.Error(), "broken labels") {
		t.Errorf("promoting a bad version: got error %v, want one of kind Conflict that says why it is bad", err)
	}
	must.Do(t, r.ClearBad(ctx, "ctr", 2, act(6, "labels were right")))
	if _, err := r.Promote(ctx, "ctr", 2, registry.Expect{Version: 1}, act(7, "again")); err != nil {
		t.Errorf("promoting a version that was cleared: got error %v, want none", err)
	}
	must.Do(t, r.MarkBad(ctx, "ctr", 1, act(8, "x")))
	if _, err := r.Rollback(ctx, "ctr", registry.Champion, 0, registry.Expect{Version: 2}, act(9,
		"alarm")); !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "version 1)") {
		t.Errorf("with nothing but a bad version to return to: got %v, expected one that names version 1", err)
	}
}

// TestAliasesOfOnesOwn: an alias can be set, removed and set again, and its moves form one history. The champion
// cannot be removed.
func TestAliasesOfOnesOwn(t *testing.T) {
	_, r := chained(t)
	ctx := t.Context()
	for _, to := range []int{1, 2} {
		must.Get(r.SetAlias(ctx, "ctr", "canary", to, registry.Expect{Any: true}, act(to, "watch")))(t)
	}
	for range 2 { // the second changes nothing
		_, err := r.RemoveAlias(ctx, "ctr", "canary", registry.Expect{Version: 2}, act(3, "over"))
		if err != nil && !problem.Is(err, problem.NotFound) {
			t.Fatalf("removed the alias: error %v, expected none, or that it is gone", err)
		}
	}
	if all, err := r.Aliases(ctx, "ctr"); err != nil || len(all) != 1 || all[0].Name != registry.Champion {
		t.Errorf("aliases are %+v, %v, want the champion alone", all, err)
	}
	a, err := r.SetAlias(ctx, "ctr", "canary", 3, registry.Expect{}, act(4, "again"))
	if err != nil || a.Last.Sequence != 4 {
		t.Errorf("set again: %+v, %v, want the fourth move of its history", a, err)
	}
	// Three of the champion and four of the canary: twice set, removed, set again.
	if v, err := r.Verify(ctx, "ctr"); err != nil || len(v.Moves) != 7 {
		t.Errorf("verify: %+v, %v, want 7 moves", v, err)
	}
	if _, err := r.RemoveAlias(ctx, "ctr", registry.Champion, registry.Expect{Any: true},
		act(5, "x")); !problem.Is(err, problem.Input) {
		t.Errorf("removing the champion: %v; want it refused as a wrong input", err)
	}
}

// TestDelete: a version at which an alias points cannot be deleted. A deleted version can no longer be read, found,
// promoted or registered again, each with an error that says why, and rolling back skips it. Its number is not used
// again, and its objects are listed as left over.
func TestDelete(t *testing.T) {
	_, r := chained(t)
	ctx := t.Context()
	must.Get(r.SetAlias(ctx, "ctr", "canary", 2, registry.Expect{}, act(3, "watch")))(t)
	for n, alias := range map[int]string{3: "champion", 2: "canary"} {
		if err := r.Delete(ctx, "ctr", n, act(4, "room")); !problem.Is(err, problem.Conflict) ||
			!strings.Contains(err.Error(), alias) {
			t.Errorf("deleting what %s points at: got %v, expected a conflict that names it", alias, err)
		}
	}
	must.Get(r.RemoveAlias(ctx, "ctr", "canary", registry.Expect{Version: 2}, act(5, "over")))(t)
	for range 2 { // repeating it is harmless
		must.Do(t, r.Delete(ctx, "ctr", 2, act(6, "room")))
	}

	var gone *registry.DeletedError
	for name, err := range map[string]error{
		"get":           third(r.Get(ctx, "ctr", "2")),
		"find":          third(r.Find(ctx, "ctr", "b")),
		"promote":       third(r.Promote(ctx, "ctr", 2, registry.Expect{Version: 3}, act(7, "x"))),
		"its key again": third(r.Register(ctx, "ctr", "b", files("b"), info(7))),
	} {
		if !errors.As(err, &gone) || !strings.Contains(err.Error(), "room") {
			t.Errorf("%s: got %v, want a DeletedError that says why", name, err)
		}
	}
	if all, err := r.Versions(ctx, "ctr"); err != nil || len(all) != 2 {
		t.Errorf("%d versions, %v, want 2", len(all), err)
	}
	if v := register(t, r, "ctr", "d"); v.Number != 4 {
		t.Errorf("the next version is %d, want 4: a deleted number stays taken", v.Number)
	}
	a, err := r.Rollback(ctx, "ctr", registry.Champion, 0, registry.Expect{Version: 3}, act(8, "alarm"))
	if err != nil || a.Version != 1 {
		t.Errorf("rollback over a deleted version: %+v, %v, want version 1", a, err)
	}
	if _, err := r.Verify(ctx, "ctr"); err != nil {
		t.Errorf("verified after a rollback over a deleted version: %v; want no error", err)
	}
	left, err := r.Leftover(ctx, "ctr")
	if err != nil || len(left) != 4 || !slices.Contains(left, "registry/ctr/versions/2/model.txt") {
		t.Errorf("leftover %q, %v, want three files and the record", left, err)
	}
}

// TestDeletingWhatIsBeingPromoted: version 1 is promoted just before or just after the write that deletes it, or the
// other way round. Not both succeed, and no alias points at a deleted version afterwards. The reason for deleting it is
// as long as one may be, 4,096 bytes; the move back, which quotes it, can be read all the same.
func TestDeletingWhatIsBeingPromoted(t *testing.T) {
	long := strings.Repeat("room", 1024)
	for _, after := range []bool{false, true} {
		s, calm := chained(t)
		var promoted error
		m := meanwhile(s, "deleted.json", after, func() {
			_, promoted = calm.Promote(t.Context(), "ctr", 1, registry.Expect{Version: 3}, act(4, "back"))
		})
		deleted := registry.New(m).Delete(t.Context(), "ctr", 1, act(4, long))
		agree(t, calm, "a promotion while deleting", promoted, deleted)

		s, calm = chained(t)
		m = meanwhile(s, "aliases/champion.json", after,
			func() { deleted = calm.Delete(t.Context(), "ctr", 1, act(4, long)) })
		_, promoted = registry.New(m).Promote(t.Context(), "ctr", 1, registry.Expect{Version: 3}, act(4, "back"))
		agree(t, calm, "a deletion while promoting", promoted, deleted)
	}
}

// TestDeletingWhereARollbackLeads: version 2, to which the champion would be rolled back from 3, is deleted just before
// or just after the write that moves the alias, or the other way round. The champion can be read afterwards, so it is
// not at a deleted version: the rollback is undone, or leads to version 1, or the deletion is refused or withdrawn.
func TestDeletingWhereARollbackLeads(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, part := range []string{"deleted.json", "aliases/champion.json"} {
			s, calm := chained(t)
			roll := func(r *registry.Registry) error {
				return third(r.Rollback(t.Context(), "ctr", registry.Champion, 0, registry.Expect{Version: 3},
					act(4, "alarm")))
			}
			remove := func(r *registry.Registry) error { return r.Delete(t.Context(), "ctr", 2, act(4, "room")) }

			// The one whose write is meant is interrupted by the other.
			var rolled, deleted error
			if part == "deleted.json" {
				deleted = remove(registry.New(meanwhile(s, part, after, func() { rolled = roll(calm) })))
			} else {
				rolled = roll(registry.New(meanwhile(s, part, after, func() { deleted = remove(calm) })))
			}

			v, err := calm.Get(t.Context(), "ctr", "")
			if _, broken := calm.Verify(t.Context(), "ctr"); err != nil || broken != nil ||
				(rolled == nil) != (v.Number < 3) {
				t.Errorf("around %s (after it: %t): rolled back with error %v, deleted with error %v; the champion is "+
					"version %d (error %v), verified with error %v; want one that can be read, 3 only after an error",
					part, after, rolled, deleted, v.Number, err, broken)
			}
		}
	}
}

// TestAStoreThatFailsRemovesNoChampion: version 1 is deleted while it is promoted, and the store does not give version
// 3, to which the champion would move back. The alias is not removed for that, which would lose where it was: once the
// store answers again, rolling back leads to version 3.
func TestAStoreThatFailsRemovesNoChampion(t *testing.T) {
	s, calm := chained(t)
	deleted := false
	m := meanwhile(s, "aliases/champion.json", false, func() {
		must.Do(t, calm.Delete(t.Context(), "ctr", 1, act(4, "room")))
		deleted = true
	})
	failing := blobtest.Before(m, blobtest.Open, func(_ context.Context, name string) error {
		if deleted && strings.HasSuffix(name, "versions/3/version.json") {
			return errRefused
		}
		return nil
	})
	if _, err := registry.New(failing).Promote(t.Context(), "ctr", 1, registry.Expect{Version: 3},
		act(4, "back")); !errors.Is(err, errRefused) {
		t.Errorf("promoting what is being deleted, over a store that fails: got error %v, want errRefused", err)
	}
	a, err := calm.Rollback(t.Context(), "ctr", registry.Champion, 0, registry.Expect{Any: true}, act(5, "alarm"))
	if err != nil || a.Version != 3 {
		t.Errorf("rolled back when the store answers again: got %+v, error %v; want version 3", a, err)
	}
}

// TestNoWithdrawnDeletionGivesFilesAway: the deletion of version 1 was withdrawn, since it was made the champion
// meanwhile. Whether the mark that says so is damaged or the store does not give it, none of the version's objects is
// listed as one that may be removed, and listing the versions is an error. If the store fails, so are the numbers and
// the newest version; a damaged mark hides only its own version, the others are listed.
func TestNoWithdrawnDeletionGivesFilesAway(t *testing.T) {
	for _, damaged := range []bool{true, false} {
		s, calm := chained(t)
		m := meanwhile(s, "deleted.json", false, func() {
			must.Get(calm.Promote(t.Context(), "ctr", 1, registry.Expect{Version: 3}, act(4, "back")))(t)
		})
		if err := registry.New(m).Delete(t.Context(), "ctr", 1, act(4, "room")); !problem.Is(err, problem.Conflict) {
			t.Fatalf("deleting what is promoted meanwhile: got error %v, want one of kind Conflict", err)
		}
		if left, err := calm.Leftover(t.Context(), "ctr"); len(left) > 0 || err != nil {
			t.Fatalf("after a withdrawn deletion %q may be removed, error %v; want nothing", left, err)
		}

		mark := "registry/ctr/versions/1/deleted.json"
		r := registry.New(refusingTo(s, blobtest.Open, mark))
		if damaged {
			overwrite(t, s, mark, "cut off")
			r = calm
		}
		if left, err := r.Leftover(t.Context(), "ctr"); len(left) > 0 || !damaged && !errors.Is(err, errRefused) {
			t.Errorf("damaged %t: %q may be removed, error %v; want no object of the champion", damaged, left, err)
		}
		versions, err := r.Versions(t.Context(), "ctr")
		if damaged && (len(versions) != 2 || !problem.Is(err, problem.Damaged)) ||
			!damaged && !errors.Is(err, errRefused) {
			t.Errorf("damaged %t: %d versions are listed with error %v; want 2 with one about damage, else errRefused",
				damaged, len(versions), err)
		}
		if n, err := r.Numbers(t.Context(), "ctr"); (len(n) == 2) != damaged || (err == nil) != damaged {
			t.Errorf("damaged %t: numbers %v, error %v; want 2 and 3, and an error only of the store", damaged, n, err)
		}
	}
}

// TestTheOnlyVersionMayBeDeleted: of a model's only version the mark of deletion is damaged, or the store does not give
// it. The model is still listed, or the store's error returned; it is not said that there is no such model.
func TestTheOnlyVersionMayBeDeleted(t *testing.T) {
	s, calm := registered(t, "a")
	must.Do(t, calm.Delete(t.Context(), "ctr", 1, act(1, "room")))
	mark := "registry/ctr/versions/1/deleted.json"
	failing := registry.New(refusingTo(s, blobtest.Open, mark))
	_, err := failing.Models(t.Context())
	_, err2 := failing.Get(t.Context(), "ctr", "latest")
	if !errors.Is(err, errRefused) || !errors.Is(err2, errRefused) {
		t.Errorf("over a store that fails, models are listed with error %v, the newest version read with %v; want "+
			"errRefused", err, err2)
	}

	overwrite(t, s, mark, "cut off")
	models, err := calm.Models(t.Context())
	if err != nil || !slices.Equal(models, []string{"ctr"}) {
		t.Errorf("listed models %q, error %v; want ctr, which may have a version", models, err)
	}
	for name, err := range map[string]error{
		"latest": third(calm.Get(t.Context(), "ctr", "latest")),
		"7":      third(calm.Get(t.Context(), "ctr", "7")),
		"all":    third(calm.Versions(t.Context(), "ctr")),
	} {
		if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), mark) {
			t.Errorf("%s: got error %v, want one about the damaged mark", name, err)
		}
	}
	if _, err := calm.Alias(t.Context(), "ctr", registry.Champion); !problem.Is(err, problem.NotFound) {
		t.Errorf("the champion: got error %v, want one of kind NotFound: there is no alias", err)
	}
}

// meanwhile returns store s, which calls do once: just before, or with after just after, the first write of an object
// whose name contains part.
func meanwhile(s blob.Store, part string, after bool, do func()) blob.Store {
	var once sync.Once
	act := func(call blobtest.Call, name string, now bool) {
		if now && call == blobtest.Put && strings.Contains(name, part) {
			once.Do(do)
		}
	}
	return &blobtest.Hooked{Store: s,
		Before: func(_ context.Context, call blobtest.Call, name string) error {
			act(call, name, !after)
			return nil
		},
		After: func(_ context.Context, call blobtest.Call, name string, err error) error {
			act(call, name, after)
			return err
		}}
}

// agree checks the errors of a promotion and a deletion of version 1: not both are nil, and the champion is version 1
// only if the promotion succeeded. It can be read, and the history is intact.
func agree(t *testing.T, r *registry.Registry, name string, promoted, deleted error) {
	t.Helper()
	if promoted == nil && deleted == nil {
		t.Errorf("%s: both succeeded, want one of them to fail", name)
	}
	a, err := r.Alias(t.Context(), "ctr", registry.Champion)
	if err != nil || (a.Version == 1) != (promoted == nil) {
		t.Errorf("%s: the champion is version %d (error %v), and promoting ended with error %v; want version 1 only "+
			"without an error", name, a.Version, err, promoted)
	}
	if _, err := r.Get(t.Context(), "ctr", ""); err != nil {
		t.Errorf("%s: the champion is read with error %v, want none (promoted %v, deleted %v)", name, err, promoted,
			deleted)
	}
	if _, err := r.Verify(t.Context(), "ctr"); err != nil {
		t.Errorf("%s: verified: %v; want no error", name, err)
	}
}

// TestDamagedVersions: an alias cannot be moved, or rolled back, to a version with a damaged file. Rolling back without
// naming a version skips it. If no version is left to go back to, the error names those where the alias was before, and
// not the one where it is, although it was there before, too.
func TestDamagedVersions(t *testing.T) {
	s, r := chained(t)
	ctx := t.Context()
	overwrite(t, s, "registry/ctr/versions/2/model.txt", "cut off")
	if _, err := r.SetAlias(ctx, "ctr", "canary", 2, registry.Expect{Any: true}, act(4, "watch")); !problem.Is(err,
		problem.Damaged) || !strings.Contains(err.Error(), "versions/2/model.txt") {
		t.Errorf("promoting a damaged version: %v, expected an error that names the file", err)
	}
	if _, err := r.Rollback(ctx, "ctr", registry.Champion, 2, registry.Expect{Version: 3},
		act(5, "alarm")); !problem.Is(err, problem.Damaged) {
		t.Errorf("rolling back to a damaged version: %v; want that kind of error", err)
	}
	a, err := r.Rollback(ctx, "ctr", registry.Champion, 0, registry.Expect{Version: 3}, act(6, "alarm"))
	if err != nil || a.Version != 1 {
		t.Errorf("rolled back from 3 over the damaged 2: %+v, %v; expected version 1", a, err)
	}

	// The champion was at 1, at 3 and is at 1 again.
	must.Get(r.Promote(ctx, "ctr", 3, registry.Expect{Version: 1}, act(7, "back")))(t)
	must.Get(r.Promote(ctx, "ctr", 1, registry.Expect{Version: 3}, act(8, "worse")))(t)
	overwrite(t, s, "registry/ctr/versions/3/model.txt", "cut off")
	if _, err := r.Rollback(ctx, "ctr", registry.Champion, 0, registry.Expect{Version: 1}, act(9,
		"alarm")); err == nil || !strings.Contains(err.Error(), "(version 3) are marked bad, deleted or damaged") {
		t.Errorf("rolled back where only the damaged 3 was before: got error %v, want one about version 3 alone", err)
	}
}
