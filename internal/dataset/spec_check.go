package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"coppice/internal/strictyaml"
)

// checkColumns checks the name, that there is a source, and the lists of columns: none is twice in a list, or both
// numeric and categorical. It also checks the columns of values and the roles of columns. Errors name the place in the
// file, here and in the other checks.
func (s *Spec) checkColumns() error {
	if err := CheckName(s.Name); err != nil {
		return s.Errorf("name", "%v", err)
	}
	if !s.doc.Has("source") {
		return s.Errorf("source", "source is missing: give a file, a glob such as exports/*.parquet or a folder")
	}

	for _, list := range []struct {
		key     string
		columns []string
	}{{"drop", s.Drop}, {"categorical", s.Categorical}, {"numeric", s.Numeric}} {
		listed := map[string]bool{}
		for i, name := range list.columns {
			if listed[name] {
				return s.Errorf(fmt.Sprintf("%s[%d]", list.key, i), "column %q is listed twice", name)
			}
			listed[name] = true
		}
	}

	// A feature is of one kind.
	categorical := map[string]bool{}
	for _, name := range s.Categorical {
		categorical[name] = true
	}
	for i, name := range s.Numeric {
		if categorical[name] {
			return s.Errorf(fmt.Sprintf("numeric[%d]", i), "column %q cannot be both numeric and categorical", name)
		}
	}

	if i, err := checkValues(s.Values); err != nil {
		return s.Errorf(fmt.Sprintf("values[%d]", i), "%v", err)
	}
	return s.checkRoles()
}

// checkRoles checks that label, weight and group are different columns, and that these, which are never features, are
// in no list of columns.
func (s *Spec) checkRoles() error {
	taken := map[string]string{} // by column, its role

	for _, role := range []struct{ key, column string }{
		{"label", s.Label.Column}, {"weight", s.Weight}, {"group", s.Group},
	} {
		if role.column == "" {
			continue
		}
		if other := taken[role.column]; other != "" {
			return s.Errorf(role.key, "column %q cannot be both %s and %s", role.column, other, role.key)
		}
		taken[role.column] = role.key
	}

	for _, list := range []struct {
		key     string
		columns []string
	}{{"drop", s.Drop}, {"categorical", s.Categorical}, {"numeric", s.Numeric}} {
		for i, name := range list.columns {
			if role := taken[name]; role != "" {
				return s.Errorf(fmt.Sprintf("%s[%d]", list.key, i),
					"column %q is the %s and never a feature; leave it out here", name, role)
			}
		}
	}

	return nil
}

// checkLabel checks that the keys of the label go together. positive, negative and above are for binary labels:
// positive or above is given, not both, and negative only with positive, as another text. A text that stands for a
// missing value can be neither positive nor negative.
func (s *Spec) checkLabel() error {
	l := s.Label
	switch {
	case l.Column == "":
		return s.Errorf("label", "label is missing: say which column is to be predicted")
	case l.Kind != "" && l.Kind != Regression && l.Kind != Binary && l.Kind != Classes:
		return s.Errorf("label.kind", "kind %q: use regression, binary or classes", l.Kind)
	case (l.Kind == Regression || l.Kind == Classes) && (l.Positive != nil || l.Above != nil):
		return s.Errorf("label.kind", "a label with positive or above is binary, not of kind %s", l.Kind)
	case l.Positive != nil && l.Above != nil:
		return s.Errorf("label.above", "give positive or above, not both")
	case l.Negative != nil && l.Positive == nil:
		return s.Errorf("label.negative", "negative needs positive")
	case l.Negative != nil && *l.Negative == *l.Positive:
		return s.Errorf("label.negative", "positive and negative are both %q", *l.Negative)
	case l.Positive != nil && s.noLabel(*l.Positive):
		return s.tokenError("label.positive", "positive", *l.Positive)
	case l.Negative != nil && s.noLabel(*l.Negative):
		return s.tokenError("label.negative", "negative", *l.Negative)
	case l.Above != nil && (math.IsNaN(*l.Above) || math.IsInf(*l.Above, 0)):
		return s.Errorf("label.above", "above is %v: use a number", *l.Above)
	}

	return nil
}

// checkMaturity checks the keys for labels that become final late, and fills in what follows from them: the column with
// the rows' times, if it is left out, and the delay of an order by time, so that the statistics of ids use no label
// that was not final when their row arrived.
func (s *Spec) checkMaturity() error {
	l, order := &s.Label, &s.Encodings.Order
	if l.Matures == 0 && !s.doc.Has("label.matures") {
		for _, given := range []struct{ key, text string }{{"label.at", l.At}, {"label.as_of", l.AsOf}} {
			if given.text != "" {
				return s.Errorf(given.key, "it has no effect without matures: how old a row must be for its label to "+
					"be final, such as matures: 24h")
			}
		}
		return nil
	}

	// By default, the column is the one that orders or splits rows by time.
	if l.At == "" {
		l.At = s.TimeColumn()
	}
	_, stated := l.Stated()
	switch {
	case l.Matures <= 0:
		return s.Errorf("label.matures", "matures is %v: use a duration such as 24h, or leave it out",
			time.Duration(l.Matures))
	case l.At == "":
		return s.Errorf("label.matures", "at is missing: which column says when a row happened?")
	case l.At == l.Column || l.At == s.Weight:
		return s.Errorf("label.at", "column %q is the label or the weight and cannot be the rows' time", l.At)
	case l.AsOf != "" && !stated:
		return s.Errorf("label.as_of", "as_of is %.40q: use a time with a zone, such as 2026-11-20T03:00:00Z", l.AsOf)
	}

	// Delay the statistics, if they are ordered by the same times.
	if s.OrderBy() != OrderTime || s.TimeColumn() != l.At {
		return nil
	}
	if !s.DelayAsked() {
		order.Delay = l.Matures
	}
	if order.Delay < l.Matures {
		return s.Errorf("encodings.order.delay",
			"delay is %v but label.matures is %v: statistics would see labels that were not yet known; leave it "+
				"out, or use %v or more",
			time.Duration(order.Delay), time.Duration(l.Matures), time.Duration(l.Matures))
	}
	return nil
}

// noLabel reports whether a text stands for a missing label. Spaces and tabs around it do not matter.
func (s *Spec) noLabel(text string) bool {
	return slices.ContainsFunc(s.LabelMissing(),
		func(t string) bool { return strings.Trim(t, " \t") == strings.Trim(text, " \t") })
}

// tokenError returns the error for a label's class (positive or negative) whose text stands for a missing value: all
// rows of the class would silently be left out.
func (s *Spec) tokenError(path, class, text string) error {
	hint := "take it off the list `missing`"
	if !s.doc.Has("missing") {
		hint = "list under `missing` what does, such as `missing: [\"\", NA]`; by default " +
			fmt.Sprintf("%q", s.LabelMissing()) + " do"
	}
	return s.Errorf(path, "%s is %q, which stands for a missing value, so its rows would be left out; %s", class, text,
		hint)
}

// checkSplit checks that a split has the keys that its kind needs, and no others. A spec without a split is right: all
// rows are train.
func (s *Spec) checkSplit() error {
	// The kind of split, with the column that it needs.
	sp := &s.Split
	switch sp.By {
	case SplitByHash:
		if sp.Key == "" {
			return s.Errorf("split",
				"a split by hash needs key: the column whose equal values stay together, such as user_id")
		}
		if sp.Column != "" {
			return s.Errorf("split.column", "a split by hash has key, not column")
		}
	case SplitByTime, SplitByColumn:
		if sp.Column == "" {
			return s.Errorf("split", "a split by %s needs column", sp.By)
		}
		if sp.Key != "" {
			return s.Errorf("split.key", "a split by %s has column, not key", sp.By)
		}
	case SplitByRandom, SplitByClasses:
		if sp.Key != "" || sp.Column != "" {
			return s.Errorf("split",
				"a split by %s has neither key nor column; to keep rows of one key together, split by hash", sp.By)
		}
	case "":
		if s.doc.Has("split") {
			return s.Errorf("split", "split needs by: hash, random, classes, time or column")
		}
		return nil
	default:
		return s.Errorf("split.by", "by %q%s", sp.By,
			strictyaml.Suggest(sp.By, []string{SplitByHash, SplitByRandom, SplitByClasses, SplitByTime, SplitByColumn}))
	}

	// A seed, only if rows are drawn at random.
	switch {
	case sp.By != SplitByRandom && sp.By != SplitByClasses && s.doc.Has("split.seed"):
		return s.Errorf("split.seed", "a split by %s is the same each time; seed is for a split by random "+
			"or classes", sp.By)
	case sp.Seed < 0:
		return s.Errorf("split.seed", "seed is %d: use 0 or more", sp.Seed)
	}

	// Only one of key and column is set here.
	if column := sp.Key + sp.Column; column != "" && (column == s.Label.Column || column == s.Weight) {
		return s.Errorf("split", "column %q is the label or the weight and cannot split the rows too", column)
	}
	if sp.By == SplitByColumn {
		return s.checkSplitValues()
	}
	return s.checkShares()
}

// checkShares checks that the shares of the splits sum to 1, but for rounding, and leave rows for train. It drops lists
// of values, since a share such as 0.8 has been read as a list of one text as well.
func (s *Spec) checkShares() error {
	sum := 0.0
	for i, p := range s.Split.portions() {
		name := SplitNames()[i]
		if !(p.Share >= 0 && p.Share <= 1) {
			return s.Errorf("split."+name, "%s must be a share of the rows, from 0 to 1", name)
		}
		p.Values = nil
		sum += p.Share
	}

	if math.Abs(sum-1) > 1e-9 {
		return s.Errorf("split", "train, valid, calib and test sum to %.6g: they must sum to 1", sum)
	}
	if s.Split.Train.Share == 0 {
		return s.Errorf("split", "train is missing: without rows to train on there is no dataset")
	}
	return nil
}

// checkSplitValues checks that no value selects two splits, and that some select train. If no values are listed, the
// column itself says train, valid, calib or test. It drops shares, since a value such as 1 has been read as one as
// well.
func (s *Spec) checkSplitValues() error {
	owner := map[string]string{} // by value, the split that it selects
	given := false

	for i, p := range s.Split.portions() {
		p.Share = 0
		for _, v := range p.Values {
			given = true
			if owner[v] != "" {
				return s.Errorf("split."+SplitNames()[i], "%q is already listed under %s", v, owner[v])
			}
			owner[v] = SplitNames()[i]
		}
	}

	if given && len(s.Split.Train.Values) == 0 {
		return s.Errorf("split", "train is missing: say which values of column %q are train", s.Split.Column)
	}
	return nil
}

// checkNumbers checks bins, samples, missing values and formats. It turns a share of negatives of 1, which keeps all of
// them, into 0, which says the same.
func (s *Spec) checkNumbers() error {
	if s.MaxBin < 2 || s.MaxBin > MaxBins {
		return s.Errorf("max_bin", "max_bin is %d: use 2 to %d", s.MaxBin, MaxBins)
	}

	if n := s.Sample.Rows; n < 1 || n > MaxSample {
		return s.Errorf("sample", "sample is %d: use 1 to %d", n, MaxSample)
	}
	if share := s.Sample.Negatives; !(share >= 0 && share <= 1) || s.doc.Has("sample.negatives") && share == 0 {
		return s.Errorf("sample.negatives", "negatives is %v: use a share above 0, up to 1", share)
	}
	if k := s.Label.Kind; s.Sample.Negatives > 0 && (k == Regression || k == Classes) {
		return s.Errorf("sample.negatives", "a label of kind %s has no negative rows", k)
	}
	if s.Sample.Negatives == 1 {
		s.Sample.Negatives = 0 // keep all of them
	}

	if s.BinRows < 100 || s.BinRows > 10_000_000 {
		return s.Errorf("sample_rows_for_bins", "sample_rows_for_bins is %d: use 100 to 10000000", s.BinRows)
	}
	if err := checkTokens(s.Missing); err != nil {
		return s.Errorf("missing", "%v", err)
	}
	if err := s.Format.Check(); err != nil {
		return s.Errorf("format", "%v", err)
	}
	return s.checkCSV()
}

// checkCSV checks that the quote is '"' or none, and that the delimiter, if given, is one character, but no quote and
// no end of a line.
func (s *Spec) checkCSV() error {
	if q := s.CSV.Quote; q != "" && q != `"` && q != QuoteNone {
		return s.Errorf("csv.quote", `quote %q: use none where nothing is quoted, or '"'`, q)
	}

	d := s.CSV.Delimiter
	if d == "" {
		return nil
	}
	if r, n := utf8.DecodeRuneInString(d); n != len(d) || r == utf8.RuneError || r == '"' || r == '\n' || r == '\r' {
		return s.Errorf("csv.delimiter",
			`delimiter %q: use one character, such as "," or ";" or "\t" (in double quotes)`, d)
	}
	return nil
}
