package cli

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"coppice/blob"
)

// scraped runs an aggregator until its page has been read once.
func scraped(t *testing.T, args ...string) (text, log string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	serving := make(chan struct{})
	out := lockedBuffer{wants: "measurements for Prometheus", seen: serving}
	done := make(chan int)
	go func() {
		done <- Run(ctx, world(&out, blob.Memory(), &script{messages: [][]byte{[]byte("x"), []byte("y")}}, args...))
	}()
	<-serving
	var line struct{ Address string }
	for text := range strings.Lines(out.String()) {
		if strings.Contains(text, out.wants) {
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
		}
	}
	for !strings.Contains(text, `outcome="ignored"`) {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, line.Address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r.Status, err)
		}
		text = string(data)
	}
	stop()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d: %s", code, out.String())
	}
	return text, line.Address
}

func TestPrometheusPage(t *testing.T) {
	text, address := scraped(t, "pull", "--metrics", "127.0.0.1:0")
	if !strings.Contains(text, "coppice_aggregator_messages_total{") || !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("%s: %s", address, text)
	}
}

// TestPrometheusPageOfTheSecond: whoever asked for no port gets another one, whoever asked for this one is told.
func TestPrometheusPageOfTheSecond(t *testing.T) {
	if l, err := net.Listen("tcp", newPage().address); err == nil {
		defer l.Close()
	} // else somebody has it already, which is just as good
	if _, address := scraped(t, "pull"); strings.Contains(address, newPage().address) {
		t.Errorf("at %s, which is taken", address)
	}
	var out lockedBuffer
	if code := Run(t.Context(), world(&out, blob.Memory(), &script{}, "pull", "--metrics", newPage().address)); code == 0 || !strings.Contains(out.String(), "--metrics says where") {
		t.Errorf("%d %s", code, out.String())
	}
}
