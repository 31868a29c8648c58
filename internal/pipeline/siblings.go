package pipeline

import (
	"context"

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
		for _, entity := range entities {
			if err := s.askSibling(ctx, &s.siblings[i], entity, found); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// askSibling notes the entities that other has under the key of entity. Letter case and the like may bring others, too, but an
// entity by itself always fits into the page.
func (s *Shard) askSibling(ctx context.Context, other *reconcile.Sibling, entity []byte, found map[string]struct{}) error {
	page := pages.Get().(*source.Page)
	defer func() {
		page.Reset()
		pages.Put(page)
	}()
	values, err := s.opts.Encoder.KeyValues(entity, nil)
	if err != nil {
		return err
	}
	q := source.Query{Keys: [][][]byte{values}, Limit: keysAtOnce}
	err = s.retry(ctx, s.readFault, reading, func() error {
		return s.reading(ctx, func() error { return other.Source.Read(ctx, q, page) })
	})
	if err != nil {
		return err
	}
	if err := other.Encoder.Bind(page.Columns); err != nil {
		return err
	}
	for _, record := range page.Records {
		seen, err := other.Encoder.Sight(record)
		if err != nil {
			return err
		}
		found[string(seen.Entity)] = struct{}{}
	}
	return nil
}
