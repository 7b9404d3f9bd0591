package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/machines"
	"coppice/internal/program"
	"coppice/launcher/internal/quote"
)

func pricesCommand(w *Setup) *cobra.Command {
	cmd := program.Group(&cobra.Command{Use: "prices", Short: "Manage the prices used for quotes",
		Example: "  launcher prices refresh"})
	cmd.AddCommand(pricesRefreshCommand(w))
	return cmd
}

func pricesRefreshCommand(w *Setup) *cobra.Command {
	var out string
	var regions []string
	cmd := &cobra.Command{
		Use:   "refresh",
		Short: "Read prices from the Cloud Billing Catalog",
		Long: `Reads what machines and local SSDs cost from the Cloud Billing Catalog API, with the application
default credentials, and writes a file of prices that is used unless the built-in ones are newer. The file keeps its
prices of other regions. Nothing is written unless everything could be read.`,
		Example: `  launcher prices refresh
  launcher prices refresh --region us-central1,europe-west4 --out prices.json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return refreshPrices(cmd.Context(), w, out, regions) },
	}

	cmd.Flags().StringVar(&out, "out", "",
		"file to write (default: $COPPICE_PRICES, or coppice/prices.json in the user's configuration folder)")
	cmd.Flags().StringSliceVar(&regions, "region", nil, "regions to read (default: all)")
	w.jsonFlag(cmd, "print one JSON object")
	return cmd
}

func refreshPrices(ctx context.Context, w *Setup, out string, regions []string) error {
	if out == "" {
		var ok bool
		if out, ok = quote.PricesFile(w.Env.Lookup); !ok {
			return program.Usagef("there is no folder for prices; give --out or set COPPICE_PRICES")
		}
	}

	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if err := program.CheckOutFile("--out", out); err != nil {
		return err
	}
	old, err := quote.ReadPrices(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the existing prices: %w; remove the file to start over", err)
	}

	list, err := w.PriceList(ctx)
	if err != nil {
		return err
	}
	p, err := list.Prices(ctx, regions, w.Now().UTC().Format(time.DateOnly))
	if err != nil {
		return err
	}

	// Prices of regions that were not read are kept.
	read := len(p.Prices)
	if old != nil {
		p = p.Over(old)
	}
	if err := p.WriteFile(out); err != nil {
		return err
	}

	return w.print(map[string]any{"file": out, "read": read, "prices": len(p.Prices)}, func() {
		places := map[string]bool{}
		for _, e := range p.Prices {
			places[e.Region] = true
		}
		w.printf("%d prices read; %s has %d, in %s\n", read, out, len(p.Prices),
			english.Plural(len(places), "region", ""))
	})
}

// prices are those of the file, or of this user's file if it is empty, and the embedded ones, newer ones first.
func (w *Setup) prices(file string) (*machines.Prices, error) {
	return quote.Prices(file, w.Env.Lookup)
}
