package expression

import (
	"maps"
	"math"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// PerRow computes a number of every row. It is safe for concurrent use.
type PerRow struct {
	Text  string   // as all its spellings are written
	Names []string // columns, ascending
	value closure
}

// closure computes from a row's values, in the order of PerRow.Names. A condition is 1 or 0.
type closure func(row []float64) float64

// kind is what a part of an expression is, with an example.
type kind string

const (
	number    kind = "a number is needed here, such as: condition ? 1 : 0"
	condition kind = "a condition is needed here, such as: prediction > 0.1"
)

// CompileRows compiles an expression that gives a number. Every name in it is taken for a column of numbers, except
// those of functions. Expressions that differ only in their spelling, as in blanks, have the same Text.
func CompileRows(text string) (*PerRow, error) {
	tree, err := parseCode(text, text)
	if err != nil {
		return nil, err
	}
	c := checker{text: text, any: true, used: map[string]bool{}}
	if _, _, err := c.check(tree.Node); err != nil {
		return nil, err
	}
	// Compiled as it was written, so that errors have places in this text.
	r := &PerRow{Names: slices.Sorted(maps.Keys(c.used))}
	if _, err = r.compile(&c, tree.Node, number); err != nil {
		return nil, err
	}

	// Compile the text once more from its one spelling, so that what is computed is what Text says.
	r.Text = tree.Node.String()
	if tree, err = parseCode(r.Text, r.Text); err == nil {
		r.value, err = r.compile(&c, tree.Node, number)
	}
	return r, err
}

// Of computes the number of a row, whose values are in the order of Names.
func (r *PerRow) Of(row []float64) float64 { return r.value(row) }

// compile turns a part of a tree that c has checked into a closure. It is an error if the part does not give what is
// wanted, a number or a condition. A text or a list gives neither.
func (r *PerRow) compile(c *checker, node ast.Node, want kind) (out closure, err error) {
	gives := number // the kind of what the part gives
	switch n := node.(type) {
	case *ast.IntegerNode:
		out = func([]float64) float64 { return float64(n.Value) }
	case *ast.FloatNode:
		out = func([]float64) float64 { return n.Value }
	case *ast.BoolNode:
		gives, out = condition, func([]float64) float64 { return indicator(n.Value) }
	case *ast.IdentifierNode:
		i := slices.Index(r.Names, n.Value)
		out = func(row []float64) float64 { return row[i] }
	case *ast.UnaryNode:
		if n.Operator == "!" || n.Operator == "not" {
			gives = condition
		}
		var x closure
		x, err = r.compile(c, n.Node, gives)
		out = x // of "+"
		switch n.Operator {
		case "-":
			out = func(row []float64) float64 { return -x(row) }
		case "!", "not":
			out = func(row []float64) float64 { return 1 - x(row) }
		}
	case *ast.BinaryNode:
		gives, out, err = r.compileBinary(c, n)
	case *ast.ConditionalNode: // gives what both its branches give
		gives = want
		var is closure
		var xy []closure
		if is, err = r.compile(c, n.Cond, condition); err == nil {
			xy, err = r.compileAll(c, want, n.Exp1, n.Exp2)
		}
		out = func(row []float64) float64 {
			if is(row) == 1 {
				return xy[0](row)
			}
			return xy[1](row)
		}
	case *ast.CallNode:
		out, err = r.compileFunction(c, n.Callee.(*ast.IdentifierNode).Value, n.Arguments)
	case *ast.BuiltinNode:
		out, err = r.compileFunction(c, n.Name, n.Arguments)
	}
	if err == nil && (out == nil || gives != want) {
		err = c.errorf(node, "%s", want)
	}
	return out, err
}

// compileAll compiles nodes, which must all be of the kind that is wanted: numbers or conditions.
func (r *PerRow) compileAll(c *checker, want kind, nodes ...ast.Node) ([]closure, error) {
	out := make([]closure, len(nodes))
	for i, n := range nodes {
		var err error
		if out[i], err = r.compile(c, n, want); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compileFunction compiles the call of a function that the checker has found to exist, with its number of arguments.
func (r *PerRow) compileFunction(c *checker, name string, args []ast.Node) (closure, error) {
	xs, err := r.compileAll(c, number, args...)
	if err != nil {
		return nil, err
	}
	f := functions()[slices.IndexFunc(functions(), func(f function) bool { return f.name == name })]
	if f.fold == nil {
		return func(row []float64) float64 { return f.single(xs[0](row)) }, nil
	}
	return func(row []float64) float64 {
		x := xs[0](row)
		for _, y := range xs[1:] {
			x = f.fold(x, y(row))
		}
		return x
	}, nil
}

// indicator is a condition as a number: 1 or 0.
func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// operators are the binary operators by name. Conditions are 1 or 0, so the lesser of two is "and", the greater "or".
// The conversion float64(a * b) makes Go round a product before anything is added to it; some processors would
// otherwise fuse the two, and give other bits.
var operators = map[string]struct {
	takes, gives kind
	of           func(a, b float64) float64
}{
	"+":   {number, number, func(a, b float64) float64 { return a + b }},
	"-":   {number, number, func(a, b float64) float64 { return a - b }},
	"*":   {number, number, func(a, b float64) float64 { return float64(a * b) }},
	"/":   {number, number, func(a, b float64) float64 { return a / b }},
	"^":   {number, number, math.Pow},
	"**":  {number, number, math.Pow},
	"==":  {number, condition, func(a, b float64) float64 { return indicator(a == b) }},
	"!=":  {number, condition, func(a, b float64) float64 { return indicator(a != b) }},
	"<":   {number, condition, func(a, b float64) float64 { return indicator(a < b) }},
	"<=":  {number, condition, func(a, b float64) float64 { return indicator(a <= b) }},
	">":   {number, condition, func(a, b float64) float64 { return indicator(a > b) }},
	">=":  {number, condition, func(a, b float64) float64 { return indicator(a >= b) }},
	"&&":  {condition, condition, func(a, b float64) float64 { return min(a, b) }},
	"and": {condition, condition, func(a, b float64) float64 { return min(a, b) }},
	"||":  {condition, condition, func(a, b float64) float64 { return max(a, b) }},
	"or":  {condition, condition, func(a, b float64) float64 { return max(a, b) }},
}

// maxPower bounds exponents. They have to be whole numbers, since math.Pow then only multiplies, and gives the same
// bits on every processor.
const maxPower = 64

// compileBinary compiles a binary operator and returns the kind of what it gives. The exponent of a power has to be a
// constant whole number up to maxPower. The right side of "in" has to be a list, each number of which is compared.
func (r *PerRow) compileBinary(c *checker, n *ast.BinaryNode) (gives kind, out closure, err error) {
	if n.Operator == "in" {
		list, ok := n.Right.(*ast.ArrayNode)
		if !ok {
			return "", nil, c.errorf(n.Right, "a list of numbers is needed here, such as: label in [1, 2]")
		}
		all, err := r.compileAll(c, number, append([]ast.Node{n.Left}, list.Nodes...)...)
		return condition, func(row []float64) float64 {
			v := all[0](row)
			return indicator(slices.ContainsFunc(all[1:], func(y closure) bool { return y(row) == v }))
		}, err
	}
	op := operators[n.Operator]
	// The exponent has passed a check before. It is checked again, with a fresh count of parts, only for its value.
	if n.Operator == "^" || n.Operator == "**" {
		power, constant, _ := (&checker{any: true, used: c.used}).check(n.Right)
		if !constant || power != math.Trunc(power) || math.Abs(power) > maxPower {
			return "", nil, c.errorf(n.Right, "use a whole number up to %d as an exponent; x ^ y is exp(y * log(x))",
				maxPower)
		}
	}
	xy, err := r.compileAll(c, op.takes, n.Left, n.Right)
	return op.gives, func(row []float64) float64 { return op.of(xy[0](row), xy[1](row)) }, err
}
