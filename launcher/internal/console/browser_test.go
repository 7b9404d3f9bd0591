//go:build browser

package console

import (
	"context"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/page/pagetest"
	"coppice/internal/sweep"
)

// TestBrowserLive: the open page of a running sweep shows new results and the end without being loaded again, and keeps
// the filter that its reader has set.
func TestBrowserLive(t *testing.T) {
	bucket, p, trials := night(t, 6)
	c := New(bucket, blob.Memory(), blob.Memory(), time.Now, quiet)
	c.pause = 20 * time.Millisecond
	l, hosts := must.Get2(Listen(t.Context(), "127.0.0.1:0", ""))(t)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx, l, hosts) }()
	t.Cleanup(func() { stop(); <-served })

	url := "http://" + hosts[0] + "/"
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
		must.Get(trials.CreateResult(t.Context(), done))(t)
	}
	page.Until("document.querySelector('figure[id^=slice-]')?.querySelectorAll('[data-t]').length === 3")
	if top := page.Text("document.getElementById('top').value + ' ' + location.hash"); top != "5 #top=5" {
		t.Errorf("after news the filter is %q, expected what the reader had set", top)
	}
	conclude(t, bucket, p)
	page.Until("document.getElementById('live').textContent === 'ended' && document.body.textContent.includes('None " +
		"met the requirements')")
	if e := page.Errors(url); len(e) > 0 {
		t.Errorf("the page logged or requested %q, want nothing", e)
	}
}
