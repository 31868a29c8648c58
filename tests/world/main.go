package world

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"example.org/bridge/tests/testenv"
)

// Main builds the program and runs the tests of a package. Call it from TestMain.
func Main(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic(err)
		}
	}
	// Built before the clock of any test starts.
	if flag.Lookup("test.list").Value.String() == "" {
		if _, err := programs[RaceDetector](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	testenv.Main(m)
}

// atOnce is how many of the tests that call Parallel run side by side: they mostly wait.
const atOnce = 16
