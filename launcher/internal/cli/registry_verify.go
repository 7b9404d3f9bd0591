package cli

import (
	"context"
	"errors"
	"regexp"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
)

// sums matches the values of --head.
var sums = regexp.MustCompile(`^[0-9a-f]{64}$`)

func registryVerifyCommand(w *Setup) *cobra.Command {
	var head string
	cmd := &cobra.Command{
		Use:   "verify [MODEL]",
		Short: "Check every file's checksum and every history along its chain",
		Long: `Reads everything in the registry about a model, or about all models: compares each version's files
with their registered checksums, follows each history move by move (each holds the SHA-256 of the previous move and
of the record of the version that it made live), and checks that each alias is where its history ends. Prints the
end of each history. Write that SHA-256 down elsewhere, and --head can later check that it is still part of the
history: then nothing up to it was changed, not even by someone who rewrote the whole chain.`,
		Example: `  launcher registry verify
  launcher registry verify ctr --head 8c1f...`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if head != "" && (len(args) == 0 || !sums.MatchString(head)) {
				return program.Usagef("--head %q: give the 64 digits that verify printed, and the model", head)
			}
			return w.with(cmd.Context(), func() error {
				models := args
				if len(args) == 0 {
					var err error
					if models, err = w.registry.Models(cmd.Context()); err != nil {
						return err
					}
				}
				return verifyModels(cmd.Context(), w, models, head)
			})
		},
	}

	w.jsonFlag(cmd, "print a JSON array")
	cmd.Flags().StringVar(&head, "head", "",
		"SHA-256 of a move that must be in the model's history, as verify printed it")
	return cmd
}

func verifyModels(ctx context.Context, w *Setup, models []string, head string) error {
	verified := []*registry.Verification{}
	var errs []error
	for _, model := range models {
		v, err := w.registry.Verify(ctx, model)
		errs = append(errs, err)
		if v == nil {
			continue
		}
		verified = append(verified, v)
		if head != "" && !v.Has(head) {
			errs = append(errs, registry.Damaged("the history of "+model, errors.New("no move in it has the SHA-256 "+
				"that --head gives; it was rewritten since that was noted")))
		}
	}

	err := w.print(verified, func() { w.screen().Verified(verified) })
	if err = errors.Join(append(errs, err)...); err == nil {
		w.say("everything is unchanged\n")
	}
	return err
}
