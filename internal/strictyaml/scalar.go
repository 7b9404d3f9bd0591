package strictyaml

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Bare is a mapping type for which a file may also give a single value; YAMLBare returns any value of that value's
// type.
type Bare interface{ YAMLBare() any }

// The library accepts 1.5 as a whole number (1), and reads 0x10, 010 and 8_0 by the rules of YAML 1.1, which is not
// what the author of a spec means.
var (
	wholeNumber = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	anyNumber   = regexp.MustCompile(`^[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

// checkScalar returns an error if the scalar n cannot be decoded as a t without changing its value: a fraction as a
// whole number, a number that is out of range or written in an unusual way, a quoted number, or a word as true or
// false. What is not a scalar, and null, passes.
func (d *Document) checkScalar(n ast.Node, t reflect.Type) error {
	if bare, ok := reflect.Zero(t).Interface().(Bare); ok && isScalar(n) {
		t = reflect.TypeOf(bare.YAMLBare())
	}
	if !isScalar(n) || n.Type() == ast.NullType {
		return nil
	}
	text := n.GetToken().Value

	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		// A type such as an enumeration reads words itself.
		if n.Type() == ast.StringType && hasOwnReader(t) && !anyNumber.MatchString(text) {
			return nil
		}
		if !isNumber(n) || !wholeNumber.MatchString(text) || !fitsRange(text, t) {
			return d.at(n.GetToken(), fmt.Sprintf("expected %s, found %s", describeType(t), describeNode(n)))
		}
	case reflect.Float32, reflect.Float64:
		if !isFinite(n) {
			return d.at(n.GetToken(), fmt.Sprintf("expected %s, found %s", describeType(t), describeNode(n)))
		}
	case reflect.Bool:
		if n.Type() != ast.BoolType {
			return d.at(n.GetToken(), fmt.Sprintf("expected %s, found %s", describeType(t), describeNode(n)))
		}
	}
	return nil
}

// checkAny returns an error for the first number in n that is written in an unusual way (0x10, 8_0) or is not finite.
// It is for values whose type is decided only later.
func (d *Document) checkAny(n ast.Node) error {
	var found ast.Node
	ast.Walk(visitor(func(n ast.Node) bool {
		if found == nil && isNumber(n) && !isFinite(n) {
			found = n
		}
		return found == nil
	}), n)
	if found != nil {
		return d.at(found.GetToken(), fmt.Sprintf("expected a number in decimal digits, found %s", describeNode(found)))
	}
	return nil
}

// asWritten returns the node to decode as a t in place of n. That is n itself, except that a number becomes a text if t
// is a string: the library would turn 010 into "8", and 1.50 into "1.5". In a list for a Bare type, the values are
// changed in place.
func asWritten(n ast.Node, t reflect.Type) ast.Node {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	if bare, ok := reflect.Zero(t).Interface().(Bare); ok {
		t = reflect.TypeOf(bare.YAMLBare())
		if list, ok := n.(*ast.SequenceNode); ok {
			for i, v := range list.Values {
				list.Values[i] = asWritten(v, t)
			}
		}
	}

	if t.Kind() != reflect.String || !isNumber(n) {
		return n
	}
	return ast.String(n.GetToken())
}

// fitsRange reports whether a whole number is in the range of a t.
func fitsRange(text string, t reflect.Type) bool {
	text = strings.TrimPrefix(text, "+")
	var err error
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		_, err = strconv.ParseUint(text, 10, t.Bits())
	} else {
		_, err = strconv.ParseInt(text, 10, t.Bits())
	}
	return err == nil
}

// checkValue returns an error if a key for a field of type t has no value or an empty text. Its author meant something,
// but it would be the same as leaving the key out. Lists, mappings, values of any type and types that read themselves
// may be empty; of the latter not those that are whole numbers in Go, such as enumerations.
func (d *Document) checkValue(kv *ast.MappingValueNode, t reflect.Type) error {
	empty := kv.Value.Type() == ast.NullType
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Struct, reflect.Interface:
		return nil // a valid empty value, or left to the type
	case reflect.String:
		empty = empty || isScalar(kv.Value) && kv.Value.GetToken().Value == ""
	}
	if !empty || hasOwnReader(t) && t.Kind() != reflect.Int {
		return nil
	}
	return d.at(kv.Key.GetToken(), fmt.Sprintf("%s has no value: give it one, or leave the key out", keyText(kv)))
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

func isScalar(n ast.Node) bool {
	_, ok := n.(ast.ScalarNode)
	return ok
}

// isNumber reports whether the library takes a value for a number, in whatever type.
func isNumber(n ast.Node) bool {
	switch n.Type() {
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return true
	case ast.StringType: // the library treats 1e-3, without a point, as a text that can be converted to a number
		return n.GetToken().Type == token.StringType && anyNumber.MatchString(n.GetToken().Value)
	}
	return false
}

// isFinite reports whether n is a finite number.
func isFinite(n ast.Node) bool {
	if !isNumber(n) || !anyNumber.MatchString(n.GetToken().Value) {
		return false
	}
	_, err := strconv.ParseFloat(n.GetToken().Value, 64) // 1e999 overflows
	return err == nil
}

// hasOwnReader reports whether a type decodes itself.
func hasOwnReader(t reflect.Type) bool {
	switch reflect.New(t).Interface().(type) {
	case encoding.TextUnmarshaler, interface{ UnmarshalYAML(func(any) error) error }:
		return true
	}
	return false
}

// describeNode formats a value for a message, distinguishable from the expected one.
func describeNode(n ast.Node) string {
	t := n.GetToken()
	if quotes := t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType; quotes &&
		anyNumber.MatchString(t.Value) {
		return fmt.Sprintf("the text %q; leave the quotes out", t.Value)
	}
	return fmt.Sprintf("%q", t.Value)
}
