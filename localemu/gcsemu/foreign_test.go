//go:build unix

package gcsemu

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The requests here are those of third-party clients, verbatim; e2e/clients has the clients themselves.

// TestBoundaryInSingleQuotes is an upload as gcloud sends it: the quotes appear only in the header.
func TestBoundaryInSingleQuotes(t *testing.T) {
	everywhere(t, func(w *world) {
		const boundary = "===============7330845974216740156=="
		body := fmt.Sprintf("--%[1]s\nContent-Type: application/json\n\n{\"name\": "+
			"\"quoted\"}\n--%[1]s\nContent-Type: text/plain\n\nhello\n--%[1]s--", boundary)
		body = strings.ReplaceAll(body, "\n", "\r\n")
		header := http.Header{"Content-Type": {"multipart/related; boundary='" + boundary + "'"}}
		if status, answer := w.do(http.MethodPost, "/upload/storage/v1/b/bucket/o?uploadType=multipart", header,
			body); status != http.StatusOK {
			w.Fatalf("the upload was answered with %d, expected 200: %s", status, answer)
		}
		if got, err := w.read(w.b.Object("quoted")); err != nil || got != "hello" {
			w.Errorf("read %q, %v; expected hello", got, err)
		}
	})
}

// TestComposeHoldsItsSources: the generation of each may be given in two ways, and each has to exist.
func TestComposeHoldsItsSources(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.mustPut("a", "one "), w.mustPut("b", "two")
		for name, c := range map[string]struct {
			sources string
			want    int
		}{
			"both as they are": {fmt.Sprintf(`{"name": "a", "objectPreconditions": {"ifGenerationMatch": %d}}, {"name": "b", "generation": "%d"}`, a, b), 200},
			"written as text": {fmt.Sprintf(`{"name": "a", "objectPreconditions": {"ifGenerationMatch": "%d"}}`,
				a), 200},
			"another generation":    {fmt.Sprintf(`{"name": "a"}, {"name": "b", "objectPreconditions": {"ifGenerationMatch": %d}}`, b+1), 412},
			"a generation is gone":  {fmt.Sprintf(`{"name": "a", "generation": "%d"}`, a-1), 404},
			"a source is not there": {`{"name": "a"}, {"name": "absent"}`, 404},
		} {
			target := "/storage/v1/b/bucket/o/" + strings.ReplaceAll(name, " ", "-") + "/compose"
			if status, answer := w.do(http.MethodPost, target, nil, `{"sourceObjects": [`+c.sources+
				`]}`); status != c.want {
				w.Errorf("%s: composing was answered with %d, expected %d: %s", name, status, c.want, answer)
			}
		}
		if got, err := w.read(w.b.Object("both-as-they-are")); err != nil || got != "one two" {
			w.Errorf("read %q, %v; expected \"one two\"", got, err)
		}
	})
}
