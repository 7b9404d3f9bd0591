package dataset

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPositions: a dataset has the place of each row if its spec names the column, mapped and fetched.
func TestPositions(t *testing.T) {
	f := newFixture(4, smallRows())
	f.manifest.Position = "slot"
	want := f.targets[TrainSplit]
	for r := range want.Label {
		want.Position = append(want.Position, float32(r*r%9))
	}
	for name := range f.targets {
		all := f.targets[name]
		all.Position = make([]float32, len(all.Label))
		f.targets[name] = all
	}
	f.targets[TrainSplit] = want

	dir := t.TempDir()
	f.write(t, dir, 4, 1)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data, err := os.ReadFile(filepath.Join(dir, TrainSplit, targetsFile))
	if err != nil {
		t.Fatal(err)
	}
	fetched, err := ReadTargets(data)
	if err != nil {
		t.Fatal(err)
	}
	mapped := d.Split(TrainSplit)
	if !slices.Equal(mapped.Position, want.Position) || !slices.Equal(fetched.Position, want.Position) ||
		!slices.Equal(fetched.Group, want.Group) || !slices.Equal(mapped.Fold, want.Fold) {
		t.Errorf("got positions %v, fetched %v, want %v", mapped.Position, fetched.Position, want.Position)
	}
	if some := fetched.Pick([]uint32{2, 3}); !slices.Equal(some.Position, []float32{4, 0}) {
		t.Errorf("rows 2 and 3 have positions %v, want 4 and 0", some.Position)
	}
}
