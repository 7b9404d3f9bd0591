//go:build !linux

package dataset

import (
	"errors"
	"os"
)

const hugePage = 2 << 20 // nothing depends on it here

func openUncached(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func refused(error) bool { return false }

func useCache(*os.File) error { return errors.ErrUnsupported }

func reserve(int) []byte { return nil }
