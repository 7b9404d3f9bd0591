package strictyaml_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/strictyaml"
)

// column is written in YAML as a mapping, or as a name alone.
type column struct {
	Column string  `yaml:"column"`
	Above  float64 `yaml:"above"`
}

// UnmarshalYAML accepts a bare name too, as the specs of this project do.
func (c *column) UnmarshalYAML(decode func(any) error) error {
	if err := decode(&c.Column); err == nil {
		return nil
	}
	type plain column
	return decode((*plain)(c))
}

// spec has fields of the kinds that specifications have, to decode texts into.
type spec struct {
	Name   string           `yaml:"name"`
	Trials int              `yaml:"trials"`
	Spot   bool             `yaml:"spot"`
	Label  column           `yaml:"label"`
	Grid   map[string][]any `yaml:"grid"`
	Deep   map[string]struct {
		Low float64 `yaml:"low"`
	} `yaml:"deep"`
	At   time.Time `yaml:"at"`
	List []struct {
		X int `yaml:"x"`
	} `yaml:"list"`
}

// TestDecodeNamesThePlace: a mistake in a file is an error with line, column and what may stand there.
func TestDecodeNamesThePlace(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"unknown key": {"name: a\ntrails: 3\n", `f.yaml:2:1: unknown key "trails" (did you mean "trials"?)`},
		"tab":         {"name: a\nlist:\n\t- x: 1\n", "f.yaml:3:1: a tab; indent with spaces"},
		"first of two unknown": {"zzzzzz: 1\nyyyyyy: 2\n",
			`f.yaml:1:1: unknown key "zzzzzz" (known: at, deep, grid, label, list, name, spot, trials)`},
		"unknown key in union": {"label: {column: y, abve: 3}\n",
			`f.yaml:1:20: unknown key "abve" (did you mean "above"?)`},
		"unknown key in map":  {"deep:\n  k: {lw: 1}\n", `f.yaml:2:7: unknown key "lw" (did you mean "low"?)`},
		"unknown key in list": {"list:\n  - x: 1\n  - z: 1\n", `f.yaml:3:5: unknown key "z" (known: x)`},
		"wrong type":          {"name: a\ntrials: many\n", `f.yaml:2:9: expected a whole number, found "many"`},
		"wrong type of bool":  {"spot: 3\n", `f.yaml:1:7: expected true or false, found "3"`},
		"wrong type in list":  {"list:\n  - x: [1]\n", `f.yaml:2:8: expected a whole number, found a list`},
		"repeated key":        {"name: a\nname: b\n", `f.yaml:2:1: mapping key "name" already defined at [1:1]`},
		"two documents": {"name: a\n---\nname: b\n",
			"f.yaml:3:5: a second YAML document; one file holds one specification"},
		"anchor": {"name: &x a\ntrials: 1\n",
			"f.yaml:1:7: anchors, aliases and tags are not used here; write the value out"},
		"empty": {"# nothing\n", "f.yaml: the file is empty"},
		"text of a type": {"name: a\nat: noon\n",
			`f.yaml:2:5: parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"`},
		"no space": {"name: a\ntrials:50\nspot: true\n",
			"f.yaml:2:1: trials:50 needs a space after the colon: trials: 50"},
		"no space, last":  {"name: a\ntrials:50\n", "f.yaml:2:1: trials:50 needs a space after the colon: trials: 50"},
		"no space, first": {"trials:50\nname: a\n", "f.yaml:1:1: trials:50 needs a space after the colon: trials: 50"},
		"syntax":          {"name: [a\n", "f.yaml:1:7: sequence end token ']' not found"},
		"too long": {strings.Repeat("#", strictyaml.MaxBytes+1),
			"f.yaml: more than the 1048576 bytes that a specification may have"},
		"too deep": {"name: a\ngrid: " + strings.Repeat("[", 100_000),
			"f.yaml:2:207: more than 200 brackets are open here"},
		"too deep, hidden": {"# " + strings.Repeat("]", 300) + "\nname: " + strings.Repeat("[", 300),
			"f.yaml:2:207: more than 200 brackets are open here"},
		"too many keys": {strings.Repeat("a: 1\n", 40_000),
			"f.yaml:32769:2: more than the 32768 keys that a specification may have"},
		"too many lists":    {strings.Repeat("- ", 20_000), "f.yaml:1:403: more than 200 lists begin on this line"},
		"scalar for struct": {"just text\n", `f.yaml:1:1: expected a mapping, found text`},
	} {
		t.Run(name, func(t *testing.T) {
			var s spec
			_, err := strictyaml.Decode("f.yaml", []byte(tc.in), &s)
			var e *strictyaml.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v (%T), want *Error %q", err, err, tc.want)
			}
			if e.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", e, tc.want)
			}
		})
	}
}

// TestSuggestOnlyWhatIsNear: Suggest offers the one known word that is nearest to what was typed. If none is near, it
// lists the known words instead, at most 40 of them. What another tool calls it (folder, file) suggests the word here,
// even if another one is nearer. Three letters are too few for an abbreviation.
func TestSuggestOnlyWhatIsNear(t *testing.T) {
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprintf("column_%04d", i)
	}

	for word, tc := range map[string]struct {
		words []string
		want  string
	}{
		"ad_format":               {[]string{"a", "b"}, " (known: a, b)"},
		"adformat":                {[]string{"a", "ad_format"}, ` (did you mean "ad_format"?)`},
		"num_l":                   {[]string{"a", "num_leaves"}, ` (did you mean "num_leaves"?)`},
		"num_":                    {[]string{"a", "num_leaves"}, ` (did you mean "num_leaves"?)`},
		"num":                     {[]string{"a", "num_leaves"}, " (known: a, num_leaves)"},
		"年":                       {[]string{"x", "月"}, " (known: x, 月)"}, // one character, of three bytes
		"num_leaves_of_all":       {[]string{"a", "num_leaves"}, ` (did you mean "num_leaves"?)`},
		strings.Repeat("a", 5000): {[]string{"a", "aa"}, " (known: a, aa)"},
		"boosting":                {[]string{"bagging", "num_leaves"}, " (known: bagging, num_leaves)"},
		"contract":                {[]string{"continue"}, " (known: continue)"},
		"folder":                  {[]string{"out", "data", "holder"}, ` (did you mean "data"?)`},
		"file":                    {[]string{"in", "out"}, ` (did you mean "in"?)`},
		"rnadom":                  {[]string{"random"}, ` (did you mean "random"?)`},
		"zzz":                     {many, " (known: " + strings.Join(many[:40], ", ") + " and 1960 more)"},
	} {
		if got := strictyaml.Suggest(word, tc.words); got != tc.want {
			t.Errorf("Suggest(%.20q) of %d words:\n got %.200q\nwant %.200q", word, len(tc.words), got, tc.want)
		}
	}
}

// TestDecodeUnions: a label may be written as a name alone, or as a mapping with more.
func TestDecodeUnions(t *testing.T) {
	var a, b spec
	must.Get(strictyaml.Decode("f", []byte("label: y\n"), &a))(t)
	must.Get(strictyaml.Decode("f", []byte("label: {column: y, above: 15}\n"), &b))(t)
	if a.Label.Column != "y" || b.Label != (column{"y", 15}) {
		t.Errorf("got %+v and %+v; want y, and y above 15", a.Label, b.Label)
	}
}

// TestByteOrderMark: a file that begins with the mark that editors on Windows write is read as without it, and the
// columns of its errors do not count it.
func TestByteOrderMark(t *testing.T) {
	var s spec
	must.Get(strictyaml.Decode("f", []byte("\ufeffname: a\ntrials: 3\n"), &s))(t)
	if s.Name != "a" || s.Trials != 3 {
		t.Errorf("got %+v, want the name a and 3 trials", s)
	}
	if _, err := strictyaml.Decode("f", []byte("\ufefftrials: x\n"), &s); err == nil ||
		!strings.HasPrefix(err.Error(), "f:1:9: ") {
		t.Errorf("a wrong value behind the mark: got error %v, want one at column 9", err)
	}
}

// TestErrorfPointsAtTheValue: an error about a path is at its value, or at the nearest mapping that the file has.
func TestErrorfPointsAtTheValue(t *testing.T) {
	var s spec
	d := must.Get(strictyaml.Decode("f.yaml", []byte("name: a\ngrid:\n  num_leaves: [31, 63]\n"), &s))(t)
	for path, want := range map[string]string{
		"grid.num_leaves":    "f.yaml:3:15: no",
		"grid.num_leaves[1]": "f.yaml:3:20: no",
		"grid.absent":        "f.yaml:3:3: no",
		"name":               "f.yaml:1:7: no",
	} {
		must.Equal(t, d.Errorf(path, "no").Error(), want, "%s", path)
	}
	if !d.Has("grid.num_leaves") || d.Has("trials") {
		t.Errorf("Has: got %t for grid.num_leaves, which is in the file, and %t for trials, which is not; want true "+
			"and false", d.Has("grid.num_leaves"), d.Has("trials"))
	}
}

// FuzzDecode: whatever the text, an error of Decode is an *Error, so that it has a place.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("name: a\nlabel: {column: y}\ngrid: {a: [1, 2]}\n"))
	f.Add([]byte("deep:\n  k: {low: 1e3}\nlist: [{x: 1}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s spec
		_, err := strictyaml.Decode("f", data, &s)
		var e *strictyaml.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("got an error of type %T, want *strictyaml.Error: %v", err, err)
		}
	})
}

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

// numbers has fields of every type for which a text may or may not be a number.
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

// TestNumbersAreWhatTheyLookLike: a text that the YAML library would turn into another number or another type than it
// looks like is refused, with its place and what belongs there. So is a key without a value.
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

// TestNumbersThatPass: numbers and texts are accepted in all the forms in which people write them.
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
			t.Errorf("%s: it became %+v, %v; want the value of the case", in, n, err)
		}
	}
}

// TestOnlyFilesAreRead: ReadFile refuses at once what may have no end or may never begin, such as a device or a pipe,
// and a file that is too long. ReadUpTo counts the bytes that it reads, not those that the system reports: files under
// /proc are reported as empty.
func TestOnlyFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		syscall.Mkfifo(at("pipe"), 0o600), os.Symlink(at("loop"), at("loop")),
		os.WriteFile(at("good"), []byte("a: 1\n"), 0o600),
		os.WriteFile(at("long"), make([]byte, strictyaml.MaxBytes+1), 0o600),
	} {
		must.Do(t, err)
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
		t.Errorf("a file that is not there: got error %v, want fs.ErrNotExist", err)
	}
	if text, err := strictyaml.ReadUpTo(at("good"), 5); err != nil || string(text) != "a: 1\n" {
		t.Errorf("a file of five bytes, five allowed: %q, %v; want all of it", text, err)
	}
	_, err := strictyaml.ReadUpTo(at("good"), 4)
	must.Say(t, "a file of five bytes, four allowed", err, "more than 4 bytes")
	if text, err := strictyaml.ReadUpTo("/proc/self/stat", 1<<20); err != nil || len(text) == 0 {
		t.Errorf("a file of size 0 that has text: got %d bytes and error %v, want all of the text", len(text), err)
	}
	if _, err := strictyaml.ReadUpTo("/proc/self/stat", 3); err == nil {
		t.Error("a file of size 0 that has more text than allowed was read, want an error")
	}
	if text, err := strictyaml.ReadFile(at("good")); err != nil || string(text) != "a: 1\n" {
		t.Errorf("a good file: %q, %v; want all of it", text, err)
	}
}
