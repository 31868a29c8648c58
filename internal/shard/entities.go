package shard

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/event"
	"example.org/bridge/internal/option"
	"example.org/bridge/internal/stream"
	"example.org/bridge/source"
)

// entities decides what the rows of a capability shard are news of, by the view of the stream. It
// belongs to the owner; nil for a release shard.
type entities struct {
	opts    *Options
	encoder *event.Encoder
	retrier *retrier
	gaps    *gaps

	// rows, keys and decisions are used again and again: they are those of a page. ready says that
	// rows and prepared are those of the next call of decide.
	rows      []stream.Row
	prepared  stream.Prepared
	ready     bool
	keys      []byte
	decisions []stream.Decision
	formers   []store.Change
	// known is the MODIFIED above which rows have changed since the second cursor was, which has
	// found those to be decided; else empty.
	known string
	// warned says that the log has a row with NULL in its key.
	warned bool
	// waits are closed as former entities that were nominated leave the queue.
	waits map[<-chan struct{}]struct{}
}

func newEntities(opts *Options, r *retrier, g *gaps) *entities {
	if opts.Kind != event.Capability {
		return nil
	}
	return &entities{opts: opts, encoder: opts.Encoder, retrier: r, gaps: g, waits: make(map[<-chan struct{}]struct{})}
}

func (e *entities) begin(b *batch) {
	b.claims = e.opts.View.Begin(e.opts.Name)
	b.claims.Time = b.made
}

// prepare does what may be done for decide before the store has the batch before.
func (e *entities) prepare(ctx context.Context, rows []source.Row) error {
	if err := e.read(rows); err != nil {
		return err
	}
	err := e.retrier.readStore(ctx, func() error { return e.opts.View.Prepare(ctx, e.opts.Name, e.rows, &e.prepared) })
	e.ready = err == nil
	return err
}

// forget drops what was prepared. e may be nil.
func (e *entities) forget() {
	if e != nil {
		e.ready = false
	}
}

// decide returns what rows say, behind b, the batch being made: where ready, those that prepare was
// called for. It is good until the next call of either. Rows that are not nominated are decided in
// their order (invariant 3).
func (e *entities) decide(ctx context.Context, b *batch, rows []source.Row) ([]stream.Decision, error) {
	ready := e.ready
	if e.ready = false; !ready {
		if err := e.read(rows); err != nil {
			return nil, err
		}
	}
	e.decisions = e.decisions[:0]
	floor := e.gaps.floor()
	below := 0
	for below < len(e.rows) && e.rows[below].ID <= floor && !e.shareIDs() {
		below++
	}
	if err := e.findFormers(ctx, e.rows[:below]); err != nil {
		return nil, err
	}
	for from := 0; from < len(e.rows); {
		// Rule 16: what was not committed when the shard began, was of another key or has changed
		// since is news.
		below, to := e.isBelow(floor, &rows[from]), from+1
		for to < len(e.rows) && e.isBelow(floor, &rows[to]) == below {
			to++
		}
		if b.claims.Floor = 0; below {
			b.claims.Floor = floor
		}
		var prepared *stream.Prepared
		if ready && to-from == len(e.rows) {
			prepared = &e.prepared
		}
		err := e.retrier.readStore(ctx, func() (err error) {
			e.decisions, err = e.opts.View.Decide(ctx, b.claims, e.rows[from:to], prepared, e.decisions[:from])
			prepared = nil
			return err
		})
		if err != nil {
			return nil, err
		}
		from = to
	}
	return e.decisions, nil
}

// shrink gives up memory that the next page of an idle shard makes again. e may be nil.
func (e *entities) shrink() {
	if e != nil {
		e.rows, e.keys, e.decisions, e.formers, e.prepared = nil, nil, nil, nil, stream.Prepared{}
	}
}

// isBelow reports whether a row is recorded and not published where the view has nothing of it.
func (e *entities) isBelow(floor uint64, row *source.Row) bool {
	_, other := slices.BinarySearchFunc(e.formers, row.ID, func(c store.Change, id uint64) int { return cmp.Compare(c.Entry.Row, id) })
	changed := false
	if e.known != "" {
		at := e.gaps.reader.columns.Modified
		changed = at >= 0 && string(row.Values[at]) > e.known
	}
	return row.ID <= floor && !other && !changed && !e.gaps.missing(row.ID)
}

// findFormers sets e.formers to the entities that rows had before.
func (e *entities) findFormers(ctx context.Context, rows []stream.Row) error {
	return e.retrier.readStore(ctx, func() (err error) {
		e.formers, err = e.opts.View.Formers(ctx, e.opts.Name, rows, e.formers[:0])
		return err
	})
}

// shareIDs reports whether several rows may have one id.
func (e *entities) shareIDs() bool {
	columns := e.gaps.reader.columns
	return columns != nil && columns.IDFormat != ""
}

// read sets e.rows to what rows say of their entities.
func (e *entities) read(rows []source.Row) error {
	e.rows, e.keys = e.rows[:0], e.keys[:0]
	for _, row := range rows {
		digest, err := e.digest(row)
		if err != nil {
			return err
		}
		if digest.Keyless {
			if err := e.refuse(row); err != nil {
				return err
			}
		}
		start := len(e.keys)
		e.keys = append(e.keys, digest.Key...)
		// It stays where it is, also if the keys move as they grow.
		e.rows = append(e.rows, stream.Row{ID: row.ID, Entity: e.keys[start:len(e.keys):len(e.keys)], Digest: digest.Sum, Deleted: digest.Deleted, Silent: digest.Silent, Keyless: digest.Keyless, Stale: digest.Stale})
	}
	return nil
}

// refuse counts a row that has NULL in its key. With ON_BAD_VALUE=stop it stops the shard.
func (e *entities) refuse(row source.Row) error {
	columns := e.gaps.reader.columns
	column := columns.List[max(0, columns.Keyless(row.Values))].Name
	if e.encoder.StopsOnBad() {
		return option.Errorf("%w: row %d of %s has NULL in its KEY column %s, as others may have: give it a value, or set %s=null to leave such rows out",
			source.ErrUnfit, row.ID, e.opts.Name, column, option.OnBadValue)
	}
	e.opts.Metrics.badValues.WithLabelValues(e.opts.Stream).Inc()
	if !e.warned {
		e.warned = true
		e.opts.Logger.Warn("a row with NULL in its key, as others may have, is not published, further ones are only counted (bridge_bad_values_total)",
			"id", row.ID, "column", column, "remedy", option.Errorf("give it a value, or to stop the stream at such a row set %s=stop", option.OnBadValue))
	}
	return nil
}

// digest returns the entity and the digest of a row, if a view can hold it.
func (e *entities) digest(row source.Row) (event.Digest, error) {
	digest, err := e.encoder.Digest(row)
	if err == nil && len(digest.Key) > store.MaxEntity {
		err = option.Errorf("%w: the key of row %d of %s takes %d bytes, a view holds keys of up to %d: name other columns with %s",
			source.ErrUnfit, row.ID, e.opts.Name, len(digest.Key), store.MaxEntity, option.Key)
	}
	return digest, err
}

// absent returns what follows from entities having no row, behind b. It is good until the next
// call.
func (e *entities) absent(ctx context.Context, b *batch, keys [][]byte) ([]stream.Decision, error) {
	err := e.retrier.readStore(ctx, func() (err error) {
		e.decisions, err = e.opts.View.Absent(ctx, b.claims, keys, e.decisions[:0])
		return err
	})
	return e.decisions, err
}

func (e *entities) lookup(ctx context.Context, keys [][]byte) (entries []store.Entry, err error) {
	err = e.retrier.readStore(ctx, func() (err error) {
		entries, err = e.opts.View.Lookup(ctx, e.opts.Name, keys, entries[:0])
		return err
	})
	return entries, err
}

// byRow returns the entity that was last published with a row, nil for none.
func (e *entities) byRow(ctx context.Context, row uint64) (key []byte, err error) {
	var found []store.Change
	err = e.retrier.readStore(ctx, func() (err error) {
		found, err = e.opts.View.ByRow(ctx, e.opts.Name, row-1, 1, found[:0])
		return err
	})
	for i := range found {
		if found[i].Entry.Row == row {
			key = found[i].Entity
		}
	}
	return key, err
}

// nominate gives those entities to the stream that were not decided about (rule 29).
func (e *entities) nominate(decisions []stream.Decision) {
	for _, entity := range nominatedOf(decisions) {
		e.opts.Movers.Nominate(e.opts.Name, entity)
	}
}

// nominateFormers gives the entities to the stream that the rows decided last had before: an UPDATE
// of a key leaves no row of them. Movers proves that (invariant 5). A read by key may lack rows of
// an id.
func (e *entities) nominateFormers(ctx context.Context, byKey bool) error {
	if byKey && e.shareIDs() {
		return nil
	}
	err := e.findFormers(ctx, e.rows)
	for _, former := range e.formers {
		e.waits[e.opts.Movers.Nominate(e.opts.Name, former.Entity)] = struct{}{}
	}
	clear(e.formers)
	return err
}

// formersWait reports whether former entities that were nominated are still in the queue.
func (e *entities) formersWait() bool {
	maps.DeleteFunc(e.waits, func(done <-chan struct{}, _ struct{}) bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	return len(e.waits) > 0
}

// handled appends to ids those of rows that are taken care of: the others are nominated (rule 26).
func handled(ids []uint64, rows []source.Row, decisions []stream.Decision) []uint64 {
	for i, row := range rows {
		if !decisions[i].Nominate {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// withoutRow returns those of keys that no decision is about.
func withoutRow(keys [][]byte, decisions []stream.Decision) [][]byte {
	there := make(map[string]struct{}, len(decisions))
	for i := range decisions {
		there[string(decisions[i].Entity)] = struct{}{}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key []byte) bool {
		_, ok := there[string(key)]
		return ok
	})
}
