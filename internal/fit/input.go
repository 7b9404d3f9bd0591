package fit

import (
	"bytes"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
)

// Input reads the model of another trial on the same dataset, which a trial of a population continues.
func Input(m *dataset.Manifest, text []byte) (*gbt.InputModel, error) {
	model, err := gbt.ReadModel(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("input model: %w", err)
	}
	return model.OnBins(describe(m))
}
