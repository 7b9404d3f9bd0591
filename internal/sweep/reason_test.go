package sweep_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"coppice/internal/sweep"
)

// TestCutReason: a result whose reason is a trial's error can always be decoded, whatever the error's text.
func TestCutReason(t *testing.T) {
	for name, text := range map[string]string{
		"short": "no luck", "empty": "", "as long as may be": strings.Repeat("x", 4096),
		"long":                    strings.Repeat("x", 5000),
		"long, of two bytes each": strings.Repeat("\u00e4", 3000), "long, of four, off by one": "x" +
			strings.Repeat("\U0001f333", 3000),
		"not UTF-8": strings.Repeat("\xff", 4000), "broken off": "tree \xe2\x82",
	} {
		reason := sweep.CutReason(text)
		if len(text) <= 4096 && utf8.ValidString(text) && reason != text {
			t.Errorf("%s: %q became %q, want no change", name, text, reason)
		}

		data, err := json.Marshal(sweep.Result{Format: 1, Sweep: "s", Status: sweep.StatusFailed, Reason: reason})
		if err != nil {
			t.Fatal(err)
		}
		r, err := sweep.DecodeResult(data)
		if err != nil || r.Reason != reason || !utf8.ValidString(reason) || len(text) > 4096 && len(reason) < 4090 {
			t.Errorf("%s: a reason of %d bytes became one of %d, and the result is read with %v; want it valid, "+
				"whole and as long as may be", name, len(text), len(reason), err)
		}
	}
}
