package sweep_test

import (
	"fmt"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// Labels reach the plan, but do not make it another sweep; what Google Cloud would refuse is refused with its place.
func TestLabels(t *testing.T) {
	const head = "name: a\ndataset: b\nmetric: auc\ntrials: 1\n"
	v := words()
	plain := must.Get(sweep.ParseSpec("s.yaml", []byte(head), v))(t)
	labelled, err := sweep.ParseSpec("s.yaml", []byte(head+"labels: {team: ads, cost-center: 0042}\n"), v)
	if err != nil || fmt.Sprint(labelled.Labels) != "map[cost-center:0042 team:ads]" {
		t.Fatalf("two labels: %v, %v, expected both as written", labelled, err)
	}
	if (&sweep.Plan{Spec: *plain}).Fingerprint() != (&sweep.Plan{Spec: *labelled}).Fingerprint() {
		t.Error("labels make another sweep of a plan")
	}
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprintf("l%d: x", i))
	}
	for labels, want := range map[string]string{
		"{Team: ads}":                             `s.yaml:5:10: label "Team": use up to 63 of a-z`,
		"{team: Ads}":                             `s.yaml:5:16: value "Ads": use 1 to 63 of a-z`,
		"{coppice-sweep: x}":                      "those that begin with coppice or goog are set by the programs",
		"{google: x}":                             "those that begin with coppice or goog",
		"{" + strings.Join(many, ", ") + "}":      "33 labels: use at most 32",
		"{team: " + strings.Repeat("x", 64) + "}": "use 1 to 63",
	} {
		if _, err := sweep.ParseSpec("s.yaml", []byte(head+"labels: "+labels+"\n"), v); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("labels: %.60s: %v, expected %q", labels, err, want)
		}
	}
}
