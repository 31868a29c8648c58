//go:build bridge_times

package app

import (
	"fmt"
	"os"
	"strings"
	"time"

	"bridge/internal/shard"
)

// timesVariable lists times that make a test wait, such as "hot_time=5s,sweep=5s,gap_ttl=5s".
const timesVariable = "BRIDGE_TEST_TIMES"

// withTestTimes returns the options with the times of BRIDGE_TEST_TIMES. A list that cannot be read
// ends the process with status 2. Only a program built with the tag bridge_times has this.
func withTestTimes(o shard.Options) shard.Options {
	times := map[string]*time.Duration{"hot_time": &o.HotFor, "sweep": &o.SweepEvery, "gap_ttl": &o.GapTTL, "look_back": &o.LookBack, "reach": &o.Reach}
	for entry := range strings.FieldsFuncSeq(os.Getenv(timesVariable), func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(entry, "=")
		d, err := time.ParseDuration(value)
		if times[name] == nil || err != nil || d <= 0 {
			fmt.Fprintf(os.Stderr, "%s: cannot read %q\n", timesVariable, entry)
			os.Exit(2)
		}
		*times[name] = d
	}
	return o
}
