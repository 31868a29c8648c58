package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/internal/form"
	"example.org/bridge/sink"
	"example.org/bridge/source"
)

// Republish is what a person has asked to be published again of a table, and how far that is. It is
// a command, as a [SetPause] is: the store has the last one of each table. It moves neither the
// position nor the gaps of the table.
type Republish struct {
	// Number tells it from others of the table.
	Number uint64 `json:"number"`
	// From and To are the first and the last id; Keys, where there are any, the keys instead, as
	// messages have them. Where is a condition on the rows, empty for all.
	From  uint64   `json:"from,omitempty"`
	To    uint64   `json:"to,omitempty"`
	Keys  []string `json:"keys,omitempty"`
	Where string   `json:"where,omitempty"`
	// Rate bounds the rows a second, 0 does not.
	Rate int64 `json:"rate,omitempty"`
	// Epoch and Seq are a stamp: messages with a higher one count.
	Epoch uint64 `json:"epoch,omitempty"`
	Seq   uint64 `json:"seq,omitempty"`
	// List is the id of the full list that the rows are part of, empty for none. In the request
	// for a list, which has the name of no table, it is empty until the boundaries that begin it
	// are on the bus, in the TPs with these numbers.
	List string   `json:"list,omitempty"`
	TPs  []uint32 `json:"tps,omitempty"`
	// Cursor is the id, or the number of the key counted from 1, up to which all is done. Done are
	// ids above it, or such numbers, that the bus has messages of: after a kill a batch may be
	// there in part.
	Cursor uint64         `json:"cursor,omitempty"`
	Done   []source.Range `json:"done,omitempty"`
	// Rows counts what was published again, Changed the events of rows that had changed.
	Rows    uint64 `json:"rows,omitempty"`
	Changed uint64 `json:"changed,omitempty"`
	// Refused counts the entities that a full list lacks, since the bus refused their first event.
	Refused uint64 `json:"refused,omitempty"`
	// Asked and Ended are by the host's clock; State says how it ended, and Error why it failed.
	Asked time.Time      `json:"asked,omitzero"`
	Ended time.Time      `json:"ended,omitzero"`
	State RepublishState `json:"state"`
	Error string         `json:"error,omitempty"`

	// since is that of the store. noted are units of messages that were read, for the next change.
	since uint64
	noted []uint64
}

// RepublishState is what becomes of a [Republish].
type RepublishState string

// The states of a Republish.
const (
	Republishing       RepublishState = "running"
	RepublishDone      RepublishState = "done"
	RepublishCancelled RepublishState = "cancelled"
	RepublishFailed    RepublishState = "failed"
)

const (
	// MaxRepublishKeys bounds the keys of a Republish, MaxRepublishKeyBytes their length together.
	MaxRepublishKeys     = 1000
	MaxRepublishKeyBytes = 256 << 10
	// mostDone bounds Republish.Done. What it lacks is published once more.
	mostDone = 1 << 16

	republishVersion = 1
)

// republishPrefix and a table is the name under which the store has the request. A version that
// does not know it takes it for the pause of a table that it does not have, keeps it, and copies it
// to the bus. Its part is of the kind Noted, which the names of tables do not have any more.
const republishPrefix = pausePrefix + "\x03"

func republishKey(table store.Key) store.Key {
	return store.Key{Stream: table.Stream, Shard: republishPrefix + table.Shard}
}

// RepublishedTable returns the table that a request is about, false for what is none.
func RepublishedTable(shard string) (table string, is bool) {
	return strings.CutPrefix(shard, republishPrefix)
}

// IsCommand reports whether what the store has under the name of a shard is what a command asks
// for: a pause, or to publish again.
func IsCommand(shard string) bool { return strings.HasPrefix(shard, pausePrefix) }

// LoadRepublish returns the last request about a table, nil for none. The error wraps ErrDamaged or
// is the store's.
func LoadRepublish(ctx context.Context, s store.Store, table store.Key) (*Republish, error) {
	key := republishKey(table)
	saved, found, err := s.Progress(ctx, key)
	if err != nil || !found {
		return nil, err
	}
	for part, err := range s.Parts(ctx, key, store.Noted, 0) {
		if err != nil {
			return nil, err
		}
		r := &Republish{since: saved.Since}
		f := form.Open(part.Bytes, republishVersion)
		if err := f.Err; err != nil {
			return nil, fmt.Errorf("%w: what was asked to be published again: %w", ErrDamaged, err)
		}
		if err := json.Unmarshal(f.Rest, r); err != nil {
			return nil, fmt.Errorf("%w: what was asked to be published again: %w", ErrDamaged, err)
		}
		return r, nil
	}
	// A command has forgotten the stream.
	return nil, nil
}

// Change returns the change that saves r, as the last word about the table.
func (r *Republish) Change(table store.Key, now time.Time) store.ShardChange {
	r.merge()
	// Of two stores the later one holds.
	r.since = max(r.since+1, uint64(now.UnixMilli()))
	// Nothing in it can fail to be encoded.
	text, _ := json.Marshal(r)
	return store.ShardChange{
		Key: republishKey(table), Progress: &store.Progress{Since: r.since, Saved: now},
		Parts: []store.Part{{Kind: store.Noted, Bytes: form.Seal(append([]byte{republishVersion}, text...))}},
	}
}

// Running reports whether something is left to be done. r may be nil.
func (r *Republish) Running() bool { return r != nil && r.State == Republishing }

// Behind has r be the next request behind before, which may be nil.
func (r *Republish) Behind(before *Republish) {
	if r.Number = uint64(r.Asked.UnixMilli()); before != nil {
		r.Number, r.since = max(r.Number, before.Number+1), before.since
	}
}

// Note takes in a message that was read, and reports whether it is one of r: then that is to be
// saved. r may be nil.
func (r *Republish) Note(row uint64, key []byte, s *sink.State) bool {
	if !r.Running() || s.Epoch < r.Epoch || s.Epoch == r.Epoch && s.Seq <= r.Seq {
		return false
	}
	unit := row
	if len(r.Keys) > 0 {
		unit = uint64(slices.Index(r.Keys, string(key)) + 1)
	}
	if unit <= r.Cursor || len(r.Keys) == 0 && (unit < r.From || unit > r.To) {
		return false
	}
	r.noted = append(r.noted, unit)
	return true
}

func (r *Republish) merge() {
	if len(r.noted) > 0 {
		slices.Sort(r.noted)
		all := append(slices.Clone(r.Done), source.RangesOf(slices.Compact(r.noted))...)
		slices.SortFunc(all, func(a, b source.Range) int { return cmp.Compare(a.First, b.First) })
		before := count(r.Done)
		r.Done, r.noted = source.JoinRanges(all, 0), nil
		r.Rows += count(r.Done) - before
	}
	r.Done = source.RangesAbove(r.Done, r.Cursor)
	r.Done = r.Done[:min(len(r.Done), mostDone)]
}

func count(ranges []source.Range) (n uint64) {
	for _, r := range ranges {
		n += r.Last - r.First + 1
	}
	return n
}

// IsDone reports whether the bus has a message of an id, or of the number of a key.
func (r *Republish) IsDone(unit uint64) bool {
	if unit <= r.Cursor || slices.Contains(r.noted, unit) {
		return true
	}
	above := source.RangesAbove(r.Done, unit-1)
	return len(above) > 0 && above[0].Has(unit)
}

// Republished is what a batch has done of the request with a number.
type Republished struct {
	Number uint64
	// Cursor is up to where all is done then. Rows and Changed are to be added.
	Cursor        uint64
	Rows, Changed uint64
	// Refused is that of the [Republish] once it is done.
	Refused uint64
	// List says that it is of a full list, which ends where the bus refuses a message of it.
	List bool
	// State and Error are set where it ends. Republishing has one that was done go on.
	State RepublishState
	Error string
}

// Advance takes in what an acknowledged batch has done, and reports whether that is to be saved.
// r may be nil.
func (r *Republish) Advance(done *Republished, now time.Time) bool {
	if r == nil || done == nil || done.Number != r.Number {
		return false
	}
	r.Cursor = max(r.Cursor, done.Cursor)
	r.Rows, r.Changed, r.Refused = r.Rows+done.Rows, r.Changed+done.Changed, done.Refused
	if done.State == Republishing && r.State == RepublishDone {
		r.State, r.Ended = Republishing, time.Time{}
	} else if done.State != "" && done.State != Republishing && r.Running() {
		r.State, r.Error, r.Ended = done.State, done.Error, now
	}
	return true
}

// Cancel ends r, and reports whether it was running.
func (r *Republish) Cancel(now time.Time) bool {
	if !r.Running() {
		return false
	}
	r.State, r.Ended = RepublishCancelled, now
	return true
}

func (s *ShardState) changeAgain(change func(*Republish) bool) {
	next := s.again
	if was := s.republish.Load(); next == nil && was != nil {
		next = new(Republish)
		*next = *was
	}
	if next != nil && change(next) {
		s.again = next
	}
}

// ChangeRepublish has change make a new request of the last one of each table, nil for none. It
// commits all of them or, with an error of change, none; nil leaves a table as it is. The caller
// syncs the store.
func (f *Feed) ChangeRepublish(ctx context.Context, tables []string, change func(table string, last *Republish) (*Republish, error)) error {
	return f.opts.Committer.Still(ctx, func(store.Store) error {
		b, changed := &store.Batch{}, make(map[string]*Republish)
		for _, table := range tables {
			key := store.Key{Stream: f.opts.Stream, Shard: table}
			last, err := LoadRepublish(ctx, f.opts.Store, key)
			if err != nil {
				return err
			}
			next, err := change(table, last)
			if err != nil {
				return err
			}
			if next != nil {
				b.Shards, changed[table] = append(b.Shards, next.Change(key, time.Now())), next
			}
		}
		if err := f.opts.Committer.Commit(ctx, b, Cover{}); err != nil {
			return err
		}
		for table, next := range changed {
			if table == ListName {
				f.lists.last.Store(next)
				continue
			}
			f.state(table).republish.Store(next)
		}
		return nil
	})
}

// OpenRepublish has what the store says be known of a shard that does not run yet. It waits for
// nobody.
func (f *Feed) OpenRepublish(ctx context.Context, name string) error {
	asked, err := LoadRepublish(ctx, f.opts.Store, store.Key{Stream: f.opts.Stream, Shard: name})
	if err == nil {
		f.shards[name].republish.CompareAndSwap(nil, asked)
		err = f.lists.Open(ctx)
	}
	return err
}

// Republish returns what was asked to be published again of a shard of the configuration, nil for
// nothing. It waits for nobody, so a status may ask under a lock. It must not be changed.
func (f *Feed) Republish(name string) *Republish { return f.shards[name].republish.Load() }
