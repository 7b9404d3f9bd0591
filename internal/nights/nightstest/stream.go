// Package nightstest generates nights of a click stream: good ones with natural drift, and bad ones of many kinds, to
// test their detection. The same seed and day give the same bytes.
package nightstest

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Table is a night's table as text. In all tables of this package, the first column is the time and the last the label.
type Table struct {
	Names []string
	Rows  [][]string // [rows][columns]
}

// CSV returns the table as a CSV file with a header.
func (t Table) CSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(t.Names) // a buffer accepts everything
	_ = w.WriteAll(t.Rows)
	return b.Bytes()
}

// Spec returns the dataset.yaml of a night whose table is in the file source.
func Spec(source string) []byte {
	return fmt.Appendf(nil,
		"name: clicks\nsource: %s\nlabel: is_click\ncategorical: [campaign_id, advertiser_id, user_id]\n"+
			"split: {by: time, column: ts, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n", source)
}

// columns of the stream.
var columns = []string{"ts", "campaign_id", "advertiser_id", "placement", "device", "country", "user_id", "price",
	"bid_floor", "age", "exchange", "session_s", "campaign_ctr_7d", "user_clicks_7d", "is_click"}

// First is the day of night 0, a Monday.
var First = time.Date(2026, 10, 5, 0, 0, 0, 0, time.UTC)

// Shape is how a stream changes from night to night.
type Shape string

// The shapes of streams.
const (
	Drifting Shape = ""       // rates, prices and volume wander, weekends differ, campaigns begin and end
	Steady   Shape = "steady" // only campaigns begin and end
	// Growing: 4 % more rows each night, for forty nights, each weekday with its own volume, campaigns of a few days,
	// and users whose id is replaced every ten days.
	Growing Shape = "growing"
)

// Stream is an endless stream of clicks.
type Stream struct {
	Seed  uint64
	Rows  int // of a weekday, approximately
	Shape Shape
	// Slow is how many times as long campaigns live, and as seldom they begin; 0 is 1. For windows of 180 days: if
	// train knew no campaign of test, 36 days later, models of two nights would differ by chance alone.
	Slow int
}

// change is how a night differs from the stream's own night of the same day. The zero value is no difference.
type change struct {
	rate, price, volume float64 // added to their logarithms
	campaign            float64 // share of the rows with a new campaign
	without             bool    // the campaign with the most rows has ended
	mobile              float64 // added to the share of mobile devices
}

// rng returns a generator for one purpose.
func (s Stream) rng(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, purpose)) }

// campaign is an advertising campaign.
type campaign struct {
	id, advertiser int
	from, to       int     // days; it runs from the first up to, not on, the last
	weight         float64 // its part of the impressions, relative to the others'
	appeal         float64 // added to the log odds of a click
	price          float64 // median price of an impression
}

// campaigns returns the campaigns that run on a day. One or two begin each day and last for 40 days at most. With Slow,
// they begin as many times less often and last as many times longer. Each has an id of its own that follows from the
// day on which it begins, so that it is the same on all its days.
func (s Stream) campaigns(day int) []campaign {
	var out []campaign
	slow := max(1, s.Slow)
	for born := (day/slow - 40) * slow; born <= day; born += slow {
		rng := s.rng(1000 + uint64(born+1000))
		count, length := 1+rng.IntN(2), 6+rng.IntN(34)
		if s.Shape == Growing {
			count, length = count+2, length/3+2
		}
		for k := range count {
			if k > 0 {
				length = max(3, length-3)
			}
			c := campaign{id: 5000 + 4*(born+1000) + k, from: born, to: born + slow*length,
				weight: math.Exp(0.7 * rng.NormFloat64()), appeal: 0.6 * rng.NormFloat64(),
				price: math.Exp(0.5 + 0.6*rng.NormFloat64())}
			c.advertiser = 100 + c.id%23
			if c.to > day {
				c.weight *= min(1, 0.3+0.25*float64(day-born)) // it grows for three days
				out = append(out, c)
			}
		}
	}
	return out
}

var (
	devices    = []string{"mobile", "desktop", "tablet", "tv"}
	placements = []string{"feed", "sidebar", "banner", "story", "interstitial", "search", "footer", "video"}
	exchanges  = []string{"adx", "open", "xandr", "magnite", "pubmatic", "direct"}
	countries  = []string{"DE", "FR", "GB", "ES", "IT", "NL", "PL", "SE", "AT", "CH", "BE", "DK"}
)

// hourly returns the volume of an hour of the day, relative to other hours: most at 14 o'clock, least at 2.
func hourly(hour int) float64 { return 0.55 + 0.45*math.Sin(float64(hour-8)*math.Pi/12) + 0.12 }

// Night returns the table of a day. Volume, mix of devices, prices and click rate drift, and weekends differ from other
// days.
func (s Stream) Night(day int) Table { return s.night(day, change{}) }

// night returns the table of a day with the differences x. The same stream, day and differences give the same rows.
func (s Stream) night(day int, x change) Table {
	// Rates, prices and volume are random walks over the days before: each day's step is drawn in order, from one seed.
	walk := s.rng(7)
	rate, price, volume := 0.0, 0.0, 0.0
	for range day + 1 {
		rate += 0.035 * walk.NormFloat64()
		price += 0.003 + 0.004*walk.NormFloat64()
		volume += 0.03 * walk.NormFloat64()
	}
	if s.Shape == Steady {
		rate, price, volume = 0, 0, 0
	}

	// The day of the week, and the differences of this night.
	at := First.AddDate(0, 0, day)
	weekend := at.Weekday() == time.Saturday || at.Weekday() == time.Sunday
	rng := s.rng(100_000 + uint64(day))
	if s.Shape == Growing {
		volume += 0.04*float64(min(day, 40)) + []float64{0.1, 0, -0.1, -0.05, 0.15, 0.05, 0.1}[at.Weekday()]
	}
	rows := float64(s.Rows) * math.Exp(volume+x.volume+0.03*rng.NormFloat64())
	mobile := 0.62
	if weekend && s.Shape != Steady {
		rows, mobile, rate = 0.68*rows, 0.71, rate+0.06
	}
	mobile, rate, price = mobile+x.mobile, rate+x.rate, price+x.price

	// The campaigns, perhaps without the biggest, or with one that begins tonight with a large share of the rows.
	running := s.campaigns(day)
	if x.without {
		slices.SortFunc(running, func(a, b campaign) int { return cmp.Compare(b.weight, a.weight) })
		running = running[1:]
	}
	total := 0.0
	for _, c := range running {
		total += c.weight
	}
	if x.campaign > 0 {
		c := running[0]
		c.id, c.appeal, c.weight = 2000+day, 0.5, total*x.campaign/(1-x.campaign)
		running, total = append(running, c), total+c.weight
	}

	// The rows, hour by hour, at equal steps within an hour.
	hours := 0.0
	for h := range 24 {
		hours += hourly(h)
	}
	t := Table{Names: slices.Clone(columns)}
	for h := range 24 {
		n := int(rows * hourly(h) / hours)
		for i := range n {
			ts := at.Add(time.Duration(h)*time.Hour + time.Duration(float64(i)/float64(n)*float64(time.Hour)))
			t.Rows = append(t.Rows, s.row(rng, day, ts, running, total, mobile, rate, price))
		}
	}
	return t
}

// row draws one impression at time ts, as texts in the order of columns. total is the sum of the weights of the running
// campaigns, mobile the share of mobile devices, and rate and price are added to the log odds of a click and to the
// logarithm of the price. The order of draws decides all later rows.
func (s Stream) row(rng *rand.Rand, day int, ts time.Time, running []campaign, total, mobile, rate,
	price float64) []string {
	// Draw a campaign by its weight.
	c := running[0]
	for x, i := rng.Float64()*total, 0; x > 0 && i < len(running); i++ {
		c = running[i]
		x -= c.weight
	}

	// Draw the features. A power above 1 of a uniform number makes the first values the most frequent.
	device := 0
	if rng.Float64() > mobile {
		device = 1 + int(3*math.Pow(rng.Float64(), 2))
	}
	placement := int(8 * math.Pow(rng.Float64(), 1+0.8*float64(device)))
	country := int(12 * math.Pow(rng.Float64(), 1.7))
	user := int(40_000 * math.Pow(rng.Float64(), 2.5))
	paid := c.price * math.Exp(price+0.35*rng.NormFloat64()) * (1 + 0.15*float64(placement%3))
	floor := paid * (0.3 + 0.5*rng.Float64())
	age := user%60 + 18
	exchange := int(6 * math.Pow(rng.Float64(), 1.3))
	session := int(math.Exp(3 + 1.1*rng.NormFloat64()))
	earlier := poisson(rng, 0.15*math.Exp(0.6*float64(user%7)/3))

	// Draw the click: its log odds are a sum of effects of nearly all features.
	z := -3.75 + rate + c.appeal + 0.22*float64(placement%4) - 0.35*float64(device) +
		0.12*float64(country%5) - 0.25*math.Log(paid) +
		0.5*math.Sin(float64(ts.Hour())*math.Pi/12) + 0.6*float64(user%7)/3 - 0.004*float64(age) +
		0.2*float64(exchange%3) - 0.15*math.Log(float64(session+1))
	click := "0"
	if rng.Float64() < 1/(1+math.Exp(-z)) {
		click = "1"
	}

	if s.Shape == Growing { // a tenth of the users get a new id each day
		user += 40_000 * ((day + user%10) / 10)
	}
	ageText := strconv.Itoa(age)
	if rng.Float64() < 0.04 {
		ageText = ""
	}
	return []string{ts.Format("2006-01-02T15:04:05.000Z"), strconv.Itoa(c.id), strconv.Itoa(c.advertiser),
		placements[placement], devices[device], countries[country], "u" + strconv.Itoa(user),
		strconv.FormatFloat(paid, 'f', 4, 64), strconv.FormatFloat(floor, 'f', 4, 64), ageText, exchanges[exchange],
		strconv.Itoa(session), s.rate7d(c, day), strconv.Itoa(earlier), click}
}

// rate7d returns a campaign's click rate over the week before a day, as an aggregate of 3,000 impressions would have
// it. It is drawn from a seed of the campaign and the day, so that all rows of a night have the same number.
func (s Stream) rate7d(c campaign, day int) string {
	rng := s.rng(1_000_000 + uint64(c.id)<<10 + uint64(day))
	p := 1 / (1 + math.Exp(3.4-c.appeal+0.25*math.Log(c.price)))
	return strconv.FormatFloat(max(0, p+math.Sqrt(p*(1-p)/3000)*rng.NormFloat64()), 'f', 5, 64)
}

// poisson draws from the Poisson distribution with that mean, by Knuth's method: it counts uniform numbers until their
// product falls below exp(-mean).
func poisson(rng *rand.Rand, mean float64) int {
	n, left := 0, math.Exp(-mean)
	for p := rng.Float64(); p > left; p *= rng.Float64() {
		n++
	}
	return n
}
