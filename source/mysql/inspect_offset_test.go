package mysql_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"bridge/internal/inspect"
	"bridge/source"
	"bridge/tests/testenv"
)

func TestSessionsInAnotherTimeZone(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	for _, c := range []struct {
		name, zone string
		// column is the type of MODIFIED, want what the finding says, empty for none.
		column, want string
	}{
		{"in that of the stream", "+00:00", "DATETIME(6)", ""},
		{"east of it", "+02:00", "DATETIME(6)", "2h0m0s in the future"},
		{"west of it", "-05:30", "DATETIME", "5h30m0s before CREATED"},
		{"with a TIMESTAMP", "-05:00", "TIMESTAMP(6)", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.exec(t, "DROP TABLE IF EXISTS zoned")
			b.exec(t, "CREATE TABLE zoned (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(9) NOT NULL UNIQUE, created TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), modified "+
				c.column+" NOT NULL, KEY (modified))")
			tx := begin(t, b)
			for _, statement := range []string{"SET time_zone = '" + c.zone + "'", "INSERT INTO zoned (name, modified) VALUES ('a', NOW(6)), ('b', NOW(6)), ('c', NOW(6))", "SET time_zone = DEFAULT"} {
				if _, err := tx.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			spec := source.Spec{Table: "zoned", ID: "id", Key: []string{"name"}, UniqueKey: true, Created: "created", Modified: "modified"}
			found := b.source.Inspect(t.Context(), []source.Expected{{Spec: spec, Updates: true, Zone: time.UTC}}, 1)
			at := slices.IndexFunc(found.Tables[0].Findings, func(f inspect.Finding) bool { return f.Code == inspect.TimeOffset })
			switch {
			case c.want == "" && at >= 0:
				t.Errorf("found %q", found.Tables[0].Findings[at].What)
			case c.want != "" && (at < 0 || !strings.Contains(found.Tables[0].Findings[at].What, c.want)):
				t.Errorf("found %+v, want %q", found.Tables[0].Findings, c.want)
			}
		})
	}
}
