//go:build bridge_pprof

package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
)

// sampleBytes is how many bytes of allocations there are to a sample, sampleNanos how many
// nanoseconds of waiting.
const (
	sampleBytes = 16 << 10
	sampleNanos = 10_000
)

// profile begins to profile the process, and returns what writes the CPU profile, that of the
// allocations and that of the waiting between goroutines to the folder BRIDGE_TEST_PROFILE, one
// file each. Only a program that is built with the tag bridge_pprof does that.
func profile() (stop func()) {
	folder := os.Getenv("BRIDGE_TEST_PROFILE")
	if folder == "" {
		return func() {}
	}
	runtime.MemProfileRate = sampleBytes
	runtime.SetBlockProfileRate(sampleNanos)
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
		for _, name := range []string{"allocs", "block"} {
			write(name, folder+"/"+name+".pprof")
		}
	}
}

// write writes the profile of this name to a file.
func write(name, path string) {
	file, err := os.Create(path)
	if err != nil {
		fail(err)
	}
	if err := pprof.Lookup(name).WriteTo(file, 0); err != nil {
		fail(err)
	}
	if err := file.Close(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "profile:", err)
	os.Exit(exitFailed)
}
