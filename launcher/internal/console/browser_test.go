//go:build browser

package console

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/page/pagetest"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

var (
	axe   = flag.String("axe", "", "axe.min.js of axe-core")
	shots = flag.String("shots", "", "folder for pictures")
)

// serve has a console listen until the test ends, and returns its host.
func serve(t *testing.T, c *Console) string {
	t.Helper()
	l, hosts, err := Listen(t.Context(), "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx, l, hosts) }()
	t.Cleanup(func() { stop(); <-served })
	return hosts[0]
}

// An open page of a running sweep renews itself, and keeps what its reader has set.
func TestBrowserLive(t *testing.T) {
	bucket, p, trials := night(t, 6)
	c := New(bucket, blob.Memory(), blob.Memory(), time.Now, quiet)
	c.sweeps.limit.SetLimit(1000)
	host := serve(t, c)
	url := "http://" + host + "/"
	page := pagetest.Start(t).Open(url, 1280, 900)
	page.Eval("document.querySelector('main a').click()", nil)
	page.Until("location.pathname === '/sweeps/night-1' && document.getElementById('live')?.textContent === 'live'")
	page.Eval("(() => { const s = document.getElementById('top'); s.value = '5'; s.dispatchEvent(new "+
		"Event('change', {bubbles: true})); })()", nil)

	for i := range 3 {
		o := sweep.Object{Name: sweep.Names(p.Sweep).Attempt(i, 0) + "x"}
		done := sweep.Result{Format: 1, Sweep: p.Sweep, Trial: i, Task: i, Status: sweep.StatusDone, Score: 0.7 +
			float64(i)/100, Model: &o, Scores: &sweep.Scored{Calib: o, Test: o},
			Started: planned, Ended: planned.Add(time.Duration(i+1) * time.Minute)}
		if _, err := trials.CreateResult(t.Context(), done); err != nil {
			t.Fatal(err)
		}
	}
	page.Until("document.querySelectorAll('#objective-trials [data-t]').length === 3")
	if top := page.Text("document.getElementById('top').value + ' ' + location.hash"); top != "5 #top=5" {
		t.Errorf("after news the filter is %q, expected what the reader had set", top)
	}
	conclude(t, bucket, p)
	page.Until("document.getElementById('live').textContent === 'ended' && document.body.textContent.includes('None " +
		"met the requirements')")
	if e := page.Errors(url); len(e) > 0 {
		t.Errorf("the page said or asked: %q", e)
	}
}

// TestBrowserExplain: a reader pastes a row, reads what each feature adds, and what is wrong with another one; nothing
// leaves for elsewhere.
func TestBrowserExplain(t *testing.T) {
	host := serve(t, explaining(t))
	url := "http://" + host + "/models/ctr"
	page := pagetest.Start(t).Open(url, 1280, 900)
	paste := func(row string) {
		page.Eval(fmt.Sprintf("document.getElementById('row').value = %q; document.getElementById('explain').click()", row),
			nil)
	}
	paste("ad price,site\n9,a")
	page.Until("document.querySelectorAll('#explained tbody tr').length === 2")
	if got := page.Text("document.querySelector('#explained tbody tr').textContent"); !strings.HasPrefix(got, "ad price9+") {
		t.Errorf("the first line is %q, want that a price of 9 adds the most", got)
	}
	if wide := page.Number("document.querySelector('#explained .adds').offsetWidth"); wide != 140 {
		t.Errorf("its bar is %v pixels wide, want 140", wide)
	}
	page.Eval("document.getElementById('row').scrollIntoView()", nil)
	if *shots != "" {
		page.Shot(filepath.Join(*shots, "15-explain.png"))
	}
	if found := page.Axe(*axe); len(found) > 0 {
		t.Errorf("axe-core, with a row explained: %q", found)
	}
	if e := page.Errors("http://" + host + "/"); len(e) > 0 {
		t.Errorf("the page said or asked: %q", e)
	}
	page.Eval("window.fetch = async () => new Response(JSON.stringify({prediction: '+Inf', raw: 800, expected: 0, "+
		"features: [{name: 'ad price', value: '9', shap: 800}]}))", nil)
	paste("ad price,site\n9,a")
	page.Until("document.getElementById('explain-said').textContent.startsWith('Predicted +Inf. The raw score 800')")
	page.Go("about:blank")
	page.Go(url)
	paste("site\na") // the browser itself notes the refusal
	page.Until("document.getElementById('explain-said').textContent.includes('ad price')")
}

// A reader promotes a version: the button is there only where the console acts, and nothing is sent before name and
// token are typed.
func TestBrowserAction(t *testing.T) {
	bucket, _, _ := night(t, 1)
	models, reg := twoVersions(t)
	c := New(bucket, blob.Memory(), models, time.Now, quiet)
	c.Actions = Actions{Token: token, Do: func(ctx context.Context, a Action) (string, error) {
		_, err := reg.Promote(ctx, a.Name, a.Version, registry.Expect{Version: a.Champion},
			registry.Act{By: "ann", Why: a.Why, At: planned})
		return "moved", err
	}}
	host := serve(t, c)
	url := "http://" + host + "/models/ctr"
	page := pagetest.Start(t).Open(url, 1280, 900)
	page.Until("document.querySelectorAll('#acts button').length === 2")
	page.Eval("document.querySelector('[data-act=promote]').click()", nil)
	const ready = "!document.querySelector('#act button').disabled"
	typed := func(field int, text string) {
		page.Eval(fmt.Sprintf("(() => { const e = document.querySelectorAll('#act input')[%d]; e.value = %q; "+
			"e.dispatchEvent(new Event('input', {bubbles: true})); })()", field, text), nil)
	}
	for _, step := range []struct {
		field int
		text  string
		ready bool
	}{{0, "the ranking team agreed", false}, {1, "ctr@1", false}, {2, token, false}, {1, "ctr@2", true}} {
		typed(step.field, step.text)
		if got := page.Text("String(" + ready + ")"); got != strconv.FormatBool(step.ready) {
			t.Errorf("after %q in field %d the button is ready: %s, expected %t", step.text, step.field, got,
				step.ready)
		}
	}
	if *shots != "" {
		page.Shot(filepath.Join(*shots, "14-action.png"))
	}
	if found := page.Axe(*axe); len(found) > 0 {
		t.Errorf("axe-core, with the dialog: %q", found)
	}
	page.Eval("document.querySelector('#act button').click()", nil)
	page.Until("document.querySelector('#act [role=status]').textContent === 'Done: moved\\n'")
	page.Eval("document.querySelectorAll('#act button')[1].click()", nil)
	page.Until("document.body.textContent.includes('Version 2 is live') && !document.getElementById('act')")
	if a, err := reg.Alias(t.Context(), "ctr", registry.Champion); err != nil || a.Version != 2 ||
		a.Last.Why != "the ranking team agreed" {
		t.Errorf("the champion is %+v, error %v; expected version 2, with the reason", a, err)
	}
	if e := page.Errors(url, "http://"+host+"/actions"); len(e) > 0 {
		t.Errorf("the page said or asked: %q", e)
	}
}
