//go:build browser

package page_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"coppice/internal/page/pagetest"
	"coppice/internal/page/plot"
)

// press presses a key.
func press(p *pagetest.Page, key string) {
	text := ""
	if len(key) == 1 {
		text = key
	}
	p.Call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key, "text": text})
	p.Call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key})
}

// inTheDark has the page believe that its reader wants it dark, or not.
func inTheDark(p *pagetest.Page, on bool) {
	p.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme",
		"value": plot.Either(on, "dark", "light")}}})
}

// printed has the page believe that it is printed, or not.
func printed(p *pagetest.Page, on bool) {
	p.Call("Emulation.setEmulatedMedia", map[string]any{"media": plot.Either(on, "print", "screen")})
}

// axeOf runs axe-core, whose script is in file, and returns what it finds to keep people with disabilities from using
// the page, however minor: in the dialog that is open, or else in the whole page.
func axeOf(t *testing.T, p *pagetest.Page, file string) (findings []string) {
	t.Helper()
	if file == "" {
		t.Fatal("-axe is missing: run make page-check")
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("cannot read the source of axe: %v", err)
	}

	p.Eval("document.documentElement.classList.add('still')", nil) // no transitions, whose colours would be judged
	p.Eval(string(source)+";0", nil)
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	if err := json.Unmarshal([]byte(p.Text(`axe.run(document.querySelector('dialog[open]') || document, `+
		`{resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))`)), &found); err != nil {
		t.Fatalf("axe's findings are not the expected JSON: %v", err)
	}

	for _, f := range found {
		first := f.Nodes[0]
		findings = append(findings, fmt.Sprintf("%s, %s: %s in %d places: %.300s\n%s", f.Impact, f.ID, f.Help,
			len(f.Nodes), first.HTML, first.FailureSummary))
	}
	return findings
}

// testPaint opens pages of 50 and of 5,000 trials, five times each, and fails the test if even the best first paint
// takes over 150 ms of a processor. The time on the clock is only logged, as it depends on what else runs.
func testPaint(t *testing.T, b *pagetest.Browser) {
	t.Helper()
	for _, n := range []int{50, 5000} {
		url, least := file(t, sample(n)), math.Inf(1)
		for range 5 {
			p := b.Open("about:blank", 1280, 900)
			p.Busy() // it counts from here
			p.Go(url)
			p.Until("performance.getEntriesByName('first-contentful-paint').length > 0")
			busy := p.Busy()
			t.Logf("%d trials: first paint after %.0f ms, and %.0f ms of a processor", n,
				p.Number("performance.getEntriesByName('first-contentful-paint')[0].startTime"), busy)
			least = min(least, busy)
		}
		if least > 150 {
			t.Errorf("the first paint of %d trials takes %.0f ms of a processor, expected at most 150 in the best of "+
				"five times", n, least)
		}
	}
}

// testList: of a thousand rows the leaderboard lists fifty, fifty more when it is scrolled to its end, and all at the
// push of a button.
func testList(t *testing.T, p *pagetest.Page) {
	t.Helper()
	const listed = "[...document.querySelectorAll('#board tbody tr')].filter(r => r.offsetHeight).length"
	p.Eval("document.getElementById('clear').click()", nil)
	want(t, "rows listed", p.Number(listed), 50.0)
	want(t, "what is said of it", p.Text("document.getElementById('listed').textContent"),
		"The first 50 of 1000 rows.")
	p.Eval("(() => { const s = document.getElementById('board').parentNode; s.scrollTop = s.scrollHeight; })()", nil)
	p.Until(listed + " === 100")
	p.Eval("document.getElementById('more').click()", nil)
	want(t, "rows listed where all are asked for", p.Number(listed), 1000.0)
	want(t, "whether more are offered", p.Text("String(document.getElementById('more').offsetHeight > 0)"), "false")
}
