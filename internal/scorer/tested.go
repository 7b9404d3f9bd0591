package scorer

import (
	"encoding/json"
	"fmt"
	"slices"

	"coppice/internal/metric"
)

// FileTested holds sums over the winner's test rows, for pages to draw; predictions do not need it. Versions of earlier
// builds lack it.
const FileTested = "tested.json"

// MaxTested bounds its size in bytes.
const MaxTested = 1 << 20

// Tested summarises a winner's test rows in bins. Nothing in it depends on when or by which process it was made.
type Tested struct {
	Format     int  `json:"format"`     // 1
	Calibrated bool `json:"calibrated"` // predictions are probabilities, before and after calibration
	// Bins cover all test rows by raw score, lowest first. Calibration by segment is not included, since only the
	// sample's rows have segments.
	Bins []metric.Bin `json:"bins"`
	// Segments cover sampled test rows that no calibrator was fitted to, most rows first; the smallest ones are summed
	// up without a name.
	By       []string  `json:"by,omitempty"`
	Segments []Segment `json:"segments,omitempty"`
	// RunnerUp is the next-best eligible trial, on the sampled test rows; nil if there is none or it cannot be read.
	RunnerUp *Rival `json:"runner_up,omitempty"`
}

// Segment is a bin with a name.
type Segment struct {
	Name string `json:"name,omitempty"`
	Of   int    `json:"of,omitempty"` // number of segments, if it has no name
	metric.Bin
}

// Rival compares another trial with the winner, both uncalibrated, on the same rows.
type Rival struct {
	Trial  int     `json:"trial"`
	Metric string  `json:"metric"`
	Rows   int     `json:"rows"`
	New    float64 `json:"new"`  // the winner's value
	Old    float64 `json:"old"`  // the rival's value
	Gain   float64 `json:"gain"` // above 0 if the winner is better
	Low    float64 `json:"low"`  // of a 95 % interval, paired
	High   float64 `json:"high"`
}

// DecodeTested decodes FileTested. It is for display only, but invalid contents are rejected all the same.
func DecodeTested(text []byte) (*Tested, error) {
	t := &Tested{}
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("%s: %w", FileTested, err)
	}
	if t.Format != 1 {
		return nil, fmt.Errorf("%s: format %d; this build reads 1", FileTested, t.Format)
	}

	all := slices.Clone(t.Bins)
	for _, s := range t.Segments {
		all = append(all, s.Bin)
	}
	for i, b := range all {
		if b.Rows <= 0 || b.Weight < 0 {
			return nil, fmt.Errorf("%s: bin %d has %d rows of weight %v", FileTested, i, b.Rows, b.Weight)
		}
	}
	return t, nil
}
