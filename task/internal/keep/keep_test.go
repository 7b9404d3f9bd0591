package keep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// checkpoints returns the checkpoints of a small training of 8 trees: element i has i rounds.
func checkpoints(t *testing.T) []*gbt.Checkpoint {
	t.Helper()
	const rows = 64
	d := gbt.Data{Rows: rows, RowMajor: make([]byte, rows), Label: make([]float32, rows),
		Features: []gbt.Feature{{Name: "x", Bins: 4, Bounds: []float64{1, 2, 3}, Missing: -1}}}
	for r := range rows {
		d.RowMajor[r], d.Label[r] = byte(r%4), float32(r%4%2)
	}
	d.Columns = [][]byte{d.RowMajor}
	p := gbt.Defaults()
	p.NumIterations, p.NumLeaves, p.MinDataInLeaf = 8, 4, 1
	var all []*gbt.Checkpoint
	_, err := gbt.Train(t.Context(), &d, p, gbt.Options{Checkpoint: func(c *gbt.Checkpoint) error {
		all = append(all, c)
		return nil
	}})
	if err != nil || len(all) != 8 {
		t.Fatalf("training made %d checkpoints, %v, expected one of each of 8 trees", len(all), err)
	}
	return all
}

// bucket returns the place of a trial's checkpoints in a store; inBucket begins the names of its objects.
func bucket(s blob.Store) Place {
	return sweepstore.NewTrials(s, &sweep.Plan{Sweep: "t"}).Checkpoints(0, gbt.MaxCheckpointBytes)
}

const inBucket = "sweeps/t/trials/0000/checkpoints/"

// keeper returns a keeper of a place, with the prefix of its own names, and its log.
func keeper(p Place, own string) (*Keeper, *bytes.Buffer) {
	var log bytes.Buffer
	return &Keeper{Place: p, Prefix: own, Log: slog.New(slog.NewTextHandler(&log, nil))}, &log
}

// rounds returns the rounds of the stored checkpoints, ascending; -1 for a damaged one.
func rounds(t *testing.T, p Place) []int {
	t.Helper()
	names := must.Get(p.List(t.Context()))(t)
	var all []int
	for _, name := range names {
		data := must.Get(p.Read(t.Context(), name))(t)
		c, err := gbt.ReadCheckpoint(data)
		if err != nil {
			all = append(all, -1)
			continue
		}
		all = append(all, c.Rounds())
	}
	slices.Sort(all)
	return all
}

// newest returns the rounds of the newest checkpoint, or -1 if there is none.
func newest(t *testing.T, k *Keeper) int {
	t.Helper()
	c := must.Get(k.Newest(t.Context()))(t)
	if c == nil {
		return -1
	}
	return c.Rounds()
}

// TestTheLastTwoAreKept: of a training's checkpoints the last two stay. Another process finds the last one, and does
// not write it again. Clear drops both. A keeper without Every saves whenever it is offered more, as k.took is 0.
func TestTheLastTwoAreKept(t *testing.T) {
	all := checkpoints(t)
	place, own := bucket(blob.Memory()), inBucket+"1/"
	k, log := keeper(place, own)
	if newest(t, k) != -1 {
		t.Fatal("a new place has a checkpoint; want none")
	}
	for i, c := range all {
		k.took = 0 // the time of the save before paces the next one
		k.Offer(t.Context(), c)
		want := []int{i - 1, i}
		if i < 2 {
			want = []int{1}[:i] // nothing is saved before the first round
		}
		if got := rounds(t, place); !slices.Equal(got, want) {
			t.Fatalf("after round %d, those of rounds %v lie there; want the last two, and none before round "+
				"1", i, got)
		}
	}
	again, _ := keeper(place, own)
	if got := newest(t, again); got != 7 {
		t.Fatalf("another process goes on after round %d, want 7; log:\n%s", got, log)
	}
	again.Offer(t.Context(), all[7]) // nothing new
	if got := rounds(t, place); !slices.Equal(got, []int{6, 7}) {
		t.Errorf("seven checkpoints written: kept those of rounds %v, want 6 and 7", got)
	}
	if err := again.Clear(t.Context()); err != nil || rounds(t, place) != nil || newest(t, again) != -1 {
		t.Errorf("cleared: %v; want nothing left of rounds %v", err, rounds(t, place))
	}
}

// TestDamageFallsBack: where the newest of two checkpoints is damaged, the one before is found, and the log names the
// damaged one. That is the first to be dropped by the saves that follow.
func TestDamageFallsBack(t *testing.T) {
	all := checkpoints(t)
	for damage, spoil := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"flipped": func(b []byte) []byte { b[len(b)/3] ^= 4; return b },
		"other":   func([]byte) []byte { return []byte("not at all") },
	} {
		t.Run(damage, func(t *testing.T) {
			store := blob.Memory()
			place, own := bucket(store), inBucket+"1/"
			k, _ := keeper(place, own)
			for _, c := range all[1:4] {
				k.took = 0
				k.Offer(t.Context(), c)
			}

			// Damage the newest of the two; another keeper finds the one before.
			bad := k.kept[1].name
			data := must.Get(place.Read(t.Context(), bad))(t)
			must.Get(store.Put(t.Context(), bad, blob.Any, bytes.NewReader(spoil(slices.Clone(data)))))(t)
			k, log := keeper(place, own)
			if got := newest(t, k); got != 2 || !strings.Contains(log.String(), "damaged") ||
				!strings.Contains(log.String(), bad) {
				t.Fatalf("goes on after round %d; want 2, and the damaged one named in the log: %s", got, log)
			}

			// The saves that follow drop the damaged one first, and then the oldest.
			k.Offer(t.Context(), all[3])
			if got := rounds(t, place); !slices.Equal(got, []int{2, 3}) {
				t.Fatalf("the third is damaged: kept those of rounds %v, want 2 and 3", got)
			}
			k.took = 0
			k.Offer(t.Context(), all[4])
			if got := rounds(t, place); !slices.Equal(got, []int{3, 4}) {
				t.Fatalf("the fourth is written: kept those of rounds %v, want 3 and 4", got)
			}
		})
	}
}

// TestEarlierClaimsAreGoneOnFrom: a claim's keeper finds the checkpoints of an earlier claim. It keeps them as long as
// they are among the last two, and writes its own under other names.
func TestEarlierClaimsAreGoneOnFrom(t *testing.T) {
	all := checkpoints(t)
	place := bucket(blob.Memory())
	first, _ := keeper(place, inBucket+"0/")
	for _, c := range all[1:4] {
		first.took = 0
		first.Offer(t.Context(), c)
	}
	second, _ := keeper(place, inBucket+"1/")
	if got := newest(t, second); got != 3 {
		t.Fatalf("the second claim resumes after round %d, want 3", got)
	}
	for _, want := range [][]int{{3, 4}, {4, 5}, {5, 6}, {6, 7}} {
		second.took = 0
		second.Offer(t.Context(), all[want[1]])
		if got := rounds(t, place); !slices.Equal(got, want) {
			t.Fatalf("after round %d was saved, checkpoints of rounds %v are kept, want %v", want[1], got, want)
		}
	}
	names, err := place.List(t.Context())
	if err != nil || len(names) != 2 || !strings.HasPrefix(names[0], inBucket+"1/") {
		t.Errorf("kept are %q, %v, expected two, in the folder of claim 1", names, err)
	}
}

// TestNothingIsDroppedForABadOne: a checkpoint that cannot be written, or is stored with another checksum, is logged
// and costs no good one: the two before are kept until another is saved.
func TestNothingIsDroppedForABadOne(t *testing.T) {
	all := checkpoints(t)
	store := &blobtest.Hooked{Store: blob.Memory()}
	place := bucket(store)
	k, log := keeper(place, inBucket+"0/")
	for _, c := range all[1:4] {
		k.took = 0
		k.Offer(t.Context(), c)
	}
	checkGood := func() {
		t.Helper()
		got := slices.DeleteFunc(rounds(t, place), func(r int) bool { return r < 0 })
		if !slices.Equal(got, []int{2, 3}) {
			t.Fatalf("good checkpoints of rounds %v are left, want 2 and 3; log: %s", got, log)
		}
	}

	// The store changes a bit of what it is given, then it has no room, and then it is well again.
	store.Writes = func(_ string, b []byte) ([]byte, error) {
		if len(b) > 0 { // to drop a checkpoint is to write an empty object
			b[9] ^= 1 // any byte would do
		}
		return b, nil
	}
	k.took = 0
	k.Offer(t.Context(), all[4])
	checkGood()
	if !strings.Contains(log.String(), "checksum") {
		t.Errorf("the log has no word of the checksum: %s", log)
	}
	store.Writes = func(string, []byte) ([]byte, error) { return nil, errors.New("no room") }
	k.took = 0
	k.Offer(t.Context(), all[5])
	checkGood()
	if !strings.Contains(log.String(), "no room") {
		t.Errorf("the log has no word of the lack of room: %s", log)
	}
	store.Writes = nil
	k.took = 0
	k.Offer(t.Context(), all[6])
	if got := rounds(t, place); !slices.Equal(got, []int{3, 6}) {
		t.Errorf("after two that could not be saved: kept those of rounds %v, want 3 and 6", got)
	}
}

// TestWhenToSave: a training that grows a tree a second, and may go unsaved for 2.5 seconds, is saved every third
// round, and at once when the process has to stop. The first offer, of round 0, begins the count, and is not saved.
func TestWhenToSave(t *testing.T) {
	all := checkpoints(t)
	synctest.Test(t, func(t *testing.T) {
		place := bucket(blob.Memory())
		k, _ := keeper(place, inBucket+"0/")
		k.Every = 2500 * time.Millisecond
		var saved []int
		for _, c := range all {
			k.Offer(t.Context(), c)
			if got := rounds(t, place); len(got) > 0 && !slices.Contains(saved, got[len(got)-1]) {
				saved = append(saved, got[len(got)-1])
			}
			<-time.After(time.Second)
		}
		if want := []int{3, 6}; !slices.Equal(saved, want) {
			t.Errorf("a checkpoint every 2.5 s, a round a second: saved after rounds %v; want %v", saved, want)
		}

		k.Offer(cancelled(t), all[7])
		if got, want := rounds(t, place), []int{6, 7}; !slices.Equal(got, want) {
			t.Errorf("when the process has to stop, a checkpoint is saved at once: kept %v; want %v", got, want)
		}
	})
}

// TestAStoreThatDoesNotAnswer: a store that does not answer holds the training up for ten seconds, and then not again
// for 499: a save is paced by how long the one before took, 50 times ten seconds. When the process has to stop, it is
// held up for four seconds.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	all := checkpoints(t)
	synctest.Test(t, func(t *testing.T) {
		slow := blobtest.Before(blob.Memory(), blobtest.Put, func(ctx context.Context, _ string) error {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return ctx.Err()
		})
		k, _ := keeper(bucket(slow), inBucket+"0/")
		start := time.Now()
		k.Offer(t.Context(), all[1])
		for range 499 {
			<-time.After(time.Second)
			k.Offer(t.Context(), all[2])
		}
		if lost := time.Since(start) - 499*time.Second; lost != saveLimit {
			t.Errorf("500 offers within 499 s: training was held up for %s; want %s", lost, saveLimit)
		}

		start = time.Now()
		k.Offer(cancelled(t), all[3])
		if lost := time.Since(start); lost != lastLimit {
			t.Errorf("when the process has to stop: it was held up for %s; want %s", lost, lastLimit)
		}
	})
}

// cancelled returns the context of a process that has been told to stop.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestErrorsOfThePlace: a store that cannot be reached is an error, and not taken for an empty one.
func TestErrorsOfThePlace(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k, _ := keeper(bucket(blob.Memory()), inBucket+"0/")
	if c, err := k.Newest(ctx); c != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("the store cannot be reached: got checkpoint %v (error %v); want context.Canceled", c, err)
	}
	if err := k.Clear(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cleared while the store cannot be reached: got error %v; want context.Canceled", err)
	}
}

// TestSoundIsAskedFirst: a checkpoint that Sound refuses is not saved, and the reason is logged. Asking Sound may take
// longer than a save may, here three times as long, and delays the next save accordingly, by at least ten times as much
// (protocol.Unsaved asks for twelve times in the first minute). After the process was told to stop, Sound has no more
// time than the save itself.
func TestSoundIsAskedFirst(t *testing.T) {
	all := checkpoints(t)
	synctest.Test(t, func(t *testing.T) {
		place := bucket(blob.Memory())
		k, log := keeper(place, inBucket+"0/")
		wrong, takes := errors.New("the data is wrong"), 3*saveLimit
		k.Soon = true
		k.Sound = func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(takes):
				return wrong
			}
		}
		k.Offer(t.Context(), all[1])
		if got := rounds(t, place); got != nil || !strings.Contains(log.String(), wrong.Error()) {
			t.Errorf("what is unsound was offered: rounds %v, log:\n%s\nwant none, and the reason", got, log)
		}

		// From here on Sound refuses nothing.
		wrong = nil
		start := time.Now()
		for len(rounds(t, place)) == 0 {
			<-time.After(time.Second)
			k.Offer(t.Context(), all[1])
		}
		if waited := time.Since(start); waited < 10*takes {
			t.Errorf("after a save that took %s the next one ended %s later; want it %s later at least", takes, waited,
				10*takes)
		}

		// Told to stop, with a second left: Sound does not answer in that time.
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		last, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		k.Last, start = last, time.Now()
		if k.Offer(ended, all[2]); time.Since(start) != time.Second || len(rounds(t, place)) != 1 {
			t.Errorf("a process told to stop, with a second left, was held up for %s and has rounds %v; want a "+
				"second and none more", time.Since(start), rounds(t, place))
		}
	})
}

// undroppable is a place that drops nothing.
type undroppable struct{ Place }

func (undroppable) Drop(context.Context, string) error { return errors.New("nothing is dropped here") }

// TestAnOlderCheckpointThatStays: a checkpoint is saved although an older one cannot be dropped, and the log has a
// warning. The next one cannot be saved, since all three names are in use, and the log says that.
func TestAnOlderCheckpointThatStays(t *testing.T) {
	all := checkpoints(t)
	place := undroppable{bucket(blob.Memory())}
	k, log := keeper(place, inBucket+"0/")
	for _, c := range all[1:4] {
		k.at = time.Now().Add(-time.Hour) // the last save is so long ago that the next is due
		k.Offer(t.Context(), c)
	}
	if got, text := rounds(t, place), log.String(); !slices.Equal(got, []int{1, 2, 3}) ||
		strings.Contains(text, "could not save a checkpoint") ||
		!strings.Contains(text, "could not drop an older one") {
		t.Errorf("three were saved and none could be dropped: rounds %v, log:\n%s\nwant rounds 1, 2 and 3, and a "+
			"warning about the older one", got, text)
	}

	k.at = time.Now().Add(-time.Hour)
	k.Offer(t.Context(), all[4])
	if got, text := rounds(t, place), log.String(); !slices.Equal(got, []int{1, 2, 3}) ||
		!strings.Contains(text, "could not save a checkpoint") {
		t.Errorf("a fourth was offered: rounds %v, log:\n%s\nwant the three before, and a warning", got, text)
	}
}

// TestALossEveryHalfMinute: on machines that vanish without notice after 30 seconds each, a training that grows a tree
// every four seconds and may go unsaved for a minute comes to its end. Each machine begins further than the one before,
// so that none of the losses counts as a death of the trial.
func TestALossEveryHalfMinute(t *testing.T) {
	all := checkpoints(t)
	synctest.Test(t, func(t *testing.T) {
		place := bucket(blob.Memory())
		before := -1
		for claim := 0; before < len(all)-1; claim++ {
			k, _ := keeper(place, fmt.Sprint(inBucket, claim, "/"))
			k.Every, k.Soon = time.Minute, true
			at := newest(t, k)
			if claim > 0 && at <= before {
				t.Fatalf("machine %d begins at round %d, the one before began at %d; want it to have got further",
					claim, at, before)
			}

			before = at
			for began := time.Now(); time.Since(began) < 30*time.Second && at < len(all)-1; {
				<-time.After(4 * time.Second)
				at++
				k.Offer(t.Context(), all[at])
			}
		}
	})
}
