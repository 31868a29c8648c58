//go:build !bridge_pprof

package main

// profile does nothing: the program profiles itself only where it is built with the tag
// bridge_pprof.
func profile() (stop func()) { return func() {} }
