// Package expression is the language of conditions and values that people write in specs: arithmetic, comparisons and
// a few functions over numbers with names. A condition (Compile) is evaluated now and then, by the library's machine;
// what a metric computes of every row (CompileRows) becomes closures over float64, with the same bits on every
// processor.
package expression

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"coppice/internal/exact"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// Max is the most bytes of an expression.
const Max = 1000

const (
	maxNodes  = 300
	mostParts = 2000   // as the checker sees them
	maxMemory = 10_000 // most elements of lists while an expression runs
)

// Errorf is an error about an expression that cannot be compiled, or not be evaluated for some values. The column is in
// characters from 1; 0 is the whole expression.
func Errorf(text string, column int, format string, args ...any) error {
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

// function has exactly one argument, or one or more, which are folded.
type function struct {
	name   string
	single func(float64) float64
	fold   func(a, b float64) float64
}

// apply calls the function with at least one argument. If it is folded, the arguments are joined from the left, two at
// a time; else only the first one counts.
func (f function) apply(args []float64) float64 {
	if f.fold == nil {
		return f.single(args[0])
	}
	x := args[0]
	for _, y := range args[1:] {
		x = f.fold(x, y)
	}
	return x
}

// functions are those of expressions: fold joins the arguments one by one, single takes one.
func functions() []function {
	return []function{
		{name: "min", fold: func(a, b float64) float64 { return min(a, b) }},
		{name: "max", fold: func(a, b float64) float64 { return max(a, b) }},
		{name: "abs", single: math.Abs},
		{name: "log", single: exact.Log},
		{name: "exp", single: exponential},
		{name: "sqrt", single: math.Sqrt},
		{name: "floor", single: math.Floor},
		{name: "ceil", single: math.Ceil},
	}
}

// exponential is exact.Exp, and beyond its limit 0 or infinite.
func exponential(x float64) float64 {
	switch {
	case x > exact.Limit:
		return math.Inf(1)
	case x < -exact.Limit:
		return 0
	}
	return exact.Exp(x)
}

// FunctionNames are the functions of the language.
func FunctionNames() []string {
	var names []string
	for _, f := range functions() {
		names = append(names, f.name)
	}
	return names
}

// Expression is a compiled condition, and safe for concurrent use.
type Expression struct {
	Text    string
	Names   []string // used in it, ascending
	program *vm.Program
}

// Compile checks code against example values, of which only the types matter: float64, string and bool. All numbers are
// float64. text is the code as a person wrote it, of the same length.
func Compile(text, code string, example map[string]any) (*Expression, error) {
	tree, err := parseCode(text, code)
	if err != nil {
		return nil, err
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
	return &Expression{Text: text, program: program, Names: slices.Sorted(maps.Keys(c.used))}, nil
}

// option returns the library's option that makes the function callable. Its arguments have to be float64, which every
// number is (see toFloat); a text or a condition is an error when the expression runs.
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
		return f.apply(args), nil
	}

	if f.fold != nil {
		return expr.Function(f.name, call, new(func(...float64) float64))
	}
	return expr.Function(f.name, call, new(func(float64) float64))
}

// parseCode parses code, which a person wrote as text.
func parseCode(text, code string) (*parser.Tree, error) {
	if len(text) > Max {
		return nil, Errorf(text, 0, "%d bytes, more than the %d that an expression may have", len(text), Max)
	}
	tree, err := parser.Parse(code)
	if err != nil {
		return nil, translate(text, err)
	}
	return tree, nil
}

// toFloat converts every number of an expression to float64, like the values, so that 7/2 and 7.0/2 are the same.
type toFloat struct{}

func (toFloat) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IntegerNode); ok {
		ast.Patch(node, &ast.FloatNode{Value: float64(n.Value)})
	}
}

// Run evaluates the expression on values for all of its names.
func (e *Expression) Run(values map[string]any) (bool, error) {
	machine := vm.VM{MemoryBudget: maxMemory}
	out, err := machine.Run(e.program, values)
	if err != nil {
		return false, translate(e.Text, err)
	}
	holds, ok := out.(bool)
	if !ok {
		return false, Errorf(e.Text, 0, "it is %v, neither true nor false", out)
	}
	return holds, nil
}

// translate makes an error of Errorf from the library's, with its position and without the piece of source that it
// quotes.
func translate(text string, err error) error {
	if fe := new(file.Error); errors.As(err, &fe) {
		return Errorf(text, fe.From+1, "%s", fe.Message)
	}
	return Errorf(text, 0, "%v", err)
}

// checker walks a parsed expression.
type checker struct {
	text  string
	known []string
	any   bool // names need not be in known
	used  map[string]bool
	parts int // seen so far
}

func (c *checker) errorf(n ast.Node, format string, args ...any) error {
	return Errorf(c.text, n.Location().From+1, format, args...)
}

// check returns an error if the expression below node has anything that is not allowed. If the value of node depends on
// no name, constant is true and x is that value. A constant that is not finite, such as 1/0, is an error, too:
// comparisons with it would hold always or never. Conditions are never constant.
func (c *checker) check(node ast.Node) (x float64, constant bool, err error) {
	// In a < b < c, the parser makes b a part of both comparisons. So nested ones are visited exponentially often, and
	// the count stops that.
	if c.parts++; c.parts > mostParts {
		return 0, false, c.errorf(node, "more than the %d parts that an expression may have", mostParts)
	}
	switch n := node.(type) {
	case *ast.BoolNode, *ast.StringNode:
	case *ast.IntegerNode:
		x, constant = float64(n.Value), true
	case *ast.FloatNode:
		x, constant = n.Value, true

	case *ast.IdentifierNode:
		c.used[n.Value] = true
		err = c.checkName(n)

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
		parts, constant, err = c.checkAll(n.Left, n.Right)
		op := operators[n.Operator] // none for "in", which gives a condition, too
		constant = constant && op.gives == number
		if constant {
			x = op.of(parts[0], parts[1])
		}

	case *ast.ConditionalNode:
		_, _, err = c.checkAll(n.Cond, n.Exp1, n.Exp2)
	case *ast.ArrayNode:
		_, _, err = c.checkAll(n.Nodes...)
	case *ast.CallNode:
		name, ok := n.Callee.(*ast.IdentifierNode)
		if !ok {
			return 0, false, c.errorf(n, "only functions can be called: %s", strings.Join(FunctionNames(), ", "))
		}
		x, constant, err = c.checkCall(n, name.Value, n.Arguments)
	case *ast.BuiltinNode:
		x, constant, err = c.checkCall(n, n.Name, n.Arguments)

	default:
		return 0, false, c.errorf(node, "only arithmetic, comparisons and the functions %s are used here",
			strings.Join(FunctionNames(), ", "))
	}

	if err == nil && constant && (math.IsNaN(x) || math.IsInf(x, 0)) {
		err = c.errorf(node, "this is %v, no number that anything can be compared with", x)
	}
	return x, constant, err
}

// checkName returns an error unless a name is known. If any name may be used (c.any), it only must not be that of a
// function or contain a $, which the library uses for its own.
func (c *checker) checkName(n *ast.IdentifierNode) error {
	switch {
	case c.any && (strings.Contains(n.Value, "$") || slices.Contains(FunctionNames(), n.Value)):
		return c.errorf(n, "%.60q cannot be the name of a column here", n.Value)
	case !c.any && !slices.Contains(c.known, n.Value):
		return c.errorf(n, "unknown name %.60q%s", n.Value, strictyaml.Suggest(n.Value, c.known))
	}
	return nil
}

// checkAll checks several parts and returns their values. constant reports whether all of them are constant; otherwise
// the values mean nothing.
func (c *checker) checkAll(nodes ...ast.Node) (values []float64, constant bool, err error) {
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

// checkCall returns an error unless name is a known function that takes so many arguments, and all of them pass. If all
// arguments are constant, so is the result x.
func (c *checker) checkCall(n ast.Node, name string, args []ast.Node) (x float64, constant bool, err error) {
	i := slices.IndexFunc(functions(), func(f function) bool { return f.name == name })
	if i < 0 {
		return 0, false, c.errorf(n, "unknown function %.60q%s", name, strictyaml.Suggest(name, FunctionNames()))
	}
	f := functions()[i]
	takes := "one"
	if f.fold != nil {
		takes = "one or more"
	}
	if len(args) == 0 || len(args) > 1 && f.fold == nil {
		return 0, false, c.errorf(n, "%s with %d arguments; it takes %s", name, len(args), takes)
	}

	values, constant, err := c.checkAll(args...)
	if constant {
		x = f.apply(values)
	}
	return x, constant, err
}

// Rename returns the expression with every name replaced by what name returns for it; functions' names and all else
// stay. An invalid expression is returned unchanged: Compile reports its error.
func Rename(text string, name func(string) string) string {
	if len(text) > Max {
		return text
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return text
	}
	c := checker{text: text, any: true, used: map[string]bool{}}
	if _, _, err := c.check(tree.Node); err != nil { // also one whose tree is too large to be walked
		return text
	}

	var found identifiers
	ast.Walk(&tree.Node, &found)
	slices.SortFunc(found,
		func(a, b *ast.IdentifierNode) int { return cmp.Compare(b.Location().From, a.Location().From) })

	// Replace from the end, so that earlier positions stay valid. Positions count characters, not bytes. A name between
	// two comparisons (a < b < c) is found twice, which Compact undoes.
	out := []rune(text)
	for _, n := range slices.Compact(found) {
		if full := name(n.Value); full != n.Value && !slices.Contains(FunctionNames(), n.Value) {
			out = slices.Replace(out, n.Location().From, n.Location().To, []rune(full)...)
		}
	}
	return string(out)
}

// identifiers collects the identifiers of an expression, names of functions among them.
type identifiers []*ast.IdentifierNode

// Visit implements ast.Visitor.
func (i *identifiers) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok {
		*i = append(*i, n)
	}
}
