//go:build browser

package page_test

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/page"
	"coppice/internal/page/pagetest"
	"coppice/internal/sweep"
)

var pictures = flag.String("pictures", "", "folder for the pictures of docs/page.md")

// running is a sweep in which a fifth of the trials have ended.
func running() *page.Sweep {
	s := sample(50)
	s.ID, s.State, s.Winner = "night-ctr-11", "running", nil
	s.Planned, s.AsOf = s.Planned.AddDate(0, 0, 2), s.Planned.AddDate(0, 0, 2).Add(10*time.Minute)
	s.Left = sweep.Range{Low: 1788, Expected: 2040, High: 2292}
	s.Money.Total, s.Money.HoursTaken, s.Money.Hourly = 3.2/6, 1.0/6, 3.2
	for i := range s.Trials {
		if t := &s.Trials[i]; i > 10 {
			*t = page.TrialRow{Number: i, State: page.StateWaiting, Reason: "not started", Values: t.Values,
				Score: math.NaN(), Seconds: math.NaN(), Cost: math.NaN()}
			if i < 15 {
				t.State, t.Reason = page.StateRunning, "task 1 on vm-0, 40 trees"
			}
		}
	}
	return s
}

// paused is a running sweep of which some trials wait behind others.
func paused() *page.Sweep {
	s := running()
	for i := 15; i < 22; i++ {
		s.Trials[i].State, s.Trials[i].Reason = page.StatePaused, "paused at 40 trees, behind others; it may resume"
	}
	return s
}

// held is a sweep whose winner was not promoted.
func held() *page.Sweep {
	s := sample(50)
	s.ID, s.Planned = "night-ctr-10", s.Planned.AddDate(0, 0, 1)
	s.AsOf, s.Winner.At, s.Winner.Version = s.Planned.Add(time.Hour), s.Planned.Add(time.Hour), 10
	g := s.Winner.Gate
	g.Champion = 9
	g.Promoted, g.Passed, g.New, g.Reason = false, false, 0.1171, "worse than version 9 on 20,000 sampled test rows: "+
		"log_loss 0.1171 against 0.114, gain -0.0031 (-0.005 to -0.0012)"
	g.Checks[0].Passed, g.Checks[0].Reason, s.Winner.Test["log_loss"] = false, g.Reason, g.New
	g.Checks[0].Value, g.Checks[0].Low, g.Checks[0].High, g.Checks[0].New = -0.0031, -0.005, -0.0012, g.New
	return s
}

// blocked is a dataset whose newest night was blocked.
func blocked() *page.DatasetPage {
	d := manyNights(30)
	d.Nights = d.Nights[:1+slices.IndexFunc(d.Nights, func(n page.Night) bool { return n.State == "blocked" })]
	d.Table.Version = d.Nights[len(d.Nights)-1].Version
	return d
}

const mostPicture = 80_000 // bytes

// TestPictures: the pictures of docs/page.md can be made, and each takes at most 80 kB. make pictures runs it with
// -pictures, which keeps them.
func TestPictures(t *testing.T) {
	before := page.Commands
	defer func() { page.Commands = before }()
	page.Commands = strings.NewReplacer("launcher ", "coppice ") // as the wheel calls it
	folder := *pictures
	if folder == "" {
		folder = t.TempDir() // they can be made
	}
	b := pagetest.Start(t)
	b.Now = time.Date(2026, 11, 22, 3, 12, 0, 0, time.UTC)
	for _, tc := range []struct {
		name          string
		view          writer
		width, height int
		dark          bool
		at            string // the element at the top; empty for the page's
		before        string // is done first
	}{
		{"home", tonight(), 1200, 800, false, "", ""},
		{"home-quiet-dark", &page.Index{Models: tonight().Models[1:]}, 1200, 420, true, "", ""},
		{"home-phone", tonight(), 390, 800, false, "", ""},
		{"sweep", sample(50), 1200, 800, false, "", ""},
		{"sweep-running", running(), 1200, 700, false, "", ""},
		{"sweep-held-dark", held(), 1200, 640, true, "", ""},
		{"sweep-none", allAre(page.StateFailed), 1200, 560, false, "", ""},
		{"sweep-trial", sample(50), 1280, 800, false, "", `location.hash = 'trial=14&open=1'`},
		{"sweep-thousand", sample(1000), 1200, 620, false, "board-h", ""},
		{"sweep-phone", sample(50), 390, 800, false, "", ""},
		{"sweep-leaderboard-dark", sample(50), 1200, 620, true, "board-h",
			`document.querySelector('[data-state="stopped"]').click(); document.querySelectorAll('#board ` +
				`tbody tr:not(.off)')[2].click()`},
		{"sweep-range", sample(50), 1000, 620, false, "filter",
			`location.hash = 'range=score:0.11:&range=trees:40:90'`},
		{"sweep-curves-dark", sample(50), 1200, 600, true, "curves", ""},
		{"night", manyNights(30), 1200, 760, false, "", ""},
		{"night-phone", manyNights(30), 390, 800, false, "", ""},
		{"dataset-dark", manyNights(30), 1200, 700, true, "drift-h", ""},
		{"dataset-blocked", blocked(), 1200, 560, false, "", ""},
		{"model", versions(10), 1200, 760, false, "", ""},
		{"home-empty", &page.Index{}, 1200, 420, false, "", ""},
		{"sweep-paused", paused(), 1200, 560, false, "board-h", ""},
		{"sweep-long-names", longNames(), 1200, 760, false, "", ""},
		{"sweep-long-names-phone", longNames(), 390, 800, false, "", ""},
		{"sweep-print", sample(50), 900, 1200, false, "", ""},
		{"model-phone", versions(10), 390, 800, false, "", ""},
		{"model-nights-dark", versions(10), 1200, 620, true, "nights-h", ""},
		{"model-shap-dark", versions(10), 1200, 620, true, "features-h", ""},
	} {
		path := filepath.Join(t.TempDir(), "page.html")
		if err := os.WriteFile(path, []byte(write(t, tc.view)), 0o600); err != nil {
			t.Fatalf("cannot write the page: %v", err)
		}
		p := b.Open("file://"+path, tc.width, tc.height)
		inTheDark(p, tc.dark)
		if tc.before != "" {
			p.Eval(tc.before, nil)
		}
		if tc.at != "" {
			scrollTo(p, tc.at)
		}
		p.Until(settled)
		if strings.HasSuffix(tc.name, "-print") {
			printed(p, true)
		}

		out := filepath.Join(folder, "page-"+tc.name+".png")
		p.Shot(out)
		if size := shrink(t, out); size > mostPicture {
			t.Errorf("%s has %d bytes, expected at most %d", out, size, mostPicture)
		}
	}
}

// shrink rewrites a PNG file with at most 256 colours, those of most of its pixels, and returns its size in bytes then.
func shrink(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("cannot read the picture: %v", err)
	}
	from, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("the picture is not a PNG: %v", err)
	}

	counts := map[color.RGBA]int{}
	bounds := from.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			r, g, b, _ := from.At(x, y).RGBA()
			counts[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G),
			cmp.Compare(a.B, b.B))
	})

	// A colour near another one of the palette is left out: of the many shades at the edges of letters a few are
	// enough, and rare colours find a place.
	palette := color.Palette{color.RGBA{255, 255, 255, 255}}
	for _, c := range colours {
		near := func(p color.Color) bool {
			q := p.(color.RGBA)
			// Of 765 (3 x 255), the distance from black to white.
			return abs(int(c.R)-int(q.R))+abs(int(c.G)-int(q.G))+abs(int(c.B)-int(q.B)) < 28
		}
		if len(palette) < 256 && !slices.ContainsFunc(palette, near) {
			palette = append(palette, c)
		}
	}

	to := image.NewPaletted(bounds, palette)
	draw.Draw(to, bounds, from, bounds.Min, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatalf("cannot encode the picture: %v", err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatalf("cannot write the picture: %v", err)
	}
	return out.Len()
}

func abs(v int) int { return max(v, -v) }
