package stager

import (
	"path/filepath"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/strictyaml"
)

// TableSpec is a dataset.yaml that has been read.
type TableSpec struct {
	File string // its path
	Text []byte // its contents
	Spec *dataset.Spec
	Day  time.Time // the newest day of a source of days; zero as the Stager decides
}

// ReadTable reads a dataset.yaml. A relative source in it is relative to the file's folder.
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
