package cli

import (
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

const bucketURL = "gs://"

func registryCopyCommand(w *Setup) *cobra.Command {
	var to, from, why string
	cmd := &cobra.Command{
		Use:   "copy MODEL[@VERSION|@ALIAS] --to gs://BUCKET",
		Short: "Copy a version to or from another registry, with its checksums",
		Long: `Reads every file of the version, verifies its checksum, registers it in the other registry under the next
number there, and reads it again; with --from, the other way round. The copy's label copied_from gives the original
version and the SHA-256 of its record. Repeating the command is harmless. Aliases and history are not copied, nor is
the dataset, which reproduce needs where it runs.`,
		Example: `  launcher registry copy ctr@12 --to gs://production-registry --why "approved"
  launcher registry copy ctr@12 --from gs://staging-registry`,
		RunE: func(cmd *cobra.Command, args []string) error {
			model, ref, err := sweep.SplitModelRef(args[0])
			if err != nil {
				return err
			}
			flag, other := "to", to
			switch {
			case (to == "") == (from == ""):
				return program.Usagef("give --to or --from: the bucket of the other registry, as gs://BUCKET")
			case from != "":
				flag, other = "from", from
			}
			bucket, ok := strings.CutPrefix(strings.TrimSuffix(other, "/"), bucketURL)
			if !ok || bucket == "" || strings.Contains(bucket, "/") {
				return program.Usagef("--%s %q: give the bucket of the other registry as gs://BUCKET", flag, other)
			}
			return w.withCloud(cmd.Context(), func() error {
				if bucket == w.env.RegistryBucket {
					return program.Usagef("--%s %s is this deployment's own registry", flag, other)
				}
				source, target := w.registry, registry.New(w.Bucket(bucket))
				if from != "" {
					source, target = target, source
				}
				v, err := source.Get(cmd.Context(), model, ref)
				if err != nil {
					return err
				}
				copied, err := target.Copy(cmd.Context(), source, v, w.act(why))
				if err != nil {
					return err
				}
				w.printf("%s@%d %s %s: it is %s@%d, %s with the same checksums\n", v.Model, v.Number, flag, other,
					copied.Model, copied.Number, english.Plural(len(copied.Files), "file", ""))
				return nil
			})
		},
	}

	cmd.Flags().StringVar(&to, "to", "", "bucket of the registry to copy to, gs://BUCKET")
	cmd.Flags().StringVar(&from, "from", "", "bucket of the registry to copy from, gs://BUCKET")
	cmd.Flags().StringVar(&why, "why", "", "reason")
	return cmd
}
