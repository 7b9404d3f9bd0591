package gcsemu

import "golang.org/x/sys/windows"

// free returns how many bytes a folder's disk has left for this user; 0 if that cannot be known.
func free(dir string) (left uint64) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil || windows.GetDiskFreeSpaceEx(name, &left, nil, nil) != nil {
		return 0
	}
	return left
}
