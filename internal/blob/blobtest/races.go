package blobtest

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"sync/atomic"

	"coppice/internal/blob"
)

// race lets 16 writers write one object at once, all under the same condition. It returns how many succeeded, and what
// the object holds afterwards. A writer may only fail for its condition.
func (t *tester) race(name string, cond blob.Generation) (winners int32, data string) {
	t.Helper()
	var won atomic.Int32
	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range 16 {
		group.Go(func() {
			<-begin
			_, err := t.s.Put(t.ctx, name, cond, strings.NewReader(fmt.Sprintf("writer %02d", i)))
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, blob.ErrPrecondition):
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}

	close(begin)
	group.Wait()
	data, _ = t.read(name, blob.Range{})
	return won.Load(), data
}

// createRace wants exactly one of 16 writers that create an object at once to win, three times.
func (t *tester) createRace() {
	for round := range 3 {
		n, data := t.race(fmt.Sprintf("race/%d", round), blob.Absent)
		if n != 1 || !strings.HasPrefix(data, "writer ") {
			t.Errorf("%d of 16 writers created the object, and it holds %q; want one, and what it wrote", n, data)
		}
	}
}

// swapRace wants exactly one of 16 writers that replace the same generation at once to win.
func (t *tester) swapRace() {
	a := t.put("swap", "before", blob.Any)
	n, data := t.race("swap", a.Generation)
	if n != 1 || !strings.HasPrefix(data, "writer ") {
		t.Errorf("%d of 16 writers replaced the object, and it holds %q; want one, and what it wrote", n, data)
	}
}

// readWhileWritten replaces an object 40 times while three goroutines read it. Every read that does not find it gone
// must see one whole version, with its attributes, and one after the last write must find it. A version is its number,
// repeated, and each is longer than the one before.
func (t *tester) readWhileWritten() {
	version := func(i int) string { return strings.Repeat(fmt.Sprintf("%07d\n", i), 500+i*37) }
	t.put("busy", version(0), blob.Any)
	var group sync.WaitGroup
	stop := make(chan struct{})
	group.Go(func() {
		defer close(stop)
		for i := 1; i <= 40; i++ {
			if _, err := t.s.Put(t.ctx, "busy", blob.Any, strings.NewReader(version(i))); err != nil {
				t.Errorf("Put while others read: got error %v, want none", err)
				return
			}
		}
	})

	for range 3 {
		group.Go(func() {
			for last := false; !last; {
				select {
				case <-stop:
					last = true
				default:
				}
				data, a, err := blob.ReadAll(t.ctx, t.s, "busy", 1<<20)
				if errors.Is(err, blob.ErrNotExist) && !last { // it pinned a generation that was replaced meanwhile
					continue
				}
				if err != nil {
					t.Errorf("reading while another writes: got error %v, want none", err)
					return
				}
				var i int
				if _, err := fmt.Sscanf(string(data), "%7d", &i); err != nil || string(data) != version(i) ||
					a.Size != int64(len(data)) ||
					a.CRC32C != crc32.Checksum(data, castagnoli) {
					t.Errorf("read %d bytes that begin with %.7q, attributes %+v; want one whole version", len(data),
						data, a)
					return
				}
			}
		})
	}

	group.Wait()
}
