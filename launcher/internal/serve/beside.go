package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"coppice/internal/dataset/cell"
	"coppice/internal/program"
)

// follow fetches a version that is scored beside, or answers a share, when its alias moves.
func (s *Server) follow(ctx context.Context, ref string, at *atomic.Pointer[Model]) {
	if ref == "" {
		return
	}
	v, err := s.c.Registry.Get(ctx, s.c.Model, ref)
	was := at.Load()
	if err != nil || was != nil && same(was.Version, v) {
		return
	}
	m, err := Load(ctx, s.c.Registry, v, s.c.Cache)
	if err != nil {
		s.c.Log.Warn("the version of --shadow or --split cannot be loaded", "version", ref, "error", err.Error())
		return
	}
	s.c.Log.Info("a version runs beside", "alias", ref, "version", m.Name)
	if old := at.Swap(m); old != nil {
		old.Retire()
	}
}

// Canary is a version that answers a share of the requests.
type Canary struct {
	Ref   string  // an alias or a number; empty for none
	Share float64 // of the keys, 0 to 1
}

// ParseSplit reads ALIAS=SHARE, the share in percent; an empty text is none.
func ParseSplit(text string) (Canary, error) {
	if text == "" {
		return Canary{}, nil
	}
	ref, share, _ := strings.Cut(text, "=")
	number, percent := strings.CutSuffix(share, "%")
	x, err := strconv.ParseFloat(number, 64)
	if ref == "" || !percent || err != nil || !(x > 0 && x < 100) {
		return Canary{}, program.Usagef(
			"--split %q: give an alias or a version and its share, above 0 and below 100 %%, "+
				"as in canary=5%%",
			text,
		)
	}
	return Canary{ref, x / 100}, nil
}

// headerKey has what decides which version answers, such as a user: one key has one version, on every server.
const headerKey = "Coppice-Key"

var errNotSplit = errors.New("the request is not of the share of --split")

// splitFor returns the version of --split, acquired, if it is to answer; nil otherwise. A request without a key is
// decided by its own bytes.
func (s *Server) splitFor(r *http.Request, body []byte) *Model {
	if s.c.Split.Ref == "" || r.PathValue("version") != "" {
		return nil
	}
	key := []byte(r.Header.Get(headerKey))
	if len(key) == 0 {
		key = body
	}
	if cell.Unit(cell.HashText(fmt.Appendf(nil, "%s %s", s.c.Model, key))) >= s.c.Split.Share {
		return nil
	}
	return acquired(&s.split)
}
