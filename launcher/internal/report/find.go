package report

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
	"coppice/launcher/internal/sweepview"
)

// AnyPage is a page of any kind.
type AnyPage interface{ Write(io.Writer) error }

// Pages reads what there is a page about. Plans, conclusions and the records of nights, of which the store says whether
// they have changed, are read once. It is not safe for concurrent use.
type Pages struct {
	Sweeps, Datasets blob.Store
	Registry         *registry.Registry
	Online           bool // sweeps' machines cost something
	Job              AskJob
	Links            Links

	seen   map[sweep.ID]seen
	nights map[string]kept // by the name of a record's object
	all    bool            // whether all sweeps are read, and not only the newest mostSweeps
}

// New returns a reader of three buckets.
func New(sweeps, datasets blob.Store, reg *registry.Registry, online bool) *Pages {
	return &Pages{Sweeps: sweeps, Datasets: datasets, Registry: reg, Online: online, seen: map[sweep.ID]seen{},
		nights: map[string]kept{}}
}

// Find reads the page that a name refers to: that of a sweep, else of a dataset, else of a model. A prefix such as
// model: says which is meant. note says if the name is also that of a later kind. If there is nothing of the name, the
// error is about the first kind that it could be, which is the sweep unless it cannot be the name of one.
func (d *Pages) Find(ctx context.Context, name string) (view AnyPage, note string, err error) {
	var first error
	_, _, noDataset := sweep.SplitDatasetRef(name)
	for _, k := range []struct {
		prefix string
		fits   bool
		read   func(string) (AnyPage, error)
	}{
		{"sweep:", sweep.CheckID(name) == nil, func(id string) (AnyPage, error) { return d.Sweep(ctx, id) }},
		{"dataset:", noDataset == nil, func(ref string) (AnyPage, error) { return d.Dataset(ctx, ref) }},
		{"model:", sweep.CheckName("model", name) == nil, func(m string) (AnyPage, error) { return d.Model(ctx, m) }},
	} {
		// Read it, if it is named as of this kind, or could be of this kind.
		rest, named := strings.CutPrefix(name, k.prefix)
		if !named && !k.fits {
			continue
		}
		switch view, err = k.read(rest); {
		case named:
			return view, "", err
		case err == nil:
			return view, d.noteOthers(ctx, k.prefix, name), nil
		case !problem.Is(err, problem.NotFound):
			return nil, "", err
		}
		// There is none of this kind: try the next.
		first = cmp.Or(first, err)
	}

	// There is none, or the name cannot be that of any kind.
	if first == nil && name != sweepview.Latest && strings.Contains(name, "@") {
		return nil, "", problem.New(problem.Usage, "%.80q is neither a sweep nor a dataset's NAME@VERSION, and a "+
			"model's page has all its versions: give its name alone", name)
	}
	if first == nil {
		view, err = d.Sweep(ctx, name) // it reports what is wrong with the name
		return view, "", err
	}
	return nil, "", fmt.Errorf("%w; nor is there such a dataset or model: `launcher datasets list`, `launcher "+
		"registry list`", first)
}

// noteOthers returns a note if a name, whose page is that of the given kind ("sweep:" or another prefix), is also the
// name of something of a later kind: a dataset or, without one, a model. Else, or if that cannot be read, it is "".
func (d *Pages) noteOthers(ctx context.Context, kind, name string) string {
	_, noDataset := stager.Resolve(ctx, d.Datasets, name)
	_, noModel := d.Registry.Get(ctx, name, "")
	switch {
	case kind == "sweep:" && noDataset == nil:
		return fmt.Sprintf("note: this is the page of %s%s; there is dataset:%s, too", kind, name, name)
	case kind != "model:" && noModel == nil:
		return fmt.Sprintf("note: this is the page of %s%s; there is model:%s, too", kind, name, name)
	}
	return ""
}

// Sweep reads the page of the sweep that arg names, as it stands now.
func (d *Pages) Sweep(ctx context.Context, arg string) (*page.Sweep, error) {
	id, err := sweepview.Find(ctx, d.Sweeps, arg)
	if err != nil {
		return nil, err
	}
	s, err := OpenSweep(ctx, d.Sweeps, d.Registry, id)
	if err != nil {
		return nil, err
	}
	s.Online, s.Job, s.Links = d.Online, d.Job, d.Links
	view, _, err := s.Look(ctx)
	return view, err
}
