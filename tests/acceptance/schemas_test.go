package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/bridge/tests/testall"
	"example.org/bridge/tests/testenv"
	"example.org/bridge/tests/world"
)

// TestSchemasOfOthers publishes every table of Apollo, Nacos and XXL-JOB that numbers its rows, as
// a stream of states and as one of facts: check finds nothing that stops one, verify nothing that
// differs.
func TestSchemasOfOthers(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	for _, name := range []string{"apollo", "nacos", "xxl-job"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSchemaOf(t, name)
			for _, g := range answered(t, s.daemon.Env).findings() {
				if g.Severity == "unsafe" {
					t.Errorf("check finds %+v", g)
				}
			}
			s.daemon.Start()
			s.published()
			if r := world.Verify(t, s.daemon.Env); !r.Good {
				t.Errorf("bridge verify: %+v", r)
			}
		})
	}
}

// schemaRows is how many rows each table has.
const schemaRows = 5

// schemaOf is a database with the tables of a schema, and the program that publishes them.
type schemaOf struct {
	*testing.T
	world  *world.World
	bus    *world.Bus
	topic  string
	daemon *world.Daemon
	tables []*schemaTable
}

// schemaTable is a table with a column that counts its rows.
type schemaTable struct {
	name, id string
	// key are the columns of its unique index, none where it has none.
	key     []string
	columns []schemaColumn
}

type schemaColumn struct{ name, kind, length, nullable string }

func newSchemaOf(t *testing.T, name string) *schemaOf {
	s := &schemaOf{T: t, world: world.Empty(t, testenv.MariaDB(t)), bus: world.NATSBus(testenv.NATS(t))}
	text, err := os.ReadFile(filepath.Join("testdata", "schemas", name+".sql"))
	check(t, err)
	for _, statement := range strings.Split(string(text), ";\n") {
		if strings.Contains(statement, "CREATE TABLE") {
			s.world.Exec(statement)
		}
	}
	s.topic = s.world.Name + "_all"
	destination := s.bus.Open(t, s.topic)
	e := s.bus.Env().With(world.Env{
		"BRIDGE_SOURCE_URL": s.world.URL, "BRIDGE_STABILITY_WINDOW": "0s", "BRIDGE_POLL_INTERVAL": "100ms", "BRIDGE_RECONCILE_INTERVAL": "1h",
	})
	var streams []string
	for _, table := range s.read() {
		s.fill(table)
		for _, kind := range []string{"capability", "release"} {
			stream := strings.ToLower(strings.ReplaceAll(table.name, "-", "_")) + "_" + kind[:3]
			streams = append(streams, stream)
			settings := world.Env{"TABLE": table.name, "KIND": kind, "ID": table.id, "DESTINATION": destination, "EVENT": "E"}
			if kind == "capability" {
				settings["KEY"] = strings.Join(table.key, ",")
				for setting, column := range map[string]string{"DELETED": "IsDeleted", "MODIFIED": "DataChange_LastTime"} {
					if table.has(column) {
						settings[setting] = column
					}
				}
			}
			e = e.With(world.StreamEnv(stream, settings))
		}
	}
	e["BRIDGE_STREAMS"] = strings.Join(streams, ",")
	s.daemon = world.NewDaemon(t, world.Binary(t, false), e)
	return s
}

func (t *schemaTable) has(column string) bool {
	return slices.ContainsFunc(t.columns, func(c schemaColumn) bool { return c.name == column })
}

// read reads what tables there are.
func (s *schemaOf) read() []*schemaTable {
	var table, column, kind, length, nullable, extra string
	s.world.Each("SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), IS_NULLABLE, EXTRA FROM information_schema.COLUMNS "+
		"WHERE TABLE_SCHEMA = DATABASE() ORDER BY TABLE_NAME, ORDINAL_POSITION", []any{&table, &column, &kind, &length, &nullable, &extra}, func() {
		if n := len(s.tables); n == 0 || s.tables[n-1].name != table {
			s.tables = append(s.tables, &schemaTable{name: table})
		}
		last := s.tables[len(s.tables)-1]
		last.columns = append(last.columns, schemaColumn{column, kind, length, nullable})
		if strings.Contains(extra, "auto_increment") {
			last.id = column
		}
	})
	for _, t := range s.tables {
		s.world.Each("SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '"+t.name+
			"' AND NON_UNIQUE = 0 AND INDEX_NAME <> 'PRIMARY' ORDER BY SEQ_IN_INDEX", []any{&column}, func() { t.key = append(t.key, column) })
	}
	return s.tables
}

// fill inserts rows: of the columns that may be NULL, those outside a key are so in the last row.
func (s *schemaOf) fill(t *schemaTable) {
	for row := 1; row <= schemaRows; row++ {
		var names, values []string
		for i, c := range t.columns {
			value := ""
			switch c.kind {
			case "varchar", "char", "text", "mediumtext", "longtext":
				value = fmt.Sprintf("LEFT('%d配置 \"%s\" line\\n%d', %s)", row, c.name, i, c.length)
			case "datetime", "timestamp":
				value = fmt.Sprintf("'2026-0%d-02 03:04:05'", row)
			case "bit":
				value = "b'0'"
			case "tinyint":
				value = fmt.Sprint(row)
			default:
				value = fmt.Sprint(1000*row + i)
			}
			switch {
			case c.name == t.id, c.name == "DataChange_LastTime":
				continue
			case c.name == "DeletedAt":
				value = "0"
			case row == schemaRows && c.nullable == "YES" && !slices.Contains(t.key, c.name):
				value = "NULL"
			}
			names, values = append(names, "`"+c.name+"`"), append(values, value)
		}
		s.world.Exec(fmt.Sprintf("INSERT INTO `%s` (%s) VALUES (%s)", t.name, strings.Join(names, ", "), strings.Join(values, ", ")))
	}
}

// published waits for the rows of all tables, and fails the test unless each stream has them once.
func (s *schemaOf) published() {
	s.Helper()
	rows := make(map[string]int)
	world.Eventually(s, time.Minute, "all rows are published", func() bool {
		clear(rows)
		all := s.bus.ReadAll(s.T, s.topic)
		for _, m := range all {
			rows[m.Headers["bridge-stream"]]++
		}
		return len(all) >= 2*len(s.tables)*schemaRows
	})
	for stream, n := range rows {
		if n != schemaRows {
			s.Errorf("%s: %d events for %d rows", stream, n, schemaRows)
		}
	}
}
