// Package served judges predictions by the labels that have arrived since: calibration and normalized entropy of what
// callers were really told, by hour and by the values of a column.
//
//	answers: key, time, prediction ─┐
//	                                ├─▶ sums by hour and segment ─▶ findings beyond chance and tolerance
//	labels: key, label ─────────────┘
//
// The answers are the log of whoever called `launcher serve`, or what `launcher predict --keep` has written. The labels
// may be a column of the same table.
package served

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
)

// Answers says what is judged. Columns are named as in the tables.
type Answers struct {
	In, Labels                       string // files, globs or folders; Labels is empty if the labels are in In
	Key, Label, Prediction, Time, By string // Key only with Labels; By is empty for whole hours only
	PositivesOnly                    bool   // a row without a label is a negative one; else it is not judged
	Tolerance                        float64
}

// AddFlags adds the flags of a command that takes a request.
func (q *Answers) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.In, "in", "", "log of answers: a file, a glob or a folder (required)")
	f.StringVar(&q.Labels, "labels", "", "table of labels, if they are not in the log")
	f.StringVar(&q.Key, "key", "", "column of both tables by which --labels are joined")
	f.StringVar(&q.Label, "label", "", "column of the labels, 0 and 1 (required)")
	f.BoolVar(&q.PositivesOnly, "positives-only", false,
		"a row without a label is a negative one; else it is not judged yet")
	f.StringVar(&q.Prediction, "prediction", "prediction", "column of the predictions")
	f.StringVar(&q.Time, "time", "time", "column of the times")
	f.StringVar(&q.By, "by", "", "column whose values are judged by themselves")
	f.Float64Var(&q.Tolerance, "tolerance", .2, "how far calibration may be off, relative")
	for _, name := range []string{"in", "label"} {
		_ = cmd.MarkFlagRequired(name)
	}
}

// Check rejects flags that contradict each other.
func (q *Answers) Check() error {
	if (q.Labels == "") != (q.Key == "") {
		return program.Usagef("--labels and --key belong together")
	}
	if q.PositivesOnly && q.Labels == "" {
		return program.Usagef("--positives-only is for --labels")
	}
	if !(q.Tolerance >= 0) {
		return program.Usagef("--tolerance %v: give 0 or more", q.Tolerance)
	}
	return nil
}

// Judged is the rows of an hour, all or those of a segment.
type Judged struct {
	Begin    time.Time `json:"begin"`
	Segment  string    `json:"segment,omitempty"`
	Rows     int64     `json:"rows"`
	Positive int64     `json:"positive"`
	Mean     float64   `json:"mean_prediction"`
	Ratio    float64   `json:"calibration_ratio"` // of the predictions' sum and the labels'; 0 without positive rows
	Entropy  float64   `json:"normalized_entropy"`
	Finding  string    `json:"finding,omitempty"`

	predicted, variance, loss, squares, positiveLoss float64
}

// Report is what Run has found.
type Report struct {
	Rows       int64    `json:"rows"`
	Unlabelled int64    `json:"unlabelled"` // not judged
	Hours      []Judged `json:"hours"`      // by time, whole hours before their segments
}

// OffError says which hours and segments are findings.
type OffError struct {
	In    string
	Begin time.Time // of the first
	Found []string
	Of    int    // looked at
	What  string // was looked at, in the plural
}

func (e *OffError) Error() string {
	return fmt.Sprintf("%s: %d of %d %s need a look, the first is %s", e.In, len(e.Found), e.Of, e.What,
		e.Found[0])
}

// ExitStatus is that of a table that may not be trained on.
func (e *OffError) ExitStatus() int { return sweep.ExitBlocked }

// Reason is all findings in one text.
func (e *OffError) Reason() string { return strings.Join(e.Found, "; ") }

// Off returns the findings of a report on in; nil if there are none.
func (r *Report) Off(in string) *OffError {
	off := &OffError{In: in, Of: len(r.Hours), What: "hours and segments"}
	for i := range r.Hours {
		if h := &r.Hours[i]; h.Finding != "" {
			if off.Found == nil {
				off.Begin = h.Begin
			}
			off.Found = append(off.Found,
				strings.TrimSpace(h.Begin.Format("2006-01-02 15:04 ")+h.Segment)+": "+h.Finding)
		}
	}
	if off.Found == nil {
		return nil
	}
	return off
}

const (
	batchRows = 16384
	mostCells = 200_000 // hours and segments
	// leastErrors is how many standard errors a finding is away from chance: of 5,000 judged hours and segments of
	// right predictions .003 are.
	leastErrors = 5
	leastRows   = 100
	edge        = 1e-15 // predictions are at least so far from 0 and 1, as in the log loss of nights
)

type cellKey struct {
	hour    int64
	segment string
}

// Run reads the labels and then the answers, a batch at a time; it holds a number for each label, and the sums.
func Run(ctx context.Context, q Answers) (*Report, error) {
	var labels map[uint64]bool
	keys := &cell.Keys{Markers: cell.NewMarkers(dataset.DefaultMissing())}
	if q.Labels != "" {
		labels = map[uint64]bool{}
		err := read(ctx, q.Labels, []string{q.Key, q.Label}, func(b *table.Batch) error {
			ys, err := numbers(b, q.Label, dataset.Numeric, keys.Markers)
			if err != nil {
				return err
			}
			for i, y := range ys {
				h, ok := keyOf(keys, b, q.Key, i)
				if !ok || y != y {
					continue
				}
				if y != 0 && y != 1 {
					return notLabel(q.Label, y)
				}
				labels[h] = labels[h] || y == 1
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}

	r, cells := &Report{}, map[cellKey]*Judged{}
	wanted := []string{q.Prediction, q.Time}
	for _, name := range []string{q.By, q.Key} {
		if name != "" {
			wanted = append(wanted, name)
		}
	}
	if labels == nil {
		wanted = append(wanted, q.Label)
	}
	err := read(ctx, q.In, wanted, func(b *table.Batch) error { return q.batch(b, keys, labels, cells, r) })
	if err != nil {
		return nil, err
	}
	for _, h := range cells {
		h.judge(q.Tolerance)
		r.Hours = append(r.Hours, *h)
	}
	slices.SortFunc(r.Hours, func(a, b Judged) int {
		return cmp.Or(a.Begin.Compare(b.Begin), cmp.Compare(a.Segment, b.Segment))
	})
	return r, nil
}

func read(ctx context.Context, place string, columns []string, use func(*table.Batch) error) error {
	if dataset.InBucket(place) {
		return problem.New(problem.Usage, "%s is in a bucket: copy it to this machine first, with `gcloud storage cp`",
			place)
	}
	files, err := table.Expand(place)
	if err != nil {
		return err
	}
	t, err := table.Open(files, table.Options{Threads: runtime.GOMAXPROCS(0)})
	if err != nil {
		return err
	}
	slices.Sort(columns)
	return t.Read(ctx, slices.Compact(columns), batchRows, use)
}

func numbers(b *table.Batch, name string, kind dataset.Kind, t *cell.Markers) ([]float64, error) {
	out, _, err := cell.NewNumbers(name, kind, t).Numbers(b.Column(name), nil)
	if err != nil {
		return nil, &table.InputError{Column: name, Msg: err.Error()}
	}
	return out, nil
}

// keyOf is the hash of a row's key; false if it has none.
func keyOf(keys *cell.Keys, b *table.Batch, name string, row int) (uint64, bool) {
	before := keys.None
	h := keys.Hash(b.Column(name), row, b.First+int64(row))
	return h, keys.None == before
}

func notLabel(column string, y float64) error {
	return &table.InputError{Column: column, Msg: fmt.Sprintf("%v is not a label; labels are 0 and 1", y)}
}

// batch adds rows to the sums.
func (q *Answers) batch(b *table.Batch, keys *cell.Keys, labels map[uint64]bool, cells map[cellKey]*Judged,
	r *Report) error {
	ps, err := numbers(b, q.Prediction, dataset.Numeric, keys.Markers)
	if err != nil {
		return err
	}
	times, err := numbers(b, q.Time, dataset.Temporal, keys.Markers)
	if err != nil {
		return err
	}
	var ys []float64
	if labels == nil {
		if ys, err = numbers(b, q.Label, dataset.Numeric, keys.Markers); err != nil {
			return err
		}
	}
	var text []byte
	for i, p := range ps {
		r.Rows++
		var positive, known bool
		if labels != nil {
			h, ok := keyOf(keys, b, q.Key, i)
			y, found := labels[h]
			positive, known = ok && found && y, ok && (found || q.PositivesOnly)
		} else {
			known = ys[i] == ys[i]
			if positive = ys[i] == 1; known && ys[i] != 0 && !positive {
				return notLabel(q.Label, ys[i])
			}
		}
		if !known {
			r.Unlabelled++
			continue
		}
		if !(p >= 0 && p <= 1) {
			return &table.InputError{Column: q.Prediction, Msg: fmt.Sprintf("%v is not a probability", p)}
		}
		if times[i] != times[i] {
			return &table.InputError{Column: q.Time, Msg: "a row without a time"}
		}
		at := cellKey{hour: int64(math.Floor(times[i] / 3600))}
		if err := add(cells, at, p, positive); err != nil {
			return err
		}
		if q.By != "" {
			text = b.Column(q.By).AppendText(text[:0], i)
			at.segment = q.By + "=" + string(text)
			if err := add(cells, at, p, positive); err != nil {
				return err
			}
		}
	}
	return nil
}

func add(cells map[cellKey]*Judged, at cellKey, p float64, positive bool) error {
	h := cells[at]
	if h == nil {
		if len(cells) == mostCells {
			return problem.New(problem.Input, "more than %d hours and segments; give --by a column with fewer values",
				mostCells)
		}
		h = &Judged{Begin: time.Unix(3600*at.hour, 0).UTC(), Segment: at.segment}
		cells[at] = h
	}
	p = min(max(p, edge), 1-edge)
	loss := -math.Log1p(-p)
	if positive {
		loss = -math.Log(p)
		h.Positive++
		h.positiveLoss += loss
	}
	h.Rows++
	h.predicted += p
	h.variance += p * (1 - p)
	h.loss += loss
	h.squares += loss * loss
	return nil
}

// judge computes what follows from the sums, and says what is beyond chance and tolerance.
func (h *Judged) judge(tolerance float64) {
	n, y := float64(h.Rows), float64(h.Positive)
	h.Mean = h.predicted / n
	if y > 0 {
		h.Ratio = h.predicted / y
	}
	// Loss against that of the hour's own share of positive rows, which is never worse than by chance.
	rate := min(max(y/n, edge), 1-edge)
	yes, no := -math.Log(rate), -math.Log1p(-rate)
	base := y*yes + (n-y)*no
	if base > 0 {
		h.Entropy = h.loss / base
	}
	if h.Rows < leastRows {
		return
	}

	// The root of the deviance: unlike the difference in standard errors, it is right for few positive rows, too, of
	// which chance brings many more easily. Labels vary less than counts where they are not rare.
	deviance := 2 * (y*math.Log(max(y, edge)/h.predicted) - (y - h.predicted))
	far := math.Sqrt(max(deviance, 0) * h.predicted / max(h.variance, edge))
	off := math.Abs(h.predicted/max(y, .5) - 1)
	worse := h.loss - base
	squares := h.squares - 2*(yes*h.positiveLoss+no*(h.loss-h.positiveLoss)) + y*yes*yes + (n-y)*no*no
	chance := math.Sqrt(max(squares-worse*worse/n, edge))
	switch {
	case far > leastErrors && off > tolerance:
		what := "fewer"
		if h.predicted > y {
			what = "more"
		}
		h.Finding = fmt.Sprintf("%.3g positive rows predicted where %d came: %.0f %% %s (%.0f %% allowed)", h.predicted,
			h.Positive, 100*off, what, 100*tolerance)
	case worse > leastErrors*chance:
		h.Finding = fmt.Sprintf("normalized entropy is %.3g: the predictions say less than the share of positive rows",
			h.Entropy)
	}
}
