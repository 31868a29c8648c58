package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"

	"bridge/source"
	"bridge/source/internal/sqlconn"
)

var _ source.IDReader = (*shard)(nil)

// ReadIDs reads ids along the index of the id, in one statement. On the primary key of InnoDB that
// shows uncommitted rows at READ UNCOMMITTED; it takes no lock and needs nothing but SELECT.
func (s *shard) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	pool := s.source.db
	if uncommitted {
		pool = s.source.dirty
	}
	if s.table.database == "" {
		return errNoDatabase
	}
	try := func() error {
		return s.source.do(ctx, pool, func(ctx context.Context, c conn) error {
			if err := s.refreshIfDue(ctx, c); err != nil {
				return err
			}
			// A row that moves to another partition while all are read may show in both, before it
			// is committed.
			return s.tryIDs(ctx, c, ranges, idList{ids: ids, limit: limit, again: uncommitted && s.shape.unproved})
		})
	}
	if err := s.renewed(try(), try); err != nil {
		return fmt.Errorf("read ids of %s: %w", s.spec.Table, s.explain(err))
	}
	return nil
}

// idList is where ids are read to: at most limit of them. again says that one may come twice.
type idList struct {
	ids   *source.IDs
	limit int
	again bool
}

func (s *shard) tryIDs(ctx context.Context, c conn, ranges []source.Range, list idList) error {
	*list.ids = source.IDs{List: list.ids.List[:0]}
	for _, part := range s.parts(ranges, len(s.idsQuery(nil, list.limit))) {
		rows, err := c.QueryContext(ctx, s.idsQuery(part, list.limit), nil)
		if err != nil {
			return err
		}
		count, err := list.fill(rows)
		if err := errors.Join(err, rows.Close()); err != nil || list.ids.Cut {
			return err
		}
		list.limit -= count
	}
	return nil
}

func (s *shard) idsQuery(ranges []source.Range, limit int) string {
	id := s.shape.id()
	b := make([]byte, 0, 256+len(ranges)*(len(id)+64))
	b = append(b, "(SELECT CONCAT_WS(' ', UTC_TIMESTAMP(6), 0, "+s.source.connector.server.Load().identity+"), NULL) UNION ALL "+
		"(SELECT NULL, "+id+" FROM "+s.table.quoted()+forceIndex(s.shape.index)+" WHERE "...)
	b = appendRanges(b, id, ranges)
	b = append(b, " ORDER BY "+id+" LIMIT "...)
	b = strconv.AppendInt(b, int64(limit), 10)
	return string(append(b, ')'))
}

// fill appends the ids of rows and returns how many rows there were.
func (l idList) fill(rows driver.Rows) (count int, err error) {
	ids := l.ids
	head, err := readHeaded(rows, 2, func(row []driver.Value) error {
		id, err := rowID(row[1])
		if err != nil {
			return err
		}
		count++
		n := len(ids.List)
		switch {
		case n > 0 && id == ids.List[n-1] && l.again:
			return nil
		case n > 0 && id <= ids.List[n-1]:
			return fmt.Errorf("%w: the id %d came after %d", source.ErrUnfit, id, ids.List[n-1])
		}
		ids.List = append(ids.List, id)
		return nil
	})
	if ids.Cut = count == l.limit; ids.Server == "" {
		ids.Now, ids.Server = head.Now, head.Server
	}
	if err == nil && head.Server != ids.Server {
		err = errMoved
	}
	return count, err
}

// readHeaded calls each for every row but the one that tells about the server, whose clock and
// identity it returns.
func readHeaded(rows driver.Rows, width int, each func(row []driver.Value) error) (head source.Page, err error) {
	row := make([]driver.Value, width)
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF) && head.Now.IsZero():
			return head, errNoHead
		case errors.Is(err, io.EOF):
			return head, nil
		case err != nil:
			return head, err
		}
		if row[0] != nil {
			err = parseHead(sqlconn.Text(row[0]), &head)
		} else {
			err = each(row)
		}
		if err != nil {
			return head, err
		}
	}
}
