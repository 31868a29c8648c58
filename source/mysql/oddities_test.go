package mysql_test

import (
	"errors"
	"strings"
	"testing"

	"bridge/source"
	"bridge/source/mysql"
	"bridge/tests/testenv"
)

func TestTheNextIDOfATableThatNobodyHasOpened(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		server := product.Start(t)
		b := newBase(t, server)
		b.exec(t, "CREATE TABLE fresh (id INT AUTO_INCREMENT PRIMARY KEY)")
		b.exec(t, "CREATE TABLE emptied (id INT AUTO_INCREMENT PRIMARY KEY); INSERT INTO emptied VALUES (5); TRUNCATE TABLE emptied")
		b.exec(t, "CREATE TABLE filled (id INT AUTO_INCREMENT PRIMARY KEY); INSERT INTO filled VALUES (5)")
		expect := func(table string, want uint64) {
			t.Helper()
			if next, err := b.source.Shard(source.Spec{Table: table, ID: "id"}).NextID(t.Context()); err != nil || next != want {
				t.Errorf("next id of %s: %d, %v; want %d", table, next, err, want)
			}
		}
		expect("fresh", 1)
		expect("emptied", 1)
		server.Stop()
		server.Start(t)
		expect("filled", 6)
	})
}

func TestAReplicaThatIsNotReadOnly(t *testing.T) {
	server := testenv.StartMySQL(t, "--performance-schema=ON")
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY)")
	b.exec(t, "CREATE USER reader@'%' IDENTIFIED BY 'p'; GRANT SELECT ON "+b.name+".* TO reader@'%'")
	look := func() (traits source.Traits, summary string) {
		t.Helper()
		s := open(t, server.URL("reader", "p", b.name))
		traits, err := s.Shard(source.Spec{Table: "t", ID: "id"}).Traits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return traits, s.Inspect(t.Context(), nil, 1).Server.Summary
	}
	if traits, summary := look(); !traits.Writer || !strings.Contains(traits.WriterWhy, "may not see") || !strings.Contains(summary, "SELECT on performance_schema.replication_connection_configuration") {
		t.Errorf("without the privilege: %+v, %s", traits, summary)
	}
	b.exec(t, "GRANT SELECT ON performance_schema.replication_connection_configuration TO reader@'%'")
	if traits, summary := look(); !traits.Writer || strings.Contains(traits.WriterWhy, "may not see") || !strings.Contains(summary, "takes the writes") {
		t.Errorf("a server that copies from none: %+v, %s", traits, summary)
	}
	change := "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'nobody'"
	b.exec(t, change)
	if traits, summary := look(); traits.Writer || traits.Evidence || !strings.Contains(summary, "a replica") || !strings.Contains(summary, "may not see whether it runs") {
		t.Errorf("a replica: %+v, %s", traits, summary)
	}
	b.exec(t, "GRANT REPLICATION CLIENT ON *.* TO reader@'%'")
	if traits, summary := look(); traits.Writer || !strings.Contains(traits.WriterWhy, "channel that is stopped") || !strings.Contains(summary, "channel that is stopped") {
		t.Errorf("a replica that is stopped: %+v, %s", traits, summary)
	}
	b.exec(t, "START REPLICA")
	if traits, summary := look(); traits.Writer || !strings.Contains(traits.WriterWhy, "copies from another") || strings.Contains(summary, "stopped") {
		t.Errorf("a replica that runs: %+v, %s", traits, summary)
	}
	b.exec(t, "STOP REPLICA; RESET REPLICA ALL")
	if traits, summary := look(); !traits.Writer || !strings.Contains(summary, "takes the writes") {
		t.Errorf("a server that was promoted: %+v, %s", traits, summary)
	}
}

// What can be selected and is not listed has no type that could be known: check and run say the
// same.
func TestAColumnThatIsNotListed(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	b.exec(t, "CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(9) NOT NULL) WITH SYSTEM VERSIONING")
	for _, test := range []struct {
		setting string
		spec    source.Spec
	}{
		{"ID", source.Spec{ID: "row_start"}},
		{"KEY", source.Spec{ID: "id", Key: []string{"row_end"}, UniqueKey: true}},
		{"CREATED", source.Spec{ID: "id", Created: "row_start"}},
		{"MODIFIED", source.Spec{ID: "id", Modified: "ROW_START"}},
		{"FIELDS", source.Spec{ID: "id", Fields: []string{"row_end"}}},
	} {
		t.Run(test.setting, func(t *testing.T) {
			test.spec.Table = "t"
			found := b.source.Inspect(t.Context(), []source.Expected{{Spec: test.spec, Updates: true}}, 1).Tables[0].Findings
			if len(found) != 1 || found[0].Code != "no-column" || !strings.Contains(found[0].What, "hidden column") || !strings.Contains(found[0].What, test.setting) {
				t.Errorf("found %v", found)
			}
			err := b.source.Shard(test.spec).Read(t.Context(), source.Query{Limit: 1}, new(source.Page))
			if !errors.Is(err, source.ErrMissing) || !strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), test.setting) {
				t.Errorf("read: %v", err)
			}
		})
	}
}

func TestAColumnThatIsAddedMeanwhile(t *testing.T) {
	b := newBase(t, testenv.MariaDB(t))
	b.exec(t, "CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY)")
	found, err := mysql.InspectWhile(t.Context(), b.source, source.Spec{Table: "t", ID: "id", Created: "at"}, func() {
		b.exec(t, "ALTER TABLE t ADD at TIMESTAMP(6) NOT NULL")
	})
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}
