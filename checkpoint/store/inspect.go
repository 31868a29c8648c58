package store

import "bridge/internal/inspect"

// Inspection is the result of looking at a store without changing it.
type Inspection struct {
	inspect.Report
	// Shards are the shards whose START was decided, in the order of stream and shard.
	Shards []ShardState
	// Known says that Shards is complete. It is false if the store is damaged or in use.
	Known bool
}

// ShardState is what a store holds of a shard.
type ShardState struct {
	Key      Key
	Progress Progress
	// Meaning is nil where the store does not know it.
	Meaning *Meaning
	// Schema is nil where the store does not know it.
	Schema *Schema
}
