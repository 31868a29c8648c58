//go:build bridge_times

package app

import (
	"fmt"
	"os"
	"strings"
	"time"

	"bridge/internal/catchup"
	"bridge/internal/shard"
)

// timesVariable lists times that make a test wait, such as "hot_time=5s,sweep=5s,idle_every=1s".
const timesVariable = "BRIDGE_TEST_TIMES"

// withTestTimes returns the options with the times of BRIDGE_TEST_TIMES. Only a program built with
// the tag bridge_times has this.
func withTestTimes(o shard.Options) shard.Options {
	setTimes(&o, new(catchup.Options))
	return o
}

// withRecoveryTimes is withTestTimes for catch-up.
func withRecoveryTimes(o catchup.Options) catchup.Options {
	setTimes(new(shard.Options), &o)
	return o
}

// setTimes sets the times of BRIDGE_TEST_TIMES. A list that cannot be read ends the process with
// status 2.
func setTimes(s *shard.Options, c *catchup.Options) {
	times := map[string]*time.Duration{
		"hot_time": &s.HotFor, "sweep": &s.SweepEvery, "gap_ttl": &s.GapTTL, "look_back": &s.LookBack, "reach": &s.Reach,
		"short_round": &c.ShortRound, "tick": &c.Tick, "idle_every": &c.IdleEvery, "anchors_every": &c.AnchorsEvery,
	}
	for entry := range strings.FieldsFuncSeq(os.Getenv(timesVariable), func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(entry, "=")
		d, err := time.ParseDuration(value)
		if times[name] == nil || err != nil || d <= 0 {
			fmt.Fprintf(os.Stderr, "%s: cannot read %q\n", timesVariable, entry)
			os.Exit(2)
		}
		*times[name] = d
	}
}
