package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// token is the secret part of an address.
const token = "T000/B000/very-secret"

// server starts an HTTP server that answers with the given statuses, one after the other, and then with the last again
// and again. It returns a URL with the token, and the requests so far: method, path, idempotency key and body.
func server(t *testing.T, statuses ...int) (url string, bodies *[]string) {
	t.Helper()
	var n atomic.Int64
	bodies = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		*bodies = append(*bodies, r.Method+" "+r.URL.Path+" "+r.Header.Get("Idempotency-Key")+" "+string(text))
		status := statuses[min(int(n.Add(1)), len(statuses))-1]
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(status)
		fmt.Fprint(w, "no such hook: ", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/services/" + token, bodies
}

// client returns a webhook to an address that hardly pauses between attempts.
func client(t *testing.T, address, format string) *webhook {
	t.Helper()
	c := must.Get(newWebhook(VerdictsEnv{Webhook: Secret(address), WebhookFormat: format}))(t)
	c.pause = time.Millisecond
	return c
}

var message = VerdictMessage{Format: 1, ID: "sweep/night-1/concluded", Occasion: sweep.OccasionConcluded,
	Verdict: sweep.VerdictNotPromoted,
	Sweep:   "night-1", Model: "ctr", Version: 12, Dataset: "clicks@1a2b3c4d5e6f7a8b",
	Reason: "column <!channel> & `x`: no *gain*", Next: "coppice status night-1"}

// TestSlack: Slack gets one request with the message as a text. Characters of a reason that Slack would take for
// mentions, links or formatting are escaped or replaced.
func TestSlack(t *testing.T) {
	url, bodies := server(t, 200)
	must.Do(t, client(t, url, WebhookSlack).send(t.Context(), &message))
	if len(*bodies) != 1 {
		t.Fatalf("%d requests, want 1: %q", len(*bodies), *bodies)
	}
	head, body, _ := strings.Cut((*bodies)[0], "{")
	if want := "POST /services/" + token + " sweep/night-1/concluded "; head != want {
		t.Errorf("request %q, want %q", head, want)
	}
	var got struct{ Text string }
	must.Do(t, json.Unmarshal([]byte("{"+body), &got))
	want := "*ctr version 12 is not live: not promoted*\ncolumn &lt;!channel&gt; &amp; 'x': no ∗gain∗\n" +
		"sweep night-1, dataset clicks@1a2b3c4d5e6f7a8b\n`coppice status night-1`"
	if got.Text != want {
		t.Errorf("text\n%s\nwant\n%s", got.Text, want)
	}
}

// TestJSONIsTheMessage: a webhook of JSON gets the message as its own fields.
func TestJSONIsTheMessage(t *testing.T) {
	url, bodies := server(t, 204)
	must.Do(t, client(t, url, WebhookJSON).send(t.Context(), &message))
	_, body, _ := strings.Cut((*bodies)[0], "{")
	var m VerdictMessage
	if err := json.Unmarshal([]byte("{"+body), &m); err != nil || !reflect.DeepEqual(m, message) {
		t.Errorf("%s is read back as %+v, error %v; want %+v", body, m, err, message)
	}
}

// TestAgainWhereItHelps: after the statuses 408, 429 and 5xx the request is repeated, after others it is not. The error
// says what was answered, and never contains the address, which is a secret. The server gives the statuses of a case in
// turn, and then the last one again.
func TestAgainWhereItHelps(t *testing.T) {
	for name, tc := range map[string]struct {
		statuses []int
		requests int
		says     string // "" is no error
	}{
		"taken at once":      {[]int{200}, 1, ""},
		"busy, then taken":   {[]int{503, 500, 200}, 3, ""},
		"too many, then one": {[]int{429, 200}, 2, ""},
		"too slow, then not": {[]int{408, 200}, 2, ""},
		"gone":               {[]int{404}, 1, "404 Not Found"},
		"redirected":         {[]int{302}, 1, "redirections are not followed"},
		"refused":            {[]int{503, 403}, 2, "403 Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			url, bodies := server(t, tc.statuses...)
			err := client(t, url, WebhookSlack).send(t.Context(), &message)
			must.Equal(t, len(*bodies), tc.requests, "number of requests")
			must.Say(t, fmt.Sprintf("sending to a server that answers %v", tc.statuses), err, tc.says)
			if err != nil && strings.Contains(err.Error(), token) {
				t.Errorf("the error has the address, want it without: %v", err)
			}
		})
	}
}

// TestTooLongAPause: an answer that asks for an hour's pause, which is longer than all attempts may take, is the last
// one. The error says its status.
func TestTooLongAPause(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	err := client(t, s.URL, WebhookSlack).send(t.Context(), &message)
	if err == nil || !strings.Contains(err.Error(), "503 Service Unavailable") || asked != 1 {
		t.Errorf("%d requests, error %v; want 1 request, and an error that says 503", asked, err)
	}
}

// TestNobodyThere: if the connection is refused, the error says so without the address.
func TestNobodyThere(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c := client(t, s.URL+"/"+token, WebhookJSON)
	err := c.post(t.Context(), "id", []byte("{}"))
	if err == nil || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v; want one that says that the connection was refused, without the address", err)
	}
}

// TestAddressesThatAreRefused: a webhook's address must be an https URL, or an http URL of this machine. The error for
// others does not contain it.
func TestAddressesThatAreRefused(t *testing.T) {
	for address, fine := range map[string]bool{
		"https://hooks.slack.com/services/" + token: true,
		"http://127.0.0.1:8080/" + token:            true,
		"http://localhost/" + token:                 true,
		"http://hooks.slack.com/services/" + token:  false,
		"http://127.0.0.1.example.com/" + token:     false,
		"http://10.0.0.1/" + token:                  false,
		"ftp://example.com/" + token:                false,
		token:                                       false,
		"https://%zz/" + token:                      false,
	} {
		_, err := newWebhook(VerdictsEnv{Webhook: Secret(address), WebhookFormat: WebhookSlack})
		if (err == nil) != fine {
			t.Errorf("%s: got error %v, want it taken: %t", address, err, fine)
		}
		if err != nil && (!problem.Is(err, problem.Environment) || strings.Contains(err.Error(), token)) {
			t.Errorf("%s: %v; expected an error about the environment without the address", address, err)
		}
	}
}

// TestSecretIsNotPrinted: a secret does not appear in JSON, or in what fmt prints of it with any verb.
func TestSecretIsNotPrinted(t *testing.T) {
	env := VerdictsEnv{Webhook: "https://hooks.slack.com/services/hush"}
	text := must.Get(json.Marshal(env))(t)
	for _, shown := range []string{string(text), fmt.Sprint(env), fmt.Sprintf("%+v", env), fmt.Sprintf("%#v", env),
		fmt.Sprintf("%q %s %v %x", env.Webhook, env.Webhook, &env, env.Webhook)} {
		if strings.Contains(shown, "hush") || strings.Contains(shown, "68757368") { // that with %x
			t.Errorf("printed with its secret, want it hidden: %s", shown)
		}
	}
}

// TestVerdictsEnvCheck: the error about wrong settings of a webhook names the variable, or what the address must begin
// with, and does not contain the address. Good settings are no error.
func TestVerdictsEnvCheck(t *testing.T) {
	good := VerdictsEnv{Webhook: "https://example.com/hush", WebhookFormat: "json",
		Verdicts: []string{"blocked"}}
	if err := good.Check(); err != nil {
		t.Errorf("good settings: got error %v, want none", err)
	}
	for name, change := range map[string]func(*VerdictsEnv){
		"COPPICE_WEBHOOK_FORMAT":   func(e *VerdictsEnv) { e.WebhookFormat = "teams" },
		"COPPICE_WEBHOOK_VERDICTS": func(e *VerdictsEnv) { e.Verdicts = []string{"bad"} },
		"https://":                 func(e *VerdictsEnv) { e.Webhook = "http://example.com/hush" },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), name) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("got error %v, want one that names %s and has no address", err, name)
		}
	}
}
