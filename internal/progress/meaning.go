package progress

import (
	"fmt"

	"bridge/checkpoint/store"
	"bridge/event"
)

// MeaningCommands returns the commands that resolve a progress that was made with another
// configuration, which was: the one that has the stream begin again, and the one that has the shard
// go on where it is. That is empty where the position says nothing under the present configuration:
// its ids are of another column, or a view belongs to it, which holds entities by their keys.
func MeaningCommands(key store.Key, was *store.Meaning, position uint64, differences store.Differences) (reset, goOn string) {
	reset = "bridge checkpoint reset " + key.Stream
	if was.Kind == string(event.Release) && !differences.Has("KIND") && !differences.Has("ID") {
		goOn = fmt.Sprintf("bridge checkpoint set %s %s %d", key.Stream, key.Shard, position)
	}
	return reset, goOn
}
