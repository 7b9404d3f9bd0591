package ingest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
)

// columnSurvey is what the first pass learns about one feature's column.
type columnSurvey struct {
	feature feature
	markers *cell.Markers
	sample  store

	part   *cell.PartReader
	hashes []uint64
	levels *encode.DistinctCount // of a column that may be categorical; nil if the count is not needed
	rows   int64                 // rows observed
	told   int64                 // rows whose levels were counted: fewer if the first ones did not show categories

	missing int64 // missing values
	present int64 // all other values
	nans    int64 // texts that spell NaN or a marker's number in another way: missing if the column holds numbers
	spelt   int64 // texts that spell a marker's number in another way, as an id: missing if the column holds categories
	numbers extent
	times   extent
	big     bool // there is a whole number beyond 2^53

	// Forms of the texts in an untyped column. Once they can no longer be numbers or times, they are not parsed.
	saw       [cell.FormTime + 1]int64
	decided   bool
	odd       map[string]int64 // texts in another form than most, up to a few more than a message lists
	tooLarge  string           // a number that no float64 holds, such as 1e999: a missing value
	exponents int64            // digits and an exponent, such as 623049e6: an id, unless numbers have fractions
	fractions bool
	declared  int64 // numbers in a column that the table declares as texts; -1 once another text is met
	notNum    error // the first text that is not a number, if the spec says that there are only numbers
}

// extent is a range of numbers.
type extent struct{ min, max float64 }

func newExtent() extent { return extent{math.Inf(1), math.Inf(-1)} }

func (e *extent) add(value float64) {
	e.min, e.max = min(e.min, value), max(e.max, value)
}

// newColumnSurvey returns an empty survey of a column. Values among markers are missing.
func newColumnSurvey(from feature, markers *cell.Markers) *columnSurvey {
	return &columnSurvey{feature: from, markers: markers, numbers: newExtent(), times: newExtent(),
		levels: encode.NewDistinct()}
}

// observe counts the values of a batch's column, and copies those of the rows in sample.
func (s *columnSurvey) observe(batch *table.Batch, values *dataset.Values, sample []chosen) {
	switch values.Type {
	case dataset.Text:
		s.observeTexts(batch, values)
	case dataset.Float:
		s.observeFloats(values)
	default:
		s.observeInts(values)
	}

	s.rows += int64(values.Len())
	if s.categorical() {
		s.countLevels(values)
		// A text longer than a category may be is never a category. The sample keeps a short stand-in for it, which
		// suffices to tell it from others.
		s.sample.longest = dataset.MaxCategory
	}

	s.sample.copyChosen(values, sample)
}

// countLevels counts the distinct values of a batch's column, by their hashes; s.levels samples them if there are many.
// It does nothing for a column that cannot get statistics.
func (s *columnSurvey) countLevels(values *dataset.Values) {
	if s.levels == nil {
		return
	}
	if s.part == nil {
		s.part = cell.NewPartReader(dataset.Part{Column: s.feature.column.Name, Kind: dataset.Categorical}, s.markers)
	}

	s.told += int64(values.Len())
	s.hashes = dataset.Resize(s.hashes, values.Len())
	s.part.Texts(values, s.hashes)

	for _, h := range s.hashes {
		if s.levels.Wants(h) {
			s.levels.Add(h, 0, 1)
		}
	}
}

// exactLevels returns the exact number of distinct values, a missing one included. It returns 0 if the number is only
// an estimate, or if the first rows were not counted.
func (s *columnSurvey) exactLevels() int {
	if s.levels == nil || s.told != s.rows || !s.levels.All() {
		return 0
	}
	return s.levels.Levels(1)
}

// categorical reports whether it is already certain that the column holds categories.
func (s *columnSurvey) categorical() bool {
	if s.feature.forced != "" {
		return s.feature.forced == dataset.Categorical
	}
	return s.feature.texts || s.decided || s.feature.column.Dictionary || s.feature.column.Type == dataset.Text &&
		!s.feature.column.Untyped
}

// observeFloats counts missing and present numbers, and widens the range of numbers. It counts in local variables,
// which is faster, since it runs for every cell of a table.
func (s *columnSurvey) observeFloats(values *dataset.Values) {
	lo, hi, absent := s.numbers.min, s.numbers.max, int64(0)
	check := len(s.markers.Numbers) > 0

	for _, x := range values.Float {
		if x != x || check && s.markers.HasNumber(x) {
			absent++
			continue
		}

		if x < lo {
			lo = x
		}
		if x > hi {
			hi = x
		}
	}

	s.numbers = extent{lo, hi}
	s.missing += absent
	s.present += int64(len(values.Float)) - absent
}

// observeInts does the same as observeFloats for whole numbers, truth values and times. It notes whole numbers beyond
// 2^53: as float64, different ones can be equal, so such a column is read as categories.
func (s *columnSurvey) observeInts(values *dataset.Values) {
	check := values.Null != nil || len(s.markers.Numbers) > 0
	for i, n := range values.Int {
		if check && cell.Missing(values, i, s.markers) {
			s.missing++
			continue
		}

		s.present++
		if values.Type == dataset.Time {
			s.times.add(dataset.Seconds(values.Unit.Split(n)))
			continue
		}

		if n > dataset.MaxExact || n < -dataset.MaxExact {
			s.big = true
		}
		s.numbers.add(float64(n))
	}
}

// observeTexts counts missing and present texts. Until the column's kind is decided it also parses each text, to see
// whether it is a number or a time. Afterwards it parses only as long as the odd texts are few enough for a warning
// (see watches).
func (s *columnSurvey) observeTexts(batch *table.Batch, values *dataset.Values) {
	// Which texts are parsed: all if the spec says that they are numbers, else those of a file without types, such as
	// CSV. Texts that the table declares as texts may be times, but are no numbers: some program wrote ids as texts.
	c := &s.feature.column
	parse := s.feature.forced == dataset.Numeric || s.feature.forced == "" && (c.Untyped || !s.feature.texts &&
		!c.Dictionary)
	spelt := len(s.markers.Numbers) > 0
	for i, text := range values.Text {
		if values.IsNull(i) || s.markers.Has(text) {
			s.missing++
			continue
		}
		if spelt && s.markers.Spelt(text) {
			s.spelt++
		}
		if !c.Untyped && s.declared >= 0 && s.declared < mostDeclared && s.feature.forced == "" {
			s.declare(text)
		}
		if !parse || s.decided {
			s.present++
			if parse && s.watches() {
				s.countForm(text, s.formOf(text))
			}
			continue
		}
		s.observeText(batch, i, text)
	}
}

// declare notes whether a text is a number, in a column that the table declares as texts. s.declared counts the
// numbers, and becomes -1, for good, at the first other text.
func (s *columnSurvey) declare(text string) {
	x, f := cell.ParseNumber(text)
	s.declared++
	if f != cell.FormNumber {
		s.declared = -1
	}
	s.fractions = s.fractions || x != math.Trunc(x)
}

// observeText parses a present text, value i of a batch, of a column that may yet hold numbers or times. It counts the
// text's form, and widens the range of numbers or times. It sets s.decided once some text is neither a number nor a
// time, or once both occur, as the column then holds categories.
func (s *columnSurvey) observeText(batch *table.Batch, i int, text string) {
	// Parse the text as a number. If the spec forces numbers, text that is none is an error, kept for conclude.
	x, f := 0.0, cell.FormText
	if s.feature.column.Untyped || s.feature.forced != "" {
		x, f = cell.ParseNumber(text)
	}
	if s.feature.forced == dataset.Numeric {
		if f == cell.FormText {
			var ok bool
			if x, ok = cell.ParseForced(text); !ok {
				s.notNum = batch.ErrorAt(i, s.feature.column.Name,
					"%.40q is not a number, though the spec lists the column under `numeric`; add the text to "+
						"`missing` or take the column off the list", text)
				s.decided = true
				return
			}
		}
		f = cell.FormNumber
	}

	// Take note of its value: a time, a number that stands for a missing value, or a number.
	if f == cell.FormText {
		if sec, nsec, ok := cell.ParseTime(text); ok {
			f = cell.FormTime
			s.times.add(dataset.Seconds(sec, nsec))
		}
	} else if x != x || s.markers.HasNumber(x) {
		s.nans++
		s.present-- // with the increment below it is not counted: buildFeature decides whether it is missing
		if x != x && strings.ContainsAny(text, "0123456789") {
			s.tooLarge = strings.Clone(text)
		}
	} else {
		s.numbers.add(x)
	}

	// Count its form. Digits with an exponent may be an id such as 623049e6; byForms decides that at the end.
	s.present++
	if f == cell.FormDigits && strings.ContainsAny(text, "eE") {
		s.exponents, f = s.exponents+1, cell.FormNumber
	}
	s.fractions = s.fractions || f == cell.FormNumber && x != math.Trunc(x)
	s.countForm(text, f)
	s.decided = s.saw[cell.FormText]+s.saw[cell.FormDigits]+s.saw[cell.FormBig] > 0 || s.saw[cell.FormTime] > 0 &&
		s.saw[cell.FormNumber] > 0
}

// formOf returns the form of a text in a column that is known to hold categories.
func (s *columnSurvey) formOf(text string) cell.Form {
	f := cell.FormText
	if s.feature.column.Untyped {
		_, f = cell.ParseNumber(text)
	}
	if _, _, ok := cell.ParseTime(text); ok && f == cell.FormText {
		f = cell.FormTime
	}
	return f
}

// countForm counts a text by its form, and keeps the text if it is odd: of another form than most.
func (s *columnSurvey) countForm(text string, form cell.Form) {
	s.saw[form]++
	usual, _ := s.usualForm()
	if form != usual {
		if s.odd == nil {
			s.odd = map[string]int64{}
		}
		countUpTo(s.odd, strings.Clone(cell.Trim(text)), maxOdd+1)
	}
}

// usualForm returns the form that most texts have, which is numbers unless there are more times, and how many texts
// have another one.
func (s *columnSurvey) usualForm() (f cell.Form, odd int64) {
	for _, n := range s.saw {
		odd += n
	}
	f = cell.FormNumber
	if s.saw[cell.FormTime] > s.saw[f] {
		f = cell.FormTime
	}
	return f, odd - s.saw[f]
}

const (
	maxOdd   = 3   // most odd texts that a warning lists
	oddShare = 0.1 // most odd texts, as a share of all, for them to be likely mistakes among numbers
	oddRows  = 20  // least texts for that share to mean something

	// In a column that the table declares as texts, this many texts are tried as numbers: trying all would cost time.
	mostDeclared = 10_000
)

// watches reports whether the forms of further texts have to be counted: whether it may still turn out that all but a
// few texts are numbers, or times. That is so as long as few texts are odd, or all odd ones are the same text.
func (s *columnSurvey) watches() bool {
	f, odd := s.usualForm()
	return float64(odd) <= oddShare*float64(odd+s.saw[f])+oddRows || len(s.odd) == 1 && odd <= s.saw[f]
}

// warnOfOdd warns of texts that are likely mistakes: numbers beyond the largest, infinite ones, numbers that the table
// declares as texts, and a few odd texts among numbers or times, which make the column one of categories.
func (s *columnSurvey) warnOfOdd(warn func(code, format string, args ...any)) {
	if s.tooLarge != "" {
		warn(WarnOdd, "%.40q is beyond the largest number, 1.8e308: such values are missing", s.tooLarge)
	}
	if math.IsInf(s.numbers.min, -1) || math.IsInf(s.numbers.max, 1) {
		warn(WarnOdd, "infinite values count as the largest or the least number, ±1.8e308; if they stand for missing "+
			"values, list inf and -inf under missing: (--missing)")
	}
	if c := s.feature.column; s.declared >= oddRows && s.fractions && c.Format == "" && !s.feature.texts {
		warn(WarnOdd, "the first %d values are numbers, but the table declares them as texts: they are categories; "+
			"--format %s=number reads them as numbers", s.declared, c.Name)
		return
	}

	// Odd texts are likely mistakes if they are few, or all the same, such as a marker of missing values.
	f, odd := s.usualForm()
	all := odd + s.saw[f]
	// If there are many different numbers, a single text among them is a marker, however often it occurs.
	// exactLevels is 0 if there are too many values to count.
	single := len(s.odd) == 1 && odd <= s.saw[f] && (s.exactLevels() == 0 || s.exactLevels() > oddRows)
	if text := s.measured(); all >= oddRows && s.feature.forced == "" && text != "" {
		warn(WarnOdd, "texts such as %.40q hold numbers that are not read, since of what stands beside a number only "+
			"currencies, %% and k, M, G, T are known: write the numbers alone", text)
		return
	}
	share := oddShare
	if odd > s.saw[cell.FormText] { // postal codes of which a tenth begin with 0 are no mistakes
		share /= 2
	}
	if s.feature.forced != "" || odd == 0 || all < oddRows || float64(odd) > share*float64(all) && !single {
		return
	}

	var texts []string
	for _, text := range slices.Sorted(maps.Keys(s.odd)) {
		texts = append(texts, fmt.Sprintf("%.40q", text))
	}
	if len(texts) > maxOdd {
		texts = append(texts[:maxOdd], "...")
	}
	what := "numbers"
	if f == cell.FormTime {
		what = "times"
	}
	warn(WarnOdd, "%.4g %% of the values are %s, all others are %s: the column is read as texts; if they stand for "+
		"missing values, list them under missing: (--missing), else mend them", 100*float64(s.saw[f])/float64(all),
		what, strings.Join(texts, ", "))
}

// kind returns the column's kind and why it has it: from its contents, unless the spec asks for categories. It is valid
// after the first pass.
func (s *columnSurvey) kind() (dataset.Kind, dataset.Why, error) {
	kind, why, err := s.conclude()
	if err == nil && s.feature.texts && kind != dataset.Categorical {
		return dataset.Categorical, dataset.WhyForced, nil
	}
	return kind, why, err
}

// conclude derives the column's kind from its contents, and says why it has it. What the spec forces comes first, then
// the table's own type. Texts are decided by their forms. The error is that of the first text that is not a number, if
// the spec forces numbers.
func (s *columnSurvey) conclude() (dataset.Kind, dataset.Why, error) {
	c := s.feature.column
	switch {
	case s.notNum != nil:
		return "", "", s.notNum
	case s.feature.forced == dataset.Numeric && c.Type == dataset.Time:
		return dataset.Temporal, dataset.WhyForced, nil
	case s.feature.forced != "":
		return s.feature.forced, dataset.WhyForced, nil
	case c.Dictionary && c.Type != dataset.Text:
		return dataset.Categorical, dataset.WhyDictionary, nil
	case s.present == 0 && c.Untyped: // a column without any value is one of missing numbers
		return dataset.Numeric, dataset.WhyEmpty, nil
	case c.Type == dataset.Text && !c.Untyped && (s.present == 0 || s.decided || c.Dictionary || s.feature.texts):
		return dataset.Categorical, dataset.WhyType, nil
	case c.Type == dataset.Time && c.Format != "": // texts that Recognise has read as dates
		return dataset.Temporal, dataset.WhyTimes, nil
	case c.Format != "": // texts that it has read as numbers
		return dataset.Numeric, dataset.WhyNumbers, nil
	case c.Type == dataset.Time:
		return dataset.Temporal, dataset.WhyType, nil
	case c.Type != dataset.Text && s.big:
		return dataset.Categorical, dataset.WhyBig, nil
	case c.Type != dataset.Text:
		return dataset.Numeric, dataset.WhyType, nil
	}
	kind, why := s.byForms()
	return kind, why, nil
}

// byForms derives the kind of a column of texts from their forms: numbers, or times, if all texts are. Digits that no
// number is written as, such as 007, make all of them ids.
func (s *columnSurvey) byForms() (dataset.Kind, dataset.Why) {
	numbers := s.saw[cell.FormNumber] + s.saw[cell.FormDigits] + s.saw[cell.FormBig]
	switch {
	case s.saw[cell.FormText] > 0, s.saw[cell.FormTime] > 0 && numbers > 0:
		return dataset.Categorical, dataset.WhyText
	case s.saw[cell.FormTime] > 0:
		return dataset.Temporal, dataset.WhyTimes
	case s.saw[cell.FormDigits] > 0, s.exponents > 0 && !s.fractions:
		return dataset.Categorical, dataset.WhyDigits
	case s.saw[cell.FormBig] > 0:
		return dataset.Categorical, dataset.WhyBig
	}
	return dataset.Numeric, dataset.WhyNumbers
}

// built is a feature made from the sampled rows, with further facts about the sample.
type built struct {
	dataset.Feature
	different int              // distinct values in the sample
	present   int              // present values in the sample
	whole     bool             // all sampled numbers are whole
	numbers   []float64        // the sampled numbers, unless categorical
	code      *code            // among the numbers; nil if there is none
	second    *dataset.Feature // with the categories that have no bin in the first; nil unless the spec asks for levels
}

// builder holds memory that is reused for one feature after another. One goroutine uses it at a time.
type builder struct {
	floats, numbers []float64
	ints            []int64
	null            []bool
	counter         cell.Counter
	folds           folded
}

// gather returns the numbers of values at the given places. They lie in b's memory and are valid until the next call.
// Texts are not copied: those of a column are in repackTexts.
func (b *builder) gather(values *dataset.Values, places []int32) *dataset.Values {
	out := &dataset.Values{Type: values.Type, Unit: values.Unit}
	if values.Float != nil {
		b.floats = dataset.PickInto(values.Float, places, b.floats)
		out.Float = b.floats
	}
	if values.Int != nil {
		b.ints = dataset.PickInto(values.Int, places, b.ints)
		out.Int = b.ints
	}
	if values.Null != nil {
		b.null = dataset.PickInto(values.Null, places, b.null)
		out.Null = b.null
	}

	return out
}

// buildFeature makes the feature of a column after the first pass: its kind, its bins from the values of the sampled
// rows, and the rest of the manifest's entry. It is called once, as it adds to s.missing the texts that are missing
// values only in a column of this kind. An error says that the column does not hold what the spec says.
func (s *columnSurvey) buildFeature(spec *dataset.Spec, sample *dataset.Values, scratch *builder) (*built, error) {
	kind, why, err := s.kind()
	if err != nil {
		return nil, err
	}

	// See the fields nans and spelt.
	switch kind {
	case dataset.Numeric:
		s.missing += s.nans
	case dataset.Categorical:
		s.missing += s.spelt
	}

	f := &built{Feature: dataset.Feature{Name: s.feature.column.Name, Kind: kind, Why: why, MissingBin: -1,
		OtherBin: -1, Missing: s.missing, From: s.feature.from}}
	if f.From != nil {
		f.Why = dataset.WhyDerived
	}

	// room is the most bins for values: a bin for missing ones comes last, if there are any.
	room := spec.MaxBin
	if s.missing > 0 {
		room--
	}

	// Categories get a bin each, the most frequent first, and all others share the bin after those.
	if kind == dataset.Categorical {
		counts := cell.CountTexts(sample, s.markers)
		f.different = len(counts)
		for _, n := range counts {
			f.present += int(n)
		}
		f.Categories, f.Counts = cell.MostFrequent(counts, room-1) // one bin is for all others
		f.OtherBin = len(f.Categories)
		f.Bins = f.OtherBin + 1
		if spec.Encodings.Columns[f.Name].Has(dataset.EncodeLevels) {
			f.second = s.nextLevels(f, counts, room-1)
		}
	} else if err := s.makeBins(f, sample, room, scratch); err != nil {
		return nil, err
	}

	if s.missing > 0 {
		f.MissingBin, f.Bins = f.Bins, f.Bins+1
	}
	return f, nil
}

// nextLevels returns a second feature for the categories that have no bin in the first one, nil if all have. It removes
// the first's categories from counts, which holds rows by category. room is the most categories.
func (s *columnSurvey) nextLevels(first *built, counts map[string]int64, room int) *dataset.Feature {
	for _, category := range first.Categories {
		delete(counts, category)
	}

	part := dataset.Part{Column: first.Name, Kind: dataset.Categorical}
	f := &dataset.Feature{Name: first.Name + ":" + string(dataset.DeriveLevels), Kind: dataset.Categorical,
		Why: dataset.WhyDerived, MissingBin: -1, Missing: s.missing,
		From: &dataset.Derived{What: dataset.DeriveLevels, Table: -1, Of: []dataset.Part{part}}}
	f.Categories, f.Counts = cell.MostFrequent(counts, room)
	f.OtherBin = len(f.Categories)
	f.Bins = f.OtherBin + 1

	if s.missing > 0 {
		f.MissingBin, f.Bins = f.Bins, f.Bins+1
	}

	if len(f.Categories) == 0 {
		return nil
	}
	return f
}

// makeBins sets the bins of a feature of numbers or times, at most room of them, from the values of the sampled rows.
// The feature's range is that of all rows; only the median is the sample's.
func (s *columnSurvey) makeBins(feature *built, sample *dataset.Values, room int, scratch *builder) error {
	c := cell.NewNumbers(feature.Name, feature.Kind, s.markers)
	numbers, buf, err := c.Numbers(sample, scratch.numbers)
	if err != nil {
		return fmt.Errorf("column %q: %w", feature.Name, err) // cannot happen: the survey has parsed the same texts
	}

	feature.numbers, scratch.numbers = numbers, buf
	all, present := scratch.counter.Count(numbers) // distinct numbers, and how many of the numbers are not missing
	feature.different, feature.present, feature.whole = len(all), present, true
	for _, d := range all {
		feature.whole = feature.whole && d.X == math.Trunc(d.X)
	}

	// The bins. A number may be a code of missing values, such as -999; findCode looks for it.
	if feature.Kind == dataset.Numeric {
		feature.code = findCode(all, present)
	}
	feature.Bounds = cell.FindBounds(all, room, feature.Kind == dataset.Numeric)
	feature.Bins = len(feature.Bounds) + 1

	// The range of all rows.
	e := s.numbers
	if feature.Kind == dataset.Temporal {
		e = s.times
	}

	// Without any value, min is infinite, and greater than max. If only sampled rows have none, min is the median.
	if e.min <= e.max {
		feature.Range = &dataset.Range{Min: cell.Clamp(e.min), Median: e.min, Max: cell.Clamp(e.max)}
		if present > 0 {
			feature.Range.Median = cell.Median(all, present)
		}
		feature.Range.Median = cell.Clamp(feature.Range.Median)
	}
	return nil
}
