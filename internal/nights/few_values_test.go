package nights_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/nights"
)

// sale is a row of TestNumbersOfFewValues.
type sale struct{ quantity, price, paid float64 }

// TestNumbersOfFewValues: 1 to 4 pieces are sold, equally often but for 1 row in 50, so that the median is 2 in
// three of four shops; two fifths of the rows have the same price. A night whose medians are 3, as that row says 3
// and not 2, has no factor, and the frequent price may rise by 8 % like any other. Quantities in pairs, a frequent
// price four times as high and prices of 0 are held back.
func TestNumbersOfFewValues(t *testing.T) {
	sales := func(day uint64, tilt float64, change func(i int, s *sale)) string {
		random := rand.New(rand.NewPCG(day, 11))
		var b strings.Builder
		b.WriteString("y,quantity,price,paid,shop\n")
		for i := range 2400 {
			s := sale{quantity: float64(1 + i%4), price: 19}
			if i%50 == 0 {
				s.quantity = tilt
			}
			if random.IntN(5) > 1 {
				s.price = float64(5 + 3*random.IntN(25))
			}
			s.paid = s.price + 0.99
			shop := i / 4 % 3
			if i%4%3 == 0 && i/4%5 == 0 { // of the fourth shop, with 1 or 4 pieces, so that quantity is tied to shop
				shop = 3
			}
			change(i, &s)
			y := 0
			if random.Float64() < 1/(1+math.Exp(2-0.3*s.quantity)) {
				y = 1
			}
			fmt.Fprintf(&b, "%d,%g,%g,%.2f,s%d\n", y, s.quantity, s.price, s.paid, shop)
		}
		return b.String()
	}
	before := honest(t, "sales", 9, 1, func(day uint64, before []*nights.Profile) night {
		return stageAfter(t, sales(day, 2, func(int, *sale) {}), "y", before)
	})
	for _, c := range []struct {
		name   string
		tilt   float64
		change func(i int, s *sale)
		blocks bool
	}{
		{"another median", 3, func(int, *sale) {}, false},
		{"8 % more for the frequent price", 2, func(_ int, s *sale) {
			if s.price == 19 {
				s.price, s.paid = 20.5, 21.49
			}
		}, false},
		{"quantities in pairs", 2, func(_ int, s *sale) { s.quantity *= 2 }, true},
		{"the frequent price four times as high", 2, func(_ int, s *sale) {
			if s.price == 19 {
				s.paid = 77.49
			}
		}, true},
		{"5 % of the rows at 0", 2, func(i int, s *sale) {
			if i%20 == 7 {
				s.paid = 0
			}
		}, true},
		{"5 % of the rows at 0, and three at a new price", 2, func(i int, s *sale) {
			switch {
			case i%20 == 7:
				s.paid = 0
			case i%800 == 5:
				s.paid = 99.99
			}
		}, true},
		{"the first rows without a piece", 2, func(i int, s *sale) {
			if i%40 == 7 {
				s.quantity = 0
			}
		}, false},
	} {
		found := compare(t, stageAfter(t, sales(9, c.tilt, c.change), "y", before), before)
		if nights.Blocked(found) != c.blocks {
			t.Errorf("%s: found %v, expected that it blocks: %t", c.name, found, c.blocks)
		}
	}
}

// TestLevelsBeyondThoseKept: a profile keeps the 100 most frequent levels of a column. Of 400 articles that are equally
// frequent, others are kept each night, and nothing may be found, as none of them is new. If half of the articles are
// written differently, the night is blocked.
func TestLevelsBeyondThoseKept(t *testing.T) {
	for kind, spell := range map[string]func(article int) string{
		"numbers": func(article int) string { return fmt.Sprint(5000 + article) },
		"texts":   func(article int) string { return fmt.Sprintf("Item %d", article) },
	} {
		table := func(seed uint64, spell func(int) string) night {
			var b strings.Builder
			b.WriteString("y,x,article\n")
			random := rand.New(rand.NewPCG(seed, 7))
			for range 9000 {
				fmt.Fprintf(&b, "%d,%.4f,%s\n", random.IntN(2), random.Float64(), spell(random.IntN(400)))
			}
			return plainNight(t, b.String())
		}

		var before []*nights.Profile
		for seed := range uint64(4) {
			tonight := table(seed, spell)
			if found := compare(t, tonight, before); len(found) > 0 {
				t.Errorf("%s, night %d: found %v, expected nothing", kind, seed, found)
			}
			before = append(before, tonight.profile)
		}

		renamed := table(9, func(article int) string {
			if article%2 == 0 {
				return spell(article + 1000)
			}
			return spell(article)
		})
		for _, earlier := range [][]*nights.Profile{before[:1], before} {
			if found := compare(t, renamed, earlier); !nights.Blocked(found) {
				t.Errorf("%s, half of the articles renamed after %d nights: found %v, expected a blocking finding",
					kind, len(earlier), found)
			}
		}
	}
}

// TestRowsInWords: where earlier nights all had the same number of rows, the warning about fewer rows names that number
// once, and writes thousands with commas.
func TestRowsInWords(t *testing.T) {
	table := func(rows int) night {
		var b strings.Builder
		b.WriteString("y,x\n")
		for i := range rows {
			fmt.Fprintf(&b, "%d,%d\n", i%7/4, i)
		}
		return plainNight(t, b.String())
	}
	before := table(4000).profile
	found := compare(t, table(2000), []*nights.Profile{before, before})
	const want = "warning: 2,000 rows; earlier nights had 4,000 (rows)"
	if !slices.ContainsFunc(found, func(f nights.Finding) bool { return f.String() == want }) {
		t.Errorf("found %v, expected %s", found, want)
	}
}
