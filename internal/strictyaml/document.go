package strictyaml

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Errorf returns an *Error at the value that path names, such as "search.random.num_leaves" or "search.fixed[1]". If
// the path is not in the file (a missing required key), the error is placed at the nearest part that is.
func (d *Document) Errorf(path, format string, args ...any) *Error {
	n, _ := d.lookup(path)
	if inside := pairsOf(n); len(inside) > 0 { // a mapping's own token is the colon after its first key
		return d.at(inside[0].Key.GetToken(), fmt.Sprintf(format, args...))
	}
	return d.at(n.GetToken(), fmt.Sprintf(format, args...))
}

// Has reports whether the file has something at path.
func (d *Document) Has(path string) bool {
	_, found := d.lookup(path)
	return found
}

// lookup returns the value at path, such as "search.fixed[1]", and true. If the path is not in the file, it returns the
// value at the longest part of it that is, and false.
func (d *Document) lookup(path string) (ast.Node, bool) {
	node := d.root
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next := findChild(node, part)
		if next == nil {
			return node, false
		}
		node = next
	}
	return node, true
}

// findChild returns what is in a list at a number, or in a mapping under a key; nil if there is nothing.
func findChild(n ast.Node, part string) ast.Node {
	if seq, ok := n.(*ast.SequenceNode); ok {
		var i int
		if _, err := fmt.Sscanf(part, "%d", &i); err == nil && i >= 0 && i < len(seq.Values) {
			return seq.Values[i]
		}
		return nil
	}

	for _, kv := range pairsOf(n) {
		if keyText(kv) == part {
			return kv.Value
		}
	}
	return nil
}

// Number returns the number at path, if the file has one there.
func (d *Document) Number(path string) (float64, bool) {
	n, found := d.lookup(path)
	if !found || !isFinite(n) {
		return 0, false
	}
	x, err := strconv.ParseFloat(n.GetToken().Value, 64)
	return x, err == nil
}
