package shard

import (
	"context"
	"fmt"
	"slices"

	"bridge/reconcile"
	"bridge/source"
)

// elsewhere returns those of entities that have a row in another shard of the stream.
func (s *Shard) elsewhere(ctx context.Context, entities [][]byte) (map[string]struct{}, error) {
	if s.siblings == nil && s.opts.Siblings != nil {
		s.siblings = s.opts.Siblings()
	}
	found := make(map[string]struct{})
	for i := range s.siblings {
		if err := s.askSibling(ctx, &s.siblings[i], entities, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// stillAbsent returns those of entities that the shard has no row of after its siblings were asked: one may have come back from there
// meanwhile.
func (s *Shard) stillAbsent(ctx context.Context, entities [][]byte) ([][]byte, error) {
	if len(s.siblings) == 0 {
		return entities, nil
	}
	here := make(map[string]struct{})
	err := s.askSibling(ctx, &reconcile.Sibling{Source: s.opts.Source, Encoder: s.opts.Encoder}, entities, here)
	// The encoder may be bound to newer columns now.
	s.reader.unbind()
	return slices.DeleteFunc(slices.Clone(entities), func(entity []byte) bool {
		_, there := here[string(entity)]
		return there
	}), err
}

// askSibling notes those of entities that other has a row of.
func (s *Shard) askSibling(ctx context.Context, other *reconcile.Sibling, entities [][]byte, found map[string]struct{}) error {
	keys, err := s.keyValues(entities)
	if err != nil {
		return err
	}
	q := source.Query{Keys: keys, Limit: s.opts.BatchRows, MaxBytes: s.opts.Limits.pageBytes()}
	page, err := s.reader.sibling(ctx, other.Source, q)
	if err != nil {
		return err
	}
	defer page.free()
	if err := other.Encoder.Bind(page.Columns); err != nil {
		return err
	}
	for _, record := range page.Rows {
		seen, err := other.Encoder.Digest(record)
		if err != nil {
			return err
		}
		found[string(seen.Entity)] = struct{}{}
	}
	if half := len(entities) / 2; page.More && half > 0 {
		// Which of them were not read is not known.
		if err := s.askSibling(ctx, other, entities[:half], found); err != nil {
			return err
		}
		return s.askSibling(ctx, other, entities[half:], found)
	}
	return nil
}

// keyValues returns the values of the key columns of each entity.
func (s *Shard) keyValues(entities [][]byte) ([][][]byte, error) {
	keys := make([][][]byte, len(entities))
	for i, entity := range entities {
		values, err := s.opts.Encoder.KeyValues(entity, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w: was KEY changed? Then what was published is about other entities: bridge checkpoint reset %s",
				source.ErrUnfit, err, s.opts.Stream)
		}
		keys[i] = values
	}
	return keys, nil
}
