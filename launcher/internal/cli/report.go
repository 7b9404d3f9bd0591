package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/atomicfile"
	"coppice/internal/program"
	"coppice/launcher/internal/report"
	"coppice/launcher/internal/sweepview"
)

func reportCommand(w *Setup) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report [SWEEP|DATASET|MODEL]",
		Short: "Write a sweep, a dataset or a model as a page",
		Long: `Writes one HTML file about a sweep: leaderboard, learning curves, parameters, machines, cost and
the winner; about a dataset, NAME or NAME@VERSION: its nights, what staging found, drift, and what the table
holds; or about a model: versions, what was live when, metrics and features. A name is looked up among the
sweeps, then the datasets, then the models; dataset:NAME and model:NAME say which is meant. Without a name it
is the newest sweep.

The page is self-contained: it can be mailed, archived and opened anywhere. The same objects give the same bytes.`,
		Example: `  launcher report nightly-ctr-1a2b3c4d --out sweep.html
  launcher report clicks --out nights.html
  launcher report model:ctr --out model.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOut(out); err != nil {
				return err
			}
			return w.withCloud(cmd.Context(), func() error {
				// The argument or, without one, the newest sweep.
				view, note, err := w.pages().Find(cmd.Context(), append(args, sweepview.Latest)[0])
				if err != nil {
					return err
				}
				if note != "" {
					w.warn("%s\n", note)
				}
				return w.savePage(out, view)
			})
		},
	}

	cmd.Flags().StringVar(&out, "out", "", "file to write; - is the standard output")
	return cmd
}

// pages returns what finds and makes the pages of sweeps, datasets and models.
func (c *cloud) pages() *report.Pages {
	r := report.New(c.sweeps, c.datasets, c.registry, c.paid())
	r.Job, r.Links = c.job, c.Links
	return r
}

// checkOut checks the --out of a page.
func checkOut(path string) error {
	switch path {
	case "":
		return program.Usagef("give the page's file with --out; - is the standard output")
	case "-":
		return nil
	}
	return program.CheckOutFile("--out", path)
}

// savePage writes a page to the path and prints its size, or writes it to the output if the path is "-".
func (w *Setup) savePage(path string, view report.AnyPage) error {
	if path == "-" {
		return view.Write(w.Out)
	}
	n, err := writePage(path, view)
	if err == nil {
		w.printf("wrote %s, %d bytes\n", path, n)
	}
	return err
}

// writePage writes a page to the path, atomically, and returns its size. The folder is made if it is missing.
func writePage(path string, view report.AnyPage) (bytes int, err error) {
	var text strings.Builder
	if err = view.Write(&text); err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = atomicfile.Write(path, []byte(text.String()), 0o644)
	}
	if err != nil {
		err = fmt.Errorf("write the page: %w", err)
	}
	return text.Len(), err
}
