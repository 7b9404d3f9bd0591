package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"coppice/internal/strictyaml"
)

// Dataset is an open dataset. Its slices are read-only memory that is shared with other processes: writing to them
// crashes the program, and so does using them after Close. It is safe for concurrent use.
type Dataset struct {
	Manifest *Manifest
	Splits   []Split // in the order of Manifest.Splits
	// Final has the bins that held-out rows would have as later rows of train, for the final training of a sweep:
	// [Manifest.Statistics][held-out rows], in the order of the splits. It is nil if the dataset does not have them.
	Final [][]byte

	dir      string
	mappings []*mapping
	mapped   []FileInfo // the file of each mapping
}

// Split holds the values of one split, all in mapped memory.
type Split struct {
	Name     string
	Rows     int
	RowMajor []byte   // [Rows x features]: with F features, the bin of feature f of row r is at r*F+f
	Columns  [][]byte // [features][Rows], the same bins
	Targets
}

// Split returns the split called name, or nil if the dataset does not have it.
func (d *Dataset) Split(name string) *Split {
	for i := range d.Splits {
		if d.Splits[i].Name == name {
			return &d.Splits[i]
		}
	}
	return nil
}

// Dir returns the folder of the dataset.
func (d *Dataset) Dir() string { return d.dir }

// Mapped returns the size of the mapped files, whether or not they are in memory.
func (d *Dataset) Mapped() int64 {
	var sum int64
	for _, m := range d.mappings {
		sum += int64(len(m.data))
	}
	return sum
}

// ReadManifest reads and checks the manifest in folder dir. If there is none, the folder is no complete dataset, and
// the error is an fs.ErrNotExist.
func ReadManifest(dir string) (*Manifest, error) {
	f, err := strictyaml.Open(filepath.Join(dir, ManifestFile))
	if err != nil {
		return nil, fmt.Errorf("no dataset in %s: %w", dir, err)
	}
	defer f.Close()

	data, err := io.ReadAll(io.LimitReader(f, MaxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}

	m, err := DecodeManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return m, nil
}

// Open maps the dataset in folder dir and checks its metadata. It does not read the values, so its time does not depend
// on their size; Verify reads them all. Errors are of the kind Damaged, or those of the operating system:
// fs.ErrNotExist if the folder has no manifest. On a big-endian machine every dataset is refused.
func Open(dir string) (*Dataset, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, errors.New("datasets are little-endian and can be mapped on little-endian machines only")
	}
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	d := &Dataset{Manifest: m, dir: dir}
	if err := d.mapFiles(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close unmaps everything. Slices of the dataset must not be used afterwards. A second call does nothing.
func (d *Dataset) Close() error {
	var errs []error
	for _, m := range d.mappings {
		errs = append(errs, m.close())
	}
	d.mappings, d.mapped, d.Splits, d.Final = nil, nil, nil, nil
	return errors.Join(errs...)
}

// mapFiles maps the files of the splits and the final statistics, and checks that the others have their sizes. After an
// error, the caller has to Close d, which unmaps what was mapped.
func (d *Dataset) mapFiles() error {
	for i, rows := range d.Manifest.Splits {
		s := Split{Name: rows.Name, Rows: rows.Rows}
		files := d.Manifest.Files[3*i:] // rows, columns and targets, in the order that checkFiles has checked

		bins, err := d.mapColumns(files[0], rowFields(len(d.Manifest.Features)), s.Rows)
		if err != nil {
			return err
		}
		s.RowMajor = bins[0]
		if s.Columns, err = d.mapColumns(files[1], columnFields(d.Manifest.Features), s.Rows); err != nil {
			return err
		}
		if err := d.openTargets(files[2], &s); err != nil {
			return err
		}

		d.Splits = append(d.Splits, s)
	}

	for _, f := range d.Manifest.Files[3*len(d.Manifest.Splits):] {
		var err error
		if f.Name == finalFile {
			d.Final, err = d.mapColumns(f, finalFields(d.Manifest), d.Manifest.HeldOutRows())
		} else { // levels and sample, which are not mapped here
			err = d.checkSize(f)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// checkSize checks that a file exists and has the size that the manifest says.
func (d *Dataset) checkSize(f FileInfo) error {
	info, err := os.Stat(filepath.Join(d.dir, f.Name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() != f.Bytes {
		return badFile(f.Name, -1,
			fmt.Sprintf("the file is missing or does not have the %d bytes given by the manifest", f.Bytes))
	}
	return err
}

// mapInfo maps a file and remembers it, for Close and VerifyMapped.
func (d *Dataset) mapInfo(info FileInfo) ([]byte, error) {
	m, err := mapFile(filepath.Join(d.dir, filepath.FromSlash(info.Name)), info.Name, info.Bytes)
	if err != nil {
		return nil, err
	}
	d.mappings = append(d.mappings, m)
	d.mapped = append(d.mapped, info)
	return m.data, nil
}

// mapArrow maps a file and parses its metadata. It must have exactly these columns, and as many rows.
func (d *Dataset) mapArrow(info FileInfo, fields []arrowField, rows int) (*arrowFile, []byte, error) {
	data, err := d.mapInfo(info)
	if err != nil {
		return nil, nil, err
	}
	f, err := parseArrow(info.Name, data)
	if err != nil {
		return nil, nil, err
	}
	return f, data, f.expect(info.Name, fields, rows)
}

// mapColumns maps a file whose columns are bytes, and returns the contents of each column. It must have exactly these
// columns, and as many rows.
func (d *Dataset) mapColumns(info FileInfo, fields []arrowField, rows int) ([][]byte, error) {
	f, data, err := d.mapArrow(info, fields, rows)
	if err != nil {
		return nil, err
	}
	columns := make([][]byte, len(f.columns))
	for i, c := range f.columns {
		columns[i] = view[uint8](data, c.data)
	}
	return columns, nil
}

// openTargets sets the split's Targets from its targets file. Those that the dataset does not have stay nil. Fold
// numbers are not checked, unlike by ReadTargets, since no values are read here: a damaged one may be any byte.
func (d *Dataset) openTargets(info FileInfo, s *Split) error {
	has := d.Manifest.optional()
	f, data, err := d.mapArrow(info, has.listFields(), s.Rows)
	if err != nil {
		return err
	}

	// nextColumn returns where the next column is, in the order of listFields.
	next := 0
	nextColumn := func() span {
		next++
		return f.columns[next-1].data
	}

	s.Label = view[float32](data, nextColumn())
	if has.weight {
		s.Weight = view[float32](data, nextColumn())
	}
	if has.group {
		s.Group = view[uint64](data, nextColumn())
	}
	if has.values != nil {
		s.Values = map[string][]float32{}
	}
	for _, name := range has.values {
		s.Values[name] = view[float32](data, nextColumn())
	}
	s.Fold = view[uint8](data, nextColumn())
	return nil
}

// expect checks that the file called name has the columns and the number of rows that follow from the manifest.
func (f *arrowFile) expect(name string, fields []arrowField, rows int) error {
	if f.rows != int64(rows) {
		return badFile(name, -1, fmt.Sprintf("%d rows where the manifest says %d", f.rows, rows))
	}
	if !f.sameFields(fields) {
		return badFile(name, -1, "its columns are not those that the manifest says")
	}
	return nil
}

// rowFields returns the only column of a rows file: all bins of a row.
func rowFields(features int) []arrowField {
	return []arrowField{{name: "bins", typ: arrowBinary(features)}}
}

// finalFields returns the columns of the file of final statistics: one for each feature that is a statistic.
func finalFields(m *Manifest) []arrowField { return Pick(columnFields(m.Features), m.Statistics()) }

// columnFields returns the columns of a columns file: one for each feature.
func columnFields(features []Feature) []arrowField {
	fields := make([]arrowField, len(features))
	for i, f := range features {
		fields[i] = arrowField{name: f.Name, typ: arrowUint8}
	}
	return fields
}
