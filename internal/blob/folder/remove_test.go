package folder_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/folder"
	"coppice/internal/must"
)

// TestRemoveBeside: when three goroutines remove the same object and one writes another object in its directory, all at
// once, none of them gets an error, and the written object is there. It is tried 60 times.
func TestRemoveBeside(t *testing.T) {
	t.Parallel()
	s := folder.Bucket(t.TempDir()).(blob.Remover)
	for n := range 60 {
		old, beside := fmt.Sprintf("e/v%d/deep/old", n), fmt.Sprintf("e/v%d/deep/new", n)
		a := must.Get(s.Put(t.Context(), old, blob.Absent, strings.NewReader("x")))(t)
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if err := s.Remove(t.Context(), old, a.Generation); err != nil {
					t.Errorf("Remove, three at once: got error %v, want none", err)
				}
			})
		}
		group.Go(func() {
			if _, err := s.Put(t.Context(), beside, blob.Absent, strings.NewReader("y")); err != nil {
				t.Errorf("Put beside an object that is removed: got error %v, want none", err)
			}
		})
		group.Wait()
		if _, err := s.Stat(t.Context(), beside); err != nil {
			t.Errorf("Stat of the object beside the removed one: got error %v, want none", err)
		}
	}
}
