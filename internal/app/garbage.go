package app

import (
	"os"
	"runtime/debug"
)

// gcPercent is GOGC: the heap grows to one and a half times what lives, in place of twice by
// default. Most of what lives is memory without pointers, such as that of the store and of batches,
// so to collect more often costs next to nothing.
const gcPercent = 50

// collectOften sets gcPercent unless the environment sets GOGC or GOMEMLIMIT, and returns a
// function that undoes it.
func collectOften() (undo func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(gcPercent)
	return func() { debug.SetGCPercent(before) }
}
