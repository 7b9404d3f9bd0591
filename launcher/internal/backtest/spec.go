// Package backtest replays past nights: each is trained as it would have been, only on rows that existed by then, and
// is evaluated on the next day. It shows the effect of a window, a delay, a configuration or a gate rule.
package backtest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// Config is a backtest.yaml. Lengths are in days.
type Config struct {
	Dataset string `yaml:"dataset"` // the dataset.yaml; its split is replaced by days
	Time    string `yaml:"time"`    // column; defaults to the one that the dataset is split by
	From    string `yaml:"from"`    // the first night; it knows this day's rows
	To      string `yaml:"to"`      // the last night

	Window int `yaml:"window"` // days of rows that a night knows
	Delay  int `yaml:"delay"`  // days between the last day that a night knows and the night
	Valid  int `yaml:"valid"`  // last days of the window before calib and test: for early stopping and selection
	Calib  int `yaml:"calib"`  // last days before test: for calibration
	Test   int `yaml:"test"`   // the last days: for comparison with the champion

	Metric     string           `yaml:"metric"`
	Seed       uint64           `yaml:"seed"`
	Params     map[string]any   `yaml:"params"`
	Candidates []map[string]any `yaml:"candidates"` // overrides of params; the best on valid is the night's model
	// If n > 0, every n-th night starts from nothing and the others continue the previous model.
	WarmStart int `yaml:"warm_start"`
	// Final, if not nil, trains the night's configuration again on all days that the night knows, as a sweep does. Left
	// out, it is so without warm_start.
	Final *sweep.Final `yaml:"final"`

	Stale []int  `yaml:"stale"` // ages of models to compare with
	Gates []Rule `yaml:"gates"`

	from, to int // days since 1970
	params   []gbt.Params
	metric   metric.Metric
	doc      *strictyaml.Document
}

// Rule is a rule for replacing the champion.
type Rule struct {
	Name string `yaml:"name"       json:"name"`
	// MinGain is the required gain on the night's test rows.
	MinGain float64 `yaml:"min_gain"   json:"min_gain"`
	// Confidence, if set, requires that the whole interval of the gain is above MinGain.
	Confidence float64 `yaml:"confidence" json:"confidence,omitempty"`
	// Margin, if set, promotes unless the gain is worse by more than that (metric.Comparison.WorseBy), as a sweep's
	// gate does.
	Margin float64 `yaml:"margin"     json:"margin,omitempty"`
	// Always promotes every night's model.
	Always bool `yaml:"always"     json:"always,omitempty"`
}

// Limits on a backtest.
const (
	maxNights = 1000
	maxDays   = 1000
)

// ParseSpec reads a backtest.yaml. Errors are *strictyaml.Error.
func ParseSpec(file string, text []byte) (*Config, error) {
	s := &Config{Window: 28, Valid: 1, Calib: 1, Test: 1, Metric: "log_loss"}
	doc, err := strictyaml.Decode(file, text, s)
	if err != nil {
		return nil, err
	}

	s.doc = doc
	if !doc.Has("stale") {
		s.Stale = []int{7}
	}
	if !doc.Has("gates") {
		s.Gates = []Rule{{Name: "every night", Always: true}, {Name: "any gain"},
			{Name: "beyond chance", Confidence: 0.95}}
	}

	for _, check := range []func() error{s.checkDays, s.checkModel, s.checkRules} {
		if err := check(); err != nil {
			return nil, err
		}
	}

	return s, nil
}

func (s *Config) checkDays() error {
	if s.Dataset == "" {
		return s.doc.Errorf("dataset", "dataset is missing: name the dataset.yaml")
	}
	for _, d := range []struct {
		key, text string
		to        *int
	}{{"from", s.From, &s.from}, {"to", s.To, &s.to}} {
		t, err := time.Parse(time.DateOnly, d.text)
		if err != nil {
			return s.doc.Errorf(d.key, "%s is %q: give a day such as 2026-11-18", d.key, d.text)
		}
		*d.to = int(t.Unix() / (24 * 60 * 60))
	}
	if n := s.to - s.from + 1; n < 1 || n > maxNights {
		return s.doc.Errorf("to", "%s to %s is %d nights: use 1 to %d", s.From, s.To, n, maxNights)
	}

	for _, d := range []struct {
		key        string
		value, min int
	}{{"window", s.Window, 2}, {"delay", s.Delay, 0}, {"valid", s.Valid, 1}, {"calib", s.Calib, 1},
		{"test", s.Test, 1}} {
		if d.value < d.min || d.value > maxDays {
			return s.doc.Errorf(d.key, "%s is %d: use %d to %d days", d.key, d.value, d.min, maxDays)
		}
	}
	if held := s.Valid + s.Calib + s.Test; held >= s.Window {
		return s.doc.Errorf("window",
			"window is %d days, but valid, calib and test take %d of them: nothing is left to train on", s.Window, held)
	}
	return nil
}

func (s *Config) checkModel() error {
	var err error
	if s.metric, err = metric.Lookup(s.Metric); err != nil {
		return s.doc.Errorf("metric", "%v", err)
	}
	switch {
	case s.Final == nil && s.WarmStart == 0:
		s.Final = &sweep.Final{Rows: sweep.FinalAll}
	case s.Final == nil || s.Final.Rows == sweep.FinalTrain:
		s.Final = nil
	case s.Final.Rows != sweep.FinalAll:
		return s.doc.Errorf("final.rows", "rows is %.40q: use %s or %s", s.Final.Rows, sweep.FinalAll, sweep.FinalTrain)
	case s.WarmStart > 0:
		return s.doc.Errorf("final", "final cannot be combined with warm_start; take one of them out")
	}

	candidates := s.Candidates
	if len(candidates) == 0 {
		candidates = []map[string]any{{}}
	}
	for i, c := range candidates {
		all := map[string]any{}
		for at, values := range map[string]map[string]any{"params": s.Params, fmt.Sprintf("candidates[%d]", i): c} {
			for _, name := range slices.Sorted(maps.Keys(values)) {
				canonical := gbt.CanonicalName(name)
				if err := gbt.CheckParam(canonical, values[name]); err != nil {
					return s.doc.Errorf(at+"."+name, "%v", err)
				}
			}
		}
		for _, values := range []map[string]any{s.Params, c} {
			for name, v := range values {
				all[gbt.CanonicalName(name)] = v
			}
		}
		if _, ok := all["seed"]; !ok && s.Seed > 0 {
			all["seed"] = s.Seed
		}
		p, err := gbt.ParseParams(all)
		if err != nil {
			return s.doc.Errorf("params", "%v", err)
		}
		if err := s.metric.CheckObjective(p.Objective); err != nil {
			return s.doc.Errorf("metric", "%v", err)
		}
		s.params = append(s.params, p)
	}
	return nil
}

func (s *Config) checkRules() error {
	for i, k := range s.Stale {
		if k < 1 || k > maxNights {
			return s.doc.Errorf(fmt.Sprintf("stale[%d]", i), "stale is %d: use 1 to %d days", k, maxNights)
		}
	}
	s.Stale = append(s.Stale, 1) // the previous night's
	slices.Sort(s.Stale)
	s.Stale = slices.Compact(s.Stale)

	if s.WarmStart != 0 && (s.WarmStart < 2 || s.WarmStart > maxNights) || s.WarmStart == 0 && s.doc.Has("warm_start") {
		return s.doc.Errorf("warm_start",
			"warm_start is %d: it is the number of nights after which one starts from scratch; use 2 to %d, or "+
				"leave it out", s.WarmStart, maxNights)
	}

	names := map[string]bool{}
	for i, g := range s.Gates {
		at := fmt.Sprintf("gates[%d]", i)
		switch {
		case g.Name == "" || len(g.Name) > 60:
			return s.doc.Errorf(at, "give the rule a name of up to 60 characters")
		case names[g.Name]:
			return s.doc.Errorf(at, "there are two rules called %q", g.Name)
		case s.doc.Has(at+".confidence") && !(g.Confidence > 0.5 && g.Confidence < 1):
			return s.doc.Errorf(at, "confidence is %v: use a share above 0.5 and below 1, such as 0.95", g.Confidence)
		case s.doc.Has(at+".margin") && !(g.Margin > 0 && !g.Always && g.MinGain == 0):
			return s.doc.Errorf(at, "margin is %v: use a number above 0, in the metric's units, without min_gain and "+
				"always", g.Margin)
		}
		names[g.Name] = true
	}
	if len(s.Gates) == 0 {
		return s.doc.Errorf("gates", "give at least one rule")
	}
	return nil
}

// checkDelay makes sure that a night uses no label that was not final by then: rows are dated by day here, so the delay
// is rounded up to days.
func (s *Config) checkDelay(l *dataset.LabelSpec) error {
	days := int((time.Duration(l.Matures) + 24*time.Hour - 1) / (24 * time.Hour))
	if s.doc != nil && !s.doc.Has("delay") {
		s.Delay = days
	}
	if s.Delay < days {
		return s.doc.Errorf("delay",
			"delay is %d, but according to the dataset's label.matures labels are final only after %d days: use %d "+
				"or more, or leave it out", s.Delay, days, days)
	}
	return nil
}

// warm reports whether a night continues the previous night's model.
func (s *Config) warm(night int) bool { return s.WarmStart > 0 && (night-s.from)%s.WarmStart != 0 }

// days returns the rows that a night knows: its last day, and the first days of valid, calib and test.
func (s *Config) days(night int) (first, valid, calib, test, last int) {
	last = night - s.Delay
	test = last - s.Test + 1
	calib = test - s.Calib
	valid = calib - s.Valid
	return last - s.Window + 1, valid, calib, test, last
}

// dayName is a day as people and files call it.
func dayName(day int) string {
	return time.Unix(int64(day)*24*60*60, 0).UTC().Format(time.DateOnly)
}

// Specs holds a backtest.yaml and the dataset.yaml that it names, with their texts.
type Specs struct {
	File, TableFile string
	Text, TableText []byte
	Spec            *Config
	Table           *dataset.Spec
}

// ReadSpecs reads a backtest.yaml and the dataset.yaml beside it.
func ReadSpecs(file string) (b *Specs, err error) {
	b = &Specs{File: file}
	if b.Text, err = strictyaml.ReadFile(file); err != nil {
		return nil, err
	}
	if b.Spec, err = ParseSpec(file, b.Text); err != nil {
		return nil, err
	}

	// As for stage, paths in a spec are relative to its folder.
	b.TableFile = b.Spec.Dataset
	if !filepath.IsAbs(b.TableFile) {
		b.TableFile = filepath.Join(filepath.Dir(file), b.TableFile)
	}
	if b.TableText, err = strictyaml.ReadFile(b.TableFile); err != nil {
		return nil, err
	}
	b.Table, err = dataset.ParseSpec(b.TableFile, b.TableText)
	return b, err
}
