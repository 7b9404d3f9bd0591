package dataset_test

import (
	"strings"
	"testing"

	"coppice/internal/dataset"
)

// TestPlaces: what is neither a file nor in a bucket says how to get there.
func TestPlaces(t *testing.T) {
	for place, want := range map[string]string{"a.csv": "", "gs://b/a.csv": "",
		"bigquery://p/ads.clicks": "--destination_format PARQUET p:ads.clicks 'gs://",
		"bq://p/ads/clicks":       "p:ads.clicks", "bigquery://clicks": "PROJECT:DATASET.TABLE",
		"s3://b/a.csv": "from gs://; copy it"} {
		err := dataset.CheckPlace(place)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", place, err, want)
		}
	}
	_, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: bq://p/d/t\nlabel: y\n"))
	if err == nil || !strings.Contains(err.Error(), "d.yaml:2:9: bq://p/d/t: export the table") {
		t.Errorf("a spec of such a table: %v", err)
	}
}
