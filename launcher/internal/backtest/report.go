package backtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"coppice/internal/atomicfile"
	"coppice/internal/page"
	"coppice/internal/problem"
)

// Names of a report's files.
const (
	ReportFile = "backtest.json"
	PageFile   = "backtest.html"
)

// Files returns the report as JSON and as a page.
func (r *Results) Files() (text, html []byte, err error) {
	if text, err = json.MarshalIndent(r, "", "  "); err != nil {
		return nil, nil, err
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		return nil, nil, err
	}
	return append(text, '\n'), page.Bytes(), nil
}

// WritePage writes one self-contained HTML file.
func (r *Results) WritePage(w io.Writer) error {
	v, err := r.View()
	if err != nil {
		return err
	}
	return v.Write(w)
}

// unusable is the error about a file that is not a backtest's report.
func unusable(err error) error {
	return problem.Wrap(problem.Damaged, err, "not a backtest.json of `launcher backtest --out`")
}

// MaxReport is how many bytes a report may have.
const MaxReport = 1 << 28

// Decode reads a report. Errors are of kind Damaged.
func Decode(text []byte) (*Results, error) {
	r := &Results{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, unusable(err)
	}
	if _, err := r.View(); err != nil {
		return nil, err
	}
	return r, nil
}

// View returns the report as a page shows it. Contents that no backtest writes are an error of kind
// Damaged.
func (r *Results) View() (*page.Backtest, error) {
	if r.Metric == "" || len(r.Nights) == 0 {
		return nil, unusable(fmt.Errorf("it has %d nights and the metric %q", len(r.Nights), r.Metric))
	}
	for _, n := range r.Nights {
		if err := errors.Join(day(n.Night), day(n.Test)); err != nil {
			return nil, unusable(err)
		}
		for _, s := range r.Rules {
			if n.Rules[s.Name] == nil {
				return nil, unusable(fmt.Errorf("the night of %s has nothing of the rule %q", n.Night, s.Name))
			}
		}
	}
	return &page.Backtest{Metric: r.Metric, Maximize: r.Maximize, From: r.From, To: r.To, Window: r.Window,
		Delay: r.Delay, Rules: r.Rules, Ages: r.Ages, Nights: r.Nights}, nil
}

func day(text string) error {
	_, err := time.Parse(time.DateOnly, text)
	return err
}

// Results is the result of a backtest.
type Results struct {
	Metric   string               `json:"metric"`
	Maximize bool                 `json:"maximize"`
	From     string               `json:"from"`
	To       string               `json:"to"`
	Window   int                  `json:"window"`
	Delay    int                  `json:"delay"`
	Stale    []int                `json:"stale"`
	Gates    []Rule               `json:"gates"`
	Nights   []page.BacktestNight `json:"nights"`

	Rules []page.BacktestRule `json:"rules"`
	Ages  []page.BacktestAge  `json:"ages"`
}

// sum sums up the nights.
func (r *Results) sum() {
	for _, g := range r.Gates {
		s := page.BacktestRule{Name: g.Name}
		for i := range r.Nights {
			d := r.Nights[i].Rules[g.Name]
			s.Mean += d.Value / float64(len(r.Nights))
			if d.True == nil {
				continue
			}
			s.Decisions++
			switch {
			case d.Promoted:
				s.Promotions++
				if d.True.Gain < 0 {
					s.Wrong++
				}
				if d.True.High < 0 {
					s.Surely++
				}
			case d.True.Low > 0:
				s.Missed++
			}
		}
		r.Rules = append(r.Rules, s)
	}

	for _, k := range r.Stale {
		s := page.BacktestAge{Age: k}
		for i := range r.Nights {
			g := r.Nights[i].Stale[k]
			if g == nil {
				continue
			}
			s.Nights++
			s.Mean += g.Gain
			if g.Gain > 0 {
				s.Better++
			}
			if g.Low > 0 {
				s.Surely++
			}
			if g.High < 0 {
				s.Worse++
			}
		}
		if s.Nights > 0 {
			s.Mean /= float64(s.Nights)
		}
		r.Ages = append(r.Ages, s)
	}
}

// WriteFiles writes the result; each file appears atomically.
func (r *Results) WriteFiles(dir string) error {
	text, page, err := r.Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, data := range map[string][]byte{ReportFile: text, PageFile: page} {
		if err := atomicfile.Write(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Join(dir, name), err)
		}
	}
	return nil
}
