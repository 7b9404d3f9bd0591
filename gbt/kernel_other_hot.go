//go:build !amd64 || purego

package gbt

func hasVectors() bool   { return false }
func canPickBytes() bool { return false }

func pause() {}

// buffers are for assembly.
type buffers struct{}

func newBuffers(int) *buffers { return nil }

func (k *kernel) countAll(space *workspace, rows []uint32)    { k.countAllGo(space, rows) }
func (k *kernel) countChosen(space *workspace, rows []uint32) { k.countChosenGo(space, rows) }
func (k *kernel) countSparse(space *workspace, rows []uint32) int64 {
	return k.countSparseGo(space, rows)
}

func fillBinary(gh []uint32, score []float64, label, weight []float32, class [2]float64, pack packing, lo, hi int, k key) {
	fillBinaryGo(gh, score, label, weight, class, pack, lo, hi, k)
}

// Probabilities does to all scores, in place, what Probability does to one.
func Probabilities(scores []float64) { probabilitiesGo(scores) }

// drawRows draws want of rows by Knuth's algorithm S: to the front of rows, the others to spare, both in their order. It
// returns want. spare is as long as rows.
func drawRows(k key, rows, spare []uint32, want int) int {
	return draw{want: want}.to(len(rows), k, rows, spare).in
}

// partition moves those of rows whose bin is in left to the front of rows, and writes the others to right, both in their
// order. It returns how many went left. rows lie inside column; right is as long as rows.
func partition(rows, right []uint32, column []byte, left *binSet) int {
	return partitionGo(rows, right, column, left, 0, 0)
}

// bestWord is the bin behind whose running sums of words, with extra added, the best threshold lies, and the gain of both
// sides together; -1 when no bin's exceeds goal. Of equals, the lowest bin. It is for scorers without l1 or bounds.
func (s *splitScorer) bestWord(words []int64, extra sums, t *leafTask, goal float64) (gain float64, at int) {
	return s.bestWordGo(words, extra, t, goal)
}

// routePlan is for assembly.
type routePlan struct{}

func routable(*Tree, [][]byte) bool                 { return false }
func newRoutePlan(*Tree, [][]byte) *routePlan       { return nil }
func (*routePlan) run([]block, []uint64, []float64) {}
