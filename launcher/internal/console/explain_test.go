package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/registry"
	"coppice/launcher/internal/explain"
	"coppice/launcher/internal/explain/explaintest"
)

// explaining is a console with a version that can explain rows.
func explaining(t *testing.T) *Console {
	t.Helper()
	models := blob.Memory()
	explaintest.Clicks(t, registry.New(models))
	return New(blob.Memory(), blob.Memory(), models, time.Now, quiet)
}

// TestExplainsAPastedRow: by a version's number, from this page alone, and what is wrong with a row is said.
func TestExplainsAPastedRow(t *testing.T) {
	h := explaining(t).Handler([]string{"localhost:1"})
	for _, tc := range []struct {
		path, row, from string
		status          int
		said            string
	}{
		{"/models/ctr/1/explain", "ad price,site\n9,a", "same-origin", http.StatusOK, `"name":"ad price"`},
		{"/models/ctr/1/explain", `{"ad price": 9, "site": "a"}`, "same-origin", http.StatusOK, `"value":"9"`},
		{"/models/ctr/1/explain", "site\na", "same-origin", http.StatusBadRequest, "ad price"},
		{"/models/ctr/1/explain", "ad price,site\n9,a", "cross-site", http.StatusForbidden, "another page"},
		{"/models/ctr/champion/explain", "ad price,site\n9,a", "same-origin", http.StatusNotFound, "number"},
		{"/models/ctr/2/explain", "ad price,site\n9,a", "same-origin", http.StatusNotFound, "2"},
		{"/models/../1/explain", "x", "same-origin", http.StatusTemporaryRedirect, ""},
		{"/models/ctr/1/explain", strings.Repeat("x", 2*mostRow), "same-origin",
			http.StatusRequestEntityTooLarge, "large"},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:1"+tc.path, strings.NewReader(tc.row))
		r.Header.Set("Sec-Fetch-Site", tc.from)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.said) {
			t.Errorf("%s from %s: got %d, %.300s; want %d and %q", tc.path, tc.from, w.Code, w.Body, tc.status, tc.said)
		}
		var got explain.Row
		if err := json.Unmarshal(w.Body.Bytes(), &got); tc.status == http.StatusOK && (err != nil ||
			len(got.Features) == 0 || got.Features[0].Shap <= 0) {
			t.Errorf("%s: got %+v, %v; want features that add something", tc.row, got, err)
		}
	}
}
