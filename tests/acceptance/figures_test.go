package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestFigures measures what the README says about size, start and memory. It is part of `make
// figures`, not of the tests: what it measures depends on the machine.
func TestFigures(t *testing.T) {
	if os.Getenv("BRIDGE_TEST_FIGURES") == "" {
		t.Skip("part of `make figures`")
	}
	path := filepath.Join(t.TempDir(), "bridge")
	staticBinary(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	table := newSecured(t, testenv.MariaDB(t))
	insertSecured(table)
	e := secured("").With(world.Env{"BRIDGE_SOURCE_URL": table.URL, "BRIDGE_SINK_URL": "stdout:", "BRIDGE_STABILITY_WINDOW": "1s"})
	world.Pause(2 * time.Second)

	var starts []time.Duration
	var idle int64
	for range 5 {
		d := world.NewDaemon(t, path, e)
		begun := time.Now()
		d.Start()
		// Nobody waits for a tick here: a start takes less than one.
		for !strings.Contains(d.Log.String(), "SecuredPublishedEvent") {
			if time.Since(begun) > 30*time.Second {
				t.Fatal("no event")
			}
			world.Pause(time.Millisecond)
		}
		starts = append(starts, time.Since(begun))
		if len(starts) == 5 {
			world.Pause(30 * time.Second)
			if idle, err = d.RSSAnon(); err != nil {
				t.Fatal(err)
			}
		}
		d.Kill()
	}
	slices.Sort(starts)
	fmt.Printf("static binary            %.1f MiB\n", float64(info.Size())/(1<<20))
	fmt.Printf("start to first event     %d ms (median of 5: process start, login, first page, event on stdout)\n", starts[2].Milliseconds())
	fmt.Printf("RssAnon, one idle stream %.1f MiB (after 30 s)\n", float64(idle)/(1<<20))
}
