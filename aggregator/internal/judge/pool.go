package judge

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/metric"
)

// pool is a comparison with one model on the rows of one or several nights.
type pool struct {
	metric.Comparison
	rows   int
	nights []int // versions that keep the rows, ascending; 0 is tonight
}

// poolNights compares the new model with an older one on the rows of several nights; old returns the older model's
// predictions for a night. Nights without predictions of both are left out, and so are those on which the metric is not
// defined. If none is left, why says why there is no comparison; otherwise it is empty.
//
// Nights differ by more than their rows explain, so the gain is the mean over nights in a random-effects model
// (DerSimonian and Laird 1986, "Meta-analysis in clinical trials"): what varies between nights widens the interval.
func poolNights(m metric.Metric, c metric.Confidence, nights []Judged,
	old func(*Judged) []float64) (p pool, why string) {
	var each []metric.Comparison
	var rows []float64
	for i := range nights {
		n := &nights[i]
		if old(n) == nil || len(n.New) == 0 {
			continue
		}
		one, err := m.Compare(n.input(n.New), old(n), c)
		if err != nil { // such as labels of one class
			why = err.Error()
			continue
		}
		each, rows = append(each, one), append(rows, float64(len(n.Label)))
		p.rows += len(n.Label) // of several classes, a row has a prediction for each
		p.nights = append(p.nights, n.Night)
	}
	slices.Sort(p.nights)

	switch len(each) {
	case 0:
		if why == "" {
			why = "there are no rows"
		}
		return p, why
	case 1:
		p.Comparison = each[0]
		return p, ""
	}

	// Weights are inverse variances. A night on which both models predict the same has no variance; then rows weigh.
	weights := make([]float64, len(each))
	between := betweenNights(each)
	for i, one := range each {
		weights[i] = 1 / (one.Error*one.Error + between)
		if math.IsInf(weights[i], 1) {
			weights = rows
			break
		}
	}

	// The weighted mean of the gains, and its error. The values of both models are the means over all rows.
	// Conversions to float64 keep products from being fused with sums, so that all processors compute the same bits.
	var sum float64
	p.Method = each[0].Method
	for i, one := range each {
		w := weights[i]
		sum += w
		p.Gain += float64(w * one.Gain)
		p.Error += float64(w*w) * (one.Error*one.Error + between)
		share := rows[i] / float64(p.rows)
		p.New += float64(share * one.New)
		p.Old += float64(share * one.Old)
	}
	p.Gain, p.Error = p.Gain/sum, math.Sqrt(p.Error)/sum
	// The root of 2 times the inverse error function is as many standard errors as hold c.Level of a normal
	// distribution.
	reach := math.Sqrt2 * math.Erfinv(c.Level) * p.Error
	p.Low, p.High = p.Gain-reach, p.Gain+reach
	return p, ""
}

// betweenNights estimates the variance of the true gain between nights, beyond what the errors of each night explain
// (DerSimonian and Laird). It is 0 if that explains all, or if a night has no error.
func betweenNights(each []metric.Comparison) float64 {
	// The mean gain, weighted by inverse variances.
	var sum, squares, mean, q float64
	for _, one := range each {
		if one.Error == 0 {
			return 0
		}
		w := 1 / (one.Error * one.Error)
		sum, squares, mean = sum+w, squares+float64(w*w), mean+float64(w*one.Gain)
	}
	mean /= sum

	// q is Cochran's: were there no variance between nights, it would be about the number of nights less one.
	for _, one := range each {
		q += (one.Gain - mean) * (one.Gain - mean) / (one.Error * one.Error)
	}
	return max(0, (q-float64(len(each)-1))/(sum-squares/sum))
}

// describeRows says for people how many rows of which nights are pooled; night 0 is tonight. If they are all of the
// night of the version against, which is named in the sentence before, that version is not named again.
func (p *pool) describeRows(against int) string {
	rows := humanize.Comma(int64(p.rows)) + " rows"
	switch {
	case slices.Equal(p.nights, []int{0}):
		return humanize.Comma(int64(p.rows)) + " sampled test rows"
	case p.nights[0] == 0:
		return fmt.Sprintf("%s of tonight and %s", rows, nameEarlierNights(p.nights[1:]))
	case slices.Equal(p.nights, []int{against}):
		return rows + " of earlier nights"
	}
	return rows + " of " + nameEarlierNights(p.nights)
}

// nameEarlierNights names earlier nights.
func nameEarlierNights(versions []int) string {
	return fmt.Sprintf("earlier nights (%s %s)", english.PluralWord(len(versions), "version", ""),
		strings.ReplaceAll(strings.Trim(fmt.Sprint(versions), "[]"), " ", ", "))
}

// joinNights appends several nights' rows to each other. Old becomes the predictions of the latest sound version.
// Nights without its predictions, or without those of the new model, are left out. Night, Group and Values are not set:
// the metrics of labels and of calibration do not ask for them.
func joinNights(nights []Judged) (all Judged) {
	for i := range nights {
		n := &nights[i]
		if latestPredictions(n) == nil || len(n.New) == 0 {
			continue
		}
		if n.Weight != nil && all.Weight == nil { // beside weighted rows, unweighted ones weigh 1
			all.Weight = ones(len(all.Label))
		}
		switch {
		case n.Weight != nil:
			all.Weight = append(all.Weight, n.Weight...)
		case all.Weight != nil:
			all.Weight = append(all.Weight, ones(len(n.Label))...)
		}
		all.Label, all.New = append(all.Label, n.Label...), append(all.New, n.New...)
		all.Old = append(all.Old, latestPredictions(n)...)
	}
	return all
}

func ones(n int) []float32 { return slices.Repeat([]float32{1}, n) }
