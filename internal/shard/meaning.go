package shard

import (
	"errors"
	"fmt"

	"bridge/checkpoint"
	"bridge/event"
)

// ErrOtherMeaning is returned when the checkpoint of a shard was made with a configuration that gives its ids or entities another meaning.
var ErrOtherMeaning = errors.New("the checkpoint was made with another configuration")

// checkMeaning stops the shard where its saved state means something else than its configuration. A state without a meaning takes over the
// present one with its next save.
func checkMeaning(opts *Options, state *checkpoint.State) error {
	if state.Meaning == nil || opts.Meaning == nil {
		return nil
	}
	differences := state.Meaning.Differences(opts.Meaning)
	if len(differences) == 0 {
		return nil
	}
	reset, goOn := MeaningCommands(opts.key(), state, differences)
	remedy := "put the setting back, or stop bridge, then to have the stream begin at its START again: " + reset
	if goOn != "" {
		remedy += "; to go on behind the rows that were published: " + goOn
	}
	return fmt.Errorf("%w: %s: %s", ErrOtherMeaning, differences, remedy)
}

// MeaningCommands returns the commands that resolve a state that was made with another configuration: the one that has the stream begin
// again, and the one that has the shard go on where it is. That is empty where the position says nothing under the present
// configuration: its ids are of another column, or a view belongs to it, which holds entities by their keys.
func MeaningCommands(key checkpoint.Key, state *checkpoint.State, differences checkpoint.Differences) (reset, goOn string) {
	reset = "bridge checkpoint reset " + key.Stream
	if state.Meaning.Kind == string(event.Release) && !differences.Has("KIND") && !differences.Has("ID") {
		goOn = fmt.Sprintf("bridge checkpoint set %s %s %d", key.Stream, key.Shard, state.Position.ID)
	}
	return reset, goOn
}
