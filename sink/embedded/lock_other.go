//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package embedded

import "os"

// flock does nothing: systems without flock do not keep a second process out.
func flock(*os.File) error { return nil }
