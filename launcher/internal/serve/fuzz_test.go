package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// forColumns is a model of some columns, which reads and does not predict.
func forColumns(names ...string) *Model {
	m := &Model{columns: names, numbers: make([]bool, len(names)), place: map[string]int{}}
	for i, name := range names {
		m.place[name] = i
	}
	return m
}

const fuzzRows = 5

// checkBatch fails unless the batch has 1 to fuzzRows rows and the model's columns, all of that length and in UTF-8.
func checkBatch(t *testing.T, m *Model, b *table.Batch) {
	t.Helper()
	if b.Rows < 1 || b.Rows > fuzzRows || len(b.Columns) != len(m.columns) {
		t.Fatalf("got %d rows of %d columns, want 1 to %d of %d", b.Rows, len(b.Columns), fuzzRows, len(m.columns))
	}
	for i := range b.Columns {
		v := &b.Columns[i]
		if v.Len() != b.Rows || v.Null != nil && len(v.Null) != b.Rows {
			t.Fatalf("column %d has %d values and %d nulls in %d rows; want one for each row", i, v.Len(), len(v.Null),
				b.Rows)
		}
		for _, text := range v.Text {
			if !utf8.ValidString(text) {
				t.Fatalf("column %d has the text %q, want UTF-8", i, text)
			}
		}
	}
}

// FuzzInstances compares readInstances with encoding/json: a request that is read has the values that encoding/json
// finds. A column that is read as numbers has the numbers that its texts spell, and the same errors.
func FuzzInstances(f *testing.F) {
	for _, text := range []string{`{"instances":[{"a":1,"b":"x"},{"b":null,"c":[1,{"d":2}],"a":-1.5e3}]}`,
		`{"x":{"y":[]},"instances":[{"a":true,"b":"\u00fc\n"}] }`, `{"instances":[{"b":1,"a":2},{"a":3}]}`,
		`{"instances":[{"a":-0.25,"b":01},{"a":123456789012345678,"b":0}]}`,
		`{"instances":[{"a":-0,"b":1},{"a":0.7 },{},{"a":1e9},{"a":1234567890.12345}]}`,
		`{"instances":[{"a":1.0,"b":1.},{"a":-.5}]}`, `{"instances":[{"a":12345678901234567,"b":2,"b":3}]}`,
		`{"instances":[{"a":0.3,"b":2},{"a":"1"},{"a":null}]}`, `{"instances":[{"a":1e700}]}`,
		`{"instances":[{"a":007,"b":""}]}`} {
		f.Add([]byte(text))
	}
	m, numeric := forColumns("a", "b"), forColumns("a", "b")
	numeric.numbers[0] = true
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := readInstances(m, body, fuzzRows)
		n, numericErr := readInstances(numeric, body, fuzzRows)
		if fmt.Sprint(err) != fmt.Sprint(numericErr) {
			t.Fatalf("%q: as numbers %v, want %v as of texts", body, numericErr, err)
		}
		if err != nil {
			return
		}

		// The column a, as numbers and as texts.
		checkBatch(t, m, b)
		checkBatch(t, numeric, n)
		for r, x := range n.Columns[0].Float {
			want, _ := cell.ParseForced(b.Columns[0].Text[r]) // NaN beyond the range, as of a missing one
			if b.Columns[0].IsNull(r) {
				want = math.NaN()
			}
			if math.Float64bits(x) != math.Float64bits(want) && !(math.IsNaN(x) && math.IsNaN(want)) {
				t.Fatalf("%q: row %d: got the number %v, want %q", body, r, x, b.Columns[0].Text[r])
			}
		}

		// All values, as encoding/json has them. Numbers stay as they are written.
		var want struct {
			Instances []map[string]any
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(body, &all); err != nil {
			t.Fatalf("%q was read, and is no JSON, want it refused: %v", body, err)
		}
		d := json.NewDecoder(bytes.NewReader(all["instances"]))
		d.UseNumber()
		if err := d.Decode(&want.Instances); err != nil || len(want.Instances) != b.Rows {
			t.Fatalf("%q: got %d rows, want %d (%v)", body, b.Rows, len(want.Instances), err)
		}
		for r, row := range want.Instances {
			for i, name := range m.columns {
				v := &b.Columns[i]
				value, null := "", false
				switch x := row[name].(type) {
				case nil:
					null = true
				case bool:
					value = strconv.FormatBool(x)
				case json.Number:
					value = x.String()
				case string:
					value = x
				}
				if v.IsNull(r) != null || v.Text[r] != value {
					t.Fatalf("%q: row %d, column %s: got %q, null %v; want %q, null %v", body, r, name, v.Text[r],
						v.IsNull(r), value, null)
				}
			}
		}
	})
}

// FuzzCSV: a body read as CSV and as lines of JSON gives a whole batch, or an error of kind input or one that says that
// it is compressed.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n\"x,\",y\n"))
	f.Add([]byte("b;a\n1;2\n"))
	f.Add([]byte("PAR1"))
	f.Add([]byte(""))
	m := forColumns("a", "b")
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, name := range []string{"request.csv", "request.jsonl"} {
			b, err := readText(t.Context(), m, name, body, fuzzRows)
			var input *table.InputError
			if err == nil {
				checkBatch(t, m, b)
			} else if !errors.As(err, &input) && problem.Of(err) != problem.Input &&
				!strings.Contains(err.Error(), "compressed, Parquet") {
				t.Fatalf("untyped error %T, want one of the input: %v", err, err)
			}
		}
	})
}

// Answered is countAnswered for tests outside of the package, with no time taken.
func (m *Meters) Answered(ctx context.Context, predictions []float64, in *cell.Inputs) {
	m.countAnswered(ctx, predictions, in, 0)
}

// Swapped is countSwap for tests outside of the package.
func (m *Meters) Swapped(ctx context.Context, to *Model) { m.countSwap(ctx, to) }

// Open is the number of requests that wait or are being answered.
func (s *Server) Open() int64 { return s.open.Load() }

// Held is how many bytes of requests are in memory.
func (s *Server) Held() int64 { return s.held.Load() }

// HoldTurns occupies all places in which requests are scored, so that requests wait until release is called.
func (s *Server) HoldTurns() (release func()) {
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	return func() {
		for range cap(s.turns) {
			<-s.turns
		}
	}
}

// TestMarksAndNeighbours: in a column of decimal commas a JSON number and a text have the same value whatever rows
// stand before and after them: in a request and in a file of objects, in the whole column and in parts of it. The rows
// are sent in six orders, each of which begins with another one.
func TestMarksAndNeighbours(t *testing.T) {
	rows := []string{`{"x":1.234}`, `{"x":"2,5"}`, `{"x":"1.234"}`, `{"x":null}`, `{}`, `{"x":-0.5}`}
	want := []float64{1.234, 2.5, 1234, 0, 0, -0.5} // 0 for nulls, which are not compared
	m := forColumns("x")
	m.numbers[0] = true
	for first := range rows {
		order := slices.Concat(rows[first:], rows[:first])
		request := must.Get(readInstances(m, []byte(`{"instances":[`+strings.Join(order, ",")+`]}`), 9))(t)
		objects := must.Get(readText(t.Context(), m, "t.jsonl", []byte(strings.Join(order, "\n")), 9))(t)
		for door, b := range map[string]*table.Batch{"request": request, "objects": objects} {
			v := &b.Columns[0]
			all := []int32{0, 1, 2, 3, 4, 5}
			for part, some := range map[string]dataset.Values{"whole": *v, "picked": v.Pick(all),
				"end": v.Slice(1, 6)} {
				got, wrong := cell.ReadAs(dataset.DecimalComma, &some, cell.NewMarkers(nil))
				if wrong != nil {
					t.Fatalf("%s, %s: %v, want every value read", door, part, wrong)
				}
				for i, x := range got.Float {
					// A part that lacks the first row ends with the same row as the whole.
					w := want[(first+i+len(rows)-len(got.Float))%len(rows)]
					if x != w && w != 0 {
						t.Errorf("%s, %s: row %d of %v is %v, expected %v", door, part, i, fmt.Sprint(order), x, w)
					}
				}
			}
		}
	}
}

// TestNoTurn: a request that cannot be scored within the timeout, since others occupy all places, gets 429. The
// deadline for reading its body passes before that, and is not taken for a caller that has left.
func TestNoTurn(t *testing.T) {
	c := Defaults()
	c.Timeout, c.Log = 200*time.Millisecond, slog.New(slog.DiscardHandler)
	s := New(c)
	s.HoldTurns()
	h := httptest.NewServer(s.Handler())
	defer h.Close()
	r, err := http.Post(h.URL+"/predict", typeJSON, strings.NewReader(`{"instances":[{}]}`))
	must.Do(t, err)
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("got %s, Retry-After %q, %q; want 429 with Retry-After", r.Status, r.Header.Get("Retry-After"), text)
	}
}

// TestFullQueue: while one request waits in a queue for one, another gets 429. Afterwards nothing is open or held.
func TestFullQueue(t *testing.T) {
	c := Defaults()
	c.MaxQueue, c.Timeout, c.Log = 1, time.Minute, slog.New(slog.DiscardHandler)
	s := New(c)
	s.HoldTurns()
	ask := func(ctx context.Context) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/predict",
			strings.NewReader(`{"instances":[{}]}`)))
		return w
	}
	ctx, giveUp := context.WithCancel(t.Context())
	waits := make(chan struct{})
	go func() { defer close(waits); ask(ctx) }()
	for s.open.Load() == 0 {
		runtime.Gosched()
	}
	if w := ask(t.Context()); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q, %s; want 429 with Retry-After", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	giveUp()
	<-waits
	if s.open.Load() != 0 || s.held.Load() != 0 {
		t.Errorf("%d requests are open and %d bytes held after all were answered, want none", s.open.Load(),
			s.held.Load())
	}
}

// TestRoutesOfVertex: Vertex AI's health route may be one that the server has anyway, and says whether the server is
// ready. The route / is refused.
func TestRoutesOfVertex(t *testing.T) {
	for _, route := range []string{"/healthz", "/readyz", "/health"} {
		c := Defaults()
		c.Log = slog.New(slog.DiscardHandler)
		must.Do(t, c.Check(Environment{Health: route, Predict: "/predict"}))
		w := httptest.NewRecorder()
		New(c).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, route, nil))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: got %d of a server without a version, want 503", route, w.Code)
		}
	}
	c := Defaults()
	if err := c.Check(Environment{Health: "/"}); err == nil {
		t.Error("the health route / is accepted, want it refused: it would answer for all others")
	}
}
