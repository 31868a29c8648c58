package reconcile

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"bridge/checkpoint"
	"bridge/event"
	"bridge/source"
)

// missing sorts entities and returns those without a row in any shard of the stream. The result
// reuses entities.
func (p *pass) missing(ctx context.Context, entities []checkpoint.Entity) ([]checkpoint.Entity, error) {
	if len(entities) == 0 {
		return nil, nil
	}
	slices.SortFunc(entities, func(a, b checkpoint.Entity) int { return bytes.Compare(a.Entity, b.Entity) })
	rest, err := p.without(ctx, p.own(), entities)
	if err != nil || len(rest) == 0 || p.opts.Siblings == nil {
		return rest, err
	}
	if p.siblings == nil {
		p.siblings = p.opts.Siblings()
	}
	for _, sibling := range p.siblings {
		if rest, err = p.without(ctx, keyReader{Sibling: sibling}, rest); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// keyReader reads a shard by key.
type keyReader struct {
	Sibling
	// own says that it is the shard that is reconciled.
	own bool
}

func (p *pass) own() keyReader {
	return keyReader{Sibling: Sibling{Source: p.opts.Source, Encoder: p.opts.Encoder}, own: true}
}

// without returns the entities that have no row in a shard. entities are in order. A page that does
// not hold all of their rows proves no absence, so it reads fewer at a time.
func (p *pass) without(ctx context.Context, in keyReader, entities []checkpoint.Entity) ([]checkpoint.Entity, error) {
	var rest []checkpoint.Entity
	for len(entities) > 0 {
		part := entities[:min(len(entities), source.MaxKeys)]
		for {
			found, whole, err := p.present(ctx, in, part)
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
func (p *pass) present(ctx context.Context, in keyReader, entities []checkpoint.Entity) (found []bool, whole bool, err error) {
	keys := make([][][]byte, len(entities))
	for i := range entities {
		if keys[i], err = p.opts.Encoder.KeyValues(entities[i].Entity, nil); err != nil {
			return nil, false, fmt.Errorf("%w: was KEY changed? Then what was published is about other entities: bridge checkpoint reset %s",
				err, p.opts.Stream)
		}
	}
	q := source.Query{Keys: keys, Limit: 2 * source.MaxKeys, MaxBytes: p.opts.PageBytes}
	if len(entities) == 1 {
		// Its row fits, however big.
		q.MaxBytes = 0
	}
	if err := p.readKeys(ctx, in, q); err != nil {
		return nil, false, err
	}
	found = make([]bool, len(entities))
	for i := range p.page.Rows {
		seen, err := digest(in.Encoder, p.page.Columns, &p.page.Rows[i])
		if err != nil {
			return nil, false, err
		}
		at, ok := slices.BinarySearchFunc(entities, seen, func(e checkpoint.Entity, s event.Digest) int {
			return bytes.Compare(e.Entity, s.Entity)
		})
		if ok {
			found[at] = true
		}
	}
	return found, !p.page.More, nil
}

func (p *pass) readKeys(ctx context.Context, in keyReader, q source.Query) error {
	if !in.own {
		return p.retry(ctx, "read another shard of the stream by key", func() error { return in.Source.Read(ctx, q, &p.page) })
	}
	err := p.read(ctx, q, &p.page)
	if err == nil {
		p.same(p.page.Server)
	}
	return err
}
