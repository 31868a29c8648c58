package shard

import (
	"context"
	"errors"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/option"
	"bridge/internal/progress"
)

// ErrSchemaChanged is returned where the events of a shard would lack members that those of their
// version had, or have them with other types, and Options.StopOnSchemaChange is set.
var ErrSchemaChanged = errors.New("the events lack what others of their version have")

// schemas compares the schema of the events to come with that of those published last. It belongs
// to the owner.
type schemas struct {
	opts *Options
	// published is what the store has, or a batch that was handed over; nil for none.
	published *store.Schema
	// next is what the next batch changes it to, nextHash the hash of its messages.
	next     *store.Schema
	nextHash string
	// told is the break that the log was told of last.
	told [2]event.ShapeHash
}

// open loads what the store has.
func (s *schemas) open(ctx context.Context) (err error) {
	s.next = nil
	s.published, err = store.LoadSchema(ctx, s.opts.Store, s.opts.key())
	return err
}

// check compares what the encoder is bound to. It returns an error where the shard must not publish
// such events.
func (s *schemas) check() error {
	now := progress.SchemaOf(s.opts.Encoder)
	s.next = nil
	if was := s.published; was == nil || was.Version != now.Version || was.Hash != now.Hash || len(was.Members) != len(now.Members) {
		s.next, s.nextHash = now, event.ShapeHash(now.Hash).String()
	}
	b := progress.BreakOf(s.published, now)
	if b == nil {
		return nil
	}
	if pair := [2]event.ShapeHash{b.Was, b.Is}; pair != s.told {
		s.told = pair
		s.opts.Metrics.schemaBreaks.WithLabelValues(s.opts.Stream).Inc()
		if !s.opts.StopOnSchemaChange {
			s.opts.Logger.Warn("events change in a way that consumers have to be told of", "change", b.String(),
				"version", b.Version.String(), "schema_was", b.Was.String(), "schema_is", b.Is.String())
		}
	}
	if !s.opts.StopOnSchemaChange {
		return nil
	}
	return option.Errorf("%w: %s: change the table back, or set %s to another version than %s; with %s=warn the stream goes on without one",
		ErrSchemaChanged, b, option.EventVersion, b.Version, option.OnSchemaChange)
}

// hand has a batch say what its events look like, where those before did not look so.
func (s *schemas) hand(b *batch) {
	if s.next == nil || len(b.messages) == 0 || b.messages[len(b.messages)-1].Schema != s.nextHash {
		return
	}
	b.schema, s.published, s.next = s.next, s.next, nil
}

// schemaPart returns the part that says what the messages of b, which are on the bus, look like.
func schemaPart(b *batch) store.Part {
	saved := *b.schema
	saved.Epoch, saved.Seq = b.messages[0].State.Epoch, b.messages[0].State.Seq
	return store.Part{Kind: store.SchemaPart, Bytes: store.AppendSchema(nil, &saved)}
}
