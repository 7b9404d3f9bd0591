package program_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/sweep"
)

// TestUsageNamesWhatToType: arguments by their names in the Use line, a mistyped flag by the one that is nearest.
func TestUsageNamesWhatToType(t *testing.T) {
	for line, want := range map[string]string{
		"sweep":           "prog: give SWEEP.yaml: prog sweep SWEEP.yaml\n",
		"sweep --dry-run": "prog: give SWEEP.yaml: prog sweep SWEEP.yaml\n",
		"sweep a b":       "prog: expected 1 argument, got 2: prog sweep SWEEP.yaml\n",
		"registry move a": "prog: give TO: prog registry move FROM TO\n",
		"registry move":   "prog: give FROM TO: prog registry move FROM TO\n",
		"registry mark": "prog: give MODEL@VERSION [NAME=VALUE ...]: prog registry mark MODEL@VERSION " +
			"[NAME=VALUE ...]\n",
		"registry join":     "prog: give FILE...: prog registry join FILE...\n",
		"registry list a b": "prog: expected at most 1 argument, got 2: prog registry list [MODEL]\n",
		"predict x":         "prog: unexpected argument \"x\": prog predict takes flags only\n",
		"registry lst":      "prog: unknown command \"lst\" for \"prog registry\" (did you mean \"list\"?)\n",
		"registry bogus": "prog: unknown command \"bogus\" for \"prog registry\" (known: join, list, mark, " +
			"move)\n",
		"swep --help":              "prog: unknown command \"swep\" for \"prog\" (did you mean \"sweep\"?)\n",
		"swep a":                   "prog: unknown command \"swep\" for \"prog\" (did you mean \"sweep\"?)\n",
		"sweep a --dryrun":         "prog: unknown flag: --dryrun (did you mean \"--dry-run\"?)\n",
		"sweep a --prise=2":        "prog: unknown flag: --prise (did you mean \"--price\"?)\n",
		"sweep a --qqqqqqqq":       "prog: unknown flag: --qqqqqqqq (known: --dry-run, --help, --price)\n",
		"predict --target y":       "prog: unknown flag: --target (known: --help, --in, --out)\n",
		"predict --folder y":       "prog: unknown flag: --folder (did you mean \"--out\"?)\n",
		"sweep a -x":               "prog: unknown shorthand flag: 'x' in -x\n",
		"registry move x y 1":      "prog: expected 2 arguments, got 3: prog registry move FROM TO\n",
		"sweep a --price x":        "prog: --price \"x\": expected a whole number\n",
		"sweep a --dry-run=maybe":  "prog: --dry-run \"maybe\": expected true or false\n",
		"sweep a --price":          "prog: flag needs an argument: --price\n",
		"predict":                  "prog: give --in and --out: prog predict --in FILE --out FILE\n",
		"predict --in x":           "prog: give --out: prog predict --in FILE --out FILE\n",
		"registry move a b --quit": "prog: unknown flag: --quit (did you mean \"--quiet\"?)\n",
	} {
		root := &cobra.Command{Use: "prog"}
		done := func(*cobra.Command, []string) error { return nil }
		swp := &cobra.Command{Use: "sweep SWEEP.yaml", RunE: done}
		swp.Flags().Bool("dry-run", false, "")
		swp.Flags().Int("price", 0, "")
		swp.Flags().Bool("hidden", false, "")
		_ = swp.Flags().MarkHidden("hidden")
		group := program.Group(&cobra.Command{Use: "registry"})
		group.PersistentFlags().Bool("quiet", false, "")
		group.AddCommand(&cobra.Command{Use: "move FROM TO", RunE: done},
			&cobra.Command{Use: "join FILE...", RunE: done}, &cobra.Command{Use: "list [MODEL]", RunE: done},
			&cobra.Command{Use: "mark MODEL@VERSION [NAME=VALUE ...]", RunE: done})
		predict := &cobra.Command{Use: "predict --in FILE --out FILE", RunE: done}
		for _, name := range []string{"in", "out"} {
			predict.Flags().String(name, "", "")
			_ = predict.MarkFlagRequired(name)
		}
		root.AddCommand(swp, group, predict)
		var errOut bytes.Buffer
		code := program.Execute(t.Context(), program.World{Args: strings.Fields(line), Out: program.To(&errOut),
			Err: program.To(&errOut)}, root)
		if code != sweep.ExitUsage || errOut.String() != want {
			t.Errorf("%s: %d\n got %q\nwant %q", line, code, errOut.String(), want)
		}
	}
}
