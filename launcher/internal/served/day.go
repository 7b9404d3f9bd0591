package served

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"coppice/internal/atomicfile"
	"coppice/internal/page"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/strictjson"
	"coppice/launcher/internal/predict"
)

// Day is what the page of a model's last hours shows. What labels say of other times than from and until is left out;
// judged may be nil.
func Day(model string, h *Hours, judged *Report, from, until time.Time) *page.Day {
	d := &page.Day{Model: model, AsOf: until,
		Command: fmt.Sprintf("launcher served %s --last %d", model, int(until.Sub(from).Hours()))}
	if h.Unread > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("%s could not be read; the first: %s",
			english.Plural(h.Unread, "object", ""), h.First))
	}
	if h.Crowded > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("More than %d objects are recorded of each of %s: the others are left "+
			"out.", mostServers, english.Plural(h.Crowded, "hour", "")))
	}
	for i := range h.Hours {
		p := &h.Hours[i]
		d.Hours = append(d.Hours, page.DayHour{Begin: p.Begin, Version: p.Version, Servers: p.Servers,
			Requests: p.Requests, Rows: p.Rows, Busy: p.Busy, Refused: p.Refused, Failed: p.Failed, Mean: p.Mean,
			P50: p.P50, P99: p.P99, Findings: p.Findings})
	}
	d.Drifts = drifts(h.Hours)
	other := 0
	for i := range judgedOf(judged) {
		j := &judged.Hours[i]
		if j.Begin.Before(from) || !j.Begin.Before(until) {
			other++
			continue
		}
		d.Judged = append(d.Judged, page.DayJudged{Begin: j.Begin, Segment: j.Segment, Rows: j.Rows, Ratio: j.Ratio,
			Entropy: j.Entropy, Finding: j.Finding})
	}
	if other > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("Labels of %s of other times are left out.",
			english.Plural(other, "hour and segment", "hours and segments")))
	}
	return d
}

// Answer writes the page as an answer of HTTP.
func Answer(w http.ResponseWriter, d *page.Day) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", page.StillPolicy)
	_ = d.Write(w) // the caller may have left
}

func judgedOf(r *Report) []Judged {
	if r == nil {
		return nil
	}
	return r.Hours
}

// mostDrifts is how many shares a page is given, the worst.
const mostDrifts = 200

// drifts are the shares of each version's rows, over all hours, in which a column is missing, unseen or rare: those
// with the most findings first, then those that are the most above the usual one.
func drifts(hours []Past) []page.DayDrift {
	type key struct{ version, column, what string }
	sums, rows := map[key]*page.DayDrift{}, map[key]float64{}
	var out []*page.DayDrift
	for i := range hours {
		h := &hours[i]
		add := func(column, what string, s *predict.Share) {
			if s == nil {
				return
			}
			k := key{h.Version, column, what}
			d := sums[k]
			if d == nil {
				d = &page.DayDrift{Column: column, What: what, Version: h.Version, Usual: math.NaN(), Low: s.Now,
					High: s.Now}
				if s.Usual != nil {
					d.Usual = *s.Usual
				}
				sums[k], out = d, append(out, d)
			}
			n := float64(h.in.Rows)
			d.Now, rows[k] = (d.Now*rows[k]+s.Now*n)/max(rows[k]+n, 1), rows[k]+n
			d.Low, d.High = min(d.Low, s.Now), max(d.High, s.Now)
			if s.High {
				d.Off++
			}
		}
		for j := range h.Inputs {
			in := &h.Inputs[j]
			add(in.Column, "missing", &in.Missing)
			add(in.Column, "unseen", in.Unseen)
			add(in.Column, "rare", in.Rare)
		}
	}
	more := func(d *page.DayDrift) float64 {
		if math.IsNaN(d.Usual) {
			return math.Inf(-1) // last: a page is to know of one that was compared
		}
		return d.Now - d.Usual
	}
	slices.SortStableFunc(out, func(a, b *page.DayDrift) int {
		return cmp.Or(cmp.Compare(b.Off, a.Off), cmp.Compare(more(b), more(a)))
	})
	var worst []page.DayDrift
	for _, d := range out[:min(len(out), mostDrifts)] {
		worst = append(worst, *d)
	}
	return worst
}

// Page says where the hours are written as a page, and what labels say of them.
type Page struct {
	file, judged string
}

// AddFlags adds the flags of a command that writes the page.
func (q *Page) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&q.file, "html", "", "file to write, a page of these hours")
	cmd.Flags().StringVar(&q.judged, "judged", "", "file that watch-labels --json has printed, for the page")
}

// Check rejects flags that contradict each other, and a file that cannot be written.
func (q *Page) Check() error {
	if q.file == "" && q.judged != "" {
		return program.Usagef("--judged is for --html")
	}
	if q.file == "" {
		return nil
	}
	return program.CheckOutFile("--html", q.file)
}

// Write writes the page of the last whole hours, if one is wanted.
func (q *Page) Write(model string, h *Hours, last int, now time.Time) error {
	if q.file == "" {
		return nil
	}
	var judged *Report
	if q.judged != "" {
		var err error
		if judged, err = readReport(q.judged); err != nil {
			return err
		}
	}
	until := now.UTC().Truncate(time.Hour)
	var text bytes.Buffer
	if err := Day(model, h, judged, until.Add(-time.Duration(last)*time.Hour), until).Write(&text); err != nil {
		return err
	}
	return atomicfile.Write(q.file, text.Bytes(), 0o644)
}

// mostReport is how many bytes a report of watch-labels may have: 200,000 hours and segments have about 60 MB.
const mostReport = 128 << 20

func readReport(path string) (*Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostReport+1))
	if err != nil {
		return nil, err
	}
	r, err := decodeReport(text)
	if err != nil {
		return nil, problem.Wrap(problem.Input, err, "%s is not what `launcher watch-labels --json` prints", path)
	}
	return r, nil
}

// decodeReport reads a report; numbers that Run does not write are refused.
func decodeReport(text []byte) (*Report, error) {
	if len(text) > mostReport {
		return nil, fmt.Errorf("more than %d bytes", mostReport)
	}
	r := &Report{}
	if err := strictjson.Decode(text, r); err != nil {
		return nil, err
	}
	if len(r.Hours) > mostCells {
		return nil, fmt.Errorf("more than %d hours and segments", mostCells)
	}
	for i := range r.Hours {
		h := &r.Hours[i]
		if h.Rows < 0 || !(h.Ratio >= 0) || !(h.Entropy >= 0) || !h.Begin.Truncate(time.Hour).Equal(h.Begin) {
			return nil, fmt.Errorf("hours[%d]: a negative number, or half an hour", i)
		}
	}
	return r, nil
}
