package draft

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"coppice/internal/atomicfile"
)

// Save writes the two specs into a folder, which it makes. It does nothing if folder is empty.
func (d *Draft) Save(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("--save-specs: %w", err)
	}
	for name, text := range map[string][]byte{"dataset.yaml": d.Dataset, "sweep.yaml": d.Sweep} {
		if err := atomicfile.Write(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("--save-specs: %w", err)
		}
	}
	return nil
}

// maxName is the most characters of a name that nameOf makes.
const maxName = 40

// nameOf makes a dataset's name of the last element of a path: that of /data/Clicks 2026.csv.gz is clicks-2026. The
// suffixes of a table's format and compression are left out. A name begins with a letter, so what comes before the
// first one is dropped: 2026-clicks.csv gives clicks. Letters become small; whatever is neither a letter from a to z
// nor a digit becomes a hyphen, several in a row become one, and none is at the end. A path without such letters gives
// "table".
func nameOf(path string) string {
	base := strings.ToLower(filepath.Base(filepath.Clean(path)))
	for _, suffix := range []string{".gz", ".zst", ".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq", ".jsonl",
		".ndjson", ".json"} {
		base = strings.TrimSuffix(base, suffix)
	}
	var b strings.Builder
	for _, r := range base {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9' && b.Len() > 0:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := b.String()
	return cmp.Or(strings.Trim(name[:min(len(name), maxName)], "-"), "table")
}
