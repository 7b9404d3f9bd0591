package gbt

import (
	"crypto/sha256"
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/must"
)

var update = flag.Bool("update", false, "write testdata/models/want.txt anew")

// goldenTrials cover binary and squared loss, weights, all parameters of randomParams, sampling and limits; behind them
// is one trial of each objective.
const goldenTrials = 48

// TestModelBytesOnEveryProcessor: the tables, models and contributions of random trials have the bytes of those on
// amd64 with AVX-512, whose hashes are in testdata/models/want.txt. It also runs without assembly, and on arm64, whose
// compiler fuses x*y + z wherever a conversion does not forbid it. If a line differs in its table already, the
// generator of tables has changed, and the line says nothing of models.
func TestModelBytesOnEveryProcessor(t *testing.T) {
	var got strings.Builder
	for seed := range uint64(goldenTrials) {
		fmt.Fprintln(&got, goldenLine(t, seed))
	}
	for i, name := range Objectives() {
		trial := randomTrial(uint64(i), tableOfFew).withObjective(name, rand.New(rand.NewPCG(uint64(i), 5)))
		fmt.Fprintf(&got, "%s model %s\n", name, short(trial.train(t, Options{Threads: 2})))
	}

	path := filepath.Join("testdata", "models", "want.txt")
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got.String()), 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if got.String() != string(want) {
		t.Errorf("training %d random trials gives other bytes: %s\na new parameter needs addedLater in its row of "+
			"paramTable; if random trials draw it now, or models are meant to change: go test ./internal/gbt -run "+
			"ModelBytes -update",
			goldenTrials, firstDifference([]byte(got.String()), want))
	}
}

func short(b []byte) string { sum := sha256.Sum256(b); return fmt.Sprintf("%x", sum[:6]) }

// goldenLine trains a trial and returns its line of want.txt: the first bytes of the hashes of its table, its model and
// the contributions to some rows.
func goldenLine(t *testing.T, seed uint64) string {
	t.Helper()
	trial := randomTrial(seed, tableOfFew)
	m := mustTrain(t, &trial.Data, trial.p, Options{Threads: 2, Shift: float64(seed % 3)}).Model

	rows := min(20, trial.Rows)
	contributions := make([]float64, rows*(len(trial.Features)+1))
	if err := m.Contributions(trial.raw[:rows*len(trial.Features)], contributions, 1); err != nil {
		t.Fatalf("%v\ncontributions: got error %v, want none", trial, err)
	}
	var numbers []byte
	for _, c := range contributions {
		numbers = fmt.Appendf(numbers, "%x ", math.Float64bits(c))
	}

	table := trial.fingerprint()
	return fmt.Sprintf("%d table %x model %s contributions %s", seed, table[:6], short(text(t, m)), short(numbers))
}

// TestLightGBMScores: models trained as testdata/lightgbm/make.py trains LightGBM's predict the same scores within
// 1e-5: the trees are the same, and leaf values differ only by the rounding of gradients.
func TestLightGBMScores(t *testing.T) {
	d := wholeNumbers(t, readCSV(t, "rows.csv", ','))
	want := readCSV(t, "want.csv", ';')
	p := Defaults()
	p.Objective, p.NumIterations, p.NumLeaves, p.LearningRate = "regression", 8, 12, 0.3
	p.MinDataInLeaf, p.MinSumHessian, p.MaxCatToOnehot, p.MinDataPerGroup = 10, 0, 1, 20
	for column, name := range want[0] {
		t.Run(name, func(t *testing.T) {
			got := must.Get(mustTrain(t, &d.Data, p, Options{}).Model.PredictBinned(&d.Data, 1))(t)
			largest, at := 0.0, 0
			for r, v := range got {
				if diff := math.Abs(v - number(t, want[r+1][column])); diff > largest {
					largest, at = diff, r
				}
			}
			if !(largest < 1e-5) {
				t.Errorf("row %d is predicted %v, want LightGBM's %s within 1e-5", at, got[at], want[at+1][column])
			}
		})
	}
}

// readCSV returns the rows of a file of testdata/lightgbm whose fields are separated by comma.
func readCSV(t *testing.T, name string, comma rune) [][]string {
	t.Helper()
	f := must.Get(os.Open(filepath.Join("testdata", "lightgbm", name)))(t)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma = comma
	return must.Get(r.ReadAll())(t)
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	return must.Get(strconv.ParseFloat(text, 64))(t)
}

// wholeNumbers is a table of small whole numbers with a bin for each; the last value of a row is its label, the one
// before it a category.
func wholeNumbers(t *testing.T, rows [][]string) *table {
	t.Helper()
	f := len(rows[0]) - 1
	d := &table{Data: Data{Rows: len(rows), Features: make([]Feature, f), Columns: make([][]byte, f),
		Label: make([]float32, len(rows))}}
	for i := range d.Features {
		feature := &d.Features[i]
		*feature = Feature{Name: "f" + strconv.Itoa(i), Categorical: i == f-1, Missing: -1}
		for _, row := range rows {
			v := int(number(t, row[i]))
			d.Columns[i] = append(d.Columns[i], byte(v))
			feature.Bins = max(feature.Bins, v+1)
		}
		for b := range feature.Bins - 1 {
			if !feature.Categorical {
				feature.Bounds = append(feature.Bounds, float64(b)+0.5)
			}
		}
	}
	for r, row := range rows {
		d.Label[r] = float32(number(t, row[f]))
	}
	d.RowMajor = rowMajor(d.Columns)
	return d
}
