package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/search"
	"coppice/launcher/internal/ask"
)

type askFlags struct {
	results string
	earlier []string
	n       int
}

func askCommand(w *Setup) *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:   "ask SPACE.yaml",
		Short: "Propose the next configurations for trials that run elsewhere",
		Long: `Prints configurations to try next, one JSON object per line: {"trial":, "params":, "source":,
"reason":}. It trains and writes nothing and uses no cloud; anything with parameters and a metric can be searched.
The same files give the same bytes, whatever the order of the results.

SPACE.yaml:

  metric: {name: auc, maximize: true}
  seed: 7
  search:
    method: auto      # or ` + strings.Join(search.Methods()[1:], ", ") + `; see docs/search.md
    random:           # uniform, log_uniform, int, log_int, step or choice
      eta: {log_uniform: [0.001, 0.3]}
      max_depth: {int: [2, 14]}
      booster: {choice: [gbtree, dart]}
      rate_drop: {uniform: [0, 0.5], when: booster == "dart"}
    constraints: [max_depth < 10 or eta > 0.01]

Results are JSON Lines, one trial each, of this search so far (--results) and of earlier ones (--earlier, newest last):

  {"trial": 3, "params": {"eta": 0.1}, "value": 0.81, "status": "done"}

with status done, running, failed or stopped, and a "curve": [...] if there is one. List running trials, too, or they
may be proposed again.`,
		Example: `  launcher ask space.yaml --n 16
  launcher ask space.yaml --results results.jsonl --n 16
  launcher ask space.yaml --results results.jsonl --earlier friday.jsonl --earlier saturday.jsonl --n 1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.n < 1 || f.n > search.MaxAsk {
				return program.Usagef("--n is %d: use 1 to %d", f.n, search.MaxAsk)
			}
			return runAsk(cmd.Context(), w, args[0], f)
		},
	}

	cmd.Flags().StringVar(&f.results, "results", "", "file with this search's results so far")
	cmd.Flags().StringArrayVar(&f.earlier, "earlier", nil,
		"file with an earlier search's results; repeat for each, newest last")
	cmd.Flags().IntVar(&f.n, "n", 1, "number of configurations")
	return cmd
}

func runAsk(ctx context.Context, w *Setup, file string, f askFlags) error {
	spec, err := ask.ReadSpec(file)
	if err != nil {
		return err
	}
	request := spec.Ask()
	request.Number = f.n

	if request.Known, request.Earlier, err = ask.ReadResults(spec, f.results, f.earlier); err != nil {
		return err
	}

	suggestions, exhausted := search.Next(ctx, request)
	if len(suggestions) == 0 {
		return exhausted
	}

	out := json.NewEncoder(w.Out)
	out.SetEscapeHTML(false)
	for _, s := range suggestions {
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	if exhausted != nil {
		fmt.Fprintf(w.Err, "note: %v\n", exhausted)
	}
	return nil
}
