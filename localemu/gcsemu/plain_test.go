package gcsemu

import "testing"

// TestPlainNames: plainName matches only names of objects that Windows and macOS leave as they are. Objects of other
// names are kept there in files with numbers for names.
func TestPlainNames(t *testing.T) {
	for name, want := range map[string]bool{
		"registry/t/versions/1/model.txt": true, "a": true, "_models/t=1.json": true,
		"a.": false, "a./b": false, "A": false, "a:b": false, "a b": false, `a\b`: false, "a//b": false, "/a": false,
		"é": false, "..": false, "": false,
	} {
		if got := plainName.MatchString(name); got != want {
			t.Errorf("%q: got plain %v, want %v", name, got, want)
		}
	}
}
