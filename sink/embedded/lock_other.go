//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package embedded

import "os"

// takeLock does nothing: systems without flock do not keep a second process out.
func takeLock(*os.File) error { return nil }
