package cli

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/launcher/internal/console"
)

func consoleCommand(w *Setup) *cobra.Command {
	listen := "127.0.0.1:8765"
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve sweeps, datasets and models as pages",
		Long: `Serves, until Ctrl-C, a list of all sweeps, datasets and models and a page for each: the same bytes as
launcher report. The page of a running sweep updates itself. The console reads with your own permissions, changes
nothing, and prints the commands that do.

It listens on this machine only; from elsewhere: ssh -L 8765:127.0.0.1:8765 MACHINE. On another address every
request needs an identity token signed by Google for the audience COPPICE_AUDIENCE and one of the accounts
COPPICE_CALLERS (comma-separated e-mail addresses), and has to be for that address or for the host of
COPPICE_AUDIENCE. COPPICE_SIGNATURES=cloud-run means that Cloud Run has verified the token's signature.`,
		Example: "  launcher console --listen 127.0.0.1:8765",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runConsole(cmd.Context(), w, listen) },
	}

	cmd.Flags().StringVar(&listen, "listen", listen, "address to listen on")
	return cmd
}

// runConsole serves the pages on the address listen until ctx ends. If the environment names an audience or callers,
// every request needs an identity token of one of them.
func runConsole(ctx context.Context, w *Setup, listen string) error {
	var env environment.CallersEnv
	if err := w.Environment(ctx, &env, "set COPPICE_AUDIENCE and COPPICE_CALLERS, or listen on 127.0.0.1"); err != nil {
		return err
	}
	var callers program.Callers
	if env.Audience != "" || len(env.Callers) > 0 {
		var err error
		if callers, err = w.Callers(ctx, env); err != nil {
			return err
		}
	}

	l, hosts, err := console.Listen(ctx, listen, env.Audience)
	if err != nil {
		return err
	}
	defer l.Close()
	return w.withCloud(ctx, func() error {
		w.printf("http://%s\n", l.Addr())
		log := slog.New(slog.NewTextHandler(w.Err, nil))
		if w.Structured() {
			log = w.log()
		}
		served := console.New(w.sweeps, w.datasets, w.Bucket(w.env.RegistryBucket), w.Now, log)
		served.Online, served.Callers, served.Job, served.Links = w.paid(), callers, w.job, w.Links
		return served.Serve(ctx, l, hosts)
	})
}
