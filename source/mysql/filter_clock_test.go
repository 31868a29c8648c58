package mysql_test

import (
	"testing"
	"time"

	"bridge/internal/inspect"
	"bridge/source"
	"bridge/tests/testenv"
)

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
			p := read(t, s.Shard(source.Spec{Table: "t", ID: "id", Filter: filter}), source.Query{Limit: 9})
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
