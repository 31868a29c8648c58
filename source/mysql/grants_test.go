package mysql_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/internal/option"
	"example.org/bridge/source"
	"example.org/bridge/source/mysql"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

const secret = "s3cret-pässword/@"

func (b base) login(t *testing.T, grants ...string) *mysql.Source {
	t.Helper()
	user := strings.ReplaceAll(b.name, "bridge_test", "u")
	b.replaceUser(t, user+"@'%'", secret)
	root := b.server.Root(t)
	t.Cleanup(func() {
		if _, err := root.Exec("DROP USER " + user + "@'%'"); err != nil {
			t.Error(err)
		}
	})
	for _, grant := range grants {
		b.exec(t, "GRANT "+grant+" TO "+user+"@'%'")
	}
	return b.open(t, b.server.URL(user, secret, b.name))
}

func TestGrants(t *testing.T) { eachProduct(t, testGrants) }

func testGrants(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name TEXT, doc JSON, at DATETIME)")
	b.exec(t, "INSERT INTO t (name, doc) VALUES ('a', '{}')")
	b.exec(t, "CREATE TABLE other (id INT PRIMARY KEY)")
	spec := source.Spec{Table: "t", ID: "id", Created: "at"}
	t.Run("SELECT on the table is all that is needed, and is needed while running", func(t *testing.T) {
		s := b.login(t, "SELECT ON t").Shard(spec)
		p := sourcetest.Read(t, s, source.Query{Limit: 9})
		if len(p.Rows) != 1 || len(p.Columns.List) != 4 || p.Columns.List[2].Kind != source.JSON || p.MaxID != 1 {
			t.Fatalf("%d rows, columns %+v", len(p.Rows), p.Columns)
		}
		if next, err := s.NextID(t.Context()); err != nil || next != 2 {
			t.Fatalf("next id %d, %v", next, err)
		}
		user := strings.ReplaceAll(b.name, "bridge_test", "u") + "@'%'"
		b.exec(t, "REVOKE SELECT ON t FROM "+user)
		sourcetest.Refused(t, s, source.ErrDenied)
		must.Fail(t, must.Err(s.NextID(t.Context())), source.ErrDenied)
		b.exec(t, "GRANT SELECT ON t TO "+user)
		sourcetest.Holds(t, s, 1)
		b.exec(t, "ALTER TABLE t ADD more INT")
		if p, log := sourcetest.Read(t, s, source.Query{Limit: 9}), b.log.Drain(); len(p.Columns.List) != 5 || strings.Contains(log, "left out") {
			t.Errorf("behind the GRANT and a new column: columns %+v, log %q", p.Columns.List, log)
		}
		b.exec(t, "ALTER TABLE t DROP more")
	})
	t.Run("a column that EXCLUDE names need not be granted", func(t *testing.T) {
		src := b.login(t, "SELECT (id, name, at) ON t", "INSERT (doc) ON t")
		sp := source.Spec{Table: "t", ID: "id", Exclude: []string{"doc"}}
		if p := sourcetest.Read(t, src.Shard(sp), source.Query{Limit: 9}); len(p.Rows) != 1 || len(p.Columns.List) != 3 {
			t.Fatalf("%d rows, columns %+v", len(p.Rows), p.Columns)
		}
		// Nothing tells whether doc is the only one.
		found := src.Inspect(t.Context(), []source.Expected{{Spec: sp}}, 1).Tables[0].Findings
		if len(found) != 1 || found[0].Code != inspect.HiddenColumns || found[0].Severity != inspect.Note || !strings.Contains(found[0].What, "may read id, name, at") {
			t.Errorf("found %v", found)
		}
		sp.Exclude = []string{"docs"}
		err := b.source.Shard(sp).Read(t.Context(), source.Query{Limit: 9}, new(source.Page))
		found = b.source.Inspect(t.Context(), []source.Expected{{Spec: sp}}, 1).Tables[0].Findings
		if !errors.Is(err, source.ErrMissing) || len(found) != 1 || found[0].Code != inspect.NoColumn {
			t.Errorf("a column that is not there: %v, found %v", err, found)
		}
	})
	t.Run("columns that are neither granted nor named are told, until they are granted", func(t *testing.T) {
		src := b.login(t, "SELECT (id, name) ON t", "INSERT ON t")
		sp := source.Spec{Table: "t", ID: "id"}
		inspected := func() []inspect.Finding {
			return src.Inspect(t.Context(), []source.Expected{{Spec: sp}}, 1).Tables[0].Findings
		}
		var grant string
		for _, c := range []struct {
			exclude  []string
			severity inspect.Severity
			read     string
		}{{[]string{"doc"}, inspect.Note, "id,name"}, {[]string{"name"}, inspect.Warning, "id"}, {nil, inspect.Warning, "id,name"}} {
			sp.Exclude = c.exclude
			found := inspected()
			if len(found) != 1 || found[0].Code != inspect.HiddenColumns || found[0].Severity != c.severity || !strings.Contains(found[0].What, "may read id, name") {
				t.Fatalf("EXCLUDE=%s: found %v", c.exclude, found)
			}
			grant = found[0].Statement
			b.log.Drain()
			s := src.Shard(sp)
			for range 2 {
				if p := sourcetest.Read(t, s, source.Query{Limit: 9}); len(p.Columns.List) != 1+strings.Count(c.read, ",") {
					t.Errorf("EXCLUDE=%s: columns %+v", c.exclude, p.Columns)
				}
			}
			if got := b.log.Drain(); strings.Count(got, "columns that the login may not read are left out") != 1 || !strings.Contains(got, "read="+c.read+" ") {
				t.Errorf("EXCLUDE=%s: log %q", c.exclude, got)
			}
		}
		sp.Fields = []string{"name"}
		if found := inspected(); len(found) != 0 {
			t.Errorf("with FIELDS: %v", found)
		}
		b.exec(t, grant)
		sp.Fields = nil
		if found := inspected(); len(found) != 0 {
			t.Errorf("after the GRANT: %v", found)
		}
	})
	for name, grants := range map[string][]string{
		"no grant at all": nil, "no SELECT among the grants": {"SELECT ON other", "INSERT ON t"}, "no grant on a column that is named": {"SELECT (id) ON t"},
	} {
		t.Run(name+" is denied, and the grant that the error shows is enough", func(t *testing.T) {
			s := b.login(t, grants...).Shard(spec)
			err := s.Read(t.Context(), source.Query{Limit: 9}, new(source.Page))
			_, statement, ok := strings.Cut(fmt.Sprint(err), "run: ")
			if !errors.Is(err, source.ErrDenied) || !ok || strings.Contains(err.Error(), secret) {
				t.Fatalf("error %v", err)
			}
			b.exec(t, statement)
			sourcetest.Holds(t, s, 1)
		})
	}
	for _, table := range []string{"x`y", "no.t"} {
		t.Run("a table that nobody knows is denied by MariaDB, missing in MySQL: "+table, func(t *testing.T) {
			err := b.login(t).Shard(source.Spec{Table: table, ID: "id"}).Read(t.Context(), source.Query{Limit: 9}, new(source.Page))
			want, advice := source.ErrDenied, map[string]string{"x`y": ".`x``y` TO '", "no.t": "GRANT SELECT ON `no`.`t` TO '"}[table]
			if product.IsMySQL() {
				want, advice = source.ErrMissing, "create the table"
			}
			must.Fail(t, err, want, advice)
		})
	}
	t.Run("SELECT on columns reads those, in the form that they have with SELECT on the table", func(t *testing.T) {
		b.exec(t, "ALTER TABLE t ADD list LONGTEXT CHARACTER SET latin1 CHECK (json_valid(list)), ADD plain LONGTEXT, ADD CONSTRAINT x CHECK (json_valid(plain))")
		all := sourcetest.Read(t, b.source.Shard(source.Spec{Table: "t", ID: "id", Fields: []string{"at", "doc", "list", "plain"}}), source.Query{Limit: 9}).Columns.List
		p := sourcetest.Read(t, b.login(t, "SELECT (id, doc, at, list, plain) ON t").Shard(spec), source.Query{Limit: 9})
		if len(p.Rows) != 1 || len(p.Columns.List) != 5 || !slices.Equal(p.Columns.List, all) || all[1].Kind != source.JSON || all[4].Kind != source.Text {
			t.Fatalf("%d rows, columns %+v, with the table %+v", len(p.Rows), p.Columns.List, all)
		}
		if want := map[bool]source.Kind{true: source.Text, false: source.JSON}[product.IsMySQL()]; all[3].Kind != want {
			t.Errorf("a LONGTEXT with a CHECK is read as %+v", all[3])
		}
	})
}

func TestLogin(t *testing.T) { eachProduct(t, testLogin) }

func testLogin(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t))
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY)")
	b.login(t, "SELECT ON t")
	user := strings.ReplaceAll(b.name, "bridge_test", "u")
	password := "wrong-" + secret
	var broken error
	s := open(t, b.server.URL(user, "", b.name), func(o *mysql.Options) {
		o.Password = func() (string, string, error) { return user, password, broken }
	})
	shard := s.Shard(source.Spec{Table: "t", ID: "id"})
	transient := func(t *testing.T, want string) {
		t.Helper()
		for _, err := range []error{s.Ready(t.Context()), shard.Read(t.Context(), source.Query{Limit: 1}, new(source.Page))} {
			if sourcetest.Transient(t, err, nil); !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
				t.Fatalf("error %v, want one with %q", err, want)
			}
		}
	}
	transient(t, "Access denied for user")
	password = secret
	sourcetest.Read(t, shard, source.Query{Limit: 1})
	b.server.SetPassword(t, user, "rotated")
	b.killConnections(t, user)
	transient(t, "Access denied for user")
	password = "rotated"
	sourcetest.Read(t, shard, source.Query{Limit: 1})
	b.killConnections(t, user)
	broken = errors.New("secret file is gone")
	transient(t, "secret file is gone")
}

func (b base) killConnections(t *testing.T, user string) {
	t.Helper()
	b.server.KillConnections(t, user)
	eventually(t, func() bool {
		return b.query(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = ?", user) == "0"
	})
}

// TestUnfitTables has tables with what the tail says of them, empty for those that it reads. A
// check says the same, and the statement that is printed heals the table. The server refuses a
// unique index that lacks a column by which the partitions go (1503): nobody is told to make one.
func TestUnfitTables(t *testing.T) { eachProduct(t, testUnfitTables) }

func testUnfitTables(t *testing.T, product testenv.Product) {
	b := newBase(t, product.Shared(t), refreshAlways)
	hidden := ignored(product)
	const days, noIndex = "(id BIGINT NOT NULL AUTO_INCREMENT, day DATE NOT NULL, name VARCHAR(9) NOT NULL, PRIMARY KEY (id, day))" + byDay, "must have day, the columns of its partitioning"
	for name, c := range map[string]struct {
		definition string
		spec       source.Spec
		want       string
	}{
		"the id is a text":            {"(id VARCHAR(20) PRIMARY KEY)", source.Spec{}, "not an integer"},
		"the id has no index":         {"(id INT NOT NULL)", source.Spec{}, "name another column with X_ID, or let"},
		"the id is second in its key": {"(id INT AUTO_INCREMENT, b INT, PRIMARY KEY (b, id), KEY (id))", source.Spec{}, "ADD UNIQUE KEY (`id`)"},
		"the id's index is ignored":   {"(pk INT PRIMARY KEY, id INT NOT NULL, UNIQUE KEY u (id) " + hidden + ")", source.Spec{}, "no unique index over its id"},
		"the id may be NULL":          {"(id INT NULL, UNIQUE KEY (id))", source.Spec{}, "NOT NULL"},
		"CREATED is an integer":       {"(id INT PRIMARY KEY, c BIGINT)", source.Spec{Created: "c"}, "correct X_CREATED"},
		"MODIFIED is a text":          {"(id INT PRIMARY KEY, c TEXT)", source.Spec{Modified: "c"}, "correct X_MODIFIED"},
		"the KEY has no index":        {"(id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL)", states("a", "b"), "ADD UNIQUE KEY (`a`, `b`)"},
		"the KEY of facts has none":   {"(id INT PRIMARY KEY, a INT)", source.Spec{Key: []string{"a"}}, ""},
		"the KEY in another order":    {"(id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, UNIQUE KEY (b, a))", states("A", "b"), ""},
		"a part of the KEY is unique": {"(id INT PRIMARY KEY, a INT NOT NULL, b INT, UNIQUE KEY (a))", states("a", "b"), ""},
		"a prefix of it is unique":    {"(id INT PRIMARY KEY, a VARCHAR(200) NOT NULL, UNIQUE KEY (a(9)))", states("a"), ""},
		"the id begins its key":       {"(id INT AUTO_INCREMENT, b INT, PRIMARY KEY (id, b))", source.Spec{}, ""},
		"days, the id not counted":    {"(id BIGINT NOT NULL, day DATE NOT NULL, PRIMARY KEY (id, day))" + byDay, source.Spec{}, noIndex},
		"days, the id second":         {"(id BIGINT NOT NULL AUTO_INCREMENT, day DATE NOT NULL, PRIMARY KEY (day, id), KEY (id))" + byDay, source.Spec{}, noIndex},
		"days, KEY without the day":   {days, states("name"), noIndex},
		"days, KEY with the day":      {days, states("name", "day"), "ADD UNIQUE KEY (`name`, `day`)"},
		"partitions by the id":        {"(id BIGINT NOT NULL, KEY (id)) PARTITION BY HASH (id) PARTITIONS 2", source.Spec{}, "ADD UNIQUE KEY (`id`)"},
	} {
		t.Run(name, func(t *testing.T) {
			b.replaceTable(t, "fit", c.definition)
			c.spec.Table, c.spec.ID = "fit", "id"
			if c.want == "" {
				sourcetest.Read(t, b.source.Shard(c.spec), source.Query{Limit: 1})
				return
			}
			err := b.source.Shard(c.spec).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
			text := option.Text(err, full)
			if !errors.Is(err, source.ErrUnfit) || !strings.Contains(text, c.want) || c.want == noIndex && strings.Contains(text, "ADD UNIQUE KEY") {
				t.Fatalf("error %q, want one with %q", text, c.want)
			}
			found := b.source.Inspect(t.Context(), []source.Expected{{Spec: c.spec}}, 1).Tables[0].Findings
			if at := slices.IndexFunc(found, inspect.Finding.Blocks); at < 0 || !strings.HasSuffix(err.Error(), found[at].String()) {
				t.Errorf("a check says %v, the tail %v", found, err)
			}
			if _, statement, ok := strings.Cut(err.Error(), "run: "); ok {
				b.exec(t, statement)
				sourcetest.Read(t, b.source.Shard(c.spec), source.Query{Limit: 1})
			}
		})
	}
	t.Run("a name that could end a text", func(t *testing.T) {
		const name = `it\' OR 'a'='\`
		b.replaceTable(t, "`"+name+"`", "(id INT AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL UNIQUE, c INT AS (a + 1) STORED)")
		spec := source.Spec{Table: name, ID: "id", Key: []string{"a"}, UniqueKey: true}
		sourcetest.Read(t, b.source.Shard(spec), source.Query{Limit: 1})
		if found := b.source.Inspect(t.Context(), []source.Expected{{Spec: spec}}, 1).Tables[0].Findings; len(found) > 0 {
			t.Errorf("found %v", found)
		}
	})
	t.Run("a view", func(t *testing.T) {
		b.replaceTable(t, "fit", "(id INT PRIMARY KEY)")
		b.exec(t, "CREATE VIEW v AS SELECT * FROM fit")
		err := b.source.Shard(source.Spec{Table: "v", ID: "id"}).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
		if !errors.Is(err, source.ErrUnfit) || !strings.Contains(err.Error(), "the table behind it") || strings.Contains(err.Error(), "run:") {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("a table without a database", func(t *testing.T) {
		s := open(t, b.server.URL("", "", "")).Shard(source.Spec{Table: "fit", ID: "id"})
		sourcetest.Refused(t, s, source.ErrMissing, "database.table")
		must.Fail(t, must.Err(s.NextID(t.Context())), source.ErrMissing)
	})
	t.Run("a missing database", func(t *testing.T) {
		sourcetest.Refused(t, b.source.Shard(source.Spec{Table: "nowhere.t", ID: "id"}), source.ErrMissing)
	})
}

func states(key ...string) source.Spec { return source.Spec{Key: key, UniqueKey: true} }

func full(name option.Name) string { return "X_" + string(name) }
