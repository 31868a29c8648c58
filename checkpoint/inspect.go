package checkpoint

import "bridge/internal/inspect"

// Inspection is the result of looking at a store without opening or changing it.
type Inspection struct {
	inspect.Report
	// Entries are the states that it holds, in the order of stream and shard.
	Entries []Entry
	// Known says that Entries is complete. It is false if the store is damaged or in use.
	Known bool
}
