package ingest

import (
	"context"
	"fmt"
	"math"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// ripener leaves out rows whose labels are not final yet, here called unripe: rows younger than label.matures, as a
// click may still come. Ages are counted from the table's newest row or from a time given in the spec, never from the
// system clock. A nil ripener treats every label as final.
type ripener struct {
	spec    *dataset.Spec
	markers *cell.Markers
	place   int     // the time's index in a batch
	until   float64 // rows up to this time are ripe
	oldest  float64 // the oldest row seen by the survey, ripe or not
	newest  float64
	ripest  float64 // the newest ripe row
	left    int64   // unripe rows seen by the survey
}

// newRipener returns nil if the spec treats every label as final. Markers say which times are missing.
func newRipener(spec *dataset.Spec, roles *roles, markers *cell.Markers) *ripener {
	if spec.Label.Matures == 0 {
		return nil
	}
	return &ripener{spec: spec, markers: markers, place: roles.mature, until: math.NaN(), oldest: math.Inf(1),
		newest: math.Inf(-1), ripest: math.Inf(-1)}
}

// resolve sets r.until, the time up to which rows are ripe. Unless the spec gives a time, it reads the whole column of
// times to find the newest one. It is called before the first pass.
func (r *ripener) resolve(ctx context.Context, t *table.Table, progress func(done, total int64)) error {
	if r == nil {
		return nil
	}
	matures := time.Duration(r.spec.Label.Matures).Seconds()
	if at, ok := r.spec.Label.Stated(); ok {
		r.until = dataset.Seconds(at.Unix(), int64(at.Nanosecond())) - matures
		return nil
	}

	newest := math.Inf(-1)
	err := readTable(ctx, t, []string{r.spec.Label.At}, func(b *table.Batch) error {
		for i := range b.Rows {
			x, err := r.rowTime(b, &b.Columns[0], i)
			if err != nil {
				return err
			}
			newest = max(newest, x)
		}
		return nil
	}, progress)
	r.until = newest - matures
	return err
}

// rowTime returns the time of row i in seconds since 1970. A time that is missing or unreadable is an error that names
// the row.
func (r *ripener) rowTime(batch *table.Batch, values *dataset.Values, i int) (float64, error) {
	if cell.Missing(values, i, r.markers) {
		return 0, batch.ErrorAt(i, r.spec.Label.At,
			"it is not known whether the row's label is final: its time is missing")
	}
	x, ok := timeAt(values, i)
	if !ok {
		return 0, batch.ErrorAt(i, r.spec.Label.At, "it is not known whether the row's label is final: %.40q is not a "+
			"time (such as 2017-07-02T10:03:20Z)", values.TextOf(i))
	}
	return x, nil
}

// keepRipe returns a batch of only the rows whose labels are final, and notes the range of all times. A nil ripener
// returns the batch itself.
func (r *ripener) keepRipe(batch *table.Batch) (*table.Batch, error) {
	if r == nil {
		return batch, nil
	}
	places, v := make([]int32, 0, batch.Rows), &batch.Columns[r.place]
	for i := range batch.Rows {
		x, err := r.rowTime(batch, v, i)
		if err != nil {
			return nil, err
		}
		r.oldest, r.newest = min(r.oldest, x), max(r.newest, x)
		if x <= r.until {
			places = append(places, int32(i))
			r.ripest = max(r.ripest, x)
		}
	}

	return batch.Keep(places), nil
}

// anyLeft reports whether the survey has left out a row because its label is not final.
func (r *ripener) anyLeft() bool { return r != nil && r.left > 0 }

// Thresholds by which the newest row looks wrong: far fewer rows are unripe than if rows were evenly spread over time.
const (
	fewUnripe    = 0.05 // share of the expected unripe rows below which something is wrong
	enoughUnripe = 20   // least expected unripe rows to judge by
	shortSpan    = 0.1  // as a share of label.matures: if ripe rows span less time, nothing can be extrapolated
)

// warnings returns a warning if the newest row, from which ages are counted, looks wrong: if too few rows are ripe, or
// too few are not. ripe is the number of ripe rows, also of those without a label and of those that sampling left out.
// It is called after the first pass.
func (r *ripener) warnings(ripe int64) []dataset.Warning {
	if r == nil {
		return nil
	}
	warn := func(format string, args ...any) []dataset.Warning {
		return []dataset.Warning{{Code: WarnUnripe, Column: r.spec.Label.At, Text: fmt.Sprintf(format, args...)}}
	}
	if r.left > ripe {
		return warn("only %d of %d rows are as old as label.matures requires: is the newest row's time right?", ripe,
			r.left+ripe)
	}

	// The expected number of unripe rows is extrapolated from the ripe ones, if they span enough time. They do not end
	// where labels begin to be final: a newest row of the year 2999 moves that by centuries.
	_, stated := r.spec.Label.Stated()
	matures := time.Duration(r.spec.Label.Matures)
	span := r.ripest - r.oldest
	if stated || span < shortSpan*matures.Seconds() {
		return nil
	}
	// even is how many there are if they come as fast as the ripe ones.
	even := float64(ripe) * matures.Seconds() / span
	if even >= enoughUnripe && float64(r.left) < fewUnripe*even {
		return warn("%d rows are within %v of the newest one, but about %.0f are expected: is its time in the "+
			"future? Then labels that are not final count as final", r.left, matures, even)
	}
	return nil
}

// describeUnripe returns what the manifest says about rows that were left out, nil if every label is final.
func (r *ripener) describeUnripe() *dataset.Unripe {
	if r == nil {
		return nil
	}
	// A float64 of seconds since 1970 tells microseconds apart, and nothing finer.
	moment := func(seconds float64) time.Time {
		whole, part := math.Modf(seconds)
		return time.Unix(int64(whole), int64(math.Round(part*1e6))*1e3).UTC()
	}
	return &dataset.Unripe{Rows: r.left, Column: r.spec.Label.At, Matures: time.Duration(r.spec.Label.Matures).String(),
		Until: moment(r.until), Newest: moment(r.newest)}
}
