//go:build bridge_pprof

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// profile begins to profile the process, and returns what writes the CPU profile, that of the
// allocations and that of the waiting between goroutines to the folder BRIDGE_TEST_PROFILE, one
// file each. Only a program that is built with the tag bridge_pprof does that.
func profile() (stop func()) {
	folder := os.Getenv("BRIDGE_TEST_PROFILE")
	if folder == "" {
		return func() {}
	}
	// Bytes of allocations, and nanoseconds of waiting, to a sample.
	runtime.MemProfileRate = 16 << 10
	runtime.SetBlockProfileRate(10_000)
	must(os.MkdirAll(folder, 0o755))
	cpu, err := os.Create(filepath.Join(folder, "cpu.pprof"))
	must(err)
	must(pprof.StartCPUProfile(cpu))
	return func() {
		pprof.StopCPUProfile()
		must(cpu.Close())
		for _, name := range []string{"allocs", "block"} {
			file, err := os.Create(filepath.Join(folder, name+".pprof"))
			must(err)
			must(pprof.Lookup(name).WriteTo(file, 0))
			must(file.Close())
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(exitFailed)
	}
}
