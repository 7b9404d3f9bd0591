package page

import (
	"io"
	"time"
)

// Index is what there is to look at.
type Index struct {
	Sweeps   []IndexSweep   // newest first
	Datasets []IndexDataset // by name
	Models   []IndexModel
	More     int // sweeps that are not listed
}

// IndexSweep is a line of the list of sweeps.
type IndexSweep struct {
	ID, Dataset, Model, State string
	Planned                   time.Time
	Trials, Version           int
}

// IndexDataset is a line of the list of datasets.
type IndexDataset struct {
	Name     string
	Versions int
	Staged   time.Time // the newest
}

// IndexModel is a line of the list of models.
type IndexModel struct {
	Name               string
	Versions, Champion int
}

// Write writes the page.
func (i *Index) Write(w io.Writer) error {
	return write(w, "Coppice", "index.html", cleaned(i), newData("still", "coppice"))
}
