package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

// Exported opens a version that Export has written into a folder. It returns the version, and a registry in memory
// that holds nothing else. A record that is no version's is an error of kind Damaged, and so is a file that is missing
// or has another length than the version says. A file with another checksum is one when it is read from the registry.
func Exported(ctx context.Context, folder string) (*Registry, Version, error) {
	path := filepath.Join(folder, versionFile)
	record, err := strictyaml.ReadUpTo(path, maxRecord)
	if err != nil {
		return nil, Version{}, err
	}
	var v Version
	if err := json.Unmarshal(record, &v); err != nil {
		return nil, Version{}, Damaged(path, err)
	}
	err = checkModel(v.Model)
	if err == nil && (v.Number < 1 || v.Number > maxNumber) {
		err = fmt.Errorf("it describes version %d", v.Number)
	}
	if err != nil {
		return nil, Version{}, Damaged(path, err)
	}

	// Put the record into a store of its own, and read it again as the registry does, which checks it.
	store := blob.Memory()
	put := func(object string, data []byte) error {
		_, err := store.Put(ctx, object, blob.Absent, bytes.NewReader(data))
		return err
	}
	if err := put(versionDir(v.Model, v.Number)+versionFile, record); err != nil {
		return nil, Version{}, Damaged(path, err)
	}
	r := New(store)
	if v, err = r.Get(ctx, v.Model, strconv.Itoa(v.Number)); err != nil {
		return nil, Version{}, err
	}

	// Then the files. Their names come from the record, so they must not lead out of the folder.
	for _, f := range v.Files {
		within := filepath.FromSlash(strings.TrimPrefix(f.Object, versionDir(v.Model, v.Number)))
		if !filepath.IsLocal(within) {
			return nil, Version{}, Damaged(path, fmt.Errorf("it names the file %.80q", within))
		}
		data, err := readWhole(filepath.Join(folder, within), f.Bytes)
		if err == nil {
			err = put(f.Object, data)
		}
		if err != nil {
			return nil, Version{}, problem.As(problem.Damaged, err)
		}
	}
	return r, v, nil
}

// readWhole reads a file, unless its length in bytes is not the given one.
func readWhole(path string, length int64) ([]byte, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if about.Size() != length {
		return nil, fmt.Errorf("%s has %d bytes, and the version says %d", path, about.Size(), length)
	}
	return os.ReadFile(path)
}
