package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Level is how grave a finding is.
type Level string

// The levels of findings. Only Blocking keeps a night from being trained on.
const (
	Note     Level = "note"
	Warning  Level = "warning"
	Blocking Level = "blocking"
)

// Code is what kind of thing a finding has found.
type Code string

// The codes, in the order of what causes what: where one is found, those behind it may be its consequences.
const (
	CodeColumnMissing Code = "column_missing" // a column of the nights before is not there
	CodeColumnRenamed Code = "column_renamed" // it is there under another name
	CodeColumnNew     Code = "column_new"     // a column that the nights before had not
	CodeKindChanged   Code = "kind_changed"   // numbers where texts were, or the other way round
	CodeSameRows      Code = "same_rows"      // last night's rows again
	CodeRepeatedRows  Code = "repeated_rows"  // rows that are there more than once
	CodeSharedRows    Code = "shared_rows"    // rows of test that train has, too
	CodeOldRows       Code = "old_rows"       // more of last night's rows than usual
	CodeRows          Code = "rows"           // more or fewer rows than usual, or than the spec allows
	CodeClock         Code = "clock"          // all times have moved, as in another zone
	CodeStale         Code = "stale"          // the newest row is older than expected
	CodeFuture        Code = "future"         // the newest row is newer than expected
	CodeGap           Code = "gap"            // hours without rows
	CodeEmpty         Code = "empty"          // a column has no values any more
	CodeConstant      Code = "constant"       // a column has one value
	CodeMissingValues Code = "missing_values" // more of a column's values are missing than usual
	CodeScaled        Code = "scaled"         // all numbers of a column times a factor
	CodeLevel         Code = "level"          // one level of a column has many more rows than usual
	CodeUnseen        Code = "unseen"         // the levels of a column are new, as if written differently
	CodeDrift         Code = "drift"          // the values of a column are distributed otherwise
	CodeLeak          Code = "leak"           // a column tells the label
	CodeScrambled     Code = "scrambled"      // a column has lost its ties to the others, as if shifted against the rows
	CodeLabelRate     Code = "label_rate"     // the label's mean is not what it was
	CodeLabelsLost    Code = "labels_lost"    // hours or levels without a positive label
	CodeInverted      Code = "labels_inverted"
	CodeShuffled      Code = "labels_shuffled" // the label has lost its ties to the columns
)

// order is of the codes as they stand above.
var order = []Code{CodeColumnMissing, CodeColumnRenamed, CodeColumnNew, CodeKindChanged, CodeSameRows, CodeRepeatedRows, CodeSharedRows,
	CodeOldRows, CodeRows, CodeClock, CodeStale, CodeFuture, CodeGap, CodeEmpty, CodeConstant, CodeMissingValues, CodeScaled, CodeLevel,
	CodeUnseen, CodeDrift, CodeLeak, CodeScrambled, CodeInverted, CodeLabelsLost, CodeLabelRate, CodeShuffled}

// Finding is something about a night that a person should know.
type Finding struct {
	Code   Code   `json:"code"`
	Level  Level  `json:"level"`
	Column string `json:"column,omitempty"`
	Text   string `json:"text"` // a sentence with the numbers
}

// String is the finding as people read it.
func (f Finding) String() string {
	where := ""
	if f.Column != "" {
		where = f.Column + ": "
	}
	return fmt.Sprintf("%s: %s%s (%s)", f.Level, where, f.Text, f.Code)
}

// Is reports whether text, CODE or CODE:COLUMN, means the finding.
func (f Finding) Is(text string) bool {
	code, column, ok := strings.Cut(text, ":")
	return code == string(f.Code) && (!ok || column == f.Column)
}

// Blocked reports whether some finding keeps the night from being trained on.
func Blocked(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Blocking })
}

// Reason is the gravest finding in a sentence, and how many more there are; empty where there is none that blocks.
func Reason(findings []Finding) string {
	n := 0
	first := ""
	for _, f := range findings {
		if f.Level != Blocking {
			continue
		}
		if n++; n == 1 {
			first = strings.TrimPrefix(f.String(), string(Blocking)+": ")
		}
	}

	if n > 1 {
		first += fmt.Sprintf(" and %d more", n-1)
	}
	return first
}

// sorted puts findings in the order of their levels, gravest first, then of causes.
func sorted(findings []Finding) []Finding {
	grave := []Level{Blocking, Warning, Note}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(grave, a.Level), slices.Index(grave, b.Level)),
			cmp.Compare(slices.Index(order, a.Code), slices.Index(order, b.Code)), cmp.Compare(a.Column, b.Column))
	})
	return findings
}

// allow makes warnings of the blocking findings that the spec lets pass.
func allow(findings []Finding, allowed []string) []Finding {
	for i := range findings {
		f := &findings[i]
		if f.Level == Blocking && slices.ContainsFunc(allowed, f.Is) {
			f.Level = Warning
			f.Text += "; contract.allow lets it pass"
		}
	}
	return findings
}
