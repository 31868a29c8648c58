package mysql_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"example.org/bridge/internal/inspect"
	"example.org/bridge/source"
	"example.org/bridge/source/sourcetest"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/testenv"
)

// TestOnAServerOfItsOwn has what takes options of the command line, or a restart.
func TestOnAServerOfItsOwn(t *testing.T) {
	eachProduct(t, func(t *testing.T, product testenv.Product) {
		certs := testenv.NewCerts(t)
		args := []string{"--ssl-ca=" + certs.CA, "--ssl-cert=" + certs.ServerCert, "--ssl-key=" + certs.ServerKey}
		if product.IsMySQL() {
			args = append(args, "--performance-schema=ON")
		} else {
			args = append(args, "--plugin-load-add=auth_pam_v1", "--pam-use-cleartext-plugin=ON")
		}
		server := product.Start(t, args...)
		t.Run("TLS is used as the URL asks for it", func(t *testing.T) { testTLS(t, server, certs) })
		t.Run("certificates are read at each connect", func(t *testing.T) { testCertificates(t, server, certs) })
		if product.IsMySQL() {
			t.Run("a replica that is not read-only", func(t *testing.T) { testWritableReplica(t, server) })
		} else {
			t.Run("a password that the server asks for", func(t *testing.T) { testCleartextPassword(t, server) })
		}
		t.Run("traits", func(t *testing.T) { testTraitsOfARealServer(t, product, server) })
		t.Run("the next id of a table that nobody has opened", func(t *testing.T) { testNextIDAfterARestart(t, server) })
	})
}

func testTLS(t *testing.T, server *testenv.DatabaseServer, certs testenv.Certs) {
	admin := server.Root(t)
	for _, statement := range []string{"CREATE USER secure@'%' IDENTIFIED BY 'p' REQUIRE X509", "CREATE USER plain@'%' IDENTIFIED BY 'p'"} {
		must.Get(admin.Exec(statement))(t)
	}
	client := "&tls-cert=" + certs.ClientCert + "&tls-key=" + certs.ClientKey
	for _, test := range []struct {
		name, user, parameters string
		encrypted              bool
		refused                string
	}{
		{"no TLS", "plain", "", false, ""},
		{"a trusted certificate", "plain", "?tls-ca=" + certs.CA, true, ""},
		{"a certificate of an unknown authority", "plain", "?tls=true", false, "certificate"},
		{"a certificate of another authority", "plain", "?tls-ca=" + certs.OtherCA, false, "certificate"},
		{"a certificate that nobody looks at", "plain", "?tls=skip-verify", true, ""},
		{"TLS preferred", "plain", "?tls=preferred", true, ""},
		{"a client without the certificate it needs", "secure", "?tls-ca=" + certs.CA, false, "Access denied"},
		{"a client with its certificate", "secure", "?tls-ca=" + certs.CA + client, true, ""},
	} {
		got, err := open(t, server.URL(test.user, "p", "")+test.parameters).Query(t.Context(), "SHOW SESSION STATUS LIKE 'Ssl_cipher'", "Value")
		switch {
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.refused)
		case test.refused == "" && (err != nil || len(got) != 1 || (got[0] != "") != test.encrypted):
			t.Errorf("%s: cipher %q, %v", test.name, got, err)
		}
	}
}

func testCertificates(t *testing.T, server *testenv.DatabaseServer, certs testenv.Certs) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	use := func(from string) {
		pem, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(ca, pem, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	use(certs.CA)
	source := open(t, server.URL("", "", "")+"?tls-ca="+ca)
	// A connection that saw an error is not used again.
	reconnects := func() error {
		if _, err := source.Query(t.Context(), "NO STATEMENT"); err == nil {
			t.Fatal("the server takes everything")
		}
		return source.Ready(t.Context())
	}
	must.OK(t, source.Ready(t.Context()))
	use(certs.OtherCA)
	must.Fail(t, reconnects(), "certificate")
	must.OK(t, os.Remove(ca))
	must.Fail(t, reconnects(), fs.ErrNotExist)
	use(certs.CA)
	must.OK(t, reconnects())
}

// testCleartextPassword: the PAM plugin asks for the password itself, as RDS IAM and LDAP do, and
// gets it over TLS alone. It knows nobody of that name, and says so once it has the password.
func testCleartextPassword(t *testing.T, server *testenv.DatabaseServer) {
	must.Get(server.Root(t).Exec("CREATE USER nobody_there@'%' IDENTIFIED VIA pam USING 'bridge_test'"))(t)
	url := server.URL("nobody_there", "s3cret", "")
	for _, parameters := range []string{"", "?tls=preferred"} {
		mustRefuse(t, url+parameters, inspect.SourceTLS, "mysql_clear_password,RDS IAM,?tls=true,verify-ca")
		if err := open(t, url+parameters).Ready(t.Context()); strings.Contains(err.Error(), "allowCleartextPasswords") {
			t.Error(err)
		}
	}
	// PAM takes seconds to refuse one.
	mustRefuse(t, url+"?tls=skip-verify", inspect.SourceLogin, "Access denied")
}

func testWritableReplica(t *testing.T, server *testenv.DatabaseServer) {
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY)")
	b.exec(t, "CREATE USER reader@'%' IDENTIFIED BY 'p'; GRANT SELECT ON "+b.name+".* TO reader@'%'")
	for _, step := range []struct {
		name, statement string
		writer          bool
		// why is in the traits, summary in what a check says of the server; behind "not " it is
		// not.
		why, summary string
	}{
		{"without the privilege", "DO 0", true, "may not see", "SELECT on performance_schema.replication_connection_configuration"},
		{"a server that copies from none", "GRANT SELECT ON performance_schema.replication_connection_configuration TO reader@'%'", true, "not may not see", "takes the writes"},
		{"a replica", "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'nobody'", false, "", "may not see whether it runs"},
		{"a replica that is stopped", "GRANT REPLICATION CLIENT ON *.* TO reader@'%'", false, "channel that is stopped", "channel that is stopped"},
		{"a replica that runs", "START REPLICA", false, "copies from another", "not stopped"},
		{"a server that was promoted", "STOP REPLICA; RESET REPLICA ALL", true, "", "takes the writes"},
	} {
		b.exec(t, step.statement)
		s := open(t, server.URL("reader", "p", b.name))
		traits := must.Get(s.Shard(source.Spec{Table: "t", ID: "id"}).Traits(t.Context()))(t)
		says := func(text, want string) bool {
			want, not := strings.CutPrefix(want, "not ")
			return strings.Contains(text, want) != not
		}
		if summary := s.Inspect(t.Context(), nil, 1).Server.Summary; traits.Writer != step.writer || traits.Evidence != step.writer || !says(traits.WriterWhy, step.why) || !says(summary, step.summary) {
			t.Errorf("%s: %+v, %s", step.name, traits, summary)
		}
	}
}

func testTraitsOfARealServer(t *testing.T, product testenv.Product, server *testenv.DatabaseServer) {
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50) NOT NULL UNIQUE, at DATETIME)")
	grants := []string{"SELECT ON t"}
	if product.IsMySQL() {
		// Without this privilege MySQL does not tell.
		grants = append(grants, "REPLICATION CLIENT ON *.*")
	}
	s := b.login(t, grants...).Shard(source.Spec{Table: "t", ID: "id", Key: []string{"name"}, UniqueKey: true, Modified: "at"})
	expect := func(t *testing.T, writer bool, why string) (identity string) {
		t.Helper()
		traits, err := s.Traits(t.Context())
		if err != nil || traits.Writer != writer || !strings.Contains(traits.WriterWhy, why) {
			t.Errorf("writer %t because %q, %v; want %t because of %q", traits.Writer, traits.WriterWhy, err, writer, why)
		}
		page := sourcetest.Read(t, s, source.Query{Limit: 1})
		if traits.Server != page.Server || traits.Evidence != writer || !traits.Uncommitted {
			t.Errorf("evidence %t (%s) of %q, the page is from %q", traits.Evidence, traits.EvidenceWhy, traits.Server, page.Server)
		}
		return page.Server
	}
	writer := expect(t, true, "copies from no other")
	t.Run("while it is read-only it is not the writer, and another server for all who read", func(t *testing.T) {
		tx := begin(t, b)
		must.Get(tx.ExecContext(t.Context(), "INSERT INTO t (id, name) VALUES (7, 'open')"))(t)
		b.exec(t, "SET GLOBAL read_only = ON")
		if now := expect(t, false, "read_only"); now == writer {
			t.Errorf("the replica is still taken for %q", now)
		}
		// What is in flight shows all the same.
		expectIDs(t, readIDs(t, s, true, source.Range{First: 1, Last: 9}), 7)
		must.OK(t, tx.Rollback())
		b.exec(t, "SET GLOBAL read_only = OFF")
		if now := expect(t, true, ""); now != writer {
			t.Errorf("the writer is taken for %q, not for %q", now, writer)
		}
	})
	t.Run("while it becomes read-only and back again and again, no answer takes the writer for a replica", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var switching sync.WaitGroup
		switching.Go(func() {
			for ctx.Err() == nil {
				// What follows would fail where one of these does.
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
	if product.IsMySQL() {
		return
	}
	t.Run("while it copies from another server it is not", func(t *testing.T) {
		b.exec(t, "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='nobody'; START SLAVE")
		defer b.exec(t, "STOP SLAVE; RESET SLAVE ALL")
		eventually(t, func() bool {
			traits, err := s.Traits(t.Context())
			return err == nil && !traits.Writer && strings.Contains(traits.WriterWhy, "copies from another")
		})
	})
}

func testNextIDAfterARestart(t *testing.T, server *testenv.DatabaseServer) {
	b := newBase(t, server)
	b.exec(t, "CREATE TABLE fresh (id INT AUTO_INCREMENT PRIMARY KEY)")
	b.exec(t, "CREATE TABLE filled (id INT AUTO_INCREMENT PRIMARY KEY); INSERT INTO filled VALUES (5)")
	expect := func(table string, want uint64) {
		t.Helper()
		if next, err := b.source.Shard(source.Spec{Table: table, ID: "id"}).NextID(t.Context()); err != nil || next != want {
			t.Errorf("next id of %s: %d, %v; want %d", table, next, err, want)
		}
	}
	expect("fresh", 1)
	server.Stop()
	// As a reader of Aurora.
	server.StartWith(t, "--innodb-read-only")
	expect("filled", 6)
	page := sourcetest.Read(t, b.source.Shard(source.Spec{Table: "filled", ID: "id"}), source.Query{Limit: 1})
	if !strings.HasSuffix(page.Server, " "+source.ReadOnly) {
		t.Errorf("a server with innodb_read_only is %q", page.Server)
	}
}
