package search

import (
	"math"

	"github.com/expr-lang/expr/ast"
)

// constant returns the value of a part of an expression if it does not depend on any parameter. A constant that is not
// finite, such as 1/0, is a typing error: comparisons with it would always hold, or never.
func (c *checker) constant(node ast.Node) (x float64, ok bool, err error) {
	switch n := node.(type) {
	case *ast.IntegerNode:
		return float64(n.Value), true, nil
	case *ast.FloatNode:
		x, ok = n.Value, true

	case *ast.UnaryNode:
		x, ok, err = c.constant(n.Node)
		if n.Operator == "-" {
			x = -x
		}
		ok = ok && (n.Operator == "-" || n.Operator == "+")

	case *ast.BinaryNode:
		parts, all, err := c.constants(n.Left, n.Right)
		if err != nil {
			return 0, false, err
		}
		if all {
			x, ok = arithmetic(n.Operator, parts[0], parts[1])
		}

	case *ast.CallNode:
		if name, is := n.Callee.(*ast.IdentifierNode); is {
			return c.constantCall(n, name.Value, n.Arguments)
		}
	case *ast.BuiltinNode:
		return c.constantCall(n, n.Name, n.Arguments)
	case *ast.ConditionalNode:
		_, _, err = c.constants(n.Cond, n.Exp1, n.Exp2)
	case *ast.ArrayNode:
		_, _, err = c.constants(n.Nodes...)
	}

	return c.finite(node, x, ok, err)
}

func (c *checker) constantCall(n ast.Node, name string, args []ast.Node) (float64, bool, error) {
	parts, all, err := c.constants(args...)
	if err != nil || !all {
		return 0, false, err
	}
	for _, f := range functions() {
		if f.name == name {
			return c.finite(n, f.of(parts), true, nil)
		}
	}
	return 0, false, nil
}

// constants returns those of nodes, and whether all of them are constant.
func (c *checker) constants(nodes ...ast.Node) (out []float64, all bool, err error) {
	all = true
	for _, n := range nodes {
		x, ok, err := c.constant(n)
		if err != nil {
			return nil, false, err
		}
		out, all = append(out, x), all && ok
	}
	return out, all, nil
}

func (c *checker) finite(n ast.Node, x float64, ok bool, err error) (float64, bool, error) {
	if err == nil && ok && (math.IsNaN(x) || math.IsInf(x, 0)) {
		return 0, false, c.errorf(n, "this is %v, no number that anything can be compared with", x)
	}
	return x, ok && err == nil, err
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
