package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/console"
	"coppice/launcher/internal/sweepview"
)

// ConsoleEnv is the environment of a console that other machines can reach, or that has a given token.
type ConsoleEnv struct {
	sweep.CallersEnv
	Token string `env:"COPPICE_CONSOLE_TOKEN"` // for actions; empty for a random one
}

// shortestToken is the minimum number of characters of a given token.
const shortestToken = 20

func consoleCommand(w *Setup) *cobra.Command {
	listen, actions := "127.0.0.1:8765", false
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve sweeps, datasets and models as pages",
		Long: `Serves, until Ctrl-C, a list of all sweeps, datasets and models and a page for each: the same bytes as
launcher report. The page of a running sweep updates itself. The console reads with your own permissions. However
many viewers there are, it makes at most one request a second to the buckets once a sweep has been read for the
first time.

With --actions, viewers can cancel a sweep, promote a version and roll a champion back, also with your permissions.
Each action needs the token that is printed (or COPPICE_CONSOLE_TOKEN), and the name of what it is about, typed.

It listens on this machine only; from elsewhere: ssh -L 8765:127.0.0.1:8765 MACHINE. On another address every
request needs an identity token signed by Google for the audience COPPICE_AUDIENCE and one of the accounts
COPPICE_CALLERS (comma-separated e-mail addresses), and has to be for that address or for the host of
COPPICE_AUDIENCE. COPPICE_SIGNATURES=cloud-run means that Cloud Run has verified the token's signature.`,
		Example: "  launcher console --listen 127.0.0.1:8765\n  launcher console --actions",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runConsole(cmd.Context(), w, listen, actions)
		},
	}

	cmd.Flags().StringVar(&listen, "listen", listen, "address to listen on")
	cmd.Flags().BoolVar(&actions, "actions", false, "allow viewers with the token to cancel, promote and roll back")
	return cmd
}

func runConsole(ctx context.Context, w *Setup, listen string, actions bool) error {
	var env ConsoleEnv
	if err := w.Environment(ctx, &env, "set COPPICE_AUDIENCE and COPPICE_CALLERS, or listen on 127.0.0.1"); err != nil {
		return err
	}
	unprinted := func(r rune) bool { return r <= ' ' || r > '~' }
	if n := len(env.Token); n > 0 && n < shortestToken || strings.ContainsFunc(env.Token, unprinted) {
		return program.Usagef("COPPICE_CONSOLE_TOKEN: use at least %d printable ASCII characters without blanks, or "+
			"leave it out for a random one", shortestToken)
	}
	var callers console.Callers
	if env.Audience != "" || len(env.Callers) > 0 {
		var err error
		if callers, err = w.Callers(ctx, env.CallersEnv); err != nil {
			return err
		}
	}

	l, hosts, err := console.Listen(ctx, listen, env.Audience)
	if err != nil {
		return err
	}
	defer l.Close()
	return w.with(ctx, func() error {
		w.printf("http://%s\n", l.Addr())
		log := slog.New(slog.NewTextHandler(w.Err, nil))
		if w.Structured() {
			log = w.log()
		}
		served := console.New(w.sweeps, w.datasets, w.Bucket(w.env.RegistryBucket), w.Now, log)
		served.Online, served.Callers = w.online(), callers
		if actions {
			served.Actions = console.Actions{Token: cmp.Or(env.Token, rand.Text()),
				Do: func(ctx context.Context, a console.Action) (string, error) { return performAction(ctx, w, a) }}
			if env.Token == "" {
				w.printf("token for actions: %s\n", served.Actions.Token)
			}
		}
		return served.Serve(ctx, l, hosts)
	})
}

// performAction carries out a viewer's request, like the command of that name, and returns what that says.
func performAction(ctx context.Context, w *Setup, a console.Action) (string, error) {
	var said bytes.Buffer
	quiet := *w
	quiet.Out = program.To(&said)

	act := w.act(cmp.Or(a.Why, "by hand, in the console"))
	act.By = cmp.Or(a.By, act.By)
	expect := registry.Expect{Version: a.Champion}
	var moved registry.Alias
	var err error
	switch a.Do {
	case console.Cancel:
		err = cancelByID(ctx, &quiet, sweep.ID(a.Name))
	case console.Promote:
		moved, err = w.registry.Promote(ctx, a.Name, a.Version, expect, act)
		err = printMoved(&quiet, moved, a.Champion, err)
	case console.Rollback:
		moved, err = w.registry.Rollback(ctx, a.Name, registry.Champion, expect, act)
		err = printMoved(&quiet, moved, a.Champion, err)
	default:
		err = fmt.Errorf("unknown action %q", a.Do)
	}
	return strings.TrimSpace(said.String()), err
}

// cancelByID stops a sweep.
func cancelByID(ctx context.Context, w *Setup, id sweep.ID) error {
	s, err := sweepview.Open(ctx, w.sweeps, id)
	if err != nil {
		return err
	}
	st, err := s.Look(ctx)
	if err != nil {
		return err
	}
	return cancelSweep(ctx, w, s.Plan, st)
}
