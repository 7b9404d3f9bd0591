// Command clicks makes the example's table: display-ad impressions of a small network, one row each, with the click as
// label. It is made up, but it behaves like the real thing: few clicks, users who come back, categories with long
// tails, missing fields, interactions between who sees what and where, and a rate that drifts over the days.
//
//	go run ./examples/clicks --rows 200000 --out build/demo/clicks.parquet
package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"coppice/internal/atomicfile"
	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/program"
)

func main() {
	ctx, stop := program.Interrupted()
	code := program.Execute(ctx, program.FromOS("dev"), command())
	stop()
	os.Exit(code)
}

// command returns the command that makes the table; its flags say how large, by which seed and where.
func command() *cobra.Command {
	rows, seed, out := 200_000, uint64(7), "clicks.parquet"
	cmd := &cobra.Command{
		Use: "clicks", Short: "Make the example's click table", Args: cobra.NoArgs,
		Example: "  go run ./examples/clicks --rows 1000000 --out clicks.parquet",
		RunE: func(*cobra.Command, []string) error {
			if rows < 1 {
				return program.Usagef("--rows is %d", rows)
			}
			return writeTable(out, rows, seed)
		},
	}

	cmd.Flags().IntVar(&rows, "rows", rows, "impressions")
	cmd.Flags().Uint64Var(&seed, "seed", seed, "the same seed makes the same table")
	cmd.Flags().StringVar(&out, "out", out, "file to write: .parquet or .csv")
	return cmd
}

// writeTable makes the table of so many rows in batches and writes it to the path; the file appears complete or not at
// all. Missing folders are made. The same seed and rows make the same bytes.
func writeTable(path string, rows int, seed uint64) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := program.CheckOutFile("--out", path); err != nil {
		return err
	}

	file, err := atomicfile.Create(path, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Abort()) }()
	g := newNetwork(seed)
	put, finish, err := writer(file, path, g.columns())
	if err != nil {
		return err
	}

	const batch = 50_000
	for first := 0; first < rows; first += batch {
		if err := put(g.makeBatch(first, min(batch, rows-first), rows)); err != nil {
			return err
		}
	}

	if err := finish(); err != nil {
		return err
	}
	return file.Commit()
}

// writer returns put, which writes a batch to the file in the format that its path's suffix asks for (CSV, else
// Parquet), and finish, which completes it.
func writer(file io.Writer, path string, columns []table.Column) (put func(*table.Batch) error, finish func() error,
	err error) {
	if strings.HasSuffix(path, ".csv") {
		w, err := table.NewCSVWriter(file, columns, ',')
		if err != nil {
			return nil, nil, err
		}
		return w.Write, func() error { return nil }, nil
	}
	w, err := table.NewParquetWriter(file, columns, table.Snappy)
	if err != nil {
		return nil, nil, err
	}
	return w.Write, w.Close, nil
}

// network holds what is the same for all impressions: what users, campaigns and sites are like.
type network struct {
	rng                    *rand.Rand
	users, ads, publishers []float64    // what each adds to the log odds of a click
	taste                  [][4]float64 // by user: how much they like each of four topics
	topic                  [][4]float64 // by campaign: how much it is about each
}

// newNetwork draws a network from the seed: 30,000 users, 120 campaigns and 900 sites. The order of the draws is part
// of the example: another order makes another table.
func newNetwork(seed uint64) *network {
	n := &network{rng: rand.New(rand.NewPCG(seed, 2026))}
	normal := func(count int, sd float64) []float64 {
		out := make([]float64, count)
		for i := range out {
			out[i] = sd * n.rng.NormFloat64()
		}
		return out
	}

	vectors := func(count int, sd float64) [][4]float64 {
		out := make([][4]float64, count)
		for i := range out {
			copy(out[i][:], normal(4, sd))
		}
		return out
	}

	n.users, n.ads, n.publishers = normal(30_000, 0.6), normal(120, 0.5), normal(900, 0.5)
	n.taste, n.topic = vectors(len(n.users), 0.5), vectors(len(n.ads), 0.8)
	return n
}

var (
	devices   = []string{"android", "ios", "desktop", "tablet", "tv"}
	formats   = []string{"banner", "native", "video", "interstitial"}
	exchanges = []string{"adx", "openx", "rubicon", "index", "pubmatic", "direct"}
	countries = []string{"US", "DE", "FR", "BR", "IN", "JP", "GB", "MX", "IT", "ES", "PL", "NL"}
)

// columns returns the table's columns, in the order of names.
func (n *network) columns() []table.Column {
	var out []table.Column
	for i, name := range names {
		out = append(out, table.Column{Name: name, Type: types[i], Unit: units[name]})
	}
	return out
}

// The columns' names, their types in the same order, and the units of times.
var (
	names = []string{"impression_id", "ts", "user_id", "campaign_id", "publisher_id", "device", "ad_format", "exchange",
		"country", "hour",
		"position", "viewability", "bid_floor", "session_depth", "seconds_since_seen", "user_clicks_30d",
		"user_views_30d", "campaign_age_days", "page_load_ms", "topic_match", "is_click"}
	types = []dataset.Type{dataset.Text, dataset.Time, dataset.Text, dataset.Int, dataset.Int, dataset.Text,
		dataset.Text, dataset.Text, dataset.Text, dataset.Int,
		dataset.Int, dataset.Float, dataset.Float, dataset.Int, dataset.Float, dataset.Int, dataset.Int, dataset.Int,
		dataset.Float, dataset.Float, dataset.Int}
	units = map[string]dataset.Unit{"ts": dataset.Micro}
)

// makeBatch makes the rows first to first+rows-1 of a table of total rows, which are in the order of time. It continues
// the network's random numbers, so batches have to be made in order.
func (n *network) makeBatch(first, rows, total int) *table.Batch {
	b := &table.Batch{Names: names, Rows: rows, First: int64(first)}
	for i, t := range types {
		v := dataset.Values{Type: t, Unit: units[names[i]], Null: make([]bool, rows)}
		switch t {
		case dataset.Text:
			v.Text = make([]string, rows)
		case dataset.Float:
			v.Float = make([]float64, rows)
		default:
			v.Int = make([]int64, rows)
		}
		b.Columns = append(b.Columns, v)
	}

	for r := range rows {
		n.makeRow(b, r, float64(first+r)/float64(total))
	}

	return b
}

// zipf draws a number from 0 to count-1: count times a uniform number to the power of skew, rounded down. With a skew
// of 1 all are as frequent; the larger it is, the more frequent are the small ones.
func (n *network) zipf(count int, skew float64) int {
	return int(float64(count) * math.Pow(n.rng.Float64(), skew))
}

// setNumber sets row r of a column of numbers, or leaves it out if it is missing.
func setNumber(c *dataset.Values, r int, v float64, missing bool) {
	c.Null[r] = missing
	if missing {
		v = math.NaN()
	}
	if c.Type == dataset.Float {
		c.Float[r] = v
	} else if !missing {
		c.Int[r] = int64(v)
	}
}

// makeRow draws one impression into row r of the batch. day is how much of the observed fortnight has passed, from 0 to
// 1. The order of the draws is part of the example.
func (n *network) makeRow(b *table.Batch, r int, day float64) {
	rng := n.rng
	col := func(name string) *dataset.Values { return b.Column(name) }

	// number and word set a column's value, or leave it out with the probability missing.
	number := func(name string, v, missing float64) { setNumber(col(name), r, v, rng.Float64() < missing) }
	word := func(name, v string, missing float64) {
		if c := col(name); rng.Float64() < missing {
			c.Null[r] = true
		} else {
			c.Text[r] = v
		}
	}

	// Who sees what, where and when. The hour is that of the fortnight, give or take two hours (a normal distribution).
	user, ad, site := n.zipf(len(n.users), 1.3), n.zipf(len(n.ads), 1.6), n.zipf(len(n.publishers), 2)
	hour := int(24*math.Mod(14*day, 1)+24+2*rng.NormFloat64()) % 24
	device, format, country := n.zipf(len(devices), 1.7), n.zipf(len(formats), 1.4), n.zipf(len(countries), 1.8)
	position, depth := n.zipf(8, 1.2), 1+n.zipf(30, 3)
	viewability, floor := math.Sqrt(rng.Float64()), math.Exp(0.6*rng.NormFloat64()-1)
	views, age, load := n.zipf(400, 2.5), n.zipf(90, 1.3), 200*math.Exp(0.7*rng.NormFloat64())
	clicks := 0
	for range min(views, 60) {
		if rng.Float64() < 0.05*math.Exp(1.5*n.users[user]) {
			clicks++
		}
	}

	// The log odds of a click. The base of -3.6 makes clicks few. User, campaign and site add their own, and so do
	// taste, viewability, position, the hour (best at one in the night), load time, session depth and the floor price.
	// Two combinations of device and format have an effect, campaigns drift over the days, and old ones fade.
	match := 0.0
	for k := range 4 {
		match += n.taste[user][k] * n.topic[ad][k]
	}
	z := -3.6 + 0.5*n.users[user] + n.ads[ad] + n.publishers[site] + 1.1*match +
		1.2*(viewability-0.6) - 0.15*float64(position)
	z += 0.35*math.Sin(float64(hour-19)*math.Pi/12) - 0.3*math.Log(load/200) -
		0.06*float64(depth)*math.Exp(-float64(views)/80) + 0.2*math.Log1p(floor)
	if devices[device] == "android" && formats[format] == "interstitial" {
		z += 0.8
	}
	if devices[device] == "desktop" && formats[format] == "video" {
		z -= 0.7
	}
	z += 0.3*math.Sin(9*day)*n.ads[ad] - 0.01*float64(age)

	// The columns.
	word("impression_id", fmt.Sprintf("%016x", rng.Uint64()), 0)
	col("ts").Int[r] = 1_762_300_800_000_000 + int64(day*14*86400e6) // 2025-11-05 00:00 UTC and a fortnight on
	word("user_id", fmt.Sprintf("u%05d", user), 0)
	number("campaign_id", float64(40_000+37*ad), 0)
	number("publisher_id", float64(100_000+11*site), 0)
	word("device", devices[device], 0)
	word("ad_format", formats[format], 0.02)
	word("exchange", exchanges[n.zipf(len(exchanges), 1.5)], 0)
	word("country", countries[country], 0.03)
	number("hour", float64(hour), 0)
	number("position", float64(position), 0)
	number("viewability", math.Round(viewability*1000)/1000, 0.25)
	number("bid_floor", math.Round(floor*1e4)/1e4, 0)
	number("session_depth", float64(depth), 0)
	number("seconds_since_seen", math.Round(math.Exp(6+2*rng.NormFloat64())), 0.3)
	number("user_clicks_30d", float64(clicks), 0)
	number("user_views_30d", float64(views), 0)
	number("campaign_age_days", float64(age), 0)
	number("page_load_ms", math.Round(load), 0.1)
	number("topic_match", math.Round((match+0.3*rng.NormFloat64())*1000)/1000, 0.4)
	click := 0.0
	if rng.Float64() < 1/(1+math.Exp(-z)) {
		click = 1
	}
	number("is_click", click, 0)
}
