//go:build unix

package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"coppice/localemu/internal/world"
)

func upCommand(s *State) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "up --data DIR [flags]",
		Short: "Keep the local cloud running until Ctrl-C",
		Long: `up starts the local cloud on a folder and keeps it running until Ctrl-C. It prints the settings with which other
terminals find it, and writes them to DIR/env.`,
		Example: `  localemu up --data build/cloud --port-base 9500
  . build/cloud/env && launcher sweep sweep.yaml        # in another terminal
  localemu up --data build/cloud --port-base 9500 --keep-jobs   # started again, it goes on with its jobs`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runUp(c.Context(), s, &f) },
	}

	f.add(c)
	if err := c.MarkFlagRequired("data"); err != nil {
		panic(err) // the flag is the one that add has just added
	}
	return c
}

func runUp(ctx context.Context, s *State, f *flags) error {
	o, err := f.options(s)
	if err != nil {
		return err
	}
	w, err := world.Start(ctx, o)
	if err != nil {
		return err
	}
	defer w.Close()

	// Other terminals find the local cloud through this file while it is up.
	env := exports(w.Env())
	path := filepath.Join(w.Data(), "env")
	if err := renameio.WriteFile(path, []byte(env), 0o644); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	defer os.Remove(path) // its addresses are dead by then

	fmt.Fprint(s.out(), env)
	fmt.Fprintf(s.err(), "localemu: the local cloud is up; in another terminal: . %s\nlocalemu: Ctrl-C stops it\n",
		quote(path))
	select {
	case err := <-w.Failed():
		return err
	case <-s.Signals:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exports returns the variables as lines for a shell.
func exports(env []string) string {
	var out strings.Builder
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&out, "export %s=%s\n", name, quote(value))
	}
	return out.String()
}

// quote makes text one word of a shell, and leaves plain words unquoted.
func quote(text string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("-_./:@%+,", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' &&
			r <= 'Z'
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
