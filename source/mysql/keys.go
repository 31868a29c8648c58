package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bridge/source"
)

// lookup is how rows are found by their keys: by the columns of one unique index, which are NOT NULL and among the key columns, so that
// a tuple finds one row at most. The other key columns are for the caller to compare.
type lookup struct {
	// parts are the columns of the index; none when no index proves the key.
	parts []keyPart
	// index is its name, "" when the server cannot read by it.
	index string
}

// keyPart is one column of a lookup.
type keyPart struct {
	// at is the place of its value in a tuple.
	at int
	// name is the column as SQL.
	name string
	kind source.Kind
	// collation is "" for what is no character string.
	collation string
}

func (l lookup) equal(other lookup) bool {
	return l.index == other.index && slices.Equal(l.parts, other.parts)
}

// findByKey returns how rows of the shape are found by their keys.
func (s *shard) findByKey(sh *shape, indexes []tableIndex, table []tableColumn) lookup {
	key := make([]string, len(sh.columns.Key))
	for i, at := range sh.columns.Key {
		key[i] = sh.columns.List[at].Name
	}
	proof, _ := keyIndex(indexes, table, key)
	if proof == nil {
		return lookup{}
	}
	var l lookup
	if proof.usable() {
		l.index = proof.name
	}
	for _, part := range proof.columns {
		column := table[find(table, part.name)]
		kind, _ := parseType(column.columnType)
		at := slices.IndexFunc(key, func(name string) bool { return name == column.name })
		l.parts = append(l.parts, keyPart{at: at, name: quoteName(column.name), kind: kind, collation: column.collation})
	}
	return l
}

var (
	errTooManyKeys = fmt.Errorf("more than %d keys in one read", source.MaxKeys)
	errMoved       = errors.New("another server answered in the middle of a read")
)

// readKeys reads the rows with the keys of q into p, in as many statements as their length wants.
func (s *shard) readKeys(ctx context.Context, c conn, q source.Query, p *source.Page) error {
	switch {
	case len(q.Keys) > source.MaxKeys:
		return errTooManyKeys
	case len(s.shape.key.parts) == 0:
		return fmt.Errorf("%w: no unique index over NOT NULL columns of the KEY: let an administrator run: %s",
			source.ErrUnfit, s.addUnique(s.spec.Key...))
	}
	var now time.Time
	for rest := q.Keys; ; {
		condition, taken := s.shape.key.condition(rest)
		rest = rest[taken:]
		server := p.Server
		p.Now = time.Time{}
		asked := min(s.reader.rowsFor(q), q.Limit-len(p.Records))
		err := s.readRows(ctx, c, s.query.keysText(condition, asked), asked, q.MaxBytes, p)
		if now.IsZero() {
			now = p.Now
		}
		// The clock of the first statement lies before all of them.
		p.Now = now
		switch {
		case err != nil && !errors.Is(err, errCut):
			return err
		case server != "" && server != p.Server:
			return errMoved
		case p.More, len(rest) == 0:
			return sorted(p, err)
		}
	}
}
