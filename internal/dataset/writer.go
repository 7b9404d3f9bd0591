package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Writer fills in the files of one dataset version. The number of rows of each split must be known beforehand. Values
// can then be written in any order and from any goroutine, as long as no two write to the same place. The order of
// calls is NewWriter, the values, CreateFinal and WriteLevels if they are needed, WriteSample, Finish; Close ends an
// attempt that fails, and its files stay.
type Writer struct {
	dir    string
	m      *Manifest
	splits map[string]*splitFiles
	files  []FileInfo
	opened []*hashedFile // in the order of files

	final   *hashedFile
	finalAt *layout
}

// splitFiles is the files of one split, with where their columns are.
type splitFiles struct {
	rows, columns, targets *hashedFile
	rowsAt                 *layout
	columnsAt              *layout
	targetsAt              *layout
}

// NewWriter creates folder dir and lays out the files of a dataset in it; none of them may exist. Of m it uses
// Features, Weight, Group, Values, Negatives and Splits (without their LabelMean). It keeps m, which Finish completes
// and writes.
func NewWriter(dir string, m *Manifest) (*Writer, error) {
	w := &Writer{dir: dir, m: m, splits: map[string]*splitFiles{}}
	if err := w.create(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// create makes the folders and all files of the splits, in full size but without values. It fails now, rather than
// after the table has been read, if the dataset could not be written or read back.
func (w *Writer) create() error {
	features := w.m.Features
	if err := checkFeatures(features); err != nil {
		return err
	}
	if _, err := w.encode(); err != nil { // fail early: the features are most of the manifest
		return err
	}
	if err := os.MkdirAll(w.dir, 0o777); err != nil {
		return err
	}

	for _, s := range w.m.Splits {
		if s.Rows < 1 || s.Rows > MaxRows {
			return fmt.Errorf("split %s has %d rows; 1 to %d can be written", s.Name, s.Rows, MaxRows)
		}

		rows := int64(s.Rows)
		f := &splitFiles{
			rowsAt:    newLayout(rowFields(len(features)), nil, rows, nil),
			columnsAt: newLayout(columnFields(features), nil, rows, nil),
			targetsAt: newLayout(w.m.optional().listFields(), nil, rows, nil),
		}
		w.splits[s.Name] = f

		if err := os.Mkdir(filepath.Join(w.dir, s.Name), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}

		for _, file := range []struct {
			name string
			to   **hashedFile
			at   *layout
		}{{rowsFile, &f.rows, f.rowsAt}, {columnsFile, &f.columns, f.columnsAt},
			{targetsFile, &f.targets, f.targetsAt}} {
			var err error
			if *file.to, err = w.createFile(s.Name+"/"+file.name, file.at); err != nil {
				return err
			}
		}
	}

	return nil
}

// createFile creates a file with its final size and everything but the contents of its columns.
func (w *Writer) createFile(name string, l *layout) (*hashedFile, error) {
	f, err := w.newFile(name, l.size)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(l.size); err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(l.head, 0); err != nil {
		return nil, err
	}
	_, err = f.WriteAt(l.foot, l.tailAt)
	return f, err
}

// newFile creates an empty file, which must not exist, and lists it with the size that it will have.
func (w *Writer) newFile(name string, size int64) (*hashedFile, error) {
	f, err := os.OpenFile(filepath.Join(w.dir, filepath.FromSlash(name)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	h := newHashedFile(f, size)
	w.opened = append(w.opened, h)
	w.files = append(w.files, FileInfo{Name: name, Bytes: size})
	return h, nil
}

// WriteRows writes the bins of whole rows of a split, from row number first on: [rows x features]. Here and in the
// methods below, the manifest must have the split.
func (w *Writer) WriteRows(split string, first int, bins []byte) error {
	f := w.splits[split]
	return writePart(f.rows, f.rowsAt.columns[0].data, int64(first)*int64(len(w.m.Features)), bins)
}

// WriteColumn writes the bins of one feature, starting with row first of the split.
func (w *Writer) WriteColumn(split string, feature, first int, bins []byte) error {
	f := w.splits[split]
	return writePart(f.columns, f.columnsAt.columns[feature].data, int64(first), bins)
}

// ReadColumn reads back bins of one feature, starting with row first of the split.
func (w *Writer) ReadColumn(split string, feature, first int, bins []byte) error {
	f := w.splits[split]
	place := f.columnsAt.columns[feature].data
	if first < 0 || int64(first+len(bins)) > place.n {
		return fmt.Errorf("read %s: rows %d to %d of %d", f.columns.Name(), first, first+len(bins), place.n)
	}
	_, err := f.columns.ReadAt(bins, place.off+int64(first))
	return err
}

// CreateFinal lays out the file for WriteFinal. Call it after WriteLevels for LevelsFile: files are listed in this
// order.
func (w *Writer) CreateFinal() (err error) {
	w.finalAt = newLayout(finalFields(w.m), nil, int64(w.m.HeldOutRows()), nil)
	w.final, err = w.createFile(finalFile, w.finalAt)
	return err
}

// WriteFinal writes bins of the statistic with this index in Manifest.Statistics, from row number first on. Rows are
// counted over all splits but train, in the order of the splits.
func (w *Writer) WriteFinal(statistic, first int, bins []byte) error {
	return writePart(w.final, w.finalAt.columns[statistic].data, int64(first), bins)
}

// WriteTargets writes the targets of rows of a split, from row number first on. Fold must be as long as Label and, if
// the dataset has them, so must Weight, Group and each of Values; otherwise nothing is written.
func (w *Writer) WriteTargets(split string, first int, t Targets) error {
	f := w.splits[split]
	parts := [][]byte{encodeAll(t.Label)}
	if w.m.HasWeights() {
		parts = append(parts, encodeAll(t.Weight))
	}
	if w.m.Group != "" {
		parts = append(parts, encodeAll(t.Group))
	}
	for _, name := range w.m.Values {
		parts = append(parts, encodeAll(t.Values[name]))
	}
	parts = append(parts, t.Fold)

	// In the order of listFields, as parts is.
	fields := w.m.optional().listFields()
	for i, part := range parts {
		if int64(len(part)) != fields[i].typ.valueBytes()*int64(len(t.Label)) {
			return fmt.Errorf("write targets of %s: %s is not as long as the label", split, fields[i].name)
		}
	}
	for i, part := range parts {
		at := int64(first) * fields[i].typ.valueBytes()
		if err := writePart(f.targets, f.targetsAt.columns[i].data, at, part); err != nil {
			return err
		}
	}
	return nil
}

// writePart writes part into the column that place says, from byte at of the column on.
func writePart(f *hashedFile, place span, at int64, part []byte) error {
	if at < 0 || at > place.n || int64(len(part)) > place.n-at {
		return fmt.Errorf("write %s: rows beyond those that were announced", f.Name())
	}
	_, err := f.WriteAt(part, place.off+at)
	return err
}

// WriteSample writes sample.arrow and sets the manifest's Sample. Call it once, after everything else and before
// Finish.
func (w *Writer) WriteSample(ctx context.Context, s *Sample) error {
	data, err := s.encode(ctx)
	if err != nil {
		return err
	}
	w.m.Sample = SampleInfo{Split: s.Split, Rows: len(s.Row)}
	return w.writeFile(SampleFile, data)
}

// writeFile creates a file with these bytes.
func (w *Writer) writeFile(name string, data []byte) error {
	f, err := w.newFile(name, int64(len(data)))
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return err
}

// Finish completes the dataset: it computes the checksums, syncs all files to disk, and writes the manifest with the
// checksums and the version. Files are closed. Without the manifest, a folder is not taken for a dataset. progress,
// which may be nil, counts hashed bytes.
func (w *Writer) Finish(ctx context.Context, threads int, progress func(done, total int64)) error {
	// Let the disk write while those blocks are hashed that have not been hashed on the way.
	for i, f := range w.opened {
		startWriteback(f.File, 0, f.size)
		w.files[i].Blocks = f.blockSums()
	}

	path := func(f FileInfo) string { return filepath.Join(w.dir, filepath.FromSlash(f.Name)) }
	if err := hashRest(ctx, max(1, threads), w.files, path, progress); err != nil {
		return err
	}

	// Make sure that everything is on disk.
	for _, f := range w.opened {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("write %s: %w", f.Name(), err)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}

	for _, s := range w.m.Splits {
		if err := SyncPath(filepath.Join(w.dir, s.Name)); err != nil {
			return err
		}
	}

	// Complete and check the manifest.
	w.m.Format = w.m.format()
	w.m.Files = w.files
	version, err := w.m.ContentVersion()
	if err != nil {
		return err
	}
	w.m.Version = version
	if err := w.m.check(); err != nil {
		return err
	}

	data, err := w.encode()
	if err != nil {
		return err
	}

	// Write it last, since it makes the dataset complete: the files' names have to be on disk before it.
	if err := SyncPath(w.dir); err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(w.dir, ManifestFile), data); err != nil {
		return err
	}

	return SyncPath(w.dir)
}

// encode returns the manifest as JSON, or an error if it is too large to be read back.
func (w *Writer) encode() ([]byte, error) {
	data, err := w.m.Encode()
	if err == nil && len(data) > MaxManifest {
		err = badManifest("", fmt.Errorf("%d features need %d bytes, and it may have %d; drop columns or lower "+
			"max_bin", len(w.m.Features), len(data), MaxManifest))
	}
	return data, err
}

// SyncPath waits until a file's contents or a folder's entries are on disk.
func SyncPath(path string) error {
	flags := os.O_RDONLY
	if runtime.GOOS == "windows" { // which syncs folders by itself, and no file that is open for reading only
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			return err
		}
		flags = os.O_RDWR
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// writeSynced writes a new file, which must not exist, and returns when it is on disk.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Close closes the files, and does nothing after Finish. What has been written stays in the folder.
func (w *Writer) Close() error {
	var errs []error
	for _, f := range w.opened {
		errs = append(errs, f.Close())
	}
	w.opened = nil
	return errors.Join(errs...)
}
