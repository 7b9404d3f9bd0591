package serve_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/scorer"
	"coppice/launcher/internal/serve"
)

// hostile is a request as it is sent, and the statuses of which its answer has to have one.
type hostile struct {
	name   string
	raw    string
	status []int
}

// request is the text of a POST with a body of the media type kind, and further header lines.
func request(path, kind, body string, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s", path, kind,
		len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

const goodRow = `{"i0":"a","i1":"a","i2":"a","n0":1,"n1":1,"n2":1,"n3":1}`

// hostileRequests returns more than two hundred requests that have to be refused, for a server whose bodies may have
// maxBytes and 100 rows.
func hostileRequests(maxBytes int) []hostile {
	var out []hostile

	// bad adds a request that is to get one of the statuses, 400 if none is given; body adds one with a body of JSON.
	bad := func(name, raw string, status ...int) {
		if len(status) == 0 {
			status = []int{http.StatusBadRequest}
		}
		out = append(out, hostile{name, raw, status})
	}
	body := func(text string, status ...int) {
		bad(fmt.Sprintf("JSON %.60q", text), request("/predict", "application/json", text), status...)
	}

	// Texts that are no JSON, or JSON of another form.
	for _, text := range []string{"", " ", "null", "true", "1", `"a"`, "[]", "{}", "{", "}", "[", "]", "{]",
		`{"instances"`, `{"instances":`, `{"instances":}`, `{"instances":null}`, `{"instances":{}}`, `{"instances":1}`,
		`{"instances":"a"}`,
		`{"instances":[]}`, `{"instances":[}`, `{"instances":[1]}`, `{"instances":[null]}`, `{"instances":["a"]}`,
		`{"instances":[[]]}`, `{"instances":[[1,2]]}`, `{"instances":[{}]}`, `{"instances":[{},{}]}`,
		`{"instances":[{],}`,
		`{"instances":[{"i0"}]}`, `{"instances":[{"i0":}]}`, `{"instances":[{"i0":1,}]}`, `{"instances":[{,"i0":1}]}`,
		`{"instances":[{i0:1}]}`, `{"instances":[{'i0':1}]}`, `{"instances":[` + goodRow + `,]}`,
		`{"instances":[` + goodRow + `]`, `{"instances":[` + goodRow + `]}}`, `{"instances":[` + goodRow + `]} x`,
		`{"instances":[` + goodRow + `]}{"instances":[]}`,
		`{"instances":[` + goodRow + `],"instances":[` + goodRow + `]}`,
		`{"Instances":[` + goodRow + `]}`, `{"instances ":[` + goodRow + `]}`, `{"rows":[` + goodRow + `]}`,
		"\xef\xbb\xbf" + `{"instances":[` + goodRow + `]}`, "\xff\xfe{\x00}\x00",
		`{"instances":[` + goodRow + `]}` + "\x00 and more", "\x00" + `{"instances":[` + goodRow + `]}`,
		`{"instances":[` + goodRow + ` ` + goodRow + `]}`,
		`//c` + "\n" + `{"instances":[` + goodRow + `]}`, `{"instances":[` + goodRow + `]/**/}`} {
		body(text)
	}

	// A value that no column can have, and texts that are damaged.
	for _, value := range []string{"NaN", "Infinity", "-Infinity", "nan", "+1", "01", "1.", ".5", "1e", "1e+", "0x10",
		"1_000", "--1", "- 1", "tru", "True", "nul", "NULL", "undefined", "'a'", `"a`, `"\x"`, `"\u12"`, `"\ud800"`,
		`"\udc00x"`, `"\u0000"`, "\"\x00\"", "\"\n\"", "\"\t\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
		`{"a":1}`, `[1]`, `[]`, `{}`, `"x"`, `"1,5"`, `"12 34"`, `"0x1F"`, "1 2", "", "true false", `"1""2"`} {
		row := strings.Replace(goodRow, `"n1":1`, `"n1":`+value, 1)
		body(`{"instances":[` + row + `]}`)
		body(`{"instances":[` + goodRow + `,` + row + `]}`)
	}

	// Keys.
	for _, key := range []string{`"n1":1,"n1":1`, `"n1":1,"n1":2`, `"n\u0031":1,"n1":2`, `"x":1,"x":2`, `"N1":1`,
		`"n1 ":1`, `" n1":1`, `"":1,"":2`, `"n1\u0000":1`, `"__proto__":1,"__proto__":1`, `"n1.":1`} {
		body(`{"instances":[` + strings.Replace(goodRow, `"n1":1`, key, 1) + `]}`)
	}

	// Depth and size.
	for _, depth := range []int{33, 1000, 20_000} {
		body(`{"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `,"instances":[` + goodRow + `]}`)
		body(`{"instances":[` + strings.Replace(goodRow, "}", `,"x":`+strings.Repeat(`{"a":`, depth)+"1"+
			strings.Repeat("}", depth)+"}", 1) + `]}`)
		body(strings.Repeat("[", depth))
	}
	body(`{"instances":[`+strings.Repeat(goodRow+",", 120)+goodRow+`]}`, http.StatusBadRequest)
	body(`{"instances":[{"x":"`+strings.Repeat("a", maxBytes)+`"}]}`, http.StatusRequestEntityTooLarge)
	body(`{"instances":[` + strings.TrimSuffix(strings.Repeat(`{},`, 5000), ",") + `]}`)
	var wide strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&wide, `"x%d":1,`, i)
	}
	body(`{"instances":[{` + wide.String() + goodRow[1:] + `]}`)

	// Media types and encodings.
	good := `{"instances":[` + goodRow + `]}`
	for _, kind := range []string{"text/plain", "application/xml", "multipart/form-data",
		"application/x-www-form-urlencoded", "application/octet-stream", "application/json; charset", "text", "*/*",
		"application/grpc", "application/vnd.apache.arrow.stream"} {
		bad("media type "+kind, request("/predict", kind, good), http.StatusUnsupportedMediaType)
	}
	for _, encoding := range []string{"gzip", "deflate", "br", "zstd", "gzip, gzip", "x"} {
		bad("encoding "+encoding, request("/predict", "application/json", good, "Content-Encoding: "+encoding),
			http.StatusUnsupportedMediaType)
	}

	// CSV and lines.
	header := "i0,i1,i2,n0,n1,n2,n3\n"
	for _, text := range []string{"", "\n", header, header + "\n\n", header + "a,a,a,1,x,1,1\n", header +
		"a,a,a,1,1,1\n", header + "a,a,a,1,1,1,1,1\n", header + "a,\"a,a,1,1,1,1\n", header + "a,a\"a,a,1,1,1,1\n",
		"i0,i0\n1,1\n", "a,b\n1,2\n", header + strings.Repeat("a,a,a,1,1,1,1\n", 101), "\x1f\x8b\x08",
		"\x28\xb5\x2f\xfd", "PAR1", "ARROW1\x00\x00", header + "\xff,a,a,1,1,1,1\n", "\xff\xfei\x000\x00", header +
			"a\x00,a,a,1,1,1,1\n"} {
		bad(fmt.Sprintf("CSV %.60q", text), request("/predict", "text/csv", text))
	}
	for _, text := range []string{"", "{}", "[" + goodRow + "]", goodRow + goodRow, goodRow + "\n{", "{\"other\":1}\n",
		strings.Replace(goodRow, "1", "x", 1), strings.Repeat(goodRow+"\n", 101)} {
		bad(fmt.Sprintf("lines %.60q", text), request("/predict", "application/x-ndjson", text))
	}

	bad("an unknown path", request("/predictt", "application/json", "{}"), http.StatusNotFound)
	bad("a path out", request("/..%2f..%2fetc/predict", "application/json", "{}"), http.StatusNotFound)

	// HTTP itself: other methods, paths, and two readings of where a request ends.
	for _, raw := range []string{"GET /predict HTTP/1.1\r\nHost: x\r\n\r\n",
		"PUT /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"DELETE /status HTTP/1.1\r\nHost: x\r\n\r\n", "POST /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: " +
			"0\r\n\r\n", "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v2/models/ctr HTTP/1.1\r\nHost: x\r\n\r\n"} {
		bad(fmt.Sprintf("%.40q", raw), raw, http.StatusMethodNotAllowed, http.StatusNotFound,
			http.StatusMovedPermanently, http.StatusTemporaryRedirect)
	}
	chunked := "POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
	for _, raw := range []string{"x\r\n\r\n", "POST /predict\r\n\r\n", "POST /predict HTTP/1.1\r\n\r\n",
		"POST /predict HTTP/9.9\r\nHost: x\r\n\r\n", "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
		"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n",
		"POST /predict HTTP/1.1\r\nHost: x\r\nContent Length: 3\r\n\r\nabc",
		"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n",
		"POST /predict HTTP/1.1\r\nHost : x\r\n\r\n",
		"POST /predict HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", chunked + "\r\nzz\r\n{}\r\n0\r\n\r\n",
		chunked + "\r\n-1\r\n{}\r\n0\r\n\r\n", chunked + "\r\n2\r\n{}x0\r\n\r\n",
		chunked + "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"POST /predict HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 40<<10) + "\r\n\r\n"} {
		bad(fmt.Sprintf("HTTP %.70q", raw), raw, 400, 411, 414, 431, 501, 505)
	}
	bad("chunks without end", chunked+"\r\n"+strings.Repeat("1000\r\n"+strings.Repeat("a", 4096)+"\r\n",
		maxBytes/4096+8), http.StatusRequestEntityTooLarge)
	bad("a length beyond the limit", fmt.Sprintf("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
		1<<40), http.StatusRequestEntityTooLarge)
	bad("a body that never comes", "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{",
		http.StatusRequestTimeout)
	return out
}

// TestHostileRequests: each hostile request is refused with a fitting status and a reason. Afterwards no request is
// open, no memory is held, and a good request is answered.
func TestHostileRequests(t *testing.T) {
	const maxBytes = 256 << 10
	s := serving(t, filesOf(t, 1), func(c *serve.Config) {
		c.MaxBytes, c.MaxRows, c.Timeout = maxBytes, 100, 2*time.Second
	})
	all := hostileRequests(maxBytes)
	if len(all) < 200 {
		t.Errorf("%d hostile requests, want at least 200", len(all))
	}
	for _, h := range all {
		c := must.Get(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))(t)
		begun := time.Now()
		go func() { _, _ = io.WriteString(c, h.raw) }() // the server may not read all of it
		_ = c.SetReadDeadline(begun.Add(30 * time.Second))
		r, err := http.ReadResponse(bufio.NewReader(c), nil) //nolint:bodyclose // the connection is closed
		if err != nil {
			t.Errorf("%s: got no answer (%v), want one of %v", h.name, err, h.status)
			c.Close()
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(r.Body, 4096))
		c.Close()
		if !slices.Contains(h.status, r.StatusCode) || len(bytes.TrimSpace(text)) == 0 && r.StatusCode < 404 {
			t.Errorf("%s: got status %d and %.200q, want one of %v and why", h.name, r.StatusCode, text, h.status)
		}
		if r.Header.Get("Coppice-Version") != "" {
			t.Errorf("%s: a refusal names a version as if it had answered, want none named", h.name)
		}
	}
	until(t, "no request is open", func() bool { return s.Open() == 0 && s.Held() == 0 })
	if status, _, text := post(t, s.url+"/predict", "application/json",
		[]byte(`{"instances":[`+goodRow+`]}`)); status != 200 {
		t.Errorf("after all of them a good request got status %d, %s; want 200", status, text)
	}
}

// slow opens a connection, announces a request and sends the beginning of it.
func slow(tb testing.TB, s *served) net.Conn {
	tb.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))(tb)
	tb.Cleanup(func() { c.Close() })
	fmt.Fprint(c, "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{")
	return c
}

// TestSlowSenders: requests that are still arriving take no place in the queue. But they hold memory: these, which
// announce 100,000 bytes, 64 KiB and a byte each to begin with. All together may hold as much as a full queue of the
// largest requests, here 2 of 160 KiB, which is five times 64 KiB. So four slow senders and a small request (16 KiB)
// fit, and a fifth slow one is refused.
func TestSlowSenders(t *testing.T) {
	s := serving(t, filesOf(t, 1), func(c *serve.Config) {
		c.MaxQueue, c.MaxBytes, c.Timeout = 2, 160<<10,
			time.Minute
	})
	body := []byte(`{"instances":[` + goodRow + `]}`)
	var all []net.Conn
	for n := range int64(4) {
		all = append(all, slow(t, s))
		until(t, "the request is being read", func() bool { return s.Held() >= (n+1)*(64<<10) })
	}
	if status, _, text := post(t, s.url+"/predict", "application/json", body); status != http.StatusOK {
		t.Errorf("with four slow senders and a queue of two a request got status %d, %s; want 200", status, text)
	}
	r, err := http.ReadResponse(bufio.NewReader(slow(t, s)), nil)
	must.Do(t, err)
	defer r.Body.Close()
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("a fifth one got %s, Retry-After %q; want 429 with Retry-After", r.Status, r.Header.Get("Retry-After"))
	}
	for _, c := range all {
		c.Close()
	}
	until(t, "nothing is held", func() bool { return s.Held() == 0 && s.Open() == 0 })
}

// TestNullsThatWereNotSent: rows without keys take three bytes each, and a cell in memory for each of the model's
// columns. So a request within the limits of bytes and rows is refused if its cells would exceed the limit of bytes:
// 501 rows have some 1,600 of 2,000 bytes, but at least 3,507 cells, as the model has seven columns.
func TestNullsThatWereNotSent(t *testing.T) {
	s := serving(t, filesOf(t, 1), func(c *serve.Config) { c.MaxBytes = 2000 })
	body := []byte(`{"instances":[` + goodRow + strings.Repeat(",{}", 500) + `]}`)
	status, _, text := post(t, s.url+"/predict", "application/json", body)
	if status != http.StatusBadRequest || !strings.Contains(string(text), "more than") {
		t.Errorf("%d bytes got status %d, %.200s; want 400, too many rows", len(body), status, text)
	}
}

// kinds is a model of three classes, one of which has a name to be quoted in CSV and in JSON.
var kinds = shape{ids: 2, numbers: 3, rows: 2000, trees: 8, leaves: 7,
	classes: []string{"early", `late, "ü" <b>`, "never"}}

// TestAnswersOfClassesAreThoseOfPredict: with a model of three classes, rows of CSV get the bytes that `launcher
// predict` writes. Rows of JSON get objects with the same columns and values.
func TestAnswersOfClassesAreThoseOfPredict(t *testing.T) {
	files := kinds.trained(t, 1)
	if !bytes.Contains(files[scorer.FileFeatures], []byte(`"class":3`)) {
		t.Fatalf("want a model with ids' rates of class 3: %.2000s", files[scorer.FileFeatures])
	}
	s := serving(t, files, nil)
	names := kinds.names()
	for _, n := range []int{1, 70, 300} {
		rows := someRows(kinds, n, uint64(n))
		text := written(t, s.reg, s.one, names, rows)
		want, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || len(want) != n+1 || len(want[0]) != 1+len(kinds.classes) {
			t.Fatalf("launcher predict wrote %.200s (%v); want %d rows of a class and its %d probabilities", text, err,
				n, len(kinds.classes))
		}

		status, _, got := post(t, s.url+"/predict", "text/csv", csvOf(names, rows))
		if status != http.StatusOK || !bytes.Equal(got, text) {
			t.Errorf("%d rows of CSV: got status %d, %.200s; want what launcher predict writes, %.200s", n, status, got,
				text)
		}

		status, _, got = post(t, s.url+"/predict", "application/json", instancesOf(names, rows))
		var a struct{ Predictions []map[string]any }
		if err := json.Unmarshal(got, &a); err != nil || status != http.StatusOK || len(a.Predictions) != n {
			t.Fatalf("%d rows of JSON: got status %d, %.300s (%v); want an object for each", n, status, got, err)
		}
		for r, row := range a.Predictions {
			if len(row) != len(want[0]) {
				t.Fatalf("%d rows of JSON: row %d is %v; want the keys %q", n, r, row, want[0])
			}
			for c, name := range want[0] {
				var value any = want[r+1][c] // the class; the columns after it are numbers
				if c > 0 {
					value = must.Get(strconv.ParseFloat(want[r+1][c], 64))(t)
				}
				if row[name] != value {
					t.Fatalf("%d rows of JSON: row %d is %v; want %s %v", n, r, row, name, value)
				}
			}
		}
	}
}

// TestClassesAreMeasured: with several classes, the measured prediction of a row is the probability of its likeliest
// class: with three classes more than a third.
func TestClassesAreMeasured(t *testing.T) {
	s, read := measured(t, kinds.trained(t, 1))
	post(t, s.url+"/predict", "application/json", instancesOf(kinds.names(), someRows(kinds, 40, 2)))
	until(t, "the request is counted", func() bool { return read()["coppice_serve_rows_total"] == 40 })
	if mean := read()["coppice_serve_predicted_total"] / 40; mean <= 1./3 || mean > 1 {
		t.Errorf("got a mean of %v; want that of the likeliest classes' probabilities", mean)
	}
}

// page returns the body of what a GET of the URL answers.
func page(tb testing.TB, url string) string {
	tb.Helper()
	r, err := http.Get(url)
	must.Do(tb, err)
	defer r.Body.Close()
	text := must.Get(io.ReadAll(r.Body))(tb)
	return string(text)
}

// TestRowsOfManyClassesAreBounded: a request may have only so many rows that an answer, which names all classes in each
// row, has no more bytes than a request may have: here 8 KiB. A row of these three classes takes at most 208 bytes of
// JSON, so 39 rows are answered: of requests of 10, 20 and so on, the largest is one of 30.
func TestRowsOfManyClassesAreBounded(t *testing.T) {
	s := serving(t, kinds.trained(t, 1), func(c *serve.Config) { c.MaxBytes = 8 << 10 })
	most := 0
	for n := 10; n <= 60; n += 10 {
		status, _, got := post(t, s.url+"/predict", "text/csv", csvOf(kinds.names(), someRows(kinds, n, 1)))
		if status == http.StatusOK {
			most = n
		} else if !strings.Contains(string(got), "rows; send them in several requests") {
			t.Errorf("%d rows: got status %d, %s; want that they be sent in several requests", n, status, got)
		}
	}
	if most != 30 {
		t.Errorf("%d rows were answered, want 30 of 60", most)
	}
}

// TestAnswersKeepTheirForm: a new version whose answers have another form, one number in place of three probabilities,
// waits and does not answer. It does so whatever they predict: MaxShift is 0, which compares no means.
func TestAnswersKeepTheirForm(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "one", kinds.trained(t, 1))
	register(t, reg, "two", filesOf(t, 1))
	promote(t, reg, 1)
	s := start(t, store, func(c *serve.Config) { c.MaxShift = 0 })
	want := "ctr version 2 answers with one number, and ctr version 1 with probabilities of 3 classes (early, "
	promote(t, reg, 2)
	until(t, "the new version waits", func() bool { return strings.Contains(page(t, s.url+"/status"), want) })
	_, header, _ := post(t, s.url+"/predict", "text/csv", csvOf(kinds.names(), someRows(kinds, 3, 1)))
	if got := header.Get("Coppice-Version"); got != "ctr@1" {
		t.Errorf("%s answers; want ctr@1", got)
	}
}
