package mysql

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.org/bridge/internal/panics"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

var _ source.IDReader = (*shard)(nil)

// ReadIDs reads ids along the index of the id, in one statement. On the primary key of InnoDB that
// shows uncommitted rows at READ UNCOMMITTED; it takes no lock and needs nothing but SELECT.
func (s *shard) ReadIDs(ctx context.Context, ranges []source.Range, uncommitted bool, limit int, ids *source.IDs) error {
	return s.run(ctx, s.source.pool(uncommitted), "read ids of "+s.spec.Table, func(ctx context.Context, c conn) error {
		*ids = source.IDs{List: ids.List[:0]}
		column := s.shape.id()
		head, cut, err := s.list(ctx, c, ranges, limit, listing{
			columns: []string{column.name},
			from: func(part []source.Range) string {
				return forceIndex(s.shape.index) + " WHERE " + inRanges(column, part) + " ORDER BY " + column.name
			},
			each: func(row []driver.Value) error {
				id, err := column.number(row[0])
				n := len(ids.List)
				switch {
				case err != nil:
					return err
				case n > 0 && id == ids.List[n-1] && column.Format != "":
					return nil
				case n > 0 && id == ids.List[n-1] && uncommitted && s.shape.unproved:
					// A row that moves to another partition may show in both before that is
					// committed.
					return nil
				case n > 0 && id <= ids.List[n-1]:
					return fmt.Errorf("%w: the id %d came after %d", source.ErrUnfit, id, ids.List[n-1])
				}
				ids.List = append(ids.List, id)
				return nil
			},
		})
		ids.Cut, ids.Now, ids.Server = cut, head.Now, head.Server
		return err
	})
}

// listing reads a few columns, without a page. from is the SQL behind the table's name.
type listing struct {
	columns []string
	from    func(part []source.Range) string
	each    func(row []driver.Value) error
}

// list calls each for at most limit rows. head has the clock and the identity of the server.
func (s *shard) list(ctx context.Context, c conn, ranges []source.Range, limit int, l listing) (head source.Page, cut bool, err error) {
	compose := func(part []source.Range) string {
		return "(SELECT CONCAT_WS(' ', UTC_TIMESTAMP(6), 0, " + s.source.connector.server.Load().identity + ")" + strings.Repeat(", NULL", len(l.columns)) +
			") UNION ALL (SELECT NULL, " + strings.Join(l.columns, ", ") + " FROM " + s.quoted() + l.from(part) + " LIMIT " + strconv.Itoa(limit) + ")"
	}
	for _, part := range s.source.connector.server.Load().parts(s.shape.id(), ranges, len(compose(nil))) {
		rows, err := c.QueryContext(ctx, compose(part), nil)
		if err != nil {
			return head, false, err
		}
		var of source.Page
		row := make([]driver.Value, 1+len(l.columns))
		_, err = sqltable.Scan(ctx, rows, row, func() (bool, error) {
			if row[0] != nil {
				return false, idColumn{}.parseHead(sqltable.Text(row[0]), &of)
			}
			limit--
			return false, l.each(row[1:])
		})
		if head.Now.IsZero() {
			head = of
		}
		switch err = sqltable.Close(rows, err); {
		case err == nil && of.Now.IsZero():
			err = errNoHead
		case err == nil && of.Server != head.Server:
			err = errMoved
		}
		if err != nil || limit == 0 {
			return head, limit == 0, err
		}
	}
	return head, false, nil
}

const (
	// headsAtOnce bounds the heads that one statement reads.
	headsAtOnce = 100
	// headTimeout bounds a statement on the server, so that one table that is slow or locked delays
	// the others no longer.
	headTimeout = 2 * time.Second
	// headRefresh is how many times as old as at a page the columns may be: a row makes the shard
	// read a page, which reads the columns again.
	headRefresh = 10
	// headPause is how long a shard reads pages after a head that was not answered.
	headPause = 10 * time.Second
)

var _ source.HeadReader = (*shard)(nil)

// ReadHead implements source.HeadReader. Shards of a source that call it at about the same time
// share a statement. Read reports the errors.
func (s *shard) ReadHead(ctx context.Context, wait time.Duration, p *source.Page) (seen bool, err error) {
	p.Reset()
	if s.shape == nil || s.refreshDue(headRefresh) || time.Now().Before(s.pagesUntil) {
		return false, nil
	}
	head, err := s.source.heads.read(ctx, wait, s.head())
	if err != nil {
		return false, err
	}
	if head == "" {
		s.pagesUntil = time.Now().Add(headPause)
		return false, nil
	}
	p.Columns = s.shape.columns
	// Behind a proxy, or after a change of servers, another server may answer: read a page then.
	return s.shape.id().parseHead(head, p) == nil && p.Server == s.answered, nil
}

// headReader reads heads of tables, many in one statement. It is safe for concurrent use.
type headReader struct {
	logger  *slog.Logger
	queries chan headQuery
	// conns bounds the statements under way.
	conns atomic.Int32
	// query runs one statement; cancel cancels the ones under way, and running waits for them.
	query   func([]headQuery) ([]string, error)
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// headQuery is sent when it is due at the latest, and answered with "" where that failed.
type headQuery struct {
	expression string
	due        time.Time
	answer     chan string
}

func (r *headReader) open(s *Source) {
	ctx, cancel := context.WithCancel(context.Background())
	r.logger, r.cancel, r.queries = s.options.Logger, cancel, make(chan headQuery)
	r.query = func(all []headQuery) ([]string, error) { return s.queryHeads(ctx, all) }
	r.running.Go(func() { r.collect(ctx) })
}

// read returns "" without an answer within wait and headTimeout. The error is the cause of ctx.
func (r *headReader) read(ctx context.Context, wait time.Duration, expression string) (string, error) {
	one := headQuery{expression, time.Now().Add(wait), make(chan string, 1)}
	limit := time.NewTimer(wait + headTimeout)
	defer limit.Stop()
	for queries := r.queries; ; {
		select {
		case queries <- one:
			queries = nil
		case head := <-one.answer:
			return head, nil
		case <-limit.C:
			return "", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// collect sends all queries once one is due, those beyond conns statements when one has ended.
func (r *headReader) collect(ctx context.Context) {
	var waiting []headQuery
	var due time.Time
	var timer <-chan time.Time
	busy, ended := int32(0), make(chan struct{}, mostHeadConns)
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-r.queries:
			if waiting = append(waiting, one); len(waiting) == 1 || one.due.Before(due) {
				due, timer = one.due, time.After(time.Until(one.due))
			}
		case <-ended:
			busy--
		case <-timer:
			timer = nil
		}
		for timer == nil && len(waiting) > 0 && busy < r.conns.Load() {
			some := slices.Clone(waiting[:min(len(waiting), headsAtOnce)])
			waiting = slices.Delete(waiting, 0, len(some))
			busy++
			r.running.Go(func() {
				r.answer(some)
				ended <- struct{}{}
			})
		}
	}
}

// answer runs one statement for all. A caller may have returned by then.
func (r *headReader) answer(all []headQuery) {
	var heads []string
	err := panics.Guard(func() (err error) {
		heads, err = r.query(all)
		return err
	})
	if err != nil {
		if panics.Is(err) {
			r.logger.Error("reading heads failed, pages are read instead", panics.LogArgs(err)...)
		}
		heads = make([]string, len(all))
	}
	for i := range all {
		all[i].answer <- heads[i]
	}
}

var errHeads = errors.New("the answer does not have one row a head")

func (s *Source) queryHeads(ctx context.Context, all []headQuery) ([]string, error) {
	var statement strings.Builder
	for i := range all {
		if i > 0 {
			statement.WriteString(" UNION ALL ")
		}
		// In the form of a page, so that a proxy routes it as it routes pages.
		statement.WriteString("(SELECT " + strconv.Itoa(i) + " AS n, " + all[i].expression + " AS head)")
	}
	// The server's own limit comes first.
	ctx, cancel := context.WithTimeoutCause(ctx, headTimeout+time.Second, errNoAnswer)
	defer cancel()
	heads := make([]string, len(all))
	err := s.use(ctx, s.brief, func(c conn) error {
		rows := 0
		err := c.query(ctx, statement.String(), func(get func(string) string) {
			if n, err := strconv.Atoi(get("n")); err == nil && n < len(heads) {
				heads[n] = get("head")
				rows++
			}
		})
		if err == nil && rows != len(heads) {
			return errHeads
		}
		return err
	})
	return heads, err
}

type idColumn struct {
	// name is the column as SQL.
	name string
	// source.IDColumn is zero where ids are integers.
	source.IDColumn
}

func (sh *shape) id() idColumn {
	return idColumn{quoteName(sh.columns.List[sh.columns.ID].Name), sh.ids}
}

func (c idColumn) literal(v []byte) string { return sqltable.IDLiteral(c.IDColumn, v) }

// positive leaves no row out where ids have a format: one that is no id must be met.
func (c idColumn) positive() string {
	if c.Format != "" {
		return "TRUE"
	}
	return c.name + " > 0"
}

// above returns the condition of ids above n.
func (c idColumn) above(n uint64) string {
	if c.Format != "" && n == 0 {
		return "TRUE"
	}
	return c.name + " > " + sqltable.Highest(c.IDColumn, n)
}

// through returns the condition of ids up to n, with AND before it; 0 is no bound.
func (c idColumn) through(n uint64) string {
	if n == 0 || c.Format != "" && n == math.MaxUint64 {
		return ""
	}
	return " AND " + c.name + " <= " + sqltable.Highest(c.IDColumn, n)
}

func (c idColumn) between(b []byte, r source.Range) []byte {
	return append(b, c.name+" BETWEEN "+sqltable.Lowest(c.IDColumn, r.First)+" AND "+sqltable.Highest(c.IDColumn, r.Last)...)
}

// rangeBytes is about how many bytes between appends, with OR, at most.
func (c idColumn) rangeBytes() int {
	return len(c.name) + len(" OR  BETWEEN  AND ") + 2*len(sqltable.Highest(c.IDColumn, math.MaxUint64))
}

func (c idColumn) number(v driver.Value) (uint64, error) {
	if c.Format == "" {
		return rowID(v)
	}
	b, ok := v.([]byte)
	if !ok {
		return 0, fmt.Errorf("%w: the id %v is a %T, no text", source.ErrUnfit, v, v)
	}
	return c.Number(b)
}

// highest is the expression of the highest id of a table, as parseHead reads it.
func (c idColumn) highest(table string) string {
	most := "MAX(" + c.name + ")"
	if c.Format != "" {
		// It may have any characters.
		most = "HEX(" + most + ")"
	}
	return "COALESCE((SELECT " + most + " FROM " + table + "), 0)"
}

// parseHighest reads it, 0 where there is none.
func (c idColumn) parseHighest(word string) (uint64, error) {
	if c.Format == "" {
		if strings.HasPrefix(word, "-") {
			return 0, nil
		}
		return strconv.ParseUint(word, 10, 64)
	}
	if word == "0" {
		return 0, nil
	}
	v, err := hex.DecodeString(word)
	if err != nil {
		return 0, err
	}
	return c.Number(v)
}

// ordered are the collations in which ASCII digits come before letters in their order.
var ordered = regexp.MustCompile(`^(ascii|latin1|utf8|utf8mb3|utf8mb4)_((nopad_|0900_)?bin|(general|swedish|unicode|unicode_520)(_nopad)?_ci|0900_a[is]_c[is]|uca1400(_nopad)?_a[is]_c[is])$`)

// idColumnOf returns why a column cannot have ids with a format, empty where it can.
func idColumnOf(format source.IDFormat, column sqltable.Column) (ids source.IDColumn, why string) {
	name, _, _ := strings.Cut(strings.ToLower(column.Type), "(")
	ids.Format = format
	switch {
	case name == "binary" || name == "varbinary":
		ids.Binary = true
		return ids, ""
	case name != "char" && name != "varchar":
		return ids, "which must be CHAR, VARCHAR, BINARY or VARBINARY"
	}
	folds := strings.HasSuffix(column.Collation, "_ci")
	ids.Fold = folds && format != source.KSUID
	switch {
	case !ordered.MatchString(column.Collation):
		return ids, "whose collation " + column.Collation + " may have another order than ids have: make it ascii_bin"
	case format == source.KSUID && !strings.HasSuffix(column.Collation, "_bin"):
		return ids, "whose collation " + column.Collation + " has another order than KSUIDs, in which letter case counts: make it ascii_bin"
	}
	return ids, ""
}
