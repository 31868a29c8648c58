//go:build !unix

package sqlite

import "io/fs"

// fileNumber returns 0 where files have no number that could be had without opening them.
func fileNumber(fs.FileInfo) uint64 { return 0 }

// fileOwner returns -1 where files do not belong to a user by number.
func fileOwner(fs.FileInfo) int { return -1 }
