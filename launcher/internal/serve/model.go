package serve

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
)

// Model is one version, verified and warm. It is safe for concurrent use, and in memory until it has been retired and
// its last user has released it.
type Model struct {
	Version registry.Version
	Name    string // MODEL@VERSION
	Scorer  *scorer.Scorer

	columns  []string // as Scorer.Columns
	numbers  []bool   // by column: as Scorer.Numbers
	place    map[string]int
	features int      // of the trees
	classes  []string // as Scorer.Encoding.Classes
	keys     []string // of an answer's row in JSON, one for each class
	answer   int      // bytes that a row of several classes takes in JSON at most; 0 of others
	// heldOutMean is the mean prediction for the rows on which the version was tested; NaN if it does not record it.
	heldOutMean float64
	warned      atomic.Bool  // of a request with most columns empty
	users       atomic.Int64 // and 1 until it is retired; 0 once it is closed
}

// warmRows is how many rows are scored before a version answers: so many that the trees are compiled.
const warmRows = 1024

// Load reads a version, whose checksums the registry verifies, and maps its levels of ids from files in the folder
// cache. It scores made-up rows with compiled trees and without, which have to agree. The caller has to Retire the
// model. A version that cannot predict is an error of kind Damaged; other errors are those of storage.
func Load(ctx context.Context, r *registry.Registry, v registry.Version, cache string) (*Model, error) {
	s, err := scorer.OpenMapped(ctx, r, v, cache)
	if err != nil {
		return nil, err
	}
	m := &Model{Version: v, Name: fmt.Sprintf("%s@%d", v.Model, v.Number), Scorer: s, columns: s.Columns(),
		numbers: s.Numbers(), place: map[string]int{}, features: s.Model.Features(), classes: s.Encoding.Classes}
	m.users.Store(1)
	for i, name := range m.columns {
		m.place[name] = i
	}
	m.describeClasses()
	if err = m.warmUp(); err != nil {
		err = problem.Wrap(problem.Damaged, err, "version %d of model %s cannot predict", v.Number, v.Model)
	} else {
		m.heldOutMean, err = heldOutMean(ctx, r, v)
	}
	if err != nil {
		m.Retire()
		return nil, err
	}
	return m, nil
}

// heldOutMean returns a version's mean prediction for its test rows. It is NaN for several classes, for rankings, and
// where the version does not record it or the record is damaged: people look at it, and no prediction needs it. The
// error is that of storage.
func heldOutMean(ctx context.Context, r *registry.Registry, v registry.Version) (float64, error) {
	t, err := scorer.ReadTested(ctx, r, v)
	if problem.Is(err, problem.Damaged) || err == nil && t == nil {
		return math.NaN(), nil
	}
	if err != nil {
		return 0, err
	}
	sum, weight := 0.0, 0.0
	for _, b := range t.Bins {
		weight += b.Weight
		if t.Calibrated {
			sum += b.After
		} else {
			sum += b.Before
		}
	}
	return sum / weight, nil // NaN without bins
}

// Servable returns an error if the version cannot be loaded. It is for a version saved in a folder, which no other
// version will follow: the server has to say so when it is started, and not in a log while it tries again.
func Servable(ctx context.Context, r *registry.Registry, v registry.Version, cache string) error {
	m, err := Load(ctx, r, v, cache)
	if err != nil {
		return err
	}
	m.Retire()
	return nil
}

// warmUp makes the first request as fast as later ones. It scores made-up rows, which compiles the trees, compares
// every 64th of them with walking down each tree, and scores one empty row as a request would be. The error says that
// the version cannot predict.
func (m *Model) warmUp() error {
	// Rows of many different values, some missing.
	width, n := m.Scorer.Model.Features(), m.Scorer.Model.Outputs()
	x, out, want := make([]float64, warmRows*width), make([]float64, warmRows*n), make([]float64, n)
	for i := range x { // 97 and 89 are primes, so that rows repeat neither values nor gaps soon
		x[i] = float64(i%97) - 13
		if i%89 == 0 {
			x[i] = math.NaN()
		}
	}

	// Compiled trees have to predict the same bits as walking down each tree.
	if err := m.Scorer.Model.PredictAll(x, out, 1); err != nil {
		return err
	}
	for r := 0; r < warmRows; r += 64 {
		m.Scorer.Model.PredictRow(x[r*width:][:width], want)
		for k, got := range out[r*n:][:n] {
			if math.Float64bits(want[k]) != math.Float64bits(got) {
				return fmt.Errorf("%s: row %d of the check is scored %v with compiled trees and %v without",
					scorer.FileModel, r, got, want[k])
			}
		}
	}

	// One row in which all columns are null.
	b := &table.Batch{Names: m.columns, Rows: 1, Columns: make([]dataset.Values, len(m.columns))}
	for i := range b.Columns {
		b.Columns[i] = dataset.Values{Type: dataset.Text, Text: []string{""}, Null: []bool{true}}
	}
	_, err := m.Score(b, nil, nil)
	return err
}

// Score predicts the rows of a batch, which has the model's columns: the same bits as `launcher predict`, one number
// for each row, or [rows x classes]. values, unless nil, is scratch memory, which Score may replace by larger memory
// for the next call. in, unless nil, gets the counts of missing and unseen values. A batch that cannot be scored is a
// *table.InputError.
func (m *Model) Score(b *table.Batch, values *[]float64, in *cell.Inputs) ([]float64, error) {
	var scratch []float64
	if values != nil {
		scratch = *values
	}
	_, predicted, scratch, err := m.Scorer.Batch(b, scratch, 1, in)
	if values != nil && scratch != nil {
		*values = scratch
	}
	return predicted, err
}

// Acquire keeps the model in memory until Release. It reports false if the model has been closed.
func (m *Model) Acquire() bool {
	for {
		n := m.users.Load()
		if n == 0 {
			return false
		}
		if m.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release ends a use. The last one of a retired model closes it.
func (m *Model) Release() {
	if m.users.Add(-1) == 0 {
		_ = m.Scorer.Close() // unmapping memory that was mapped does not fail
	}
}

// Retire has the model closed once nobody uses it. It is called once.
func (m *Model) Retire() { m.Release() }
