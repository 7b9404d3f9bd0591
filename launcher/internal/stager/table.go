package stager

import (
	"path/filepath"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/strictyaml"
)

// TableSpec is a dataset.yaml to stage.
type TableSpec struct {
	File string
	Text []byte
	Spec *dataset.Spec
	Day  time.Time // the newest of a source of days
}

// ReadTable reads a dataset.yaml; a relative source is relative to its folder.
func ReadTable(file string) (*TableSpec, error) {
	text, err := strictyaml.ReadFile(file)
	if err != nil {
		return nil, err
	}
	spec, err := dataset.ParseSpec(file, text)
	if err != nil {
		return nil, err
	}
	spec.Source.RelativeTo(filepath.Dir(file))
	return &TableSpec{File: file, Text: text, Spec: spec}, nil
}
