package program_test

import (
	"testing"

	"coppice/internal/program"
)

// TestWrap: lines break between words, and a command can still be copied.
func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"short":                                "short",
		"a line of training rows":              "a line of\ntraining rows",
		"on   one two three four":              "on   one two\n     three four",
		"two lines\nof which one is too long":  "two lines\nof which one is\ntoo long",
		"it is about 123456 %, of all":         "it is about\n123456 %, of all",
		"give launcher plan FILE":              "give\nlauncher plan\nFILE",
		"see (`launcher a b`) for it":          "see\n(`launcher a b`)\nfor it",
		"abcdefghijklmnopqrstuvwxyz and after": "abcdefghijklmnop\nqrstuvwxyz and\nafter",
		"an abcdefghijklmnopqrstuvwxyz":        "an\nabcdefghijklmnop\nqrstuvwxyz",
	} {
		if got := program.Wrap(text, 16); got != want {
			t.Errorf("%q at 16 columns is\n%s\nexpected\n%s", text, got, want)
		}
		if got := program.Wrap(text, 0); got != text {
			t.Errorf("%q where there is no terminal is %q", text, got)
		}
	}
	command := `launcher registry promote ctr@3 --why "checked by hand"`
	want := "launcher registry promote \\\n    ctr@3 --why \\\n    \"checked by hand\""
	if got := program.WrapCode(command, 28, ` \`); got != want {
		t.Errorf("at 28 columns the command is\n%s\nexpected\n%s", got, want)
	}
	folder := `COPPICE_LOCAL='/home/Ann'\''s own folder' launcher registry show ctr@3`
	want = `COPPICE_LOCAL='/home/Ann'\''s own folder'` + " \\\n    launcher registry \\\n    show ctr@3"
	if got := program.WrapCode(folder, 24, ` \`); got != want {
		t.Errorf("a folder wider than a line is\n%s\nexpected\n%s", got, want)
	}
	want = "drop:\n    [a_column_with_a_long_name,\n    b]"
	if got := program.WrapCode("drop: [a_column_with_a_long_name, b]", 16, ""); got != want {
		t.Errorf("a column wider than a line is\n%s", got)
	}
}
