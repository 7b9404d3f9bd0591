package console

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/nights/nightstest"
	"coppice/launcher/internal/stager"
)

// Somebody looks at the list, a dataset and a model all the time: all three buckets together are asked once a second.
func TestStillPagesOneRequestASecond(t *testing.T) {
	file := filepath.Join(t.TempDir(), "night.csv")
	if err := os.WriteFile(file, nightstest.Stream{Seed: 2, Rows: 1000}.Night(0).CSV(), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, err := dataset.ParseSpec("dataset.yaml", append(nightstest.Spec(file), "encodings: none\n"...))
	if err != nil {
		t.Fatal(err)
	}
	bucket, p, _ := night(t, 3)
	conclude(t, bucket, p)
	if _, err := (&stager.Stager{Scratch: t.TempDir()}).Stage(t.Context(), spec,
		stager.Destination{Store: bucket, URL: "gs://d"}); err != nil {
		t.Fatal(err)
	}

	synctest.Test(t, func(t *testing.T) {
		c := New(bucket, bucket, bucket, time.Now, quiet)
		ctx, stop := context.WithCancel(t.Context())
		h := c.Handler([]string{"localhost:1"})
		go c.Run(ctx)
		paths := []string{"/", "/datasets/" + spec.Name}
		for _, path := range paths {
			got := get(h, "localhost:1", path)
			if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), spec.Name) {
				t.Fatalf("%s is %d, %.300s", path, got.Code, got.Body)
			}
		}

		before := bucket.asked.Load()
		const seconds = 300
		for range seconds {
			<-time.After(time.Second)
			for _, path := range paths {
				get(h, "localhost:1", path)
				get(h, "localhost:1", path)
			}
		}
		if asked := bucket.asked.Load() - before; asked > seconds+2 || asked == 0 {
			t.Errorf("%d requests in %d seconds, expected at most one a second", asked, seconds)
		}
		if got := get(h, "localhost:1", "/datasets/nobody"); got.Code != http.StatusNotFound {
			t.Errorf("a dataset that is not there is %d", got.Code)
		}
		stop()
		synctest.Wait()
	})
}
