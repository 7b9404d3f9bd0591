package draft

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Save writes the two specs into a folder, if one is given.
func (d *Draft) Save(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("--save-specs: %w", err)
	}
	for name, text := range map[string][]byte{"dataset.yaml": d.Dataset, "sweep.yaml": d.Sweep} {
		if err := renameio.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return fmt.Errorf("--save-specs: %w", err)
		}
	}
	return nil
}
