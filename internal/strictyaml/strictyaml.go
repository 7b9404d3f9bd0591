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
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
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

// at returns an Error at a token's position.
func (d *Document) at(t *token.Token, msg string) *Error {
	e := &Error{File: d.file, Msg: msg}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
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

// Suggest returns a suggestion for the end of a message about an unknown word: " (did you mean \"right\"?)" with the
// most similar of words. If none is similar, it lists them, at most maxKnown. If there are no words, it is empty. A
// word from another tool's language (elsewhere) suggests its counterpart, whatever is similar.
func Suggest(word string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	best := Nearest(word, words)
	for _, own := range slices.Backward(elsewhere[strings.ToLower(word)]) { // the better one comes last, and stays
		if slices.Contains(words, own) {
			best = own
		}
	}
	if best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}

	// A wide table has thousands of columns; the first ones alphabetically serve as examples.
	known := slices.Sorted(slices.Values(words))
	if len(known) <= maxKnown {
		return fmt.Sprintf(" (known: %s)", strings.Join(known, ", "))
	}
	return fmt.Sprintf(" (known: %s and %d more)", strings.Join(known[:maxKnown], ", "), len(known)-maxKnown)
}

// elsewhere has what people who come from other tools type, and the key or flag here, the better one first.
var elsewhere = map[string][]string{"target": {"label"}, "response": {"label"}, "y": {"label"}, "class": {"label"},
	"file": {"source", "in"}, "path": {"source", "in"}, "input": {"source", "in"}, "data": {"source", "in"},
	"output": {"out"}, "folder": {"data", "out"}, "dir": {"data", "out"}, "directory": {"data", "out"},
	"n_trials": {"trials"}, "num_trials": {"trials"}, "max_trials": {"trials"}, "space": {"search"},
	"search_space": {"search"}, "categorical_feature": {"categorical"}, "cat_features": {"categorical"},
	"ignore_column": {"drop"}, "query": {"group"}, "qid": {"group"}, "random_state": {"seed"},
	"time_limit": {"minutes"}, "timeout": {"minutes"}, "eval_metric": {"metric"}}

// maxKnown is how many words Suggest lists.
const maxKnown = 40

// maxMistyped is the longest word, in bytes, for which a similar one is looked for: the time is the product of both
// lengths.
const maxMistyped = 200

// Nearest returns the word of words that is most similar to word, on a tie the first alphabetically, and "" if none is
// similar enough. Similar means few edits (Levenshtein): at most a third of word's length, rounded up, and at most half
// of it, rounded down, which counts for short words. Capitals do not matter in that.
//
// Lengths are those in characters. An abbreviation counts as two edits at most. Since a word of three letters may have
// one edit only, "lear" finds learning_rate, and "lea" does not: so few letters begin too many words.
func Nearest(word string, words []string) string {
	if len(word) > maxMistyped {
		return ""
	}
	sorted, length := slices.Sorted(slices.Values(words)), utf8.RuneCountInString(word)
	best, distance := "", min(length/2, (length+2)/3)+1 // the fewest edits that are too many
	for _, w := range sorted {
		if len(w) > maxMistyped {
			continue
		}
		n := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(w))
		if begins(w, word) || begins(word, w) {
			n = min(n, 2)
		}
		if n < distance {
			best, distance = w, n
		}
	}

	return best
}

// begins reports whether beginning is likely meant as an abbreviation of word: "lear" of learning_rate, but not "a" of
// ad_format. Three letters are enough, and fewer if they are half of the word.
func begins(word, beginning string) bool {
	n := utf8.RuneCountInString(beginning)
	return strings.HasPrefix(word, beginning) && (n >= 3 || 2*n >= utf8.RuneCountInString(word))
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
