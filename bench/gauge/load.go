package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"coppice/internal/program"
)

// loadOptions say which requests are sent, and how many a second.
type loadOptions struct {
	url, body, kind string
	rate            float64
	lasts           time.Duration
	connections     int
}

// loaded is what came of it. Latencies count from the time at which a request was due, whether or not a connection was
// free then (coordinated omission), and include reading the answer.
type loaded struct {
	Rate     float64            `json:"rate"`     // requests a second, as asked
	Achieved float64            `json:"achieved"` // answers a second
	Requests int                `json:"requests"` // all that were due
	Failed   int                `json:"failed"`   // not 200
	Millis   map[string]float64 `json:"latency_ms"`
	Late     float64            `json:"late_share"` // of the requests: begun a millisecond too late
}

func loadCommand(out io.Writer) *cobra.Command {
	o := loadOptions{kind: "application/json", rate: 2000, lasts: 20 * time.Second, connections: 64}
	cmd := &cobra.Command{
		Use: "load --url URL --body FILE", Short: "Send requests at a fixed rate, and say how long the answers took",
		Args: cobra.NoArgs,
		Long: `An open loop: request i is due i/rate seconds after the start, whatever the ones before are doing. Its
latency counts from then on, so that a server that stalls is charged for all who would have come meanwhile.`,
		Example: "  gauge load --url http://127.0.0.1:8766/predict --body rows.json --rate 2000 --lasts 20s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := o.run(cmd.Context())
			if err != nil {
				return err
			}
			return json.NewEncoder(out).Encode(l)
		},
	}
	cmd.Flags().StringVar(&o.url, "url", "", "where requests are sent (required)")
	cmd.Flags().StringVar(&o.body, "body", "", "file with the body of every request (required)")
	cmd.Flags().StringVar(&o.kind, "type", o.kind, "media type of the body")
	cmd.Flags().Float64Var(&o.rate, "rate", o.rate, "requests a second")
	cmd.Flags().DurationVar(&o.lasts, "lasts", o.lasts, "how long requests are sent")
	cmd.Flags().IntVar(&o.connections, "connections", o.connections, "most requests at once")
	_ = cmd.MarkFlagRequired("url")
	_ = cmd.MarkFlagRequired("body")
	return cmd
}

func (o *loadOptions) run(ctx context.Context) (*loaded, error) {
	if !(o.rate > 0 && o.rate <= 1e6) || o.lasts <= 0 || o.lasts > time.Hour || o.connections < 1 ||
		o.connections > 1e4 {
		return nil, program.Usagef("--rate is above 0 and at most 1,000,000, --lasts at most an hour, " +
			"--connections 1 to 10,000")
	}
	body, err := os.ReadFile(o.body)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: o.connections, MaxIdleConnsPerHost: o.connections},
		Timeout: 30 * time.Second}
	due := int(o.rate * o.lasts.Seconds())
	took := make([]time.Duration, due)
	var next, failed, late atomic.Int64
	start := time.Now()
	var callers sync.WaitGroup
	for range o.connections {
		callers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= due || ctx.Err() != nil {
					return
				}
				at := start.Add(time.Duration(float64(i) / o.rate * float64(time.Second)))
				time.Sleep(time.Until(at))
				if time.Since(at) > time.Millisecond {
					late.Add(1)
				}
				if !o.send(ctx, client, body) {
					failed.Add(1)
				}
				took[i] = time.Since(at)
			}
		})
	}
	callers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	lasted := time.Since(start).Seconds()
	slices.SortFunc(took, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	l := &loaded{Rate: o.rate, Requests: due, Failed: int(failed.Load()), Achieved: float64(due) / lasted,
		Late: float64(late.Load()) / float64(max(due, 1)), Millis: map[string]float64{}}
	for _, q := range []float64{50, 90, 99, 99.9, 100} {
		l.Millis[fmt.Sprintf("p%v", q)] = float64(took[int(q/100*float64(due-1))].Microseconds()) / 1000
	}
	return l, nil
}

// send sends a request and reports whether it was answered well.
func (o *loadOptions) send(ctx context.Context, client *http.Client, body []byte) bool {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
	if err != nil {
		return false
	}
	q.Header.Set("Content-Type", o.kind)
	a, err := client.Do(q)
	if err != nil {
		return false
	}
	defer a.Body.Close()
	_, err = io.Copy(io.Discard, a.Body)
	return err == nil && a.StatusCode == http.StatusOK
}
