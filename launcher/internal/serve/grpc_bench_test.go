//go:build unix

package serve_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"coppice/launcher/internal/serve"
)

// BenchmarkClient asks for 50 rows over loopback: processor time of the server and of a client in Go.
func BenchmarkClient(b *testing.B) {
	reg, store := newRegistry()
	register(b, reg, "one", largeFiles(b))
	s := start(b, store, func(c *serve.Config) { c.Poll = time.Hour })
	measure := func(b *testing.B, ask func() error) {
		b.ReportAllocs()
		begun := computed()
		for b.Loop() {
			if err := ask(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((computed()-begun)/float64(b.N), "cpu-ns/op")
	}
	for _, form := range []string{"HTTP/1.1", "h2c"} {
		b.Run("JSON over "+form, func(b *testing.B) {
			t := &http.Transport{Protocols: &http.Protocols{}}
			defer t.CloseIdleConnections()
			t.Protocols.SetHTTP1(form == "HTTP/1.1")
			t.Protocols.SetUnencryptedHTTP2(form == "h2c")
			client, body := &http.Client{Transport: t}, large.request(50)
			measure(b, func() error {
				a, err := client.Post(s.url+"/predict", "application/json", bytes.NewReader(body))
				if err != nil {
					return err
				}
				defer a.Body.Close()
				_, err = io.Copy(io.Discard, a.Body)
				return err
			})
		})
	}
	for _, raw := range []bool{true, false} {
		b.Run(map[bool]string{true: "gRPC raw", false: "gRPC typed"}[raw], func(b *testing.B) {
			c := dialled(b, s)
			body, err := proto.Marshal(asMessage(large.names(), someRows(large, 50, 1), raw))
			if err != nil {
				b.Fatal(err)
			}
			measure(b, func() error {
				var a []byte
				return c.Invoke(b.Context(), callService+"ModelInfer", body, &a, grpc.ForceCodec(rawMessages{}))
			})
		})
	}
}
