package serve

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"coppice/internal/dataset/cell"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/registry"
)

// following is what the watcher knows of a version that runs beside the one that answers.
type following struct {
	flag, ref string
	at        *atomic.Pointer[Model]
	failed    failure
	said      string
}

// follow fetches a version that is scored beside, or answers a share, when its alias moves, and lets it go when there
// is none any more.
func (s *Server) follow(ctx context.Context, f *following) {
	now := s.current.Load()
	if f.ref == "" || now == nil {
		return
	}
	v, err := s.c.Registry.Get(ctx, s.c.Model, f.ref)
	was := f.at.Load()
	next := was
	switch {
	case problem.Is(err, problem.NotFound):
		next = nil
	case err != nil:
	case was != nil && same(was.Version, v):
		f.said = ""
	case f.failed.waits(v.Number):
		return
	default:
		if next, err = loadBeside(ctx, s.c, v, now); err != nil {
			next = was
			f.failed.again(v.Number, s.c.Poll, mostPause)
		}
	}
	if next != was {
		f.at.Store(next)
		if was != nil {
			was.Retire()
		}
		if next != nil {
			f.failed, f.said = failure{}, ""
			s.c.Log.Info("a version runs beside", "flag", f.flag, "alias", f.ref, "version", next.Name)
		}
	}
	if err != nil && ctx.Err() == nil && f.said != err.Error() {
		f.said = err.Error()
		s.c.Log.Warn("a version that is to run beside is not there", "flag", f.flag, "alias", f.ref, "error", f.said)
	}
}

// loadBeside is Load for a version whose answers are to have the form of now's.
func loadBeside(ctx context.Context, c Config, v registry.Version, now *Model) (*Model, error) {
	m, err := Load(ctx, c.Registry, v, c.Cache)
	if err != nil {
		return nil, err
	}
	if why := m.otherClasses(now); why != "" {
		m.Retire()
		return nil, problem.New(problem.Conflict, "%s", why)
	}
	return m, nil
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
			"--split %q: give an alias or a version and its share, above 0 and below 100 %%, as in "+
				"canary=5%%", text)
	}
	return Canary{ref, x / 100}, nil
}

// headerKey has what decides which version answers, such as a user: one key has one version, on every server.
const headerKey = "Coppice-Key"

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
