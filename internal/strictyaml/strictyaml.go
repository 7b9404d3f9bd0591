// Package strictyaml reads the YAML files that people write for Coppice, and locates their errors.
//
// It is github.com/goccy/go-yaml with everything disabled that could hide a typing error: an unknown key, a repeated
// key, a second document, an anchor or a wrong type is an *Error with file, line and column, and an unknown key comes
// with the most similar valid one. Code that checks values after decoding asks the Document for the position of a key,
// so that a wrong value is reported as precisely as a wrong word.
package strictyaml

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"coppice/internal/problem"
)

// MaxBytes is the size above which a file is rejected unread, far above any hand-written spec.
const MaxBytes = 1 << 20

// Error is an error in a YAML file, with its position. Line and Column count from 1; both are 0 for the whole file.
type Error struct {
	File   string
	Line   int
	Column int
	Msg    string
}

// Error returns "file:line:column: message", which editors and terminals turn into a link.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// Kind says that the input is at fault.
func (*Error) Kind() problem.Kind { return problem.Input }

// Document records the position of each key in a decoded file.
type Document struct {
	file string
	root ast.Node
}

// Decode decodes data, the contents of the file called file, into the struct that v points to. Fields are matched by
// their `yaml` tags. A mapping that a type decodes itself (UnmarshalYAML) is still checked against that type's tags.
func Decode(file string, data []byte, v any) (*Document, error) {
	if len(data) > MaxBytes {
		return nil, tooLong(file)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // the mark that editors on Windows write before UTF-8
	if err := checkShape(file, data); err != nil {
		return nil, err
	}

	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, orNoSpace(translate(file, err), data)
	}

	// Exactly one document.
	d := &Document{file: file}
	for _, doc := range parsed.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if d.root != nil {
			return nil, d.at(doc.Body.GetToken(), "a second YAML document; one file holds one specification")
		}
		d.root = doc.Body
	}

	if d.root == nil {
		return nil, &Error{File: file, Msg: "the file is empty"}
	}

	if err := d.refuseAnchors(); err != nil {
		return nil, err
	}
	if err := d.checkKeys(d.root, reflect.TypeOf(v)); err != nil {
		return nil, err
	}

	if err := yaml.NodeToValue(d.root, v, yaml.Strict()); err != nil {
		return nil, translate(file, err)
	}
	return d, nil
}

// maxDepth bounds how many brackets may be open at once. The parser's time grows with its square: 50 kB of brackets
// took 16 seconds.
const maxDepth = 200

// maxKeys bounds how many keys a file may have: the parser's time grows with the square of a mapping's, and 75,000 took
// 15 seconds.
const maxKeys = 1 << 15

// checkShape returns an error if a file has more open brackets, lists on a line or keys than the parser can take in
// reasonable time. It looks at bytes only, so it also counts those in texts and comments; no real spec has so many.
func checkShape(file string, data []byte) error {
	depth, line, start := 0, 1, 0 // open brackets; the line's number, and where it begins
	begun, lists := false, 0      // whether the line has anything but list dashes so far; how many lists begin on it
	keys := 0

	for i, c := range data {
		begun = begun || c != ' ' && c != '-'
		switch c {
		case '\n':
			line, start = line+1, i+1
			begun, lists = false, 0

		case '-':
			// Lists can also nest without brackets, several on one line.
			if begun {
				break
			}
			if lists > maxDepth {
				return &Error{File: file, Line: line, Column: i - start + 1,
					Msg: fmt.Sprintf("more than %d lists begin on this line", maxDepth)}
			}
			if bytes.HasPrefix(data[i:], []byte("- ")) {
				lists++
			}

		case ':':
			if rest := data[i+1:]; len(rest) == 0 || bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0])) {
				keys++
			}
			if keys > maxKeys {
				return &Error{File: file, Line: line, Column: i - start + 1,
					Msg: fmt.Sprintf("more than the %d keys that a specification may have", maxKeys)}
			}

		case '[', '{':
			depth++
			if depth > maxDepth {
				return &Error{File: file, Line: line, Column: i - start + 1,
					Msg: fmt.Sprintf("more than %d brackets are open here", maxDepth)}
			}

		case ']', '}':
			depth = max(0, depth-1)
		}
	}

	return nil
}

// at returns an Error at a token's position.
func (d *Document) at(t *token.Token, msg string) *Error {
	e := &Error{File: d.file, Msg: msg}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// pairsOf returns the keys and values of a mapping; nil of anything else. The parser makes a mapping of one pair that
// pair.
func pairsOf(n ast.Node) []*ast.MappingValueNode {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}
	}
	return nil
}

func keyText(kv *ast.MappingValueNode) string { return kv.Key.GetToken().Value }

// refuseAnchors rejects anchors, aliases and merge keys, since a few lines of them can expand to gigabytes, and tags
// such as !!str, which change a value's type. No spec needs any of them.
func (d *Document) refuseAnchors() error {
	var found *token.Token
	ast.Walk(visitor(func(n ast.Node) bool {
		switch n.Type() {
		case ast.AnchorType, ast.AliasType, ast.MergeKeyType, ast.TagType:
			found = n.GetToken()
		}
		return found == nil
	}), d.root)
	if found != nil {
		return d.at(found, "anchors, aliases and tags are not used here; write the value out")
	}
	return nil
}

type visitor func(ast.Node) bool

func (v visitor) Visit(n ast.Node) ast.Visitor {
	if v(n) {
		return v
	}
	return nil
}

// checkKeys compares the value n, and all that is in it, with the type t that it will be decoded into: keys, texts and
// numbers. The decoder would check keys, too, but it reports a random one of several unknown keys, and suggests
// nothing. It also changes the tree: a number that is to be read as text becomes the text as written (asWritten).
func (d *Document) checkKeys(n ast.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if err := d.checkText(n, t); err != nil {
		return err
	}
	if err := d.checkScalar(n, t); err != nil {
		return err
	}

	switch t.Kind() {
	case reflect.Struct:
		fields := listFields(t)
		for _, kv := range pairsOf(n) {
			key := keyText(kv)
			ft, ok := fields[key]
			if !ok {
				names := make([]string, 0, len(fields))
				for name := range fields {
					names = append(names, name)
				}
				return d.at(kv.Key.GetToken(), fmt.Sprintf("unknown key %q%s", key, Suggest(key, names)))
			}
			if err := d.checkValue(kv, ft); err != nil {
				return err
			}
			kv.Value = asWritten(kv.Value, ft)
			if err := d.checkKeys(kv.Value, ft); err != nil {
				return err
			}
		}
	case reflect.Interface:
		return d.checkAny(n)
	case reflect.Map:
		for _, kv := range pairsOf(n) {
			kv.Value = asWritten(kv.Value, t.Elem())
			if err := d.checkKeys(kv.Value, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if seq, ok := n.(*ast.SequenceNode); ok {
			for i := range seq.Values {
				seq.Values[i] = asWritten(seq.Values[i], t.Elem())
				if err := d.checkKeys(seq.Values[i], t.Elem()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkText returns the error of decoding n into a type that decodes itself from text (encoding.TextUnmarshaler), with
// its position, which the decoder would not report. For all other types it does nothing.
func (d *Document) checkText(n ast.Node, t reflect.Type) error {
	v, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler)
	scalar, isScalar := n.(ast.ScalarNode)
	if !ok || !isScalar {
		return nil
	}
	if err := v.UnmarshalText([]byte(scalar.GetToken().Value)); err != nil {
		return d.at(n.GetToken(), err.Error())
	}
	return nil
}

// listFields lists the types of a struct's fields by their keys in YAML.
func listFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.IsExported() && name != "-" && name != "" {
			fields[name] = f.Type
		}
	}
	return fields
}

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

// translate converts an error of the YAML library into an *Error with the file's name, the position, and words for
// people who write specs.
func translate(file string, err error) error {
	var ye yaml.Error
	if !errors.As(err, &ye) {
		return &Error{File: file, Msg: err.Error()}
	}

	d := &Document{file: file}
	var te *yaml.TypeError
	if errors.As(err, &te) {
		return d.at(te.Token, fmt.Sprintf("expected %s, found %s", describeType(te.DstType), describeFound(te)))
	}
	var kind *yaml.UnexpectedNodeTypeError
	if errors.As(err, &kind) {
		return d.at(kind.Token, fmt.Sprintf("expected %s, found %s", nodeName(kind.Expected), nodeName(kind.Actual)))
	}
	msg := strings.TrimSpace(ye.GetMessage())
	if msg == "found character '\t' that cannot start any token" {
		msg = "a tab; indent with spaces"
	}
	return d.at(ye.GetToken(), msg)
}

var noSpace = regexp.MustCompile(`^\s*([a-z_]+):(\w.*)`)

// orNoSpace returns a better message for an error on a line such as trials:50, which YAML takes for a text because
// there is no space behind the colon. Other errors are returned as they are.
func orNoSpace(err error, data []byte) error {
	var e *Error
	if !errors.As(err, &e) || e.Line == 0 {
		return err
	}
	lines := bytes.SplitN(data, []byte("\n"), e.Line+1)
	if at := noSpace.FindSubmatch(lines[min(e.Line, len(lines))-1]); at != nil {
		e.Msg = fmt.Sprintf("%.60s:%.60s needs a space after the colon: %.60[1]s: %.60[2]s", at[1], at[2])
	}
	return e
}

// nodeName is what a person calls a part of a YAML file.
func nodeName(t ast.NodeType) string {
	switch t {
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number"
	case ast.BoolType:
		return "true or false"
	case ast.StringType, ast.LiteralType:
		return "text"
	case ast.NullType:
		return "nothing"
	}

	return t.YAMLName()
}

// describeFound says what was found in place of the right type: its text in quotes, or "a list" or "a mapping".
func describeFound(te *yaml.TypeError) string {
	if te.Token != nil && te.Token.Type == token.SequenceStartType {
		return "a list"
	}
	if te.Token != nil && te.Token.Type == token.MappingStartType {
		return "a mapping"
	}
	if te.Token != nil && te.Token.Value != "" {
		return fmt.Sprintf("%q", te.Token.Value)
	}
	return describeType(te.SrcType)
}

// describeType says for people how a value of a Go type is written: "a whole number", "a list". A nil type stands for
// no value: "nothing".
func describeType(t reflect.Type) string {
	if t == nil {
		return "nothing"
	}

	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "a whole number"
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		return "a whole number from 0"
	case reflect.Float64, reflect.Float32:
		return "a number"
	case reflect.String:
		return "text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a mapping"
	default:
		return t.String()
	}
}
