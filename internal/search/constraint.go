package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// Constraint is a condition on the parameters of a configuration, such as num_leaves <= 2 ^ max_depth. It is safe for
// concurrent use.
type Constraint struct{ e *expression }

// unlimited is the parameter for which 0 and less mean no limit. In an expression it is then +Inf.
const unlimited = "max_depth"

// CompileConstraint compiles a condition on parameters. example is any complete configuration: it determines the
// parameters and whether each is a number, text or boolean. Errors are *ExpressionError.
func CompileConstraint(text string, example map[string]any) (*Constraint, error) {
	e, err := compile(text, environment(example))
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
	slices.SortFunc(found.params,
		func(a, b *ast.IdentifierNode) int { return cmp.Compare(b.Location().From, a.Location().From) })

	// From the end, so that earlier positions stay valid. Positions count characters.
	out := []rune(text)
	for _, n := range found.params {
		at := n.Location()
		if full := name(n.Value); full != n.Value && !found.functions[n] {
			out = slices.Replace(out, at.From, at.To, []rune(full)...)
		}
	}
	return string(out)
}

// identifiers collects those of an expression.
type identifiers struct {
	params    []*ast.IdentifierNode
	functions map[*ast.IdentifierNode]bool
}

// Visit visits a call after its callee.
func (i *identifiers) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		i.params = append(i.params, n)
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			if i.functions == nil {
				i.functions = map[*ast.IdentifierNode]bool{}
			}
			i.functions[callee] = true
		}
	}
}

// String returns the expression as written.
func (c *Constraint) String() string { return c.e.text }

// Holds reports whether a complete configuration satisfies the constraint. A comparison with NaN (0/0, for instance)
// does not hold. Errors are *ExpressionError: a parameter is missing or of another type than in the example.
func (c *Constraint) Holds(params map[string]any) (bool, error) {
	env := environment(params)
	for _, name := range c.e.names {
		if _, ok := env[name]; !ok {
			return false, &ExpressionError{Expression: c.e.text, Msg: "the configuration has no " + name}
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

// normal converts every kind of number to float64, as after a round trip through JSON.
func normal(value any) any {
	switch v := value.(type) {
	case int:
		return float64(v)
	case int8:
		return float64(v)
	case int16:
		return float64(v)
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	case uint:
		return float64(v)
	case uint8:
		return float64(v)
	case uint16:
		return float64(v)
	case uint32:
		return float64(v)
	case uint64:
		return float64(v)
	case float32:
		return float64(v)
	case float64:
		return v + 0 // turns -0 into 0
	}

	return value
}
