package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/registry"
)

func registryHistoryCommand(w *Setup) *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "history MODEL",
		Short: "Show who changed what, when and why, or what was live when",
		Example: `  launcher registry history ctr
  launcher registry history ctr --at 2026-11-18T14:00`,
		RunE: func(cmd *cobra.Command, args []string) error {
			moment, err := registry.ParseMoment(at)
			if err != nil {
				return err
			}
			return w.with(cmd.Context(), func() error {
				events, err := w.registry.History(cmd.Context(), args[0])
				if err != nil && len(events) == 0 {
					return err
				}
				if at != "" {
					return errors.Join(printLive(w, args[0], events, moment), err)
				}
				return errors.Join(w.print(events, func() { w.screen().History(events) }), err)
			})
		},
	}

	w.jsonFlag(cmd, "print a JSON array")
	cmd.Flags().StringVar(&at, "at", "",
		"show what each alias pointed at then: 2026-11-18T14:00 (UTC), a day, or RFC 3339")
	return cmd
}

// printLive prints where each alias pointed at a time.
func printLive(w *Setup, model string, events []registry.Event, at time.Time) error {
	live := []registry.Event{}
	seen := map[string]bool{"": true} // events that are about no alias
	for _, e := range events {
		if seen[e.Alias] {
			continue
		}
		seen[e.Alias] = true
		if then, ok := registry.Live(events, e.Alias, at); ok {
			live = append(live, then)
		}
	}

	return w.print(live, func() { w.screen().Live(model, live, at) })
}
