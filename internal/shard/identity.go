package shard

import (
	"context"
	"errors"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// askAfter and askEvery bound the pause between two questions for the traits of a server: where
// several servers answer in turns it doubles. warnEvery is that between two warnings that they do.
const (
	askAfter  = 5 * time.Second
	askEvery  = time.Minute
	warnEvery = time.Minute
)

// server is what is known of the server that answers: its traits, and whether committed and
// uncommitted rows come from the same one. It belongs to the owner.
type server struct {
	opts   *Options
	reader *reader
	// traits are those of the server that they name; agreement watches whether that is the one that
	// answers. asked is when another one was met last, pause how long none is asked for since then.
	traits    source.Traits
	agreement agreement
	asked     time.Time
	pause     time.Duration
}

// refresh asks the server for its traits, and how it hands out ids unless ID_ORDER says so, until
// it answers.
func (s *server) refresh(ctx context.Context) error {
	return s.reader.retry(ctx, func() error { return s.readTraits(ctx) })
}

// readTraits is refresh, but asks once.
func (s *server) readTraits(ctx context.Context) error {
	traits, err := s.opts.Source.Traits(ctx)
	if err != nil {
		return err
	}
	if s.opts.IDOrder != "" {
		traits.Order, traits.OrderWhy = s.opts.IDOrder, "ID_ORDER says so"
	}
	s.traits = traits
	s.reader.status.update(func(status *Status) { status.NoTail = s.tailless() })
	if s.opts.Announce != nil {
		s.opts.Announce(traits)
	}
	return nil
}

// tailless reports whether the ids have no order, so that only reconcile and the second cursor
// find rows.
func (s *server) tailless() bool { return s.traits.Order == source.OrderNone }

// refuseTailless is the error of a shard whose ids have no order and must have one: it is of a
// release stream, or begins behind rows that are there, which no id tells from later ones.
func (s *server) refuseTailless() error {
	switch {
	case !s.tailless():
		return nil
	case s.opts.Kind == event.Capability && s.opts.Start == (Start{}):
		return nil
	case s.opts.Kind == event.Capability:
		return option.Errorf("%w: %s is not beginning, and without an order of the ids (%s) nothing tells a row of before from one that was committed late: "+
			"remove %s, or set %s if they have an order", source.ErrUnfit, option.Start, s.traits.OrderWhy, option.Start, option.IDOrder)
	}
	return option.Errorf("%w: ids without an order (%s) cannot be tailed, and a release stream is nothing but its tail: "+
		"set %s if they have one, or make it a capability stream, which reconcile alone can publish", source.ErrUnfit, s.traits.OrderWhy, option.IDOrder)
}

// meet asks for the traits where an answer has come from another server than they hold for. Call
// it with every page before anything is concluded from what it does not hold; afterwards knows
// tells whether the traits hold for that server.
func (s *server) meet(ctx context.Context, name string) error {
	since := time.Since(s.asked)
	if s.knows(name) || since < s.pause {
		return nil
	}
	s.asked = time.Now()
	if since >= 2*s.pause {
		s.pause = askAfter
	} else {
		s.pause = min(2*s.pause, askEvery)
	}
	return s.refresh(ctx)
}

// ping binds a shard without a tail to its columns and shows that the source answers; for a quiet
// shard the highest id is enough.
func (s *server) ping(ctx context.Context, quiet bool) (err error) {
	var p *page
	if quiet {
		p, err = s.reader.head(ctx)
	}
	if err == nil && p == nil {
		q := source.Query{Limit: 1}
		if columns := s.reader.columns; columns != nil && columns.IDFormat != "" {
			// The first id may have many rows.
			q.After = everyID
		}
		if p, err = s.reader.page(ctx, q); err == nil {
			err = s.meet(ctx, p.Server)
		}
	}
	p.free()
	return err
}

func (s *server) knows(name string) bool { return s.traits.Server == name }

// fits reports whether uncommitted rows were read from the server that the page came from, and that
// the traits hold for.
func (s *server) fits(page, uncommitted string) bool {
	a := &s.agreement
	if uncommitted == page && s.knows(uncommitted) {
		if !a.since.IsZero() {
			s.opts.Logger.Info("committed and uncommitted rows are read from one server again", "server", uncommitted, "after", time.Since(a.since))
		}
		a.since = time.Time{}
		return true
	}
	if a.differs(time.Now()) {
		s.opts.Logger.Warn("committed and uncommitted rows are read from different servers, as behind a proxy or after a failover: "+
			"no missing id is judged until they come from one server again; after a minute gaps expire by age",
			"page", page, "uncommitted", uncommitted, "expected", s.traits.Server)
	}
	return false
}

// fitsTraits reports whether a read at READ UNCOMMITTED came from the server that the traits hold
// for: of another one it says nothing.
func (s *server) fitsTraits(name string) bool {
	if s.knows(name) {
		return true
	}
	if s.agreement.differs(time.Now()) {
		s.opts.Logger.Warn("changes in flight are read from another server than rows, as behind a proxy or after a failover: they are not looked for "+
			"until both come from one server again", "uncommitted", name, "expected", s.traits.Server)
	}
	return false
}

const (
	// dropFor is how long evidence is dropped, poll after poll, because it comes from another
	// server than the page. Then gaps expire by age, and evidence is tried again once in each
	// retryEvery.
	dropFor    = time.Minute
	retryEvery = time.Minute
)

// agreement tells whether page and evidence come from the same server.
type agreement struct {
	// since is when they began to differ, zero while they do not; tried is when evidence was asked
	// for last since then.
	since, tried time.Time
	// warned is when that was logged.
	warned time.Time
}

// skips reports whether no evidence is asked for at this poll, since it has not fitted for long.
func (a *agreement) skips(now time.Time) bool {
	return !a.since.IsZero() && now.Sub(a.since) >= dropFor && now.Sub(a.tried) < retryEvery
}

func (a *agreement) differs(now time.Time) (warn bool) {
	a.tried = now
	if !a.since.IsZero() {
		return false
	}
	a.since = now
	if !a.warned.IsZero() && now.Sub(a.warned) < warnEvery {
		return false
	}
	a.warned = now
	return true
}

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
	// logged is the break that was logged last.
	logged [2]event.ShapeHash
}

func (s *schemas) open(ctx context.Context) (err error) {
	s.next = nil
	s.published, err = store.LoadSchema(ctx, s.opts.Store, s.opts.key())
	return err
}

// check compares what the encoder is bound to. It returns an error where the shard must not publish
// such events.
func (s *schemas) check() error {
	now := stream.SchemaOf(s.opts.Encoder)
	s.next = nil
	if was := s.published; was == nil || was.Version != now.Version || was.Hash != now.Hash || len(was.Members) != len(now.Members) {
		s.next, s.nextHash = now, event.ShapeHash(now.Hash).String()
	}
	b := stream.BreakOf(s.published, now)
	if b == nil {
		return nil
	}
	if pair := [2]event.ShapeHash{b.Was, b.Is}; pair != s.logged {
		s.logged = pair
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
