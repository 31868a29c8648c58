package mysql

import (
	"bufio"
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

const (
	// firstRows bounds a first page under a byte budget, while the size of rows is not known.
	firstRows = 256
	// drainBytes is the most that is read and thrown away to keep a connection.
	drainBytes = 256 << 10
)

type pageReader struct {
	row     []driver.Value
	scratch []byte
	types   []byte
	// rowBytes is the mean size of a row in the recent pages, 0 when nothing is known.
	rowBytes int
	// within says that the row behind a page has its last id, again is the id whose rows are to be
	// read by themselves, 0 for none. They are for ids with a format.
	within bool
	again  uint64
}

func (s *shard) readPage(ctx context.Context, c conn, q source.Query, p *source.Page) error {
	if q.Keys != nil {
		return s.readKeys(ctx, c, q, p, false)
	}
	// So many that they will fill the budget, but hardly exceed it.
	most := q.Limit
	if mean := s.reader.rowBytes; q.MaxBytes > 0 && mean == 0 {
		most = min(most, firstRows)
	} else if q.MaxBytes > 0 {
		most = max(1, min(most, q.MaxBytes/mean+1))
	}
	asked := most
	s.reader.within = false
	if s.shape.looksBehind() {
		// The row behind the page may have the id of its last one.
		asked++
	}
	query := s.pageQuery()
	parts := s.source.connector.server.Load().parts(s.shape.id(), q.Ranges, len(query.text(source.Query{}, asked)))
	err := sorted(p, s.shape.ids.Format != "", s.readStatements(ctx, c, asked, q.MaxBytes, p, func(asked int) (string, bool, error) {
		q.Ranges, parts = parts[0], parts[1:]
		return query.text(q, asked), len(parts) > 0, nil
	}))
	if s.shape.ids.Format != "" && (err == nil || errors.Is(err, errCut)) {
		s.reader.complete(p, most)
		return err
	}
	if last := len(p.Rows) - 1; s.shape.unproved && last == most {
		for _, v := range p.Rows[last].Values {
			p.Bytes -= len(v)
		}
		p.Rows = p.Rows[:last]
	}
	return err
}

// looksBehind is true where nothing proves ids unique, or several rows may have one.
func (sh *shape) looksBehind() bool { return sh.unproved || sh.ids.Format != "" }

// complete has p have all rows of its last id or none. Without another id, readID reads it again.
func (r *pageReader) complete(p *source.Page, most int) {
	within := r.within
	if n := len(p.Rows); n > most {
		within = p.Rows[most].ID == p.Rows[most-1].ID
		if !within {
			p.Cut()
		}
	}
	if last := len(p.Rows) - 1; within {
		id := p.Rows[last].ID
		if !p.Cut() {
			r.again = id
		}
	}
}

func (s *shard) readID(ctx context.Context, c conn, id uint64, p *source.Page) error {
	s.reader.again = 0
	const asked = source.SharingRows + 1
	query := s.pageQuery().text(source.Query{Ranges: []source.Range{{First: id, Last: id}}}, asked)
	err := s.readRows(ctx, c, query, asked, source.SharingBytes, p)
	if p.More && (err == nil || errors.Is(err, errCut)) {
		return s.shape.ids.Crowded(p.Rows[0].Values[s.shape.columns.ID], len(p.Rows), p.Bytes)
	}
	p.Sort()
	p.More = true
	return err
}

var errMoved = errors.New("another server answered in the middle of a read")

// readStatements appends at most asked rows, of as many statements as next has.
func (s *shard) readStatements(ctx context.Context, c conn, asked, maxBytes int, p *source.Page,
	next func(asked int) (statement string, more bool, err error)) error {
	before := len(p.Rows)
	for {
		left := asked - (len(p.Rows) - before)
		statement, more, err := next(left)
		if err != nil {
			return err
		}
		now, server := p.Now, p.Server
		p.Now = time.Time{}
		err = s.readRows(ctx, c, statement, left, maxBytes, p)
		switch {
		case err != nil && !errors.Is(err, errCut):
			return err
		case server != "" && server != p.Server:
			return errMoved
		}
		if !now.IsZero() {
			// The clock of the first statement lies before all of them.
			p.Now = now
		}
		if err != nil || p.More || !more {
			return err
		}
	}
}

// sorted refuses an id that comes twice, unless ids are shared or err kept p from being read.
func sorted(p *source.Page, shared bool, err error) error {
	if err != nil && !errors.Is(err, errCut) {
		return err
	}
	p.Sort()
	for i := 1; i < len(p.Rows) && !shared; i++ {
		if p.Rows[i].ID == p.Rows[i-1].ID {
			return errTwice(p.Rows[i].ID)
		}
	}
	return err
}

func (s *shard) readRows(ctx context.Context, c conn, statement string, asked, maxBytes int, p *source.Page) error {
	before := len(p.Rows)
	rows, err := c.QueryContext(ctx, statement, nil)
	if err != nil {
		return err
	}
	if err := s.checkTypes(rows); err != nil {
		return errors.Join(err, c.Close())
	}
	full, err := s.fill(ctx, rows, maxBytes, p)
	if err != nil {
		return err
	}
	if len(p.Rows) > 0 {
		mean := max(1, p.Bytes/len(p.Rows))
		if s.reader.rowBytes > 0 {
			mean = (s.reader.rowBytes + 3*mean) / 4
		}
		s.reader.rowBytes = max(1, mean)
	}
	read := len(p.Rows) - before
	p.More = full || read == asked
	if rest := asked - read; full && rest*s.reader.rowBytes > drainBytes {
		// Closing rows would read all of it, and the page is complete.
		_ = c.Close()
		return errCut
	}
	return rows.Close()
}

func (s *shard) fill(ctx context.Context, rows driver.Rows, maxBytes int, p *source.Page) (full bool, err error) {
	at := s.shape.layout()
	if cap(s.reader.row) < at.all {
		s.reader.row = make([]driver.Value, at.all)
	}
	row := s.reader.row[:at.all]
	p.Columns = s.shape.columns
	// After a full page of such a table one more row is looked at.
	behind := !s.shape.looksBehind()
	_, err = sqltable.Scan(ctx, rows, row, func() (enough bool, err error) {
		id := row[1+s.shape.columns.ID]
		switch {
		case row[0] != nil:
			if at.documents > 0 && sqltable.Text(row[at.documents]) != s.shape.documents.answer {
				return false, errStale
			}
			err = s.shape.id().parseHead(sqltable.Text(row[0]), p)
		case full:
			id, err := s.shape.rowID(id)
			shared := s.shape.ids.Format != ""
			switch {
			case err != nil && shared:
				// It may lie among the rows of the last id, behind which the next page begins.
				return false, err
			case err != nil, behind, id != p.Rows[len(p.Rows)-1].ID:
			case shared:
				s.reader.within = true
			default:
				return false, errTwice(id)
			}
			behind = true
		default:
			err = s.appendRow(row[1:at.columns], p)
			if err == nil && at.filter > 0 && row[at.filter] != nil {
				p.Filter()
			}
			// Invariant 7: the budget is exceeded by one row at most.
			full = maxBytes > 0 && p.Bytes >= maxBytes
		}
		return full && behind && !p.Now.IsZero(), err
	})
	if err == nil && p.Now.IsZero() {
		err = errNoHead
	}
	return full, err
}

func (s *shard) appendRow(row []driver.Value, p *source.Page) error {
	id, err := s.shape.rowID(row[s.shape.columns.ID])
	if err != nil {
		return err
	}
	p.Append(id, len(row))
	for i, v := range row {
		switch v := v.(type) {
		case nil:
			if s.shape.columns.List[i].NotNull && s.doubted != s.shape {
				s.doubted = s.shape
				return errStale
			}
		case []byte:
			if s.masks != nil {
				v = s.masks.Hide(i, v)
			}
			p.Set(i, v)
		default:
			s.reader.scratch, err = appendValue(s.reader.scratch[:0], v, s.shape.single[i])
			if err != nil {
				return fmt.Errorf("column %q: %w", s.shape.columns.List[i].Name, err)
			}
			p.Set(i, s.masks.Hide(i, s.reader.scratch))
		}
	}
	return nil
}

func (sh *shape) rowID(v driver.Value) (uint64, error) { return idColumn{IDColumn: sh.ids}.number(v) }

func rowID(v driver.Value) (uint64, error) {
	switch v := v.(type) {
	case int64:
		return uint64(v), nil
	case uint64:
		return v, nil
	case []byte:
		return strconv.ParseUint(string(v), 10, 64)
	}
	return 0, fmt.Errorf("the id %v is not a number", v)
}

func errTwice(id uint64) error {
	return fmt.Errorf("%w: the id %d came twice: give one of its rows another id, and let the database number rows", source.ErrUnfit, id)
}

// layout says where the result of a page has what: the head, the columns up to columns, the
// condition, the documents, and from singles to all those whose type is in the guard. What it lacks
// is at 0.
type layout struct{ columns, filter, documents, singles, all int }

func (sh *shape) layout() (at layout) {
	at.columns = 1 + len(sh.columns.List)
	at.singles = at.columns
	if sh.filter != "" {
		at.filter = at.singles
		at.singles++
	}
	if len(sh.documents.columns) > 0 {
		at.documents = at.singles
		at.singles++
	}
	at.all = at.singles
	for _, single := range sh.single {
		if single {
			at.all++
		}
	}
	return at
}

// checkTypes compares types with those of the pages before: after ALTER TABLE a column may hold
// something else. Those of the first page are compared with the columns, and taken for true at the
// second try, as a server may name them otherwise.
func (s *shard) checkTypes(rows driver.Rows) error {
	types, ok := rows.(interface {
		driver.RowsColumnTypeDatabaseTypeName
		driver.RowsColumnTypePrecisionScale
	})
	if !ok {
		return nil
	}
	b, at := s.reader.types[:0], s.shape.layout()
	fit, single := true, at.singles
	for i := 1; i < at.all; i++ {
		if i == at.filter || i == at.documents {
			continue
		}
		name := types.ColumnTypeDatabaseTypeName(i)
		_, scale, _ := types.ColumnTypePrecisionScale(i)
		b = strconv.AppendInt(append(append(b, name...), ' '), scale, 10)
		if i >= at.columns {
			continue
		}
		if s.shape.single[i-1] {
			fit = fit && types.ColumnTypeDatabaseTypeName(single) == "FLOAT"
			single++
		} else if c := s.shape.columns.List[i-1]; c.Mask == "" {
			fit = fit && fits(c, slices.Contains(s.shape.documents.columns, c.Name), name, scale)
		}
	}
	s.reader.types = b
	switch {
	case s.types == nil && !fit && s.doubted != s.shape:
		s.doubted = s.shape
		return errStale
	case s.types == nil:
		s.types = bytes.Clone(b)
	case !bytes.Equal(s.types, b):
		return errStale
	}
	return nil
}

// readAheadBytes is how much of an answer is taken from the kernel at once. The driver itself asks
// for 4 KiB at a time, a dozen rows, and pays a system call and a deadline for each.
const readAheadBytes = 64 << 10

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	opened, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &readAhead{opened, bufio.NewReaderSize(opened, readAheadBytes)}, nil
}

// readAhead is a connection that reads more than it is asked for and hands it out later. One
// goroutine may read at a time, as the driver does.
type readAhead struct {
	net.Conn
	ahead *bufio.Reader
}

func (c *readAhead) Read(b []byte) (int, error) { return c.ahead.Read(b) }

// errUnread is why a connection that is idle is not used again.
var errUnread = errors.New("the server has sent what nobody asked for")

// SyscallConn lets the driver look, before it uses a connection that was idle, whether the server
// has closed it or has sent something: such a connection it gives up. What was read ahead counts as
// sent, else it would be taken for the next answer.
func (c *readAhead) SyscallConn() (syscall.RawConn, error) {
	conn, ok := c.Conn.(syscall.Conn)
	switch {
	case !ok:
		return nil, errors.ErrUnsupported
	case c.ahead.Buffered() > 0:
		return nil, errUnread
	}
	return conn.SyscallConn()
}
