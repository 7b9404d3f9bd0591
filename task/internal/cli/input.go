package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/program"
	"coppice/internal/strictyaml"
)

// inputFlags select the model that a training continues.
type inputFlags struct {
	model, dataset string
}

func (f *inputFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.model, "input-model", "", "LightGBM text of a model to continue")
	cmd.Flags().StringVar(&f.dataset, "input-dataset", "",
		"manifest of the dataset on which --input-model was trained (of a version: dataset.json)")
}

func (f *inputFlags) check() error {
	switch {
	case f.model == "" && f.dataset != "":
		return program.Usagef("--input-dataset needs --input-model")
	case f.model != "" && f.dataset == "":
		return program.Usagef("--input-model needs --input-dataset: the manifest of the dataset that the model was " +
			"trained on says what its categories and ids mean")
	}
	return nil
}

// open adds the model to a request that trains on a dataset with the manifest here.
func (f *inputFlags) open(here *dataset.Manifest, q *fit.Request) error {
	if f.model == "" {
		return nil
	}

	text, err := strictyaml.ReadUpTo(f.model, gbt.MaxModelBytes)
	if err != nil {
		return err
	}
	manifest, err := strictyaml.ReadUpTo(f.dataset, dataset.MaxManifest)
	if err != nil {
		return err
	}
	old, err := dataset.DecodeManifest(manifest)
	if err != nil {
		return fmt.Errorf("%s: %w", f.dataset, err)
	}

	if q.Input, err = fit.Input(here, old, text); err != nil {
		return fmt.Errorf("%s: %w", f.model, err)
	}
	return nil
}

func (w *Setup) describeInput(q fit.Request) {
	if q.Input == nil {
		return
	}
	fmt.Fprintf(w.Out, "continues a model of %d trees: trees are added; %d of its %d thresholds move to the edge of a "+
		"bin\n", q.Input.Iterations(), q.Input.Moved, q.Input.Cuts)
}
