package serve

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
