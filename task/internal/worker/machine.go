package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// machineFile is where the first task on a machine writes its host name, in the folder that all tasks of the machine
// share.
const machineFile = "machine"

// MachineName returns a name for this machine that all its tasks share: the host name of the first task that asked. A
// task's own host name may be that of its container, and then every task would seem to have its own machine. scratch is
// the folder that the machine's tasks share; if it cannot be written, the name is host, this task's own. nonce is
// unique to the process.
func MachineName(scratch, host, nonce string) string {
	path := filepath.Join(scratch, machineFile)
	if name, ok := readName(path); ok {
		return name
	}

	// Written to another file and linked: no task reads a partial name, and only one task's name counts.
	part := filepath.Join(scratch, "."+machineFile+"-"+nonce)
	defer os.Remove(part)
	if os.MkdirAll(scratch, 0o755) != nil || os.WriteFile(part, []byte(host+"\n"), 0o644) != nil {
		return host
	}
	if err := os.Link(part, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return host
	}
	if name, ok := readName(path); ok {
		return name
	}
	return host
}

// hostName matches valid contents of such a file: another program may have written it.
var hostName = regexp.MustCompile(`^([A-Za-z0-9._-]{1,253})\n$`)

// readName reads the name of the machine from the file that its first task wrote; false without a valid one.
func readName(path string) (string, bool) {
	text, err := os.ReadFile(path)
	found := hostName.FindSubmatch(text)
	if err != nil || found == nil {
		return "", false
	}
	return string(found[1]), true
}
