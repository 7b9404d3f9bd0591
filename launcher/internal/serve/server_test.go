package serve_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/predict"
	"coppice/launcher/internal/serve"
)

// small is the table of a model that is trained within a second.
var small = shape{ids: 3, numbers: 4, rows: 3000, trees: 20, leaves: 15}

// filesOf returns the files of a version trained on the table small, drawn with the seed. Each seed is trained once.
var filesOf = func() func(tb testing.TB, seed uint64) map[string][]byte {
	var mu sync.Mutex
	known := map[uint64]map[string][]byte{}
	return func(tb testing.TB, seed uint64) map[string][]byte {
		mu.Lock()
		defer mu.Unlock()
		if known[seed] == nil {
			known[seed] = small.trained(tb, seed)
		}
		return known[seed]
	}
}()

// served is a server on loopback.
type served struct {
	*serve.Server
	url string
	l   net.Listener
	reg *registry.Registry
	one registry.Version // that of serving
	log *lockedBuffer
	end func() error // tells it to end, and waits
}

// lockedBuffer is a buffer that several goroutines may write to and read.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start serves the model ctr of a store until the test ends, and waits until it is ready. change, unless nil, edits the
// configuration, which polls the alias every millisecond and has no time of grace.
func start(tb testing.TB, store blob.Store, change func(*serve.Config)) *served {
	tb.Helper()
	s := starting(tb, store, change)
	until(tb, "the server is ready", s.Ready)
	return s
}

// serving is start of a registry with one version, of these files.
func serving(tb testing.TB, files map[string][]byte, change func(*serve.Config)) *served {
	tb.Helper()
	reg, store := newRegistry()
	one := register(tb, reg, "one", files)
	s := start(tb, store, change)
	s.one = one
	return s
}

// starting is start without waiting until a version is ready.
func starting(tb testing.TB, store blob.Store, change func(*serve.Config)) *served {
	tb.Helper()
	s := &served{reg: registry.New(store), log: &lockedBuffer{}}
	c := serve.Defaults()
	c.Registry, c.Model, c.Cache, c.Poll = s.reg, "ctr", tb.TempDir(), time.Millisecond
	c.Grace = 0
	c.Log = slog.New(slog.NewTextHandler(s.log, nil))
	if change != nil {
		change(&c)
	}
	s.Server = serve.New(c)
	var config net.ListenConfig
	l := must.Get(config.Listen(tb.Context(), "tcp", "127.0.0.1:0"))(tb)
	s.l, s.url = l, "http://"+l.Addr().String()
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	s.end = sync.OnceValue(func() error { stop(); return <-done })
	tb.Cleanup(func() {
		if err := s.end(); err != nil && !errors.Is(err, net.ErrClosed) {
			tb.Errorf("the server ended with %v, want no error", err)
		}
	})
	return s
}

// until waits for something that happens in another goroutine.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			tb.Fatalf("waited a minute, want that %s", what)
		}
	}
}

// post sends a request with the media type kind and further headers, given as pairs of name and value. It returns the
// answer's status, headers and body.
func post(tb testing.TB, url, kind string, body []byte, headers ...string) (int, http.Header, []byte) {
	tb.Helper()
	q := must.Get(http.NewRequestWithContext(tb.Context(), http.MethodPost, url, bytes.NewReader(body)))(tb)
	q.Header.Set("Content-Type", kind)
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	a, err := http.DefaultClient.Do(q)
	must.Do(tb, err)
	defer a.Body.Close()
	text := must.Get(io.ReadAll(a.Body))(tb)
	return a.StatusCode, a.Header, text
}

// ask sends a request of JSON, or of another kind with answers of JSON, and decodes the answer.
func (s *served) ask(tb testing.TB, kind string, body []byte) (status int, a answer, text []byte) {
	tb.Helper()
	status, _, text = post(tb, s.url+"/predict", kind, body)
	must.Do(tb, json.Unmarshal(text, &a))
	return status, a, text
}

// get answers a GET of a path, whose body is not read.
func (s *served) get(tb testing.TB, path string) int {
	tb.Helper()
	r, err := http.Get(s.url + path)
	must.Do(tb, err)
	r.Body.Close()
	return r.StatusCode
}

// instancesOf returns the rows as a JSON request. An empty cell is null. Two of three cells of numbers are JSON
// numbers, the third is a text; cells of ids (whose names begin with i) are texts.
func instancesOf(names []string, rows [][]string) []byte {
	var out []map[string]any
	for r, row := range rows {
		object := map[string]any{}
		for i, cell := range row {
			var value any = cell
			if x, err := strconv.ParseFloat(cell, 64); err == nil && x == x && (r+i)%3 > 0 &&
				!strings.HasPrefix(names[i], "i") {
				value = x
			}
			if cell == "" {
				value = nil
			}
			object[names[i]] = value
		}
		out = append(out, object)
	}
	text, _ := json.Marshal(map[string]any{"instances": out})
	return text
}

// someRows draws n rows of s. Of 20 cells about one is empty, and one has a value that is unknown or oddly written.
func someRows(s shape, n int, seed uint64) [][]string {
	rng := rand.New(rand.NewPCG(seed, 7))
	var out [][]string
	for range n {
		_, cells := s.row(rng)
		for i := range cells {
			switch rng.IntN(20) {
			case 0:
				cells[i] = ""
			case 1:
				if i < s.ids {
					cells[i] = []string{" id3", "never seen", "ümlaut \"q\", x", "7.0", "NA", "TRUE"}[rng.IntN(6)]
				} else {
					cells[i] = []string{"1e3", " -0.0", "1e300", "-1e-300", "12345678901234567890", "NaN"}[rng.IntN(6)]
				}
			}
		}
		out = append(out, cells)
	}
	return out
}

// predicted returns the predictions of `launcher predict` for the rows, with the version v.
func predicted(tb testing.TB, reg *registry.Registry, v registry.Version, names []string, rows [][]string) []float64 {
	tb.Helper()
	return numbersOf(tb, written(tb, reg, v, names, rows))
}

// written returns the CSV that `launcher predict` writes for the rows, with the version v.
func written(tb testing.TB, reg *registry.Registry, v registry.Version, names []string, rows [][]string) []byte {
	tb.Helper()
	dir := tb.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.csv")
	must.Do(tb, os.WriteFile(in, csvOf(names, rows), 0o600))
	s := must.Get(scorer.OpenMapped(tb.Context(), reg, v, dir))(tb)
	defer s.Close()
	must.Get(predict.Run(tb.Context(), predict.Request{Scorer: s, In: in, Out: out, MaxUnseen: 1}))(tb)
	return must.Get(os.ReadFile(out))(tb)
}

// csvOf returns a table as CSV, with a header.
func csvOf(names []string, rows [][]string) []byte {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write(names)
	_ = w.WriteAll(rows)
	return out.Bytes()
}

// numbersOf reads the numbers of a CSV with one column, below its header.
func numbersOf(tb testing.TB, text []byte) []float64 {
	tb.Helper()
	var out []float64
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		out = append(out, must.Get(strconv.ParseFloat(line, 64))(tb))
	}
	return out
}

// answer is the server's answer to rows of JSON.
type answer struct {
	Predictions []float64
	Model       string
	Version     int
	Error       string
}

// sameBits reports whether two lists have the same numbers, bit by bit.
func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// TestAnswersAreThoseOfPredict: rows sent as JSON, as lines of JSON and as CSV get predictions with the same bits as
// those of `launcher predict`, and the answer names the version. Rows have unknown, missing and oddly written values.
func TestAnswersAreThoseOfPredict(t *testing.T) {
	s := serving(t, filesOf(t, 1), nil)
	reg, v := s.reg, s.one
	names := small.names()
	for _, n := range []int{1, 2, 5, 50, 300} {
		rows := someRows(small, n, uint64(n))
		want := predicted(t, reg, v, names, rows)
		var objects struct{ Instances []json.RawMessage }
		must.Do(t, json.Unmarshal(instancesOf(names, rows), &objects))
		var lines []byte
		for _, object := range objects.Instances {
			lines = append(append(lines, object...), '\n')
		}

		for _, form := range []struct {
			kind string
			body []byte
		}{{"application/json", instancesOf(names, rows)}, {"application/x-ndjson", lines},
			{"text/csv; charset=utf-8", csvOf(names, rows)}} {
			status, header, body := post(t, s.url+"/predict", form.kind, form.body)
			var got answer
			if strings.HasPrefix(form.kind, "text/csv") {
				got.Predictions = numbersOf(t, body)
			} else if err := json.Unmarshal(body, &got); err != nil {
				t.Fatalf("%s: got %s, want JSON: %v", form.kind, body, err)
			}
			if status != http.StatusOK || !sameBits(got.Predictions, want) || header.Get("Coppice-Version") != "ctr@1" {
				t.Errorf("%d rows as %s: got status %d, version %q, %.300s; want the predictions %.10v", n, form.kind,
					status, header.Get("Coppice-Version"), body, want[:min(5, n)])
			}
		}
	}
}

// TestWordsAreThoseOfPredict: a request without a needed column, with a misspelled, nested or repeated key, or with a
// text for a number gets 400, and an error in the words of `launcher predict`. The columns are i0 to i2, of ids, and n0
// to n3, of numbers.
func TestWordsAreThoseOfPredict(t *testing.T) {
	s := serving(t, filesOf(t, 1), nil)
	for body, want := range map[string]string{
		`{"instances":[{}]}`:                        "no row has a key that is needed (the columns are: ",
		`{"instances":[{"other":1,"another":"a"}]}`: `column "other": no such column (the columns are: `,
		`{"instances":[{"n0":1,"N1":1}]}`:           `column "N1": no such column (did you mean "n1"?)`,

		`{"instances":[{"i0":"a","i1":"a","i2":"a","n0":1,"n1":1,"n2":1,"N3":1}]}`: "N3",
		`{"instances":[{"i0":"a","i1":"a","i2":"a","n0":1,"n1":"x","n2":1,"n3":1}]}`: `row 1: column "n1": "x" is ` +
			"not a number",
		`{"instances":[{"i0":"a","i1":"a","i2":"a","n0":1,"n1":[1],"n2":1,"n3":1}]}`:     "is nested (a list)",
		`{"instances":[{"i0":"a","i0":"b","i1":"a","i2":"a","n0":1,"n2":1,"n3":1}]}`:     "this key twice",
		`{"instances":[{"other":"a","i1":"a","other":"a","n0":1,"n1":1,"n2":1,"n3":1}]}`: "this key twice",
	} {
		status, a, text := s.ask(t, "application/json", []byte(body))
		if status != http.StatusBadRequest || !strings.Contains(a.Error, want) {
			t.Errorf("%s: got status %d, %s; want 400 and ... %s ...", body, status, text, want)
		}
	}
}

// TestKeysThatAreLeftOut: a key that all rows of JSON leave out is null in them, for requests as for `launcher
// predict`. If more than half of the columns are left out, the log says so once for the version.
func TestKeysThatAreLeftOut(t *testing.T) {
	s := serving(t, filesOf(t, 1), nil)
	reg, v := s.reg, s.one
	names := small.names()
	want := predicted(t, reg, v, names, [][]string{{"id1", "", "id2", "1", "2", "3", ""}})
	row := `{"i0":"id1","i2":"id2","n0":1,"n1":2,"n2":3}`
	for kind, body := range map[string]string{"application/json": `{"instances":[` + row + `]}`,
		"application/x-ndjson": row} {
		status, got, text := s.ask(t, kind, []byte(body))
		if status != http.StatusOK || !sameBits(got.Predictions, want) {
			t.Errorf("%s: got status %d, %s; expected %v as for nulls", kind, status, text, want)
		}
	}
	if got := s.log.String(); strings.Contains(got, "most columns") {
		t.Errorf("2 columns of 7 are left out and the log is %s; want no word of most", got)
	}

	for range 2 {
		status, got, text := s.ask(t, "application/json", []byte(`{"instances":[{"n0":1,"unneeded":2}]}`))
		want := predicted(t, reg, v, names, [][]string{{"", "", "", "1", "", "", ""}})
		if status != http.StatusOK || !sameBits(got.Predictions, want) {
			t.Errorf("6 of 7 columns left out: got status %d, %s; want %v as for nulls", status, text, want)
		}
	}
	if got := s.log.String(); strings.Count(got, "most columns") != 1 {
		t.Errorf("most columns are left out of 2 requests and the log is %s; want one line that says so", got)
	}
}

// TestDrain: a server that is told to end while a request is arriving is no longer ready, answers that request, and
// ends without an error.
func TestDrain(t *testing.T) {
	s := serving(t, filesOf(t, 1), nil)
	body := instancesOf(small.names(), someRows(small, 50, 1))
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))(t)
	defer c.Close()
	fmt.Fprintf(c, "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "+
		"%d\r\n\r\n%s", len(body), body[:100])
	until(t, "the request has begun", func() bool { return s.Held() > 0 })

	// End the server, and only then send the rest of the request.
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	until(t, "the server is not ready", func() bool { return !s.Ready() })
	_, _ = c.Write(body[100:])
	text, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("got %.200q, %v for a request that had begun; want 200", text, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v, want no error", err)
	}
}

// TestGrace: a server that is told to end says at once that it is not ready, and still answers requests for the time of
// grace (here an hour), each of which closes its connection.
func TestGrace(t *testing.T) {
	s := serving(t, filesOf(t, 1), func(c *serve.Config) { c.Grace = time.Hour })
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	until(t, "the server is not ready", func() bool { return !s.Ready() })
	if got := s.get(t, "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz: got status %d within the time of grace, want 503", got)
	}
	r, err := http.Post(s.url+"/predict", "application/json", bytes.NewReader(instancesOf(small.names(),
		someRows(small, 5, 1))))
	must.Do(t, err)
	r.Body.Close()
	if r.StatusCode != http.StatusOK || !r.Close {
		t.Errorf("got %s, and that the connection closes: %v; want 200 and a connection that ends", r.Status, r.Close)
	}

	// Closing the listener ends the time of grace.
	s.l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the server ended with %v, want that its listener is closed", err)
	}
}

// verified are callers of whom one token is accepted: Bearer good.
type verified struct{}

func (verified) Verify(_ context.Context, authorization string) (string, error) {
	if authorization != "Bearer good" {
		return "", denied{}
	}
	return "caller", nil
}

type denied struct{}

func (denied) Error() string   { return "the caller gave no token that is good" }
func (denied) HTTPStatus() int { return http.StatusUnauthorized }

// TestCallersAreVerified: over HTTP/1.1 and unencrypted HTTP/2, only requests with a good token get predictions and the
// status. Everybody gets /readyz and /healthz.
func TestCallersAreVerified(t *testing.T) {
	s := serving(t, filesOf(t, 1), func(c *serve.Config) { c.Callers = verified{} })
	body := string(instancesOf(small.names(), someRows(small, 1, 1)))
	for _, major := range []int{1, 2} {
		transport := &http.Transport{Protocols: &http.Protocols{}}
		defer transport.CloseIdleConnections()
		transport.Protocols.SetHTTP1(major == 1)
		transport.Protocols.SetUnencryptedHTTP2(major == 2)
		for _, ask := range []struct {
			method, path, token string
			status              int
		}{
			{"POST", "/predict", "Bearer good", 200}, {"POST", "/predict", "Bearer bad", 401},
			{"POST", "/predict", "", 401},
			{"GET", "/status", "", 401}, {"GET", "/status", "Bearer good", 200}, {"GET", "/nothing", "", 401},
			{"GET", "/readyz", "", 200}, {"GET", "/healthz", "", 200},
		} {
			q := must.Get(http.NewRequestWithContext(t.Context(), ask.method, s.url+ask.path,
				strings.NewReader(body)))(t)
			q.Header.Set("Authorization", ask.token)
			a, err := transport.RoundTrip(q)
			must.Do(t, err)
			a.Body.Close()
			if a.StatusCode != ask.status || a.ProtoMajor != major {
				t.Errorf("%s %s with %q: got %s over HTTP/%d, want %d over HTTP/%d", ask.method, ask.path, ask.token,
					a.Status, a.ProtoMajor, ask.status, major)
			}
			if named := a.Header.Get("Coppice-Version"); a.StatusCode != http.StatusOK && named != "" {
				t.Errorf("%s %s: a refusal names %s as if it had answered, want no version named", ask.method, ask.path,
					named)
			}
		}
	}
	until(t, "nothing is held", func() bool { return s.Held() == 0 && s.Open() == 0 })
}

// TestBeforeAVersion: a server whose model has no version is alive and not ready. Callers get 503 and Retry-After.
func TestBeforeAVersion(t *testing.T) {
	_, store := newRegistry()
	s := starting(t, store, nil)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if got := s.get(t, path); got != want {
			t.Errorf("%s: got status %d, want %d", path, got, want)
		}
	}
	status, header, text := post(t, s.url+"/predict", "application/json", []byte(`{"instances":[`+goodRow+`]}`))
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("got status %d, %v, %s; want 503 with Retry-After", status, header, text)
	}
}
