package ingest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
)

const (
	// A few whole numbers on many rows, with large gaps between them, are likely ids rather than a quantity.
	idRepeats = 20 // least rows per number
	idGap     = 10 // least mean distance of two numbers

	// An extreme number on many rows, far from all others, is likely a code, such as -1 or 99999 for "unknown".
	codeRows  = 10    // least rows
	codeShare = 0.001 // least share of the rows
	codeFar   = 3     // least distance from the next number, in ranges of all other numbers
)

// looksLikeIDs reports whether whole numbers that are treated as a quantity look like ids: by the column's name, or by
// the numbers themselves. These look like ids if all are positive and none is a code, if there are more than rangeCount
// and at most exactNumbers different ones, if each is on many rows, and if the gaps between them are large. It is false
// for derived columns, for fewer than three numbers, and if the spec says what the column is.
func (f *built) looksLikeIDs() bool {
	if f.Kind != dataset.Numeric || f.From != nil || f.Why == dataset.WhyForced || !f.whole || f.Range == nil ||
		f.different < 3 {
		return false
	}
	if NamedID(f.Name) {
		return true
	}
	span := f.Range.Max - f.Range.Min
	return f.code == nil && f.Range.Min > 0 && f.different > rangeCount && f.different <= exactNumbers &&
		f.present >= idRepeats*f.different && span >= float64(idGap*f.different)
}

// NamedID reports whether a column is named like an id, such as user_id, campaignId or ID.
func NamedID(name string) bool {
	// userId and userID are ids, as the capital begins a word. In a name of capitals alone it does not: BID is a price.
	if name == strings.ToUpper(name) {
		name = strings.ToLower(name)
	}
	if strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "ID") {
		return true
	}

	// Of names that end in "id" only some are.
	head, isID := strings.CutSuffix(name, "id")
	return isID && (head == "" || strings.ContainsAny(head[len(head)-1:], "_-. ") ||
		slices.Contains(joinedToID, strings.ToLower(head)))
}

// joinedToID lists words to which "id" is often joined without a mark, as in uid and userid. Other words end in these
// letters: paid, bid, grid.
var joinedToID = []string{
	"u", "uu", "gu", "p", "c", "g", "s", "t", "user", "item", "ad", "app", "shop", "store", "site", "page", "campaign",
	"creative", "advertiser", "publisher",
	"device", "product", "account", "customer", "client", "session", "order", "query", "document", "category", "region",
	"city", "country", "zone", "visitor", "member", "person", "patient", "employee", "student", "driver", "vehicle",
	"seller", "vendor", "merchant", "partner", "group", "location", "station", "school", "hotel", "movie", "cookie",
	"placement", "channel", "keyword", "event", "transaction", "cust",
}

// measure matches a number with a word before or behind it, or one that is negative by its parentheses or by a minus
// behind it. Its groups are what stands around the number, and its decimals.
var measure = regexp.MustCompile(`^([A-Za-z]{1,4} |\()?-?\d+(?:,\d{3})*(\.\d+)?( ?[A-Za-z²³°/]{1,5}|[)-])?$`)

// measured returns one of the odd texts if all of them are numbers with the same word, such as 5.1 kg, or with a sign
// that is not read, and one has decimals: whole numbers behind a word are as often ids. It is "" if they are not.
func (s *columnSurvey) measured() (text string) {
	var around []string
	decimals := false
	for odd := range s.odd {
		m := measure.FindStringSubmatch(odd)
		if m == nil {
			return ""
		}
		if decimals = decimals || m[2] != ""; m[1]+m[3] != "" { // else it is a number such as 1,234.50
			around, text = append(around, m[1]+m[3]), max(text, odd)
		}
	}
	slices.Sort(around)
	if around = slices.Compact(around); len(around) != 1 || !decimals {
		return ""
	}
	return text
}

// code is a number that likely stands for something other than a quantity, such as -999 for a missing value.
type code struct {
	x    float64
	rows int     // sampled rows that have it
	near float64 // the least of all other numbers
	far  float64 // the greatest of all other numbers
}

// findCode looks for a code at either end of the numbers, such as -999999 below all amounts or 99999 above all ages: a
// whole number other than 0, on many rows and far from all others (see codeRows). It returns nil if there is none. all
// has the distinct numbers, ascending, and rows is how many rows they are from.
func findCode(all []cell.Distinct, rows int) *code {
	// Without at least three others, being far from them means nothing.
	if len(all) < 4 {
		return nil
	}

	// The number at each end, and how far it is from the next one.
	last := len(all) - 1
	for _, end := range []struct {
		at    cell.Distinct
		rest  []cell.Distinct
		space float64
	}{
		{all[0], all[1:], all[1].X - all[0].X},
		{all[last], all[:last], all[last].X - all[last-1].X},
	} {
		c := &code{x: end.at.X, rows: end.at.N, near: end.rest[0].X, far: end.rest[len(end.rest)-1].X}
		// The largest number is no code: infinite values are read as that.
		often := c.rows >= codeRows && float64(c.rows) >= codeShare*float64(rows)
		if often && c.x != 0 && c.x == math.Trunc(c.x) && math.Abs(c.x) < math.MaxFloat64 &&
			end.space > codeFar*(c.far-c.near) {
			return c
		}
	}
	return nil
}

// warnHints warns if a feature's numbers look like ids, and if one of them looks like a code.
func (f *built) warnHints(warn func(code, format string, args ...any)) {
	if f.looksLikeIDs() {
		warn(HintIDs, "%d different whole numbers on %d sampled rows are treated as quantities; if they are ids, list "+
			"the column under categorical:, otherwise under numeric:", f.different, f.present)
	}
	if c := f.code; c != nil {
		warn(WarnCode, "%s of %s sampled rows have %s, and all others %.5g to %.5g; if it stands for a missing value, "+
			"list it under missing:", humanize.Comma(int64(c.rows)), humanize.Comma(int64(f.present)), numberText(c.x),
			c.near, c.far)
	}
}

// sentinel returns a warning if one number among the labels of a regression looks like a code (see findCode).
func (t *trainSample) sentinel(label *dataset.LabelInfo) []dataset.Warning {
	numbers := make([]float64, len(t.labels))
	for i, y := range t.labels {
		numbers[i] = float64(y)
	}
	var counter cell.Counter
	all, _ := counter.Count(numbers)
	c := findCode(all, len(numbers))
	if label.Kind != dataset.Regression || c == nil {
		return nil
	}
	return []dataset.Warning{{Code: WarnCode, Column: label.Column,
		Text: fmt.Sprintf("%d of %d sampled labels are %s, and all others %s to %s: it is learnt as it is; if it "+
			"means that there is no label, list it under missing:",
			c.rows, len(numbers), numberText(c.x), numberText(c.near), numberText(c.far))}}
}

func numberText(value float64) string { return string(dataset.AppendNumber(nil, value)) }

// keyHint returns a hint that the key by which a table is split is not a feature. There is none if the key is also the
// group, which is not a feature under any split.
func (s *survey) keyHint() []dataset.Warning {
	key := s.spec.Split.Key
	if s.splitter.by != dataset.SplitByHash || key == s.spec.Group {
		return nil
	}
	return []dataset.Warning{{Code: HintKey, Column: key,
		Text: fmt.Sprintf("grouped by %s; %[1]s itself is not a feature. Split by time or at random to keep it", key)}}
}
