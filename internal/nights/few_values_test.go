package nights_test

import (
	"fmt"
	"math"
	"math/rand/v2"
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
	before := honest(t, 9, func(day uint64) string { return sales(day, 2, func(int, *sale) {}) })
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
	} {
		found := compare(t, stageAfter(t, sales(9, c.tilt, c.change), "y", before), before)
		if nights.Blocked(found) != c.blocks {
			t.Errorf("%s: found %v, expected that it blocks: %t", c.name, found, c.blocks)
		}
	}
}
