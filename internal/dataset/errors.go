package dataset

import (
	"fmt"

	"coppice/internal/problem"
)

// badFile reports a file that is not laid out as FORMAT.md says. offset is the first wrong byte, or -1 for the whole
// file.
func badFile(file string, offset int64, msg string) error {
	if offset >= 0 {
		msg = fmt.Sprintf("byte %d: %s", offset, msg)
	}
	return problem.New(problem.Damaged, "%s: %s; stage or copy the dataset again", file, msg)
}

// badManifest reports an unusable manifest, and the part at fault, such as features[3].bounds; field is empty for the
// whole manifest.
func badManifest(field string, err error) error {
	if field != "" {
		field = ": " + field
	}
	return problem.Wrap(problem.Damaged, err, "not a dataset manifest of Coppice%s", field)
}

// CorruptError reports a part of a file whose contents do not match the manifest's checksum: the bytes from From up to,
// but not including, To. A worker treats a copy that has changed on its disk differently from other damage.
type CorruptError struct {
	File     string
	From, To int64
	Msg      string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: bytes %d to %d: %s; stage or copy the dataset again", e.File, e.From, e.To-1, e.Msg)
}

// Kind says that the contents are not those that were written.
func (*CorruptError) Kind() problem.Kind { return problem.Damaged }
