package nights

import (
	"math"

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
func (c *card) score(n *ingest.Night) []float64 {
	out := make([]float64, len(n.Label))
	for _, column := range c.columns {
		v := n.Sample.Column(column.name)
		if v == nil {
			continue
		}
		for i, code := range column.encoder.codesOf(n, v) {
			out[i] += column.odds[code]
		}
	}
	return out
}

// judge ranks tonight's labels with the card of an earlier night. It returns the AUC of all rows and that of each of
// parts equal parts of the table, in row order.
func judge(p *Profile, before *Profile, n *ingest.Night, parts int) (all float64, each []float64) {
	y := positives(n, Label{Kind: p.Label.Kind, Middle: before.Label.Middle})
	score := newCard(before).score(n)
	for k := range parts {
		from, to := k*len(y)/parts, (k+1)*len(y)/parts
		each = append(each, aucOf(y[from:to], score[from:to]))
	}
	return aucOf(y, score), each
}
