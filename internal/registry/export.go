package registry

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"coppice/internal/atomicfile"
)

// Export writes a version into a folder of this machine, as the registry has it: version.json and its files, each
// compared with its checksum. The folder must be empty or not exist; it appears complete, or not at all.
func (r *Registry) Export(ctx context.Context, v Version, folder string) error {
	folder = filepath.Clean(folder)
	parent := filepath.Dir(folder)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("write version: %w", err)
	}

	// Write into a new folder beside it, which is renamed when it is complete.
	pending := filepath.Join(parent, ".version-"+rand.Text())
	if err := os.Mkdir(pending, 0o777); err != nil { // less what the user's umask takes away
		return fmt.Errorf("write version: %w", err)
	}
	defer os.RemoveAll(pending)

	for _, f := range v.Files {
		data, err := r.ReadFile(ctx, v, f.Name)
		if err != nil {
			return err
		}
		within := strings.TrimPrefix(f.Object, versionDir(v.Model, v.Number)) // checked by ReadFile
		if err := writeFile(filepath.Join(pending, filepath.FromSlash(within)), data); err != nil {
			return err
		}
	}
	record, err := v.Record()
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(pending, versionFile), record); err != nil {
		return err
	}
	if err := os.Rename(pending, folder); err != nil {
		return fmt.Errorf("write version: %s has to be empty: %w", folder, err)
	}
	return nil
}

// writeFile writes a file and the folders above it.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write version: %w", err)
	}
	if err := atomicfile.Write(path, data, 0o644); err != nil {
		return fmt.Errorf("write version: %w", err)
	}
	return nil
}
