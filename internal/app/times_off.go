//go:build !bridge_times

package app

import (
	"bridge/internal/catchup"
	"bridge/internal/shard"
)

// withTestTimes returns the options as they are: only a program built with the tag bridge_times has
// other times.
func withTestTimes(o shard.Options) shard.Options { return o }

// withRecoveryTimes is withTestTimes for catch-up.
func withRecoveryTimes(o catchup.Options) catchup.Options { return o }
