package fit

import (
	"bytes"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
)

// Input reads a model of another trial on the same dataset, as text, so that population-based training can continue it.
// The dataset's manifest m turns the thresholds of the model into bins.
func Input(m *dataset.Manifest, text []byte) (*gbt.InputModel, error) {
	model, err := gbt.ReadModel(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("input model: %w", err)
	}
	return model.OnBins(describe(m))
}
