package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"coppice/launcher/internal/console"
)

func consoleCommand(w *World) *cobra.Command {
	listen := "127.0.0.1:8765"
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve sweeps, datasets and models as pages on this machine",
		Long: `Serves, until Ctrl-C, a list of all sweeps, datasets and models and a page for each: the same bytes as launcher report. The page of a
running sweep updates itself. The console only reads, with your own permissions. However many viewers there are, it makes at most one request
a second to the buckets once a sweep has been read for the first time.

It listens on this machine only, because it does not authenticate callers. From elsewhere: ssh -L 8765:127.0.0.1:8765 MACHINE.`,
		Example: "  launcher console --listen 127.0.0.1:8765",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			l, hosts, err := console.Listen(ctx, listen)
			if err != nil {
				return err
			}
			defer l.Close()
			return w.with(ctx, func(c *cloud) error {
				fmt.Fprintf(w.Out, "http://%s\n", l.Addr())
				log := slog.New(slog.NewTextHandler(w.Err, nil))
				if w.Structured() {
					log = w.log(c)
				}
				served := console.New(c.sweeps, c.datasets, c.Bucket(c.env.RegistryBucket), w.Now, log)
				served.Online = c.online()
				return served.Serve(ctx, l, hosts)
			})
		},
	}

	cmd.Flags().StringVar(&listen, "listen", listen, "address on this machine")
	return cmd
}
