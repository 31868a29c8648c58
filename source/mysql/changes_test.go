package mysql_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// The handler counters prove that a read of changes begins at the cursor, ends at its limit, and
// looks at no row.
func TestChangesReadTheirIndexEntriesOnly(t *testing.T) {
	eachProduct(t, testChangesReadTheirIndexEntriesOnly)
}

func testChangesReadTheirIndexEntriesOnly(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	hidden := ignored(product)
	for _, layout := range []struct{ name, definition string }{
		{"an index on MODIFIED alone", "id BIGINT UNSIGNED PRIMARY KEY, at DATETIME(3) NOT NULL, body TEXT, KEY (at)"},
		{"a nullable timestamp and a signed id", "id INT PRIMARY KEY, at TIMESTAMP(6) NULL, body TEXT, KEY (at)"},
		{"an index on MODIFIED and the id", "id INT PRIMARY KEY, at DATETIME(6), body TEXT, KEY (at, id)"},
		{"an index on both beside another primary key", "body VARCHAR(600), k INT AUTO_INCREMENT PRIMARY KEY, id INT NOT NULL UNIQUE, at DATETIME NOT NULL, KEY (at), KEY ordered (at, id)"},
		{"an index on MODIFIED beside one with another column", "id INT PRIMARY KEY, k INT, at DATETIME NOT NULL, body TEXT, KEY a (at, k), KEY b (at)"},
		{"an index on MODIFIED beside one that is ignored", "id INT PRIMARY KEY, at DATETIME NOT NULL, body TEXT, KEY a (at, id) " + hidden + ", KEY b (at)"},
	} {
		t.Run(layout.name, func(t *testing.T) {
			b.replaceTable(t, "changed", "("+layout.definition+")")
			// Ten rows a second, and 2000 at once.
			b.exec(t, "INSERT INTO changed (id, at, body) SELECT 2*seq, '2026-01-01' + INTERVAL seq DIV 10 SECOND, REPEAT('b', 100) FROM "+testenv.Sequence(7000))
			b.exec(t, "INSERT INTO changed (id, at, body) SELECT 30000 + seq, '2026-02-01 12:00:00', REPEAT('b', 100) FROM "+testenv.Sequence(2000))
			s := b.source.Shard(source.Spec{Table: "changed", ID: "ID", Modified: "At"})
			for _, q := range []source.ChangeQuery{
				{Limit: 100},
				{After: source.Cursor{Modified: "2026-01-01 00:10:00"}, Limit: 100},
				{After: source.Cursor{Modified: "2026-01-01 00:10:00", ID: 12004}, Limit: 100},
				{After: source.Cursor{Modified: "2026-01-01 00:10:00"}, Through: "2026-01-01 00:10:03", Limit: 1000},
				{After: source.Cursor{Modified: "2026-02-01 12:00:00", ID: 31000}, Limit: 100},
				{After: source.Cursor{Modified: "2026-02-01 12:00:00", ID: 32000}, Limit: 100},
				{After: source.Cursor{Modified: "2027-01-01 00:00:00"}, Limit: 100},
			} {
				var c source.Changes
				cost := must.Get(mysql.ChangesCost(t.Context(), s, q, &c))(t)
				// A range of the cursor's time, and one behind it. Without a cursor MySQL skips
				// from one time to the next.
				keys := 2
				if product.IsMySQL() && q.After == (source.Cursor{}) {
					keys = 2 * q.Limit
				}
				if cost["Handler_read_key"]+cost["Handler_read_first"] == 0 {
					t.Errorf("%+v: the counters do not count: %v", q, cost)
				}
				expectCost(t, q, cost, map[string]int{"read_key": keys, "read_next": len(c.List) + 1, "read_first": 1, "Select_scan": 1})
			}
		})
	}
}

func TestChangesOfAnIndexWithoutTheID(t *testing.T) {
	eachProduct(t, testChangesOfAnIndexWithoutTheID)
}

func testChangesOfAnIndexWithoutTheID(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE t (k VARCHAR(20) PRIMARY KEY, id INT NOT NULL UNIQUE, at DATETIME NOT NULL, KEY (at, k))")
	b.exec(t, "INSERT INTO t SELECT UUID_SHORT() % 1000000 * 10000 + seq, seq, '2026-01-01' + INTERVAL seq DIV 700 SECOND FROM "+testenv.Sequence(2000))
	s := b.source.Shard(source.Spec{Table: "t", ID: "id", Modified: "at"})
	ids := sourcetest.ChangedIDs(sourcetest.AllChanges(t, s, source.ChangeQuery{Limit: 300}))
	if len(ids) != 2000 || !slices.IsSorted(ids) {
		t.Errorf("%d changes, in order %t", len(ids), slices.IsSorted(ids))
	}
}

// A date that no calendar has may stand in a column from a time when sql_mode allowed it, and be
// where the second cursor stands.
func TestChangesOfOddTimes(t *testing.T) { eachProduct(t, testChangesOfOddTimes) }

func testChangesOfOddTimes(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE t (id BIGINT PRIMARY KEY, at DATETIME, stamp TIMESTAMP(3) NULL, day DATE, KEY (at), KEY (stamp), KEY (day))")
	b.exec(t, `SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'; INSERT INTO t VALUES (-1, '2026-01-01', '2026-01-01', '2026-01-01'), (0, '2026-01-01', '2026-01-01', '2026-01-01'),
		(1, '0000-00-00', '0000-00-00', '0000-00-00'), (2, '2024-02-31', '2026-01-02 00:00:00.5', '2024-02-31'), (3, NULL, NULL, NULL), (4, '9999-12-31 23:59:59', '2038-01-19 03:14:07.999', '9999-12-31'),
		(5, '2024-02-31', '2026-01-02 00:00:00.5', '2024-02-31'), (6, '2024-00-10', '2026-01-01', '2024-00-10')`)
	for _, column := range []string{"at", "stamp", "day"} {
		s := b.source.Shard(source.Spec{Table: "t", ID: "id", Modified: column})
		var c source.Changes
		must.OK(t, s.ReadChanges(t.Context(), source.ChangeQuery{Limit: 9}, &c))
		sourcetest.Same(t, sourcetest.ChangedIDs(c.List), []uint64{1, 6, 2, 5, 4}, "changes by %s", column)
		for i, at := range c.List {
			var behind source.Changes
			if err := s.ReadChanges(t.Context(), source.ChangeQuery{After: at, Limit: 9}, &behind); err != nil || !slices.Equal(behind.List, c.List[i+1:]) {
				t.Errorf("after %v: %v, %v", at, behind.List, err)
			}
		}
		q := source.ChangeQuery{After: source.Cursor{Modified: "2026-01-01' OR '1", ID: 1}, Limit: 9}
		if err := s.ReadChanges(t.Context(), q, &c); err == nil {
			t.Error("a cursor that is not a time was accepted")
		}
	}
}

func TestAnIndexOnModifiedMayComeAndGo(t *testing.T) {
	eachProduct(t, testAnIndexOnModifiedMayComeAndGo)
}

func testAnIndexOnModifiedMayComeAndGo(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t), func(o *mysql.Options) { o.RefreshEvery = time.Hour })
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME, KEY one (at))")
	b.exec(t, "INSERT INTO t VALUES (1, '2026-01-01')")
	s := b.source.Shard(source.Spec{Table: "t", ID: "id", Modified: "at"})
	var c source.Changes
	readIt := func() error { return s.ReadChanges(t.Context(), source.ChangeQuery{Limit: 9}, &c) }
	if err := readIt(); err != nil || len(c.List) != 1 {
		t.Fatal(c.List, err)
	}
	b.exec(t, "ALTER TABLE t DROP KEY one, ADD KEY two (at, id)")
	if err := readIt(); err != nil || len(c.List) != 1 {
		t.Errorf("by another index: %v, %v", c.List, err)
	}
	b.exec(t, "ALTER TABLE t DROP KEY two")
	must.Fail(t, readIt(), source.ErrUnfit)
}

func TestAModifiedOfAnotherKind(t *testing.T) { eachProduct(t, testAModifiedOfAnotherKind) }

func testAModifiedOfAnotherKind(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t), func(o *mysql.Options) { o.RefreshEvery = time.Nanosecond })
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME, KEY (at))")
	b.exec(t, "INSERT INTO t VALUES (1, '2026-01-02')")
	s := b.source.Shard(source.Spec{Table: "t", ID: "id", Modified: "at"})
	var c source.Changes
	q := source.ChangeQuery{After: source.Cursor{Modified: "2026-01-01 00:00:00"}, Limit: 9}
	if err := s.ReadChanges(t.Context(), q, &c); err != nil || len(c.List) != 1 {
		t.Fatal(c.List, err)
	}
	b.exec(t, "ALTER TABLE t MODIFY at DATE")
	must.Fail(t, s.ReadChanges(t.Context(), q, &c), source.ErrAltered)
}

// A stream whose updates wait for a reconcile is told which column would end that, and the
// statement that is printed makes the index.
func TestStreamWithoutModified(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		b := newBase(t, product.Shared(t))
		for _, test := range []struct {
			name, columns string
			severity      inspect.Severity
			want          string
			statement     bool
		}{
			{"a column that the database sets", "created_at DATETIME, update_time DATETIME, touched TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", inspect.Warning, "X_MODIFIED=touched", true},
			{"one by its name, with an index", "DataChange_CreatedTime TIMESTAMP NULL, DataChange_LastTime TIMESTAMP NULL, KEY (DataChange_LastTime)", inspect.Warning, "X_MODIFIED=DataChange_LastTime", false},
			{"one by its name, without an index", "gmt_create DATETIME, gmt_modified DATETIME", inspect.Warning, "X_MODIFIED=gmt_modified", true},
			{"none", "created_at DATETIME, updated_by VARCHAR(9), last_login DATETIME", inspect.Note, "name it with X_MODIFIED", false},
		} {
			t.Run(test.name, func(t *testing.T) {
				b.replaceTable(t, "states", "(id INT AUTO_INCREMENT PRIMARY KEY, "+test.columns+")")
				check := func(modified string, updates bool) []inspect.Finding {
					spec := source.Spec{Table: "states", ID: "id", Modified: modified}
					return b.source.Inspect(t.Context(), []source.Expected{{Spec: spec, Updates: updates}}, 1).Tables[0].Findings
				}
				found := check("", true)
				if len(found) != 1 || found[0].Code != inspect.NoModified || found[0].Severity != test.severity ||
					!strings.Contains(found[0].Named(full).Do, test.want) || (found[0].Statement != "") != test.statement {
					t.Fatalf("found %+v", found)
				}
				if test.statement {
					b.exec(t, found[0].Statement)
				}
				if _, column, ok := strings.Cut(found[0].Named(full).Do, full(option.Modified)+"="); ok {
					column, _, _ = strings.Cut(column, ",")
					for _, f := range check(column, true) {
						if f.Code == inspect.NoModified || f.Code == inspect.ModifiedIndex {
							t.Errorf("as advised: %v", f)
						}
					}
				}
				if found := check("", false); len(found) != 0 {
					t.Errorf("facts: %v", found)
				}
			})
		}
	})
}

// A condition that reads the clock reads UTC, whatever the zone of the server, and a check says so
// where the streams or the server have another one.
func TestFilterReadsTheClockInUTC(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		server := product.Shared(t)
		root := server.Root(t)
		t.Cleanup(func() {
			if _, err := root.Exec("SET GLOBAL time_zone = 'SYSTEM'"); err != nil {
				t.Error(err)
			}
		})
		b := newBase(t, server)
		b.exec(t, "SET GLOBAL time_zone = '+08:00'")
		b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, due DATETIME(6), stamp TIMESTAMP(6) NULL)")
		b.exec(t, "INSERT INTO t (due, stamp) VALUES (UTC_TIMESTAMP() - INTERVAL 1 HOUR, NOW() - INTERVAL 1 HOUR), (UTC_TIMESTAMP() + INTERVAL 1 HOUR, NOW() + INTERVAL 1 HOUR)")
		s := open(t, server.URL("", "", b.name))
		for _, filter := range []string{"due <= NOW()", "stamp <= now()", "due <= UTC_TIMESTAMP()", "CURRENT_TIMESTAMP >= stamp"} {
			p := sourcetest.Read(t, s.Shard(source.Spec{Table: "t", ID: "id", Filter: filter}), source.Query{Limit: 9})
			if len(p.Rows) != 2 || p.Rows[0].Filtered || !p.Rows[1].Filtered {
				t.Errorf("%s: %v", filter, p.Rows)
			}
		}
		for _, c := range []struct {
			filter string
			zone   *time.Location
			found  int
		}{
			{"due <= NOW()", time.FixedZone("eight", 8*3600), 1},
			{"due <= current_timestamp", nil, 1},
			{"due <= UTC_TIMESTAMP()", nil, 0},
			{"CONCAT(id) <> 'NOW()' AND id > 0", nil, 0},
		} {
			spec := source.Spec{Table: "t", ID: "id", Filter: c.filter}
			found := s.Inspect(t.Context(), []source.Expected{{Spec: spec, Zone: c.zone}}, 1).Tables[0].Findings
			if len(found) != c.found || c.found == 1 && (found[0].Code != inspect.TimeZone || found[0].Severity != inspect.Warning) {
				t.Errorf("%s: found %v", c.filter, found)
			}
		}
	})
}
