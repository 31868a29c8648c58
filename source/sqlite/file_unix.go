//go:build unix

package sqlite

import (
	"io/fs"
	"syscall"
)

// fileNumber returns the number of a file in its file system.
func fileNumber(file fs.FileInfo) uint64 {
	if status, ok := file.Sys().(*syscall.Stat_t); ok {
		return status.Ino
	}
	return 0
}

// fileOwner returns the user that a file belongs to, -1 when that is not known.
func fileOwner(file fs.FileInfo) int {
	if status, ok := file.Sys().(*syscall.Stat_t); ok {
		return int(status.Uid)
	}
	return -1
}
