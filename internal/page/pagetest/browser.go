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

// Start starts a browser that ends with the test. It fails the test if no browser is installed. The protocol runs over
// two pipes, which the browser finds as its file descriptors 3 and 4.
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
		t.Fatalf("make the browser's profile: %v", err)
	}
	fromUs, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatalf("make a pipe to the browser: %v", err)
	}
	fromBrowser, toUs, err := os.Pipe()
	if err != nil {
		t.Fatalf("make a pipe from the browser: %v", err)
	}

	cmd := exec.CommandContext(t.Context(), path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update",
		"--no-first-run", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, toUs}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	fromUs.Close() // the browser has copies of both; with ours open, the end of one would never be read
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

// read reads the browser's messages, each of which ends with a zero byte, until the pipe is closed. An answer goes to
// the call that waits for it (see ask), and an event to the page that it is about.
func (b *Browser) read(from *os.File) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue // a call that waits for it fails after patience
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

// call calls a method of the protocol and decodes its result into result, if that is not nil. The test fails if the
// browser refuses.
func (b *Browser) call(session, method string, params, result any) {
	b.t.Helper()
	if refused := b.ask(session, method, params, result); refused != "" {
		b.t.Fatalf("the browser refuses %s: %s", method, refused)
	}
}

// ask calls a method of the protocol in a session ("" for the browser itself), as call does, but returns the browser's
// message if it refuses, and "" if it does not. The test fails if there is no answer within patience.
func (b *Browser) ask(session, method string, params, result any) (refused string) {
	b.t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		b.t.Fatalf("the parameters of %s cannot be written as JSON: %v", method, err)
	}
	if params == nil {
		text = []byte("{}")
	}

	// The channel is entered before the question is sent, or read could not deliver a quick answer.
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

// Open opens an address in a new page, width by height pixels large, and waits until it has loaded and no longer says
// that it is busy. Below a width of 500 the page is told that it is on a telephone.
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

	// These domains send the events that note looks at.
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

// Go goes to an address and waits until it is there. A new page is at about:blank and complete already, so the address
// is looked at, too.
func (p *Page) Go(url string) {
	p.b.t.Helper()
	p.Call("Page.navigate", map[string]any{"url": url})
	p.Until(fmt.Sprintf("document.readyState === 'complete' && (location.href === 'about:blank') === %t",
		url == "about:blank"))
}

// Eval evaluates an expression of JavaScript in the page, waits for it if it is a promise, and decodes its value into
// the variable that into points to (nil: the value is dropped). The test fails if the expression throws.
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

// Until waits until an expression of JavaScript is true in the page. The test fails if it is not within patience.
func (p *Page) Until(expression string) {
	p.b.t.Helper()
	end := time.Now().Add(patience)

	// The page itself looks every 20 ms and answers within half a second. What throws, since its element is not there
	// yet, is not true; a page that is left meanwhile, for which the browser refuses to wait, is asked again.
	wait := "new Promise(r => { const is = () => { try { return " + expression + " } catch { return false } }, " +
		"end = performance.now() + 500, f = () => is() ? r(true) : performance.now() > end ? r(false) : " +
		"setTimeout(f, 20); f() })"
	for time.Now().Before(end) {
		var got struct{ Result struct{ Value any } }
		refused := p.b.ask(p.session, "Runtime.evaluate", map[string]any{"expression": wait, "awaitPromise": true,
			"returnByValue": true}, &got)
		if refused == "" && got.Result.Value == true { // the browser refuses if the page is left meanwhile
			return
		}
	}
	p.b.t.Fatalf("it never came to be that %s", expression)
}

// Busy returns for how many milliseconds the page's thread has had a processor since it began. Unlike the time on a
// clock, that does not depend on what else runs on the machine.
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

// Sheets returns how many sheets of paper the page takes when it is printed: the pages of its PDF.
func (p *Page) Sheets() int {
	p.b.t.Helper()
	var pdf struct{ Data []byte }
	p.b.call(p.session, "Page.printToPDF", map[string]any{"preferCSSPageSize": true, "printBackground": true}, &pdf)
	return len(regexp.MustCompile(`/Type\s*/Page\b`).FindAll(pdf.Data, -1))
}

// Shot writes a picture of the visible part of the page to a PNG file. It does nothing if path is empty.
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
		p.b.t.Fatalf("cannot write the picture %s: %v", path, err)
	}
}

// note records what an event of the browser says of requests and errors in the page, for Errors.
func (p *Page) note(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()

	var e struct { // the fields of all events below, of which each has its own
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

// Errors returns the errors and warnings of the page so far, and its requests to anything but addresses that begin with
// own and those inside the page (about:, blob:, data:).
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
