package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestAliasesDrawWhatTheyDrew pins the trials and ids of specs from when plans still contained aliases. Specs with
// canonical names keep their ids; under an alias the trials are the same, and the sweep has the id of its canonical
// names.
func TestAliasesDrawWhatTheyDrew(t *testing.T) {
	const drawn = "{num_leaves: {log_int: [15, 255]}}"
	for name, tc := range map[string]struct {
		edits                   []string
		id, fingerprint, trials string
	}{
		"canonical": {[]string{"eta", "learning_rate"}, "night-fa9b4f98", "8aad6214218abc9b",
			"31/0 31/0 238/0 26/0 39/0 59/0 73/0 95/0"},
		"an alias": {nil, "night-fa9b4f98", "8aad6214218abc9b", "31/0 31/0 238/0 26/0 39/0 59/0 73/0 95/0"},
		"drawn": {[]string{drawn, "{max_leaves: {log_int: [15, 255]}, reg_lambda: {choice: [0, 1]}}"}, "", "",
			"31/0 31/0 79/1 110/0 41/0 176/1 98/1 178/0"},
		"a small space": {[]string{"fixed: [{}, {learning_rate: 0.2}]", "fixed: [{}]", drawn,
			"{num_leaf: {int: [15, 18]}, lambda: {choice: [0, 1]}}"},
			"", "", "31/0 18/0 15/0 18/1 16/1 17/0 15/1 16/0"},
	} {
		p := built(t, parse(t, tc.edits...), manifest(all...))

		var trials []string
		for _, trial := range p.Trials {
			trials = append(trials, fmt.Sprintf("%v/%v", trial.Params["num_leaves"], trial.Params["lambda_l2"]))
		}
		if want := strings.Fields(tc.trials); !slices.Equal(trials, want) {
			t.Errorf("%s: trials %v, expected %v", name, trials, want)
		}
		if got := string(p.Sweep); tc.id != "" && (got != tc.id || p.Fingerprint()[:16] != tc.fingerprint) {
			t.Errorf("%s: sweep %s with fingerprint %.16s, expected %s and %s; a new training parameter changes the "+
				"fingerprint, as a plan states all defaults: then write the new one here, but the id must stay",
				name, got, p.Fingerprint(), tc.id, tc.fingerprint)
		}
	}
}
