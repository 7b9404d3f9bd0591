package dataset

import "fmt"

// FormatError is a file that is not laid out as FORMAT.md says. Offset is the first byte that is wrong, or -1 when the
// whole file is meant.
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

// IsInput says that what was handed in is at fault, and will be the next time.
func (*FormatError) IsInput() bool { return true }

// IsDamaged says that the contents are not those that were written.
func (*FormatError) IsDamaged() bool { return true }

// CorruptError is a part of a file whose contents are not those that the manifest's checksum was made from. The bytes
// From up to, but not including, To are meant.
type CorruptError struct {
	File     string
	From, To int64
	Msg      string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: bytes %d to %d: %s; stage or copy the dataset again", e.File, e.From, e.To-1, e.Msg)
}

// IsInput says that what was handed in is at fault, and will be the next time.
func (*CorruptError) IsInput() bool { return true }

// IsDamaged says that the contents are not those that were written.
func (*CorruptError) IsDamaged() bool { return true }

// ManifestError is a manifest that cannot be used, and which part of it.
type ManifestError struct {
	Field string // such as features[3].bounds; empty when the whole manifest is meant
	Err   error
}

func (e *ManifestError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("not a dataset manifest of Coppice: %v", e.Err)
	}
	return fmt.Sprintf("not a dataset manifest of Coppice: %s: %v", e.Field, e.Err)
}

// Unwrap gives the cause.
func (e *ManifestError) Unwrap() error { return e.Err }

// IsInput says that what was handed in is at fault, and will be the next time.
func (*ManifestError) IsInput() bool { return true }

// IsDamaged says that the contents are not those that were written.
func (*ManifestError) IsDamaged() bool { return true }
