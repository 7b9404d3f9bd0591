package strictyaml_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"coppice/internal/strictyaml"
)

// auto is a whole number, or a word.
type auto int

func (a *auto) UnmarshalYAML(decode func(any) error) error {
	var word string
	if decode(&word) == nil && word == "auto" {
		return nil
	}
	return decode((*int)(a))
}

// some is a mapping, or a whole number.
type some struct {
	Rows int `yaml:"rows"`
}

func (some) YAMLBare() any { return 0 }

func (s *some) UnmarshalYAML(decode func(any) error) error {
	if decode(&s.Rows) == nil {
		return nil
	}
	type plain some
	return decode((*plain)(s))
}

// named is a mapping, or a text.
type named struct {
	Column string `yaml:"column"`
}

func (named) YAMLBare() any { return "" }

func (n *named) UnmarshalYAML(decode func(any) error) error { return decode(&n.Column) }

type numbers struct {
	Count int              `yaml:"count"`
	Seed  uint64           `yaml:"seed"`
	Share float64          `yaml:"share"`
	Tasks auto             `yaml:"tasks"`
	Some  some             `yaml:"some"`
	Spot  *bool            `yaml:"spot"`
	Text  string           `yaml:"text"`
	Maybe *string          `yaml:"maybe"`
	Ints  []int64          `yaml:"ints"`
	Any   map[string]any   `yaml:"any"`
	Gate  *struct{ X int } `yaml:"gate"`
	Texts []string         `yaml:"texts"`
	Name  named            `yaml:"name"`
}

// TestNumbersAreWhatTheyLookLike: what the YAML library would make another number of is refused, with its place.
func TestNumbersAreWhatTheyLookLike(t *testing.T) {
	for in, want := range map[string]string{
		"count: 1.5":                  `expected a whole number, found "1.5"`,
		"count: 1.0":                  `expected a whole number, found "1.0"`,
		"count: 1e3":                  `expected a whole number, found "1e3"`,
		"count: '8'":                  `expected a whole number, found the text "8"; leave the quotes out`,
		"count: \"8\"":                `expected a whole number, found the text "8"; leave the quotes out`,
		"count: 0x10":                 `expected a whole number, found "0x10"`,
		"count: 0o10":                 `expected a whole number, found "0o10"`,
		"count: 0b10":                 `expected a whole number, found "0b10"`,
		"count: 010":                  `expected a whole number, found "010"`,
		"count: 8_0":                  `expected a whole number, found "8_0"`,
		"count: .inf":                 `expected a whole number, found ".inf"`,
		"count: true":                 `expected a whole number, found "true"`,
		"count: many":                 `expected a whole number, found "many"`,
		"count:":                      "count has no value: give it one, or leave the key out",
		"count: null":                 "count has no value: give it one, or leave the key out",
		"count: 99999999999999999999": "whole number",
		"seed: 1.5":                   `expected a whole number from 0, found "1.5"`,
		"seed: -1":                    "whole number from 0",
		"tasks: 2.5":                  `expected a whole number, found "2.5"`,
		"tasks: '2'":                  `expected a whole number, found the text "2"; leave the quotes out`,
		"tasks:":                      "tasks has no value: give it one, or leave the key out",
		"some: 1.5":                   `expected a whole number, found "1.5"`,
		"some: {rows: 1.5}":           `expected a whole number, found "1.5"`,
		"share: .nan":                 `expected a number, found ".nan"`,
		"share: -.inf":                `expected a number, found "-.inf"`,
		"share: 1e999":                `expected a number, found "1e999"`,
		"share: '0.5'":                `expected a number, found the text "0.5"; leave the quotes out`,
		"share: 0x10":                 `expected a number, found "0x10"`,
		"share: 1_0.5":                `expected a number, found "1_0.5"`,
		"share: half":                 `expected a number, found "half"`,
		"spot: 'true'":                `expected true or false, found "true"`,
		"spot: yes":                   `expected true or false, found "yes"`,
		"spot:":                       "spot has no value: give it one, or leave the key out",
		"text:":                       "text has no value: give it one, or leave the key out",
		"text: ''":                    "text has no value: give it one, or leave the key out",
		"maybe:":                      "maybe has no value: give it one, or leave the key out",
		"gate:":                       "gate has no value: give it one, or leave the key out",
		"ints: [1, 2.5]":              `expected a whole number, found "2.5"`,
		"any: {x: 0x10}":              `expected a number in decimal digits, found "0x10"`,
		"any: {x: [1, 8_0]}":          `expected a number in decimal digits, found "8_0"`,
		"any: {x: {y: .inf}}":         `expected a number in decimal digits, found ".inf"`,
		"any: {x: .nan}":              `expected a number in decimal digits, found ".nan"`,
	} {
		var n numbers
		_, err := strictyaml.Decode("f.yaml", []byte(in+"\n"), &n)
		var e *strictyaml.Error
		if !errors.As(err, &e) || e.Line != 1 || e.Column == 0 || !strings.Contains(e.Msg, want) {
			t.Errorf("%s: it became %+v, %v; expected line 1, a column and %q", in, n, err, want)
		}
	}
}

// TestNumbersThatPass are all the forms in which numbers and texts are written.
func TestNumbersThatPass(t *testing.T) {
	for in, ok := range map[string]func(numbers) bool{
		"count: 8":                   func(n numbers) bool { return n.Count == 8 },
		"count: -8":                  func(n numbers) bool { return n.Count == -8 },
		"count: +8":                  func(n numbers) bool { return n.Count == 8 },
		"count: 0":                   func(n numbers) bool { return n.Count == 0 },
		"seed: 18446744073709551615": func(n numbers) bool { return n.Seed == 1<<64-1 },
		"share: 1":                   func(n numbers) bool { return n.Share == 1 },
		"share: .5":                  func(n numbers) bool { return n.Share == 0.5 },
		"share: 1e-3":                func(n numbers) bool { return n.Share == 1e-3 },
		"share: -1.5E+3":             func(n numbers) bool { return n.Share == -1500 },
		"tasks: auto":                func(n numbers) bool { return n.Tasks == 0 },
		"tasks: 'auto'":              func(n numbers) bool { return n.Tasks == 0 },
		"tasks: 7":                   func(n numbers) bool { return n.Tasks == 7 },
		"some: 7":                    func(n numbers) bool { return n.Some.Rows == 7 },
		"some: {rows: 7}":            func(n numbers) bool { return n.Some.Rows == 7 },
		"spot: false":                func(n numbers) bool { return n.Spot != nil && !*n.Spot },
		"text: 0x10":                 func(n numbers) bool { return n.Text == "0x10" },
		"text: 010":                  func(n numbers) bool { return n.Text == "010" },
		"text: 1_0":                  func(n numbers) bool { return n.Text == "1_0" },
		"text: 1.50":                 func(n numbers) bool { return n.Text == "1.50" },
		"maybe: ''":                  func(n numbers) bool { return n.Maybe != nil && *n.Maybe == "" },
		"ints: []":                   func(n numbers) bool { return len(n.Ints) == 0 },
		"texts: [010, 1.50, 1_0, ~]": func(n numbers) bool { return strings.Join(n.Texts, " ") == "010 1.50 1_0 " },
		"name: 1.50":                 func(n numbers) bool { return n.Name.Column == "1.50" },
		"any: {x: '0x10'}":           func(n numbers) bool { return n.Any["x"] == "0x10" },
	} {
		var n numbers
		if _, err := strictyaml.Decode("f.yaml", []byte(in+"\n"), &n); err != nil || !ok(n) {
			t.Errorf("%s: it became %+v, %v", in, n, err)
		}
	}
}

// TestOnlyFilesAreRead: what has no end, or may never begin, is not waited for.
func TestOnlyFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		syscall.Mkfifo(at("pipe"), 0o600), os.Symlink(at("loop"), at("loop")),
		os.WriteFile(at("good"), []byte("a: 1\n"), 0o600),
		os.WriteFile(at("long"), make([]byte, strictyaml.MaxBytes+1), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	for file, want := range map[string]string{
		"/dev/zero": "it is a device, not a file that can be read whole", dir: "it is a folder",
		at("pipe"): "it is a pipe", at("loop"): "too many levels of symbolic links",
		"a\x00b": "invalid argument", at("long"): "more than the 1048576 bytes", at("good") + "/x": "not a directory",
	} {
		_, err := strictyaml.ReadFile(file)
		var e *strictyaml.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) || e.File != file {
			t.Errorf("%q: %v, expected an *Error with %q", file, err, want)
		}
	}
	if _, err := strictyaml.ReadFile(at("nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if text, err := strictyaml.ReadUpTo(at("good"), 5); err != nil || string(text) != "a: 1\n" {
		t.Errorf("a file of five bytes, five allowed: %q, %v", text, err)
	}
	if _, err := strictyaml.ReadUpTo(at("good"), 4); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("a file of five bytes, four allowed: %v", err)
	}
	// its size is said to be 0
	if text, err := strictyaml.ReadUpTo("/proc/self/stat", 1<<20); err != nil || len(text) == 0 {
		t.Errorf("a file of no size that has text: %d bytes, %v", len(text), err)
	}
	if _, err := strictyaml.ReadUpTo("/proc/self/stat", 3); err == nil {
		t.Error("a file of no size that has more text than allowed was read")
	}
	if text, err := strictyaml.ReadFile(at("good")); err != nil || string(text) != "a: 1\n" {
		t.Errorf("a good file: %q, %v", text, err)
	}
}
