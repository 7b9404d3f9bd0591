package search

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"coppice/internal/expression"
	"coppice/internal/sweep"
)

// Constraint is a condition on the parameters of a configuration, such as num_leaves <= 2 ^ max_depth. It is safe for
// concurrent use.
type Constraint struct{ e *expression.Expression }

// unlimited is the parameter for which 0 and less mean no limit. In an expression such a value is +Inf.
const unlimited = "max_depth"

// CompileConstraint compiles a condition on parameters. example is any complete configuration: it determines the
// parameters and whether each is a number, text or boolean.
func CompileConstraint(text string, example map[string]any) (*Constraint, error) {
	e, err := expression.Compile(text, text, environment(example))
	if err != nil {
		return nil, err
	}
	return &Constraint{e}, nil
}

// String returns the expression as written.
func (c *Constraint) String() string { return c.e.Text }

// Holds reports whether a complete configuration satisfies the constraint. A comparison with NaN (0/0, for instance)
// does not hold. The error is about a parameter that is missing or of another type than in the example.
func (c *Constraint) Holds(params map[string]any) (bool, error) {
	env := environment(params)
	for _, name := range c.e.Names {
		if _, ok := env[name]; !ok {
			return false, expression.Errorf(c.e.Text, 0, "the configuration has no %s", name)
		}
	}
	return c.e.Run(env)
}

// environment returns params as expressions see them: whole numbers are float64, and a max_depth without a limit is
// +Inf. Lists and the like cannot be compared and are left out.
func environment(params map[string]any) map[string]any {
	env := make(map[string]any, len(params))
	for name, value := range params {
		switch v := sweep.ToFloat(value).(type) {
		case float64:
			if name == unlimited && v <= 0 {
				v = math.Inf(1)
			}
			env[name] = v
		case string, bool:
			env[name] = v
		}
	}
	return env
}

// Condition is a condition on a finished trial, such as log_loss <= 0.3 && trees <= 500. It refers to metrics by their
// usual names, such as precision@1% or value(EXPRESSION), or as identifiers: precision_at_1pct. It is safe for
// concurrent use.
type Condition struct {
	e     *expression.Expression
	names map[string]string // identifier in the expression -> name of the value
}

// CompileRequires compiles all conditions of a spec with CompileRequire, up to the first error.
func CompileRequires(texts []string, resolve func(metric string) (string, error)) (all []*Condition, err error) {
	for _, text := range texts {
		c, err := CompileRequire(text, resolve)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// CompileRequire compiles a condition on results. Names in it are facts about a trial (FactNames) or metrics, which
// cannot be listed because there is one for every k of precision@k: resolve returns the name under which a metric's
// value will be found, or an error. Condition.Names lists the values needed.
func CompileRequire(text string, resolve func(metric string) (string, error)) (*Condition, error) {
	// code becomes the text that is compiled, and example has a value for each of its identifiers. A text that is too
	// long is left to Compile, whose error says so.
	c, example, code := &Condition{names: map[string]string{}}, map[string]any{}, []byte(text)
	if len(text) > expression.Max {
		_, err := expression.Compile(text, text, nil)
		return nil, err
	}

	// Names such as precision@1% are no identifiers of the expression's language. Each is replaced by an identifier of
	// the same length, so that the positions in errors stay those of the text, and example gets a number for it. In
	// value(EXPRESSION), which is replaced as a whole, until is the end: names inside it are left as they are.
	until := 0
	for _, at := range wordPattern.FindAllStringIndex(text, -1) {
		if at[0] < until { // inside a value
			continue
		}
		until = at[0] + valueLength(text[at[0]:]) // at[0] for any other name
		word := text[at[0]:max(until, at[1])]
		if slices.Contains(keywords, word) || slices.Contains(expression.FunctionNames(), word) {
			continue
		}

		// A fact has its own name, and a metric the one that resolve gives it.
		full, err := word, error(nil)
		if !slices.Contains(FactNames(), word) {
			full, err = resolve(word)
		}
		if err != nil {
			return nil, expression.Errorf(text, utf8.RuneCountInString(text[:at[0]])+1, "%v", err)
		}

		// A value becomes "value" with its position in digits, padded to its length: unlike any other's. There is room
		// for it, since a position below 1,000 (expression.Max) has three digits, as "(x)" has characters.
		plain := strings.NewReplacer("@", "_", "%", "_", ".", "_").Replace(word)
		if until > at[1] {
			plain = fmt.Sprintf("value%0*d", len(word)-len("value"), at[0])
		}
		copy(code[at[0]:], plain)
		c.names[plain], example[plain] = full, 0.0
	}

	var err error
	c.e, err = expression.Compile(text, string(code), example)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// valueLength returns the length in bytes of the value(EXPRESSION) that a text begins with, up to its closing
// parenthesis. It is 0 if the text begins with none, or if the parenthesis is missing.
func valueLength(text string) int {
	if !strings.HasPrefix(text, "value(") {
		return 0
	}
	open := 0
	for i, c := range text {
		switch c {
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return 0
}

var (
	// wordPattern finds names, including a part after an @. The boundary excludes the e of 1e5.
	wordPattern = regexp.MustCompile(`\b[A-Za-z_]\w*(?:@[0-9][0-9.]*%?)?`)
	keywords    = []string{"and", "or", "not", "in", "true", "false"}
)

// String returns the condition as written.
func (c *Condition) String() string { return c.e.Text }

// Names returns the names of the values that the condition refers to, ascending.
func (c *Condition) Names() []string {
	return slices.Compact(slices.Sorted(maps.Values(c.names)))
}

// Eval reports whether values, by the names in Names, satisfy the condition. It is an error if the condition refers to
// a value that is missing or NaN.
func (c *Condition) Eval(values map[string]float64) (bool, error) {
	env := make(map[string]any, len(c.names))
	for identifier, name := range c.names {
		v, ok := values[name]
		if !ok || math.IsNaN(v) {
			return false, expression.Errorf(c.e.Text, 0, "%s is not known", name)
		}
		env[identifier] = v
	}
	return c.e.Run(env)
}

// FactNames returns the names of the facts about a finished trial, beside metrics: sweep.Result.Facts.
func FactNames() []string {
	return []string{"score", "trees", "trees_grown", "best_iteration", "leaves", "model_bytes", "train_seconds",
		"private_bytes"}
}
