//go:build unix

package gcsemu

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestFaultsOfOneClient strike only those who call at its address.
func TestFaultsOfOneClient(t *testing.T) {
	names := map[string]string{}
	struck := map[string]int{}
	w := start(t, Options{
		Client: func(at net.Addr) string { return names[at.String()] },
		Struck: func(class string) { struck[class]++ },
		Faults: Faults{
			RefuseWrite: []Refusal{{Match: "refused", Times: 2, Client: "task-1"}},
			LoseAnswer:  []Refusal{{Match: "lost", Times: 1, Client: "launcher"}},
			Read:        []ReadFault{{Match: "read", Does: "refuse", Times: 2, Client: "task"}},
		},
	})
	open := func(client string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		names[l.Addr().String()] = client
		w.server.Open(l)
		return "http://" + l.Addr().String()
	}
	at := map[string]string{"nobody": "http://" + w.server.Addr()}
	for _, client := range []string{"task-1", "task-12", "launcher"} {
		at[client] = open(client)
	}
	w.mustPut("read", "x")

	const read = "GET /bucket/read"
	write := func(name string) string { return "POST /upload/storage/v1/b/bucket/o?uploadType=media&name=" + name }
	for _, c := range []struct {
		client, call string
		want         int
	}{
		{"nobody", write("refused"), 200}, {"task-12", write("refused"), 200}, {"task-1", write("refused"), 503},
		{"task-1", "DELETE /storage/v1/b/bucket/o/refused", 503}, {"task-1", write("refused"), 200},
		{"task-1", write("lost"), 200}, {"launcher", write("lost"), 503}, {"launcher", write("lost"), 200},
		{"nobody", read, 200}, {"launcher", read, 200}, {"task-12", read, 503}, {"task-1", read, 503},
		{"task-1", read, 200},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		r, err := http.NewRequestWithContext(w.ctx, method, at[c.client]+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(res.Body.Close()); err != nil || res.StatusCode != c.want {
			t.Errorf("%s by %s was answered with %d, expected %d", c.call, c.client, res.StatusCode, c.want)
		}
	}
	if struck["one client alone"] != 5 || struck["write refused"] != 2 || struck["answer lost"] != 1 ||
		struck["read: refuse"] != 2 {
		t.Errorf("struck have %v, expected five faults of one client alone", struck)
	}
}
