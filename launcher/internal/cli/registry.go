package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/show"
	"coppice/launcher/internal/stager"
)

func registryCommand(w *Setup) *cobra.Command {
	cmd := program.Group(&cobra.Command{
		Use:   "registry",
		Short: "Manage registered models",
		Long: `A model is called MODEL, its versions MODEL@3 or MODEL@champion; MODEL alone means the champion (or
the newest version if there is none), MODEL@latest the newest version.`,
		Example: `  launcher registry list
  launcher registry show ctr
  launcher registry show ctr --history
  launcher registry rollback ctr --why "wrong labels on 20 November"`,
	})
	cmd.AddCommand(registryListCommand(w), registryShowCommand(w), registryPromoteCommand(w),
		registryRollbackCommand(w), registryBadCommand(w), registryDeleteCommand(w), registryExplainCommand(w),
		registryReproduceCommand(w))
	return cmd
}

// withVersion opens the cloud and calls use with the version that arg names: MODEL, MODEL@VERSION or MODEL@ALIAS.
func (w *Setup) withVersion(ctx context.Context, arg string, use func(registry.Version) error) error {
	model, ref, err := sweep.SplitModelRef(arg)
	if err != nil {
		return err
	}
	return w.withCloud(ctx, func() error {
		v, err := w.registry.Get(ctx, model, ref)
		if err != nil {
			return err
		}
		return use(v)
	})
}

// changeVersion is withVersion for commands that change something of a version: arg has to name it, so that MODEL alone
// is an error.
func (w *Setup) changeVersion(ctx context.Context, arg string, use func(v registry.Version) error) error {
	model, ref, err := sweep.SplitModelRef(arg)
	if err != nil {
		return err
	}
	if ref == "" {
		return program.Usagef("%q: say which version: %s@VERSION or %s@ALIAS", arg, model, model)
	}
	return w.withVersion(ctx, arg, use)
}

// versionOfAlias is the version that an alias points at, 0 if there is none.
func versionOfAlias(ctx context.Context, w *Setup, model, alias string) (int, error) {
	a, err := w.registry.Alias(ctx, model, alias)
	if problem.Of(err) == problem.NotFound {
		return 0, nil
	}
	return a.Version, err
}

// finishMove prints that an alias has moved from the version from (0 for none) to a.Version (0 if it was removed), and
// writes the manifest of the new version's dataset anew, so that `launcher clean` leaves it. If the dataset is gone, a
// line says that the version cannot be trained again; that is no error.
func finishMove(ctx context.Context, w *Setup, a registry.Alias, from int) {
	w.printf("%s of %s: version %s -> %s\n", a.Name, a.Model, show.VersionOf(from), show.VersionOf(a.Version))
	if a.Version == 0 {
		return
	}
	if from > 0 {
		w.printf("a server of it goes on with version %d if answers would shift, and says so\n", from)
	}

	// Keep the dataset.
	v, err := w.registry.Get(ctx, a.Model, strconv.Itoa(a.Version))
	if ref := v.Info.Labels["dataset"]; err == nil && ref != "" {
		err = stager.Renew(ctx, w.datasets, ref)
	}
	if err != nil {
		w.say("version %d cannot be trained again: %v\n", a.Version, err)
	}
}
