package nights

import (
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
)

// card is a simple model built from a night's profile alone: it adds up the log odds of the label in each range or
// level of every column (naive Bayes). It ranks labels less well than a champion, but needs none: if it ranks tonight's
// labels no better than a coin, either the labels or the columns have changed.
type card struct {
	columns []cardColumn
}

type cardColumn struct {
	name    string
	encoder *columnEncoder
	odds    []float64 // by code
}

// newCard makes the card of a night.
func newCard(p *Profile) *card {
	mean := p.Label.Mean
	if p.Label.Middle != 0 || mean <= 0 || mean >= 1 {
		mean = 0.5
	}
	odds := func(rate, rows float64) float64 {
		r := (rate*rows + prior*mean) / (rows + prior)
		r = max(1e-6, min(1-1e-6, r))
		return math.Log(r/(1-r)) - math.Log(mean/(1-mean))
	}

	sampled := p.sampled()
	c := &card{}
	for i := range p.Columns {
		column := &p.Columns[i]
		if column.Kind != Number && column.Kind != Text {
			continue
		}

		k := newColumnEncoder(column, keptLevels)
		one := cardColumn{name: column.Name, encoder: k, odds: make([]float64, k.size)}
		if column.Kind == Number {
			for r, rate := range column.Rates {
				one.odds[r+1] = odds(rate, column.Shares[r]*sampled)
			}
		} else {
			one.odds[0] = odds(column.MissingRate, column.Missing*sampled)
			one.odds[1] = odds(column.RestRate, column.Rest*sampled)
			for l, level := range column.Levels {
				one.odds[l+2] = odds(level.Rate, level.Share*sampled)
			}
		}
		c.columns = append(c.columns, one)
	}
	return c
}

// score ranks a night's rows: the higher the score, the more likely a positive label. Columns that the night lacks, or
// that changed kind, are ignored.
//
// Several columns are read at a time, and added up in their order: the sum does not depend on threads.
func (c *card) score(w *worker, n *ingest.Night) []float64 {
	values := make(map[string]*dataset.Values, len(n.Sample.Names))
	for i, name := range n.Sample.Names {
		values[name] = &n.Sample.Columns[i]
	}

	out := make([]float64, len(n.Label))
	codes := make([][]int, scoredTogether)
	for some := range slices.Chunk(c.columns, scoredTogether) {
		w.each(len(some), func(i int) {
			codes[i] = nil
			if v := values[some[i].name]; v != nil {
				codes[i] = some[i].encoder.codesOf(n, v)
			}
		})
		if w.ctx.Err() != nil {
			return out
		}
		for i := range some {
			for row, code := range codes[i] {
				out[row] += some[i].odds[code]
			}
		}
	}
	return out
}

// scoredTogether is how many columns' codes are in memory at once.
const scoredTogether = 16

// judge ranks tonight's labels with the card of an earlier night. It returns the AUC of all rows and that of each of
// parts equal parts of the table, in row order.
func judge(w *worker, p *Profile, before *Profile, n *ingest.Night, parts int) (all float64, each []float64) {
	y := positives(n, Label{Kind: p.Label.Kind, Middle: before.Label.Middle})
	score := newCard(before).score(w, n)
	for k := range parts {
		from, to := k*len(y)/parts, (k+1)*len(y)/parts
		each = append(each, aucOf(y[from:to], score[from:to]))
	}
	return aucOf(y, score), each
}
