package mysql

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/internal/sqltable"
)

type tableSpec struct {
	spec  source.Spec
	table sqltable.Name
}

type shard struct {
	tableSpec
	source *Source

	// shape is nil until the columns have been read, from a server that identity tells from others.
	shape    *shape
	identity string
	// masks are the masks of the columns; nil where none has one.
	masks     source.Masks
	refreshed time.Time
	// narrow says that the login may read single columns only.
	narrow bool
	// types are the result types of the first page with the shape, nil before it; doubted is the
	// shape that is read again because a page did not fit it.
	types   []byte
	doubted *shape

	reader pageReader
	// answered is the server of the last page; until pagesUntil the shard reads no heads.
	answered   string
	pagesUntil time.Time
}

// shape is what the statements of a shard depend on. It is immutable.
type shape struct {
	columns *source.Columns
	// single tells which columns hold single-precision numbers.
	single []bool
	// selected is the list of columns as SQL, with a comma in front; empty is a list of NULLs with
	// which a UNION keeps their types.
	selected, empty string
	// documents are the columns that may hold JSON though the type does not say so.
	documents documents
	index     string
	// filter is the condition on rows, which the server accepts; "" for none.
	filter string
	key    lookup
	// modified is the index that MODIFIED leads, "" when there is none.
	modified string
	// whole says that the columns are `SELECT *`, so that one more or less shows at once.
	whole bool
	// starred is the number of columns of `SELECT *` where EXCLUDE leaves some of them out, else 0.
	starred int
	idType  string
	// ids says how the values of the id are read; zero for integers.
	ids source.IDColumn
	// counted says that the id is AUTO_INCREMENT, unproved that nothing else keeps ids unique.
	counted, unproved bool
}

// watched says that pages name `SELECT *`, which a login with grants on single columns may not say.
func (sh *shape) watched() bool { return sh.whole || sh.starred > 0 }

func (sh *shape) equal(other *shape) bool { return reflect.DeepEqual(sh, other) }

// shapes are the shapes that were read last: tables that are alike share one, and with it what is
// made of its columns. It is safe for concurrent use.
type shapes struct {
	mu   sync.Mutex
	last []*shape
}

// sharedShapes is how many are kept: more than most sources have streams.
const sharedShapes = 16

// share returns sh, or the shape that is its equal and was there before.
func (s *shapes) share(sh *shape) *shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.IndexFunc(s.last, sh.equal); at >= 0 {
		sh = s.last[at]
		s.last = slices.Delete(s.last, at, at+1)
	}
	s.last = slices.Insert(s.last, 0, sh)
	s.last = s.last[:min(len(s.last), sharedShapes)]
	return sh
}

var _ source.Shard = (*shard)(nil)

func (s *shard) Read(ctx context.Context, q source.Query, p *source.Page) error {
	what := "read " + s.spec.Table + " after " + strconv.FormatUint(q.After, 10)
	read := func() error {
		return s.run(ctx, s.source.db, what, func(ctx context.Context, c conn) error {
			p.Reset()
			// A read that failed may have left it.
			s.reader.again = 0
			return s.readPage(ctx, c, q, p)
		})
	}
	err := read()
	for err == nil && s.reader.again > 0 {
		id := s.reader.again
		err = s.run(ctx, s.source.db, what, func(ctx context.Context, c conn) error {
			p.Reset()
			return s.readID(ctx, c, id, p)
		})
		if err == nil && len(p.Rows) == 0 {
			// They were deleted meanwhile.
			err = read()
		}
	}
	if err == nil {
		s.spec.Expire(&q, p)
	}
	if err != nil {
		p.Reset()
		return err
	}
	s.answered = p.Server
	return nil
}

// run has the columns of the table at hand. Where an error may come from columns that changed it
// reads them again and tries once more. what is for the error.
func (s *shard) run(ctx context.Context, pool *sqltable.Pool, what string, read func(ctx context.Context, c conn) error) error {
	try := func() error {
		if s.table.Database == "" {
			return errNoDatabase
		}
		return s.source.do(ctx, pool, func(ctx context.Context, c conn) error {
			if s.refreshDue(1) {
				if err := s.refresh(ctx, c); err != nil {
					return err
				}
			}
			return read(ctx, c)
		})
	}
	err := try()
	if isDenied(err) && s.shape != nil && s.shape.watched() {
		// A login with grants on single columns may not say `SELECT *`.
		s.narrow, s.refreshed = true, time.Time{}
		err = try()
	}
	stale := []uint16{erBadField, erKeyDoesNotExist, erColAccessDenied, erWrongNumberOfColumns, erOperandColumns}
	if s.shape != nil && (slices.Contains(stale, number(err)) || errors.Is(err, errStale)) {
		s.refreshed, s.types = time.Time{}, nil
		err = try()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, s.explain(err))
	}
	return nil
}

// refreshDue is true at times RefreshEvery, and where the columns are not to be trusted.
func (s *shard) refreshDue(times time.Duration) bool {
	return s.refreshed.IsZero() || time.Since(s.refreshed) >= times*s.source.options.RefreshEvery
}

// refresh reads the columns and keeps the former ones while they are the same.
func (s *shard) refresh(ctx context.Context, c conn) error {
	server := *s.source.connector.server.Load()
	read, masks, err := s.readShape(ctx, c, server)
	if err != nil {
		return err
	}
	if s.narrow {
		// It may have been without any grant for a moment.
		err := c.query(ctx, "SELECT * FROM "+s.quoted()+" LIMIT 0", nil)
		if err != nil && !isDenied(err) {
			return err
		}
		s.narrow = err != nil
	}
	if s.narrow {
		if s.spec.Fields == nil && s.shape.watched() {
			var names []string
			for _, column := range read.columns.List {
				names = append(names, column.Name)
			}
			s.source.options.Logger.Warn("columns that the login may not read are left out", "table", s.spec.Table, "read", strings.Join(names, ","), "do", s.source.grant(s.quoted()))
		}
		read.whole, read.starred = false, 0
	}
	if s.shape != nil {
		if changes := s.shape.columns.Changes(read.columns); len(changes) > 0 {
			s.source.options.Logger.Info("columns changed", append([]any{"table", s.spec.Table}, changes...)...)
		}
	}
	if s.shape == nil || !s.shape.equal(read) {
		s.shape, s.types = s.source.shapes.share(read), nil
	}
	s.masks, s.identity, s.refreshed = masks, server.identity, time.Now()
	return nil
}

// NextID returns AUTO_INCREMENT of the table, 0 when the id is no such column.
func (s *shard) NextID(ctx context.Context) (next uint64, err error) {
	err = s.run(ctx, s.source.db, "read the next id of "+s.spec.Table, func(ctx context.Context, c conn) error {
		if !s.shape.counted {
			// The table's counter, if it has one, is another column's.
			return nil
		}
		t, err := s.readListed(ctx, c, s.shape.idType)
		next = t.next
		return err
	})
	return next, err
}

type listed struct {
	engine string
	isView bool
	// next is AUTO_INCREMENT, 0 when it has none, or no id is left.
	next uint64
}

// readListed reads it, with the type of the id. A table that is missing or forbidden is an error.
func (s *shard) readListed(ctx context.Context, c conn, idType string) (t listed, err error) {
	// MySQL says NULL, or one less after a restart, of a table that nobody has opened since. This
	// also tells what is missing or forbidden, about which information_schema is silent.
	if err := c.query(ctx, "SELECT 1 FROM "+s.quoted()+" LIMIT 0", nil); err != nil {
		return t, err
	}
	const query = "SELECT TABLE_NAME AS name, TABLE_TYPE AS kind, ENGINE AS engine, AUTO_INCREMENT AS next FROM information_schema.TABLES " +
		"WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?"
	found := false
	var malformed error
	err = c.query(ctx, query, func(get func(string) string) {
		// The server may compare names without regard to case although it has both.
		if found && get("name") != s.table.Table {
			return
		}
		found = true
		t = listed{engine: get("engine"), isView: strings.HasSuffix(get("kind"), "VIEW")}
		if text := get("next"); text != "" {
			t.next, malformed = strconv.ParseUint(text, 10, 64)
		}
	}, s.table.Database, s.table.Table)
	if err = errors.Join(err, malformed); err != nil || t.next == 0 || t.next != lastID(idType) {
		return t, err
	}
	// At the end of its type MySQL's counter stays at the last id, free once that row is gone.
	id := quoteName(s.spec.ID)
	err = c.query(ctx, "SELECT MAX("+id+") AS highest FROM "+s.quoted(), func(get func(string) string) {
		if get("highest") == strconv.FormatUint(t.next, 10) {
			t.next = 0
		}
	})
	return t, err
}

// Server errors by number: https://mariadb.com/kb/en/mariadb-error-codes/ and MySQL's Server Error
// Reference.
const (
	erDBAccessDenied    = 1044
	erNoDB              = 1046
	erBadDB             = 1049
	erBadField          = 1054
	erTableAccessDenied = 1142
	erColAccessDenied   = 1143
	erNoSuchTable       = 1146
	erLockWait          = 1205
	erDeadlock          = 1213
	erInterrupted       = 1317

	erStatementTimeMariaDB = 1969
	erStatementTime        = 3024

	erKeyDoesNotExist = 1176

	erWrongNumberOfColumns = 1222
	erOperandColumns       = 1241
	erViewInvalid          = 1356
)

var (
	// errCut says that a page was complete before its result: the connection is not drained.
	errCut = errors.New("result cut")
	// errStale says that the types of a page differ from the types of the columns.
	errStale      = errors.New("the columns of the table changed")
	errNoHead     = errors.New("the server's answer lacks its clock")
	errNoDatabase = option.Errorf("%w: the table has no database: write %s as database.table or put the database into %s",
		source.ErrMissing, option.Table, option.SourceURL)
)

// isDenied reports whether the login lacks a grant on a table, or on a column of it.
func isDenied(err error) bool {
	return slices.Contains([]uint16{erTableAccessDenied, erColAccessDenied}, number(err))
}

func number(err error) uint16 {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

// explain wraps what only a person can resolve in its sentinel, with a remedy; others stay.
func (s *shard) explain(err error) error {
	switch number(err) {
	case erNoSuchTable, erBadDB, erNoDB:
		return option.Errorf("%w: %w: create the table, or correct %s or the database in %s",
			source.ErrMissing, err, option.Table, option.SourceURL)
	case erBadField:
		return fmt.Errorf("%w: %w", source.ErrMissing, err)
	case erTableAccessDenied, erColAccessDenied, erDBAccessDenied:
		return fmt.Errorf("%w: %w: let an administrator run: %s", source.ErrDenied, err, s.source.grant(s.quoted()))
	case erViewInvalid:
		return fmt.Errorf("%w: %w", source.ErrUnfit, err)
	}
	// A data exception of the SQL standard: the server cannot evaluate an expression for a value.
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok && s.spec.Filter != "" && strings.HasPrefix(string(refused.SQLState[:]), "22") {
		return option.Errorf("%w: %w: have the condition %s accept every value of its columns", source.ErrUnfit, err, option.Filter)
	}
	return err
}

func (s *Source) grant(table string) string {
	account := quoteText(s.options.User) + "@'%'"
	if server := s.connector.server.Load(); server != nil {
		if at := strings.LastIndexByte(server.account, '@'); at >= 0 {
			account = quoteText(server.account[:at]) + "@" + quoteText(server.account[at+1:])
		}
	}
	return "GRANT SELECT ON " + table + " TO " + account
}

func quoteText(text string) string {
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(text) + "'"
}
