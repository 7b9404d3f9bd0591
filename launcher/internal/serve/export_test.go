package serve

// Open is the number of requests that are being read or answered.
func (s *Server) Open() int64 { return s.open.Load() }
