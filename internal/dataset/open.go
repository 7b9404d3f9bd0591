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

// Dataset is an open dataset. Its slices are in read-only memory shared with other processes: writing to them is a
// fault, and they are invalid after Close. It is safe for concurrent use.
type Dataset struct {
	Manifest *Manifest
	Splits   []Split // in the order of Manifest.Splits
	// Final, by the place among Manifest.Statistics, are bins of all held-out rows in the order of the splits, as they
	// are for later rows of train; nil if the dataset has none.
	Final [][]byte

	dir      string
	mappings []*mapping
	mapped   []FileInfo // the files mapped
}

// Split holds the values of one split, all in mapped memory. F is the number of features.
type Split struct {
	Name     string
	Rows     int
	RowMajor []byte   // Rows x F bins; feature f of row r is at r*F+f
	Columns  [][]byte // F columns of Rows bins
	Targets
}

// Split returns the split called name, or nil if it has no rows.
func (d *Dataset) Split(name string) *Split {
	for i := range d.Splits {
		if d.Splits[i].Name == name {
			return &d.Splits[i]
		}
	}
	return nil
}

// Dir is the folder of the dataset.
func (d *Dataset) Dir() string { return d.dir }

// Mapped is the size of the mapped files, whether or not they are in memory.
func (d *Dataset) Mapped() int64 {
	var sum int64
	for _, m := range d.mappings {
		sum += int64(len(m.data))
	}
	return sum
}

// ReadManifest reads the manifest in folder dir. Without one the folder is not a complete dataset, and the error is an
// fs.ErrNotExist.
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
// on their size; Verify reads them all. Errors are of the kind Damaged, or those of the operating system.
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

// Close unmaps everything. Slices of the dataset must not be touched afterwards. A second call does nothing.
func (d *Dataset) Close() error {
	var errs []error
	for _, m := range d.mappings {
		errs = append(errs, m.close())
	}
	d.mappings, d.mapped, d.Splits, d.Final = nil, nil, nil, nil
	return errors.Join(errs...)
}

// mapFiles maps the files, three of each split, in the order in which the manifest has them. On an error what is mapped
// stays so until Close.
func (d *Dataset) mapFiles() error {
	for i, rows := range d.Manifest.Splits {
		s := Split{Name: rows.Name, Rows: rows.Rows}
		files := d.Manifest.Files[3*i:] // checkFiles has checked their order

		if err := d.openRows(files[0], &s); err != nil {
			return err
		}
		if err := d.openColumns(files[1], &s); err != nil {
			return err
		}
		if err := d.openTargets(files[2], &s); err != nil {
			return err
		}

		d.Splits = append(d.Splits, s)
	}

	for _, f := range d.Manifest.Files[3*len(d.Manifest.Splits):] {
		if f.Name == finalFile {
			if err := d.openFinal(f); err != nil {
				return err
			}
			continue
		}
		// levels and sample are not mapped here
		if err := d.checkSize(f); err != nil {
			return err
		}
	}

	return nil
}

// checkSize checks that a file exists and has the manifest's size.
func (d *Dataset) checkSize(f FileInfo) error {
	info, err := os.Stat(filepath.Join(d.dir, f.Name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() != f.Bytes {
		return badFile(f.Name, -1,
			fmt.Sprintf("the file is missing or does not have the %d bytes given by the manifest", f.Bytes))
	}
	return err
}

// mapInfo maps a file and remembers it, for Close and for Verify.
func (d *Dataset) mapInfo(info FileInfo) ([]byte, error) {
	m, err := mapFile(filepath.Join(d.dir, filepath.FromSlash(info.Name)), info.Name, info.Bytes)
	if err != nil {
		return nil, err
	}
	d.mappings = append(d.mappings, m)
	d.mapped = append(d.mapped, info)
	return m.data, nil
}

// mapArrow maps a file that has to have these fields and as many rows.
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

// openRows gives the split its bins row by row.
func (d *Dataset) openRows(info FileInfo, s *Split) error {
	f, data, err := d.mapArrow(info, rowFields(len(d.Manifest.Features)), s.Rows)
	if err != nil {
		return err
	}
	s.RowMajor = view[uint8](data, f.columns[0].data)
	return nil
}

// openColumns gives the split its bins column by column: the same as those of openRows, the other way round.
func (d *Dataset) openColumns(info FileInfo, s *Split) error {
	f, data, err := d.mapArrow(info, columnFields(d.Manifest.Features), s.Rows)
	if err != nil {
		return err
	}
	s.Columns = make([][]byte, len(f.columns))
	for i, c := range f.columns {
		s.Columns[i] = view[uint8](data, c.data)
	}
	return nil
}

// openFinal gives the dataset its Final, columns of the held-out rows of all splits together.
func (d *Dataset) openFinal(info FileInfo) error {
	f, data, err := d.mapArrow(info, finalFields(d.Manifest), d.Manifest.HeldOutRows())
	if err != nil {
		return err
	}
	for _, c := range f.columns {
		d.Final = append(d.Final, view[uint8](data, c.data))
	}
	return nil
}

// openTargets gives the split its labels and folds, and the weights, groups and values that the dataset has; those that
// it has not stay nil.
func (d *Dataset) openTargets(info FileInfo, s *Split) error {
	has := d.Manifest.optional()
	f, data, err := d.mapArrow(info, has.listFields(), s.Rows)
	if err != nil {
		return err
	}

	// In the order of fields, which omits columns that the dataset does not have.
	next := 0
	place := func() span {
		next++
		return f.columns[next-1].data
	}

	s.Label = view[float32](data, place())
	if has.weight {
		s.Weight = view[float32](data, place())
	}
	if has.group {
		s.Group = view[uint64](data, place())
	}
	if has.values != nil {
		s.Values = map[string][]float32{}
	}
	for _, name := range has.values {
		s.Values[name] = view[float32](data, place())
	}
	s.Fold = view[uint8](data, place())
	return nil
}

// expect checks that a file has the manifest's columns and number of rows.
func (f *arrowFile) expect(name string, fields []arrowField, rows int) error {
	if f.rows != int64(rows) {
		return badFile(name, -1, fmt.Sprintf("%d rows where the manifest says %d", f.rows, rows))
	}
	if !f.sameFields(fields) {
		return badFile(name, -1, "its columns are not those that the manifest says")
	}
	return nil
}

func rowFields(features int) []arrowField {
	return []arrowField{{name: "bins", typ: arrowBinary(features)}}
}

func finalFields(m *Manifest) []arrowField {
	var fields []arrowField
	for _, i := range m.Statistics() {
		fields = append(fields, arrowField{name: m.Features[i].Name, typ: arrowUint8})
	}
	return fields
}

func columnFields(features []Feature) []arrowField {
	fields := make([]arrowField, len(features))
	for i, f := range features {
		fields[i] = arrowField{name: f.Name, typ: arrowUint8}
	}
	return fields
}
