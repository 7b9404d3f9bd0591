package serve_test

import (
	"context"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"coppice/launcher/internal/serve"
)

const callService = "/inference.GRPCInferenceService/"

// dialled is a client that others wrote.
func dialled(tb testing.TB, s *served) *grpc.ClientConn {
	tb.Helper()
	c, err := grpc.NewClient(strings.TrimPrefix(s.url, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

// invoke makes a call and returns its answer, headers and error.
func invoke(tb testing.TB, c *grpc.ClientConn, method string, q proto.Message, into string,
	headers ...string) (*dynamicpb.Message, metadata.MD, error) {
	tb.Helper()
	var header metadata.MD
	a := serve.NewMessage(into)
	ctx := metadata.AppendToOutgoingContext(tb.Context(), headers...)
	err := c.Invoke(ctx, callService+method, q, a, grpc.Header(&header))
	return a, header, err
}

// asMessage are rows as a request of gRPC, all columns as texts.
func asMessage(names []string, rows [][]string, raw bool, more ...any) *dynamicpb.Message {
	var inputs []*dynamicpb.Message
	var all [][]byte
	for i, name := range names {
		var texts [][]byte
		var own []byte
		for _, row := range rows {
			texts = append(texts, []byte(row[i]))
			own = append(binary.LittleEndian.AppendUint32(own, uint32(len(row[i]))), row[i]...)
		}
		fields := []any{"name", name, "datatype", "BYTES", "shape", []int64{int64(len(rows)), 1}}
		if !raw {
			fields = append(fields, "contents", serve.NewMessage("Contents", "s", texts))
		}
		inputs, all = append(inputs, serve.NewMessage("Tensor", fields...)), append(all, own)
	}
	if raw {
		more = append(more, "raw", all)
	}
	return serve.NewMessage("ModelInferRequest", append([]any{"model_name", "ctr", "id", "ü\n7", "inputs", inputs},
		more...)...)
}

// outputsOf are an answer's outputs as name, datatype, shape, and their texts or numbers.
func outputsOf(tb testing.TB, a *dynamicpb.Message) (said string, texts [][]string, numbers [][]float64) {
	tb.Helper()
	outputs, raw := serve.Field(a, "outputs").List(), [][]byte{}
	for i := 0; a.Descriptor().Name() == "ModelInferResponse" && i < serve.Field(a, "raw").List().Len(); i++ {
		raw = append(raw, serve.Field(a, "raw").List().Get(i).Bytes())
	}
	for i := range outputs.Len() {
		o := outputs.Get(i).Message()
		var shape []int64
		for j := range serve.Field(o, "shape").List().Len() {
			shape = append(shape, serve.Field(o, "shape").List().Get(j).Int())
		}
		datatype := serve.Field(o, "datatype").String()
		said += fmt.Sprint(serve.Field(o, "name"), " ", datatype, shape, " ")
		var words []string
		var xs []float64
		contents := serve.Field(o, "contents").Message()
		for j := range serve.Field(contents, "s").List().Len() {
			words = append(words, string(serve.Field(contents, "s").List().Get(j).Bytes()))
		}
		for j := range serve.Field(contents, "d").List().Len() {
			xs = append(xs, serve.Field(contents, "d").List().Get(j).Float())
		}
		for rest := slices.Concat(raw[min(i, len(raw)):min(i+1, len(raw))]...); len(rest) > 0; {
			if datatype == "BYTES" {
				n := 4 + binary.LittleEndian.Uint32(rest)
				words, rest = append(words, string(rest[4:n])), rest[n:]
			} else {
				xs, rest = append(xs, math.Float64frombits(binary.LittleEndian.Uint64(rest))), rest[8:]
			}
		}
		texts, numbers = append(texts, words), append(numbers, xs)
	}
	return said, texts, numbers
}

// TestCallsAreThoseOfPredict: gRPC gets the bits of `launcher predict`, typed or raw as it asks.
func TestCallsAreThoseOfPredict(t *testing.T) {
	reg, store := newRegistry()
	v := register(t, reg, "one", filesOf(t, 1))
	c := dialled(t, start(t, store, nil))
	names := small.names()
	for _, n := range []int{1, 50, 300} {
		rows := someRows(small, n, uint64(n))
		want := predicted(t, reg, v, names, rows)
		for _, raw := range []bool{false, true} {
			a, header, err := invoke(t, c, "ModelInfer", asMessage(names, rows, raw, "model_version", "1"),
				"ModelInferResponse")
			if err != nil {
				t.Fatalf("%d rows, raw %v: %v", n, raw, err)
			}
			said, _, got := outputsOf(t, a)
			if said != fmt.Sprintf("prediction FP64[%d] ", n) || !sameBits(got[0], want) ||
				raw != (serve.Field(a, "raw").List().Len() == 1) {
				t.Errorf("%d rows, raw %v: got %s%.10v; want the predictions %.10v, raw as they were asked", n, raw,
					said, got, want)
			}
			told := fmt.Sprintf("%v %v %v %v", serve.Field(a, "model_name"), serve.Field(a, "model_version"),
				serve.Field(a, "id"), header["coppice-version"])
			if told != "ctr 1 ü\n7 [ctr@1]" {
				t.Errorf("got %q, want the model, its version, the request's id, and the version as metadata", told)
			}
		}
	}
}

// TestCallsOfClasses: three outputs, of which a request may name some.
func TestCallsOfClasses(t *testing.T) {
	reg, store := newRegistry()
	v := register(t, reg, "one", kinds.trained(t, 1))
	c := dialled(t, start(t, store, nil))
	rows := someRows(kinds, 7, 1)
	want, err := csv.NewReader(strings.NewReader(string(written(t, reg, v, kinds.names(), rows)))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var likeliest []string
	var probabilities []float64
	for _, row := range want[1:] {
		likeliest = append(likeliest, row[0])
		for _, text := range row[1:] {
			probabilities = append(probabilities, number(t, text))
		}
	}
	for _, raw := range []bool{false, true} {
		a, _, err := invoke(t, c, "ModelInfer", asMessage(kinds.names(), rows, raw), "ModelInferResponse")
		if err != nil {
			t.Fatal(err)
		}
		said, texts, numbers := outputsOf(t, a)
		if said != "prediction BYTES[7] probability FP64[7 3] class BYTES[3] " || !slices.Equal(texts[0], likeliest) ||
			!sameBits(numbers[1], probabilities) || !slices.Equal(texts[2], kinds.classes) {
			t.Errorf("raw %v: got %s%q %.5v; want %q, %.5v and the classes %q", raw, said, texts, numbers, likeliest,
				probabilities, kinds.classes)
		}
		one := []*dynamicpb.Message{serve.NewMessage("Output", "name", "class")}
		q := asMessage(kinds.names(), rows, raw, "outputs", one)
		a, _, err = invoke(t, c, "ModelInfer", q, "ModelInferResponse")
		if said, _, _ := outputsOf(t, a); err != nil || said != "class BYTES[3] " {
			t.Errorf("raw %v: got %s, %v; want the output class alone", raw, said, err)
		}
	}
	a, _, err := invoke(t, c, "ModelMetadata", serve.NewMessage("Named", "name", "ctr"), "ModelMetadataResponse")
	said, _, _ := outputsOf(t, a)
	if err != nil || said != "prediction BYTES[-1] probability FP64[-1 3] class BYTES[3] " ||
		serve.Field(a, "inputs").List().Len() != 5 {
		t.Errorf("got %v, %v; want five inputs and three outputs", a, err)
	}
}

// TestCallsBeforeAVersion: a server without one is alive and not ready, and callers are told to come back.
func TestCallsBeforeAVersion(t *testing.T) {
	_, store := newRegistry()
	c := dialled(t, starting(t, store, nil))
	named := serve.NewMessage("Named", "name", "ctr")
	for method, want := range map[string]bool{"ServerLive": true, "ServerReady": false, "ModelReady": false} {
		a, _, err := invoke(t, c, method, named, "Truth")
		if err != nil || serve.Field(a, "is").Bool() != want {
			t.Errorf("%s: got %v, %v; want %v", method, a, err, want)
		}
	}
	for _, method := range []string{"ModelInfer", "ModelMetadata"} {
		if _, _, err := invoke(t, c, method, named, "Truth"); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: got %v, want UNAVAILABLE", method, err)
		}
	}
	a, _, err := invoke(t, c, "ServerMetadata", named, "ServerMetadataResponse")
	if err != nil || serve.Field(a, "name").String() != "coppice" {
		t.Errorf("ServerMetadata: got %v, %v; want coppice", a, err)
	}
}

// verified lets one token in.
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

// TestCallsAreRefused: each for its reason, in the words of HTTP.
func TestCallsAreRefused(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "one", filesOf(t, 1))
	s := start(t, store, func(c *serve.Config) { c.MaxBytes, c.MaxRows, c.Callers = 64<<10, 100, verified{} })
	c := dialled(t, s)
	infer := func(n int, more ...any) *dynamicpb.Message {
		return asMessage(small.names(), someRows(small, n, 1), true, more...)
	}
	for _, refused := range []struct {
		method string
		q      proto.Message
		token  string
		code   codes.Code
		says   string
	}{
		{"ModelInfer", infer(1), "Bearer good", codes.OK, ""},
		{"ModelInfer", infer(1), "Bearer bad", codes.Unauthenticated, "no token that is good"},
		{"ModelReady", infer(1), "", codes.Unauthenticated, "no token that is good"},
		{"ServerLive", infer(1), "", codes.OK, ""},
		{"ServerReady", infer(1), "", codes.OK, ""},
		{"ModelReady", infer(1), "Bearer good", codes.OK, ""},
		{"Nothing", infer(1), "Bearer good", codes.Unimplemented, "there is no method"},
		{"ModelInfer", infer(1, "model_name", "other%41ü"), "Bearer good", codes.NotFound,
			`there is no model "other%41ü" here; this server answers for ctr`},
		{"ModelInfer", infer(1, "model_version", "7"), "Bearer good", codes.NotFound, "ctr@1 does"},
		{"ModelReady", infer(1, "model_version", "7"), "Bearer good", codes.NotFound, "ctr@1 does"},
		{"ModelMetadata", infer(1, "model_name", "other"), "Bearer good", codes.NotFound, "no model"},
		{"ModelInfer", infer(101), "Bearer good", codes.InvalidArgument, "more than 100 rows"},
		{"ModelInfer", infer(2000), "Bearer good", codes.ResourceExhausted, "has more than 65536 bytes"},
		{"ModelReady", infer(2000), "Bearer good", codes.ResourceExhausted, "has more than 65536 bytes"},
		{"ModelInfer", asMessage(small.names()[1:], someRows(small, 1, 1), true), "Bearer good", codes.InvalidArgument,
			`column "i0": no such column`},
		{"ModelInfer", asMessage(small.names(), [][]string{{"", "", "", "1", "x", "1", "1"}}, false), "Bearer good",
			codes.InvalidArgument, `row 1: column "n1": "x" is not a number`},
		{"ModelInfer", serve.NewMessage("ModelInferRequest", "model_name", "ctr", "inputs", []*dynamicpb.Message{
			serve.NewMessage("Tensor", "name", strings.Repeat("ü", 5000), "shape", []int64{1, 2})}), "Bearer good",
			codes.InvalidArgument, "üüü"},
	} {
		var header metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", refused.token)
		err := c.Invoke(ctx, callService+refused.method, refused.q, serve.NewMessage("Truth"), grpc.Header(&header))
		got := status.Convert(err)
		if got.Code() != refused.code || !strings.Contains(got.Message(), refused.says) {
			t.Errorf("%s with %.60v: got %v, want %v and ... %s ...", refused.method, refused.q, err, refused.code,
				refused.says)
		}
		if err != nil && header["coppice-version"] != nil {
			t.Errorf("%s with %.60v: a refusal names a version as if it had answered", refused.method, refused.q)
		}
	}

	until(t, "nothing is held", func() bool { return s.Held() == 0 && s.Open() == 0 })
}

// rawMessages sends bytes as they are.
type rawMessages struct{}

func (rawMessages) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (rawMessages) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (rawMessages) Name() string                       { return "proto" }

// TestHostileCalls: bytes that are no message, compressed ones, and metadata beyond the limits end in a clear code, and
// the next call is answered.
func TestHostileCalls(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "one", filesOf(t, 1))
	s := start(t, store, func(c *serve.Config) { c.MaxBytes = 64 << 10 })
	c := dialled(t, s)
	q := asMessage(small.names(), someRows(small, 1, 1), true)
	good, err := proto.MarshalOptions{Deterministic: true}.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(body []byte) error {
		var a []byte
		return c.Invoke(t.Context(), callService+"ModelInfer", body, &a, grpc.ForceCodec(rawMessages{}))
	}
	for n := range good {
		if err := ask(good[:n]); n > 40 && status.Code(err) != codes.InvalidArgument || err == nil {
			t.Errorf("the first %d of %d bytes: got %v, want INVALID_ARGUMENT", n, len(good), err)
		}
	}
	for i := range good {
		for _, b := range []byte{0, 255} { // some of these are requests; none may end in anything but an answer
			changed := slices.Clone(good)
			changed[i] = b
			switch err := ask(changed); status.Code(err) {
			case codes.OK, codes.InvalidArgument, codes.NotFound:
			default:
				t.Errorf("byte %d is %d: got %v, want an answer, INVALID_ARGUMENT or NOT_FOUND", i, b, err)
			}
		}
	}
	for _, raw := range []struct {
		frame, timeout string
		code           codes.Code
	}{{"", "", codes.InvalidArgument}, {"\x00\x00\x00", "", codes.InvalidArgument},
		{"\x00\xff\xff\xff\xff", "", codes.InvalidArgument}, {"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "",
			codes.InvalidArgument}, {"\x01\x00\x00\x00\x01x", "", codes.Unimplemented},
		{"\x00\x00\x00\x00\x00", "5", codes.InvalidArgument}, {"\x00\x00\x00\x00\x00", "S", codes.InvalidArgument},
		{"\x00\x00\x00\x00\x00", "-5S", codes.InvalidArgument}, {"\x00\x00\x00\x00\x00", "123456789S",
			codes.InvalidArgument}, {"\x00\x00\x00\x00\x00", "99999999H", codes.NotFound}} {
		header := h2c(t, s.url+callService+"ModelInfer", raw.frame, "Grpc-Timeout", raw.timeout)
		if got := header.Get("Grpc-Status"); got != strconv.Itoa(int(raw.code)) {
			t.Errorf("%q within %q: got grpc-status %s (%s), want %d", raw.frame, raw.timeout, got,
				header.Get("Grpc-Message"), raw.code)
		}
	}
	long := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("a", 64<<10))
	err = c.Invoke(long, callService+"ServerLive", serve.NewMessage("Named"), serve.NewMessage("Truth"))
	if err == nil {
		t.Error("64 KiB of metadata were taken, want them refused")
	}
	until(t, "nothing is held", func() bool { return s.Held() == 0 && s.Open() == 0 })
	if err := ask(good); err != nil {
		t.Errorf("after all of them a good call got %v, want an answer", err)
	}
}

// h2c posts to a server over HTTP/2 without a library of gRPC and returns the headers.
func h2c(tb testing.TB, url, body string, headers ...string) http.Header {
	tb.Helper()
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	q, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/grpc")
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			q.Header.Set(headers[i], headers[i+1])
		}
	}
	a, err := transport.RoundTrip(q)
	if err != nil {
		tb.Fatal(err)
	}
	a.Body.Close()
	return a.Header
}

// TestCallsAreSplit: a key has the same version over gRPC as over HTTP, and a call for one version is not divided.
func TestCallsAreSplit(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "one", filesOf(t, 1))
	register(t, reg, "two", filesOf(t, 2))
	promote(t, reg, 1)
	s := start(t, store, func(c *serve.Config) { c.Split, c.MaxShift = serve.Canary{Ref: "2", Share: .5}, 0 })
	until(t, "the other version is loaded", s.SplitReady)
	c := dialled(t, s)
	rows, count := someRows(small, 1, 1), map[string]int{}
	for i := range 20 {
		key := fmt.Sprint("user ", i)
		_, want, _ := post(t, s.url+"/predict", "text/csv", csvOf(small.names(), rows), "Coppice-Key", key)
		a, header, err := invoke(t, c, "ModelInfer", asMessage(small.names(), rows, true), "ModelInferResponse",
			"coppice-key", key)
		got := fmt.Sprint("ctr@", serve.Field(a, "model_version"))
		if err != nil || got != want.Get("Coppice-Version") || got != strings.Join(header["coppice-version"], "") {
			t.Errorf("%s: got %s, metadata %v, %v; want %s as over HTTP", key, got, header["coppice-version"], err,
				want.Get("Coppice-Version"))
		}
		count[got]++
		a, _, err = invoke(t, c, "ModelInfer", asMessage(small.names(), rows, true, "model_version", "1"),
			"ModelInferResponse", "coppice-key", key)
		if v := serve.Field(a, "model_version").String(); v != "1" || err != nil {
			t.Errorf("%s: got version %s, %v; want 1, which was asked for", key, v, err)
		}
	}
	if len(count) != 2 {
		t.Errorf("got %v, want that both versions answer", count)
	}
}

// TestCallsAreDrained: a call that has begun when the server is told to end is answered, and the client told to connect
// anew.
func TestCallsAreDrained(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "one", filesOf(t, 1))
	s := start(t, store, nil)
	c := dialled(t, s)
	begun, err := c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, callService+"ModelInfer")
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the call has begun", func() bool { return s.Held() > 0 })
	ended := make(chan error, 1)
	go func() { ended <- s.end() }()
	until(t, "the server is not ready", func() bool { return !s.Ready() })
	until(t, "the client is told", func() bool { return c.GetState() != connectivity.Ready })
	a := serve.NewMessage("ModelInferResponse")
	err = errors.Join(begun.SendMsg(asMessage(small.names(), someRows(small, 5, 1), true)), begun.CloseSend(),
		begun.RecvMsg(a))
	if err != nil || serve.Field(a, "model_version").String() != "1" {
		t.Errorf("got %v, %v for a call that had begun; want an answer", a, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v, want no error", err)
	}
}

// TestCallsWhileEnding: until a balancer may have noticed, calls are answered, each on a connection that ends.
func TestCallsWhileEnding(t *testing.T) {
	reg, store := newRegistry()
	register(t, reg, "one", filesOf(t, 1))
	s := start(t, store, func(c *serve.Config) { c.Grace = time.Hour })
	c := dialled(t, s)
	go func() { _ = s.end() }()
	until(t, "the server is not ready", func() bool { return !s.Ready() })
	a, _, err := invoke(t, c, "ServerReady", serve.NewMessage("Named"), "Truth")
	if err != nil || serve.Field(a, "is").Bool() {
		t.Errorf("got %v, %v; want that the server is not ready", a, err)
	}
	until(t, "the client is told to connect anew", func() bool { return c.GetState() != connectivity.Ready })
	_, _, err = invoke(t, c, "ModelInfer", asMessage(small.names(), someRows(small, 5, 1), true), "ModelInferResponse")
	if err != nil {
		t.Errorf("got %v within the time of grace, want an answer", err)
	}
	s.l.Close()
}
