package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/published"
	"example.org/bridge/internal/stream"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// Recovery reads from the bus what the store lacks. A stream.CatchUp is one.
type Recovery interface {
	// Wait returns nil when a stream has caught up; the error is that which stopped the stream.
	Wait(ctx context.Context, stream string) error
	// Resolve reads what the bus holds of a stream and was not read, behind a publish of unknown
	// outcome (rule 9).
	Resolve(ctx context.Context, stream string) error
	// Register returns the number of a TP in which messages were acknowledged and that has none, 0
	// where it gets none. An error says that these messages are to be read back.
	Register(ctx context.Context, stream string, tp sink.TPRef) (uint32, error)
	// Rereading reports whether what is read again of a stream is not read yet (rule 21).
	Rereading(stream string) bool
	// Epoch is that of the process. It is there once Wait has returned nil.
	Epoch() *stream.Epoch
}

func (o *Options) key() store.Key { return store.Key{Stream: o.Stream, Shard: o.Name} }

// begin opens what is known of the shard, or decides where it begins, and returns the owner that
// goes on from there.
func (s *Shard) begin(ctx context.Context) (*owner, error) {
	if err := s.server.refresh(ctx); err != nil {
		return nil, err
	}
	var list *published.Log
	var damage error
	err := s.retrier.readStore(ctx, func() (err error) {
		s.gaps.state, list, err = s.opts.Feed.Begin(ctx, s.opts.Name, s.gaps.options(), s.opts.PublishedRows)
		if errors.Is(err, published.ErrBadLog) {
			damage, err = err, nil
		}
		return s.opts.damaged(err)
	})
	if err = cmp.Or(damage, err); err != nil {
		return nil, err
	}
	// What the store has of the schema of its events counts.
	s.reader.columns = nil
	if err := s.retrier.readStore(ctx, func() error { return s.reader.schemas.open(ctx) }); err != nil {
		return nil, err
	}
	found := s.gaps.stored().Started
	if err := s.opening.commitMeaning(ctx); err != nil {
		return nil, err
	}
	if err := s.server.refuseTailless(); err != nil {
		return nil, err
	}
	if s.opening.fromFirst {
		if err := s.opening.restart(ctx, list); err != nil {
			return nil, err
		}
	}
	if !s.gaps.stored().Started {
		if s.opts.Deciding != nil {
			if err := s.retrier.wait(owning, forEver, func() error { return s.opts.Deciding(ctx) }); err != nil {
				return nil, err
			}
		}
		if err := s.opening.first(ctx); err != nil {
			return nil, err
		}
	}
	s.gaps.since = s.gaps.stored().Since
	if s.opts.Decided != nil {
		err := s.retrier.wait(owning, forEver, func() error { return s.opts.Decided(ctx, s.gaps.since) })
		if err != nil {
			return nil, err
		}
	}
	entities := newEntities(&s.opts, s.retrier, s.gaps)
	if err := s.opening.snapshot(ctx, entities); err != nil {
		return nil, err
	}
	position := s.gaps.position()
	s.status.saved(position, 0, 0)
	s.tailLog.begin(position, found)
	rows := newPublished(s.server, entities, s.gaps, list)
	if reason := list.Stopped(); reason != "" {
		// Without an answer the remedy names no row.
		survivor, _, _ := rows.survivor(ctx)
		return nil, &reusedError{reason: reason, remedy: rows.remedy(survivor), saved: true}
	}
	return s.newOwner(entities, rows), nil
}

// opening decides where a shard begins of which nothing is known, and records the table where START
// says so. It belongs to the owner.
type opening struct {
	opts    *Options
	retrier *retrier
	reader  *reader
	gaps    *gaps
	// fromFirst says that a person has agreed that the shard begins at the first row.
	fromFirst bool
}

// commitMeaning stops the shard where what is saved of it means something else than its
// configuration. Where nothing says what that means, it saves it.
func (o *opening) commitMeaning(ctx context.Context) error {
	if o.opts.Meaning == nil {
		return nil
	}
	var saved *store.Meaning
	err := o.retrier.readStore(ctx, func() (err error) {
		saved, err = store.LoadMeaning(ctx, o.opts.Store, o.opts.key())
		return err
	})
	if err != nil {
		return err
	}
	if saved == nil {
		part := store.Part{Kind: store.MeaningPart, Bytes: store.AppendMeaning(nil, o.opts.Meaning)}
		return o.retrier.wait(owning, forEver, func() error {
			return o.opts.Committer.Apply(ctx, &store.Batch{Shards: []store.ShardChange{{Key: o.opts.key(), Parts: []store.Part{part}}}})
		})
	}
	differences := saved.Differences(o.opts.Meaning)
	if len(differences) == 0 {
		return nil
	}
	reset, goOn := stream.MeaningCommands(o.opts.key(), saved, o.gaps.position(), differences)
	remedy := "put the setting back, or stop bridge, then to have the stream begin at its START again: " + reset
	if goOn != "" {
		remedy += "; to go on behind the rows that were published: " + goOn
	}
	return fmt.Errorf("%w: %s: %s", ErrOtherMeaning, differences, remedy)
}

// everyID is how far a shard without a tail reaches: every row may be judged.
const everyID = math.MaxUint64

// first decides where a shard begins of which neither the store nor the bus has anything. That is
// durable before its first row is published, so that it is decided once (rules 11 and 16).
func (o *opening) first(ctx context.Context) error {
	start, highest := o.opts.Start, o.opts.Start.After
	var cursor source.Cursor
	if start.Latest || start.After > 0 {
		p, err := o.reader.page(ctx, source.Query{Limit: 1})
		if err != nil {
			return err
		}
		highest = p.MaxID
		cursor = cursorAt(o.opts, p.Columns, p.Now)
		p.free()
	}
	first, err := stream.StartProgress(o.opts.Kind, start, highest)
	if err != nil {
		return fmt.Errorf("%s: %w", o.opts.Name, err)
	}
	first.Cursor = cursor
	begin, err := o.gaps.seed(ctx, first, o.opts.Recovery.Epoch().Number())
	if err != nil {
		return err
	}
	return o.update(ctx, func(p *stream.Progress) (store.ShardChange, error) {
		if p.State().Started {
			// By a message that was read meanwhile.
			return p.Fill(time.Now())
		}
		return p.Begin(begin)
	})
}

// restart has the shard go on from its first row with the view as it is.
func (o *opening) restart(ctx context.Context, list *published.Log) error {
	err := o.update(ctx, func(p *stream.Progress) (store.ShardChange, error) {
		return p.Restart(o.opts.Recovery.Epoch().Number(), time.Now())
	})
	if err != nil {
		return err
	}
	list.Clear()
	list.Stop("")
	o.fromFirst = false
	o.opts.Logger.Warn("the table is read from its first row, since its ids are used again and a person has agreed")
	return nil
}

func (o *opening) update(ctx context.Context, do func(*stream.Progress) (store.ShardChange, error)) error {
	err := o.retrier.writeStore(ctx, owning, func() error { return o.opts.Feed.Update(ctx, o.opts.Name, do) })
	switch {
	case err == nil:
		return o.sync(ctx)
	case stream.IsDamaged(err), errors.Is(err, stream.ErrReadBack), ctx.Err() != nil:
		return o.opts.damaged(err)
	}
	return &storeError{err}
}

// sync applies changes, and makes all durable that was applied.
func (o *opening) sync(ctx context.Context, changes ...store.ShardChange) error {
	err := o.retrier.wait(owning, forEver, func() error {
		return o.opts.Committer.Sync(ctx, &store.Batch{Shards: changes})
	})
	if err != nil && ctx.Err() == nil {
		return &storeError{err}
	}
	return err
}

// snapshot records the rows of a table that is taken as it stands (START=latest, or behind an id)
// in the view and publishes nothing. It goes on where an earlier start of the process was cut
// short.
func (o *opening) snapshot(ctx context.Context, entities *entities) error {
	left := o.gaps.snapshot()
	if left.First == 0 {
		return nil
	}
	started, logged := time.Now(), time.Now()
	for rows := 0; left.First > 0; left = o.gaps.snapshot() {
		n, err := o.recordPage(ctx, entities, left)
		if err != nil {
			return err
		}
		rows += n
		if time.Since(logged) > tellEvery {
			logged = time.Now()
			o.opts.Logger.Info("recording the table as it stands", "rows", rows, "through", left.First, "of", left.Last,
				"rows_per_second", int(float64(rows)/time.Since(started).Seconds()))
		}
	}
	o.opts.Logger.Info("the table as it stands is known, changes from now on are published", "took", time.Since(started).Round(time.Millisecond))
	return nil
}

// recordPage records the next rows of what is left, and returns how many they are. A row that was
// not committed when the shard began is a change since, and left to the tail.
func (o *opening) recordPage(ctx context.Context, entities *entities, left source.Range) (n int, err error) {
	q := source.Query{After: left.First - 1, Through: left.Last, Limit: o.opts.BatchRows, MaxBytes: o.opts.Limits.pageBytes()}
	p, err := o.reader.page(ctx, q)
	if err != nil {
		return 0, err
	}
	defer p.free()
	n = len(p.Rows)
	// A page that is full may hold the last row.
	if p.More && n > 0 && p.Rows[n-1].ID < left.Last {
		left.First = p.Rows[n-1].ID + 1
	} else {
		left = source.Range{}
	}
	var rows []source.Row
	for _, row := range p.Rows {
		if !o.gaps.missing(row.ID) {
			rows = append(rows, row)
		}
	}
	b := &batch{batchTimes: batchTimes{made: time.Now()}}
	entities.begin(b)
	defer func() {
		if err != nil {
			o.opts.View.Release(b.claims)
		}
	}()
	decisions, err := entities.decide(ctx, b, rows)
	if err != nil {
		return n, err
	}
	read := &stream.Read{
		Shard: o.opts.Name, Since: o.gaps.since, Claims: b.claims,
		Snapshot: &left, At: o.reader.age(p).Steady, Now: b.made,
	}
	err = o.retrier.writeStore(ctx, owning, func() error {
		return o.opts.Feed.Apply(ctx, nil, read, stream.Cover{})
	})
	if err == nil {
		entities.nominate(decisions)
	}
	return n, err
}

// ErrOtherMeaning is returned when the progress of a shard was made with a configuration that gives
// its ids or entities another meaning.
var ErrOtherMeaning = errors.New("the checkpoint was made with another configuration")
