package serve

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"coppice/internal/dataset/table"
)

// gRPC of the Open Inference Protocol, on the port and within the limits of HTTP. A call without streams is a POST over
// HTTP/2 with one message behind five bytes, and its status follows the answer as a trailer
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). So that is all there is here: a server of the
// library reads bodies itself, without these limits, and takes more of the processor.

const (
	callService = "/inference.GRPCInferenceService/"
	typeGRPC    = "application/grpc"

	prefixLength = 5    // a byte that says whether the message is compressed, and its length in four
	mostSaid     = 1000 // bytes of an error; clients take a few thousand of all headers
)

// codesOf are the codes that stand for statuses of HTTP.
var codesOf = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusNotFound:              codes.NotFound,
	http.StatusRequestTimeout:        codes.DeadlineExceeded,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted,
	http.StatusUnsupportedMediaType:  codes.Unimplemented,
	http.StatusMisdirectedRequest:    codes.PermissionDenied,
	http.StatusTooManyRequests:       codes.ResourceExhausted,
	http.StatusNotImplemented:        codes.Unimplemented,
	http.StatusServiceUnavailable:    codes.Unavailable,
}

// isCall reports whether a request is one of gRPC.
func isCall(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	return r.ProtoMajor == 2 && (kind == typeGRPC || strings.HasPrefix(kind, typeGRPC+"+"))
}

// call writes an answer as gRPC has it.
type call struct {
	http.ResponseWriter
	ctx context.Context
}

// Unwrap is what http.ResponseController asks for.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// fail ends a call with the code that stands for a status of HTTP, as headers without a body. Who is told to come back
// is told so as Google's clients (google.rpc.RetryInfo) and gRPC's own retries read it.
func (c *call) fail(status int, text string) {
	code, known := codesOf[status]
	switch err := c.ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		code, text = codes.DeadlineExceeded, "the call's deadline passed before it was answered"
	case err != nil:
		code = codes.Canceled
	case !known:
		code = codes.Internal
	}
	text = strings.ToValidUTF8(text[:min(len(text), mostSaid)], "")

	h := c.Header()
	h.Set("Content-Type", typeGRPC)
	h.Set("Grpc-Status", strconv.Itoa(int(code)))
	h.Set("Grpc-Message", escaped(text))
	if seconds, err := strconv.Atoi(h.Get("Retry-After")); err == nil {
		h.Set("Grpc-Retry-Pushback-Ms", strconv.Itoa(1000*seconds))
		delay := appendVarint(nil, 1, uint64(seconds))
		info := appendText(nil, 1, "type.googleapis.com/google.rpc.RetryInfo")
		info = appendBytes(info, 2, appendBytes(nil, 1, delay))
		details := appendBytes(appendText(appendVarint(nil, 1, uint64(code)), 2, text), 3, info)
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
	}
	c.WriteHeader(http.StatusOK)
}

// escaped is a text as it may stand in a header.
func escaped(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		if b < ' ' || b > '~' || b == '%' {
			fmt.Fprintf(&out, "%%%02X", b)
		} else {
			out.WriteByte(b)
		}
	}
	return out.String()
}

// send answers with a message, which begins behind prefixLength bytes.
func (c *call) send(framed []byte) {
	framed[0] = 0
	binary.BigEndian.PutUint32(framed[1:], uint32(len(framed)-prefixLength))
	c.Header().Set("Content-Type", typeGRPC)
	_, _ = c.Write(framed) // the caller may have left
	c.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// sendBool answers with a message of one truth value.
func (c *call) sendBool(is bool) {
	c.send(appendVarint(make([]byte, prefixLength), 1, protowire.EncodeBool(is)))
}

// message is the one message of a call's body.
func message(body []byte) ([]byte, error) {
	switch {
	case len(body) < prefixLength || int64(binary.BigEndian.Uint32(body[1:])) != int64(len(body)-prefixLength):
		return nil, fmt.Errorf("the body, %d bytes, is not exactly one message behind its length", len(body))
	case body[0] != 0:
		return nil, &statusError{http.StatusUnsupportedMediaType, "the message is compressed; send it as it is"}
	}
	return body[prefixLength:], nil
}

// deadline reads how long a call may take (8 digits and a unit); 0 for no bound.
func deadline(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond,
		'u': time.Microsecond, 'n': time.Nanosecond}
	last := len(text) - 1
	n, err := strconv.ParseInt(text[:last], 10, 32)
	unit, known := units[text[last]]
	if err != nil || n < 0 || !known || last > 8 {
		return 0, fmt.Errorf("grpc-timeout is %.20q; send 1 to 8 digits and one of H, M, S, m, u, n", text)
	}
	if n >= int64(math.MaxInt64/unit) { // hours only can be so many
		return math.MaxInt64, nil
	}
	return max(1, unit*time.Duration(n)), nil
}

// serveCall answers a call.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request) {
	c := &call{w, r.Context()}
	within, err := deadline(r.Header.Get("Grpc-Timeout"))
	if err != nil {
		c.fail(http.StatusBadRequest, err.Error())
		return
	}
	if within > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		c.ctx, r = ctx, r.WithContext(ctx)
	}

	var serve func(c *call, r *http.Request)
	switch method, _ := strings.CutPrefix(r.URL.Path, callService); method {
	case "ServerLive": // for whoever starts and stops this server, like its paths
		c.sendBool(true)
		return
	case "ServerReady":
		c.sendBool(s.Ready())
		return
	case "ServerMetadata":
		serve = s.callServer
	case "ModelReady":
		serve = s.callReady
	case "ModelMetadata":
		serve = s.callModel
	case "ModelInfer":
		serve = s.callInfer
	default:
		serve = func(c *call, r *http.Request) {
			c.fail(http.StatusNotImplemented, fmt.Sprintf("there is no method %.80q here; the service is %s",
				r.URL.Path, strings.Trim(callService, "/")))
		}
	}
	s.guarded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { serve(c, r) })).ServeHTTP(c, r)
}

func (s *Server) callServer(c *call, _ *http.Request) {
	c.send(appendText(make([]byte, prefixLength), 1, "coppice"))
}

// about reads a call whose message names a model in its first field and a version in the next one, which become those
// of the path.
func (s *Server) about(c *call, r *http.Request) (x *exchange, body []byte, ok bool) {
	x = &exchange{s: s, w: c, r: r, begun: time.Now()}
	if body, ok = x.body(); !ok {
		return x, nil, false
	}
	msg, err := message(body)
	if err == nil {
		err = eachField(msg, func(f field) error {
			if f.number > 2 || f.kind != protowire.BytesType {
				return nil
			}
			key := "model"
			if f.number == 2 {
				key = "version"
			}
			text, err := f.text()
			r.SetPathValue(key, text)
			return err
		})
	}
	if err != nil {
		x.refuse(statusOf(err), err.Error())
		return x, nil, false
	}
	return x, body, true
}

func (s *Server) callReady(c *call, r *http.Request) {
	x, _, ok := s.about(c, r)
	defer x.free()
	if !ok {
		return
	}
	if s.current.Load() == nil && r.PathValue("model") == s.c.Model {
		c.sendBool(false)
	} else if s.named(c, r) {
		c.sendBool(true)
	}
}

func (s *Server) callModel(c *call, r *http.Request) {
	x, _, ok := s.about(c, r)
	defer x.free()
	if ok {
		s.describe(c, r, func(m *Model) { c.send(m.appendMetadata(make([]byte, prefixLength))) })
	}
}

func (s *Server) callInfer(c *call, r *http.Request) {
	x, body, ok := s.about(c, r)
	defer x.free()
	if !ok || !s.named(c, r) {
		return
	}
	read := func(m *Model, body []byte) (*table.Batch, inferred, error) {
		return readMessage(m, body[prefixLength:], s.rows(m))
	}
	x.answer(body, read, func(_ http.ResponseWriter, a scored) {
		if !moved(c, r, a.m) {
			c.send(a.appendMessage(make([]byte, prefixLength, 256+10*len(a.predictions))))
		}
	})
}
