package gbt

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coppice/internal/must"
)

// The tests below compare assembly routines with their Go counterparts. On a processor without the assembly both sides
// are the same: a test then checks only what else it covers, and reports that it skipped the comparison.

// saySkipped marks the test as skipped if the processor has no vectors for the routine that it compares.
func saySkipped(t *testing.T, vectors bool) {
	t.Helper()
	if !vectors {
		t.Skip("SKIPPED: this processor or this build (purego, other architectures) lacks the AVX-512 instructions " +
			"needed; Go was compared with itself")
	}
}

// TestCountingEqualsGo: histograms by assembly are those of the Go loops, for rows of 1 to 400 features, many rows or
// few, and both ways to pack them. In three quarters of the cells is the feature's most frequent bin.
func TestCountingEqualsGo(t *testing.T) {
	long(t)
	rng := rand.New(rand.NewPCG(7, 7))
	for _, width := range []int{1, 3, 7, 8, 9, 28, 40, 63, 64, 65, 130, 256, 257, 400} {
		const n = 3000
		table := make([]byte, n*width)
		for i := range table {
			table[i] = byte(rng.IntN(256))
		}
		frequent := frequentBins{bin: make([]byte, (width+63)&^63)}
		for f := range frequent.bin {
			frequent.bin[f] = byte(rng.IntN(256))
		}
		for i := range table {
			if rng.IntN(4) > 0 {
				table[i] = frequent.bin[i%width]
			}
		}
		gh := make([]uint32, n)
		for i := range gh {
			gh[i] = rng.Uint32()
		}
		for _, shift := range []uint{bitsVaryingHessian, bitsUnitHessian} {
			for _, oneIn := range []int{1, 2, 17, 900} { // of how many rows one is counted
				var rows []uint32
				for r := range uint32(n) {
					if rng.IntN(oneIn) == 0 {
						rows = append(rows, r)
					}
				}
				if len(rows) == 0 {
					continue
				}
				features := []int{0}
				for f := 1; f < width; f++ {
					if rng.IntN(3) > 0 {
						features = append(features, f)
					}
				}
				k := newKernel(table, width, features, &frequent, gh, packing{hessianBits: shift})

				// same compares what the assembly (f) and Go (g) add to an empty workspace, and what they return.
				same := func(name string, f, g func(*workspace) int64) {
					a, b := newHistogramBuilder(&Data{Features: make([]Feature, width)}, newPoolOfSize(1)).spaces[0],
						workspace{words: make([]int64, stride*width), rowWords: make([]int64, kernelRows)}
					x, y := f(&a), g(&b)
					for at := byteBins; at < len(a.words); at += stride {
						clear(a.words[at : at+stride-byteBins]) // behind the bins anything may lie
					}
					if x != y || !slices.Equal(a.words, b.words) {
						t.Errorf("width %d, shift %d, %d rows: the assembly adds %s otherwise than Go (%#x, want "+
							"%#x) or to other words", width, shift, len(rows), name, x, y)
					}
				}
				same("all features", func(s *workspace) int64 { k.addAll(s, rows); return 0 },
					func(s *workspace) int64 { k.addAllGo(s, rows); return 0 })
				same("chosen features", func(s *workspace) int64 { k.addChosen(s, rows); return 0 },
					func(s *workspace) int64 { k.addChosenGo(s, rows); return 0 })
				same("sparse", func(s *workspace) int64 { return k.addSparse(s, rows) },
					func(s *workspace) int64 { return k.addSparseGo(s, rows) })
			}
		}
	}
	saySkipped(t, canPickBytes())
}

// pieceOfRows is how many rows an assembly routine gets per call.
const pieceOfRows = 1 << 16

// TestGradientsEqualGo: gradients and hessians by assembly have the bits of those by Go, also for scores at the ends.
func TestGradientsEqualGo(t *testing.T) {
	long(t)
	rng := rand.New(rand.NewPCG(8, 8))
	const n = 2*pieceOfRows + 4099
	score, label, weight := make([]float64, n), make([]float32, n), make([]float32, n)
	for i := range score {
		score[i] = rng.NormFloat64() * []float64{0.01, 1, 10, 1000}[rng.IntN(4)]
		label[i] = float32(rng.IntN(2))
		weight[i] = float32(rng.Float64() * 3)
	}
	copy(score, []float64{0, math.Copysign(0, -1), 40, -40, 40.1, -40.1, 1e308, -1e308, math.Inf(1), math.Inf(-1),
		5e-324, 0.5})
	weight[17] = 0
	for _, w := range [][]float32{nil, weight} {
		for _, class := range [][2]float64{{1, 1}, {1, 17.25}, {0.3, 1}} {
			// All rows, none, one, some that begin and end within vectors of eight, and as many as a call takes.
			for _, part := range [][2]int{{0, n}, {0, 0}, {3, 4}, {5, 13}, {1, n - 1}, {0, 4096}, {0, pieceOfRows},
				{7, pieceOfRows + 8}} {
				heaviest := 3 * max(class[0], class[1]) // |gradient| is less, and the hessian at most a quarter of it
				pack := packing{hessianBits: bitsVaryingHessian, g1: heaviest / maxG16, h1: heaviest / 4 / maxH16}
				got, want := make([]uint32, n), make([]uint32, n)
				l := logistic{d: &Data{Label: label, Weight: w}, positive: 1, weight: class, pack: pack}
				l.fillRows(got, score, part[0], part[1], newKey(9, forRounding, 3))
				l.fillRowsGo(want, score, part[0], part[1], newKey(9, forRounding, 3))
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("weights %v, classes %v, rows %v: row %d (score %v, label %v): %#x, want %#x",
							w != nil, class, part, i, score[i], label[i], got[i], want[i])
					}
				}
			}
		}
	}
	saySkipped(t, hasVectors())
}

// TestRoundingEqualsGo: rounding by assembly gives the packed words of Go, for blocks of any length.
func TestRoundingEqualsGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	pack := packing{hessianBits: bitsVaryingHessian, g1: 0.3, h1: 1e-3}
	for n := range blockRows + 1 {
		g, h := make([]float64, n), make([]float64, n)
		for i := range g {
			g[i] = rng.NormFloat64() * []float64{0, 5e-324, 1e-9, 1, 1000, 1e300}[rng.IntN(6)]
			h[i] = math.Abs(rng.NormFloat64()) * []float64{0, 5e-324, 1e-9, 1, 20, 1e300}[rng.IntN(6)]
		}
		copy(g, []float64{math.Inf(1), math.Inf(-1), math.Copysign(0, -1)})
		got, want := make([]uint32, n), make([]uint32, n)
		roundBlock(got, g, h, pack, newKey(9, forRounding, n))
		roundBlockGo(want, g, h, pack, newKey(9, forRounding, n))
		if !slices.Equal(got, want) {
			t.Fatalf("%d rows: got %v, want %v", n, got, want)
		}
	}
	saySkipped(t, hasVectors())
}

// oddExponents are the ends of what exponentials can take, and beyond.
var oddExponents = []float64{0, math.Copysign(0, -1), 708, -708, 708.5, -708.5, 745.2, -745.2, 1e308, -1e308,
	math.Inf(1), math.Inf(-1), 5e-324, -5e-324, 0x1p-1022, math.NaN(),
	math.Float64frombits(0xfff8000000abcdef), 0.5, math.Ln2 / 2}

// FuzzExponentialsEqualGo: exponentials by assembly have the bits of those by Go, for any numbers.
func FuzzExponentialsEqualGo(f *testing.F) {
	for _, x := range oddExponents {
		for _, factor := range []float64{1, -1, 0.5, math.Inf(1), math.NaN(), -0.6} {
			f.Add(math.Float64bits(x), math.Float64bits(factor))
		}
	}
	f.Fuzz(func(t *testing.T, x, factor uint64) {
		rng := rand.New(rand.NewPCG(x, factor))
		numbers := []float64{math.Float64frombits(x)}
		for range 16 + rng.IntN(8) {
			numbers = append(numbers, math.Float64frombits(rng.Uint64()), 40*rng.NormFloat64())
		}
		for _, factor := range []float64{1, -1, math.Float64frombits(factor)} {
			got, want := slices.Clone(numbers), slices.Clone(numbers)
			exponentials(got, factor)
			exponentialsGo(want, factor)
			for i, v := range got {
				if same := math.Float64bits(v) == math.Float64bits(want[i]); !same && (v == v || want[i] == want[i]) {
					t.Fatalf("number %d, %v times %v: %x, want %x", i, numbers[i], factor, v, want[i])
				}
				exact := math.Exp(factor * numbers[i])
				if math.Abs(factor*numbers[i]) < 708 && math.Abs(v-exact) > 4.5e-16*exact {
					t.Fatalf("e^(%v %v) is %v, want %v within two units in the last place", factor, numbers[i], v,
						exact)
				}
			}
		}
	})
}

// FuzzPairsEqualGo: the gradients of pairs by assembly have the bits of those by Go, for any number of rows and any
// scores, and nothing behind the slices is written.
func FuzzPairsEqualGo(f *testing.F) {
	for n := range uint64(30) {
		f.Add(n, n, math.Float64bits(1), 0.7)
	}
	f.Add(uint64(3), uint64(1000), math.Float64bits(1e300), 1e300)
	f.Add(uint64(1500), uint64(1990), math.Float64bits(1), 1.1)
	f.Fuzz(func(t *testing.T, seed, n, width uint64, sigma float64) {
		rng := rand.New(rand.NewPCG(seed, 3))
		rows := 2 + int(n%2000)
		of := func(f func(i int) float64) []float64 {
			x := make([]float64, rows)
			for i := range x {
				x[i] = f(i)
			}
			return x
		}
		scale := math.Float64frombits(width)
		score := of(func(int) float64 { return scale * float64(rng.IntN(9)) * rng.Float64() })
		slices.Sort(score)
		slices.Reverse(score)
		label := of(func(int) float64 { return float64(rng.IntN(4)) })
		gain := of(func(i int) float64 { return 1.7 * label[i] })
		discount := of(func(i int) float64 { return 1 / float64(i+1) })
		all := pairs{sigma: sigma, negSigma: -sigma, factor: sigma / 3, near: 0.01, far: 1}
		sums := func(add func(p *pairs, first int, score, label, gain, discount, g, h []float64)) []float64 {
			p, g, h := all, of(func(i int) float64 { return float64(i) }), of(func(int) float64 { return 1 })
			end := rows - 1
			first := int(seed % uint64(end)) // with many, more than one call
			add(&p, first, score[:end], label[:end], gain[:end], discount[:end], g[:end], h[:end])
			return slices.Concat(g, h, []float64{p.sum})
		}
		got, want := sums((*pairs).add), sums((*pairs).addGo)
		for i, v := range got {
			if same := math.Float64bits(v) == math.Float64bits(want[i]); !same && (v == v || want[i] == want[i]) {
				t.Fatalf("%d rows, sigma %v: number %d is %x, want %x", rows, sigma, i, v, want[i])
			}
		}
	})
}

// TestNoPairsBehindTheEnd: the assembly takes eight rows at a time, and what a vector has beyond the last row must not
// count as a row of score 0. Its pair with the first row, of score -0.01, would be divided by near (0.01) and the
// difference of the scores (-0.01), that is by 0. Rows may have that score after a first tree, with max_delta_step 1
// and learning_rate 0.01.
func TestNoPairsBehindTheEnd(t *testing.T) {
	for n := 2; n < 20; n++ {
		got := pairs{sigma: 1, negSigma: -1, factor: 1, near: 0.01, far: 1}
		want := got
		score := slices.Repeat([]float64{-0.02}, n)
		score[0] = -0.01
		label := make([]float64, n)
		label[0] = 1
		g, h, wantG, wantH := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		got.add(1, score, label, label, label, g, h) // gains and discounts may be the labels, too
		want.addGo(1, score, label, label, label, wantG, wantH)
		if got != want || !slices.Equal(g, wantG) || !slices.Equal(h, wantH) {
			t.Errorf("%d rows: %v, gradients %v and hessians %v; want %v, %v and %v", n, got, g, h, want, wantG, wantH)
		}
	}
}

// TestProbabilitiesEqualGo: probabilities by assembly have the bits of those by Go, also for odd exponents.
func TestProbabilitiesEqualGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for _, n := range []int{0, 1, 7, 8, 9, 4099, pieceOfRows + 9} {
		scores := make([]float64, n)
		for i := range scores {
			scores[i] = rng.NormFloat64() * []float64{1e-9, 0.01, 1, 10, 300, 1000}[rng.IntN(6)]
		}
		copy(scores[n/2:], oddExponents)
		got, want := slices.Clone(scores), slices.Clone(scores)
		Probabilities(got)
		probabilitiesGo(want)
		for i := range got {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
				t.Fatalf("row %d of %d, score %v: %x, want %x", i, n, scores[i], got[i], want[i])
			}
		}
	}
	saySkipped(t, hasVectors())
}

// TestProbability: Probability is 1 / (1 + e^-raw) by the standard library's exponential but for the last digits.
func TestProbability(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for range 20_000 {
		s := rng.NormFloat64() * []float64{1e-9, 0.01, 1, 10, 100}[rng.IntN(5)]
		got, want := Probability(s), 1/(1+math.Exp(-s))
		if math.Abs(got-want) > 1e-15*want {
			t.Fatalf("probability of %v is %v, want %v", s, got, want)
		}
	}
	for s, want := range map[float64]float64{0: 0.5, math.Inf(1): 1, 750: 1, 40: 1} {
		must.Equal(t, Probability(s), want, "probability of %v", s)
	}
	if p := Probability(math.Inf(-1)); p <= 0 || p > 1e-300 {
		t.Errorf("the probability of -Inf is %v, want one above 0 and at most 1e-300", p)
	}
	if p := Probability(math.NaN()); p == p {
		t.Errorf("the probability of NaN is %v, want NaN", p)
	}
}

// TestDraws: drawRows draws as many rows as wanted, and leaves both the drawn and the other rows in order. Rows are
// every third number, so that a row is not taken for its place.
func TestDraws(t *testing.T) {
	for _, n := range []int{1, 2, 17, 100, 5000} {
		for _, want := range []int{0, 1, 2, n / 10, n / 2, n - 1, n} {
			if want > n {
				continue
			}
			rows, spare := make([]uint32, n), make([]uint32, n)
			for i := range rows {
				rows[i] = uint32(3 * i)
			}
			in := drawRows(newKey(5, forBag, want), rows, spare, n, want)
			all := slices.Sorted(slices.Values(slices.Concat(rows[:in], spare[:n-in])))
			if in != want || !slices.IsSorted(rows[:in]) || !slices.IsSorted(spare[:n-in]) ||
				len(slices.Compact(all)) != n {
				t.Fatalf("%d of %d rows are drawn, want %d, both parts in order: %v and %v", in, n, want, rows[:in],
					spare[:n-in])
			}
		}
	}
}

// TestPartitionEqualsGo: rows are divided by assembly as by Go, in the same order, for columns around the 16 rows of a
// vector and the rows of a call, all, half or a tenth of their rows, and no, some or all bins on the left.
func TestPartitionEqualsGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, n := range []int{1, 3, 4, 15, 16, 17, 64, 100, 5000, pieceOfRows, 2*pieceOfRows + 35} {
		column := make([]byte, n)
		for i := range column {
			column[i] = byte(rng.IntN(256))
		}
		for _, density := range []int{1, 2, 10} {
			var rows []uint32
			for r := range uint32(n) {
				if rng.IntN(density) == 0 {
					rows = append(rows, r)
				}
			}
			for _, share := range []int{0, 1, 128, 255, 256} { // of the bins, on the left
				var left binSet
				for b := range 256 {
					if rng.IntN(256) < share {
						left.add(b)
					}
				}
				t.Run(fmt.Sprintf("%d of %d rows, %d bins", len(rows), n, share), func(t *testing.T) {
					got, want := slices.Clone(rows), slices.Clone(rows)
					gotRight, wantRight := make([]uint32, len(rows)), make([]uint32, len(rows))
					k := partition(got, gotRight, column, &left)
					if wantK := partitionGo(want, wantRight, column, &left, 0, 0); k != wantK {
						t.Fatalf("%d go left, want %d", k, wantK)
					}
					if !slices.Equal(got[:k], want[:k]) ||
						!slices.Equal(gotRight[:len(rows)-k], wantRight[:len(rows)-k]) {
						t.Error("the assembly divides the rows otherwise than Go, want the same rows in the same order")
					}
				})
			}
		}
	}
	saySkipped(t, hasVectors())
}

// TestSubtractingWordsEqualsGo: words are subtracted by assembly as by Go, for any number of them.
func TestSubtractingWordsEqualsGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for n := range 40 {
		got, words := make([]int64, 50), make([]int64, n)
		for i := range got {
			got[i] = rng.Int64()
		}
		for i := range words {
			words[i] = rng.Int64()
		}
		want := slices.Clone(got)
		subtractWords(got, words)
		subtractWordsGo(want, words)
		if !slices.Equal(got, want) {
			t.Fatalf("%d words: got %v, want %v", n, got, want)
		}
	}
	saySkipped(t, hasVectors())
}

// TestRatingWordsEqualsGoAndEntries: bestWord by assembly finds the threshold and gain that bestWordGo finds, and
// bestThreshold in the decoded entries.
func TestRatingWordsEqualsGoAndEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for round := range 4000 {
		pack := packing{hessianBits: []uint{bitsVaryingHessian, bitsUnitHessian}[round%2], g1: 1, h1: 1}
		words := make([]int64, rng.IntN(257))
		var sum int64
		for b := range words {
			switch rng.IntN(3) {
			case 0: // gradients that cancel and repeat, so that gains tie
				words[b] = int64(rng.IntN(5)-2)<<pack.hessianBits + int64(rng.IntN(3))
			case 1:
				words[b] = int64(rng.IntN(2e6)-1e6)<<pack.hessianBits + int64(rng.IntN(1e4))
			}
			sum += words[b]
		}
		var miss sums
		if rng.IntN(2) == 0 {
			miss = sums{float64(rng.IntN(100) - 50), float64(rng.IntN(3))}
		}
		g, h := pack.sums(sum)
		p := Defaults()
		p.MinDataInLeaf, p.LambdaL2 = rng.IntN(3), float64(rng.IntN(2))
		total := sums{float64(g), float64(h)}.plus(miss)
		if total.h == 0 {
			continue // the rows of a leaf have hessian, or it is never split (splittable)
		}
		s := newSplitScorer(&p, pack)
		task := s.target(total, 1000)
		for _, extra := range []sums{{}, miss} {
			for _, goal := range []float64{task.minGain, 0, math.MaxFloat64} {
				gain, at := s.bestWord(words, extra, &task, goal)
				wantGain, wantAt := s.bestWordGo(words, extra, &task, goal)
				if gain != wantGain || at != wantAt {
					t.Fatalf("round %d: bin %d with gain %v, want %d with %v", round, at, gain, wantAt, wantGain)
				}
			}
		}
		var c scan
		c.decode(histogram{packed: words}, 0, len(words), pack)
		got, ok := s.bestInWords(words, miss, &task, task.minGain)
		want, wantOK := s.bestInScan(&c, miss, &task, task.minGain)
		if got != want || ok != wantOK {
			t.Fatalf("round %d: %+v %v among words, want %+v %v as among entries", round, got, ok, want, wantOK)
		}
	}
	saySkipped(t, hasVectors())
}

// TestAddScoresEqualsRowByRow: addPredictions adds to each row what walking it down each tree gives, for trees of 2 to
// 300 leaves, and for all rows, many, few or one.
func TestAddScoresEqualsRowByRow(t *testing.T) {
	long(t)
	d := randomTable(tableSpec{rows: 2*window + 1234, numerical: 5, categorical: 3, bins: 200, missing: 0.1, seed: 21})
	full := d.Data
	for _, leaves := range []int{2, 3, 31, 97, 129, 256, 257, 300} {
		p := Defaults()
		d.Data = full
		p.NumIterations, p.NumLeaves, p.MinDataInLeaf, p.MaxCatToOnehot = 3, leaves, 1, 2
		trees := mustTrain(t, &d.Data, p, Options{Threads: 2}).Model.Trees
		for _, tree := range trees {
			if tree.Leaves() != leaves {
				t.Fatalf("a tree has %d leaves, want %d", tree.Leaves(), leaves)
			}
		}
		rng := rand.New(rand.NewPCG(uint64(leaves), 1))
		var sparse, dense []uint32
		for r := range uint32(d.Rows) {
			if rng.IntN(90) == 0 {
				sparse = append(sparse, r)
			}
			if rng.IntN(3) > 0 {
				dense = append(dense, r)
			}
		}
		for _, subset := range [][]uint32{nil, sparse, dense, {uint32(d.Rows - 1)}} {
			d.Subset = subset
			scores := make([]float64, d.Rows)
			for r := range scores {
				scores[r] = rng.NormFloat64()
			}
			want := slices.Clone(scores)
			for _, r := range usedRows(&d.Data) {
				for _, tree := range trees {
					want[r] += tree.LeafValue[leafOf(tree, d.Columns, r)]
				}
			}
			for _, threads := range []int{1, 3} {
				got := slices.Clone(scores)
				addPredictions(context.Background(), trees, d.Columns, d.rows(), got, newWalks(testPool(t, threads)))
				if !slices.Equal(got, want) {
					t.Fatalf("%d leaves, %d rows, %d threads: other scores than row by row, want the same bits", leaves,
						d.Used(), threads)
				}
			}
		}
	}
}

// leafOf returns the leaf that a row of a binned table reaches.
func leafOf(tree *Tree, columns [][]byte, row uint32) int {
	node := 0
	for node >= 0 {
		if tree.left[node].has(int(columns[tree.Feature[node]][row])) {
			node = tree.Left[node]
		} else {
			node = tree.Right[node]
		}
	}
	return ^node
}
