package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/program"
	"coppice/launcher/internal/predict"
)

// headerVersion names the version that has answered, MODEL@VERSION.
const headerVersion = "Coppice-Version"

// Media types of rows.
const (
	typeJSON  = "application/json"
	typeLines = "application/x-ndjson"
	typeCSV   = "text/csv"
)

// refuse answers with an error, in the form of Vertex AI.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // the caller may have left
}

// exchange is one request and the writer of its answer.
type exchange struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	begun time.Time
	held  int64 // its bytes that are counted in s.held
}

// leastHeld is how many bytes a request counts at least while it is read: its connection takes about as much.
const leastHeld = 16 << 10

// hold counts so many bytes in all for this request, in x.held and in the server's sum. It reports false if all
// requests together then have more than a full queue of the largest ones. answer takes the bytes off the sum in the
// end.
func (x *exchange) hold(bytes int) bool {
	more := max(int64(bytes), leastHeld) - x.held
	x.held += more
	return x.s.held.Add(more) <= int64(x.s.c.MaxQueue)*max(x.s.c.MaxBytes, leastHeld)
}

// later refuses the request with 429, says why, and has the caller come back in a second.
func (x *exchange) later(why string) {
	x.w.Header().Set("Retry-After", "1")
	x.refuse(http.StatusTooManyRequests, why)
}

// refuse answers with an error and counts it.
func (x *exchange) refuse(status int, text string) {
	x.s.c.Meters.countRefused(x.r.Context(), status)
	refuse(x.w, status, text)
}

// scored is an answer before it is written: one number a row, or one for each class.
type scored struct {
	m           *Model
	predictions []float64
}

// reader reads the rows in a request's body into the columns that m needs.
type reader = func(m *Model, body []byte) (*table.Batch, error)

// answer reads a request's body, has read make rows of it, scores them and calls write to send the predictions. A
// request beyond the limits, or that cannot be scored, is refused with a status that says so. One that was answered is
// counted, and kept among the recent ones, with which a new version is compared.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, read reader, write func(scored)) {
	x := &exchange{s: s, w: w, r: r, begun: time.Now()}
	defer func() { s.held.Add(-x.held) }() // what readBody has counted
	body, ok := x.readBody()
	if !ok {
		return
	}

	// Join the queue, and wait until this request may be scored: only as many are scored at once as there are
	// processors (s.turns). The whole body has arrived, so that a slow caller delays nobody.
	defer s.open.Add(-1) // at the end, also of a request that is refused here
	if s.open.Add(1) > int64(s.c.MaxQueue) {
		x.later(fmt.Sprintf("%d requests are being answered; come back in a second", s.c.MaxQueue))
		return
	}
	if !x.waitForTurn() {
		return
	}
	endTurn := sync.OnceFunc(func() { <-s.turns })
	defer endTurn()

	// Score it with the version that answers now.
	m := s.acquireModel()
	if m == nil {
		w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusServiceUnavailable, "no version is ready to answer")
		return
	}
	defer m.Release()
	scratch := s.scratch.Get().(*[]float64)
	defer s.scratch.Put(scratch)
	var in cell.Inputs
	a := scored{m: m}
	b, err := read(m, body)
	if err == nil {
		a.predictions, err = m.Score(b, scratch, &in)
	}
	if err != nil {
		x.refuse(http.StatusBadRequest, err.Error())
		return
	}

	// Answer; a caller who reads slowly keeps nobody from being scored.
	endTurn()
	w.Header().Set(headerVersion, m.Name)
	write(a)

	// Count and keep it.
	s.warnOfEmpty(m, &in)
	watched := m.onePerRow(a.predictions)
	s.recent.add(past{rows: len(watched), bytes: len(body), read: func(m *Model) (*table.Batch, error) {
		return read(m, body)
	}})
	s.c.Meters.countAnswered(r.Context(), watched, &in, time.Since(x.begun))
}

// warnOfEmpty logs a warning if no row of a request has a value in more than half of the columns: a caller may leave
// out keys, but hardly most of them on purpose. in counts the request's values. It is logged once for each version.
func (s *Server) warnOfEmpty(m *Model, in *cell.Inputs) {
	empty := 0
	for i := range in.Columns {
		if in.Columns[i].Missing == in.Rows {
			empty++
		}
	}
	if 2*empty > len(in.Columns) && !m.warned.Swap(true) {
		s.c.Log.Warn("a request has no value in most columns", "version", m.Name, "columns",
			fmt.Sprintf("%d of %d", empty, len(in.Columns)))
	}
}

// waitForTurn waits until the request may be scored, and puts an element into s.turns, which the caller takes out
// again. It returns false once it has refused the request, because that took longer than the timeout or the caller has
// left.
func (x *exchange) waitForTurn() bool {
	wait := time.NewTimer(x.s.c.Timeout)
	defer wait.Stop()
	select {
	case x.s.turns <- struct{}{}:
		return true
	case <-x.r.Context().Done():
		x.refuse(http.StatusServiceUnavailable, "the request was given up")
	case <-wait.C:
		x.later(fmt.Sprintf("no turn within %v; come back in a second", x.s.c.Timeout))
	}
	return false
}

// readBody returns the request's body. It returns false once it has refused a request that is compressed, too large or
// too slow, or for which there is no memory beside the others.
func (x *exchange) readBody() ([]byte, bool) {
	// Refuse what the headers tell already.
	limit := x.s.c.MaxBytes
	if e := x.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		x.refuse(http.StatusUnsupportedMediaType, fmt.Sprintf("the encoding %.20q; send the request without "+
			"compression", e))
		return nil, false
	}
	large := fmt.Sprintf("the request has more than %d bytes; send its rows in several requests", limit)
	if x.r.ContentLength > limit {
		x.w.Header().Set("Connection", "close") // the rest is not read
		x.refuse(http.StatusRequestEntityTooLarge, large)
		return nil, false
	}

	// Read it within the timeout. The memory grows with what arrives: a caller who announces much and sends nothing
	// holds little. It begins with the announced length (-1 if that is not known) and one byte more, so that the read
	// that meets the end needs no more memory.
	control := http.NewResponseController(x.w)
	_ = control.SetReadDeadline(time.Now().Add(x.s.c.Timeout)) // else ReadTimeout applies
	in := http.MaxBytesReader(x.w, x.r.Body, limit)
	body := make([]byte, 0, min(max(x.r.ContentLength, 512), 4*leastHeld)+1)
	var err error
	for err == nil {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)] // as long as before, with more room
		}
		if !x.hold(cap(body)) {
			x.w.Header().Set("Connection", "close")
			x.later("too many requests are arriving; come back in a second")
			return nil, false
		}
		var n int
		n, err = in.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}

	switch {
	case errors.Is(err, io.EOF):
		// From here on the HTTP server watches the connection, and would take a passed deadline for a caller that has
		// left.
		_ = control.SetReadDeadline(time.Time{})
		return body, true
	case errors.As(err, new(*http.MaxBytesError)):
		x.refuse(http.StatusRequestEntityTooLarge, large)
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.w.Header().Set("Connection", "close")
		x.refuse(http.StatusRequestTimeout, fmt.Sprintf("the request did not arrive within %v", x.s.c.Timeout))
	default:
		x.refuse(http.StatusBadRequest, "the request cannot be read to its end")
	}
	return nil, false
}

// servePredict answers a request for predictions. By its Content-Type the rows are JSON in the form of Vertex AI
// ({"instances": [...]}, answered with {"predictions": [...]}), lines of JSON, which get the same answer, or CSV,
// answered with CSV. Another media type is refused.
func (s *Server) servePredict(w http.ResponseWriter, r *http.Request) {
	given := cmp.Or(r.Header.Get("Content-Type"), typeJSON)
	kind, _, err := mime.ParseMediaType(given)
	file := map[string]string{typeLines: "request.jsonl", "application/jsonl": "request.jsonl",
		typeCSV: "request.csv"}[kind] // the name by which `launcher predict` would know the form
	if err != nil || kind != typeJSON && file == "" {
		s.c.Meters.countRefused(r.Context(), http.StatusUnsupportedMediaType)
		refuse(w, http.StatusUnsupportedMediaType, fmt.Sprintf("the media type %.60q; send %s (curl --json), %s or %s",
			given, typeJSON, typeLines, typeCSV))
		return
	}
	ctx := context.WithoutCancel(r.Context()) // the rows may be read again later
	read := func(m *Model, body []byte) (*table.Batch, error) {
		if kind == typeJSON {
			return readInstances(m, body, s.maxRows(m))
		}
		return readText(ctx, m, file, body, s.maxRows(m))
	}

	s.answer(w, r, read, func(a scored) {
		if kind == typeCSV {
			w.Header().Set("Content-Type", typeCSV)
			_ = predict.WriteCSV(w, a.m.Scorer, a.predictions) // the caller may have left
			return
		}

		w.Header().Set("Content-Type", typeJSON)
		// 64 and 22: about the bytes around the predictions, and those of one with all its digits.
		out := append(make([]byte, 0, 64+22*len(a.predictions)), `{"predictions":`...)
		if len(a.m.classes) > 0 {
			out = a.appendRows(out)
		} else {
			out = appendNumbers(out, a.predictions)
		}
		out = append(out, `,"model":`...)
		out = strconv.AppendQuote(out, a.m.Version.Model)
		out = append(out, `,"version":`...)
		out = strconv.AppendInt(out, int64(a.m.Version.Number), 10)
		_, _ = w.Write(append(out, "}\n"...))
	})
}

// appendNumbers appends a list of numbers in JSON.
func appendNumbers(out []byte, xs []float64) []byte {
	out = append(out, '[')
	for i, x := range xs {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendNumber(out, x)
	}
	return append(out, ']')
}

// appendNumber appends a number in JSON, with as many digits as its bits need; null for one that is not finite.
func appendNumber(out []byte, x float64) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) { // JSON has no such number
		return append(out, "null"...)
	}
	return strconv.AppendFloat(out, x, 'g', -1, 64)
}

// describeClasses sets m.keys and m.answer for a model of several classes: the JSON keys of a row's answer, which are
// the columns of `launcher predict`, and the most bytes that a row's answer takes. Other models have none.
func (m *Model) describeClasses() {
	if len(m.classes) == 0 {
		return
	}
	longest := 0
	for _, class := range m.classes {
		key := jsonText(predict.ColumnPrediction + ":" + class)
		m.keys = append(m.keys, key)
		m.answer += len(key) + len(",:-1.2345678901234567e-308") // no number is longer
		longest = max(longest, len(key))
	}
	m.answer += len(`{"prediction":},`) + longest
}

// jsonText returns a text as JSON writes it, in quotes.
func jsonText(text string) string {
	out, _ := json.Marshal(text) // a text can be written
	return string(out)
}

// appendRows appends the answer of a model of several classes: a JSON list with an object for each row, which has the
// likeliest class and the probability of each class. a.predictions are [rows x classes].
func (a *scored) appendRows(out []byte) []byte {
	k := len(a.m.classes)
	out = append(out, '[')
	for r, class := range predict.Likeliest(a.predictions, a.m.classes) {
		if r > 0 {
			out = append(out, ',')
		}
		out = append(append(out, `{"prediction":`...), jsonText(class)...)
		for i, p := range a.predictions[r*k:][:k] {
			out = append(append(append(out, ','), a.m.keys[i]...), ':')
			out = appendNumber(out, p)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}

// onePerRow returns one number for each row, by which requests are measured and versions compared: the prediction or,
// of several classes, the probability of the likeliest.
func (m *Model) onePerRow(predictions []float64) []float64 {
	if len(m.classes) == 0 {
		return predictions
	}
	var out []float64
	for row := range slices.Chunk(predictions, len(m.classes)) {
		out = append(out, slices.Max(row))
	}
	return out
}

// known are callers that were verified less than a minute ago, by the hash of what they sent: checking a signature
// takes as long as scoring a request.
type known struct {
	mu    sync.Mutex
	until map[[32]byte]time.Time
}

const (
	knownFor  = time.Minute
	mostKnown = 1000
)

// verify checks the Authorization header of a request. It returns 0 for a caller that may ask, else an error and the
// HTTP status to refuse with. A caller that was verified within knownFor is not verified again. Beyond mostKnown
// callers all are forgotten, which only costs verifying them again.
func (k *known) verify(r *http.Request, callers program.Callers, now time.Time) (status int, err error) {
	text := r.Header.Get("Authorization")
	hash := sha256.Sum256([]byte(text))
	k.mu.Lock()
	ok := now.Before(k.until[hash])
	k.mu.Unlock()
	if ok {
		return 0, nil
	}
	if _, err := callers.Verify(r.Context(), text); err != nil {
		return program.RefusedStatus(err), err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.until) >= mostKnown || k.until == nil {
		k.until = map[[32]byte]time.Time{}
	}
	k.until[hash] = now.Add(knownFor)
	return 0, nil
}
