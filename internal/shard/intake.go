package shard

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/catchup"
	"example.org/bridge/internal/progress"
	"example.org/bridge/internal/published"
	"example.org/bridge/sink"
	"example.org/bridge/source/ledger"
)

// intake takes in what catch-up reads of one shard. The lock of its Feed guards it.
type intake struct {
	options ledger.Options
	// progress is that of a shard that does not run, nil while it is not open.
	progress *progress.Progress
	// running says that an owner has the progress.
	running bool
	// notes are those of the batch that is being made, of a shard that runs; noted is the highest
	// number of a part of notes that the store was given.
	notes progress.Notes
	noted atomic.Uint64
	// schema is what the store has, or the next change makes it: schemaRead says that the bus told
	// it. It is that of a shard that does not run.
	schema     *store.Schema
	schemaRead bool
	// due, where it is not nil, is the progress of a shard that runs with a reconcile due.
	due *store.Progress
	// rows are those of the tail that were read, without what identifies them: the newest, at most
	// twice the bound most before they are trimmed.
	rows []readRow
	most int
	// since is the highest epoch below which messages do not count, by those that were read.
	since uint64
	// newest are the rows that the bus has newest messages of, and origin what they were read from:
	// for a store that has no list.
	newest []published.Row
	origin published.Origin
	// wishes counts how often a reconcile was wished for, granted is the number of the last wish
	// that was. Both are read without the lock, too.
	wishes, granted atomic.Uint64
}

// readRow is a row of a message that was read, with its epoch and sequence.
type readRow struct {
	published.Row
	epoch, seq uint64
}

// newIntake returns the intake of a shard that keeps so many of the rows published last. Read ones
// replace at most half of them: what identifies a row is not on the bus.
func (f *Feed) newIntake(rows int, options ledger.Options) *intake {
	return &intake{options: options, most: max(1, cmp.Or(rows, defaultPublishedRows)/2)}
}

// note takes in what a message says of the progress, for the next change.
func (in *intake) note(m *catchup.Message) {
	if in.running {
		in.notes.Add(m.Row, m.Origin, &m.State)
	} else {
		in.progress.Note(m.Row, m.Origin, &m.State)
		in.noteSchema(m)
	}
}

// noteSchema takes in what a message tells that is newer than what is known: its members, only the
// store knows.
func (in *intake) noteSchema(m *catchup.Message) {
	if m.Schema == (catchup.Schema{}) {
		return
	}
	if in.schema == nil {
		in.schema = &store.Schema{Hash: m.Schema.Hash}
	}
	s := in.schema
	if m.State.Epoch < s.Epoch || m.State.Epoch == s.Epoch && m.State.Seq <= s.Seq {
		return
	}
	if s.Hash != m.Schema.Hash {
		s.Hash, s.Members = m.Schema.Hash, nil
	}
	// The stamp, too: a message of another topic-partition that is read later may be older.
	s.Version, s.Epoch, s.Seq = m.Schema.Version, m.State.Epoch, m.State.Seq
	in.schemaRead = true
}

// change returns what a batch changes of the shard. What was read of one that runs is beside its
// progress in the store, until the owner takes it in: no message is covered that is in neither.
func (in *intake) change(key store.Key, now time.Time) (store.ShardChange, error) {
	if !in.running {
		c, err := in.progress.Flush(now)
		if in.schemaRead {
			c.Parts = append(c.Parts, store.Part{Kind: store.SchemaPart, Bytes: store.AppendSchema(nil, in.schema)})
		}
		return c, err
	}
	c := store.ShardChange{Key: key, Progress: in.due}
	if !in.notes.Empty() {
		c.Parts = []store.Part{in.notes.Part(in.noted.Load() + 1)}
	}
	return c, nil
}

// end ends a batch, that was committed or not. What a commit did not take is made again from the
// store, or from the bus.
func (in *intake) end(committed bool) {
	switch {
	case !committed:
		in.progress = nil
	case !in.notes.Empty():
		in.noted.Add(1)
	}
	in.notes.Reset()
	in.schemaRead = false
	in.due = nil
}

// keep keeps a row of a message that was committed, for the list of rows published last.
func (in *intake) keep(m *catchup.Message) {
	in.since = max(in.since, m.State.Since)
	if m.Origin == sink.FromTail && m.State.Kind == sink.StateLive && !m.Dead {
		in.rows = append(in.rows, readRow{published.Row{ID: m.Row, Content: published.ContentOf(m.State.Digest)}, m.State.Epoch, m.State.Seq})
		if len(in.rows) >= 2*in.most {
			in.trim()
		}
	}
}

// trim keeps the newest rows, in ascending order, and of messages about one row the last one that
// was published.
func (in *intake) trim() {
	in.rows = slices.DeleteFunc(in.rows, func(r readRow) bool { return r.epoch < in.since })
	slices.SortFunc(in.rows, func(a, b readRow) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.epoch, a.epoch), cmp.Compare(b.seq, a.seq))
	})
	in.rows = slices.CompactFunc(in.rows, func(a, b readRow) bool { return a.ID == b.ID })
	in.rows = slices.Delete(in.rows, 0, max(0, len(in.rows)-in.most))
}

// restore fills a list that the store does not have, and adds to another one newer rows that
// compare with its own. What the newest message says of a row counts, not what was read.
func (in *intake) restore(list *published.Log) {
	if list.Len() == 0 {
		list.SetOrigin(in.origin)
	}
	if list.Origin().Fits(in.origin) {
		list.Add(in.newest)
		in.rows = slices.DeleteFunc(in.rows, func(r readRow) bool {
			_, known := slices.BinarySearchFunc(in.newest, r.ID, func(n published.Row, id uint64) int { return cmp.Compare(n.ID, id) })
			return known
		})
	}
	in.newest = nil
}

// recent returns the rows that a list of those published last lacks. What it has of a row that says
// the same stays: it tells the row from another one.
func (in *intake) recent(list *published.Log) []published.Row {
	in.trim()
	var rows []published.Row
	for _, r := range in.rows {
		if known := list.Below(r.ID, 1, nil); len(known) == 0 || known[0].ID != r.ID || known[0].Content != r.Content {
			rows = append(rows, r.Row)
		}
	}
	in.rows = nil
	return rows
}

// isDue reports whether a reconcile has to follow.
func (in *intake) isDue() bool { return in.wishes.Load() > in.granted.Load() }

// maxLate is how many entities of late messages the store names. Beyond it a reconcile is due
// (rule 7).
const maxLate = 1000

// lateEntities are the entities of late messages whose owners have not decided yet, as the store
// names them: an offset that has passed a late message is in one batch with the name. The lock of
// the Feed guards them.
type lateEntities struct {
	// named is nil before the store was read.
	named map[lateEntity]*lateName
	last  uint64
	// over says that the last messages had too many.
	over bool
	// ready says that the stream has caught up: they are nominated from then on.
	ready bool
}

// lateEntity is an entity by the shard and the key of its message.
type lateEntity struct{ shard, entity string }

// lateName is the number of its part in the store. decided is closed once its owner has decided;
// nil while it is not nominated.
type lateName struct {
	number  uint64
	decided <-chan struct{}
}

// name returns the entities of late messages that the store does not name yet, and how many
// messages are late. It reports false where there are too many to be named.
func (l *lateEntities) name(messages []catchup.Message) (names map[lateEntity]*lateName, late int, fits bool) {
	fits = true
	for i := range messages {
		m := &messages[i]
		if !m.Late {
			continue
		}
		late++
		e := lateEntity{m.Shard, string(m.Key)}
		if l.named[e] != nil || names[e] != nil {
			continue
		}
		if fits = fits && len(l.named)+len(names) < maxLate; !fits {
			continue
		}
		if names == nil {
			names = make(map[lateEntity]*lateName)
		}
		names[e] = &lateName{number: l.last + uint64(len(names)) + 1}
	}
	if !fits {
		names = nil
	}
	return names, late, fits
}

// load begins with what the store names of shards of a stream.
func (l *lateEntities) load(ctx context.Context, s store.Store, stream string, shards []string) error {
	named := make(map[lateEntity]*lateName)
	for _, shard := range shards {
		for part, err := range s.Parts(ctx, store.Key{Stream: stream, Shard: shard}, store.LateEntities, 0) {
			if err != nil {
				return err
			}
			named[lateEntity{shard, string(part.Bytes)}] = &lateName{number: part.Number}
			l.last = max(l.last, part.Number)
		}
	}
	l.named = named
	return nil
}

// change adds to b what has the store name entities, or name those no more that are named.
func (l *lateEntities) change(b *store.Batch, stream string, entities map[lateEntity]*lateName) {
	for e, name := range entities {
		part := store.Part{Kind: store.LateEntities, Number: name.number}
		if l.named[e] == nil {
			// An empty key has a form, too.
			part.Bytes = append([]byte{}, e.entity...)
		}
		key := store.Key{Stream: stream, Shard: e.shard}
		i := slices.IndexFunc(b.Shards, func(c store.ShardChange) bool { return c.Key == key })
		if i < 0 {
			i = len(b.Shards)
			b.Shards = append(b.Shards, store.ShardChange{Key: key})
		}
		b.Shards[i].Parts = append(b.Shards[i].Parts, part)
	}
}

// add notes that the store names entities.
func (l *lateEntities) add(entities map[lateEntity]*lateName) {
	for e, name := range entities {
		l.named[e], l.last = name, max(l.last, name.number)
	}
}

// decided returns the entities whose owners have decided.
func (l *lateEntities) decided() (decided map[lateEntity]*lateName) {
	for e, name := range l.named {
		select {
		case <-name.decided:
			if decided == nil {
				decided = make(map[lateEntity]*lateName)
			}
			decided[e] = name
		default:
		}
	}
	return decided
}

// remove notes that the store does not name entities any more.
func (l *lateEntities) remove(entities map[lateEntity]*lateName) {
	for e := range entities {
		delete(l.named, e)
	}
}
