package page_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/nights"
	"coppice/internal/page"
	"coppice/internal/sweep"
)

// manyNights is a dataset of n nights as they may look: one blocked, one accepted, one without a sweep, one column that
// drifts.
func manyNights(n int) *page.DatasetPage {
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	s := &page.DatasetPage{Name: "clicks", Metric: "log_loss", More: 12}
	columns := []string{"price", "campaign_id", "site", "hour", "placement", "age"}
	first := time.Date(2026, 10, 23, 2, 10, 0, 0, time.UTC)
	for i := range n {
		k := page.Night{Version: fmt.Sprintf("%016x", 7919*(i+1)), At: first.AddDate(0, 0, i), State: "good",
			Rows:      2e6 + 3e5*math.Sin(float64(i)*2*math.Pi/7) + 5e4*rng.Float64(),
			LabelRate: 0.026 + 0.001*math.Sin(float64(i)/4) + 0.0005*rng.Float64(), Drift: map[string]float64{},
			Sweep: page.IndexSweep{ID: fmt.Sprintf("night-ctr-%08x", i), Verdict: sweep.VerdictPromoted,
				Why: "better on tonight's rows beyond chance", Model: "ctr", Version: i + 1},
			Value: 0.113 + 0.002*rng.Float64(), Ratio: 1 + 0.1*(rng.Float64()-0.5)}
		for j, c := range columns {
			if i > 0 {
				k.Drift[c] = 0.01 + 0.01*rng.Float64() + 0.002*float64(j)
			}
		}
		switch {
		case i == n/2:
			k.State, k.Sweep = "blocked", page.IndexSweep{}
			k.Value, k.Ratio = math.NaN(), math.NaN()
			k.Drift["price"] = 0.62
			k.Findings = []nights.Finding{{Code: nights.CodeScaled, Level: nights.Blocking, Column: "price",
				Text: "the numbers are 100 times what they were: median 299, before 2.99"},
				{Code: nights.CodeDrift, Level: nights.Warning, Column: "age",
					Text: "the values are distributed otherwise: 0.12 from the night before"}}
		case i%5 == 3 && i != n-2:
			k.Sweep.Verdict, k.Sweep.Why = sweep.VerdictNotPromoted, "no better beyond chance"
		case i == n-2:
			k.State, k.Accepted = "accepted", "ana: prices are in USD from today on"
			k.Findings = []nights.Finding{{Code: nights.CodeLabelRate, Level: nights.Blocking,
				Text: "the label's mean is 0.031, between 0.025 and 0.028 before"}}
		}
		s.Nights = append(s.Nights, k)
	}

	gain := 0.012
	s.Table = &dataset.Manifest{Version: s.Nights[n-1].Version, LeftOut: 1200,
		Files: []dataset.FileInfo{{Bytes: 9e7}}, Label: dataset.LabelInfo{Column: "click", Kind: dataset.Binary},
		Weight: "w", Split: dataset.SplitRule{By: "time", Column: "ts"},
		Order: &dataset.Ordering{By: dataset.OrderTime, Column: "ts", Copies: 1},
		Splits: []dataset.Rows{{Name: "train", Rows: 1_400_000, LabelMean: 0.026},
			{Name: "valid", Rows: 300_000, LabelMean: 0.025}, {Name: "test", Rows: 300_000, LabelMean: 0.027}},
		About: dataset.About{Sources: []dataset.Source{{URI: "gs://clicks/2026-11-21.parquet", Bytes: 212 << 20}},
			Warnings: []dataset.Warning{{Column: "referer", Text: "it has 812,000 values"}},
			Encodings: []dataset.EncodingInfo{{Name: "campaign_id × site", Levels: 81_000, Kept: 255, Lumped: 0.2,
				Gain: &gain, Made: []string{"campaign_id×site rate", "campaign_id×site count"}, Why: "found"},
				{Name: "site", Levels: 12}}}}
	for _, c := range columns {
		s.Table.Features = append(s.Table.Features, dataset.Feature{Name: c, Kind: dataset.Numeric, Why: "numbers",
			Bins: 255, Missing: 20_000, Range: &dataset.Range{Min: 0, Median: 3, Max: 90}})
	}
	s.Stats = spread(columns)
	return s
}

// spread are columns of numbers with a tail, of numbers without, and of levels.
func spread(names []string) []nights.Column {
	var out []nights.Column
	for j, name := range names {
		c := nights.Column{Name: name, Kind: nights.Number, Distinct: 5000, Missing: 0.02 * float64(j), AUC: 0.5 +
			0.03*float64(j)}
		if j%3 == 2 {
			c.Kind, c.Distinct, c.Rest, c.RestRate = nights.Text, 40, 0.1, 0.02
			for i := range 20 {
				c.Levels = append(c.Levels, nights.ColumnLevel{Text: fmt.Sprint("level ", i),
					Share: 0.9 / 21 * 2 * float64(20-i) / 20, Rate: 0.01 * math.Exp(float64(i)/7)})
			}
			out = append(out, c)
			continue
		}
		for i := range 21 {
			x := float64(i) * 5
			if j%3 == 0 {
				x = 0.1 * math.Exp(float64(i*i)/50)
			}
			c.Quantiles = append(c.Quantiles, x)
		}
		for i := range 20 {
			c.Shares, c.Rates = append(c.Shares, 0.05), append(c.Rates, 0.026*math.Exp(float64(i-10)/8))
		}
		out = append(out, c)
	}
	return out
}

func TestDatasetPage(t *testing.T) {
	one := manyNights(3)
	one.Nights, one.Stats = one.Nights[:1], nil
	bare := manyNights(2)
	bare.Table = nil
	checkPages(t, map[string]writer{"many": manyNights(30), "one": one, "bare": bare,
		"empty": &page.DatasetPage{Name: "empty"}})
	if text := write(t, manyNights(30)); len(text) > 300_000 {
		t.Errorf("30 nights of 6 columns take %d bytes, expected at most 300,000", len(text))
	}
	hostilePages(t, func() writer { return manyNights(6) })
}
