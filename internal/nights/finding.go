package nights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"coppice/internal/dataset"
)

// Level is the severity of a finding.
type Level string

// The levels of findings. Only Blocking keeps a night from being trained on.
const (
	Note     Level = "note"
	Warning  Level = "warning"
	Blocking Level = "blocking"
)

// Code is the kind of a finding.
type Code string

// The codes, ordered from causes to consequences: a finding may be caused by one with an earlier code.
const (
	CodeMissingDays   Code = "missing_days"   // days of the source have no file, which the spec allows
	CodeColumnMissing Code = "column_missing" // an earlier column is missing
	CodeColumnRenamed Code = "column_renamed" // an earlier column has another name
	CodeColumnNew     Code = "column_new"     // a column that earlier nights did not have
	CodeSameColumn    Code = "same_column"    // a column says the same as another
	CodeKindChanged   Code = "kind_changed"   // numbers instead of texts, or the reverse
	CodeSameRows      Code = "same_rows"      // last night's rows again
	CodeRepeatedRows  Code = "repeated_rows"  // rows that occur more than once
	CodeSharedRows    Code = "shared_rows"    // rows of test that are also in train
	CodeCopiedRows    Code = "copied_rows"    // the same with labels that only copies have
	CodeOldRows       Code = "old_rows"       // more of last night's rows than usual
	CodeRows          Code = "rows"           // more or fewer rows than usual, or than the spec allows
	CodeClock         Code = "clock"          // all times have shifted, as by another time zone
	CodeStale         Code = "stale"          // the newest row is older than expected
	CodeFuture        Code = "future"         // the newest row is newer than expected
	CodeGap           Code = "gap"            // hours without rows
	CodeOddTimes      Code = "odd_times"      // a few rows with times far from all others'
	CodeEmpty         Code = "empty"          // a column no longer has values
	CodeConstant      Code = "constant"       // a column has one value
	CodeMissingValues Code = "missing_values" // more of a column's values are missing than usual
	CodeScaled        Code = "scaled"         // all numbers of a column times a factor
	CodeLevel         Code = "level"          // a level or number has many more rows than usual
	CodeUnseen        Code = "unseen"         // the levels of a column are new, as if written differently
	CodeDrift         Code = "drift"          // the values of a column are distributed differently
	CodeLeak          Code = "leak"           // a column gives away the label
	// a column has lost its ties to the others, as if shifted against the rows
	CodeScrambled  Code = "scrambled"
	CodeInverted   Code = "labels_inverted" // positive and negative labels are swapped
	CodeLabelsLost Code = "labels_lost"     // parts of the table or levels with too few positive labels
	CodeLabelRate  Code = "label_rate"      // the mean label has changed
	CodeShuffled   Code = "labels_shuffled" // the label has lost its ties to the columns
)

// order lists the codes as above.
var order = []Code{CodeMissingDays, CodeColumnMissing, CodeColumnRenamed, CodeColumnNew, CodeSameColumn,
	CodeKindChanged, CodeSameRows, CodeRepeatedRows, CodeSharedRows, CodeCopiedRows, CodeOldRows, CodeRows, CodeClock,
	CodeStale, CodeFuture, CodeGap, CodeOddTimes, CodeEmpty, CodeConstant, CodeMissingValues, CodeScaled, CodeLevel,
	CodeUnseen, CodeDrift, CodeLeak, CodeScrambled, CodeInverted, CodeLabelsLost, CodeLabelRate, CodeShuffled}

// Finding is something about a night that a person should know.
type Finding struct {
	Code   Code   `json:"code"`
	Level  Level  `json:"level"`
	Column string `json:"column,omitempty"`
	Text   string `json:"text"` // a sentence with the numbers
}

// String formats the finding for people.
func (f Finding) String() string {
	where := ""
	if f.Column != "" {
		where = f.Column + ": "
	}
	return fmt.Sprintf("%s: %s%s (%s)", f.Level, where, f.Text, f.Code)
}

// Is reports whether text refers to the finding. Text is a code, which means the findings of all columns, or
// CODE:COLUMN.
func (f Finding) Is(text string) bool {
	code, column, ok := strings.Cut(text, ":")
	return code == string(f.Code) && (!ok || column == f.Column)
}

// Blocked reports whether some finding keeps the night from being trained on.
func Blocked(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Blocking })
}

// Reason says why the night is blocked: the first blocking finding, and how many more there are. It is empty if none
// blocks.
func Reason(findings []Finding) string {
	text, _ := worst(findings, Blocking)
	return text
}

// Found returns what Reason does or, if nothing blocks, the same of warnings.
func Found(findings []Finding) string {
	text, _ := worst(findings, Warning)
	return cmp.Or(Reason(findings), text)
}

// worst returns a sentence with the first finding of a level and the number of the others, and n, how many there are in
// all. The sentence does not name the level.
func worst(findings []Finding, level Level) (first string, n int) {
	for _, f := range findings {
		if f.Level == level {
			n++
			if n == 1 {
				first = strings.TrimPrefix(f.String(), string(level)+": ")
			}
		}
	}
	if n > 1 {
		first += fmt.Sprintf(" and %d more", n-1)
	}
	return first, n
}

// Doubt returns the first finding, of any level, that casts doubt on a test by these rows: their labels may be wrong,
// or rows may be repeated. It is empty if there is none.
func Doubt(findings []Finding) string {
	i := slices.IndexFunc(findings, func(f Finding) bool {
		return slices.Contains([]Code{CodeRepeatedRows, CodeSharedRows, CodeCopiedRows, CodeOldRows, CodeLeak,
			CodeScrambled, CodeInverted, CodeLabelsLost, CodeLabelRate, CodeShuffled}, f.Code)
	})
	if i < 0 {
		return ""
	}
	return findings[i].String()
}

// Warned returns the most serious warning about a difference from earlier nights. It is empty if there is none, if the
// night was compared with no other, or if a person has accepted it. Columns that give away the label are left out: they
// are asked about with each model (Profile.Leak).
func (r *Record) Warned() string {
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Level == Warning && f.Code != CodeLeak })
	if i < 0 || len(r.Against) == 0 || r.Accepted != nil {
		return ""
	}
	f := r.Findings[i]
	return strings.TrimPrefix(f.Column+": "+f.Text, ": ")
}

// sortFindings sorts findings in place by level, most serious first, then from causes to consequences (order), then by
// column, and returns them.
func sortFindings(findings []Finding) []Finding {
	grave := []Level{Blocking, Warning, Note}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(grave, a.Level), slices.Index(grave, b.Level)),
			cmp.Compare(slices.Index(order, a.Code), slices.Index(order, b.Code)), cmp.Compare(a.Column, b.Column))
	})
	return findings
}

// allowFindings turns blocking findings into warnings, in place, if the spec allows them always (contract.allow) or
// expects them on the night's day (contract.expect). Their texts then say why they do not block.
func allowFindings(findings []Finding, rules dataset.ContractSpec, day time.Time) []Finding {
	pass := func(allowed []string, why string) { // allowed are as in Finding.Is
		for i := range findings {
			f := &findings[i]
			if f.Level == Blocking && slices.ContainsFunc(allowed, f.Is) {
				f.Level = Warning
				f.Text += why
			}
		}
	}
	pass(rules.Allow, "; contract.allow lets it pass")
	for _, e := range rules.Expect {
		if e.Holds(day) {
			pass(e.Findings, "; expected: "+e.Why)
		}
	}
	return findings
}
