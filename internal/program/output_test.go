package program_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/program/tables"
)

// hostile has every kind of character that a terminal obeys, or that hides or turns around what stands beside it.
const hostile = "a\x1b[2Jb\x07c\rd\u009b31me\u202ef\u2066g\u200bh\ufeffi\x7fj\u2028k\U000e0041l\u00adm\ufe0fn"

// harmless says whether text can be shown on a terminal: it is valid UTF-8 and has, besides tabs and line ends, no
// character that a terminal obeys or that cannot be seen.
func harmless(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' ||
			r == '\u2029' || r == '\ufe0f')
	})
}

// TestVisible: characters that control a terminal, or that no one sees, are shown as escapes, and so are bytes that are
// not UTF-8. All other characters stay.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain, naïve, 日本語, 10 %\n\tnext": "plain, naïve, 日本語, 10 %\n\tnext",
		"\ufffd is a character":           "\ufffd is a character",
		"\x1b[2J":                         `\u001b[2J`,
		"a\r\x00\x7f":                     `a\u000d\u0000\u007f`,
		"\u009b1m \u202eabc\u2069":        `\u009b1m \u202eabc\u2069`,
		"a\u200db\ufeff":                  `a\u200db\ufeff`,
		"tag \U000e0041":                  `tag \udb40\udc41`,
		"\x9b1m \xff":                     `\x9b1m \xff`,
		"\u2028":                          `\u2028`,
	} {
		if got := program.Visible(text); got != want || !harmless(got) {
			t.Errorf("Visible(%q) is %q, expected %q", text, got, want)
		}
	}
}

// TestEveryWayOut sends hostile text through each way on which a program shows something.
func TestEveryWayOut(t *testing.T) {
	failing := &cobra.Command{Use: "prog",
		RunE: func(*cobra.Command, []string) error { return errors.New("read " + hostile) }}
	for name, send := range map[string]func(program.Output){
		"written": func(o program.Output) { _, _ = o.Write([]byte(hostile)) },
		"twice":   func(o program.Output) { _, _ = program.To(o).Write([]byte(hostile)) },
		"a message": func(o program.Output) {
			program.Logger(o, program.LogOrigin{Program: "x"}).Warn(hostile, hostile, hostile)
		},
		"a table": func(o program.Output) {
			for _, screen := range []tables.Screen{{Output: o}, {Output: o, Width: 80}} {
				table := screen.Table("h "+hostile, "n")
				table.Row(hostile, 3)
				table.Row(errors.New(hostile), 3.5)
				table.Row(tables.Standing(hostile), tables.Standing("ok"))
				table.Print()
			}
		},
		"an error": func(o program.Output) { program.Execute(t.Context(), program.World{Out: o, Err: o}, failing) },
		"an option": func(o program.Output) {
			program.Execute(t.Context(), program.World{Args: []string{"--" + hostile}, Out: o, Err: o}, failing)
		},
	} {
		var out bytes.Buffer
		send(program.To(&out))
		if out.Len() == 0 || !harmless(out.String()) {
			t.Errorf("%s: %q came out, want the text without what a terminal obeys", name, out.String())
		}
	}
}

// TestTablesStayStraight: the width of a cell is that of the text that is shown, with its escapes, so all lines of a
// table are equally long. A cell of 4,000 characters is cut to some 1,000, so that no line has more than 1,020 with the
// short second column.
func TestTablesStayStraight(t *testing.T) {
	var out bytes.Buffer
	table := tables.Screen{Output: program.To(&out)}.Table("one", "two")
	table.Row("\x1b[31mred", "x")
	table.Row(strings.Repeat("long", 1000), "x")
	table.Print()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n != utf8.RuneCountInString(lines[0]) || n > 1020 {
			t.Errorf("got a line of %d characters, want as many as the first line's %d, and at most 1020: %q", n,
				utf8.RuneCountInString(lines[0]), line)
		}
	}
}

// TestJSONKeepsItsValue: JSON that a program prints still has the same value after Output has escaped its characters,
// since the escapes are also those of JSON.
func TestJSONKeepsItsValue(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, json.NewEncoder(program.To(&out)).Encode(hostile))
	var back string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != hostile {
		t.Errorf("%q (error %v) came back for %q, want the same", back, err, hostile)
	}
}

// TestLongValuesAreCut: a message about an error stays short enough for a person to read, however long a value in it
// is. A word or a quoted text is cut to 200 characters and a line to 2,000, in the middle, so that the beginning and
// the end remain. What stands beside the long value in these messages has less than 100 characters.
func TestLongValuesAreCut(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, tc := range map[string]struct {
		text string
		most int
		has  []string
	}{
		"a word": {"open " + long + ": no such file", 300, []string{"open xxx", "...", ": no such file"}},
		"quoted": {`unknown key "` + strings.Repeat(`a \"b`, 1000) + `" (known: c)`, 300,
			[]string{`unknown key "a`, "...", `" (known: c)`}},
		"many words": {strings.Repeat("word ", 2000) + "end", 2000, []string{"word word", "...", "end"}},
		"short":      {"f.yaml:1:2: no", 20, []string{"f.yaml:1:2: no"}},
	} {
		var e bytes.Buffer
		program.Execute(t.Context(), program.World{Err: program.To(&e)},
			&cobra.Command{Use: "prog", RunE: func(*cobra.Command, []string) error { return errors.New(tc.text) }})
		for _, part := range tc.has {
			if !strings.Contains(e.String(), part) {
				t.Errorf("%s: got the message %q, want it to have %q", name, e.String(), part)
			}
		}
		if n := utf8.RuneCountInString(e.String()); n > tc.most+len("prog: \n") {
			t.Errorf("%s: %d characters, expected at most %d: %q", name, n, tc.most, e.String())
		}
	}
}

// FuzzVisible: whatever the text, what Visible returns is harmless, and does not change when it is shown a second time.
func FuzzVisible(f *testing.F) {
	f.Add(hostile)
	f.Add("\xff\x9b")
	f.Fuzz(func(t *testing.T, text string) {
		if got := program.Visible(text); !harmless(got) || program.Visible(got) != got {
			t.Errorf("Visible(%q) is %q, want it harmless, and the same when shown again", text, got)
		}
	})
}
