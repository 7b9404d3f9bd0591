//go:build !amd64 || purego

package gbt

func hasVectors() bool   { return false }
func canPickBytes() bool { return false }

func pause() {}

// buffers is used by assembly only.
type buffers struct{}

func newBuffers(int) *buffers { return nil }

func (k *kernel) addAll(space *workspace, rows []uint32)    { k.addAllGo(space, rows) }
func (k *kernel) addChosen(space *workspace, rows []uint32) { k.addChosenGo(space, rows) }
func (k *kernel) addSparse(space *workspace, rows []uint32) int64 {
	return k.addSparseGo(space, rows)
}

func (l *logistic) fillRows(gh []uint32, raw []float64, lo, hi int, k key) {
	l.fillRowsGo(gh, raw, lo, hi, k)
}

func roundBlock(gh []uint32, g, h []float64, pack packing, k key) { roundBlockGo(gh, g, h, pack, k) }

// Probabilities applies Probability to all scores in place.
func Probabilities(scores []float64) { probabilitiesGo(scores) }

func exponentials(x []float64, factor float64) { exponentialsGo(x, factor) }

func (p *pairs) add(first int, score, label, gain, discount, g, h []float64) {
	p.addGo(first, score, label, gain, discount, g, h)
}

// partition moves those rows whose bin is in left to the front of rows, and the others to right, both in order. It
// returns how many went left. rows is ascending and within column; right is as long as rows.
func partition(rows, right []uint32, column []byte, left *binSet) int {
	return partitionGo(rows, right, column, left, 0, 0)
}

// bestWord finds the best threshold in words, with extra added to every running sum. It returns the gain of both sides
// together and the bin before the threshold; -1 if no gain exceeds goal. On a tie, the lowest bin. It does not support
// l1 or bounds.
func (s *splitScorer) bestWord(words []int64, extra sums, t *splitTarget, goal float64) (gain float64, at int) {
	return s.bestWordGo(words, extra, t, goal)
}

// subtractWords subtracts words from as many others.
func subtractWords(from, words []int64) { subtractWordsGo(from, words) }

func (s *batchScratch) addFew(trees []flatTree, _ int) int {
	s.routeRows(&trees[0])
	s.addExits(&trees[0])
	return 1
}

func (*numberColumn) widened([]float64) []float64                  { return nil }
func (*numberColumn) locateFew([]float64, int, int, []uint64) bool { return false }
