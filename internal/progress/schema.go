package progress

import (
	"strings"

	"bridge/checkpoint/store"
	"bridge/event"
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
