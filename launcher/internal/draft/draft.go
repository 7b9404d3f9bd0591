// Package draft writes the two specs that a table implies, dataset.yaml and sweep.yaml, for a person who has written
// none. They say what the label means, how rows are split and what is searched. The package decides nothing that a spec
// could not say, and reports why it decided; whoever disagrees saves the specs and edits them.
//
//	Request      what the person has said, as flags
//	readTable    the first rows of all columns, and all rows of some (look.go)
//	decideLabel  what the label means, and the objective; chooseSplit, listDropped, listIDs: the other decisions
//	Draft        the specs, and a Finding for each decision
package draft

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// Request is a table, and what a person has said about it. Only Sources and Label are needed.
type Request struct {
	Sources []string // files, globs or folders
	// Files are those of Sources on this machine; nil if Sources are on this machine.
	Files       []table.File
	Label       string         // column to predict
	Positive    string         // its value that means yes; empty if not given
	Objective   string         // how it is learnt, such as poisson or quantile@0.5; by default as its values suggest
	Weight      string         // column of row weights
	Name        string         // of dataset, model and sweep; by default after the first file
	Time        string         // column by which to split
	Key         string         // column whose rows stay together
	Group       string         // column whose rows are ordered, such as a query
	Parts       string         // column that says train, valid, calib or test of each row; or splitRandom
	Missing     []string       // texts that stand for a missing value, too
	Format      []string       // COLUMN=FORMAT: how its texts are read
	DateFormat  dataset.Format // order of day and month where the dates of a column do not tell
	Drop        []string       // columns that are not features
	Categorical []string       // columns of numbers that are names
	Metric      string         // by which trials are judged; by default the objective's
	ParamsFile  string         // file of parameters that every trial has
	NoHeader    bool           // the first line of text is data
	Trials      int            // 0 for as many as fit Limit
	Limit       time.Duration  // for the whole sweep
	Seed        int
	Cores       int // of this machine

	// What Make finds in the fields above, and in the table.
	said       dataset.Formats // Format by column
	argument   string          // what follows @ in Objective, as a parameter for sweep.yaml
	given      map[string]any  // parameters of ParamsFile, by canonical names
	rounds     string          // rounds of early stopping that ParamsFile gives; empty if none
	values     []string        // columns that Metric needs
	numbered   []string        // ids that are whole numbers and stay features as numbers, too
	regression bool            // the label is a number, whatever its values
}

// Draft is the two specs, as YAML, and what was decided in them.
type Draft struct {
	Name    string // of dataset, model and sweep
	Dataset []byte // dataset.yaml
	Sweep   []byte // sweep.yaml
	Rows    int64  // of the table
	Found   []Finding

	sweep   func(trials int) []byte // writes sweep.yaml with so many trials
	splitBy string                  // the column that splits the rows; empty if none does
	byTime  bool                    // it is a time
}

// Finding is a decision that a person is told: what it is about, and what was decided and why.
type Finding struct {
	About string `json:"about"`
	Text  string `json:"text"`
}

// found adds a finding.
func (d *Draft) found(about, format string, args ...any) {
	d.Found = append(d.Found, Finding{about, fmt.Sprintf(format, args...)})
}

// Make looks at a table and writes its specs. Errors about the table are of kind Input, those about what was asked for
// of kind Usage.
func Make(ctx context.Context, q Request) (*Draft, error) {
	// What was asked for, checked as far as that goes without the table.
	d := &Draft{}
	if err := d.setParams(&q); err != nil {
		return nil, err
	}
	var asked metric.Metric
	if q.Metric != "" {
		var err error
		if asked, err = metric.Lookup(q.Metric); err != nil {
			return nil, problem.Wrap(problem.Usage, err, "--metric")
		}
		q.values = asked.Columns()
	}
	if err := q.setObjective(); err != nil {
		return nil, err
	}
	if err := q.setGroup(); err != nil {
		return nil, err
	}
	if err := q.parseFormats(); err != nil {
		return nil, err
	}

	// Read the table.
	s, err := readTable(ctx, q)
	if err != nil {
		return nil, err
	}
	// readTable has a copy of q. What it made of these flags, such as the columns in a list with commas, is in s.
	q.Drop, q.Categorical = s.drop, s.categorical
	d.Name, d.Rows = cmp.Or(q.Name, nameOf(q.Sources[0])), s.rows
	if text := s.reading.Open[q.Label]; text != "" {
		return nil, problem.New(problem.Input, "--label %s: %s", q.Label, text)
	}
	if len(s.label.numbers) == 0 && q.Positive == "" && !q.wantsClasses() && s.column(q.Label).isTime() {
		return nil, problem.New(problem.Input, "--label %s: the column holds times: to predict when, write a number, "+
			"such as the days until then", q.Label)
	}

	// The decisions, in an order in which each may depend on those before.
	label, objective, err := d.decideLabel(q, &s.label)
	if err != nil {
		return nil, err
	}
	// Without --metric, asked is empty, and the error of its check says nothing.
	if err := asked.CheckObjective(objective); asked.Name != "" && err != nil {
		return nil, problem.Wrap(problem.Usage, err, "--metric")
	}
	if slices.Contains(q.Drop, q.Label) {
		return nil, problem.New(problem.Usage, "--drop %s: it is the label, and never a feature", q.Label)
	}
	split, err := d.chooseSplit(q, s, gbt.Classes(objective))
	if err != nil {
		return nil, err
	}
	drop := d.listDropped(q, s)
	q.Categorical, q.numbered = d.listIDs(q, s, drop, objective)

	// A format that --date-format has decided has to be in the spec.
	for name, f := range s.reading.Formats {
		if f == q.DateFormat {
			q.said[name] = f
		}
	}

	// Write the specs.
	d.Dataset = d.writeDatasetSpec(q, label, split, drop)
	// d.sweep is kept, as WithTrials may write the sweep anew.
	d.sweep = func(trials int) []byte { return d.writeSweepSpec(q, objective, trials, s) }
	fitting := int(math.Round(trialsPerMinute * q.Limit.Minutes()))
	d.Sweep = d.sweep(cmp.Or(q.Trials, min(max(fitting, leastTrials), mostTrials)))
	return d, nil
}

// WithTrials writes the sweep anew with n trials, and returns it parsed.
func (d *Draft) WithTrials(n int) (*sweep.Spec, error) {
	d.Sweep = d.sweep(n)
	return sweep.ParseSpec("the sweep.yaml of --save-specs", d.Sweep, plan.Vocabulary())
}

// decideLabel decides what the label means. It returns the value of label in dataset.yaml, and the objective. An error
// says why nothing can be learnt from the label, and what to do.
func (d *Draft) decideLabel(q Request, l *labels) (spec, objective string, err error) {
	column := quoted(q.Label)
	fail := func(format string, args ...any) error {
		return problem.New(problem.Input, "--label %s: %s", q.Label, fmt.Sprintf(format, args...))
	}
	blank := "" // added to errors: where only yes is written, missing values mean no
	if l.missing > 0 {
		blank = fmt.Sprintf("; %s rows without a value are left out: if that means no, write it there",
			humanize.Comma(l.missing))
	}

	// binary reports the positive class, value, which so many rows have. It is an error if either class has too few.
	binary := func(value, why string, rows int64) error {
		d.found("label", "%s: positive class %s (%s of %s rows)%s", q.Label, value, percent(rows, l.present),
			humanize.Comma(l.present), why)
		if rarer := min(rows, l.present-rows); rarer < leastOfClass {
			return fail("the rarer class has %d of %s rows, and at least %d are needed: one each to train, choose, "+
				"calibrate and judge%s", rarer, humanize.Comma(l.present), leastOfClass, blank)
		}
		return nil
	}
	defer func() {
		if err == nil && l.missing > 0 {
			rows := english.PluralWord(int(l.missing), "row", "")
			d.found("left out", "%s %s without a label", humanize.Comma(l.missing), rows)
		}
	}()

	// The cases are in order of precedence: first what was asked for, then what the values are.
	values := len(l.numbers) + len(l.texts)
	switch {
	case l.present+l.missing == 0:
		return "", "", fail("the table has a header, and no row below it")
	case l.present == 0:
		return "", "", fail("the column has no value in any row")
	case q.Positive != "":
		if l.named == 0 {
			return "", "", fail("no row has --positive %s; the column holds %s", q.Positive, l.listValues())
		}
		why := "" // a value beyond two may mean that nobody knows yet
		if values > 2 {
			why = fmt.Sprintf("; %s count as negative (--missing VALUE leaves its rows out)",
				l.listValuesBut(q.Positive))
		}
		return fmt.Sprintf("{column: %s, positive: %s}", column, quoted(q.Positive)),
			cmp.Or(q.Objective, binaryObjective), binary(q.Positive, why, l.named)
	case q.regression && len(l.texts) > 0:
		return "", "", fail("a number is to be predicted, and the column holds %s", l.listValues())
	case q.Group != "":
		spec, err = d.decideGrades(q, l)
		return spec, q.Objective, err
	case values == 1:
		return "", "", fail("every row has the same value, %s: there is nothing to predict%s", l.listValues(), blank)
	// A regression of two values or more, of which none is a text: declareNumber, after the cases, has it.
	case q.regression:
	case values > 2 && q.judgesTwoClasses():
		return "", "", fail("the column holds %s, and %s judges two classes: name the one that means yes with "+
			"--positive", l.listValues(), q.Metric)
	case len(l.texts) > 0 && values > 2 || q.wantsClasses():
		spec, err = d.declareClasses(q, l)
		return spec, cmp.Or(q.Objective, "multiclass"), err
	// Both values are numbers, 0 and 1. The spec needs no positive class: 1 is it by default.
	case len(l.texts) == 0 && values == 2 && l.numbers[0] > 0 && l.numbers[1] > 0:
		return column, binaryObjective, binary("1", "", l.numbers[1])
	case values == 2:
		yes, why := l.decidePositive()
		return fmt.Sprintf("{column: %s, positive: %s}", column, quoted(yes)), binaryObjective,
			binary(yes, why, l.rowsWith(yes))
	}
	return d.declareNumber(q, l), cmp.Or(q.Objective, "regression"), nil
}

// declareNumber reports that numbers are predicted, and returns the spec's value of label.
func (d *Draft) declareNumber(q Request, l *labels) (spec string) {
	classes := ""
	if len(l.numbers)+len(l.texts) <= maxClasses && !q.regression {
		classes = fmt.Sprintf("; it holds only %s: --objective multiclass predicts which, --positive one of them",
			l.listValues())
	}
	how := ""
	if q.Objective != "" {
		how = fmt.Sprintf(" by objective %s%s, and judged by %s", q.Objective, q.argument, q.Metric)
	}
	d.found("label", "%s: a number is predicted%s (%s rows)%s", q.Label, how, humanize.Comma(l.present), classes)
	return fmt.Sprintf("{column: %s, kind: regression}", quoted(q.Label))
}

// declareClasses reports that classes are predicted, and returns the spec's value of label. Values that are likely
// mistakes are errors: a few texts among many numbers, classes of one row (of more than two), and classes that differ
// in case alone. If classes were asked for, only too many of them are an error.
func (d *Draft) declareClasses(q Request, l *labels) (spec string, err error) {
	values, texts := len(l.numbers)+len(l.texts), slices.Sorted(maps.Keys(l.texts))
	// At most three texts, so that the message can name them all.
	if !q.wantsClasses() && len(texts) <= 3 && len(l.numbers) > maxClasses {
		return "", problem.New(problem.Input, "--label %s: the column holds numbers, and %s: correct it, or leave "+
			"such rows out with --missing %s", q.Label, strings.Join(texts, ", "), strings.Join(texts, " --missing "))
	}
	if values > dataset.MaxClasses {
		return "", problem.New(problem.Input, "--label %s: the column holds more than %d different values (%s): group "+
			"them, or name the one that means yes with --positive", q.Label, dataset.MaxClasses, l.listValues())
	}

	// Classes of a single row.
	// once lists them; it is nil if there are none.
	once := l.uniqueValues()
	few := strings.Join(once[:min(len(once), 3)], ", ") + " is the label of one row"
	if len(once) > 1 {
		few = fmt.Sprintf("%d values are the label of one row each", len(once))
	}
	if values > 2 && once != nil && !q.wantsClasses() {
		return "", problem.New(problem.Input, "--label %s: %s, from which nothing can be learnt: leave out with "+
			"--missing %s, or name the value that means yes with --positive", q.Label, few,
			strings.Join(once, " --missing "))
	}

	// Classes that differ in case alone.
	folded := map[string]string{}
	for _, text := range texts {
		lower := strings.ToLower(text)
		other, twice := folded[lower]
		folded[lower] = text
		if twice && !q.wantsClasses() {
			return "", problem.New(problem.Input, "--label %s: %q and %q differ in case alone: write them in one way, "+
				"or let them be two classes with --objective multiclass", q.Label, other, text)
		}
	}
	d.found("label", "%s: one of %d classes is predicted, %s (%s rows)", q.Label, values, l.listValues(),
		humanize.Comma(l.present))
	if once != nil { // classes were asked for
		d.found("label", "%s, from which nothing can be learnt", few)
	}
	return fmt.Sprintf("{column: %s, kind: classes}", quoted(q.Label)), nil
}

const binaryObjective = "binary"

// ofTwoClasses reports whether a metric judges two classes only: it does not fit regression. It is asked only where
// metrics of several classes have been ruled out, which do not fit it either.
func ofTwoClasses(name string) bool {
	m, err := metric.Lookup(name)
	return err == nil && m.CheckObjective("regression") != nil
}

// wantsClasses reports whether the objective or the metric that was asked for says that the label's values are classes.
func (q *Request) wantsClasses() bool {
	return gbt.Classes(q.Objective) || q.Metric != "" && ofSeveralClasses(q.Metric)
}

// ofSeveralClasses reports whether a metric judges several classes.
func ofSeveralClasses(name string) bool {
	m, err := metric.Lookup(name)
	return err == nil && m.Kind == metric.Classes
}

// minTimes is the least number of different times by which rows are split.
const minTimes = 10

// A column found by its name is a key if it has enough values, and rows repeat them.
const (
	minKeys    = 20  // least different values: each split needs some
	minRepeats = 1.2 // least rows per value on average: if values hardly repeat, no rows have to stay together
)

// chooseSplit decides which rows train, choose and judge, and returns the value of split in dataset.yaml. What --split
// says comes first. If there is a time, rows are split by it, since what is predicted lies ahead. Otherwise rows of a
// group or of a key stay together, since they are alike. Otherwise rows are split at random; few rows class by class,
// so that each split has some of each. Where --split random asks for it, only a rare class is a reason to do so: of any
// other class each split has rows anyway. classes says that the label has several classes.
func (d *Draft) chooseSplit(q Request, s *seen, classes bool) (string, error) {
	// The word random asks for a split at random, unless a column is called that.
	random := q.Parts == splitRandom && s.column(splitRandom) == nil
	if random {
		q.Parts = ""
	}
	if err := s.checkSplit(q, random); err != nil {
		return "", err
	}

	// A column says the split of each row.
	if q.Parts != "" {
		d.splitBy = q.Parts
		d.found("split", "as column %s says", q.Parts)
		return fmt.Sprintf("{by: column, column: %s}", quoted(q.Parts)), nil
	}

	// The shares. A small part of few rows may be without a row, or without one of a rare class, and either is an
	// error. So only two parts are written then, and the plan takes calib and test out of valid. With many rows,
	// smaller shares suffice.
	parts, rarest := "train: 0.7, valid: 0.1, calib: 0.1, test: 0.1", s.label.rarest(classes)
	few := s.label.present < fewRows || rarest < fewOfClass
	switch {
	case few:
		parts = "train: 0.6, valid: 0.4"
	case s.rows > largeRows:
		parts = "train: 0.85, valid: 0.05, calib: 0.05, test: 0.05"
	}

	byClasses, classWise := s.byClasses(q, rarest)
	if random {
		if rarest < fewOfClass {
			d.found("split", "at random%s, as asked for", classWise)
			return byClasses, nil
		}
		d.found("split", "at random, as asked for")
		return fmt.Sprintf("{by: random, seed: %d, %s}", max(1, q.Seed), parts), nil
	}

	// By time.
	c, times, err := s.byTime(q)
	if err != nil {
		return "", err
	}
	if len(times) > 1 {
		d.found("times", "%s: by which are the rows split? Name it with --time", strings.Join(times, ", "))
	}
	if c != nil {
		if c.missing > 0 && q.Time != "" {
			return "", problem.New(problem.Input, "--time %s: %s rows have no time", c.Name, humanize.Comma(c.missing))
		}
		d.splitBy, d.byTime = c.Name, true
		d.found("split", "by time (%s): evaluated on the newest rows", c.Name)
		return fmt.Sprintf("{by: time, column: %s, %s}", quoted(c.Name), parts), nil
	}

	// By query, or by key.
	if q.Group != "" && q.Key == "" {
		d.splitBy = q.Group
		return fmt.Sprintf("{by: hash, key: %s, %s}", quoted(q.Group), d.queryParts(q, s)), nil
	}
	if c := s.keyColumn(q); c != nil {
		d.splitBy = c.Name
		d.found("split", "by %s: its rows stay together (%s values), and it is no feature, which is right if later "+
			"rows have others; --split random makes it one", c.Name, humanize.Comma(c.distinct.n()))
		return fmt.Sprintf("{by: hash, key: %s, %s}", quoted(c.Name), parts), nil
	}

	// At random, with few rows class by class.
	why := s.whyAtRandom(q, times)
	if few {
		d.found("split", "at random%s, since %s", classWise, why)
		return byClasses, nil
	}
	d.found("split", "at random, since %s", why)
	return fmt.Sprintf("{by: random, seed: %d, %s}", max(1, q.Seed), parts), nil
}

// byClasses returns the value of split that divides rows class by class, and how that is said. Each part then has its
// share of each class for certain, so that few rows make four parts, too. rarest is the number of rows of the rarest
// class or, if the label has no classes, of all rows: these are divided like those of one class, and nothing is said.
func (s *seen) byClasses(q Request, rarest int64) (split, said string) {
	split = fmt.Sprintf("{by: classes, seed: %d, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}", max(1, q.Seed))
	if rarest == s.label.present {
		return split, ""
	}
	return split, fmt.Sprintf(", class by class (the rarest has %s rows)", humanize.Comma(rarest))
}

// whyAtRandom says why rows are split neither by time nor by a key. times are the columns of times between which byTime
// could not decide. A column that is named like a time, but cannot be used as one, is the more helpful reason; of
// several, the last in the table. Otherwise columns that may be a time or a key, which no name tells for certain, are
// named with their flags, since rows of one year or one person are alike.
func (s *seen) whyAtRandom(q Request, times []string) string {
	if len(times) > 1 {
		return "it is not clear which is the row's time"
	}
	why, may := "", []string{"", ""}
	for _, c := range s.columns {
		switch {
		case c.Name == q.Label || c.Name == q.Weight || slices.Contains(q.Drop, c.Name):
		case namedTime(c.Name) && c.isTime() && c.missing == 1:
			why = "1 row has no time in " + c.Name + ": mend it or take it out, and the newest rows judge"
		case namedTime(c.Name) && c.isTime() && c.missing > 0:
			why = fmt.Sprintf("%s rows have no time in %s", humanize.Comma(c.missing), c.Name)
		case namedTime(c.Name) && !c.isTime() && c.mayCountTime():
			why = fmt.Sprintf("%s holds numbers: if they are times, newer rows should judge, with --time %[1]s", c.Name)
		case namedPeriod(c.Name) && !c.texts && !c.isTime() && c.lo < c.hi:
			may[0] = fmt.Sprintf(" --time %s, if later rows are predicted;", c.Name)
		case ingest.NamedID(c.Name) && c.repeats():
			may[1] = fmt.Sprintf(" --key %s, if rows with others are;", c.Name)
		}
	}
	if said := strings.TrimSuffix(may[0]+may[1], ";"); why == "" && said != "" {
		return "no column is known to be the time or the key of rows: consider" + said
	}
	return cmp.Or(why, "no time column or repeated ID was found (set --time or --key)")
}

// repeats reports whether the column has enough values, and rows repeat them. From maxCounted on, values are no longer
// counted, so that it is not known how often they repeat.
func (c *column) repeats() bool {
	n := c.distinct.n()
	return n >= minKeys && n < maxCounted && float64(c.present) >= minRepeats*float64(n)
}

// splitRandom is the value of --split that does not name a column.
const splitRandom = "random"

// keyColumn returns the column whose rows stay together: the one asked for, else the first that is named like a key and
// repeats its values, unless it is the label, or a flag says that it is a feature or dropped. It returns nil if there
// is none.
func (s *seen) keyColumn(q Request) *column {
	if q.Key != "" {
		return s.column(q.Key)
	}
	for _, c := range s.columns {
		asked := c.Name == q.Label || slices.Contains(q.Categorical, c.Name) || slices.Contains(q.Drop, c.Name)
		if !asked && c.repeats() && mayBeKey(c.Name) {
			return c
		}
	}
	return nil
}

// suggestColumn returns the end of a message about an unknown column: which column may be meant, other than except.
// Columns named like __index_level_0__, which programs add, are not suggested.
func (s *seen) suggestColumn(name, except string) string {
	var names []string
	for _, c := range s.columns {
		if c.Name != except && !strings.HasPrefix(c.Name, "__") {
			names = append(names, c.Name)
		}
	}
	return table.Suggest(name, names)
}

// listDropped returns the columns that are no features: those asked for, and those that cannot be read, which it
// reports.
func (d *Draft) listDropped(q Request, s *seen) []string {
	drop := slices.Clone(q.Drop)
	for _, c := range s.columns {
		if c.Unreadable != "" && c.Name != q.Label && !slices.Contains(drop, c.Name) {
			drop = append(drop, c.Name)
			d.found("left out", "column %s is %s", c.Name, c.Unreadable)
		}
	}
	return drop
}

// largeRows is the number of rows above which smaller shares suffice to choose and to judge.
const largeRows = 2_000_000
