package dataset

import "fmt"

// FormatError reports a file that is not laid out as FORMAT.md says. Offset is the first wrong byte, or -1 for the
// whole file.
type FormatError struct {
	File   string
	Offset int64
	Msg    string
}

func (e *FormatError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s: %s; stage or copy the dataset again", e.File, e.Msg)
	}
	return fmt.Sprintf("%s: byte %d: %s; stage or copy the dataset again", e.File, e.Offset, e.Msg)
}

// IsInput says that the input is at fault, permanently.
func (*FormatError) IsInput() bool { return true }

// IsDamaged says that the contents are not those that were written.
func (*FormatError) IsDamaged() bool { return true }

// CorruptError reports a part of a file whose contents do not match the manifest's checksum: the bytes from From up to,
// but not including, To.
type CorruptError struct {
	File     string
	From, To int64
	Msg      string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: bytes %d to %d: %s; stage or copy the dataset again", e.File, e.From, e.To-1, e.Msg)
}

// IsInput says that the input is at fault, permanently.
func (*CorruptError) IsInput() bool { return true }

// IsDamaged says that the contents are not those that were written.
func (*CorruptError) IsDamaged() bool { return true }

// ManifestError reports an unusable manifest, and the part at fault.
type ManifestError struct {
	Field string // such as features[3].bounds; empty for the whole manifest
	Err   error
}

func (e *ManifestError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("not a dataset manifest of Coppice: %v", e.Err)
	}
	return fmt.Sprintf("not a dataset manifest of Coppice: %s: %v", e.Field, e.Err)
}

// Unwrap returns the cause.
func (e *ManifestError) Unwrap() error { return e.Err }

// IsInput says that the input is at fault, permanently.
func (*ManifestError) IsInput() bool { return true }

// IsDamaged says that the contents are not those that were written.
func (*ManifestError) IsDamaged() bool { return true }
