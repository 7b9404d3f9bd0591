//go:build unix

package gcsemu

import "syscall"

// free returns how many bytes a folder's disk has left for this user; 0 if that cannot be known.
func free(dir string) uint64 {
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil {
		return 0
	}
	return uint64(fs.Bavail) * uint64(fs.Bsize) //nolint:unconvert // signed, or of 32 bits, on some systems
}
