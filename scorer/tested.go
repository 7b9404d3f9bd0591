package scorer

import (
	"encoding/json"
	"fmt"
	"slices"

	"coppice/metric"
)

// FileTested is what the winner does on test rows, as sums: a page draws it, nobody predicts with it. Versions of earlier builds have none.
const FileTested = "tested.json"

// MaxTested bounds its bytes.
const MaxTested = 1 << 20

// Tested are a winner's test rows in bins. Nothing in it depends on when or by whom it was made.
type Tested struct {
	Format     int  `json:"format"`     // 1
	Calibrated bool `json:"calibrated"` // predictions are probabilities, before and after
	// Bins are all test rows by their raw score, lowest first. A calibrator by segment is not among what is done to them: only the
	// sample's rows have segments.
	Bins []metric.Bin `json:"bins"`
	// Segments are sampled test rows that no calibrator was fitted to, the most rows first; those beyond a number are one, without a name.
	By       []string  `json:"by,omitempty"`
	Segments []Segment `json:"segments,omitempty"`
	// RunnerUp is the next trial that could have won, on the sampled test rows; nil where there is none or it cannot be read.
	RunnerUp *Rival `json:"runner_up,omitempty"`
}

// Segment is a bin with a name.
type Segment struct {
	Name string `json:"name,omitempty"`
	Of   int    `json:"of,omitempty"` // how many segments it is, where it has no name
	metric.Bin
}

// Rival is another trial against the winner, both uncalibrated, on the same rows.
type Rival struct {
	Trial  int     `json:"trial"`
	Metric string  `json:"metric"`
	Rows   int     `json:"rows"`
	New    float64 `json:"new"`  // the winner's value
	Old    float64 `json:"old"`  // the rival's
	Gain   float64 `json:"gain"` // of the winner, above 0 where it is better
	Low    float64 `json:"low"`  // of a 95 % interval, paired
	High   float64 `json:"high"`
}

// DecodeTested reads it. What it says is for people alone; what makes no sense is refused all the same.
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
