package ingest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
)

// labeler determines what the label column holds, during the first pass, and then turns labels into numbers. observe
// sees all rows, resolve decides, and decode may be called after that.
type labeler struct {
	spec    *dataset.Spec
	markers *cell.Markers
	info    dataset.LabelInfo // complete after resolve

	// What the first pass saw, as far as needed.
	zeros     int64             // rows with the number 0
	ones      int64             // rows with the number 1
	numbers   map[float64]int64 // rows by other number, of so many numbers as countLabel says
	texts     map[string]int64  // rows by text, of so many texts as countLabel says
	positives int64             // rows, as far as the spec says which are positive
	negatives int64
	missing   int64             // rows without a label
	classes   map[string]int    // number of each class by its name, after resolve
	thinned   int64             // negative rows left out by sampling
	spelt     map[string]string // name of the class by the text in the table, of at most 2*MaxClasses texts
	absent    map[string]int64  // rows by text that stands for a missing label, up to the number listed
}

// maxListed is the most distinct values that a message lists. A label with more distinct numbers is a regression.
const maxListed = 20

// newLabeler returns a labeler with what the spec says of the label. What the spec leaves open, resolve decides by the
// counts of all rows. Labels among markers are missing.
func newLabeler(spec *dataset.Spec, markers *cell.Markers) *labeler {
	l := spec.Label
	info := dataset.LabelInfo{Column: l.Column, Kind: l.Kind, Positive: l.Positive, Negative: l.Negative,
		Above: l.Above}
	if l.Positive != nil || l.Above != nil {
		info.Kind = dataset.Binary
	}
	return &labeler{spec: spec, markers: markers, info: info, numbers: map[float64]int64{}, texts: map[string]int64{},
		spelt: map[string]string{}, absent: map[string]int64{}}
}

// observe counts the labels of a batch and returns the places of the rows that have one, ascending. Texts that stand
// for a missing label are counted, too, in l.absent. An error says that the label is not what the spec says, or is a
// time.
func (l *labeler) observe(batch *table.Batch, values *dataset.Values) ([]int32, error) {
	if values.Type == dataset.Time {
		return nil, l.spec.Errorf("label", "column %q is a time and cannot be a label", l.info.Column)
	}
	places := make([]int32, 0, batch.Rows)
	for i := range batch.Rows {
		if Missing(values, i, l.markers) {
			l.missing++
			if values.Type == dataset.Text && !values.IsNull(i) {
				countUpTo(l.absent, cell.Trim(values.Text[i]), maxListed)
			}
			continue
		}

		if err := l.countLabel(batch, values, i); err != nil {
			return nil, err
		}

		places = append(places, int32(i))
	}
	return places, nil
}

// Missing reports whether value i is missing. It is if cell.Missing says so, and also if it is a text that spells NaN
// or a marker's number in another way, such as -999.0 for -999.
func Missing(values *dataset.Values, i int, markers *cell.Markers) bool {
	if values.Type != dataset.Text || cell.Missing(values, i, markers) {
		return cell.Missing(values, i, markers)
	}
	x, f := cell.ParseNumber(values.Text[i])
	return f == cell.FormNumber && (x != x || markers.HasNumber(x))
}

// countLabel counts the label of row i, which is not missing. If the spec says which labels are positive, it counts
// positive and negative rows. If the spec says that labels are numbers or classes, it counts rows by value. If it
// leaves the kind open, the meaning is known only after all rows, so the value is counted as a number if it is one, and
// as a text otherwise. An error says that the label is not what the spec says.
//
// Each map of distinct values grows only up to the number after which nothing depends on more: two numbers of a
// regression, which then varies; and else one more than a message lists (maxListed) or than there may be classes
// (dataset.MaxClasses), which shows that there are too many.
func (l *labeler) countLabel(batch *table.Batch, values *dataset.Values, i int) error {
	// The spec says how to read each label.
	if l.info.Positive != nil || l.info.Above != nil || l.info.Kind == dataset.Regression {
		y, err := l.decode(batch, values, i)
		if err != nil {
			return err
		}

		if l.info.Kind == dataset.Regression {
			countUpTo(l.numbers, float64(y), 2) // resolve asks whether there are two
		} else if y == 1 {
			l.positives++
		} else {
			l.negatives++
		}

		if l.positives == 0 || l.negatives == 0 {
			// Only for the message of resolve, if the other class never comes.
			countUpTo(l.texts, values.TextOf(i), maxListed+1)
		}
		return nil
	}

	// The spec says that labels are classes. Count them, and how each is spelt.
	if l.info.Kind == dataset.Classes {
		name := className(values, i)
		countUpTo(l.texts, name, dataset.MaxClasses+1)
		// Spellings are only for a warning, so a bounded number of them suffices.
		if values.Type == dataset.Text && len(l.spelt) < 2*dataset.MaxClasses {
			l.spelt[cell.Trim(values.Text[i])] = name
		}
		return nil
	}

	// The spec leaves it open. Numbers and texts are counted apart.
	if x, ok := parseNumber(values, i); ok {
		switch x {
		case 0:
			l.zeros++
		case 1:
			l.ones++
		default:
			countUpTo(l.numbers, x, maxListed+1)
		}
		return nil
	}

	countUpTo(l.texts, className(values, i), dataset.MaxClasses+1)
	return nil
}

// className returns the name of value i as a class: a number in its shortest form, or the text without blanks around
// it. Digits that are no quantity, such as 01 or 623049e6, are texts. A truth value is named true or false.
func className(values *dataset.Values, i int) string {
	if values.Type == dataset.Text {
		if _, f := cell.ParseNumber(values.Text[i]); f != cell.FormNumber {
			return cell.Trim(values.Text[i])
		}
	}
	if x, ok := parseNumber(values, i); ok && values.Type != dataset.Bool {
		return string(dataset.AppendNumber(nil, x))
	}
	return cell.Trim(values.TextOf(i))
}

// classOf returns a name for the label of row i, by which a split keeps apart the rows of each class. All labels of a
// regression have the name "". If the spec leaves the kind open, that is known only after resolve; resolveClasses then
// joins the classes that were named before.
func (l *labeler) classOf(batch *table.Batch, values *dataset.Values, i int) (string, error) {
	switch {
	case l.info.Kind == dataset.Regression:
		return "", nil
	case l.info.Positive != nil || l.info.Above != nil:
		y, err := l.decode(batch, values, i)
		return string(dataset.AppendNumber(nil, float64(y))), err
	}
	return className(values, i), nil
}

// rareWarnings returns a warning for each class that a single row has. The classes of a binary label are called 0
// (negative) and 1 (positive) in it, whatever the table calls them. A regression has no classes, and no such warning.
// It is called after resolve.
func (l *labeler) rareWarnings() (out []dataset.Warning) {
	if l.info.Kind == dataset.Regression {
		return nil
	}
	rows := l.texts // by class: where labels are classes, numbers are counted here, too
	if l.info.Kind == dataset.Binary {
		rows = map[string]int64{"0": l.negatives, "1": l.positives}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if rows[name] == 1 {
			out = append(out, dataset.Warning{Code: WarnRare, Column: l.info.Column,
				Text: fmt.Sprintf("one row alone has %.40q, from which nothing can be learnt: is it no label, such as "+
					"a total? Then list it under missing:", name)})
		}
	}
	return out
}

// warnSpellings returns warnings of classes that are numbers written in several ways, such as 1 and 1.0. These are one
// class.
func (l *labeler) warnSpellings() (out []dataset.Warning) {
	spellings := map[string][]string{}
	for _, text := range slices.Sorted(maps.Keys(l.spelt)) {
		spellings[l.spelt[text]] = append(spellings[l.spelt[text]], fmt.Sprintf("%.40q", text))
	}
	for _, name := range l.info.Classes {
		if texts := spellings[name]; len(texts) > 1 {
			out = append(out, dataset.Warning{Code: WarnSpelling, Column: l.info.Column,
				Text: fmt.Sprintf("equal numbers are one class: %s all mean class %s", list(texts), name)})
		}
	}
	return out
}

// countUpTo counts key in counts, but adds no new key once there are limit of them.
func countUpTo[K comparable](counts map[K]int64, key K, limit int) {
	if _, seen := counts[key]; seen || len(counts) < limit {
		counts[key]++
	}
}

// parseNumber returns value i as a number; ok is false if it is none. Texts that spell numbers are numbers, also NaN,
// and also digits that are likely an id, such as 007 and 623049e6. A number beyond the range, such as 1e999, is none. A
// truth value is 0 or 1, and a time is no number.
func parseNumber(values *dataset.Values, i int) (x float64, ok bool) {
	switch values.Type {
	case dataset.Text:
		x, f := cell.ParseNumber(values.Text[i])
		return x, f != cell.FormText && (x == x || f == cell.FormNumber)
	case dataset.Float:
		return values.Float[i], true
	default:
		return float64(values.Int[i]), values.Type != dataset.Time
	}
}

// decode returns the label of row i as a number: 0 or 1, the number of a class, or the value of a regression. The label
// must not be missing, and the number of a class is known only after resolve. An error names the row and says what the
// label is instead.
//
// Under label.positive, every other value is negative, unless label.negative names the only one that is.
func (l *labeler) decode(batch *table.Batch, values *dataset.Values, i int) (float32, error) {
	in := &l.info

	if in.Positive != nil {
		switch {
		case SameValue(values, i, *in.Positive):
			return 1, nil
		case in.Negative == nil || SameValue(values, i, *in.Negative):
			return 0, nil
		}
		return 0, batch.ErrorAt(i, in.Column, "the label is %.40q, neither positive (%q) nor negative (%q)",
			values.TextOf(i), *in.Positive, *in.Negative)
	}

	if in.Kind == dataset.Classes {
		if k, ok := l.classes[className(values, i)]; ok {
			return float32(k), nil
		}
		return 0, batch.ErrorAt(i, in.Column, "the label is %.40q, none of the classes %s", values.TextOf(i),
			list(in.Classes))
	}

	// All other labels are numbers.
	x, ok := parseNumber(values, i)
	if !ok {
		return 0, batch.ErrorAt(i, in.Column, "the label is %.40q, not a number", values.TextOf(i))
	}
	// With above, the number is only compared, and need not fit a float32.
	if math.IsInf(x, 0) || in.Above == nil && math.IsInf(float64(float32(x)), 0) {
		return 0, batch.ErrorAt(i, in.Column, "the label %.40q does not fit a 32-bit float: correct it, or leave such "+
			"rows out by listing it under missing: (--missing)", values.TextOf(i))
	}

	if in.Above != nil {
		if x > *in.Above {
			return 1, nil
		}
		return 0, nil
	}

	if in.Kind == dataset.Binary && x != 0 && x != 1 {
		return 0, batch.ErrorAt(i, in.Column, "the label is %.40q, neither 0 nor 1", values.TextOf(i))
	}

	return float32(x), nil
}

// SameValue reports whether value i is the one that a spec or a person writes as text. It is if the texts are equal, up
// to blanks around them; if it is a truth value of that name, in any case; or if both are the same number in any
// spelling. Texts of numbers beyond 2^53, such as long ids, are compared as texts only, since a float64 cannot tell
// them apart.
func SameValue(values *dataset.Values, i int, text string) bool {
	if values.Type == dataset.Text && cell.Trim(values.Text[i]) == cell.Trim(text) ||
		values.Type == dataset.Bool && strings.EqualFold(values.TextOf(i), text) {
		return true
	}
	x, ok := parseNumber(values, i)
	want, f := cell.ParseNumber(text)
	return ok && f != cell.FormText && x == want && (values.Type != dataset.Text || math.Abs(x) <= 1<<53)
}

// resolve determines the kind of label after the first pass has counted all of them. Its errors say what the column
// holds and what the spec can say about it; they point into the spec.
func (l *labeler) resolve() error {
	column := l.info.Column
	l.countZerosAndOnes() // from here on they are in l.numbers
	fail := func(format string, args ...any) error {
		return l.spec.Errorf("label", "label column %q "+format, append([]any{column}, args...)...)
	}

	// The cases are in order of precedence: first what the spec says, then what the values are.
	values := len(l.texts) + len(l.numbers)
	switch {
	case l.info.Kind == dataset.Regression:
		if len(l.numbers) < 2 {
			return fail("has the same value in every row, as 32-bit floats, which keep seven digits: there is " +
				"nothing to predict")
		}
		return nil
	case l.info.Positive != nil && l.positives == 0:
		return fail("never is %q; it holds %s", *l.info.Positive, listTexts(l.texts))
	case l.info.Positive != nil || l.info.Above != nil:
		if l.positives == 0 || l.negatives == 0 {
			return fail("makes every row %d: there is nothing to predict", min(1, l.positives)) // all 1, or all 0
		}
		return nil
	case values > 1 && l.hasClasses():
		return l.setClasses(fail)
	case values == 0:
		return fail("has no value in any row")
	case values == 1:
		return fail("has the same value in every row: there is nothing to predict")
	// Texts, and the spec does not say what they mean. The rarer of two is likely the positive one.
	case len(l.texts) > 0:
		example := slices.Sorted(maps.Keys(l.texts))[0]
		if len(l.texts) == 2 && len(l.numbers) == 0 {
			example = rarest(l.texts)
		}
		return fail(
			"holds text (%s): name the positive value, such as `label: {column: %s, positive: %q}`, or all are "+
				"classes: `{column: %s, kind: classes}`", listTexts(l.texts), column, example, column)
	// The numbers are 0 and 1, and both occur.
	case len(l.numbers) == 2 && l.numbers[0] > 0 && l.numbers[1] > 0:
		l.info.Kind = dataset.Binary
		l.positives, l.negatives = l.numbers[1], l.numbers[0]
		return nil
	// From here on there are only numbers, at least two, and not just 0 and 1. Many of them are a regression.
	case l.spec.Sample.Negatives > 0:
		return l.spec.Errorf("sample.negatives",
			"label column %q holds %s: negative rows can be left out only if the label has two classes",
			column, listNumbers(l.numbers))
	case l.info.Kind == dataset.Binary || len(l.numbers) <= maxListed:
		return fail("holds %s, which is neither 0 and 1 nor a regression: use `label: {column: %s, positive: "+
			"\"%v\"}`, `{column: %s, above: %v}`, `{column: %s, kind: regression}` or "+
			"`{column: %s, kind: classes}`",
			listNumbers(l.numbers), column, greatest(l.numbers), column,
			slices.Min(slices.Collect(maps.Keys(l.numbers))), column, column)
	}

	l.info.Kind = dataset.Regression
	return nil
}

// countZerosAndOnes adds the counts of 0 and 1 to l.numbers. countLabel counts them apart, so that both are known even
// if the limit on distinct numbers is reached before they come. It is called once.
func (l *labeler) countZerosAndOnes() {
	for x, n := range map[float64]int64{0: l.zeros, 1: l.ones} {
		if n > 0 {
			l.numbers[x] += n
		}
	}
}

// hasClasses reports whether the values are classes. They are if the spec says so. If it leaves the kind open and
// samples no negative rows, which need two classes, they also are if all are texts, and more than two.
func (l *labeler) hasClasses() bool {
	return l.info.Kind == dataset.Classes ||
		len(l.texts) > 2 && len(l.numbers) == 0 && l.info.Kind == "" && l.spec.Sample.Negatives == 0
}

// setClasses sets the kind of the label to classes, and names them: first the numbers in ascending order, then the
// texts in alphabetical order. If there are too many, or a name is too long, the result is the error that fail returns
// for the message.
func (l *labeler) setClasses(fail func(string, ...any) error) error {
	names := slices.Sorted(maps.Keys(l.texts))
	if len(names) > dataset.MaxClasses {
		return fail("holds more than %d classes (%s); group the rare ones, or predict one of them with positive:",
			dataset.MaxClasses, listTexts(l.texts))
	}
	for _, name := range names {
		if len(name) > dataset.MaxClassName {
			return fail("holds a class whose name has %d bytes, of at most %d; shorten it: %.40q...", len(name),
				dataset.MaxClassName, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, fa := cell.ParseNumber(a)
		y, fb := cell.ParseNumber(b)
		if fa != cell.FormText && fb != cell.FormText {
			return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b)) // 1 and 01 are equal numbers
		}
		// Texts come after numbers.
		return cmp.Or(cmp.Compare(boolOf(fa == cell.FormText), boolOf(fb == cell.FormText)), cmp.Compare(a, b))
	})
	l.info.Kind, l.info.Classes = dataset.Classes, names
	l.numberClasses()
	return nil
}

func boolOf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// numberClasses fills l.classes from the names of the classes.
func (l *labeler) numberClasses() {
	l.classes = map[string]int{}
	for i, name := range l.info.Classes {
		l.classes[name] = i
	}
}

// rarest returns the text with the fewest rows; of several, the first in alphabetical order.
func rarest(texts map[string]int64) string {
	return slices.MinFunc(slices.Sorted(maps.Keys(texts)),
		func(a, b string) int { return cmp.Compare(texts[a], texts[b]) })
}

func greatest(counts map[float64]int64) float64 { return slices.Max(slices.Collect(maps.Keys(counts))) }

func listTexts(counts map[string]int64) string {
	var quoted []string
	for _, s := range slices.Sorted(maps.Keys(counts)) {
		quoted = append(quoted, fmt.Sprintf("%.40q", s))
	}
	return list(quoted)
}

func listNumbers(counts map[float64]int64) string {
	var texts []string
	for _, x := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprint(x))
	}
	return list(texts)
}

func list(values []string) string {
	if len(values) > maxListed {
		return strings.Join(values[:maxListed], ", ") + " and more"
	}
	return strings.Join(values, ", ")
}
