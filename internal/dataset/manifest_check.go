package dataset

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"coppice/internal/expression"
)

// The names of the splits, in their usual order.
const (
	TrainSplit = "train"
	ValidSplit = "valid"
	CalibSplit = "calib"
	TestSplit  = "test"
)

// SplitNames returns the possible names of splits, in their usual order.
func SplitNames() []string { return []string{TrainSplit, ValidSplit, CalibSplit, TestSplit} }

var (
	namePattern    = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)
	versionPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// CheckName rejects a dataset's name unless it has 1 to 40 characters of a-z, 0-9 and '-', starts with a letter and
// ends with a letter or digit. Names become folders.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("dataset name %.60q: use 1 to 40 of a-z, 0-9 and '-', beginning with a letter and not "+
			"ending with '-'", name)
	}
	return nil
}

// CheckColumnName rejects a column's name that is empty, longer than maxName bytes, not UTF-8 or has ASCII control
// characters. RowColumn is rejected, too, since samples have a column of that name.
func CheckColumnName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("column name %.60q must be 1 to %d bytes of UTF-8", name, maxName)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
		return fmt.Errorf("column name %.60q holds the control character %q", name, name[i])
	}
	if name == RowColumn {
		return fmt.Errorf("column name %q is taken by Coppice; rename the column", name)
	}
	return nil
}

// checkFormat refuses a format that this build does not know, and any other than needed, which is the lowest format
// that supports the contents: each contents have one format, so that equal datasets have equal manifests.
func checkFormat(format, needed int) error {
	if format < FormatVersion || format > FormatValues {
		return badManifest("format", fmt.Errorf("%d; this build reads %d to %d", format, FormatVersion, FormatValues))
	}
	if format != needed {
		return badManifest("format", fmt.Errorf("%d, but the contents are of format %d", format, needed))
	}
	return nil
}

// check checks that the parts of a manifest are possible and agree with each other. It opens no files. The first fault
// is returned, as an error that names its place in the manifest.
func (m *Manifest) check() error {
	// What stands for itself.
	if err := checkFormat(m.Format, m.format()); err != nil {
		return err
	}
	if err := CheckName(m.Name); err != nil {
		return badManifest("name", err)
	}
	if !versionPattern.MatchString(m.Version) {
		return badManifest("version", fmt.Errorf("%.40q is not 16 hexadecimal digits", m.Version))
	}

	if err := checkFeatures(m.Features); err != nil {
		return err
	}
	if err := checkTexts(m.Missing, m.Formats); err != nil {
		return err
	}
	if m.MaxBin < 2 || m.MaxBin > MaxBins || m.BinRows < 0 || m.LeftOut < 0 {
		return badManifest("max_bin", fmt.Errorf("max_bin %d, bin_rows %d, left_out %d", m.MaxBin, m.BinRows,
			m.LeftOut))
	}

	// What refers to other parts.
	if err := checkDerived(m.Features, m.Tables, len(m.Label.Classes)); err != nil {
		return err
	}
	if err := m.checkFinal(); err != nil {
		return err
	}
	if err := m.checkRoles(); err != nil {
		return err
	}
	if err := m.checkOrder(); err != nil {
		return err
	}
	if err := m.checkSplits(); err != nil {
		return err
	}

	return m.checkFiles()
}

// checkFinal checks FinalTables, the tables of statistics over the rows of all splits, if there are any. Without
// held-out rows they would be the tables of train, and without features that are statistics nothing would use them, so
// there must be both. There must be one for each of Tables, and it may differ in its levels (First, Levels), prior and
// floor only.
func (m *Manifest) checkFinal() error {
	if m.FinalTables == nil {
		return nil
	}
	if len(m.FinalTables) != len(m.Tables) || m.HeldOutRows() == 0 || len(m.Statistics()) == 0 {
		return badManifest("final_tables", fmt.Errorf("%d tables where train has %d, of %d held-out rows",
			len(m.FinalTables), len(m.Tables), m.HeldOutRows()))
	}
	for i := range m.Tables {
		a, b := &m.Tables[i], &m.FinalTables[i]
		if !a.SameStatistics(b) || a.Strength != b.Strength || a.BackOff != b.BackOff || a.Recency != b.Recency {
			return badManifest(fmt.Sprintf("final_tables[%d]", i), errors.New("it is not that of train"))
		}
	}
	return checkDerived(m.Features, m.FinalTables, len(m.Label.Classes))
}

// checkRoles checks the columns that are no features: label, weight, group and values. What is said of the label must
// go with its kind. Whether a column has two roles is checked in the spec alone.
func (m *Manifest) checkRoles() error {
	l := m.Label
	if err := CheckColumnName(l.Column); err != nil {
		return badManifest("label.column", err)
	}

	// Positive or Above make a label binary, at most one of them is given, and Negative goes with Positive.
	saysBinary := l.Positive != nil || l.Above != nil
	switch {
	case l.Kind != Binary && l.Kind != Regression && l.Kind != Classes:
		return badManifest("label.kind", fmt.Errorf("%.40q", l.Kind))
	case l.Positive != nil && l.Above != nil,
		saysBinary && l.Kind != Binary,
		l.Negative != nil && l.Positive == nil,
		(l.Kind == Classes) != (l.Classes != nil):
		return badManifest("label", errors.New("contradicts itself"))
	}

	if err := checkClassNames(l.Classes); err != nil {
		return badManifest("label.classes", err)
	}
	for field, name := range map[string]string{"weight": m.Weight, "group": m.Group} {
		if name == "" {
			continue
		}
		if err := CheckColumnName(name); err != nil {
			return badManifest(field, err)
		}
	}
	if i, err := checkValues(m.Values); err != nil {
		return badManifest(fmt.Sprintf("values[%d]", i), err)
	}
	return nil
}

// checkValues checks the names of value columns. A metric's expression must be able to name each, so it has to be a
// name of the expression's language, and not label, prediction or weight, which mean something else there. There may be
// 100, each once. If err is not nil, place is the index of the name.
func checkValues(names []string) (place int, err error) {
	for i, name := range names {
		r, err := expression.CompileRows(name)
		switch {
		case err != nil || !slices.Equal(r.Names, []string{name}) ||
			slices.Contains([]string{"label", "prediction", "weight"}, name):
			return i, fmt.Errorf("column %.60q cannot be named in a metric's expression; rename it", name)
		case slices.Contains(names[:i], name):
			return i, fmt.Errorf("column %q is listed twice", name)
		case i == 100:
			return i, errors.New("more than 100 columns")
		}
	}
	return 0, nil
}

// checkClassNames checks the names of a label's classes: at least two, all different, of at most MaxClassName bytes of
// UTF-8. There are none for other labels, which is right.
func checkClassNames(names []string) error {
	seen := map[string]bool{}
	for i, name := range names {
		if len(name) > MaxClassName || !utf8.ValidString(name) || seen[name] {
			return fmt.Errorf("%.40q at position %d: use different texts of at most %d bytes", name, i, MaxClassName)
		}
		seen[name] = true
	}
	if len(names) == 1 {
		return errors.New("there is only one")
	}
	return nil
}

// MaxClassName is the longest name of a class in bytes.
const MaxClassName = 200

// checkOrder checks the share of negative rows that were kept, which only a binary label may have, and the order of the
// statistics, without which there may be no tables. The rows of train must divide into the copies that it states.
func (m *Manifest) checkOrder() error {
	if !(m.Negatives >= 0 && m.Negatives < 1) || m.Negatives > 0 && m.Label.Kind != Binary || m.Thinned < 0 {
		return badManifest("negatives", fmt.Errorf("%v of a %s label, %d rows left out", m.Negatives, m.Label.Kind,
			m.Thinned))
	}

	if len(m.Tables) > 0 && m.Order == nil {
		return badManifest("order", errors.New("missing, though there are statistics"))
	}
	if m.Order == nil {
		return nil
	}

	if err := m.Order.check(); err != nil {
		return badManifest("order", err)
	}
	if train, ok := m.FindSplit(TrainSplit); ok && train.Rows%m.Order.Copies != 0 {
		return badManifest("order", fmt.Errorf("%d copies of %d rows in all", m.Order.Copies, train.Rows))
	}
	return nil
}

// checkSplits checks the rule of the split, of which only a random one has a seed. It checks that there is a train
// split, that each split is there once, in the order of SplitNames, and has rows, and that the sample is of one of them
// and no larger.
func (m *Manifest) checkSplits() error {
	if !slices.Contains([]string{SplitByHash, SplitByRandom, SplitByClasses, SplitByTime, SplitByColumn,
		SplitNone}, m.Split.By) {
		return badManifest("split.by", fmt.Errorf("%.40q", m.Split.By))
	}
	if m.Split.Seed < 0 || m.Split.Seed > 0 && m.Split.By != SplitByRandom && m.Split.By != SplitByClasses {
		return badManifest("split.seed", fmt.Errorf("%d of a split by %.40q", m.Split.Seed, m.Split.By))
	}

	// In the fixed order, without duplicates.
	last := -1
	for _, s := range m.Splits {
		at := slices.Index(SplitNames(), s.Name) // -1 if unknown
		if at <= last {
			return badManifest("splits", fmt.Errorf("%.40q is unknown, repeated or out of order", s.Name))
		}
		last = at

		if s.Rows < 1 || s.Rows > MaxRows {
			return badManifest("splits", fmt.Errorf("%s has %d rows", s.Name, s.Rows))
		}
	}

	if _, ok := m.FindSplit(TrainSplit); !ok {
		return badManifest("splits", errors.New("no train split"))
	}

	s, ok := m.FindSplit(m.Sample.Split)
	if !ok || m.Sample.Rows < 1 || m.Sample.Rows > min(s.Rows, MaxSample) {
		return badManifest("sample", fmt.Errorf("%d rows of the split %.40q", m.Sample.Rows, m.Sample.Split))
	}
	return nil
}

// checkFiles checks that the files have exactly the names that follow from the contents. So no name of a forged
// manifest can lead out of the dataset's folder.
func (m *Manifest) checkFiles() error {
	want := m.fileNames()
	if len(m.Files) != len(want) {
		return badManifest("files", fmt.Errorf("%d files where the splits have %d", len(m.Files), len(want)))
	}

	for i, f := range m.Files {
		if f.Name != want[i] {
			return badManifest("files", fmt.Errorf("%.60q where %q belongs", f.Name, want[i]))
		}
		if err := f.check(); err != nil {
			return badManifest("files."+f.Name, err)
		}
	}

	return nil
}

// Files of a split, and others.
const (
	rowsFile    = "rows.arrow"
	columnsFile = "columns.arrow"
	targetsFile = "targets.arrow"
	// SampleFile is the name of the sample in a dataset's folder.
	SampleFile = "sample.arrow"
	// LevelsFile is the name of the tables' levels, in a dataset's folder and among a version's files.
	LevelsFile = "levels.arrow"
	// FinalLevelsFile is the name of the final tables' levels in a dataset's folder.
	FinalLevelsFile = "levels-final.arrow"
	finalFile       = "final.arrow" // the statistics of held-out rows as later rows of train
)

// TargetsFile is the name of a split's targets in a dataset's folder.
func TargetsFile(split string) string { return split + "/" + targetsFile }

// fileNames returns the names of all files that such a dataset has, in the order of Manifest.Files. Tables without
// levels have no levels file, since an Arrow file of no rows is refused.
func (m *Manifest) fileNames() []string {
	var names []string
	for _, s := range m.Splits {
		names = append(names, s.Name+"/"+rowsFile, s.Name+"/"+columnsFile, s.Name+"/"+targetsFile)
	}
	if levelsOf(m.Tables) > 0 {
		names = append(names, LevelsFile)
	}
	if m.FinalTables != nil {
		names = append(names, finalFile)
	}
	if levelsOf(m.FinalTables) > 0 {
		names = append(names, FinalLevelsFile)
	}
	return append(names, SampleFile)
}

// checkTexts checks how a manifest or an encoding says that texts are read: which stand for a missing value, and the
// columns' formats.
func checkTexts(missing []string, formats Formats) error {
	if err := checkTokens(missing); err != nil {
		return badManifest("missing", err)
	}
	if err := formats.Check(); err != nil {
		return badManifest("formats", err)
	}
	return nil
}

// checkTokens checks the texts that stand for a missing value: at most 1,000, each no longer than a column's name. Its
// errors do not say whether a spec or a manifest has them: the caller does.
func checkTokens(tokens []string) error {
	if len(tokens) > 1000 {
		return fmt.Errorf("%d texts: at most 1000 stand for a missing value", len(tokens))
	}
	for _, t := range tokens {
		if len(t) > maxName {
			return fmt.Errorf("a text of %d bytes: at most %d stand for a missing value", len(t), maxName)
		}
	}
	return nil
}

// checkFeatures checks the number of features, their names, which must differ, and each feature by itself.
func checkFeatures(features []Feature) error {
	if len(features) < 1 || len(features) > MaxFeatures {
		return badManifest("features", fmt.Errorf("%d of them; a dataset has 1 to %d", len(features), MaxFeatures))
	}

	seen := make(map[string]bool, len(features))
	for i := range features {
		f := &features[i]
		err := CheckColumnName(f.Name)
		if err == nil && seen[f.Name] {
			err = fmt.Errorf("the name %.60q is repeated", f.Name)
		}
		if err == nil {
			err = f.check()
		}

		if err != nil {
			return badManifest(fmt.Sprintf("features[%d]", i), err)
		}
		seen[f.Name] = true
	}

	return nil
}

// check checks that the bins of a feature agree with its bounds or categories. Bins are numbered in this order: ranges
// or categories, then for categories the bin of all others, then the bin of missing values if there is one. Bounds must
// be finite and ascend, and no category may be repeated.
func (f *Feature) check() error {
	values := len(f.Bounds) + 1 // the number of bins without that of missing values
	other := -1                 // the bin of other categories

	switch f.Kind {
	case Numeric, Temporal:
		if len(f.Categories)+len(f.Counts) > 0 {
			return fmt.Errorf("a %s feature with categories", f.Kind)
		}
	case Categorical:
		if len(f.Bounds) > 0 || len(f.Counts) != len(f.Categories) {
			return fmt.Errorf("a categorical feature with %d bounds, %d categories and %d counts", len(f.Bounds),
				len(f.Categories), len(f.Counts))
		}
		values = len(f.Categories) + 1
		other = len(f.Categories)
	default:
		return fmt.Errorf("kind %.40q", f.Kind)
	}

	// The bin of missing values, if any, is the last.
	missing := -1
	if f.MissingBin != -1 {
		missing, values = values, values+1
	}
	if f.Bins != values || f.Bins > MaxBins || f.OtherBin != other || f.MissingBin != missing || f.Missing < 0 {
		return fmt.Errorf("%d bins, other_bin %d, missing_bin %d, where %d, %d and %d belong", f.Bins, f.OtherBin,
			f.MissingBin, values, other, missing)
	}

	if err := checkBounds(f.Bounds); err != nil {
		return err
	}

	seen := make(map[string]bool, len(f.Categories))
	for i, c := range f.Categories {
		if seen[c] || f.Counts[i] < 0 {
			return fmt.Errorf("categories[%d] %.60q is repeated or has a negative count", i, c)
		}
		seen[c] = true
	}

	return nil
}
