package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"example.org/bridge/internal/option"
	"example.org/bridge/source"
)

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
	// index is the unique index of the id.
	index string
	// masks are those of the columns; nil where none has one.
	masks source.Masks
	// filter is the condition on rows, which the server accepts; "" for none.
	filter string
	// key is how rows are found by their keys.
	key lookup
	// modified is the index that MODIFIED leads, "" when there is none.
	modified string
	// whole says that the columns are those of `SELECT *`, so that one more or less shows at once.
	whole bool
	// starred is the number of columns of `SELECT *` where EXCLUDE leaves some of them out, else 0.
	starred int
	// idType is the type of the id.
	idType string
	// counted says that the id is the table's AUTO_INCREMENT column, unproved that nothing else
	// keeps an id from coming twice.
	counted, unproved bool
}

// watched says that pages name `SELECT *`, which a login with grants on single columns may not say.
func (sh *shape) watched() bool { return sh.whole || sh.starred > 0 }

func (sh *shape) equal(other *shape) bool {
	a, b := sh.columns, other.columns
	return slices.Equal(a.List, b.List) && a.ID == b.ID && slices.Equal(a.Key, b.Key) && slices.Equal(a.NullKey, b.NullKey) &&
		a.Created == b.Created && a.Modified == b.Modified && a.Deleted == b.Deleted &&
		a.CreatedMoves == b.CreatedMoves && slices.Equal(sh.single, other.single) && sh.empty == other.empty &&
		sh.documents.equal(other.documents) && sh.index == other.index && sh.key.equal(other.key) &&
		sh.modified == other.modified && sh.whole == other.whole && sh.idType == other.idType && sh.starred == other.starred && sh.counted == other.counted && sh.unproved == other.unproved
}

// shapes are those that were read last: tables that are alike share one, and with it what is made
// of its columns. It is safe for concurrent use.
type shapes struct {
	mu   sync.Mutex
	last []*shape
}

// sharedShapes is how many are kept: more than most sources have streams.
const sharedShapes = 16

// share returns sh, or the shape that is its equal and was there before. Masks have memory of their
// own, so a shape with masks is not shared.
func (s *shapes) share(sh *shape) *shape {
	if sh.masks != nil {
		return sh
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.last, func(other *shape) bool { return other.filter == sh.filter && other.equal(sh) })
	if at >= 0 {
		sh = s.last[at]
		s.last = slices.Delete(s.last, at, at+1)
	}
	s.last = slices.Insert(s.last, 0, sh)
	s.last = s.last[:min(len(s.last), sharedShapes)]
	return sh
}

// tableColumn is a column as SHOW COLUMNS tells.
type tableColumn struct {
	name, columnType string
	// collation is "" for what is no character string.
	collation string
	nullable  bool
	invisible bool
	counted   bool
	// moves says that an update of the row changes the column.
	moves bool
}

// readShape asks the server for the columns of the table and checks them against the spec.
func (s tableSpec) readShape(ctx context.Context, c conn, server server) (*shape, error) {
	var table []tableColumn
	err := c.query(ctx, "SHOW FULL COLUMNS FROM "+s.table.quoted(), func(get func(string) string) {
		if !mayRead(get("Privileges")) {
			return
		}
		table = append(table, tableColumn{
			name: get("Field"), columnType: get("Type"), collation: get("Collation"),
			nullable:  get("Null") == "YES",
			invisible: strings.Contains(get("Extra"), "INVISIBLE"),
			counted:   strings.Contains(strings.ToLower(get("Extra")), "auto_increment"),
			moves:     strings.Contains(strings.ToLower(get("Extra")), "on update"),
		})
	})
	if err != nil {
		return nil, err
	}
	if err := s.checkNamed(ctx, c, table); err != nil {
		return nil, err
	}
	sh := s.compose(table)
	if sh.filter, err = s.spec.AcceptedFilter(s.filterFault(ctx, c)); err != nil {
		return nil, err
	}
	if server.isMariaDB() {
		if sh.documents, err = s.findDocuments(ctx, c, sh.columns.List, table); err != nil {
			return nil, err
		}
	}
	sh.masks = s.spec.Mask(sh.columns.List)
	id := sh.columns.List[sh.columns.ID].Name
	sh.counted, sh.idType = table[find(table, id)].counted, table[find(table, id)].columnType
	indexes, err := s.readIndexes(ctx, c)
	if err != nil {
		return nil, err
	}
	create := ""
	if uniqueColumns(indexes)[strings.ToLower(id)] == "" || s.needsCreate(indexes, table) {
		if create, err = s.readCreate(ctx, c); err != nil {
			return nil, err
		}
	}
	counter := ""
	if sh.counted {
		counter = id
	}
	indexes, sh.unproved = cutPrimary(indexes, counter, id)
	if sh.index = uniqueColumns(indexes)[strings.ToLower(id)]; sh.index == "" {
		return nil, s.noIDIndex(ctx, c, id, create)
	}
	if err := s.checkKey(indexes, table, create); err != nil {
		return nil, err
	}
	sh.key, sh.modified = findByKey(sh, indexes, table), modifiedIndex(indexes, s.spec)
	if proof, _ := keyIndex(indexes, table, s.spec.Key); proof != nil && s.spec.UniqueKey {
		sh.columns.SetNullKey(proof.nullKey(table))
	}
	return sh, s.checkRoles(sh, table)
}

// mayRead reports whether the login may SELECT a column, by the privileges on it. One that it may
// only write is as one that it does not see.
func mayRead(privileges string) bool {
	return privileges == "" || strings.Contains(strings.ToLower(privileges), "select")
}

// noIDIndex is the error of an id that no index proves unique. create is what SHOW CREATE TABLE
// says.
func (s tableSpec) noIDIndex(ctx context.Context, c conn, id, create string) error {
	kind := ""
	const query = "SELECT TABLE_TYPE AS kind FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?"
	if err := c.query(ctx, query, func(get func(string) string) { kind = get("kind") }, s.table.database, s.table.table); err != nil {
		return err
	}
	if strings.HasSuffix(kind, "VIEW") {
		return option.Errorf("%w: %s is a view, which has no unique index over its id: name the table behind it with %s; %s and %s choose among its columns and rows",
			source.ErrUnfit, s.spec.Table, option.Table, option.Fields, option.Filter)
	}
	if why := refusesUnique(create, id); why != "" {
		return option.Errorf("%w: the id column %q of %s is not unique by itself, and %s: make the id AUTO_INCREMENT and the first column of the primary key, "+
			"or name another column with %s", source.ErrUnfit, id, s.spec.Table, why, option.ID)
	}
	return option.Errorf("%w: the id column %q of %s has no unique index of its own: name another column with %s, or let an administrator run: %s",
		source.ErrUnfit, id, s.spec.Table, option.ID, s.addUnique(id))
}

// needsCreate reports whether a key is to be refused, with advice that depends on the partitions of
// the table.
func (s tableSpec) needsCreate(indexes []tableIndex, table []tableColumn) bool {
	if !s.spec.UniqueKey || len(s.spec.Key) == 0 {
		return false
	}
	_, fault := keyIndex(indexes, table, s.spec.Key)
	return fault != ""
}

// readCreate returns what SHOW CREATE TABLE says, "" where the login may not ask.
func (s tableSpec) readCreate(ctx context.Context, c conn) (create string, err error) {
	err = c.query(ctx, "SHOW CREATE TABLE "+s.table.quoted(), func(get func(string) string) { create = get("Create Table") })
	if number(err) != 0 {
		return "", nil
	}
	return create, err
}

// checkKey refuses a key that does not identify single rows where it must. create is what SHOW
// CREATE TABLE says, where that is needed.
func (s tableSpec) checkKey(indexes []tableIndex, table []tableColumn, create string) error {
	if !s.spec.UniqueKey || len(s.spec.Key) == 0 {
		return nil
	}
	for _, key := range s.spec.Key {
		if column := table[find(table, key)]; isFloat(column.columnType) {
			return option.Errorf("%w: the KEY column %q of %s is %s, an approximate number, which identifies nothing: name other columns "+
				"with %s, or make it DECIMAL", source.ErrUnfit, column.name, s.spec.Table, column.columnType, option.Key)
		}
	}
	if _, fault := keyIndex(indexes, table, s.spec.Key); fault != "" {
		if why := refusesUnique(create, s.spec.Key...); why != "" {
			return option.Errorf("%w: the KEY (%s) of %s has %s: an entity must be a single row, and %s: name these columns with %s, too, or others",
				source.ErrUnfit, strings.Join(s.spec.Key, ", "), s.spec.Table, fault, why, option.Key)
		}
		return fmt.Errorf("%w: the KEY (%s) of %s has %s: an entity must be a single row; let an administrator run: %s",
			source.ErrUnfit, strings.Join(s.spec.Key, ", "), s.spec.Table, fault, s.addUnique(s.spec.Key...))
	}
	return nil
}

// addUnique returns the statement that makes columns unique. Columns that may be NULL have to be
// made NOT NULL besides.
func (s tableSpec) addUnique(columns ...string) string {
	quoted := make([]string, len(columns))
	for i, column := range columns {
		quoted[i] = quoteName(column)
	}
	return "ALTER TABLE " + s.table.quoted() + " ADD UNIQUE KEY (" + strings.Join(quoted, ", ") + ")"
}

func find(table []tableColumn, name string) int {
	return slices.IndexFunc(table, func(c tableColumn) bool { return strings.EqualFold(c.name, name) })
}

// checkNamed refuses a spec with a column that the login cannot see.
func (s tableSpec) checkNamed(ctx context.Context, c conn, table []tableColumn) error {
	for _, r := range s.spec.Named() {
		if find(table, r.Column) >= 0 {
			continue
		}
		// Without a grant on it SHOW COLUMNS hides a column; the server's error tells that from a
		// missing one.
		err := c.query(ctx, "SELECT "+quoteName(r.Column)+" FROM "+s.table.quoted()+" LIMIT 0", func(func(string) string) {})
		if r.Setting == option.Exclude && number(err) == erColAccessDenied {
			// What the login may not read is left out anyway.
			continue
		}
		if err != nil && number(err) != erBadField {
			return err
		}
		if err == nil {
			// MariaDB's row_start is one. A column that was added since the list was read is on the
			// next.
			return option.Errorf("%w: the column %q of %s, which %s names, is hidden: it can be selected, but SHOW COLUMNS does not list it: "+
				"declare it in the table, or name another column", source.ErrMissing, r.Column, s.spec.Table, r.Setting)
		}
		return option.Errorf("%w: no column %q in %s: correct %s; the columns are %s",
			source.ErrMissing, r.Column, s.spec.Table, r.Setting, columnNames(table))
	}
	return nil
}

// compose picks the columns that the spec asks for, in the order of the table.
func (s tableSpec) compose(table []tableColumn) *shape {
	wanted := make([]bool, len(table))
	for i, column := range table {
		wanted[i] = s.spec.Reads(column.name) && !column.invisible
	}
	for _, r := range s.spec.Roles() {
		wanted[find(table, r.Column)] = true
	}
	sh := &shape{columns: &source.Columns{}, whole: true}
	for i, column := range table {
		sh.whole = sh.whole && wanted[i] == !column.invisible
		if !column.invisible {
			sh.starred++
		}
	}
	if sh.whole || s.spec.Fields != nil {
		sh.starred = 0
	}
	at := make([]int, len(table))
	for i, column := range table {
		if !wanted[i] {
			continue
		}
		at[i] = len(sh.columns.List)
		kind, precision := parseType(column.columnType)
		sh.columns.List = append(sh.columns.List, source.Column{Name: column.name, Kind: kind, Precision: precision, NotNull: !column.nullable})
		sh.single = append(sh.single, isSingle(column.columnType))
		sh.empty += emptyValue(column.columnType, kind)
	}
	sh.columns.SetRoles(s.spec, func(name string) int { return at[find(table, name)] })
	sh.selected = sh.selection()
	sh.columns.CreatedMoves = s.spec.Created != "" && table[find(table, s.spec.Created)].moves
	return sh
}

// checkRoles refuses columns whose types do not fit their roles.
func (s tableSpec) checkRoles(sh *shape, table []tableColumn) error {
	id := table[find(table, s.spec.ID)]
	switch {
	case !isID(id.columnType):
		return fmt.Errorf("%w: the id column %q of %s is %s: it must be an integer", source.ErrUnfit, id.name, s.spec.Table, id.columnType)
	case id.nullable:
		return fmt.Errorf("%w: the id column %q of %s may be NULL: make it NOT NULL", source.ErrUnfit, id.name, s.spec.Table)
	}
	for _, r := range []source.Role{{Setting: option.Created, Column: s.spec.Created}, {Setting: option.Modified, Column: s.spec.Modified}} {
		if r.Column == "" {
			continue
		}
		column := table[find(table, r.Column)]
		switch kind, _ := parseType(column.columnType); kind {
		case source.DateTime, source.Timestamp, source.Date:
		default:
			return option.Errorf("%w: the column %q of %s is %s: %s must name a DATETIME or TIMESTAMP column",
				source.ErrUnfit, column.name, s.spec.Table, column.columnType, r.Setting)
		}
	}
	return nil
}
