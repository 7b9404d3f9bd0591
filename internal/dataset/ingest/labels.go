package ingest

import (
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// Labels reads the label of other tables with the rules of a dataset, to measure models on rows that were never staged.
type Labels struct{ labeler labeler }

// NewLabels reads labels as described by a manifest's info. missing lists the texts that stand for a missing value.
func NewLabels(info dataset.LabelInfo, missing []string) *Labels {
	l := &Labels{labeler{info: info, markers: cell.NewMarkers(missing)}}
	l.labeler.numberClasses()
	return l
}

// Column returns the name of the label's column.
func (l *Labels) Column() string { return l.labeler.info.Column }

// Read returns the labels of a batch's rows that have one, and the places of those rows; nil places stand for all.
func (l *Labels) Read(b *table.Batch) (labels []float32, places []int32, err error) {
	v := b.Column(l.Column())
	if v == nil {
		return nil, nil, &table.InputError{File: b.File, Column: l.Column(),
			Msg: "the table has no such column, which should be the label"}
	}
	if v.Type == dataset.Time {
		return nil, nil, b.ErrorAt(0, l.Column(), "a time cannot be a label")
	}

	places = l.labeler.presentIn(b, v)
	if places == nil {
		labels = make([]float32, b.Rows)
		return labels, nil, l.labeler.decodeAll(b, v, labels)
	}
	for _, i := range places {
		y, err := l.labeler.decode(b, v, int(i))
		if err != nil {
			return nil, nil, err
		}
		labels = append(labels, y)
	}
	return labels, places, nil
}

// Number returns value i of a column such as a weight's; ok is false if it is missing or not a number.
func (l *Labels) Number(v *dataset.Values, i int) (x float64, ok bool) {
	if cell.Missing(v, i, l.labeler.markers) {
		return 0, false
	}
	return number(v, i)
}
