package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"coppice/internal/problem"
	"coppice/internal/program/tables"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/sweepview"
)

func lsCommand(w *Setup) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List sweeps, the newest first",
		Example: "  launcher ls\n  launcher ls --json | jq '.[0].sweep'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.with(cmd.Context(), func() error { return listSweeps(cmd.Context(), w) })
		},
	}
	w.jsonFlag(cmd, "print a JSON array")
	return cmd
}

// readAtOnce is how many lines of a table are read at the same time.
const readAtOnce = 16

// listedSweep is one line of ls.
type listedSweep struct {
	Sweep   sweep.ID      `json:"sweep"`
	Created time.Time     `json:"created"`
	Dataset string        `json:"dataset"`
	Trials  int           `json:"trials"`
	Outcome sweep.Outcome `json:"outcome"` // of the conclusion, "open" or "paused"
	Model   string        `json:"model"`
	Version int           `json:"version,omitempty"`
}

func listSweeps(ctx context.Context, w *Setup) error {
	ids, err := sweepview.List(ctx, w.sweeps)
	if err != nil {
		return err
	}
	all := make([]listedSweep, len(ids))
	var group errgroup.Group
	group.SetLimit(readAtOnce)
	for i, id := range ids {
		group.Go(func() (err error) {
			all[i], err = listSweep(ctx, w, id)
			if err != nil && ctx.Err() == nil { // one unreadable sweep must not hide the others
				all[i].Sweep, all[i].Outcome, err = id, sweep.Outcome("unreadable: "+err.Error()), nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}

	// Newest first; those whose plan is unreadable have no time and come last.
	slices.SortStableFunc(all, func(a, b listedSweep) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Sweep, b.Sweep))
	})
	return w.print(all, func() {
		t := w.screen().Table("sweep", "planned", "dataset", "trials", "outcome", "registered").Least("dataset",
			"planned")
		for _, l := range all {
			registered, planned := "", ""
			if l.Version > 0 {
				registered = fmt.Sprintf("%s@%d", l.Model, l.Version)
			}
			if !l.Created.IsZero() {
				planned = l.Created.Format(time.DateTime)
			}
			t.Row(l.Sweep, planned, l.Dataset, l.Trials, tables.Standing(l.Outcome.String()), registered)
		}
		t.Print()
	})
}

// listSweep describes a sweep. With an error it describes it as far as it can be read.
func listSweep(ctx context.Context, w *Setup, id sweep.ID) (l listedSweep, err error) {
	s, err := sweepview.Open(ctx, w.sweeps, id)
	if err != nil {
		return l, err
	}
	p := s.Plan
	l = listedSweep{Sweep: id, Created: p.Created, Dataset: p.Dataset.Name + "@" + p.Dataset.Version,
		Trials: len(p.Own()), Outcome: "open", Model: p.Spec.Model}
	end, err := sweepview.Conclusion(ctx, w.sweeps, id)
	if err != nil {
		return l, err
	}
	if end != nil {
		l.Outcome, l.Version = end.Outcome, end.Version
		return l, nil
	}

	// It is paused if that is recorded, and it is not over nevertheless. Damaged records hide nothing else.
	halted, err := sweepstore.New(w.sweeps, id).Halted(ctx, p)
	if err == nil && !halted.IsZero() {
		var st sweepview.State
		if st, err = s.Look(ctx); err == nil && !st.Halted.IsZero() {
			l.Outcome = "paused"
		}
	}
	if problem.Is(err, problem.Damaged) {
		err = nil
	}
	return l, err
}
