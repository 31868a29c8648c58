package checkpoint

import "bridge/internal/inspect"

// Inspection is what was found out about a store that was looked at without being opened, made or
// changed.
type Inspection struct {
	inspect.Report
	// Entries are the states that it holds, in the order of stream and shard.
	Entries []Entry
	// Known says that Entries is all there is: a store that is damaged, or in use, could not be
	// read.
	Known bool
}
