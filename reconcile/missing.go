package reconcile

import (
	"bytes"
	"context"
	"slices"

	"bridge/checkpoint/store"
	"bridge/event"
	"bridge/internal/option"
	"bridge/internal/view"
	"bridge/source"
)

// missing sorts entities and returns those without a row in any table of the stream. The result
// reuses entities.
func (p *pass) missing(ctx context.Context, entities []store.Change) ([]store.Change, error) {
	slices.SortFunc(entities, func(a, b store.Change) int { return bytes.Compare(a.Entity, b.Entity) })
	rest, err := p.without(ctx, entities)
	if err != nil || p.opts.ReadKeys == nil {
		return rest, err
	}
	return p.nowhere(ctx, rest)
}

// without returns the entities that have no row in the table. entities are in order. A page that
// does not hold all of their rows proves no absence, so it reads fewer at a time.
func (p *pass) without(ctx context.Context, entities []store.Change) ([]store.Change, error) {
	var rest []store.Change
	for len(entities) > 0 {
		part := entities[:min(len(entities), source.MaxKeys)]
		for {
			found, whole, err := p.present(ctx, part)
			if err != nil {
				return nil, err
			}
			if !whole && len(part) > 1 {
				part = part[:len(part)/2]
				continue
			}
			for i := range part {
				if !found[i] {
					rest = append(rest, part[i])
				}
			}
			break
		}
		entities = entities[len(part):]
	}
	return rest, nil
}

// present looks entities up by key and reports which have a row. entities are in order. whole says
// that all of their rows were read.
func (p *pass) present(ctx context.Context, entities []store.Change) (found []bool, whole bool, err error) {
	keys := make([][][]byte, len(entities))
	for i := range entities {
		if keys[i], err = p.encoder.KeyValues(entities[i].Entity, nil); err != nil {
			return nil, false, option.Errorf("%w: was %s changed? Then what was published is about other entities: bridge checkpoint reset %s",
				err, option.Key, p.opts.Stream)
		}
	}
	q := source.Query{Keys: keys, Limit: 2 * source.MaxKeys, MaxBytes: p.opts.PageBytes}
	if len(entities) == 1 {
		// Its row fits, however big.
		q.MaxBytes = 0
	}
	if err := p.read(ctx, q, &p.page); err != nil {
		return nil, false, err
	}
	p.same(p.page.Server)
	found = make([]bool, len(entities))
	for i := range p.page.Rows {
		seen, err := digest(p.encoder, p.page.Columns, &p.page.Rows[i])
		if err != nil {
			return nil, false, err
		}
		at, ok := slices.BinarySearchFunc(entities, seen, func(e store.Change, s event.Digest) int {
			return bytes.Compare(e.Entity, s.Key)
		})
		if ok {
			found[at] = true
		}
	}
	return found, !p.page.More, nil
}

// nowhere returns the entities that have no row in any table of the stream. One with a row in
// another table has moved: that table's own reconcile or tail finds the row (rule 29).
func (p *pass) nowhere(ctx context.Context, entities []store.Change) ([]store.Change, error) {
	rest := entities[:0]
	for part := range slices.Chunk(entities, keysAtOnce) {
		keys := make([][]byte, len(part))
		for i := range part {
			keys[i] = part[i].Entity
		}
		var reading view.Reading
		err := p.retry(ctx, "read the tables of the stream by key", func() (err error) {
			reading, err = p.opts.ReadKeys(ctx, "", keys)
			return err
		})
		if err != nil {
			return nil, err
		}
		if reading.Unproved {
			p.unjudge("another table was read from a server that does not take the writes, as far as can be told")
		}
		for i := range part {
			if len(reading.Rows[i]) == 0 {
				rest = append(rest, part[i])
			}
		}
	}
	return rest, nil
}
