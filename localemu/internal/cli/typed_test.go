package cli

import "testing"

// TestCommandsAreToldAsTheyAreTyped: if localemu is the executable that is all four programs and was started as
// coppice, its messages name commands as "coppice sweep". Started as localemu, they stay.
func TestCommandsAreToldAsTheyAreTyped(t *testing.T) {
	const text = "localemu exec -- launcher sweep sweep.yaml; coppice localemu up; the launcher next to it"
	for called, want := range map[string]string{"/bin/localemu": text, "venv/bin/coppice": "coppice localemu exec -- " +
		"coppice sweep sweep.yaml; coppice localemu up; the launcher next to it"} {
		s := State{All: true, Called: called}
		if got := s.typedCommands().Replace(text); got != want {
			t.Errorf("called as %s it says %q, expected %q", called, got, want)
		}
	}
}
