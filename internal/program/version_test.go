package program_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/spf13/cobra"

	"coppice/internal/program"
)

// TestVersion: a script reads which build it has.
func TestVersion(t *testing.T) {
	var out bytes.Buffer
	code := program.Execute(t.Context(), program.World{Args: []string{"version", "--json"}, Out: program.To(&out),
		Err: program.To(&out), Version: "1.2.3"}, &cobra.Command{Use: "launcher"})
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || code != 0 || got["version"] != "1.2.3" ||
		got["program"] != "launcher" || got["go"] == "" || got["platform"] == "" {
		t.Errorf("version --json ended with %d and says %s; want version 1.2.3 of launcher", code, out.String())
	}
}
