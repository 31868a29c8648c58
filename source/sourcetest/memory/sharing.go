package memory

import (
	"context"
	"sync"

	"example.org/bridge/source"
)

// sharing reads a table as one whose ids are ULIDs, of which each three have one number.
type sharing struct {
	source.Shard
	mu      sync.Mutex
	columns map[*source.Columns]*source.Columns
}

const together = 3

// Sharing returns what reads rows of the table by ULIDs, of which several have one number.
func Sharing(t source.Shard) source.Shard {
	return &sharing{Shard: t, columns: make(map[*source.Columns]*source.Columns)}
}

// Shared returns the number that the ULID of a row has.
func Shared(id uint64) uint64 { return (id + together - 1) / together }

func (s *sharing) Read(ctx context.Context, q source.Query, p *source.Page) error {
	const highest = 1 << 60
	limit := q.Limit
	if q.Keys == nil {
		q.Limit, q.MaxBytes = 1<<30, 0
	}
	q.After, q.Through = min(q.After, highest)*together, min(q.Through, highest)*together
	if q.Ranges != nil {
		of := q.Ranges
		q.Ranges = make([]source.Range, len(of))
		for i, r := range of {
			q.Ranges[i] = source.Range{First: max(r.First, 1)*together - together + 1, Last: min(r.Last, highest) * together}
		}
	}
	if err := s.Shard.Read(ctx, q, p); err != nil {
		return err
	}
	p.Columns, p.MaxID = s.of(p.Columns), Shared(p.MaxID)
	for i := range p.Rows {
		row := &p.Rows[i]
		ulid := source.IDColumn{Format: source.ULID}.Lowest(Shared(row.ID))
		ulid[len(ulid)-1] = '0' + byte(row.ID%together)
		row.ID, row.Values[p.Columns.ID] = Shared(row.ID), ulid
	}
	for i := limit; q.Keys == nil && i < len(p.Rows); i++ {
		if p.Rows[i].ID != p.Rows[i-1].ID {
			p.Rows, p.More = p.Rows[:i], true
		}
	}
	return nil
}

// of returns the columns with the format, the same ones for the same.
func (s *sharing) of(columns *source.Columns) *source.Columns {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.columns[columns] == nil {
		own := *columns
		own.List = append([]source.Column(nil), columns.List...)
		own.List[own.ID].Kind, own.IDFormat = source.Text, source.ULID
		s.columns[columns] = &own
	}
	return s.columns[columns]
}
