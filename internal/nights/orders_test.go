package nights_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/nights"
)

// order is a row of a shop's orders.
type order struct {
	article, shop, channel int
	price, balance         float64
	returned               bool
}

// orders returns a shop's 6,000 orders of a day, after change has changed them. All 300 articles sell equally often;
// each has a price and a rate of returns of its own, the same on all days. Prices rise by .2 % a day. At weekends the
// second channel has more orders, at 6 % lower prices.
func orders(day uint64, change func(random *rand.Rand, all []order)) []order {
	fixed := rand.New(rand.NewPCG(1, 1))
	base, appeal := make([]float64, 5000), make([]float64, 5000)
	for i := range base {
		base[i], appeal[i] = 3+0.6*fixed.NormFloat64(), 0.5*fixed.NormFloat64()
	}
	random := rand.New(rand.NewPCG(day, 2))
	weekend := day%7 > 4
	all := make([]order, 6000)
	for i := range all {
		o := &all[i]
		o.article, o.shop, o.channel = random.IntN(300), random.IntN(20), int(4*math.Pow(random.Float64(), 1.4))
		if weekend && random.IntN(12) == 0 {
			o.channel = 1
		}
		o.price = math.Exp(base[o.article] + 0.08*random.NormFloat64() + 0.002*float64(day))
		if weekend && o.channel == 1 {
			o.price *= 0.94
		}
		o.balance = 100 * random.NormFloat64()
		o.returned = random.Float64() < 1/(1+math.Exp(1.5-appeal[o.article]))
	}
	change(random, all)
	return all
}

// ordersNight stages orders with running numbers that begin with first. channels are the channels' names, and article
// returns that of an article.
func ordersNight(t *testing.T, first int, all []order, channels []string, article func(int) string) night {
	t.Helper()
	var b strings.Builder
	b.WriteString("returned,number,article,shop,channel,price,balance\n")
	for i, o := range all {
		y := 0
		if o.returned {
			y = 1
		}
		fmt.Fprintf(&b, "%d,%d,%s,s%d,%s,%.2f,%.2f\n", y, first+i, article(o.article), o.shop, channels[o.channel],
			o.price, o.balance)
	}
	return nightOf(t, stageCSV(t, b.String(), "label: returned\nencodings: none\nsplit: {by: random, train: 0.5, "+
		"valid: 0.5}\n"))
}

// TestOrdersThatWentLive: nights of a shop are blocked with the right finding if the prices of one channel, the ids
// of articles, a few numbers or the name of a channel are wrong. Sales, higher prices, new articles or a new channel
// do not block, and neither do the running numbers of orders. It holds for articles named by texts and by numbers.
func TestOrdersThatWentLive(t *testing.T) {
	channels := []string{"web", "app", "store", "phone"}
	named := func(i int) string { return fmt.Sprint("A", 5000+i) }
	numbered := func(i int) string { return fmt.Sprint(5000 + i) }
	nothing := func(*rand.Rand, []order) {}
	// scale changes the prices of the orders that which chooses.
	scale := func(factor float64, which func(order) bool) func(*rand.Rand, []order) {
		return func(_ *rand.Rand, all []order) {
			for i := range all {
				if which(all[i]) {
					all[i].price *= factor
				}
			}
		}
	}
	// some changes a random share of the orders.
	some := func(share float64, change func(random *rand.Rand, o *order)) func(*rand.Rand, []order) {
		return func(random *rand.Rand, all []order) {
			for i := range all {
				if random.Float64() < share {
					change(random, &all[i])
				}
			}
		}
	}
	type kind struct {
		name     string
		change   func(*rand.Rand, []order)
		channels []string
		want     string // code and column; empty for a good night
	}
	kinds := []kind{
		{"prices of web 19 % higher", scale(1.19, func(o order) bool { return o.channel == 0 }), channels,
			"scaled price"},
		{"prices of a store 19 % higher", scale(1.19, func(o order) bool { return o.channel == 2 }), channels,
			"scaled price"},
		{"articles numbered anew", func(random *rand.Rand, all []order) {
			other := random.Perm(300)
			for i := range all {
				all[i].article = other[all[i].article]
			}
		}, channels, "scrambled article"},
		{"2 % of the balances -1", some(0.02, func(_ *rand.Rand, o *order) { o.balance = -1 }), channels,
			"level balance"},
		{"another name of a channel", nothing, []string{"web", "app", "store", "call"}, "unseen channel"},
		{"all 3 % dearer", scale(1.03, func(order) bool { return true }), channels, ""},
		{"a sale of a channel", scale(0.85, func(o order) bool { return o.channel == 0 }), channels, ""},
		{"a sale of a quarter of the articles", scale(0.8, func(o order) bool { return o.article%4 == 0 }),
			channels, ""},
		{"15 % new articles", some(0.15, func(r *rand.Rand, o *order) { o.article = 300 + r.IntN(60) }),
			channels, ""},
		{"15 % new articles of another range", some(0.15, func(r *rand.Rand, o *order) {
			o.article = 4000 + r.IntN(60)
		}), channels, ""},
		{"2 % in a new channel", some(0.02, func(_ *rand.Rand, o *order) { o.channel = 4 }),
			append(slices.Clone(channels), "market"), ""},
	}
	for _, article := range []func(int) string{named, numbered} {
		// Nine good nights, whose running numbers go from 70,000 to 123,999. Those of later nights begin with 130,000.
		before := honest(t, "articles like "+article(0), 9, 1, func(day uint64, _ []*nights.Profile) night {
			return ordersNight(t, 70_000+6000*int(day), orders(day, nothing), channels, article)
		})

		// One of twenty shops has another name. From the third night on it is known that shops do not come and go.
		moved := ordersNight(t, 130_000, orders(9, func(_ *rand.Rand, all []order) {
			for i := range all {
				if all[i].shop == 7 {
					all[i].shop = 21
				}
			}
		}), channels, article)
		for n := 1; n <= 4; n++ {
			if found := compare(t, moved, before[len(before)-n:]); nights.Blocked(found) != (n > 2) {
				t.Errorf("articles like %s, another name of a shop after %d nights: found %v, expected it held back "+
					"from the third on", article(0), n, found)
			}
		}
		for i, k := range kinds {
			got := ""
			found := compare(t, ordersNight(t, 130_000, orders(uint64(9+i), k.change), k.channels, article), before)
			if nights.Blocked(found) {
				got = fmt.Sprint(found[0].Code, " ", found[0].Column)
			}
			if got != k.want {
				t.Errorf("articles like %s, %s: held back for %q, expected %q: %v", article(0), k.name, got, k.want,
					found)
			}
		}
	}
}

// TestAmountsThatAllDiffer: whole amounts in millionths differ in nearly all rows, as running numbers do. Running
// numbers move on each night, which is no fault. Amounts do not: if all are multiplied by a factor one night, it is
// blocked.
func TestAmountsThatAllDiffer(t *testing.T) {
	// amounts stages a night with running numbers and two columns of amounts, times factor.
	amounts := func(day uint64, factor float64) night {
		random := rand.New(rand.NewPCG(day, 5))
		var b strings.Builder
		b.WriteString("y,weight,number,skewed,even\n")
		for i := range 4000 {
			fmt.Fprintf(&b, "%d,%.3f,%d,%.0f,%.0f\n", random.IntN(2), random.NormFloat64(), 4000*int(day)+i,
				factor*1e6*math.Exp(3+random.NormFloat64()), factor*1e6*(50+50*random.Float64()))
		}
		return plainNight(t, b.String())
	}
	before := honest(t, "amounts", 9, 1, func(day uint64, _ []*nights.Profile) night { return amounts(day, 1) })
	for _, factor := range []float64{1.2, 1.3} {
		var blocking []string
		for _, f := range compare(t, amounts(9, factor), before) {
			if f.Level == nights.Blocking {
				blocking = append(blocking, fmt.Sprint(f.Code, " ", f.Column))
			}
		}
		if want := []string{"scaled even", "scaled skewed"}; !slices.Equal(blocking, want) {
			t.Errorf("times %v: held back for %q, expected %q", factor, blocking, want)
		}
	}
}

// TestWarned: Record.Warned returns the first warning that is not about a leak, with its column, if it has one. It
// returns none for a first night and for one that a person has accepted.
func TestWarned(t *testing.T) {
	leak := nights.Finding{Code: nights.CodeLeak, Level: nights.Warning, Column: "bid", Text: "ranks the label"}
	note := nights.Finding{Code: nights.CodeColumnNew, Level: nights.Note, Column: "os", Text: "is new"}
	rows := nights.Finding{Code: nights.CodeRows, Level: nights.Warning, Text: "40,000 rows"}
	drift := nights.Finding{Code: nights.CodeDrift, Level: nights.Warning, Column: "age", Text: "12 % have moved"}
	for name, tc := range map[string]struct {
		change func(*nights.Record)
		want   string
	}{
		"two warnings":        {func(*nights.Record) {}, "40,000 rows"},
		"one of a column":     {func(r *nights.Record) { r.Findings = r.Findings[3:] }, "age: 12 % have moved"},
		"a leak and a note":   {func(r *nights.Record) { r.Findings = r.Findings[:2] }, ""},
		"a first night":       {func(r *nights.Record) { r.Against = nil }, ""},
		"accepted by someone": {func(r *nights.Record) { r.Accepted = &nights.Acceptance{By: "a", Why: "b"} }, ""},
	} {
		r := &nights.Record{Against: []string{"1"}, Findings: []nights.Finding{leak, note, rows, drift}}
		tc.change(r)
		must.Equal(t, r.Warned(), tc.want, "%s", name)
	}
}

// TestContentsOfOtherColumns: on some nights a column, such as a temperature that rises all day, is left out of the
// rows' contents. How many contents usually recur is then learnt only from nights that left out the same columns.
// Here the third and the fourth night leave one out. An eighth of the fourth night's contents are the third's, and
// that does not block, because no earlier pair of nights says how many is usual.
func TestContentsOfOtherColumns(t *testing.T) {
	var before []*nights.Profile
	nothing := func(*rand.Rand, []order) {}
	for day := range uint64(4) {
		n := ordersNight(t, 6000*int(day), orders(day, nothing), []string{"web", "app", "store", "phone"}, strconv.Itoa)
		if day > 1 {
			n.profile.Outside = []string{"temperature"}
		}
		if day == 3 {
			// Replace every eighth hash, of eight bytes each, by last night's.
			last := before[2].Bare
			var bare []string
			for i := 0; i < len(last); i += 8 {
				from := n.profile.Bare
				if i%64 == 0 {
					from = last
				}
				bare = append(bare, string(from[i:i+8]))
			}
			slices.Sort(bare)
			n.profile.Bare = []byte(strings.Join(bare, ""))
			if found := compare(t, n, before); nights.Blocked(found) {
				t.Errorf("found %v, expected nothing that blocks", found)
			}
		}
		before = append(before, n.profile)
	}
}
