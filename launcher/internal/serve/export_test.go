package serve

import (
	"context"

	"coppice/internal/dataset/cell"
)

// Answered counts a request.
func (m *Meters) Answered(ctx context.Context, predictions []float64, in *cell.Inputs) {
	m.countAnswered(ctx, predictions, in, 0)
}

// Swapped counts that a version begins to answer.
func (m *Meters) Swapped(ctx context.Context, to *Model) { m.countSwap(ctx, to) }

// Open is the number of requests that wait or are being answered.
func (s *Server) Open() int64 { return s.open.Load() }

// Held is how many bytes of requests are in memory.
func (s *Server) Held() int64 { return s.held.Load() }

// HoldTurns has requests wait until release is called.
func (s *Server) HoldTurns() (release func()) {
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	return func() {
		for range cap(s.turns) {
			<-s.turns
		}
	}
}
