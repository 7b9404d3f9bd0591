package cli

import (
	"maps"
	"os"
	"testing"

	"coppice/internal/must"
	"coppice/localemu/internal/world"
)

// TestCommandsAreToldAsTheyAreTyped: if localemu is the executable that is all four programs and was started as
// coppice, its messages name commands as "coppice sweep". Started as localemu, they stay.
func TestCommandsAreToldAsTheyAreTyped(t *testing.T) {
	const text = "localemu exec -- launcher sweep sweep.yaml; coppice localemu up; the launcher next to it"
	for called, want := range map[string]string{"/bin/localemu": text, "venv/bin/coppice": "coppice localemu exec -- " +
		"coppice sweep sweep.yaml; coppice localemu up; the launcher next to it"} {
		s := State{All: true, Called: called}
		must.Equal(t, s.typedCommands().Replace(text), want, "called as %s it says", called)
	}
}

// TestImagesOfATool: with --containers only the images that --image names are mapped. The launcher's, which is not
// named, keeps its own name in the tool. It is not the launcher beside localemu, which the tool could not run.
func TestImagesOfATool(t *testing.T) {
	s := &State{All: true, Executable: os.Args[0]} // all four programs are beside it, in one
	f := &flags{containers: "docker", images: []string{world.TaskImage + "=registry/task:1"}}
	want := map[string]string{world.TaskImage: "registry/task:1"}
	if got := must.Get(f.imageMap(s))(t); !maps.Equal(got, want) {
		t.Errorf("with --containers and one --image: got the images %v, want %v", got, want)
	}
	f = &flags{}
	want = map[string]string{world.TaskImage: os.Args[0], world.LauncherImage: os.Args[0]}
	if got := must.Get(f.imageMap(s))(t); !maps.Equal(got, want) {
		t.Errorf("without flags: got the images %v, want %v", got, want)
	}
}
