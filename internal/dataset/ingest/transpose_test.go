package ingest

import (
	"math/rand/v2"
	"testing"
)

func TestTranspose(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for width := 1; width <= 20; width++ {
		for rows := range 35 {
			columns := make([][]uint8, width)
			for j := range columns {
				columns[j] = make([]uint8, 3+rows)
				for i := range columns[j] {
					columns[j][i] = uint8(rng.Uint32())
				}
			}
			out := make([]uint8, width*rows)
			transpose(columns, 3, rows, out)
			for i, got := range out {
				if want := columns[i%width][3+i/width]; got != want {
					t.Fatalf("%d columns, %d rows: row %d of column %d is %d, want %d", width, rows, i/width, i%width,
						got, want)
				}
			}
		}
	}
}
