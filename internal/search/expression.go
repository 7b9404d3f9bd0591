package search

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"coppice/internal/strictyaml"

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

// ExpressionError is an expression that cannot be compiled, or not be evaluated for some values.
type ExpressionError struct {
	Expression string
	Column     int // in characters from 1; 0 for the whole expression
	Msg        string
}

// Error returns `"expression": column N: what`.
func (e *ExpressionError) Error() string {
	if e.Column > 0 {
		return fmt.Sprintf("%.200q: column %d: %s", e.Expression, e.Column, e.Msg)
	}
	return fmt.Sprintf("%.200q: %s", e.Expression, e.Msg)
}

// IsInput says that the input is at fault, permanently.
func (*ExpressionError) IsInput() bool { return true }

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

// compile checks text against example values, of which only the types matter: float64, string and bool. All numbers are
// float64.
func compile(text string, example map[string]any) (*expression, error) {
	if len(text) > maxExpression {
		msg := fmt.Sprintf("%d bytes, more than the %d that an expression may have", len(text), maxExpression)
		return nil, &ExpressionError{Expression: text, Msg: msg}
	}

	tree, err := parser.Parse(text)
	if err != nil {
		return nil, translate(text, err)
	}

	// The library accepts more than is allowed here.
	c := checker{text: text, known: slices.Sorted(maps.Keys(example)), used: map[string]bool{}}
	if err := c.check(tree.Node); err != nil {
		return nil, err
	}
	if _, _, err := c.constant(tree.Node); err != nil {
		return nil, err
	}

	options := []expr.Option{
		expr.Env(example), expr.AsBool(), expr.MaxNodes(maxNodes), expr.Optimize(false), expr.DisableAllBuiltins(),
		expr.Patch(toFloat{}),
	}
	for _, f := range functions() {
		options = append(options, f.option())
	}

	program, err := expr.Compile(text, options...)
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
				return nil, fmt.Errorf("%s of %v, which is no number", f.name, p)
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
		return false, &ExpressionError{Expression: e.text, Msg: fmt.Sprintf("it is %v, neither true nor false", out)}
	}
	return holds, nil
}

// translate extracts the position from the library's errors, and drops its snippet of the source.
func translate(text string, err error) error {
	var fe *file.Error
	if !errors.As(err, &fe) {
		return &ExpressionError{Expression: text, Msg: err.Error()}
	}
	return &ExpressionError{Expression: text, Column: fe.From + 1, Msg: fe.Message}
}

// checker walks a parsed expression.
type checker struct {
	text  string
	known []string
	used  map[string]bool
}

func (c *checker) errorf(n ast.Node, format string, args ...any) error {
	return &ExpressionError{Expression: c.text, Column: n.Location().From + 1, Msg: fmt.Sprintf(format, args...)}
}

func (c *checker) check(node ast.Node) error {
	switch n := node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
		return nil

	case *ast.IdentifierNode:
		if !slices.Contains(c.known, n.Value) {
			return c.errorf(n, "unknown name %.60q%s", n.Value, strictyaml.Suggest(n.Value, c.known))
		}
		c.used[n.Value] = true
		return nil

	case *ast.UnaryNode:
		if !slices.Contains(unaryOperators, n.Operator) {
			return c.errorf(n, "operator %s is not used here", n.Operator)
		}
		return c.check(n.Node)

	case *ast.BinaryNode:
		if !slices.Contains(binaryOperators, n.Operator) {
			return c.errorf(n, "operator %s is not used here; use one of %s", n.Operator,
				strings.Join(binaryOperators, " "))
		}
		return c.all(n.Left, n.Right)

	case *ast.ConditionalNode:
		return c.all(n.Cond, n.Exp1, n.Exp2)
	case *ast.ArrayNode:
		return c.all(n.Nodes...)

	case *ast.CallNode:
		name, ok := n.Callee.(*ast.IdentifierNode)
		if !ok {
			return c.errorf(n, "only functions can be called: %s", strings.Join(functionNames(), ", "))
		}
		return c.call(n, name.Value, n.Arguments)

	case *ast.BuiltinNode:
		return c.call(n, n.Name, n.Arguments)
	}

	return c.errorf(node, "only arithmetic, comparisons and the functions %s are used here",
		strings.Join(functionNames(), ", "))
}

func (c *checker) all(nodes ...ast.Node) error {
	for _, n := range nodes {
		if err := c.check(n); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) call(n ast.Node, name string, args []ast.Node) error {
	i := slices.IndexFunc(functions(), func(f function) bool { return f.name == name })
	if i < 0 {
		return c.errorf(n, "unknown function %.60q%s", name, strictyaml.Suggest(name, functionNames()))
	}
	if variadic := functions()[i].variadic; len(args) == 0 || len(args) > 1 && !variadic {
		return c.errorf(n, "%s with %d arguments; it takes %s", name, len(args),
			map[bool]string{true: "one or more", false: "one"}[variadic])
	}
	return c.all(args...)
}
