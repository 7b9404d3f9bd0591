//go:build browser

package page_test

import (
	"encoding/json"
	"fmt"
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
