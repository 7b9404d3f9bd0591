package search

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"coppice/internal/problem"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

const (
	maxExpression = 1000 // bytes
	maxNodes      = 300
	maxMemory     = 10_000 // most elements of lists while an expression runs
)

// expressionError is about an expression that cannot be compiled, or not be evaluated for some values. The column is in
// characters from 1; 0 is the whole expression.
func expressionError(text string, column int, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if column > 0 {
		return problem.New(problem.Input, "%.200q: column %d: %s", text, column, msg)
	}
	return problem.New(problem.Input, "%.200q: %s", text, msg)
}

// The operators and functions allowed in expressions. The rest of the language (method calls, loops over lists, regular
// expressions, dates ...) is not needed here and could be abused to be slow.
var (
	unaryOperators  = []string{"+", "-", "!", "not"}
	binaryOperators = []string{"+", "-", "*", "/", "^", "**", "==", "!=", "<", "<=", ">", ">=", "&&", "and", "||", "or",
		"in"}
)

type function struct {
	name     string
	variadic bool // one argument or more; otherwise exactly one
	of       func(args []float64) float64
}

func functions() []function {
	single := func(f func(float64) float64) func([]float64) float64 {
		return func(args []float64) float64 { return f(args[0]) }
	}

	return []function{
		{"min", true, slices.Min[[]float64]},
		{"max", true, slices.Max[[]float64]},
		{"abs", false, single(math.Abs)},
		{"log", false, single(math.Log)},
		{"exp", false, single(math.Exp)},
		{"sqrt", false, single(math.Sqrt)},
		{"floor", false, single(math.Floor)},
		{"ceil", false, single(math.Ceil)},
	}
}

func functionNames() []string {
	var names []string
	for _, f := range functions() {
		names = append(names, f.name)
	}
	return names
}

// expression is compiled, and safe for concurrent use.
type expression struct {
	text    string
	program *vm.Program
	names   []string // used in it, ascending
}

// compile checks code against example values, of which only the types matter: float64, string and bool. All numbers are
// float64. text is the code as a person wrote it, of the same length.
func compile(text, code string, example map[string]any) (*expression, error) {
	if len(text) > maxExpression {
		return nil, expressionError(text, 0, "%d bytes, more than the %d that an expression may have", len(text),
			maxExpression)
	}

	tree, err := parser.Parse(code)
	if err != nil {
		return nil, translate(text, err)
	}

	// The library accepts more than is allowed here.
	c := checker{text: text, known: slices.Sorted(maps.Keys(example)), used: map[string]bool{}}
	if _, _, err := c.check(tree.Node); err != nil {
		return nil, err
	}

	options := []expr.Option{
		expr.Env(example), expr.AsBool(), expr.MaxNodes(maxNodes), expr.Optimize(false), expr.DisableAllBuiltins(),
		expr.Patch(toFloat{}),
	}
	for _, f := range functions() {
		options = append(options, f.option())
	}

	program, err := expr.Compile(code, options...)
	if err != nil {
		return nil, translate(text, err)
	}
	return &expression{text: text, program: program, names: slices.Sorted(maps.Keys(c.used))}, nil
}

func (f function) option() expr.Option {
	call := func(params ...any) (any, error) {
		args := make([]float64, len(params))
		for i, p := range params {
			v, ok := p.(float64)
			if !ok {
				return nil, fmt.Errorf("%s of %v, which is not a number", f.name, p)
			}
			args[i] = v
		}
		return f.of(args), nil
	}

	if f.variadic {
		return expr.Function(f.name, call, new(func(...float64) float64))
	}
	return expr.Function(f.name, call, new(func(float64) float64))
}

// toFloat converts every number of an expression to float64, like the values, so that 7/2 and 7.0/2 are the same.
type toFloat struct{}

func (toFloat) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IntegerNode); ok {
		ast.Patch(node, &ast.FloatNode{Value: float64(n.Value)})
	}
}

// run evaluates the expression on values for all of its names.
func (e *expression) run(values map[string]any) (bool, error) {
	machine := vm.VM{MemoryBudget: maxMemory}
	out, err := machine.Run(e.program, values)
	if err != nil {
		return false, translate(e.text, err)
	}
	holds, ok := out.(bool)
	if !ok {
		return false, expressionError(e.text, 0, "it is %v, neither true nor false", out)
	}
	return holds, nil
}

// translate extracts the position from the library's errors, and drops its snippet of the source.
func translate(text string, err error) error {
	if fe := new(file.Error); errors.As(err, &fe) {
		return expressionError(text, fe.From+1, "%s", fe.Message)
	}
	return expressionError(text, 0, "%v", err)
}

// checker walks a parsed expression.
type checker struct {
	text  string
	known []string
	used  map[string]bool
}

func (c *checker) errorf(n ast.Node, format string, args ...any) error {
	return expressionError(c.text, n.Location().From+1, format, args...)
}

// check refuses what expressions may not have, and returns the value of a part that depends on no parameter. A constant
// that is not finite, such as 1/0, is a typing error: comparisons with it would always hold, or never.
func (c *checker) check(node ast.Node) (x float64, constant bool, err error) {
	switch n := node.(type) {
	case *ast.BoolNode, *ast.StringNode:
	case *ast.IntegerNode:
		x, constant = float64(n.Value), true
	case *ast.FloatNode:
		x, constant = n.Value, true

	case *ast.IdentifierNode:
		if !slices.Contains(c.known, n.Value) {
			return 0, false, c.errorf(n, "unknown name %.60q%s", n.Value, strictyaml.Suggest(n.Value, c.known))
		}
		c.used[n.Value] = true

	case *ast.UnaryNode:
		if !slices.Contains(unaryOperators, n.Operator) {
			return 0, false, c.errorf(n, "operator %s is not used here", n.Operator)
		}
		x, constant, err = c.check(n.Node)
		if n.Operator == "-" {
			x = -x
		}
		constant = constant && (n.Operator == "-" || n.Operator == "+")

	case *ast.BinaryNode:
		if !slices.Contains(binaryOperators, n.Operator) {
			return 0, false, c.errorf(n, "operator %s is not used here; use one of %s", n.Operator,
				strings.Join(binaryOperators, " "))
		}
		var parts []float64
		if parts, constant, err = c.all(n.Left, n.Right); constant {
			x, constant = arithmetic(n.Operator, parts[0], parts[1])
		}

	case *ast.ConditionalNode:
		_, _, err = c.all(n.Cond, n.Exp1, n.Exp2)
	case *ast.ArrayNode:
		_, _, err = c.all(n.Nodes...)
	case *ast.CallNode:
		name, ok := n.Callee.(*ast.IdentifierNode)
		if !ok {
			return 0, false, c.errorf(n, "only functions can be called: %s", strings.Join(functionNames(), ", "))
		}
		x, constant, err = c.call(n, name.Value, n.Arguments)
	case *ast.BuiltinNode:
		x, constant, err = c.call(n, n.Name, n.Arguments)

	default:
		return 0, false, c.errorf(node, "only arithmetic, comparisons and the functions %s are used here",
			strings.Join(functionNames(), ", "))
	}

	if err == nil && constant && !sweep.Finite(x) {
		err = c.errorf(node, "this is %v, no number that anything can be compared with", x)
	}
	return x, constant, err
}

// all checks several parts; constant is whether all of them are.
func (c *checker) all(nodes ...ast.Node) (values []float64, constant bool, err error) {
	constant = true
	for _, n := range nodes {
		x, is, err := c.check(n)
		if err != nil {
			return nil, false, err
		}
		values, constant = append(values, x), constant && is
	}
	return values, constant, nil
}

func (c *checker) call(n ast.Node, name string, args []ast.Node) (x float64, constant bool, err error) {
	i := slices.IndexFunc(functions(), func(f function) bool { return f.name == name })
	if i < 0 {
		return 0, false, c.errorf(n, "unknown function %.60q%s", name, strictyaml.Suggest(name, functionNames()))
	}
	f := functions()[i]
	if len(args) == 0 || len(args) > 1 && !f.variadic {
		return 0, false, c.errorf(n, "%s with %d arguments; it takes %s", name, len(args),
			map[bool]string{true: "one or more", false: "one"}[f.variadic])
	}

	values, constant, err := c.all(args...)
	if constant {
		x = f.of(values)
	}
	return x, constant, err
}

func arithmetic(operator string, a, b float64) (x float64, ok bool) {
	switch operator {
	case "+":
		return a + b, true
	case "-":
		return a - b, true
	case "*":
		return a * b, true
	case "/":
		return a / b, true
	case "^", "**":
		return math.Pow(a, b), true
	}
	return 0, false
}

// Constraint is a condition on the parameters of a configuration, such as num_leaves <= 2 ^ max_depth. It is safe for
// concurrent use.
type Constraint struct{ e *expression }

// unlimited is the parameter for which 0 and less mean no limit. In an expression it is then +Inf.
const unlimited = "max_depth"

// CompileConstraint compiles a condition on parameters. example is any complete configuration: it determines the
// parameters and whether each is a number, text or boolean.
func CompileConstraint(text string, example map[string]any) (*Constraint, error) {
	e, err := compile(text, text, environment(example))
	if err != nil {
		return nil, err
	}
	return &Constraint{e}, nil
}

// RenameInConstraint returns the condition with every parameter renamed by name, otherwise unchanged. An invalid one is
// returned unchanged; CompileConstraint reports its error.
func RenameInConstraint(text string, name func(string) string) string {
	if len(text) > maxExpression {
		return text
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return text
	}

	var found identifiers
	ast.Walk(&tree.Node, &found)
	slices.SortFunc(found,
		func(a, b *ast.IdentifierNode) int { return cmp.Compare(b.Location().From, a.Location().From) })

	// From the end, so that earlier positions stay valid. Positions count characters.
	out := []rune(text)
	for _, n := range found {
		if full := name(n.Value); full != n.Value && !slices.Contains(functionNames(), n.Value) {
			out = slices.Replace(out, n.Location().From, n.Location().To, []rune(full)...)
		}
	}
	return string(out)
}

// identifiers collects those of an expression, names of functions among them.
type identifiers []*ast.IdentifierNode

func (i *identifiers) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok {
		*i = append(*i, n)
	}
}

// String returns the expression as written.
func (c *Constraint) String() string { return c.e.text }

// Holds reports whether a complete configuration satisfies the constraint. A comparison with NaN (0/0, for instance)
// does not hold. The error is about a parameter that is missing or of another type than in the example.
func (c *Constraint) Holds(params map[string]any) (bool, error) {
	env := environment(params)
	for _, name := range c.e.names {
		if _, ok := env[name]; !ok {
			return false, expressionError(c.e.text, 0, "the configuration has no %s", name)
		}
	}
	return c.e.run(env)
}

// environment returns params as expressions see them. Lists and the like cannot be compared and are left out.
func environment(params map[string]any) map[string]any {
	env := make(map[string]any, len(params))
	for name, value := range params {
		switch v := normal(value).(type) {
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
// usual names, such as precision@1%, or as identifiers: precision_at_1pct. It is safe for concurrent use.
type Condition struct {
	e     *expression
	names map[string]string // of the values, by identifier in the expression
}

// CompileRequires compiles all conditions of a spec: see CompileRequire.
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
	c, example, code := &Condition{names: map[string]string{}}, map[string]any{}, []byte(text)
	if len(text) > maxExpression {
		_, err := compile(text, text, nil)
		return nil, err
	}

	// Names become identifiers of the same length, so that positions stay, each with a number as its example.
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
			return nil, expressionError(text, utf8.RuneCountInString(text[:at[0]])+1, "%v", err)
		}
		plain := strings.NewReplacer("@", "_", "%", "_", ".", "_").Replace(word)
		copy(code[at[0]:], plain)
		c.names[plain], example[plain] = full, 0.0
	}

	var err error
	c.e, err = compile(text, string(code), example)
	if err != nil {
		return nil, err
	}
	return c, nil
}

var (
	// wordPattern finds names, including a part after an @. The boundary excludes the e of 1e5.
	wordPattern = regexp.MustCompile(`\b[A-Za-z_]\w*(?:@[0-9][0-9.]*%?)?`)
	keywords    = []string{"and", "or", "not", "in", "true", "false"}
)

// String returns the condition as written.
func (c *Condition) String() string { return c.e.text }

// Names returns the names of the values that the condition refers to, ascending.
func (c *Condition) Names() []string {
	return slices.Compact(slices.Sorted(maps.Values(c.names)))
}

// Eval reports whether values satisfy the condition. It is an error if the condition refers to a value that is missing
// or NaN.
func (c *Condition) Eval(values map[string]float64) (bool, error) {
	env := make(map[string]any, len(c.names))
	for identifier, name := range c.names {
		v, ok := values[name]
		if !ok || math.IsNaN(v) {
			return false, expressionError(c.e.text, 0, "%s is not known", name)
		}
		env[identifier] = v
	}
	return c.e.run(env)
}

// FactNames returns the names of the facts about a finished trial, beside metrics: sweep.Result.Facts.
func FactNames() []string {
	return []string{"score", "trees", "trees_grown", "best_iteration", "leaves", "model_bytes", "train_seconds",
		"private_bytes"}
}
