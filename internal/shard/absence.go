package shard

import (
	"context"
	"fmt"
	"slices"

	"bridge/reconcile"
	"bridge/source"
)

// absence proves that entities are gone. It belongs to the owner.
type absence struct {
	opts   *Options
	reader *reader
	server *server
	view   *view
	// siblings read the other shards of the stream; nil before they were needed.
	siblings []reconcile.Sibling
}

// prove returns what is known of those of entities that the shard has no row of, behind b, the batch
// being made, and those that have one in another shard. The page without them came from the server
// of this name: where absence is not proved there, none is returned.
func (a *absence) prove(ctx context.Context, b *batch, name string, entities [][]byte) (gone []decision, elsewhere map[string]struct{}, err error) {
	if err := a.server.meet(ctx, name); err != nil || !a.server.traits.Writer || !a.server.knows(name) {
		// A server that does not take the writes may be behind.
		return nil, nil, err
	}
	if elsewhere, err = a.elsewhere(ctx, entities); err != nil {
		return nil, nil, err
	}
	if entities, err = a.stillAbsent(ctx, entities); err != nil {
		return nil, nil, err
	}
	gone, err = a.view.absent(ctx, b, entities)
	return gone, elsewhere, err
}

// elsewhere returns those of entities that have a row in another shard of the stream.
func (a *absence) elsewhere(ctx context.Context, entities [][]byte) (map[string]struct{}, error) {
	if a.siblings == nil && a.opts.Siblings != nil {
		a.siblings = a.opts.Siblings()
	}
	found := make(map[string]struct{})
	for i := range a.siblings {
		if err := a.lookup(ctx, &a.siblings[i], entities, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// stillAbsent returns those of entities that the shard has no row of after its siblings were read:
// one may have come back from there meanwhile.
func (a *absence) stillAbsent(ctx context.Context, entities [][]byte) ([][]byte, error) {
	if len(a.siblings) == 0 {
		return entities, nil
	}
	here := make(map[string]struct{})
	err := a.lookup(ctx, &reconcile.Sibling{Source: a.opts.Source, Encoder: a.opts.Encoder}, entities, here)
	// The encoder may be bound to newer columns now.
	a.reader.unbind()
	return slices.DeleteFunc(slices.Clone(entities), func(entity []byte) bool {
		_, there := here[string(entity)]
		return there
	}), err
}

// lookup adds to found those of entities that a shard has a row of.
func (a *absence) lookup(ctx context.Context, shard *reconcile.Sibling, entities [][]byte, found map[string]struct{}) error {
	keys, err := keyValues(a.opts, entities)
	if err != nil {
		return err
	}
	q := source.Query{Keys: keys, Limit: a.opts.BatchRows, MaxBytes: a.opts.Limits.pageBytes()}
	page, err := a.reader.sibling(ctx, shard.Source, q)
	if err != nil {
		return err
	}
	defer page.free()
	if err := shard.Encoder.Bind(page.Columns); err != nil {
		return err
	}
	for _, row := range page.Rows {
		digest, err := shard.Encoder.Digest(row)
		if err != nil {
			return err
		}
		found[string(digest.Entity)] = struct{}{}
	}
	if half := len(entities) / 2; page.More && half > 0 {
		// Which of them were not read is not known.
		if err := a.lookup(ctx, shard, entities[:half], found); err != nil {
			return err
		}
		return a.lookup(ctx, shard, entities[half:], found)
	}
	return nil
}

// keyValues returns the values of the key columns of each entity.
func keyValues(opts *Options, entities [][]byte) ([][][]byte, error) {
	keys := make([][][]byte, len(entities))
	for i, entity := range entities {
		values, err := opts.Encoder.KeyValues(entity, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w: was KEY changed? Then what was published is about other entities: bridge checkpoint reset %s",
				source.ErrUnfit, err, opts.Stream)
		}
		keys[i] = values
	}
	return keys, nil
}
