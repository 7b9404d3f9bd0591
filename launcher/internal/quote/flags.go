package quote

import (
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/program"
)

// AddFlags adds the flags of a command that takes assumptions, with those that are there as defaults.
func (a *Assumptions) AddFlags(cmd *cobra.Command) {
	cmd.Flags().Float64Var(&a.NsPerValue, "ns-per-value", 0, "nanoseconds per row, feature and tree of a trial with "+
		"the sweep's threads, as \"launcher bill\" shows them; 0 uses the calibration")
	cmd.Flags().DurationVar(&a.Startup, "startup", a.Startup,
		"assumed: from a machine's first charged second to its first task")
	cmd.Flags().Float64Var(&a.Preemptions, "preemptions", a.Preemptions,
		"assumed: preemptions per hour of a Spot machine")
}

// Check rejects what no machine does.
func (a *Assumptions) Check() error {
	switch {
	case a.Startup < 0 || a.Startup > 24*time.Hour:
		return program.Usagef("--startup is %s: use 0s to 24h", a.Startup)
	case !(a.Preemptions >= 0) || a.Preemptions > 60:
		return program.Usagef("--preemptions is %v: use 0 to 60 an hour", a.Preemptions)
	case !(a.NsPerValue >= 0) || a.NsPerValue > 1e6:
		return program.Usagef("--ns-per-value is %v: use 0 to 1e6", a.NsPerValue)
	}
	return nil
}
