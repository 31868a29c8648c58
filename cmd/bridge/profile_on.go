//go:build bridge_pprof

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
)

// sampleBytes is how many bytes of allocations there are to a sample.
const sampleBytes = 16 << 10

// profile begins to profile the process, and returns what writes the CPU profile and that of the allocations to the folder
// BRIDGE_TEST_PROFILE, one file each. Only a program that is built with the tag bridge_pprof does that.
func profile() (stop func()) {
	folder := os.Getenv("BRIDGE_TEST_PROFILE")
	if folder == "" {
		return func() {}
	}
	runtime.MemProfileRate = sampleBytes
	err := os.MkdirAll(folder, 0o755)
	if err != nil {
		fail(err)
	}
	cpu, err := os.Create(folder + "/cpu.pprof")
	if err != nil {
		fail(err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		fail(err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := cpu.Close(); err != nil {
			fail(err)
		}
		allocs, err := os.Create(folder + "/allocs.pprof")
		if err != nil {
			fail(err)
		}
		if err := pprof.Lookup("allocs").WriteTo(allocs, 0); err != nil {
			fail(err)
		}
		if err := allocs.Close(); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "profile:", err)
	os.Exit(exitFailed)
}
