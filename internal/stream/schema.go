package stream

import (
	"fmt"
	"strings"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
)

// SchemaOf returns the schema of the events that an encoder makes, which is bound.
func SchemaOf(e *event.Encoder) *store.Schema {
	// The encoder has checked it.
	version, _ := event.ParseVersion(e.Version())
	shape := e.Shape()
	s := &store.Schema{Version: version, Hash: shape.Hash(), Members: make([]store.SchemaMember, len(shape))}
	for i, m := range shape {
		s.Members[i] = store.SchemaMember(m)
	}
	return s
}

// SchemaBreak is a change of events that consumers of their version have to be told of.
type SchemaBreak struct {
	// Version is the meta.version that was published with other members, Was and Is are the hashes.
	Version  event.VersionNumbers
	Was, Is  event.ShapeHash
	Members  []event.Difference
	nameless bool
}

// BreakOf compares the schema published last, nil for none, with that of the events to come. It
// returns nil where these have another version, or lack nothing. Where the store does not know the
// members, every other schema is a break.
func BreakOf(was, now *store.Schema) *SchemaBreak {
	if was == nil || was.Version != now.Version || was.Hash == now.Hash {
		return nil
	}
	b := &SchemaBreak{Version: was.Version, Was: was.Hash, Is: now.Hash}
	b.nameless = len(was.Members) == 0 && was.Hash != event.Shape{}.Hash()
	b.Members = shapeOf(now).Broken(shapeOf(was))
	if len(b.Members) == 0 && !b.nameless {
		return nil
	}
	return b
}

func shapeOf(s *store.Schema) event.Shape {
	shape := make(event.Shape, len(s.Members))
	for i, m := range s.Members {
		shape[i] = event.ShapeMember(m)
	}
	return shape
}

// String says what has changed.
func (b *SchemaBreak) String() string {
	if b.nameless {
		return "their members or types are others than those published last, and the checkpoint does not know which these were"
	}
	texts := make([]string, len(b.Members))
	for i, d := range b.Members {
		texts[i] = "member " + d.Name + " was " + d.Was + " and is "
		if d.Is == "" {
			texts[i] += "gone"
		} else {
			texts[i] += d.Is
		}
	}
	return strings.Join(texts, ", ")
}

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
