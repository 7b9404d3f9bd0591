package strictyaml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/strictyaml"
)

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

// TestSuggestOnlyWhatIsNear: of words that have nothing in common with what was typed none is offered.
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

func TestDecodeUnions(t *testing.T) {
	var a, b spec
	must.Get(strictyaml.Decode("f", []byte("label: y\n"), &a))(t)
	must.Get(strictyaml.Decode("f", []byte("label: {column: y, above: 15}\n"), &b))(t)
	if a.Label.Column != "y" || b.Label != (column{"y", 15}) {
		t.Errorf("got %+v and %+v", a.Label, b.Label)
	}
}

func TestErrorfPointsAtTheValue(t *testing.T) {
	var s spec
	d := must.Get(strictyaml.Decode("f.yaml", []byte("name: a\ngrid:\n  num_leaves: [31, 63]\n"), &s))(t)
	for path, want := range map[string]string{
		"grid.num_leaves":    "f.yaml:3:15: no",
		"grid.num_leaves[1]": "f.yaml:3:20: no",
		"grid.absent":        "f.yaml:3:3: no",
		"name":               "f.yaml:1:7: no",
	} {
		if got := d.Errorf(path, "no").Error(); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if !d.Has("grid.num_leaves") || d.Has("trials") {
		t.Error("Has does not know what the file says")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("name: a\nlabel: {column: y}\ngrid: {a: [1, 2]}\n"))
	f.Add([]byte("deep:\n  k: {low: 1e3}\nlist: [{x: 1}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s spec
		_, err := strictyaml.Decode("f", data, &s)
		var e *strictyaml.Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("untyped error %T: %v", err, err)
		}
	})
}
