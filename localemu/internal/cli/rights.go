//go:build unix

package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"coppice/localemu/internal/world"
	"coppice/terraform"
)

// rightsFlags choose the rights in the local cloud.
type rightsFlags struct {
	enforce bool
	without []string
	as      string
}

func (f *rightsFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.BoolVar(&f.enforce, "enforce-iam", false,
		"give every program the permissions of its service account in terraform/iam.yaml, and no others")
	fs.StringArrayVar(&f.without, "without", nil,
		`"IDENTITY RESOURCE ROLE": leave this binding of terraform/iam.yaml out; repeatable, and implies --enforce-iam`)
	fs.StringVar(&f.as, "as", "",
		"with --enforce-iam, the identity the command runs as: launcher, task, stager, aggregator, or "+world.Owner+
			", who may do everything (default launcher)")
}

// table returns the table of rights to enforce, nil for none, and the identity the command runs as.
func (f *rightsFlags) table() (*terraform.Table, string, error) {
	if !f.enforce && len(f.without) == 0 {
		if f.as != "" {
			return nil, "", usage("--as %s needs --enforce-iam", f.as)
		}
		return nil, "", nil
	}
	if f.as != "" {
		if err := world.CheckIdentity(f.as); err != nil {
			return nil, "", usage("--as: %v", err)
		}
	}

	table, err := terraform.Load()
	if err != nil {
		return nil, "", err
	}

	for _, w := range f.without {
		part := strings.Fields(w)
		if len(part) != 3 {
			return nil, "", usage(`--without %q: use "IDENTITY RESOURCE ROLE", as in terraform/iam.yaml`, w)
		}
		if table, err = table.Without(part[0], part[1], part[2]); err != nil {
			return nil, "", usage("--without: %v", err)
		}
	}
	return table, f.as, nil
}
