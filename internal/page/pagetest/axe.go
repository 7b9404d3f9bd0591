package pagetest

import (
	"encoding/json"
	"fmt"
	"os"
)

// Axe has axe-core, which the file holds, look for what keeps people out, however minor: in the dialog that is open, or
// in all of the page.
func (p *Page) Axe(file string) (findings []string) {
	p.b.t.Helper()
	if file == "" {
		p.b.t.Fatal("-axe is missing: run make page-check")
	}
	source, err := os.ReadFile(file)
	if err != nil {
		p.b.t.Fatal(err)
	}

	p.Eval("document.documentElement.classList.add('still')", nil)
	p.Eval(string(source)+";0", nil)
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	if err := json.Unmarshal([]byte(p.Text(`axe.run(document.querySelector('dialog[open]') || document, `+
		`{resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))`)), &found); err != nil {
		p.b.t.Fatal(err)
	}

	for _, f := range found {
		first := f.Nodes[0]
		findings = append(findings, fmt.Sprintf("%s, %s: %s in %d places: %.300s\n%s", f.Impact, f.ID, f.Help,
			len(f.Nodes), first.HTML, first.FailureSummary))
	}
	return findings
}
