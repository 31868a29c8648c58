package mysql_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"bridge/source"
	"bridge/tests/testenv"
)

func TestTraitsOfARealServer(t *testing.T) { eachProduct(t, testTraitsOfARealServer) }

func testTraitsOfARealServer(t *testing.T, product testenv.Product) {
	server := product.Start(t)
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50) NOT NULL UNIQUE, at DATETIME)")
	grants, change, start, stop := []string{"SELECT ON t"}, "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='nobody'", "START SLAVE", "STOP SLAVE; RESET SLAVE ALL"
	if product.IsMySQL() {
		// Without this privilege MySQL does not tell.
		grants = append(grants, "REPLICATION CLIENT ON *.*")
		change = "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, SOURCE_USER='nobody'"
		start, stop = "START REPLICA", "STOP REPLICA; RESET REPLICA ALL"
	}
	s := b.login(t, grants...).Shard(source.Spec{Table: "t", ID: "id", Key: []string{"name"}, UniqueKey: true, Modified: "at"})
	expect := func(t *testing.T, writer bool, why string) {
		t.Helper()
		traits, err := s.Traits(t.Context())
		if err != nil || traits.Writer != writer || !strings.Contains(traits.WriterWhy, why) {
			t.Errorf("writer %t because %q, %v; want %t because of %q", traits.Writer, traits.WriterWhy, err, writer, why)
		}
		if page := read(t, s, source.Query{Limit: 1}); traits.Server != page.Server || traits.Evidence != writer || !traits.Uncommitted {
			t.Errorf("evidence %t (%s) of %q, the page is from %q", traits.Evidence, traits.EvidenceWhy, traits.Server, page.Server)
		}
	}
	t.Run("it is the writer", func(t *testing.T) { expect(t, true, "copies from no other") })
	t.Run("while it is read-only it is not, and another server for all who read", func(t *testing.T) {
		writer := read(t, s, source.Query{Limit: 1}).Server
		b.exec(t, "SET GLOBAL read_only = ON")
		expect(t, false, "read_only")
		if now := read(t, s, source.Query{Limit: 1}).Server; now == writer {
			t.Errorf("the replica is still taken for %q", now)
		}
		b.exec(t, "SET GLOBAL read_only = OFF")
		if now := read(t, s, source.Query{Limit: 1}).Server; now != writer {
			t.Errorf("the writer is taken for %q, not for %q", now, writer)
		}
	})
	t.Run("while it becomes read-only and back again and again, no answer takes the writer for a replica", func(t *testing.T) {
		writer := read(t, s, source.Query{Limit: 1}).Server
		ctx, cancel := context.WithCancel(t.Context())
		var switching sync.WaitGroup
		switching.Go(func() {
			for ctx.Err() == nil {
				// The next subtest would fail where one of these does.
				_, _ = b.admin.Exec("SET GLOBAL read_only = ON")
				_, _ = b.admin.Exec("SET GLOBAL read_only = OFF")
			}
		})
		for range 100 {
			traits, err := s.Traits(t.Context())
			if err != nil || traits.Server == writer && !traits.Evidence {
				t.Errorf("%q is taken for a replica: %+v, %v", writer, traits, err)
				break
			}
		}
		cancel()
		switching.Wait()
		expect(t, true, "copies from no other")
	})
	t.Run("a shard that has read nothing takes what another one has just read", func(t *testing.T) {
		lists := func(ask source.Shard) string {
			before := b.status(t, "Com_show_variables")
			traits, err := ask.Traits(t.Context())
			if err != nil || !traits.Writer || !traits.Evidence {
				t.Errorf("%+v, %v", traits, err)
			}
			return before + " " + b.status(t, "Com_show_variables")
		}
		same := func(counts string) bool { before, after, _ := strings.Cut(counts, " "); return before == after }
		others := open(t, server.URL("", "", b.name))
		spec := source.Spec{Table: "t", ID: "id"}
		// On a busy machine a second is soon over.
		eventually(t, func() bool {
			first := lists(others.Shard(spec))
			second := lists(others.Shard(spec))
			return !same(first) && same(second)
		})
		one := others.Shard(spec)
		read(t, one, source.Query{Limit: 1})
		for range 2 {
			if same(lists(one)) {
				t.Error("a shard that has read a page did not ask")
			}
		}
	})
	t.Run("what is in flight there shows while it is read-only, too", func(t *testing.T) {
		tx := begin(t, b)
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO t (id, name) VALUES (7, 'open')"); err != nil {
			t.Fatal(err)
		}
		b.exec(t, "SET GLOBAL read_only = ON")
		defer b.exec(t, "SET GLOBAL read_only = OFF")
		expectIDs(t, readIDs(t, s, true, source.Range{First: 1, Last: 9}), 7)
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("while it copies from another server it is not", func(t *testing.T) {
		b.exec(t, change)
		b.exec(t, start)
		defer b.exec(t, stop)
		eventually(t, func() bool {
			traits, err := s.Traits(t.Context())
			return err == nil && !traits.Writer && strings.Contains(traits.WriterWhy, "copies from another")
		})
	})
}

// One node is a cluster, too: its session must take the setting, wait, and go back.
func TestKeysWaitForAGaleraCluster(t *testing.T) {
	const library = "/usr/lib/galera/libgalera_smm.so"
	if _, err := os.Stat(library); err != nil {
		t.Skipf("Galera is not installed: %v", err)
	}
	server := testenv.StartMariaDB(t, "--wsrep-on=ON", "--wsrep-provider="+library, "--wsrep-cluster-address=gcomm://", "--binlog-format=ROW",
		"--innodb-autoinc-lock-mode=2", "--wsrep-node-address=127.0.0.1", "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:0;ist.recv_addr=127.0.0.1:0")
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50) NOT NULL UNIQUE)")
	b.exec(t, "INSERT INTO t VALUES (1, 'a')")
	source1 := b.login(t, "SELECT ON t")
	s := source1.Shard(source.Spec{Table: "t", ID: "id", Key: []string{"name"}, UniqueKey: true})
	traits, err := s.Traits(t.Context())
	if err != nil || !traits.Writer || !strings.Contains(traits.WriterWhy, "wsrep_sync_wait") || traits.Evidence {
		t.Errorf("traits %+v, %v", traits, err)
	}
	waits := func() string {
		return b.query(t, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_causal_reads'")
	}
	before := waits()
	if ids, _ := byKey(t, s, texts("a"), texts("b")); !slices.Equal(ids, []uint64{1}) {
		t.Errorf("keys find %d", ids)
	}
	between := waits()
	read(t, s, source.Query{Limit: 9})
	if after := waits(); before == between || between != after {
		t.Errorf("causal reads: %s, after a read by keys %s, after a page %s", before, between, after)
	}
}
