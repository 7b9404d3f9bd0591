package cli

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

const bucketURL = "gs://"

func registryPushCommand(w *Setup) *cobra.Command {
	return registryCopyCommand(w, "push", "to", "Copy a version into another registry, with its checksums",
		"  launcher registry push ctr@12 --to gs://production-registry --why \"approved\"",
		func(own, other *registry.Registry) (from, to *registry.Registry) { return own, other })
}

func registryPullCommand(w *Setup) *cobra.Command {
	return registryCopyCommand(w, "pull", "from", "Copy a version out of another registry, with its checksums",
		"  launcher registry pull ctr@12 --from gs://staging-registry",
		func(own, other *registry.Registry) (from, to *registry.Registry) { return other, own })
}

// registryCopyCommand copies between this deployment's registry and another's.
func registryCopyCommand(w *Setup, verb, flag, short, example string,
	sides func(own, other *registry.Registry) (from, to *registry.Registry)) *cobra.Command {
	var other, why string
	cmd := &cobra.Command{
		Use:   fmt.Sprintf("%s MODEL[@VERSION|@ALIAS] --%s gs://BUCKET", verb, flag),
		Short: short,
		Long: `Reads every file of the version, verifies its checksum, registers it there under the next number, and
reads it again. The copy's label copied_from gives the original version and the SHA-256 of its record. Repeating the
command is harmless. Aliases, tags and history are not copied, nor is the dataset, which reproduce needs where it
runs.`,
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			model, ref, err := sweep.SplitModelRef(args[0])
			if err != nil {
				return err
			}
			bucket, ok := strings.CutPrefix(strings.TrimSuffix(other, "/"), bucketURL)
			if !ok || bucket == "" || strings.Contains(bucket, "/") {
				return program.Usagef("--%s %q: give the bucket of the other registry as gs://BUCKET", flag, other)
			}
			return w.with(cmd.Context(), func() error {
				if bucket == w.env.RegistryBucket {
					return program.Usagef("--%s %s is this deployment's own registry", flag, other)
				}
				from, to := sides(w.registry, registry.New(w.Bucket(bucket)))
				v, err := from.Get(cmd.Context(), model, ref)
				if err != nil {
					return err
				}
				copied, err := to.Copy(cmd.Context(), from, v, w.act(why))
				if err != nil {
					return err
				}
				w.printf("%s@%d %s %s: it is %s@%d, %s with the same checksums\n", v.Model, v.Number, flag, other,
					copied.Model, copied.Number, english.Plural(len(copied.Files), "file", ""))
				return nil
			})
		},
	}

	cmd.Flags().StringVar(&other, flag, "", "bucket of the other registry, gs://BUCKET (required)")
	cmd.Flags().StringVar(&why, "why", "", "reason")
	_ = cmd.MarkFlagRequired(flag)
	return cmd
}
