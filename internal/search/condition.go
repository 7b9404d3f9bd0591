package search

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"coppice/internal/sweep"
)

// Condition is a condition on a finished trial, such as log_loss <= 0.3 && trees <= 500. It refers to metrics by their
// usual names, such as precision@1%, or as identifiers: precision_at_1pct. It is safe for concurrent use.
type Condition struct {
	text  string
	e     *expression
	names map[string]string // of the values, by identifier in the expression
}

// CompileRequire compiles a condition on results. Names in it are facts about a trial (FactNames) or metrics, which
// cannot be listed because there is one for every k of precision@k: resolve returns the name under which a metric's
// value will be found, or an error. Condition.Names lists the values needed. Errors are *ExpressionError.
func CompileRequire(text string, resolve func(metric string) (string, error)) (*Condition, error) {
	if len(text) > maxExpression {
		_, err := compile(text, nil)
		return nil, err
	}

	c := &Condition{text: text, names: map[string]string{}}
	plain, origin := withoutAt(text)
	example := map[string]any{}

	// Names become identifiers, each with an example value that determines its type.
	for _, at := range wordPattern.FindAllStringIndex(text, -1) {
		word := text[at[0]:at[1]]
		if slices.Contains(keywords, word) || slices.Contains(functionNames(), word) {
			continue
		}
		full, err := word, error(nil)
		if !slices.Contains(FactNames(), word) {
			full, err = resolve(word)
		}

		if err != nil {
			return nil, &ExpressionError{Expression: text, Column: utf8.RuneCountInString(text[:at[0]]) + 1,
				Msg: err.Error()}
		}
		c.names[Identifier(word)] = full
		example[Identifier(word)] = 0.0
	}

	e, err := compile(plain, example)
	if err != nil {
		return nil, c.placed(err, origin)
	}
	c.e = e
	return c, nil
}

var (
	// wordPattern finds names, including a part after an @. The boundary excludes the e of 1e5.
	wordPattern = regexp.MustCompile(`\b[A-Za-z_]\w*(?:@[0-9][0-9.]*%?)?`)
	keywords    = []string{"and", "or", "not", "in", "true", "false"}
)

// Identifier is a metric's name in letters, digits and underscores only: precision_at_1pct for precision@1%.
func Identifier(name string) string {
	return strings.NewReplacer("@", "_at_", "%", "pct", ".", "_").Replace(name)
}

// withoutAt replaces every name by an identifier. origin is the column in text of every character of the result, and of
// its end.
func withoutAt(text string) (plain string, origin []int) {
	var out strings.Builder
	column := 1

	keep := func(part string) {
		for range utf8.RuneCountInString(part) {
			origin = append(origin, column)
			column++
		}
		out.WriteString(part)
	}

	last := 0
	for _, at := range wordPattern.FindAllStringIndex(text, -1) {
		keep(text[last:at[0]])
		word := text[at[0]:at[1]]
		for range len(Identifier(word)) {
			origin = append(origin, column)
		}
		column += len(word)
		out.WriteString(Identifier(word))
		last = at[1]
	}

	keep(text[last:])
	return out.String(), append(origin, column)
}

// placed converts an error about the plain expression to positions in the text that a person wrote.
func (c *Condition) placed(err error, origin []int) error {
	if e, ok := err.(*ExpressionError); ok { //nolint:errorlint // compile's own error, never wrapped
		place := &ExpressionError{Expression: c.text, Msg: e.Msg}
		if e.Column > 0 {
			place.Column = origin[min(e.Column, len(origin))-1]
		}
		return place
	}
	return err
}

// String returns the condition as written.
func (c *Condition) String() string { return c.text }

// Names returns the names of the values that the condition refers to, ascending.
func (c *Condition) Names() []string {
	return slices.Compact(slices.Sorted(maps.Values(c.names)))
}

// Eval reports whether values satisfy the condition. A value that is missing or NaN is an *ExpressionError if the
// condition refers to it.
func (c *Condition) Eval(values map[string]float64) (bool, error) {
	env := make(map[string]any, len(c.names))
	for identifier, name := range c.names {
		v, ok := values[name]
		if !ok || math.IsNaN(v) {
			return false, &ExpressionError{Expression: c.text, Msg: fmt.Sprintf("%s is not known", name)}
		}
		env[identifier] = v
	}
	return c.e.run(env)
}

// FactNames returns the names of the facts about a finished trial, beside metrics.
func FactNames() []string {
	return []string{"score", "trees", "trees_grown", "best_iteration", "leaves", "model_bytes", "train_seconds",
		"private_bytes"}
}

// Facts returns the metrics of a finished trial and the facts that FactNames lists.
func Facts(r *sweep.Result) map[string]float64 {
	return r.Facts()
}
