package served

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset/cell"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/strictjson"
	"coppice/internal/sweep"
	"coppice/launcher/internal/predict"
)

// Kept is an hour of one version on one server, as it is kept in the bucket: counts, and no values of rows.
type Kept struct {
	Format    int         `json:"format"`
	Version   string      `json:"version"` // MODEL@NUMBER
	Begin     time.Time   `json:"begin"`
	Requests  int64       `json:"requests"`                    // that it has answered
	Rows      int64       `json:"rows"`                        // of them
	Predicted float64     `json:"predicted"`                   // their predictions' sum; what is not finite counts as 0
	Seconds   float64     `json:"seconds"`                     // over all requests
	Latency   []int64     `json:"latency,omitempty" max:"100"` // requests by Bounds, the last beyond all
	Busy      int64       `json:"busy,omitempty"`              // requests that were refused with 429,
	Refused   int64       `json:"refused,omitempty"`           // another 4xx,
	Failed    int64       `json:"failed,omitempty"`            // or 5xx
	Inputs    cell.Inputs `json:"inputs"`
}

// Bounds are the upper ends, in seconds, of the classes in which latencies are counted.
var Bounds = []float64{.0002, .0005, .001, .002, .003, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5}

// Answered counts a request of so many rows with the sum of their predictions, how long it took, and its inputs.
func (k *Kept) Answered(rows int, sum float64, took time.Duration, in *cell.Inputs) {
	k.Requests++
	k.Rows += int64(rows)
	k.Predicted += sum
	k.Seconds += took.Seconds()
	if k.Latency == nil {
		k.Latency = make([]int64, len(Bounds)+1)
	}
	i, _ := slices.BinarySearch(Bounds, took.Seconds())
	k.Latency[i]++
	k.Inputs.Add(in)
}

// Turned counts a request that was refused with a status of HTTP.
func (k *Kept) Turned(status int) {
	switch {
	case status == http.StatusTooManyRequests:
		k.Busy++
	case status >= http.StatusInternalServerError:
		k.Failed++
	default:
		k.Refused++
	}
}

// quantile is about how long, in seconds, the share q of the requests took at most: within a class as if all lengths
// were equally frequent, and beyond the last bound that. It is 0 without requests.
func quantile(latency []int64, q float64) float64 {
	total := int64(0)
	for _, n := range latency {
		total += n
	}
	rest, low := q*float64(total), 0.0
	for i, n := range latency[:min(len(latency), len(Bounds))] {
		if n > 0 && rest <= float64(n) {
			return low + (Bounds[i]-low)*rest/float64(n)
		}
		rest, low = rest-float64(n), Bounds[i]
	}
	if total == 0 {
		return 0
	}
	return low
}

const (
	mostKept    = 4 << 20 // bytes of an hour: 32,768 columns have 3 MB
	mostServers = 1000    // objects that are read of an hour
	hourFormat  = "20060102T15"
)

// folder is where a model's servers keep an hour. Rights depend on its beginning (terraform/iam.tf).
func folder(model string, begin time.Time) string {
	return "served/" + model + "/" + begin.UTC().Format(hourFormat) + "/"
}

// Keep keeps an hour of a version on a server of that name in the bucket, once and for good. It needs the right to
// create objects, and no other.
func Keep(ctx context.Context, bucket blob.Store, server string, k Kept) error {
	model, number, err := sweep.SplitModelRef(k.Version)
	if err != nil {
		return err
	}
	k.Format = sweep.FormatVersion
	err = k.check(model, k.Begin.Truncate(time.Hour))
	var text []byte
	if err == nil {
		text, err = json.Marshal(k)
	}
	if err == nil && len(text) > mostKept {
		err = fmt.Errorf("it has %d bytes, more than %d", len(text), mostKept)
	}
	if err == nil {
		_, err = blob.Create(ctx, bucket, folder(model, k.Begin)+server+"-"+number+".json", text)
	}
	if err != nil {
		return fmt.Errorf("keep the hour of %s: %w", k.Begin.UTC().Format(hourFormat), err)
	}
	return nil
}

// decodeKept reads the hour of a server of a model; other contents than Keep writes are refused.
func decodeKept(text []byte, model string, begin time.Time) (*Kept, error) {
	k := &Kept{}
	if err := strictjson.Decode(text, k); err != nil {
		return nil, err
	}
	if err := k.check(model, begin); err != nil {
		return nil, err
	}
	return k, nil
}

// check rejects what is not an hour of a server of a model.
func (k *Kept) check(model string, begin time.Time) error {
	of, number, err := sweep.SplitModelRef(k.Version)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(number); err != nil || n < 1 || of != model || !k.Begin.Equal(begin) {
		return fmt.Errorf("it is of %s at %s", k.Version, k.Begin)
	}
	if k.Format != sweep.FormatVersion {
		return fmt.Errorf("format %d; this build reads %d", k.Format, sweep.FormatVersion)
	}

	// so that the sums of many servers do not overflow; a regression may predict what it likes
	const most, mostPredicted = 1 << 50, math.MaxFloat64 / mostServers
	ok := k.Requests >= 0 && k.Requests < most && k.Rows >= 0 && k.Rows < most && k.Seconds >= 0 &&
		math.Abs(k.Predicted) <= mostPredicted && k.Seconds < most && k.Inputs.Rows >= 0 && k.Inputs.Rows <= k.Rows
	for _, n := range []int64{k.Busy, k.Refused, k.Failed} {
		ok = ok && n >= 0 && n < most
	}
	for _, c := range k.Inputs.Columns {
		for _, n := range []int64{c.Missing, c.Unseen, c.Rare} {
			ok = ok && n >= 0 && n <= k.Inputs.Rows
		}
	}
	if !ok || !k.latencyFits() {
		return fmt.Errorf("its counts contradict each other")
	}
	return nil
}

// latencyFits reports whether the classes of latencies, if there are any, have at most all requests.
func (k *Kept) latencyFits() bool {
	rest := k.Requests
	for _, n := range k.Latency {
		if n < 0 || n > rest {
			return false
		}
		rest -= n
	}
	return k.Latency == nil || len(k.Latency) == len(Bounds)+1
}

// Past is an hour of all servers of a version.
type Past struct {
	Begin    time.Time       `json:"begin"`
	Version  string          `json:"version"`
	Servers  int             `json:"servers"`
	Requests int64           `json:"requests"`
	Rows     int64           `json:"rows"`
	Mean     float64         `json:"mean_prediction"`
	Seconds  float64         `json:"seconds"`               // of a request, on average
	P50      float64         `json:"p50_seconds,omitempty"` // about; 0 if it was not counted
	P99      float64         `json:"p99_seconds,omitempty"`
	Busy     int64           `json:"busy,omitempty"`    // requests that were refused with 429,
	Refused  int64           `json:"refused,omitempty"` // another 4xx,
	Failed   int64           `json:"failed,omitempty"`  // or 5xx
	Inputs   []predict.Input `json:"inputs"`
	Findings []string        `json:"findings,omitempty"`

	predicted, took float64
	latency         []int64
	in              cell.Inputs
}

// PastOf is an hour of one server, compared with the rows on which its version was tested; usual may be nil.
func PastOf(k *Kept, usual *cell.Inputs) Past {
	d := &Past{Begin: k.Begin, Version: k.Version}
	_ = d.add(k) // there are no other columns yet
	d.finish(usual)
	return *d
}

// finish computes what follows from the sums.
func (d *Past) finish(usual *cell.Inputs) {
	d.Mean, d.Seconds = d.predicted/float64(max(d.Rows, 1)), d.took/float64(max(d.Requests, 1))
	d.P50, d.P99 = quantile(d.latency, .5), quantile(d.latency, .99)
	d.Inputs = predict.Compare(&d.in, usual, predict.HighInHours)
	d.Findings = (&predict.Result{Inputs: d.Inputs}).Warnings()
}

// Hours are what servers of a model have kept, and what of it is left out.
type Hours struct {
	Hours   []Past `json:"hours"`                      // the oldest first
	Unread  int    `json:"unreadable"`                 // objects that are not the hour of a server
	First   string `json:"first_unreadable,omitempty"` // what is wrong with the first of them
	Crowded int    `json:"hours_with_more_servers"`    // with more objects than are read, 1,000
}

// ReadPast reads the last whole hours that servers of a model have kept, and compares each with the rows on which its
// version was tested. Hours without requests are left out.
func ReadPast(ctx context.Context, bucket blob.Store, r *registry.Registry, model string, hours int,
	now time.Time) (*Hours, error) {
	out := &Hours{Hours: []Past{}}
	usual := map[string]*cell.Inputs{} // by version
	for back := hours; back > 0; back-- {
		begin := now.UTC().Truncate(time.Hour).Add(-time.Duration(back) * time.Hour)
		of, err := out.hourOf(ctx, bucket, model, begin)
		if err != nil {
			return nil, err
		}
		for _, d := range of {
			in, ok := usual[d.Version]
			if !ok {
				if in, err = usualInputs(ctx, r, d.Version); err != nil {
					return nil, err
				}
				usual[d.Version] = in
			}
			d.finish(in)
			out.Hours = append(out.Hours, *d)
		}
	}
	return out, nil
}

// hourOf adds up the servers of an hour, by version. What cannot be read is counted, and costs the others nothing.
func (h *Hours) hourOf(ctx context.Context, bucket blob.Store, model string, begin time.Time) ([]*Past, error) {
	byVersion := map[string]*Past{}
	servers := 0
	for object, err := range bucket.List(ctx, folder(model, begin)) {
		if err != nil {
			return nil, err
		}
		if servers++; servers > mostServers {
			h.Crowded++
			break
		}
		text, _, err := blob.ReadAll(ctx, bucket, object.Name, mostKept)
		if err != nil && !problem.Is(err, problem.Damaged) && !errors.Is(err, blob.ErrTooLong) {
			return nil, err
		}
		var k *Kept
		if err == nil {
			k, err = decodeKept(text, model, begin)
		}
		if err == nil {
			d := byVersion[k.Version]
			if d == nil {
				d = &Past{Begin: k.Begin, Version: k.Version}
				byVersion[k.Version] = d
			}
			err = d.add(k)
		}
		if err != nil {
			h.Unread++
			h.First = cmp.Or(h.First, fmt.Sprintf("%s is not the hour of a server; remove it: %v", object.Name, err))
		}
	}
	return slices.SortedFunc(maps.Values(byVersion),
		func(a, b *Past) int { return cmp.Compare(a.Version, b.Version) }), nil
}

// add adds a server. Its columns must be those of the version's other servers.
func (d *Past) add(k *Kept) error {
	if len(k.Inputs.Columns) > 0 {
		if d.in.Columns != nil && !slices.EqualFunc(d.in.Columns, k.Inputs.Columns,
			func(a, b cell.InputCount) bool { return a.Column == b.Column && a.IDs == b.IDs }) {
			return fmt.Errorf("its columns are not those of another server of %s", k.Version)
		}
		d.in.Add(&k.Inputs)
	}
	d.Servers++
	d.Requests, d.Rows = d.Requests+k.Requests, d.Rows+k.Rows
	d.predicted, d.took = d.predicted+k.Predicted, d.took+k.Seconds
	d.Busy, d.Refused, d.Failed = d.Busy+k.Busy, d.Refused+k.Refused, d.Failed+k.Failed
	if d.latency == nil {
		d.latency = make([]int64, len(Bounds)+1)
	}
	for i, n := range k.Latency {
		d.latency[i] += n
	}
	return nil
}

// usualInputs are those of a version's test rows; nil if it has none, or is gone.
func usualInputs(ctx context.Context, r *registry.Registry, version string) (*cell.Inputs, error) {
	model, ref, err := sweep.SplitModelRef(version)
	if err != nil {
		return nil, err
	}
	v, err := r.Get(ctx, model, ref)
	if err == nil {
		if _, ok := v.File(scorer.FileInputs); !ok {
			return nil, nil
		}
		var text []byte
		if text, err = r.ReadFile(ctx, v, scorer.FileInputs); err == nil {
			in := &cell.Inputs{}
			return in, strictjson.DecodeKnown(text, in)
		}
	}
	if problem.Is(err, problem.NotFound) {
		return nil, nil
	}
	return nil, err
}

// OffPast returns the hours with findings as an error; nil if there are none.
func OffPast(model string, all []Past) *OffError {
	off := &OffError{In: model, Of: len(all), What: "hours"}
	for _, d := range all {
		if len(d.Findings) > 0 {
			off.Found = append(off.Found, fmt.Sprintf("%s %s: %s", d.Begin.Format("2006-01-02 15:04"), d.Version,
				strings.Join(d.Findings, "; ")))
		}
	}
	if off.Found == nil {
		return nil
	}
	return off
}
