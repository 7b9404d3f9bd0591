// Package pagetest drives a browser for tests: Chromium without a window, over the pipe of its DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol/). It knows the dozen methods that looking at a page needs.
package pagetest

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Browser is a running Chromium.
type Browser struct {
	Now time.Time // the time that pages see which are opened next; the real one if zero

	t     *testing.T
	write *os.File

	mu      sync.Mutex
	last    int
	answers map[int]chan message
	pages   map[string]*Page // by session
}

// Page is an open page, with what it did that it should not have.
type Page struct {
	b       *Browser
	session string

	mu       sync.Mutex
	requests []string
	errors   []string
}

// message is one of the protocol.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

const patience = time.Minute // for an answer; a loaded machine starts slowly

// Start starts a browser that ends with the test.
func Start(t *testing.T) *Browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Fatal("there is no browser to test with: apt-get install chromium")
	}
	//nolint:usetesting // what is left of the browser may write into it for a moment longer
	profile, err := os.MkdirTemp("", "pagetest")
	if err != nil {
		t.Fatal(err)
	}
	fromUs, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update",
		"--no-first-run", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, toUs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromUs.Close()
	toUs.Close()
	b := &Browser{t: t, write: toBrowser, answers: map[int]chan message{}, pages: map[string]*Page{}}
	go b.read(fromBrowser)
	t.Cleanup(func() {
		toBrowser.Close() // which ends it, as the end of the test's context does
		_ = cmd.Wait()    // its exit code is nobody's business
		_ = os.RemoveAll(profile)
	})
	return b
}

// read hands out what the browser says.
func (b *Browser) read(from *os.File) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}

		b.mu.Lock()
		answer, page := b.answers[m.ID], b.pages[m.Session]
		delete(b.answers, m.ID)
		b.mu.Unlock()

		switch {
		case m.ID != 0 && answer != nil:
			answer <- m
		case page != nil:
			page.note(m)
		}
	}
}

// call calls a method and decodes its result.
func (b *Browser) call(session, method string, params, result any) {
	b.t.Helper()
	if refused := b.ask(session, method, params, result); refused != "" {
		b.t.Fatalf("the browser refuses %s: %s", method, refused)
	}
}

// ask is call; it says why the browser refuses.
func (b *Browser) ask(session, method string, params, result any) (refused string) {
	b.t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	if params == nil {
		text = []byte("{}")
	}

	b.mu.Lock()
	b.last++
	m := message{ID: b.last, Session: session, Method: method, Params: text}
	answer := make(chan message, 1)
	b.answers[m.ID] = answer
	line, err := json.Marshal(m)
	if err == nil {
		_, err = b.write.Write(append(line, 0))
	}
	b.mu.Unlock()
	if err != nil {
		b.t.Fatalf("asking the browser for %s: %v", method, err)
	}

	select {
	case got := <-answer:
		if got.Error != nil {
			return got.Error.Message
		}
		if result != nil {
			if err := json.Unmarshal(got.Result, result); err != nil {
				b.t.Fatalf("the browser's answer to %s: %v", method, err)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("%s: the browser gave no answer", method)
	}
	return ""
}

// Open opens an address in a window of a size, and waits until it is there.
func (b *Browser) Open(url string, width, height int) *Page {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &Page{b: b, session: attached.SessionID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()

	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.Call(domain+".enable", nil)
	}
	if !b.Now.IsZero() {
		p.Call("Page.addScriptToEvaluateOnNewDocument", map[string]any{
			"source": fmt.Sprintf("Date.now = () => %d", b.Now.UnixMilli())})
	}
	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": width < 500})
	p.Go(url)
	p.Until("!document.querySelector('main[aria-busy=true]')")
	return p
}

// Call calls a method of the page.
func (p *Page) Call(method string, params any) {
	p.b.t.Helper()
	p.b.call(p.session, method, params, nil)
}

// Go goes to an address and waits until it is there.
func (p *Page) Go(url string) {
	p.b.t.Helper()
	p.Call("Page.navigate", map[string]any{"url": url})
	p.Until(fmt.Sprintf("document.readyState === 'complete' && (location.href === 'about:blank') === %t",
		url == "about:blank"))
}

// Eval is the value of an expression, which may be a promise.
func (p *Page) Eval(expression string, into any) {
	p.b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}

	p.b.call(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true,
		"returnByValue": true}, &got)
	if e := got.ExceptionDetails; e != nil {
		p.b.t.Fatalf("evaluating %.200s in the page: %s %s", expression, e.Text, e.Exception.Description)
	}

	if into == nil {
		return
	}
	if err := json.Unmarshal(got.Result.Value, into); err != nil {
		p.b.t.Fatalf("the value of %.200s: %v", expression, err)
	}
}

// Number is the value of an expression that is a number.
func (p *Page) Number(expression string) (v float64) {
	p.b.t.Helper()
	p.Eval(expression, &v)
	return v
}

// Text is the value of an expression that is a text.
func (p *Page) Text(expression string) (v string) {
	p.b.t.Helper()
	p.Eval(expression, &v)
	return v
}

// Until waits until an expression is true.
func (p *Page) Until(expression string) {
	p.b.t.Helper()
	end := time.Now().Add(patience)
	wait := "new Promise(r => { const f = () => (" + expression +
		") ? r(true) : performance.now() - t > 500 ? r(false) : setTimeout(f, 20); const t = performance.now(); f(); })"
	for time.Now().Before(end) {
		var got struct{ Result struct{ Value any } }
		refused := p.b.ask(p.session, "Runtime.evaluate", map[string]any{"expression": wait, "awaitPromise": true,
			"returnByValue": true}, &got)
		if refused == "" && got.Result.Value == true { // it refuses where the page is left meanwhile
			return
		}
	}
	p.b.t.Fatalf("it never came to be that %s", expression)
}

// Busy is for how many milliseconds the page has had a processor: what it does takes as long where nothing else runs.
func (p *Page) Busy() float64 {
	p.b.t.Helper()
	var got struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	p.Call("Performance.enable", map[string]string{"timeDomain": "threadTicks"})
	p.b.call(p.session, "Performance.getMetrics", nil, &got)
	for _, m := range got.Metrics {
		if m.Name == "TaskDuration" {
			return 1000 * m.Value
		}
	}
	p.b.t.Fatal("the browser does not say how busy it is")
	return 0
}

// Sheets is how many sheets of paper the page takes.
func (p *Page) Sheets() int {
	p.b.t.Helper()
	var pdf struct{ Data []byte }
	p.b.call(p.session, "Page.printToPDF", map[string]any{"preferCSSPageSize": true, "printBackground": true}, &pdf)
	return len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(pdf.Data, -1))
}

// Shot writes what is to be seen as a PNG; nothing where path is empty.
func (p *Page) Shot(path string) {
	p.b.t.Helper()
	if path == "" {
		return
	}
	var shot struct{ Data string }
	p.b.call(p.session, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		p.b.t.Fatal(err)
	}
}

// note takes down what an event of the browser says of requests and errors, for the test to look at.
func (p *Page) note(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()

	var e struct {
		Request          struct{ URL string }
		Type             string
		Entry            struct{ Level, Text string }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if json.Unmarshal(m.Params, &e) != nil {
		return
	}

	switch m.Method {
	case "Network.requestWillBeSent":
		p.requests = append(p.requests, e.Request.URL)
	case "Runtime.exceptionThrown":
		p.errors = append(p.errors, e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.errors = append(p.errors, e.Entry.Text)
		}
	case "Runtime.consoleAPICalled":
		if e.Type == "error" || e.Type == "warning" {
			p.errors = append(p.errors, string(m.Params))
		}
	case "Page.javascriptDialogOpening":
		p.errors = append(p.errors, "a dialog: "+string(m.Params))
	}
}

// Errors are what the page has said of errors, and requests for anything that does not begin with own.
func (p *Page) Errors(own string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := append([]string(nil), p.errors...)
next:
	for _, r := range p.requests {
		for _, a := range []string{own, "about:", "blob:", "data:"} {
			if strings.HasPrefix(r, a) {
				continue next
			}
		}
		out = append(out, fmt.Sprintf("a request for %.200s", r))
	}
	return out
}
